"""The bipartite unit-vector problem: global Shor relaxations of one hidden layer.

    max  sum_ij K_ij <t_i, w_j>    over unit vectors t_1..t_p, w_1..w_q

Alternate T = normalise(W K'), W = normalise(T K): each half-step is the exact maximum over one side.  At a fixed point
the norms are the dual variables: a_i = |sum_j K_ij w_j|, b_j = |sum_i K_ij t_i|, and

    S = [ diag(a)  -K ; -K'  diag(b) ] >= 0     =>     value <= (sum a + sum b) / 2

Away from it, scaling the multipliers makes S positive semidefinite again: with s = |diag(a)^-1/2 K diag(b)^-1/2|_2,
s a and s b are feasible.  Reference: [CLMP20], the SHOR relaxation without x.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.result import Status


@dataclass(frozen=True, eq=False)
class BipartiteResult:
    """Multipliers of |t_i|^2 = 1 (`left`) and |w_j|^2 = 1 (`right`); S(left, right) >= 0 up to rounding.

    `dual` = (sum left + sum right) / 2 is the bound they give; `primal` is the value of the vectors found.
    """

    left: Floats
    right: Floats
    T: Floats
    W: Floats
    primal: float
    dual: float
    gap: float
    status: Status
    sweeps: int
    seconds: float


@dataclass(frozen=True, eq=False)
class BipartiteState:
    """What the callback sees at every check: feasible multipliers and the values that go with them."""

    sweep: int
    seconds: float
    primal: float
    dual: float
    left: Floats
    right: Floats


def solve_bipartite(
    K: Floats,
    tolerance: float = 1e-5,
    sweeps: int = 5000,
    time_limit: float = float("inf"),
    rank: int | None = None,
    callback: Callable[[BipartiteState], bool | None] | None = None,
) -> BipartiteResult:
    """max sum_ij K_ij <t_i, w_j> over unit vectors, with multipliers.

    Args:
        K: p x q matrix.
        tolerance: relative gap between the multipliers' bound and the vectors' value.
        rank: length of the vectors; the default exceeds sqrt(2 (p + q)), beyond which local maxima are global.
        callback: called with a BipartiteState at every check; returning True stops the sweeps.
    """
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim != 2 or not np.all(np.isfinite(K)):
        raise InputError("solve_bipartite(K): expected a matrix of finite numbers")
    begin = time.perf_counter()
    p, q = K.shape
    rank = rank if rank is not None else int(np.sqrt(2.0 * (p + q))) + 2
    W = _normalise(np.random.default_rng(0).standard_normal((q, rank)))[0]
    transposed = np.ascontiguousarray(K.T)
    momentum, last, best, check = 0.0, -np.inf, None, 10
    previous = W
    for sweep in range(1, sweeps + 1):
        ahead = _normalise(W + momentum * (W - previous))[0] if momentum else W
        T = _normalise(K @ ahead)[0]
        previous = W
        W, right = _normalise(transposed @ T)
        value = float(right.sum())
        # Extrapolation speeds up the sweeps several times; it restarts when the value falls.
        momentum = 0.0 if value < last else min(0.9, momentum + 0.1)
        last = value
        spent = time.perf_counter() - begin
        if sweep in (check, sweeps) or spent > time_limit:
            check = sweep + max(10, sweep // 4)
            best = _better(best, _scaled(K, np.linalg.norm(K @ W, axis=1), right), value)
            gap = (best[2] - value) / max(abs(value), 1e-300)
            status = _status(gap, tolerance, spent > time_limit, sweep == sweeps)
            state = BipartiteState(sweep, spent, value, best[2], best[0], best[1])
            if callback is not None and callback(state) and status is None:
                status = Status.INTERRUPTED
            if status is not None:
                return BipartiteResult(best[0], best[1], T, W, value, best[2], gap, status, sweep, spent)
    raise InputError(f"solve_bipartite(sweeps={sweeps}): must be at least 1")


def _normalise(V: Floats) -> tuple[Floats, Floats]:
    norm = np.sqrt(np.einsum("ij,ij->i", V, V))
    return V / np.where(norm > 0, norm, 1.0)[:, None], norm


def _status(gap: float, tolerance: float, late: bool, last: bool) -> Status | None:
    if gap < tolerance:
        return Status.OPTIMAL
    if late:
        return Status.TIME_LIMIT
    return Status.ITERATION_LIMIT if last else None


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
