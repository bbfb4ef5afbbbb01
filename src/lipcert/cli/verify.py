"""`lipcert verify`: check a certificate against its network, without any solver."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from lipcert.cli.options import Reading, json_option, reading_options
from lipcert.cli.show import console, facts, print_json
from lipcert.cli.verify_folder import GivenData, folder_options, verify_folder_command
from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.output import output_of
from lipcert.proof.exact import check_with_balls
from lipcert.proof.margins import MarginCertificate, holds_margins, load_margins, verify_margins
from lipcert.proof.partition import PartitionCertificate, holds_partition, load_partition, verify_partition
from lipcert.proof.verify import load_certificate, verify


@click.command("verify", short_help="Check a proof, or all proofs of a certify job, against a network.")
@click.argument("certificate", metavar="CERTIFICATE|FOLDER")
@click.option("--network", metavar="NETWORK", help="The network file that it is about; for a FOLDER as recorded in it.")
@folder_options
@click.option("--exact", is_flag=True, help="Check it a second time in ball arithmetic: one relaxation, small orders.")
@reading_options
@json_option
def verify_command(
    certificate: str, network: str | None, exact: bool, given: GivenData, reading: Reading, as_json: bool
) -> int:
    """Rebuild the proof in CERTIFICATE from NETWORK and print the bound that it proves.

    Of a FOLDER that 'lipcert certify --out' wrote everything is proved again without a solver: every constant, every
    refined input (its margins, all rivals, its radius), every counterexample, and from these every radius, status and
    tally in its result.json and arrays.npz. Network and data are read from where they were unless they are given.

    Exit code 0 when the claim is proved, 1 when it is not, 2 on bad input. --exact does what is done with the rows of a
    relaxation once more, in numbers that carry their own error (needs python-flint); both checks must prove the claim.

    \b
    lipcert verify proof.npz --network net.npz
    lipcert verify proof.npz --network net.npz --exact
    lipcert verify job
    """
    start = time.monotonic()
    if Path(certificate).is_dir():
        if exact:
            raise InputError("--exact is for one certificate, not for a folder; leave it out")
        return verify_folder_command(certificate, network, given, reading, as_json)
    given.refuse()
    if network is None:
        raise InputError("no network: give --network NETWORK, the one that the certificate is about")
    if holds_margins(certificate):
        if exact:
            raise InputError("--exact is for proofs of a constant by one relaxation, not for margins; leave it out")
        return _verify_margins(load_margins(certificate), reading.network(network), as_json)
    if holds_partition(certificate):
        if exact:
            raise InputError("--exact is for proofs of a constant by one relaxation, not for cells; leave it out")
        return _verify_cells(load_partition(certificate), reading.network(network), as_json)
    kept = load_certificate(certificate)
    net = reading.network(network)
    answer = verify(kept, net)
    if exact:
        balls = check_with_balls(kept, net)
        proved = answer.proved and balls <= answer.claim
        reason = answer.reason if balls <= answer.claim else f"ball arithmetic proves {balls:.9g} only"
        answer = replace(answer, proved=proved, upper=max(answer.upper, balls), reason=reason)
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
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    table = facts()
    table.add_row("upper", f"{answer.upper:.9g}   recomputed now ({kept.method})" if finite else "none")
    table.add_row("claim", f"{answer.claim:.9g}   as stored")
    table.add_row("about", f"{output} {kept.norm.phrase}, on {kept.region.words}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1


def _verify_margins(kept: MarginCertificate, net: Network, as_json: bool) -> int:
    """Margins on an input's own box, as `certify --refine` keeps them."""
    uppers = verify_margins(kept, net)
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
        print_json({"proved": proved, "margins": rows, "region": kept.box.to_dict()})
        return 0 if proved else 1
    out = console()
    out.print(f"[bold]{'proved' if proved else 'not proved'}[/bold]: margins on {kept.box.words}")
    for proof, upper, claim in zip(kept.proofs, uppers, kept.claims, strict=True):
        out.print(f"{output_of(proof.c)} <= {upper:.6g}   recomputed now; {claim:.6g} as stored")
    return 0 if proved else 1


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
