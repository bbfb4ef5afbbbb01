"""`lipcert bound`: a network file in, a proved bracket out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipcert.budget import Budget
from lipcert.cli.live import ProgressDisplay
from lipcert.cli.options import (
    LIMITS,
    OUTPUT,
    REGION,
    WEIGHTS,
    ReadingOptions,
    network_argument,
    options,
    reading_options,
    time_left,
)
from lipcert.cli.question import QuestionOptions, question_options
from lipcert.cli.show import print_json, print_result, print_verdict
from lipcert.method import table
from lipcert.method.bound import bound
from lipcert.method.result import is_below
from lipcert.solver import CONIC_SOLVERS, SOLVERS


@click.command("bound", short_help="Bracket the Lipschitz constant of one output of NETWORK.")
@network_argument
@question_options(*REGION, "halfspaces", *OUTPUT, *WEIGHTS)
@options(
    *("method", "literal", "solver", *LIMITS, "gap", "below", "seed", "lower", "explain", "certificate"),
    method={"help": f"How to prove it: {', '.join(table.names())}."},
    solver={"help": f"{', '.join(SOLVERS)}; for literal methods {', '.join(CONIC_SOLVERS)}."},
    time_limit={"help": "Seconds to spend at most, including the time to read files."},
    workers={"help": "Processes for the cells of auto and exact."},
)
@click.option("-v", "--verbose", is_flag=True, help="Show the solver's iterations on stderr.")
@reading_options
@options("as_json")
def bound_command(
    network: str,
    question: QuestionOptions,
    reading: ReadingOptions,
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
    place: Any = regions[0] if len(regions) == 1 else regions
    with ProgressDisplay(verbose) as display:
        found = bound(net, place, **settings, on_progress=display.update)
    result = replace(found, notes=(*found.notes, *about))
    limit: float | None = settings["below"]
    if as_json:
        asked = {} if limit is None else {"below": limit, "is_below": is_below(limit, result.lower, result.upper)}
        with Budget.of_seconds(time_left(time_limit)).enforced():  # past it, the hash of a large network is null
            shown = result.to_dict() | asked
        print_json(shown)
    else:
        print_result(result, net, Path(network).name)
        if limit is not None:
            print_verdict(result, limit)
    if certificate is not None and result.certified:
        result.certificate.save(certificate)  # after printing, so that a failure to write loses no bracket
    return 0 if result.upper < (math.inf if limit is None else limit) else 1
