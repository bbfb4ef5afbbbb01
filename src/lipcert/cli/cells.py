"""`lipcert cells`: a network file in, constants on all cells of a box out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipcert.cli.live import ProgressDisplay
from lipcert.cli.options import (
    OUTPUT,
    REGION,
    WEIGHTS,
    ReadingOptions,
    TargetOptions,
    network_argument,
    options,
    reading_options,
    target_options,
)
from lipcert.cli.paths import CELL_TABLE, CELLS
from lipcert.cli.question import ONLY_BOXES, QuestionOptions, question_options
from lipcert.cli.show import print_result
from lipcert.errors import InputError
from lipcert.problem.region import Box


@click.command("cells", short_help="Constants on all cells of a box, a grid or an adaptive partition.")
@network_argument
@question_options(*(name for name in REGION if name not in ONLY_BOXES), *OUTPUT, *WEIGHTS, refused=ONLY_BOXES)
@click.option("--cells", metavar="N[,N...]", help="A grid: cells along every input, or one number for each input.")
@click.option("--adaptive", is_flag=True, help="Split the worst cells until all are good enough, instead of a grid.")
@options(gap={"default": None, "help": "Good enough: upper - lower <= G times the region's constant."})
@click.option("--target", type=float, metavar="T", help="Good enough: upper <= T.")
@click.option("--largest", type=float, metavar="G", help="Good enough: upper <= (1 + G) times the region's constant.")
@options(
    *("time_limit", "work", "max_cells", "folder", "resume", "workers", "scheduler"),
    folder={"help": "Keep blocks of cells in this folder, and at the end all results."},
)
@target_options(CELL_TABLE, CELLS, "all cells", "A picture over two inputs")
@click.option("--axes", default="0,1", show_default=True, metavar="I,J", help="The two inputs of the picture.")
@click.option(
    "--at", multiple=True, metavar="xK=V", help="Fix an input of the picture; the largest over all others is shown."
)
@reading_options
@options("as_json")
def cells_command(
    network: str,
    question: QuestionOptions,
    reading: ReadingOptions,
    targets: TargetOptions,
    as_json: bool,
    **given: Any,
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
    from lipcert.report.heatmap import cell_map, check_view
    from lipcert.search.cells.partition import partition  # here, so that other commands start fast

    given["cells"] = _grid(given["cells"], given.pop("adaptive"))
    view = _axes(given.pop("axes")), dict(_fixed(text) for text in given.pop("at"))
    net = reading.network(network)
    region, about = question.region(net.inputs)
    if targets.plot is not None:
        check_view(net.inputs, *view)
        _check_inside(region, *view)
    with ProgressDisplay() as display:
        found = partition(
            net,
            region,  # type: ignore[arg-type]  # `partition` refuses a region that is no box
            on_progress=display.update,
            **question.keywords(),
            **given,  # named as the keywords of `partition`
        )
    found = replace(found, notes=(*found.notes, *about))
    print_result(found, net, Path(network).name, as_json)
    targets.write(found, lambda: cell_map(found, *view))
    return 0 if found.certified and bool(found.good.all()) else 1


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
