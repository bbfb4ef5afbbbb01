"""`lipcert certify`: a network and a data set in, a verdict for every input out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lipcert.chart.numbers import percent, rounded_up
from lipcert.cli.live import StageDisplay
from lipcert.cli.options import ReadingOptions, network_argument, options, reading_options
from lipcert.cli.paths import INPUT
from lipcert.cli.show import console, grid, print_json
from lipcert.errors import InputError
from lipcert.files.tables import number
from lipcert.method import table

if TYPE_CHECKING:
    from lipcert.robustness.result import Certification

_CLIP = "--clip"
_METHODS = tuple(method.name for method in table.METHODS if method.for_many)


class _ClipOrFlag(click.Command):
    """A command where `--clip LO HI`, the form of `bound`, means `--domain LO HI --clip`; `--clip` alone is a flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index(_CLIP) if _CLIP in args else len(args)
        ends = args[place + 1 : place + 3]
        if len(ends) == 2 and all(_is_number(end) for end in ends):
            args = [*args[:place], "--clip-to", *args[place + 1 :]]
        return super().parse_args(ctx, args)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@click.command("certify", short_help="Which inputs of DATA keep their class within a radius?", cls=_ClipOrFlag)
@network_argument
@click.argument("data", metavar="DATA", type=INPUT)
@options(
    *("radius", "norm", "labels", "label_column", "scale", "first"),
    radius={
        "type": str,
        "required": True,
        "metavar": "EPS[,EPS...]",
        "help": "How far inputs may move, 8/255 say.",
    },
    norm={"help": "Norm of the radius: inf, 2 or 1."},
    labels={"help": "True classes (.npy, .npz, idx, .csv). Default: in DATA, or predicted."},
)
@click.option("--domain", type=float, nargs=2, metavar="LO HI", help="Where input values live, e.g. 0 1 for pixels.")
@click.option(_CLIP, is_flag=True, help="Perturbed inputs stay in the domain too; --clip LO HI says both, as in bound.")
@click.option("--clip-to", type=float, nargs=2, hidden=True)
@options(
    *("method", "solver", "time_limit", "lower"),
    method={"help": f"How constants are proved: {', '.join(_METHODS)}."},
    solver={"help": "auto, rank-two or low-rank."},
    time_limit={"default": None, "help": "Seconds for each pair. Default: all of them as long as linear bounds."},
    lower={"default": False, "help": "Look for lower bounds of the constants too, or not."},
)
@click.option(
    "--refine", type=float, default=0.0, metavar="S", help="Seconds for relaxations of inputs that are still open."
)
@click.option(
    "--per-input/--shared", default=None, help="Proofs input by input only, or all constants. Default: by a trial."
)
@click.option("--attack/--no-attack", "attacks", default=True, help="Look for counterexamples, or not.")
@options(
    *("seed", "folder", "resume"),
    seed={"help": "Seed of the attacks."},
    folder={"help": "Keep certificates and results in this folder, piece by piece."},
    resume={"help": "Go on with the job in --out; what it holds is proved again first."},
)
@click.option("--recheck", is_flag=True, help="No effect: --resume proves everything that it uses.")
@options("workers", "scheduler", "memory")
@reading_options
@options("as_json")
def certify_command(
    network: str,
    data: str,
    radius: str,
    folder: str | None,
    reading: ReadingOptions,
    as_json: bool,
    **given: Any,
) -> int:
    """Which inputs of DATA keep their class when every value (or the input, in --norm 2 or 1) may move by up to EPS?

    One set of constants, one for each pair of classes, is proved for the whole data set; every input then gets its
    certified radius at once. Where a trial of two pairs shows that constants certify little, and with --per-input,
    every input is proved by itself: linear bounds first, and relaxations with --refine. Counterexamples are looked for
    from the other side, so that each input ends certified, attacked or undecided. --time-limit is for each pair: ten
    classes have 45 of them. Exit code 0 when the job is complete and no constant failed, 1 otherwise, 2 on bad input.

    \b
    lipcert certify net.npz t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz \\
        --scale 1/255 --domain 0 1 --radius 0.02,0.05,0.1 --out job
    lipcert certify net.npz points.npy --radius 0.05 --json
    lipcert certify net.npz table.csv --label-column class --radius 0.05
    """
    from lipcert.robustness.certify import certify  # here, so that other commands start fast
    from lipcert.robustness.data import Origin

    radii = _radii(radius)
    if given["resume"] and folder is None:
        raise InputError("--resume needs --out DIR, the job to go on with")
    _settle_clip(given)
    origin = Origin(data, **{name: given.pop(name) for name in ("labels", "scale", "first", "label_column")})
    net = reading.network(network)
    kept = origin.read()
    with StageDisplay() as display:
        result = certify(
            net,
            kept,
            radius=radii,
            out=folder,
            network_file=network,
            on_progress=display.update,
            **given,  # named as the keywords of `certify`
        )
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, folder)
    return 0 if result.complete and not result.failed and all(p.upper is not None for p in result.pairs) else 1


def _settle_clip(given: dict[str, Any]) -> None:
    """Translate both forms of --clip into the keywords `domain` and `clip` of `certify`."""
    ends = given.pop("clip_to")
    if ends is None:
        return
    if given["domain"] not in (None, ends):
        raise InputError("--clip LO HI and --domain name two domains; give one of them")
    given |= {"domain": ends, "clip": True}


def _radii(text: str) -> list[float]:
    try:
        return [number(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radius {text}: give a number, or several with commas between them") from None


def _show(result: Certification, out: str | None) -> None:
    """Print the result; shares are of all inputs, and a misclassified input is never counted as certified."""
    from lipcert.robustness.result import PREDICTED  # here, so that other commands start fast

    screen, total = console(), len(result.labels)
    right = f"{total - int(result.wrong.sum()):,} classified correctly"
    if result.data.labels is None:
        right = "no labels: the class that the network predicts counts as right"
    known = [p.upper for p in result.pairs if p.upper is not None]
    screen.print(f"[bold]{result.sentence}[/bold]")
    screen.print(f"{result.classes} classes, {right}")
    if known:
        count = f"{len(known)} of {result.classes * (result.classes - 1) // 2}"
        span = f"from {rounded_up(min(known), 6)} to {rounded_up(max(known), 6)}"
        screen.print(f"constants: {count} proved ({result.method}), {span}")
    table = grid("radius", "certified", "attacked", "undecided")
    for radius in result.radii:
        counts = result.counts(radius)
        shares = [f"{n:,} ({percent(n, total)})" for n in counts.values()]
        table.add_row(f"{radius:g}", *shares)
    screen.print(table)
    if not result.complete:
        screen.print("not complete: go on with --resume" if out else "not complete")
    for name, error in result.failed:
        screen.print(f"failed: {name}: {error}", markup=False)
    for note in result.notes:
        if note == PREDICTED:
            continue  # printed above
        screen.print(f"note: {note}", markup=False)
    where = f"   kept in {out}; prove it again with lipcert verify {out}" if out else ""
    screen.print(f"{result.seconds:.1f} s{where}", markup=False, soft_wrap=True)  # the path stays in one piece
