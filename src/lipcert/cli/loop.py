"""`lipcert loop`: does a closed loop with a neural controller contract, and on how large a box?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from lipcert.chart.numbers import rounded_up
from lipcert.cli.live import ProgressDisplay
from lipcert.cli.options import LIMITS, REGION, ReadingOptions, network_argument, options, reading_options
from lipcert.cli.paths import INPUT, NETWORK, OutputFile
from lipcert.cli.question import QuestionOptions, question_options
from lipcert.cli.show import console, print_json, print_result, print_verdict
from lipcert.control import closed_loop, largest_box, loop_weights
from lipcert.control.loop import NotContractingError
from lipcert.errors import InputError
from lipcert.files.tables import read_table
from lipcert.method.bound import bound
from lipcert.method.result import Result, is_below
from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region
from lipcert.rounding import Array

_FILE = "FILE"
_SETTINGS = ("method", "solver", *LIMITS, "gap", "below", "seed", "lower", "explain")
_ONE_NORM = dict.fromkeys(
    ("output", "versus", "output_norm"), "the whole loop is bounded, in one norm; leave the option out"
)


@click.command("loop", short_help="Bound the contraction constant of x+ = A x + B NETWORK(C x).")
@network_argument
@click.option("--a", "a", type=INPUT, required=True, metavar=_FILE, help="A, states by states: .npy, .csv or .txt.")
@click.option("--b", "b", type=INPUT, required=True, metavar=_FILE, help="B, states by outputs of the network.")
@click.option(
    "--c", "c", type=INPUT, metavar=_FILE, help="C, inputs of the network by states. Default: it sees the state."
)
@click.option(
    "--weights",
    type=INPUT,
    metavar="FILE|auto",
    help="Weights of the norm: a definite matrix, a vector, or auto: from the loop's Jacobian at the region's middle.",
)
@options(below={"default": 1.0, "show_default": True, "help": "The limit to be proved."})
@click.option(
    "--largest", is_flag=True, help="Find the largest box around the center, up to --radius, below the limit."
)
@options(
    *(name for name in _SETTINGS if name != "below"),
    "certificate",
    certificate={"help": "Write the proof, about the network that --save writes."},
)
@click.option(
    "--save",
    type=OutputFile(NETWORK),
    metavar="FILE.npz",
    help="Write the loop as a network, for bound, jacobian, cells and verify.",
)
@question_options(*REGION, "norm", refused=_ONE_NORM)
@reading_options
@options("as_json")
def loop_command(
    network: str,
    question: QuestionOptions,
    reading: ReadingOptions,
    as_json: bool,
    **given: Any,
) -> int:
    """Bound the contraction constant of the loop x+ = A x + B NETWORK(C x) on a region of states.

    Below one, any two trajectories in the region come closer in every step, in the norm with these weights (norm 2
    where they are a matrix). Exit code 0 when the constant is proved below the limit, 1 when it is refuted or not
    decided, which the last line says.

    \b
    lipcert loop controller.onnx --a A.csv --b B.csv --radius 0.3 --weights auto
    lipcert loop controller.onnx --a A.csv --b B.csv --radius 2 --weights P.npy --largest
    """
    A, B = read_table(given["a"]), read_table(given["b"])
    C = None if given["c"] is None else np.atleast_2d(read_table(given["c"]))
    A, B = np.atleast_2d(A), B[:, None] if B.ndim == 1 else B
    net = reading.network(network)
    loop = closed_loop(net, A, B, C)
    region, _ = question.region(loop.inputs)
    try:
        weights = _weights(given["weights"], net, (A, B, C), region)
    except NotContractingError as error:
        if given["below"] > 1:  # in a given norm the constant may still be below such a limit
            raise
        return _without_weights(str(error), given["below"], as_json)
    matrix = weights is not None and weights.ndim == 2
    norm = "2" if question.norm == "inf" and matrix else question.norm
    asked: dict[str, Any] = {"output": "all", "norm": norm, "input_weights": weights, "output_weights": weights}
    asked |= {name: given[name] for name in _SETTINGS}
    if given["largest"]:
        return _largest(loop, region, given, asked, as_json)
    with ProgressDisplay() as display:
        result = bound(loop, region, **asked, on_progress=display.update)
    _write(given, loop, result)
    if as_json:
        verdict = is_below(given["below"], result.lower, result.upper)
        print_json(result.to_dict() | {"below": given["below"], "is_below": verdict, "contracts": verdict == "proved"})
    else:
        print_result(result, loop, f"loop of {Path(network).name}")
        print_verdict(result, given["below"], "the constant of the loop")
    return 0 if result.upper < given["below"] else 1


def _without_weights(reason: str, limit: float, as_json: bool) -> int:
    """Say that no norm was found: not decided, because a spectral radius in floating point refutes nothing.

    The point where it was computed may also lie on a kink.
    """
    if as_json:
        print_json({"below": limit, "is_below": "open", "contracts": False, "reason": reason})
    else:
        console().print(f"[bold]not decided[/bold]: {reason}")
    return 1


def _largest(loop: Network, region: Region, given: dict[str, Any], asked: dict[str, Any], as_json: bool) -> int:
    if not isinstance(region, Box) or len(set(region.radius.tolist())) != 1 or not region.radius[0] > 0:
        raise InputError("--largest is for boxes: give --center and the largest --radius to ask about")
    out = console()

    def tell(radius: float, found: Result) -> None:
        if not as_json:
            out.print(f"radius {radius:<10.5g} constant <= {rounded_up(found.upper, 6)}")

    if given["work"] is not None:
        raise InputError("--largest has a time limit for all its boxes together; leave --work out")
    others = {name: value for name, value in asked.items() if name not in ("below", "work")}
    answer = largest_box(loop, region.center, given["below"], most=float(region.radius[0]), on_try=tell, **others)
    if answer.result is not None:
        _write(given, loop, answer.result)
    if as_json:
        print_json(answer.to_dict())
    elif answer.result is None:
        out.print(f"[bold]not proved[/bold] for any radius, the smallest asked about was {answer.beyond:g}")
    else:
        out.print(
            f"[bold]proved[/bold]: the constant is below {given['below']:g} on the box of radius {answer.radius:g}"
        )
    return 0 if answer.result is not None else 1


def _weights(
    text: str | None, net: Network, matrices: tuple[Array, Array, Array | None], region: Region
) -> Array | None:
    if text is None:
        return None
    A, B, C = matrices
    return loop_weights(net, A, B, region, C) if text == "auto" else read_table(text)


def _write(given: dict[str, Any], loop: Network, result: Result) -> None:
    if given["save"] is not None:
        loop.save(given["save"])
    if given["certificate"] is not None and result.certified:
        result.certificate.save(given["certificate"])
