"""What a person reads, and what a machine reads."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lipcert.method.result import Result
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Ball, Box, Region


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


def show_result(result: Result, net: Network, name: str) -> None:
    """The bracket, in words."""
    out = console()
    out.print(f"[bold]Lipschitz constant[/bold] of {result.output} {in_norm(result.norm)}, on {words(result.region)}")
    table = facts()
    proved = f"{result.upper:.7g}   proved ({result.method})" if result.certified else "none   nothing was proved"
    table.add_row("upper", proved)
    if result.best is not None:
        table.add_row("lower", f"{result.best.value:.7g}   attained at a point of the region ({result.best.method})")
    gap = "unknown" if result.gap is None else f"{100 * result.gap:.3g} %"
    table.add_row("gap", f"{gap}   (upper - lower) / lower")
    table.add_row("network", f"{escape(name)}   {'-'.join(map(str, net.shape))}, {net.neurons} hidden neurons")
    table.add_row("time", f"{result.seconds:.2f} s   {result.status.value}")
    if result.claim is not None:
        table.add_row("claim", str(result.claim))
    for note in result.notes:
        table.add_row("note", escape(note))  # names from the file are in it
    out.print(table)


def in_norm(norm: Norm) -> str:
    """The norms as a phrase."""
    return f"in the {norm}-norm" if norm.out is None else f"from the {norm.p}-norm to the {norm.out}-norm"


def words(region: Region) -> str:
    """The region as a phrase."""
    if isinstance(region, Ball):
        clip = "" if region.clip is None else f", values in [{region.clip[0]:g}, {region.clip[1]:g}]"
        return f"a Euclidean ball of radius {region.radius:g}{clip}"
    if not isinstance(region, Box):
        return "the whole input space"
    lo, hi = f"{region.radius.min():g}", f"{region.radius.max():g}"
    radius = lo if lo == hi else f"{lo} to {hi}"
    return f"a box of radius {radius}, values in [{region.lo.min():.6g}, {region.hi.max():.6g}]"
