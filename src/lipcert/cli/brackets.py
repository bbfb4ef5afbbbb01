"""The bracket that `bound` and `loop` print: a table, and a sentence about the limit that was asked about."""

from __future__ import annotations

from lipcert.cli.show import console, print_facts, sizes
from lipcert.method.result import Result, UnionResult, is_below
from lipcert.problem.network import Network


def show_verdict(result: Result | UnionResult, limit: float, subject: str = "the constant") -> None:
    """Say in a sentence whether the constant is below the limit."""
    match is_below(limit, result.lower, result.upper):
        case "proved":
            said = f"[bold]proved[/bold]: {subject} is below {limit:g}"
        case "refuted":
            said = f"[bold]refuted[/bold]: {subject} is not below {limit:g}; at a point of the region it is that large"
        case "open":
            said = f"[bold]not decided[/bold]: neither is {subject} proved below {limit:g} nor seen above it"
    console().print(said)


def show_result(result: Result | UnionResult, net: Network, name: str) -> None:
    """Print the facts of a result; the row of the network has the name of its file, which a result does not know."""
    found = result.facts()
    rows = [(key, f"{name}   {sizes(net)}" if key == "network" else value) for key, value in found.rows]
    print_facts(found.title, rows)
