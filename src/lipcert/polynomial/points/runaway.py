"""Whether values go to infinity: the best points in boxes that grow.

Evidence, not proof: a finite optimum may lie beyond the largest box.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.budget import Budget
from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.search import Found, search
from lipcert.rounding import Array

SIZES = (1e1, 1e3, 1e5)


def runaway(local: LocalProblem, hints: list[Array], seed: int = 0, budget: Budget | None = None) -> Found | None:
    """The best point of the largest box, when each box has points much better than those of the box before."""
    if np.all(np.isfinite(local.lower) & np.isfinite(local.upper)) or local.empty_box:
        return None
    best: Found | None = None
    for size in SIZES:
        inside = replace(local, lower=np.maximum(local.lower, -size), upper=np.minimum(local.upper, size))
        if np.any(inside.lower > inside.upper):
            return None
        known = [*hints, *([] if best is None else [best.point, 100.0 * best.point])]
        found = search(inside, seed=seed, hints=known, budget=budget, most=6)
        if found is None:
            return None
        if best is not None and local.sign * (best.value - found.value) < max(1.0, abs(best.value)):
            return None
        best = found
    return best
