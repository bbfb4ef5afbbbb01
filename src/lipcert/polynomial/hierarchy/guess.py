"""A good value of a problem, by local search: where to cut. A hint; nothing is proved with it."""

from __future__ import annotations

from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.search import search
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.rounding import Array

STARTS = 6


def good_value(problem: PolynomialProblem, hint: Array | None = None) -> float | None:
    """The best value of a point that is nearly feasible, found from a hint and a few random starts; None if none is."""
    found = search(LocalProblem.of(problem), hints=[] if hint is None else [hint], most=STARTS)
    return None if found is None else found.value
