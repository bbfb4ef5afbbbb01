"""A good value of a problem, by local search: where to cut. A hint; nothing is proved with it."""

from __future__ import annotations

import numpy as np

from lipcert.polynomial.points.descent import descend
from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.search import judge, search
from lipcert.polynomial.points.starts import starts
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.rounding import Array

STARTS = 6


def good_value(problem: PolynomialProblem, hint: Array | None = None) -> float | None:
    """The best value of a point that is nearly feasible, found from a hint and a few random starts; None if none is."""
    found = search(LocalProblem.of(problem), hints=[] if hint is None else [hint], most=STARTS)
    return None if found is None else found.value


def local_points(problem: PolynomialProblem) -> list[Array]:
    """Where local searches from a few random starts end, nearly feasible points only."""
    local = LocalProblem.of(problem)
    if local.empty_box or not local.n:
        return []
    ends = [judge(local, descend(local, start)) for start in starts(local, STARTS, np.random.default_rng(0), [], None)]
    return [end.point for end in ends if end is not None]
