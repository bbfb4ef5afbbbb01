"""minimize, maximize: a polynomial problem in, a proved bound on its optimum and a feasible point out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.polynomial.hierarchy.bracket import solve_bracket
from lipcert.polynomial.hierarchy.result import GAP, PolynomialResult
from lipcert.polynomial.hierarchy.solve import PolynomialOptions, PolynomialProgress, Splitting
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem


def minimize(
    objective: Polynomial,
    inequalities: Iterable[Polynomial] = (),
    equalities: Iterable[Polynomial] = (),
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    relaxation: str = "dense",
    order: int | str | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
    solver: str = "auto",
    time_limit: float = inf,
    gap: float = GAP,
    search: bool = True,
    seed: int = 0,
    on_progress: Callable[[PolynomialProgress], None] | None = None,
) -> PolynomialResult:
    """A proved lower bound on min {f(x) : g_i(x) >= 0, h_j(x) = 0, lower <= x <= upper}, and a point above it.

    Args:
        objective, inequalities, equalities: f, the g_i and the h_j.
        lower, upper: bounds of the variables, constraints like the others.
        relaxation: dense, sparse, nearly-sparse or krivine.
        order: of the hierarchy (for krivine: the degree of the products). Left out: the least possible, and higher ones
            as long as there is a gap and the next one is cheap. "auto": higher ones until the gap is closed.
        cliques: sets of variables for all but the dense relaxation; found when left out.
        bad: for nearly-sparse, the constraints kept out of the cliques; found when left out.
        sparsity: how moment matrices are split: none, sign, term (unless said otherwise) or term-chordal.
        sparse_order: steps of term sparsity; few are cheaper and may lower the bound. Left out, as many as change
            something: then "term" has the bound of "none".
        cuts: rounds in which violated triangle inequalities between bounded variables are added.
        solver, time_limit: the conic solver, and seconds for everything.
        gap: relative gap between bound and value at which the bracket counts as closed.
        search, seed: whether feasible points are looked for, and the seed of their random starts.
        on_progress: called with seconds, bound, value and stage before every piece of work.

    The result's `bound` is rigorous for the coefficients as given, or -inf with the reason in `status`. Its
    `value` is attained at `minimizer`; `proved` says whether that point is feasible exactly or up to tolerance.
    """
    splitting = Splitting(sparsity, sparse_order, cuts)
    options = PolynomialOptions(
        relaxation, order, cliques, bad, splitting, solver, time_limit, gap, search, seed, on_progress=on_progress
    )
    problem = _problem(objective, inequalities, equalities, "min", lower, upper)
    return solve_bracket(problem, options)


def maximize(
    objective: Polynomial,
    inequalities: Iterable[Polynomial] = (),
    equalities: Iterable[Polynomial] = (),
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    relaxation: str = "dense",
    order: int | str | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
    solver: str = "auto",
    time_limit: float = inf,
    gap: float = GAP,
    search: bool = True,
    seed: int = 0,
    on_progress: Callable[[PolynomialProgress], None] | None = None,
) -> PolynomialResult:
    """A proved upper bound on max {f(x) : g_i(x) >= 0, h_j(x) = 0, lower <= x <= upper}, and a point below it.

    The arguments and the result are those of `minimize`; without a finite bound, `bound` is inf.
    """
    splitting = Splitting(sparsity, sparse_order, cuts)
    options = PolynomialOptions(
        relaxation, order, cliques, bad, splitting, solver, time_limit, gap, search, seed, on_progress=on_progress
    )
    problem = _problem(objective, inequalities, equalities, "max", lower, upper)
    return solve_bracket(problem, options)


def _problem(
    objective: Polynomial,
    inequalities: Iterable[Polynomial],
    equalities: Iterable[Polynomial],
    sense: str,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
) -> PolynomialProblem:
    low = None if lower is None else np.asarray(lower, dtype=np.float64)
    high = None if upper is None else np.asarray(upper, dtype=np.float64)
    at_least: Any = inequalities  # made tuples, or refused, there
    equal: Any = equalities
    return PolynomialProblem(objective, at_least, equal, sense, lower=low, upper=high).boxed()
