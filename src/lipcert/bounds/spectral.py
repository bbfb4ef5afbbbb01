"""Operator norms with proofs: the spectral norm by a Cholesky factorisation, the others by sums and by it."""

from __future__ import annotations

import numpy as np

from lipcert.problem.maps import Matrix, Operator, dense, entries
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, Array, gamma, grow
from lipcert.rounding.definite import is_positive
from lipcert.steps import step

_EUCLIDEAN = Norm("2")
_SPECTRAL_UP_TO = 4096  # the shorter side of a matrix whose spectral norm is computed
_ROWS = 1 << 22  # numbers in the rows of a convolution that are written out at a time


def operator_norm(weight: Matrix, p: str, q: str, *, exact: bool = True) -> float:
    """An upper bound on max |weight t|_q over |t|_p <= 1; exact up to rounding for p = 1, for q = inf and for p = q.

    Else it is the least of what the rows, and the spectral norm with the norms' ratios, give. Without `exact` sums of
    rows and columns take the place of the spectral norm: a few products with the matrix, and no smaller bound.
    """
    rows, columns = weight.shape
    if p == "1":
        return float(np.max(Norm(q).rows_above(weight.T), initial=0.0))
    by_rows = Norm(q).above(Norm(p).dual.rows_above(weight))
    if q == "inf":
        return by_rows
    wide = columns if p == "inf" else 1  # |t|_2 <= sqrt(n) |t|_inf
    tall = rows if q == "1" else 1  # |v|_1 <= sqrt(m) |v|_2
    by_spectral = grow(
        np.sqrt(np.asarray(float(wide * tall))) * (spectral_norm(weight) if exact else _EUCLIDEAN.gain(weight)), 4
    )
    return min(by_rows, float(by_spectral))


def spectral_norm(weight: Matrix) -> float:
    """An upper bound of the spectral norm: mu I - A A' (or A'A) is proved positive semidefinite."""
    if 0 in weight.shape:
        return 0.0
    cheap = _EUCLIDEAN.gain(weight)
    A = weight if weight.shape[0] <= weight.shape[1] else weight.T
    n, terms = A.shape
    if n > _SPECTRAL_UP_TO or not np.isfinite(cheap) or not 1e-100 < cheap < 1e100:
        return cheap
    step(spectral_operations(weight))  # nothing below can be left in the middle
    gram = _gram(A)
    gram = (gram + gram.T) / 2
    magnitude = abs(A)
    error = grow(gamma(terms + 8) * np.asarray(magnitude @ (magnitude.T @ np.ones(n))) + n * terms * TINY, n + terms)
    hint = _largest_eigenvalue(gram)
    for growth in (1e-6, 1e-3, 0.05):
        step(float(n) ** 3 / 3)
        mu = np.full(n, hint * (1.0 + growth))
        if is_positive(-gram, mu, error):
            return min(cheap, float(grow(np.sqrt(mu[:1]), 4)[0]))
    return cheap


def spectral_operations(weight: Matrix) -> float:
    """About the operations of `spectral_norm`: a Gram matrix, its largest eigenvalue, and a few factorisations."""
    n = int(min(weight.shape))
    if n > _SPECTRAL_UP_TO:
        return 4.0 * entries(weight)
    return 2.0 * n * entries(weight) + 2.0 * float(n) ** 3


def _gram(A: Matrix) -> Array:
    """A A', of a convolution some rows at a time."""
    if not isinstance(A, Operator):
        return dense(A @ A.T)
    step = max(1, _ROWS // A.shape[1])
    return np.concatenate([dense(A[k : k + step]) @ A.T for k in range(0, A.shape[0], step)])


def _largest_eigenvalue(gram: Array) -> float:
    """A hint only: what it is used for is proved."""
    from scipy.linalg import LinAlgError, eigh  # here, so that importing lipcert stays fast

    n = len(gram)
    if n <= 400:
        try:
            return float(eigh(gram, eigvals_only=True, subset_by_index=(n - 1, n - 1))[0])
        except LinAlgError:  # the search for one eigenvalue gives up on some plain matrices
            return float(np.linalg.eigvalsh(gram)[-1])
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(0).standard_normal(n)
    return float(eigsh(gram, k=1, v0=start, tol=1e-7, return_eigenvectors=False)[0])
