"""`lipcert verify`: check a certificate against its network, without any solver."""

from __future__ import annotations

import os
import time
from typing import Any

import click
from rich.markup import escape

from lipcert.cli.options import ReadingOptions, options, reading_options
from lipcert.cli.paths import INPUT
from lipcert.cli.show import print_json, print_rows
from lipcert.cli.verify_folder import GivenData, folder_options, verify_folder_command
from lipcert.cli.verify_limit import time_limited
from lipcert.errors import InputError
from lipcert.problem.question import Question
from lipcert.proof.certificate import Envelope
from lipcert.proof.file import load_proof
from lipcert.proof.verification import Verification
from lipcert.proof.verify import verify


@click.command("verify", short_help="Check a proof, or all proofs of a certify job, against a network.")
@click.argument("certificate", metavar="CERTIFICATE|FOLDER", type=INPUT)
@click.option(
    "--network",
    type=INPUT,
    metavar="NETWORK",
    help="The network file that the certificate is about. Default for a FOLDER: the file that it names.",
)
@click.option(
    "--problem",
    type=INPUT,
    metavar="FILE",
    help="The polynomial problem that the certificate is about, for proofs by 'lipcert pop'.",
)
@folder_options
@click.option("--exact", is_flag=True, help="Check it a second time in ball arithmetic (python-flint).")
@reading_options
@options("as_json")
@time_limited
def verify_command(
    certificate: str,
    network: str | None,
    problem: str | None,
    exact: bool,
    given: GivenData,
    reading: ReadingOptions,
    as_json: bool,
) -> int:
    """Rebuild the proof in CERTIFICATE from NETWORK and print the bound that it proves.

    For a FOLDER that 'lipcert certify --out' wrote, everything is proved again without a solver: every constant, every
    refined input (its margins, all rivals, its radius), every counterexample, and from these every radius, status and
    tally in its result.json and arrays.npz. Network and data are read from where they were unless they are given.

    Exit code 0 when the claim is proved, 1 when it is not, 2 on bad input. --exact proves the claim a second time, in
    ball arithmetic (extra `exact`: python-flint); both checks must prove it. Proofs about polynomial problems,
    proofs of methods as the paper states them, and proofs that are too large for ball arithmetic are refused at once,
    exit code 2. docs/trust.md says what each check relies on. Before a check that takes
    long, a line on stderr says how long.

    \b
    lipcert verify proof.npz --network net.npz
    lipcert verify proof.npz --network net.npz --exact
    lipcert verify proof.npz --problem disk.pop
    lipcert verify job
    """
    if os.path.isdir(certificate):  # pathlib raises on a name that is too long
        if exact:
            raise InputError("--exact is for one certificate, not for a folder; leave it out")
        return verify_folder_command(certificate, network, given, reading, as_json)
    given.refuse()
    if not os.path.exists(certificate):
        raise InputError(f"{certificate}: no such file or folder; give a certificate, or the folder of a certify job")
    start = time.monotonic()
    try:
        loaded = load_proof(certificate)
    except InputError as error:
        if network is None and problem is None:  # the user has to give both: say so at once
            raise InputError(f"{error}; and give --network NETWORK, the one that it is about") from None
        raise
    if problem is not None or not isinstance(loaded.statement, Question):
        answer, about = _verified_problem(loaded, problem, exact or network is not None)
    elif network is None:
        raise InputError("no network: give --network NETWORK, the one that the certificate is about")
    else:
        answer, about = _verified(loaded, network, reading, exact)
    seconds = time.monotonic() - start
    if as_json:
        print_json(answer.to_dict() | about | {"seconds": round(seconds, 4)})
    else:
        _show(answer, seconds)
    return 0 if answer.proved else 1


def _verified(
    loaded: Envelope, network: str, reading: ReadingOptions, exact: bool
) -> tuple[Verification, dict[str, Any]]:
    net = reading.network(network)
    return verify(loaded, net, exact=exact), {"network": {"sha256": net.sha256, "shape": list(net.shape)}}


def _verified_problem(loaded: Envelope, problem: str | None, more: bool) -> tuple[Verification, dict[str, Any]]:
    """Verify a bound on a polynomial problem; `more` says whether options that only networks have were given."""
    if more:
        raise InputError("a proof about a polynomial problem is checked with --problem FILE alone")
    if problem is None:
        raise InputError("no problem: give --problem FILE, the polynomial problem that the certificate is about")
    if isinstance(loaded.statement, Question):
        raise InputError("the certificate is about a network; give --network NETWORK instead of --problem")
    from lipcert.polynomial.files import load_problem  # here, so that networks do not need it

    asked = load_problem(problem).problem
    return loaded.verify(asked), {"variables": asked.n}


def _show(answer: Verification, seconds: float) -> None:
    verdict = "[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {escape(answer.reason)}"
    print_rows(verdict, [*answer.rows(), ("time", f"{seconds:.2f} s")])
