"""Greedy multipliers of a slope program: block by block, one number for all neurons of a block but for their slopes.

With t_k = 1 / (lambda b_k (b_k - a_k)), where b_k is the larger end of the slopes in size and lambda the largest
eigenvalue of W X^-1 W', X being what is left of the blocks before, what is left of a block is at least
1 / (lambda b_k^2): in a chain the bound is never above the product of norms.
"""

from __future__ import annotations

import numpy as np

from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram
from lipcert.rounding import Array

_INSIDE = 0.9  # of the largest multipliers: what is left has full rank
_SHARED = 0.5  # of what is left of a state may go into a block, where later blocks read it too
_EQUAL = 1e-6  # of the slope: an interval shorter than this counts as so long


def scalar_multipliers(program: SlopeProgram) -> SlopeMultipliers | None:
    """The multipliers of one pass; None where numbers overflow."""
    inputs = np.full(program.inputs, 1.0 / program.inputs) if program.weighted else None
    X = np.eye(program.inputs) if inputs is None else np.diag(inputs)
    found: list[Array] = []
    for i in range(1, len(program.blocks) + 1):
        step = _step(program, X, i)
        if step is None:
            return None
        t, X = step
        found.append(t)
    return SlopeMultipliers(tuple(found), inputs)


def _step(program: SlopeProgram, X: Array, i: int) -> tuple[Array, Array] | None:
    """The multipliers of a block, and what is left for the state after it."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular  # here, so that importing lipcert stays fast

    block, rows, later = program.blocks[i - 1], program.rows(i), set(program.states[i])
    size = np.maximum(np.abs(block.a), np.abs(block.b))
    try:
        V = solve_triangular(cholesky(X, lower=True), rows.T, lower=True)
        most = float(np.linalg.norm(V, 2)) ** 2
        stay = np.concatenate([np.full(program.widths[j], j in later) for j in (*program.states[i - 1], i)])
        share = _SHARED if np.any(stay[: len(X)]) else _INSIDE
        t = share / (most * size * np.maximum(block.b - block.a, _EQUAL * size))
        n = len(X)
        F = np.zeros((n + len(t), n + len(t)))
        F[:n, :n] = X + rows.T @ ((2 * t * block.a * block.b)[:, None] * rows)
        F[n:, :n] = -(t * (block.a + block.b))[:, None] * rows
        F[:n, n:] = F[n:, :n].T
        F[n:, n:] = np.diag(2 * t)
        V = solve_triangular(cholesky(F[np.ix_(~stay, ~stay)], lower=True), F[np.ix_(~stay, stay)], lower=True)
    except (LinAlgError, ValueError, ArithmeticError):
        return None
    left = F[np.ix_(stay, stay)] - V.T @ V
    return t, (left + left.T) / 2
