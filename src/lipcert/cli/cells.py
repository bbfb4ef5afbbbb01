"""`lipcert cells`: a network file in, constants on all cells of a box out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from lipcert.cli.options import (
    BoxQuestion,
    Reading,
    box_question_options,
    json_option,
    network_argument,
    reading_options,
)
from lipcert.cli.paths import CELL_TABLE, CELLS, CERTIFICATE, FOLDER, PNG, SVG, OutputFile
from lipcert.cli.progress import ProgressDisplay
from lipcert.cli.show import console, facts, print_json, sizes
from lipcert.cli.targets import write_drawing
from lipcert.cli.weights import Weights, weights_options
from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.region import Box


@click.command("cells", short_help="Constants on all cells of a box, a grid or an adaptive partition.")
@network_argument
@box_question_options
@weights_options
@click.option("--cells", metavar="N[,N...]", help="A grid: cells along every input, or one number for each input.")
@click.option("--adaptive", is_flag=True, help="Split the worst cells until all are good enough, instead of a grid.")
@click.option("--gap", type=float, metavar="G", help="Good enough: upper - lower <= G times the region's constant.")
@click.option("--target", type=float, metavar="T", help="Good enough: upper <= T.")
@click.option("--largest", type=float, metavar="G", help="Good enough: upper <= (1 + G) times the region's constant.")
@click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds to spend at most."
)
@click.option("--work", type=float, metavar="W", help="Counted work instead of seconds, as in `lipcert bound`.")
@click.option("--max-cells", type=int, default=1_000_000, show_default=True, metavar="N", help="Not more cells.")
@click.option(
    "--out", "folder", type=FOLDER, metavar="DIR", help="Keep blocks of cells there, and at the end all results."
)
@click.option("--resume", is_flag=True, help="Go on with the job in --out.")
@click.option("--workers", type=int, default=1, show_default=True, metavar="N", help="Processes to use.")
@click.option(
    "--cluster", "scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port, instead of processes."
)
@click.option("--csv", type=OutputFile(CELL_TABLE), metavar="FILE.csv", help="Write all cells as a table.")
@click.option("--npz", type=OutputFile(CELLS), metavar="FILE.npz", help="Write all cells as arrays.")
@click.option(
    "--certificate",
    type=OutputFile(CERTIFICATE),
    metavar="FILE.npz",
    help="Write the proof of all cells, which `lipcert verify` checks.",
)
@click.option("--plot", type=OutputFile(SVG, PNG), metavar="FILE.svg", help="A picture over two inputs (.svg or .png).")
@click.option("--axes", default="0,1", show_default=True, metavar="I,J", help="The two inputs of the picture.")
@click.option(
    "--at", multiple=True, metavar="xK=V", help="Fix an input of the picture; the largest over all others is shown."
)
@reading_options
@json_option
def cells_command(
    network: str,
    question: BoxQuestion,
    reading: Reading,
    weights: Weights,
    cells: str | None,
    adaptive: bool,
    as_json: bool,
    axes: str,
    at: tuple[str, ...],
    **options: Any,
) -> int:
    """Prove the Lipschitz constant of one output, or of all, of NETWORK on every cell of a box.

    A grid (--cells), or an adaptive partition (--adaptive) that is refined until every cell is good enough by one of
    --gap, --target and --largest; with a grid these sharpen the cells' constants by splits inside them. At the time
    limit, or on Ctrl-C, what is proved by then is printed. Exit code 0 when every cell has a proved constant that is
    good enough, 1 when not, 2 on bad input.

    \b
    lipcert cells net.onnx --radius 1 --output 0 --cells 40 --largest 0.05 --certificate cells.npz
    lipcert cells net.onnx --radius 1 --output 0 --adaptive --gap 0.01 --out job
    lipcert cells net.onnx --radius 1 --output 0 --cells 40,40,1 --plot cells.svg --axes 0,1 --at x2=0.5
    lipcert verify cells.npz --network net.onnx
    """
    from lipcert.cells.door import partition  # here, so that other commands start fast
    from lipcert.report.cells import cell_map, check_view

    question.check()
    grid = _grid(cells, adaptive)
    targets = {name: options.pop(name) for name in ("csv", "npz", "certificate", "plot")}
    view = _axes(axes), dict(_fixed(text) for text in at)
    net = reading.network(network)
    region, about = question.place(net.inputs)
    if targets["plot"] is not None:
        check_view(net.inputs, *view)
        _check_inside(region, *view)
    with ProgressDisplay() as display:
        found = partition(
            net,
            region,  # type: ignore[arg-type]  # what is no box is refused there, in words
            cells=grid,
            output=question.choice,
            **weights.wishes(),
            norm=question.norm,
            output_norm=question.output_norm,
            on_progress=display.update,
            **options,  # by the names that `partition` has for them
        )
    if as_json:
        print_json(found.to_dict() | {"notes": [*found.notes, *about]})
    else:
        _show(found, net, Path(network).name, about)
    for name in ("csv", "npz"):
        if targets[name] is not None:
            found.save(targets[name])
    if targets["certificate"] is not None:
        found.certificate.save(targets["certificate"])
    if targets["plot"] is not None:
        write_drawing(targets["plot"], cell_map(found, *view))
    return 0 if found.certified and bool(found.good.all()) else 1


def _show(found: Any, net: Network, name: str, about: tuple[str, ...]) -> None:
    out, table, short = console(), facts(), found.facts()
    out.print(f"[bold]{escape(short.title)}[/bold]")
    for head, value in short.rows:
        table.add_row(head, escape(value))
    table.add_row("network", f"{escape(name)}   {sizes(net)}")
    for note in (*found.notes, *about):
        table.add_row("note", escape(note))
    out.print(table)


def _grid(cells: str | None, adaptive: bool) -> int | list[int] | None:
    if adaptive == (cells is not None):
        raise InputError("give --cells N (a grid) or --adaptive, one of both")
    if cells is None:
        return None
    try:
        counts = [int(part) for part in cells.split(",")]
    except ValueError:
        raise InputError(f"--cells {cells}: give a whole number, or one for each input with commas between") from None
    return counts[0] if len(counts) == 1 else counts


def _axes(text: str) -> list[int]:
    try:
        return [int(part.strip().removeprefix("x")) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--axes {text}: give the numbers of two inputs, such as 0,1") from None


def _fixed(text: str) -> tuple[int, float]:
    name, _, value = text.partition("=")
    try:
        return int(name.strip().removeprefix("x")), float(value)
    except ValueError:
        raise InputError(f"--at {text}: give an input and its value, such as x2=0.5") from None


def _check_inside(region: object, axes: list[int], at: dict[int, float]) -> None:
    if not isinstance(region, Box):
        return
    for i in axes:
        if region.lo[i] == region.hi[i]:
            raise InputError(f"--axes: input {i} has no width in the region; choose another")
    for i, value in at.items():
        if not region.lo[i] <= value <= region.hi[i]:
            raise InputError(f"--at x{i}={value:g}: outside the region, [{region.lo[i]:g}, {region.hi[i]:g}]")
