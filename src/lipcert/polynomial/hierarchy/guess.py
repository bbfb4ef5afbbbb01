"""A good value of a problem, by local search: where to cut. A hint; nothing is proved with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.rounding import Array

MOST_VARIABLES = 60
STARTS = 6
FEASIBLE = 1e-6


def good_value(problem: PolynomialProblem, hint: Array | None = None) -> float | None:
    """The best value of a point that is nearly feasible, found from a hint and a few random starts; None if none is."""
    values = [float(problem.objective.evaluate(x)[0]) for x in local_points(problem, hint)]
    return (min if problem.sense == "min" else max)(values) if values else None


def local_points(problem: PolynomialProblem, hint: Array | None = None) -> list[Array]:
    """Where local searches end, nearly feasible points only."""
    if problem.n > MOST_VARIABLES or not problem.n:
        return []
    from scipy.optimize import minimize  # here, so that importing lipcert stays fast

    sign = 1.0 if problem.sense == "min" else -1.0
    value, slope = _functions(problem.objective, problem.n)
    constraints: list[Any] = []
    for kind, listed in (("ineq", problem.inequalities), ("eq", problem.equalities)):
        for g in listed:
            f, df = _functions(g, problem.n)
            constraints.append({"type": kind, "fun": f, "jac": df})
    random = np.random.default_rng(0)
    starts = [] if hint is None or not np.all(np.isfinite(hint)) else [hint]
    starts += [np.zeros(problem.n), *random.normal(scale=2.0, size=(STARTS, problem.n))]
    found: list[Array] = []
    for start in starts:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            end = minimize(
                lambda x: sign * value(x), start, jac=lambda x: sign * slope(x), method="SLSQP", constraints=constraints
            )
            x = np.asarray(end.x, dtype=np.float64)
            near = bool(np.all(np.isfinite(x))) and problem.violation(x) <= FEASIBLE and np.isfinite(value(x))
        if near:
            found.append(x)
    return found


def _functions(p: Polynomial, n: int) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """Value and gradient."""
    parts = [p.derivative(i) for i in range(n)]
    return lambda x: float(p.evaluate(x)[0]), lambda x: np.array([float(d.evaluate(x)[0]) for d in parts])
