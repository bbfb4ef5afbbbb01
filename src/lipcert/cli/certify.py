"""`lipcert certify`: a network and a data set in, a verdict for every input out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lipcert.cli.options import Reading, json_option, memory_option, network_argument, reading_options
from lipcert.cli.show import console, grid, print_json
from lipcert.cli.stages import StageDisplay
from lipcert.errors import InputError
from lipcert.method import table

if TYPE_CHECKING:
    from lipcert.robustness.result import Certification

_METHODS = tuple(method.name for method in table.METHODS if method.for_many)


@click.command("certify", short_help="Which inputs of DATA keep their class within a radius?")
@network_argument
@click.argument("data", metavar="DATA")
@click.option("--radius", required=True, metavar="EPS[,EPS...]", help="How far inputs may move.")
@click.option("--norm", default="inf", show_default=True, metavar="NORM", help="Norm of the radius: inf, 2 or 1.")
@click.option("--labels", metavar="FILE", help="True classes (.npy, .npz, idx, .csv). Default: in DATA, or predicted.")
@click.option("--scale", metavar="S", help="Inputs are DATA times S, e.g. 1/255; needed for whole numbers.")
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Take the first N inputs only.")
@click.option("--domain", type=float, nargs=2, metavar="LO HI", help="Where input values live, e.g. 0 1 for pixels.")
@click.option("--clip", is_flag=True, help="Perturbed inputs stay in the domain too.")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"How constants are proved: {', '.join(_METHODS)}.",
)
@click.option("--solver", default="auto", show_default=True, metavar="NAME", help="auto, rank-two or low-rank.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds for each pair.")
@click.option("--lower", is_flag=True, help="Look for lower bounds of the constants too.")
@click.option("--refine", type=float, default=0.0, metavar="S", help="Seconds for inputs that are left open.")
@click.option("--attack/--no-attack", "attacks", default=True, help="Look for counterexamples, or not.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of the attacks."
)
@click.option("--out", metavar="DIR", help="Keep certificates and results there, piece by piece.")
@click.option("--resume", is_flag=True, help="Go on with the job in --out; what it holds is proved again first.")
@click.option("--recheck", is_flag=True, help="Nothing more: --resume proves what it uses anyway.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Processes to use."
)
@click.option(
    "--cluster", "scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port, instead of processes."
)
@memory_option
@reading_options
@json_option
def certify_command(
    network: str,
    data: str,
    radius: str,
    labels: str | None,
    scale: str | None,
    first: int | None,
    out: str | None,
    resume: bool,
    reading: Reading,
    as_json: bool,
    **options: Any,
) -> int:
    """Which inputs of DATA keep their class when every value (or the input, in --norm 2 or 1) may move by up to EPS?

    One set of constants, one for each pair of classes, is proved for the whole data set; every input then gets its
    certified radius at once. Counterexamples are looked for from the other side, so that each input ends certified,
    attacked or undecided. Exit code 0 when the constants were proved, 1 when some were not, 2 on bad input.

    \b
    lipcert certify net.npz t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz \\
        --scale 1/255 --domain 0 1 --radius 0.02,0.05,0.1 --out job
    lipcert certify net.npz points.npy --radius 0.05 --json
    """
    from lipcert.robustness.certify import certify  # here, so that other commands start fast
    from lipcert.robustness.data import read_data

    radii = _radii(radius)
    if resume and out is None:
        raise InputError("--resume needs --out DIR, the job to go on with")
    net = reading.network(network)
    kept = read_data(data, labels, scale)
    kept = kept if first is None else kept.first(first)
    with StageDisplay() as display:
        result = certify(
            net,
            kept,
            radius=radii,
            out=out,
            resume=resume,
            network_file=network,
            on_progress=display.update,
            **options,  # by the names that `certify` has for them
        )
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, out)
    return 0 if result.complete and not result.failed and all(p.upper is not None for p in result.pairs) else 1


def _radii(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radius {text}: give a number, or several with commas between them") from None


def _show(result: Certification, out: str | None) -> None:
    """Shares of all inputs, misclassified ones included: certified means correct and certified."""
    screen, total = console(), len(result.labels)
    right = total - int(result.wrong.sum())
    known = [p.upper for p in result.pairs if p.upper is not None]
    screen.print(f"[bold]{total:,} inputs[/bold], {result.classes} classes, {right:,} classified correctly")
    if known:
        count = f"{len(known)} of {result.classes * (result.classes - 1) // 2}"
        screen.print(f"constants: {count} proved ({result.method}), from {min(known):.6g} to {max(known):.6g}")
    table = grid("radius", "certified", "attacked", "undecided")
    for radius in result.radii:
        counts = result.counts(radius)
        shares = [f"{n:,} ({100 * n / total:.2f} %)" for n in counts.values()]
        table.add_row(f"{radius:g}", *shares)
    screen.print(table)
    if not result.complete:
        screen.print("not complete: go on with --resume" if out else "not complete")
    for name, error in result.failed:
        screen.print(f"failed: {name}: {error}", markup=False)
    for note in result.notes:
        screen.print(f"note: {note}", markup=False)
    where = f"   kept in {out}; prove it again with lipcert verify {out}" if out else ""
    screen.print(f"{result.seconds:.1f} s{where}", markup=False, soft_wrap=True)  # a path is copied in one piece
