"""`lipcert verify` of a certificate of a Jacobian."""

from __future__ import annotations

import time

import numpy as np

from lipcert.cli.show import console, facts, print_json
from lipcert.problem.network import Network
from lipcert.proof.jacobian import JacobianCertificate, verify_jacobian


def verify_jacobian_command(kept: JacobianCertificate, net: Network, as_json: bool) -> int:
    """Bounds of all entries, and what was seen of them, as `jacobian` keeps them."""
    start = time.monotonic()
    answer = verify_jacobian(kept, net)
    seconds, (low, high) = time.monotonic() - start, answer.claims
    rows, columns = low.shape
    counts = {
        "increasing": int(np.sum((low >= 0) & (high > 0))),
        "decreasing": int(np.sum((high <= 0) & (low < 0))),
        "zero": int(np.sum((low == 0) & (high == 0))),
        "both": int(np.sum((kept.seen.lo < 0) & (kept.seen.hi > 0))),
    }
    if as_json:
        print_json(
            {
                "proved": answer.proved,
                "entries": int(low.size),
                "failed": answer.failed,
                "counts": counts if answer.proved else None,
                "cells": kept.splits.leaves,
                "points": len(kept.points),
                "reason": answer.reason,
                "outputs": kept.scores.tolist(),
                "inputs": kept.inputs.tolist(),
                "region": kept.region.to_dict(),
                "network": {"sha256": net.sha256, "shape": list(net.shape)},
                "seconds": round(seconds, 4),
            }
        )
        return 0 if answer.proved else 1
    out, table = console(), facts()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    table.add_row("entries", f"{rows} x {columns}{f': {words}' if answer.proved and words else ''}")
    table.add_row("cells", f"{kept.splits.leaves:,}, which cover the region" if answer.proved else "")
    table.add_row("points", f"{len(kept.points):,}")
    table.add_row("about", f"the Jacobian on {kept.region.words}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1
