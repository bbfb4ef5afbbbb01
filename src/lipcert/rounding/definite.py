"""Positive semidefiniteness as a theorem: a Cholesky factorisation that runs to completion [Rump06].

If Cholesky of a symmetric floating-point matrix B (order n) succeeds, then B + c I is positive semidefinite for every
c >= gamma(n+1) / (1 - gamma(n+1)) trace(B) plus an underflow term, in real arithmetic, whatever the order of the sums.
"""

from __future__ import annotations

import numpy as np

from lipcert.rounding import TINY, Array, add_down, gamma, grow, sum_up
from lipcert.steps import step


def is_positive(S: Array, shift: Array, error: Array) -> bool:
    """Whether E + diag(shift) >= 0 is proved for every symmetric E with sum_j |E_ij - S_ij| <= error_i.

    False proves nothing.
    """
    step()
    n = len(S)
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = add_down(add_down(np.diag(S).copy(), shift), -error)
        c = _factor_error(n, diagonal)
        diagonal = add_down(diagonal, np.full(n, -c))
    if not np.all(np.isfinite(diagonal)) or np.any(diagonal <= 0):
        return False
    B = np.array(S, order="F")
    B[np.diag_indices(n)] = diagonal
    if not np.all(np.isfinite(B)):
        return False
    from scipy.linalg import lapack  # here, so that importing lipcert stays fast

    factor, info = lapack.dpotrf(B, lower=1, clean=0, overwrite_a=1)
    return bool(info == 0 and np.all(np.isfinite(np.diag(factor))) and np.all(np.isfinite(factor)))


def are_positive(S: Array, shift: float, error: float) -> bool:
    """Whether E + shift I >= 0 is proved for all symmetric E within `error`, in spectral norm, of a matrix of a stack.

    Only the lower triangles of the stack (.., n, n) are looked at. False proves nothing.
    """
    step()
    n = S.shape[-1]
    B = np.array(S)
    own = np.einsum("...ii->...i", B)
    with np.errstate(over="ignore", invalid="ignore"):
        own[...] = add_down(add_down(own, np.full(own.shape, shift)), np.full(own.shape, -error))
        most = own.max(axis=tuple(range(own.ndim - 1)), initial=0.0)
        own[...] = add_down(own, np.full(own.shape, -_factor_error(n, most)))
    if not np.all(np.isfinite(B)) or np.any(own <= 0):
        return False
    try:
        return bool(np.all(np.isfinite(np.linalg.cholesky(B))))
    except np.linalg.LinAlgError:
        return False


def find_shift(S: Array, error: Array) -> Array:
    """A small diagonal shift that `is_positive` accepts; infinite where numbers overflow.

    Computed eigenvalues suggest shifts; a shift is returned only after `is_positive` proved it. If none of these
    suffices, the shift that makes the matrix diagonally dominant is doubled until one does.
    """
    n = len(S)
    base = grow(error, 4)
    least = 1.01 * _factor_error(n, np.abs(np.diag(S)) + base) + TINY
    shift = grow(base + least, 4)
    if is_positive(S, shift, error):
        return shift
    for candidate in _candidates(S):
        for growth in (1.0 + 1e-9, 1.0 + 1e-6, 1.001, 1.1):
            lifted = growth * candidate + base + 2 * growth * (least + 2 * _factor_error(n, candidate))
            if is_positive(S, lifted, error):
                return np.asarray(lifted)
    dominance = np.abs(S).sum(axis=1) - np.diag(S)
    dominance = np.maximum(dominance, 0.0) * 1.001 + grow(base, 4)
    while np.all(np.isfinite(dominance)):
        lifted = dominance + 4 * _factor_error(n, np.abs(np.diag(S)) + dominance) + TINY
        if is_positive(S, lifted, error):
            return np.asarray(lifted)
        dominance = 2 * dominance + TINY
    return np.full(n, np.inf)


def _candidates(S: Array) -> list[Array]:
    """Shifts to try, the one with the least sum first.

    One has minus the least eigenvalue in every coordinate. The other has the row sums of |N|, where -N is the negative
    part of S: N <= diag(row sums of |N|).
    """
    if not np.all(np.isfinite(S)):
        return []
    from scipy.linalg import eigh  # here, so that importing lipcert stays fast

    try:
        values, vectors = eigh(S, subset_by_value=(-np.inf, 0.0), check_finite=False)
    except (np.linalg.LinAlgError, ValueError):
        return []
    if not len(values):
        return [np.zeros(len(S))]
    negative = (vectors * -values) @ vectors.T
    options: list[Array] = [np.full(len(S), -values[0]), np.abs(negative).sum(axis=1)]
    return sorted(options, key=np.sum)


def _factor_error(n: int, diagonal: Array) -> float:
    """The c in the module's docstring, rounded up, for a matrix with at most this diagonal."""
    trace = sum_up(np.maximum(diagonal, 0.0))
    return 2.0 * gamma(n + 4) * trace + 8.0 * (n + 1) * (2 * n + trace) * TINY
