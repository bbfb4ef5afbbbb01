"""max <M, V V'> over unit vectors, M joining one family with another and both with a constant.

    max  2 sum_ij K_ij <t_i, v_j> + 2 sum_i r_i <t_i, e> + 2 sum_j k_j <v_j, e>      |t_i| = |v_j| = |e| = 1

The Lagrangian of a grid at fixed multipliers. Alternate exact maxima over t, v and e, with extrapolation; at a fixed
point the lengths before normalising are the multipliers d of X_ii = 1, and diag(d) - M >= 0. Away from it they are
scaled until it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.costs import EIGENVALUE, EIGENVALUE_CALLS, THIN_CALLS
from lipcert.solver.pairs import Moments
from lipcert.steps import THIN


@dataclass(frozen=True, eq=False)
class UnitResult:
    """Multipliers of |t_i| = 1, |v_j| = 1, |e| = 1, their sum, and the value of the vectors found."""

    left: Floats
    right: Floats
    one: float
    dual: float
    primal: float


@dataclass(frozen=True, eq=False)
class Sweep:
    """Unit vectors after a sweep, and their value."""

    T: Floats
    W: Floats
    e: Floats
    value: float


def alternate(parts: Moments, W: Floats, e: Floats, budget: Budget) -> Iterator[Sweep]:
    """Exact maxima over t, v and e in turn, from v = W and e on, for ever; `parts` are K, r and k."""
    K, r, k = parts
    turned, joined = np.ascontiguousarray(K.T), bool(np.any(r) or np.any(k))  # whether e plays a part
    W_before, e_before, momentum, last = W, e, 0.0, -np.inf
    each = 4.0 * K.size * W.shape[1] + 20.0 * W.size + THIN_CALLS
    while True:
        with budget.measured(each, THIN):
            W_ahead = normalise(W + momentum * (W - W_before)) if momentum else W
            e_ahead = normalise((e + momentum * (e - e_before))[None])[0]
            T = normalise(K @ W_ahead + r[:, None] * e_ahead if joined else K @ W_ahead)
            W_before, e_before = W, e
            image = turned @ T
            W = normalise(image + k[:, None] * e_ahead if joined else image)
            pull = r @ T + k @ W
            e = normalise(pull[None])[0]
        value = 2.0 * float(np.vdot(image, W)) + 2.0 * float(np.linalg.norm(pull))
        # Extrapolation speeds up the sweeps several times; it restarts when the value falls.
        momentum = 0.0 if value < last else min(0.9, momentum + 0.1)
        last = value
        yield Sweep(T, W, e, value)


def normalise(V: Floats) -> Floats:
    """Rows of length one; a row of zeros stays."""
    norm = np.sqrt(np.einsum("ij,ij->i", V, V))
    return np.asarray(V / np.where(norm > 0, norm, 1.0)[:, None])


def solve_unit_vectors(
    parts: Moments, W: Floats, e: Floats, budget: Budget, sweeps: int = 100, tolerance: float = 1e-6
) -> UnitResult:
    """The best multipliers found from the vectors v = W and e on; `parts` are K, r and k.

    One sweep is made whatever the budget: without it there are no multipliers.
    """
    K, r, k = parts
    before, alternation = -np.inf, alternate(parts, normalise(W), e, budget)
    for count, at in zip(range(1, sweeps + 1), alternation, strict=False):
        if budget.over() or (count % 20 == 0 and at.value - before < tolerance * abs(at.value)):
            break
        before = at.value if count % 20 == 0 else before
    left = np.linalg.norm(K @ at.W + r[:, None] * at.e, axis=1)
    right = np.linalg.norm(K.T @ at.T + k[:, None] * at.e, axis=1)
    one = float(np.linalg.norm(r @ at.T + k @ at.W))
    with budget.measured(EIGENVALUE * (1 + sum(K.shape)) ** 3 + EIGENVALUE_CALLS):
        return _feasible(parts, np.concatenate([[one], left, right]), at.value)


def _feasible(parts: Moments, d: Floats, value: float) -> UnitResult:
    """d scaled until diag(d) - M is positive semidefinite, up to rounding."""
    K, r, k = parts
    d = np.maximum(d, 1e-6 * max(float(d.mean()), np.finfo(float).tiny))
    p, n = K.shape[0], d.size
    M = np.zeros((n, n))
    M[0, 1 : 1 + p], M[0, 1 + p :], M[1 : 1 + p, 1 + p :] = r, k, K
    M += M.T
    scale = 1.0 / np.sqrt(d)
    largest = eigh(M * scale[:, None] * scale, eigvals_only=True, subset_by_index=(n - 1, n - 1))[0]
    d = d * max(float(largest), 0.0) * (1.0 + 1e-12)
    return UnitResult(d[1 : 1 + p], d[1 + p :], float(d[0]), float(d.sum()), value)
