"""Printing: results as tables for a person, or as JSON for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lipcert.chart.facts import Shown
from lipcert.chart.numbers import counted
from lipcert.problem.network import Network

if TYPE_CHECKING:
    from lipcert.method.result import Result

Rows = Sequence[tuple[str, str]]


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; NaN and infinity are refused."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


class _Console(Console):
    """A console that reports a reader who has left; rich would exit with code 1, which means "not certified" here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


WIDTH = 160  # columns where stdout is no terminal: a line with a hash fits


def console() -> Console:
    """Stdout, as wide as the terminal where there is one."""
    return _Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def print_facts(title: str, rows: Rows) -> None:
    """Print a title in bold, then names and values in two columns; long values continue on the next line."""
    print_rows(f"[bold]{escape(title)}[/bold]", rows)


def print_result(found: Shown, net: Network, name: str, as_json: bool = False) -> None:
    """Print a result; the row of the network has the name of its file, which a result does not know."""
    if as_json:
        print_json(found.to_dict())
        return
    facts = found.facts()
    rows = [(key, f"{name}   {sizes(net)}" if key == "network" else value) for key, value in facts.rows]
    print_facts(facts.title, rows)


def print_verdict(result: Result, limit: float, subject: str = "the constant") -> None:
    """Say in a sentence whether the constant is below the limit."""
    from lipcert.method.result import is_below  # here, so that `verify` loads no method

    match is_below(limit, result.lower, result.upper):
        case "proved":
            said = f"[bold]proved[/bold]: {subject} is below {limit:g}"
        case "refuted":
            said = f"[bold]refuted[/bold]: {subject} is not below {limit:g}; at a point of the region it is that large"
        case "open":
            said = f"[bold]not decided[/bold]: neither is {subject} proved below {limit:g} nor seen above it"
    console().print(said)


def print_rows(headline: str, rows: Rows) -> None:
    """Print names and values below a headline that has markup of its own."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    out = console()
    out.print(headline)
    out.print(table)


def grid(*heads: str) -> Table:
    """An empty table with these heads, whose cells continue on the next line where the terminal is narrow."""
    table = Table()
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def sizes(net: Network) -> str:
    """The widths of a network and its neurons, as 64-32-10, 32 hidden neurons."""
    return f"{'-'.join(map(str, net.shape))}, {counted(net.neurons, 'hidden neuron')}"
