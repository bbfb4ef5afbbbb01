"""`lipcert verify`: check a certificate against its network, without any solver."""

from __future__ import annotations

import time

import click
import numpy as np
from rich.table import Table

from lipcert.certificate.verify import load_certificate, verify
from lipcert.commands.options import json_option, normalization_option
from lipcert.commands.show import console, print_json, words
from lipcert.output import output_of
from lipcert.readers import load


@click.command("verify")
@click.argument("certificate", metavar="CERTIFICATE")
@click.option("--network", required=True, metavar="NETWORK", help="The network file that the certificate is about.")
@normalization_option
@json_option
def verify_command(certificate: str, network: str, normalize: bool, as_json: bool) -> int:
    """Rebuild the proof in CERTIFICATE from NETWORK and print the bound that it proves.

    Exit code 0 when the claim is proved, 1 when it is not, 2 on bad input.
    """
    start = time.monotonic()
    kept = load_certificate(certificate)
    net = load(network, normalize=normalize)
    answer = verify(kept, net)
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
                "output": output.description,
                "region": kept.region.to_dict(),
                "network": {"sha256": net.sha256, "shape": list(net.shape)},
                "seconds": round(seconds, 4),
            }
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("upper", f"{answer.upper:.9g}   recomputed now ({kept.method})" if finite else "none")
    table.add_row("claim", f"{answer.claim:.9g}   as stored")
    table.add_row("about", f"{output} in the {kept.norm}-norm, on {words(kept.region)}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1
