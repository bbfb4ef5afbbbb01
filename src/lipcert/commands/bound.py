"""`lipcert bound`: a network file in, a proved bracket out."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lipcert.bounding import LITERAL_METHODS, METHODS, bound
from lipcert.certificate.relaxed import RELAXATIONS
from lipcert.commands.options import Question, json_option, network_argument, normalization_option, question_options
from lipcert.commands.progress import ProgressDisplay
from lipcert.commands.show import print_json, show_result
from lipcert.errors import InputError
from lipcert.readers import load
from lipcert.solvers import CONIC_SOLVERS, SOLVERS


@click.command("bound")
@network_argument
@question_options
@click.option("--method", default="auto", show_default=True, metavar="|".join(METHODS), help="How to prove the bound.")
@click.option("--literal", is_flag=True, help="Solve shor or hr2 as the paper states them, by a general solver.")
@click.option(
    "--solver",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(SOLVERS)}; for literal methods {', '.join(CONIC_SOLVERS)}.",
)
@click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds to spend at most."
)
@click.option(
    "--gap", type=float, default=0.0, show_default=True, metavar="G", help="Relative gap to stop at; 0: exact, to 1e-6."
)
@click.option(
    "--workers", type=int, default=1, show_default=True, metavar="N", help="Processes for the parts of --method exact."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the lower bound's search.")
@click.option("--no-lower", is_flag=True, help="Skip the lower bound.")
@click.option("--certificate", metavar="FILE.npz", help="Write the proof to a file that `lipcert verify` checks.")
@click.option("-v", "--verbose", is_flag=True, help="Show the solver's iterations on stderr.")
@normalization_option
@json_option
def bound_command(
    network: str,
    question: Question,
    method: str,
    literal: bool,
    solver: str,
    time_limit: float,
    gap: float,
    workers: int,
    seed: int,
    no_lower: bool,
    certificate: str | None,
    verbose: bool,
    normalize: bool,
    as_json: bool,
) -> int:
    """Bracket the Lipschitz constant of one output of NETWORK (.npz, .mat, .nnet, .onnx).

    At the time limit, or on Ctrl-C, the best proved bracket so far is printed.

    \b
    lipcert bound net.npz --radius 0.1 --output 3
    lipcert bound net.onnx --center image.npy --radius 0.02 --clip 0 1 --versus 7 3
    lipcert bound net.nnet --global --output 0 --json
    lipcert bound net.npz --radius 0.1 --output 3 --method hr2 --certificate proof.npz
    lipcert bound net.nnet --radius 0.05 --output 0 --method exact --gap 0.5 --workers 2
    """
    question.check()
    _check_target(certificate)
    if certificate is not None and (literal or method in set(LITERAL_METHODS) - set(RELAXATIONS)):
        raise InputError("--certificate: literal methods have no certificate file; leave one of both out")
    net = load(network, normalize=normalize)
    region = question.region(net.inputs)
    with ProgressDisplay(verbose) as display:
        result = bound(
            net,
            region,
            output=question.choice,
            norm=question.norm,
            method=method,
            literal=literal,
            solver=solver,
            time_limit=time_limit,
            gap=gap,
            workers=workers,
            seed=seed,
            lower=not no_lower,
            on_progress=display.update,
        )
    if as_json:
        print_json(result.to_dict())
    else:
        show_result(result, net, Path(network).name)
    if certificate is not None and result.certified:
        result.certificate.save(certificate)  # last: when it fails, the bracket has been shown
    return 0 if result.certified else 1


def _check_target(certificate: str | None) -> None:
    """Refuse a place that cannot be written before the work, not after it."""
    if certificate is None:
        return
    if not certificate.endswith(".npz"):
        raise InputError(f"--certificate {certificate}: certificates are .npz files; give the file that ending")
    folder = Path(certificate).absolute().parent
    if not folder.is_dir():
        raise InputError(f"--certificate {certificate}: no such folder to write to")
    if not os.access(folder, os.W_OK) or Path(certificate).is_dir():
        raise InputError(f"--certificate {certificate}: cannot write there; give another place")
