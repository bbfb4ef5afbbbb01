"""`lipcert verify --problem`: a bound on a polynomial problem proved again, without any solver."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from lipcert.chart.numbers import counted
from lipcert.cli.show import console, facts, print_json
from lipcert.errors import InputError
from lipcert.polynomial.certificates.certificate import load_polynomial, verify_polynomial
from lipcert.polynomial.files import load_problem


def verify_problem_command(certificate: str, file: str | None, as_json: bool) -> int:
    """Rebuild the identity from the problem in the file; exit code 0 when the claim is proved, 1 when it is not."""
    if file is None:
        raise InputError("no problem: give --problem FILE, the polynomial problem that the certificate is about")
    start = time.monotonic()
    kept, problem = load_polynomial(certificate), load_problem(file).problem
    answer = verify_polynomial(kept, problem)
    seconds, finite = time.monotonic() - start, bool(np.isfinite(answer.bound))
    if as_json:
        print_json(
            {
                "proved": answer.proved,
                "bound": answer.bound if finite else None,
                "claim": answer.claim if np.isfinite(answer.claim) else None,
                "sense": answer.sense,
                "reason": answer.reason,
                "variables": problem.n,
                "seconds": round(seconds, 4),
            }
        )
        return 0 if answer.proved else 1
    out = console()
    out.print("[bold]proved[/bold]" if answer.proved else f"[bold]not proved[/bold]: {answer.reason}")
    side = "lower bound" if answer.sense == "min" else "upper bound"
    table = facts()
    table.add_row(side, f"{answer.bound:.9g}   recomputed now" if finite else "none")
    table.add_row("claim", f"{answer.claim:.9g}   as stored")
    table.add_row("about", f"{Path(file).name}   {counted(problem.n, 'variable')}")
    table.add_row("time", f"{seconds:.2f} s")
    out.print(table)
    return 0 if answer.proved else 1
