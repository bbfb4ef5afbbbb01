"""`lipcert reproduce`: the tables and figures of the paper, computed again beside what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lipcert.cli.live import StageDisplay
from lipcert.cli.options import options
from lipcert.cli.paths import INPUT
from lipcert.cli.show import console, print_json
from lipcert.errors import InputError

if TYPE_CHECKING:
    from lipcert.paper.run import Reproduction


@click.command("reproduce")
@click.argument("target", metavar="TARGET")
@click.option("--quick", is_flag=True, help="Two networks, a few sparsities, 10 s for each entry: minutes, not days.")
@options(folder={"help": "Where to write; goes on with what is there. Default: reproduction[-quick]."})
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes. Default: one for each core.")
@options(
    scheduler={"help": "A Dask scheduler instead; it keeps no memory limit."},
    time_limit={"default": None, "help": "Seconds for each entry. Default: 300, quick 10."},
)
@click.option("--memory-limit", type=float, metavar="GIB", help="Address space of each entry. Default: 4.")
@click.option(
    "--weights",
    type=INPUT,
    multiple=True,
    metavar="FILE",
    help="A trained network, of one output for table2, of ten for table4 and matrix; may be given twice.",
)
@click.option("--images", type=INPUT, metavar="FILE", help="Images for table4 and matrix (.npy, .npz, idx, .csv).")
@options(
    labels={"help": "Their classes."},
    scale={"help": "Pixels are IMAGES times S, e.g. 1/255; needed for whole numbers."},
)
@options("as_json")
def reproduce_command(target: str, quick: bool, folder: str | None, as_json: bool, **given: Any) -> int:
    """Compute TARGET of the paper again and put the published numbers beside.

    TARGET is table1, table2, table3, table4, figure-global-1, figure-local-1, figure-global-2, figure-local-2, matrix
    or all. Each writes TARGET.csv, TARGET.md and TARGET.svg into DIR. Every entry (a network, a region, a method) runs
    alone in a process with limits; one that runs out of time or memory says so in the tables, and the method is not
    tried on larger networks after two of these. Run the same command again to go on after Ctrl-C or a kill. Without
    the network of the paper (--weights) table2, table4 and matrix bound one that is trained here, and compare nothing.

    Exit code 0 when all was done, 1 when something was interrupted or failed, 2 on bad input, and when a target could
    not run because an extra is missing (the others are done first).

    \b
    lipcert reproduce all --quick
    lipcert reproduce table2 --weights sdp_nn.mat --time-limit 300
    lipcert reproduce table4 --weights net.npz --images t10k-images-idx3-ubyte.gz \\
        --labels t10k-labels-idx1-ubyte.gz --scale 1/255
    """
    from lipcert.paper.run import FULL_SECONDS, MEMORY, QUICK_SECONDS, RunOptions, cores, reproduce
    from lipcert.paper.targets import check_target
    from lipcert.paper.trained import read_files
    from lipcert.paper.training import MISSING

    targets = check_target(target)
    jobs, scheduler, limit, memory = (given[name] for name in ("jobs", "scheduler", "time_limit", "memory_limit"))
    if jobs is not None and scheduler is not None:
        raise InputError("--jobs and --cluster exclude each other; give one of them")
    limit = limit if limit is not None else QUICK_SECONDS if quick else FULL_SECONDS
    settings = RunOptions(quick, limit, MEMORY if memory is None else memory, jobs or cores(), scheduler)
    settings.check()
    files = read_files(*(given[name] for name in ("weights", "images", "labels", "scale")))
    for name in targets:
        if (said := files.says(name)) is not None:
            click.echo(f"{name}: {said}", err=True)
    with StageDisplay() as display:
        place = folder or ("reproduction-quick" if quick else "reproduction")
        result = reproduce(targets, place, files, settings, display.update)
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result)
    if any(why == MISSING for _, why in result.skipped):
        return 2
    return 0 if result.complete else 1


def _show(result: Reproduction) -> None:
    out = console()
    for target, line in result.lines:
        out.print(f"{target}: {line}", markup=False)
    if result.one_layer.published:
        out.print(f"one hidden layer, all targets: {result.one_layer}", markup=False)
    if result.failed:
        out.print(f"{len(result.failed)} entries were stopped (out of time or memory) or failed: see the tables")
    if result.resumed:
        out.print(f"{result.resumed} entries were there already")
    for note in result.notes:
        out.print(f"note: {note}", markup=False)
    for target, why in result.skipped:
        out.print(f"{target}: not done, {why}", markup=False)
    if not result.complete:
        out.print("not complete: run the same command again to go on")
    out.print(f"written to {result.folder}: {', '.join(path.name for path in result.files)}", markup=False)
