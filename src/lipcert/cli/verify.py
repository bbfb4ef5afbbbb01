"""`lipcert verify`: check a certificate against its network, without any solver."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

import click
import numpy as np

from lipcert.cli.options import Reading, json_option, reading_options
from lipcert.cli.paths import INPUT
from lipcert.cli.show import console, facts, print_json
from lipcert.cli.verify_entries import verify_jacobian_command
from lipcert.cli.verify_folder import GivenData, folder_options, verify_folder_command
from lipcert.cli.verify_problem import verify_problem_command
from lipcert.errors import InputError
from lipcert.polynomial.certificates.certificate import holds_polynomial
from lipcert.problem.network import Network
from lipcert.problem.output import output_of
from lipcert.proof.balls import check_with_balls, margins_with_balls, what_is_checked
from lipcert.proof.balls.numbers import load_flint
from lipcert.proof.certificate import Certificate
from lipcert.proof.jacobian import holds_jacobian, load_jacobian
from lipcert.proof.margins import MarginCertificate, holds_margins, load_margins, verify_margins
from lipcert.proof.partition import PartitionCertificate, holds_partition, load_partition, verify_partition
from lipcert.proof.union import UnionCertificate, holds_union, load_union, verify_union
from lipcert.proof.verify import Verification, load_certificate, verify
from lipcert.rounding import worst


@click.command("verify", short_help="Check a proof, or all proofs of a certify job, against a network.")
@click.argument("certificate", metavar="CERTIFICATE|FOLDER", type=INPUT)
@click.option(
    "--network",
    type=INPUT,
    metavar="NETWORK",
    help="The network file that it is about; for a FOLDER as recorded in it.",
)
@click.option(
    "--problem",
    type=INPUT,
    metavar="FILE",
    help="The polynomial problem that it is about, for proofs by 'lipcert pop'.",
)
@folder_options
@click.option("--exact", is_flag=True, help="Check it a second time in ball arithmetic (python-flint).")
@reading_options
@json_option
def verify_command(
    certificate: str,
    network: str | None,
    problem: str | None,
    exact: bool,
    given: GivenData,
    reading: Reading,
    as_json: bool,
) -> int:
    """Rebuild the proof in CERTIFICATE from NETWORK and print the bound that it proves.

    Of a FOLDER that 'lipcert certify --out' wrote everything is proved again without a solver: every constant, every
    refined input (its margins, all rivals, its radius), every counterexample, and from these every radius, status and
    tally in its result.json and arrays.npz. Network and data are read from where they were unless they are given.

    Exit code 0 when the claim is proved, 1 when it is not, 2 on bad input. --exact proves it once more, in numbers that
    carry their own error (extra `exact`: python-flint); both checks must prove the claim. Proofs that are too large
    for it are refused at once, exit code 2. What each check trusts is told in docs/trust.md.

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
    if problem is not None or holds_polynomial(certificate):
        if exact or network is not None:
            raise InputError("a proof about a polynomial problem is checked with --problem FILE alone")
        return verify_problem_command(certificate, problem, as_json)
    if network is None:
        raise InputError("no network: give --network NETWORK, the one that the certificate is about")
    if holds_margins(certificate):
        return _verify_margins(load_margins(certificate), reading.network(network), exact, as_json)
    if holds_partition(certificate):
        if exact:
            raise InputError("--exact is for proofs of one constant and of margins, not for cells; leave it out")
        return _verify_cells(load_partition(certificate), reading.network(network), as_json)
    if holds_jacobian(certificate):
        if exact:
            raise InputError("--exact is for proofs of one constant and of margins, not for a Jacobian; leave it out")
        return verify_jacobian_command(load_jacobian(certificate), reading.network(network), as_json)
    if holds_union(certificate):
        if exact:
            raise InputError("--exact is for proofs of one region, not of several; leave it out")
        return _verify_union(load_union(certificate), reading.network(network), as_json)
    return _verify_constant(load_certificate(certificate), reading.network(network), exact, as_json)


def _verify_constant(kept: Certificate, net: Network, exact: bool, as_json: bool) -> int:
    """A bound of one constant on one region, as `bound` keeps it."""
    start = time.monotonic()
    if exact:
        load_flint()  # what is missing is said before anything is computed
    answer = verify(kept, net)
    again = _in_balls(kept, net, answer) if exact else None
    answer = answer if again is None else again.both
    seconds = time.monotonic() - start
    output = output_of(kept.c)
    finite = bool(np.isfinite(answer.upper))
    if as_json:
        print_json(
            {
                "proved": answer.proved,
                "upper": answer.upper if finite else None,
                "claim": answer.claim if np.isfinite(answer.claim) else None,
                "reason": answer.reason,
                "method": kept.method,
                "norm": str(kept.norm),
                "output_norm": kept.norm.out,
                "output": output.description,
                "region": kept.region.to_dict(),
                "network": {"sha256": net.sha256, "shape": list(net.shape)},
                "seconds": round(seconds, 4),
            }
            | ({} if again is None else {"exact": {"upper": again.upper, "checked": again.checked}})
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    table = facts()
    table.add_row("upper", f"{answer.upper:.9g}   recomputed now ({kept.method})" if finite else "none")
    if again is not None:
        bound = "none" if again.upper is None else f"{again.upper:.9g}"
        table.add_row("in balls", f"{bound}   {again.checked}")
    table.add_row("claim", f"{answer.claim:.9g}   as stored")
    table.add_row("about", f"{output} {kept.norm.phrase}, on {kept.region.words}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1


@dataclass(frozen=True)
class _Again:
    """What both checkers say together, what the balls proved (None: nothing), and what they looked at, in words."""

    both: Verification
    upper: float | None
    checked: str


def _in_balls(kept: Certificate, net: Network, answer: Verification) -> _Again:
    """The second opinion; what the first refused is not looked at again."""
    if not answer.proved:
        return _Again(answer, None, "not looked at: the ordinary check proves no such bound")
    balls, checked = check_with_balls(kept, net), what_is_checked(kept.proof)
    if balls <= answer.claim:
        return _Again(answer, balls, checked)
    reason = "ball arithmetic proves no bound" if np.isinf(balls) else f"ball arithmetic proves {balls:.9g} only"
    refused = replace(answer, proved=False, upper=worst(answer.upper, balls), reason=reason)
    return _Again(refused, balls if np.isfinite(balls) else None, checked)


def _verify_margins(kept: MarginCertificate, net: Network, exact: bool, as_json: bool) -> int:
    """Margins on an input's own box, as `certify --refine` keeps them; with `exact` the larger of what both prove."""
    if exact:
        load_flint()
    uppers = verify_margins(kept, net)
    if exact:
        uppers = [worst(*pair) for pair in zip(uppers, margins_with_balls(kept, net), strict=True)]
    rows = [
        {
            "output": output_of(proof.c).description,
            "upper": upper if np.isfinite(upper) else None,
            "claim": claim if np.isfinite(claim) else None,
        }
        for proof, upper, claim in zip(kept.proofs, uppers, kept.claims, strict=True)
    ]
    proved = all(upper <= claim < np.inf for upper, claim in zip(uppers, kept.claims, strict=True))
    if as_json:
        print_json({"proved": proved, "margins": rows, "region": kept.box.to_dict(), "exact": exact})
        return 0 if proved else 1
    out = console()
    how = ", also in balls" if exact else ""
    out.print(f"[bold]{'proved' if proved else 'not proved'}[/bold]: margins on {kept.box.words}{how}")
    for proof, upper, claim in zip(kept.proofs, uppers, kept.claims, strict=True):
        out.print(f"{output_of(proof.c)} <= {upper:.6g}   recomputed now; {claim:.6g} as stored")
    return 0 if proved else 1


def _verify_union(kept: UnionCertificate, net: Network, as_json: bool) -> int:
    """Constants on several regions, as `bound` keeps them for a property with several boxes."""
    start = time.monotonic()
    answer = verify_union(kept, net)
    seconds, first = time.monotonic() - start, kept.parts[0]
    output = output_of(first.c)
    if as_json:
        regions = [
            one | {"method": part.method, "region": part.region.to_dict()}
            for part, one in zip(kept.parts, answer.to_dict()["regions"], strict=True)
        ]
        print_json(
            answer.to_dict()
            | {
                "norm": str(first.norm),
                "output_norm": first.norm.out,
                "output": output.description,
                "regions": regions,
                "network": {"sha256": net.sha256, "shape": list(net.shape)},
                "seconds": round(seconds, 4),
            }
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    table = facts()
    table.add_row("upper", f"{answer.upper:.9g}   the largest, recomputed now" if np.isfinite(answer.upper) else "none")
    table.add_row("claim", f"{answer.claim:.9g}   the largest, as stored")
    table.add_row("about", f"{output} {first.norm.phrase}, on {len(kept.parts)} regions")
    for k, (part, one) in enumerate(zip(kept.parts, answer.parts, strict=True)):
        table.add_row(f"region {k}", f"{one.upper:.9g}   {part.region.words}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1


def _verify_cells(kept: PartitionCertificate, net: Network, as_json: bool) -> int:
    """Constants on all cells of a partition, as `cells` keeps them."""
    start = time.monotonic()
    answer = verify_partition(kept, net)
    seconds, output = time.monotonic() - start, output_of(kept.c)
    upper, claim = float(answer.uppers.max(initial=0.0)), float(answer.claims.max(initial=0.0))
    if as_json:
        print_json(
            {
                "proved": answer.proved,
                "cells": len(answer.claims),
                "failed": answer.failed,
                "upper": upper if np.isfinite(upper) else None,
                "claim": claim if np.isfinite(claim) else None,
                "reason": answer.reason,
                "norm": str(kept.norm),
                "output_norm": kept.norm.out,
                "output": output.description,
                "region": kept.region.to_dict(),
                "network": {"sha256": net.sha256, "shape": list(net.shape)},
                "seconds": round(seconds, 4),
            }
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    table = facts()
    table.add_row(
        "cells", f"{len(answer.claims):,}, which cover the region" if answer.proved else f"{len(answer.claims):,}"
    )
    table.add_row("upper", f"{upper:.9g}   the largest, recomputed now" if np.isfinite(upper) else "none")
    table.add_row("claim", f"{claim:.9g}   the largest, as stored")
    table.add_row("about", f"{output} {kept.norm.phrase}, on {kept.region.words}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1
