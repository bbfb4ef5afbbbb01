"""`lipcert bound`: a network file in, a proved bracket out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipcert.budget import Budget
from lipcert.cli.brackets import show_result, show_verdict
from lipcert.cli.options import (
    Reading,
    certificate_option,
    cluster_option,
    json_option,
    memory_option,
    network_argument,
    reading_options,
    time_left,
)
from lipcert.cli.progress import ProgressDisplay
from lipcert.cli.question import OUTPUT, REGION, WEIGHTS, Question, question_options
from lipcert.cli.show import print_json
from lipcert.method import table
from lipcert.method.bound import bound, bound_union
from lipcert.method.result import Result, UnionResult, is_below
from lipcert.solver import CONIC_SOLVERS, SOLVERS


@click.command("bound", short_help="Bracket the Lipschitz constant of one output of NETWORK.")
@network_argument
@question_options(*REGION, "halfspaces", *OUTPUT, *WEIGHTS)
@click.option(
    "--method", default="auto", show_default=True, metavar="NAME", help=f"How to prove it: {', '.join(table.names())}."
)
@click.option("--literal", is_flag=True, help="Solve shor or hr2 as the paper states them, by a general solver.")
@click.option(
    "--solver",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(SOLVERS)}; for literal methods {', '.join(CONIC_SOLVERS)}.",
)
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds to spend at most, including the time to read files.",
)
@click.option(
    "--work",
    type=float,
    metavar="W",
    help="Counted work instead of seconds, about W seconds of one core: the same answer on a busy machine.",
)
@click.option(
    "--gap", type=float, default=0.0, show_default=True, metavar="G", help="Relative gap to stop at; 0: exact, to 1e-6."
)
@click.option("--below", type=float, metavar="B", help="Stop when it is decided whether the constant is below B.")
@click.option(
    "--workers", type=int, default=1, show_default=True, metavar="N", help="Processes for the cells of auto and exact."
)
@cluster_option
@memory_option
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the lower bound's search.")
@click.option("--no-lower", is_flag=True, help="Skip the lower bound.")
@certificate_option
@click.option("-v", "--verbose", is_flag=True, help="Show the solver's iterations on stderr.")
@reading_options
@json_option
def bound_command(
    network: str,
    question: Question,
    reading: Reading,
    certificate: str | None,
    verbose: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Bracket the Lipschitz constant of one output, or of all, of NETWORK (.npz, .mat, .nnet, .onnx).

    At the time limit, near the memory limit, or on Ctrl-C, the best proved bracket so far is printed. Exit code 0
    when an upper bound was proved (with --below: one below it; the last line says whether it is refuted or not decided
    otherwise), 1 when none was, 2 on bad input. A property (--vnnlib) with several boxes has the largest constant of
    all of them.

    \b
    lipcert bound net.npz --radius 0.1 --output 3
    lipcert bound net.onnx --center image.npy --radius 0.02 --clip 0 1 --versus 7 3
    lipcert bound net.nnet --global --output 0 --json
    lipcert bound acasxu.onnx --vnnlib prop_3.vnnlib --output 0
    lipcert bound net.npz --radius 0.1 --output 3 --method hr2 --certificate proof.npz
    lipcert bound net.npz --radius 0.5 --ball --versus 7 3 --norm 2
    lipcert bound net.npz --radius 1 --output 0 --halfspaces rows.csv
    lipcert bound net.npz --global --output all --norm 2
    lipcert bound net.npz --radius 1 --output 0 --inputs 0:3 --input-weights scales.csv
    lipcert bound net.nnet --radius 0.05 --output 0 --method exact --gap 0.5 --workers 2
    """
    net = reading.network(network)
    regions, about = question.regions(net.inputs)
    settings |= question.keywords()
    time_limit: float = settings["time_limit"]
    settings["time_limit"] = time_left(time_limit)
    settings["lower"] = not settings.pop("no_lower")
    with ProgressDisplay(verbose) as display:
        ask: Any = bound if len(regions) == 1 else bound_union
        place: Any = regions[0] if len(regions) == 1 else regions
        found: Result | UnionResult = ask(net, place, **settings, on_progress=display.update)
    result = replace(found, notes=(*found.notes, *about))
    limit: float | None = settings["below"]
    if as_json:
        asked = {} if limit is None else {"below": limit, "is_below": is_below(limit, result.lower, result.upper)}
        with Budget.of_seconds(time_left(time_limit)).enforced():  # past it, the hash of a large network is null
            shown = result.to_dict() | asked
        print_json(shown)
    else:
        show_result(result, net, Path(network).name)
        if limit is not None:
            show_verdict(result, limit)
    if certificate is not None and result.certified:
        result.certificate.save(certificate)  # after printing, so that a failure to write loses no bracket
    return 0 if result.upper < (math.inf if limit is None else limit) else 1
