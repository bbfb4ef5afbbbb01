"""Printing: results as tables for a person, or as JSON for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lipcert.chart.numbers import counted
from lipcert.problem.network import Network

Rows = Sequence[tuple[str, str]]


def print_json(value: dict[str, Any]) -> None:
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


def print_rows(headline: str, rows: Rows) -> None:
    """The same below a headline that has markup of its own."""
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
