"""Brackets for a person: the result of `bound` or `loop` as a table, and whether it is below a limit."""

from __future__ import annotations

from rich.markup import escape

from lipcert.cli.show import console, facts, sizes
from lipcert.method.result import Result, is_below
from lipcert.method.union_result import UnionResult
from lipcert.problem.network import Network


def show_verdict(result: Result | UnionResult, limit: float, subject: str = "the constant") -> None:
    """Whether it is below the limit, in a sentence."""
    match is_below(limit, result.lower, result.upper):
        case "proved":
            said = f"[bold]proved[/bold]: {subject} is below {limit:g}"
        case "refuted":
            said = f"[bold]refuted[/bold]: {subject} is not below {limit:g}; at a point of the region it is that large"
        case "open":
            said = f"[bold]not decided[/bold]: neither is {subject} proved below {limit:g} nor seen above it"
    console().print(said)


def show_result(result: Result | UnionResult, net: Network, name: str) -> None:
    """The bracket, in words."""
    out, found = console(), result.facts()
    out.print(f"[bold]{escape(found.title)}[/bold]")
    table = facts()
    for key, value in found.rows:
        table.add_row(key, escape(f"{name}   {sizes(net)}" if key == "network" else value))  # with names of the file
    out.print(table)
