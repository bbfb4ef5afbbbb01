"""The bipartite unit-vector problem: global Shor relaxations of one hidden layer.

    max  sum_ij K_ij <t_i, w_j>    over unit vectors t_1..t_p, w_1..w_q

Alternate T = normalise(W K'), W = normalise(T K): each half-step is the exact maximum over one side.  At a fixed point
the norms are the dual variables: a_i = |sum_j K_ij w_j|, b_j = |sum_i K_ij t_i|, and

    S = [ diag(a)  -K ; -K'  diag(b) ] >= 0     =>     value <= (sum a + sum b) / 2

Away from it, scaling the multipliers makes S positive semidefinite again: with s = |diag(a)^-1/2 K diag(b)^-1/2|_2,
s a and s b are feasible.  Reference: [CLMP20], the SHOR relaxation without x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.costs import EIGENVALUE, EIGENVALUE_CALLS
from lipcert.solver.result import Status
from lipcert.solver.unit_vectors import alternate, normalise


@dataclass(frozen=True, eq=False)
class Bipartite:
    """Multipliers of |t_i|^2 = 1 (`left`) and |w_j|^2 = 1 (`right`); S(left, right) >= 0 up to rounding.

    `dual` = (sum left + sum right) / 2 is the bound they give; `primal` is the value of the vectors found. The status
    is None while the sweeps go on.
    """

    left: Floats
    right: Floats
    dual: float
    primal: float
    status: Status | None
    sweeps: int

    @property
    def gap(self) -> float:
        return (self.dual - self.primal) / max(abs(self.primal), 1e-300)


def solve_bipartite(
    K: Floats,
    tolerance: float = 1e-5,
    sweeps: int = 5000,
    callback: Callable[[Bipartite], bool | None] | None = None,
    *,
    budget: Budget | None = None,
) -> Bipartite:
    """max sum_ij K_ij <t_i, w_j> over unit vectors, with multipliers.

    Args:
        K: p x q matrix.
        tolerance: relative gap between the multipliers' bound and the vectors' value.
        callback: called at every check with what is known then; returning True stops the sweeps.
        budget: one sweep is made even where it is over; without it there are no multipliers.
    """
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim != 2 or not np.all(np.isfinite(K)):
        raise InputError("solve_bipartite(K): expected a matrix of finite numbers")
    if sweeps < 1:
        raise InputError(f"solve_bipartite(sweeps={sweeps}): must be at least 1")
    budget = budget or Budget.unlimited()
    p, q = K.shape
    rank = int(np.sqrt(2.0 * (p + q))) + 2  # beyond sqrt(2 (p + q)) local maxima are global
    W = normalise(np.random.default_rng(0).standard_normal((q, rank)))
    alternation = alternate((K, np.zeros(p), np.zeros(q)), W, np.zeros(rank), budget)
    check_operations = 2.0 * p * q * min(p, q) + EIGENVALUE * min(p, q) ** 3 + EIGENVALUE_CALLS
    check, best = 1, None
    for sweep, at in zip(range(1, sweeps + 1), alternation, strict=False):
        if sweep in (check, sweeps):
            check = sweep + max(10, sweep // 4)
            with budget.measured(check_operations):
                lengths = np.linalg.norm(K @ at.W, axis=1), np.linalg.norm(K.T @ at.T, axis=1)
                best = _better(best, _scaled(K, *lengths), at.value / 2)
            found = Bipartite(*best, at.value / 2, None, sweep)
            stop = callback is not None and callback(found)
            if stop or found.gap < tolerance:
                return replace(found, status=Status.OPTIMAL if found.gap < tolerance else Status.INTERRUPTED)
        if budget.over():
            return replace(found, status=Status.TIME_LIMIT)
    return replace(found, status=Status.ITERATION_LIMIT)


Multipliers = tuple[Floats, Floats, float]


def _better(best: Multipliers | None, new: Multipliers, value: float) -> Multipliers:
    return new if best is None or value <= new[2] < best[2] else best


def _scaled(K: Floats, left: Floats, right: Floats) -> Multipliers:
    """Feasible multipliers from norms: the better of scaling by the spectral norm and of shifting the diagonal."""
    floor = 1e-9 * max(float(left.max(initial=0.0)), float(right.max(initial=0.0)), np.finfo(float).tiny)
    left, right = np.maximum(left, floor), np.maximum(right, floor)
    scaled = K / np.sqrt(left)[:, None] / np.sqrt(right)
    gram = scaled @ scaled.T if K.shape[0] <= K.shape[1] else scaled.T @ scaled
    factor = float(np.sqrt(np.linalg.eigvalsh(gram)[-1])) * (1.0 + 1e-12)
    return left * factor, right * factor, factor * float(left.sum() + right.sum()) / 2
