"""What a person reads, and what a machine reads."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from lipcert.chart.numbers import counted
from lipcert.problem.network import Network


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout; NaN and infinity cannot occur in it."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


class _Console(Console):
    """Rich leaves with exit code 1 when the reader has left, which here would mean "not certified"."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


WIDTH = 160  # enough for hashes, when nobody watches


def console() -> Console:
    """The terminal's width when somebody watches."""
    return _Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def facts() -> Table:
    """Names and values in two columns; what does not fit a narrow terminal goes on in the next line, all of it."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def grid(*heads: str) -> Table:
    """A table with heads that loses nothing on a narrow terminal either."""
    table = Table()
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def sizes(net: Network) -> str:
    """As 64-32-10, 32 hidden neurons."""
    return f"{'-'.join(map(str, net.shape))}, {counted(net.neurons, 'hidden neuron')}"
