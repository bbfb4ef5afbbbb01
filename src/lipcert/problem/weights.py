"""Weights of a norm: a vector w for |diag(w) t|_p, or a positive definite P for sqrt(t'Pt); and proved factors of them.

A factor is computed in floating point, made a little wider, and then proved wide enough by a factorisation
(`rounding.definite`), so that no step of computing it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import InputError
from lipcert.problem.arrays import array_of, floats_of
from lipcert.rounding import Array, down, gamma, grow, up
from lipcert.rounding.definite import is_positive

Index = NDArray[np.int64]

_ROUNDS = 40  # attempts to widen a factor until it is proved wide enough
_LEAST, _MOST = 1e-100, 1e100


def check_weights(end: str, given: ArrayLike, sizes: tuple[int, int], p: str) -> Array:
    """A vector of sizes[0] positive weights, or a positive definite matrix of order sizes[1] for the Euclidean norm."""
    try:
        w = np.array(floats_of(given))
    except (TypeError, ValueError):
        raise InputError(f"{end} weights must be numbers") from None
    if w.ndim not in (1, 2) or not w.size or not np.all(np.isfinite(w)):
        raise InputError(f"{end} weights must be a vector, or a square matrix, of finite numbers")
    w.flags.writeable = False
    if w.ndim == 1:
        return _checked_vector(end, w, sizes[0])
    if p != "2":
        raise InputError(f"a matrix of {end} weights is for the Euclidean norm, not for norm {p}; use norm 2")
    if w.shape != (sizes[1], sizes[1]):
        raise InputError(f"the matrix of {end} weights has the shape {w.shape}, not {(sizes[1], sizes[1])}")
    if not np.array_equal(w, w.T):
        raise InputError(f"the matrix of {end} weights is not symmetric")
    if np.abs(w).max() > _MOST or not is_positive(w, np.zeros(len(w)), np.zeros(len(w))):
        raise InputError(f"the matrix of {end} weights is not positive definite")
    return w


def _checked_vector(end: str, w: Array, count: int) -> Array:
    if w.shape != (count,):
        raise InputError(f"{w.size} {end} weights; give {count}, one for every {end}")
    if not np.all(w > 0):
        bad = int(np.argmin(w > 0))
        raise InputError(f"{end} weight {bad} is {w[bad]:g}; weights must be > 0")
    if w.min() < _LEAST or w.max() > _MOST:
        raise InputError(f"{end} weights must lie between {_LEAST:g} and {_MOST:g}; scale them")
    return w


def check_inputs(inputs: Sequence[int] | Index, count: int) -> Index:
    """Which inputs change, in increasing order."""
    try:
        own = array_of(inputs)
    except (TypeError, ValueError):
        own = np.zeros(0)
    if own.ndim != 1 or not own.size or own.dtype.kind not in "iu":
        raise InputError("inputs must be one or more whole numbers, the inputs that change")
    if np.any((own < 0) | (own >= count)):
        bad = int(own[(own < 0) | (own >= count)][0])
        raise InputError(f"input {bad} is out of range: the network has {count} inputs, 0 to {count - 1}")
    found = np.unique(own).astype(np.int64)
    if len(found) != len(own):
        raise InputError("inputs: one of them is named twice")
    return found


def ranges(inputs: Sequence[int] | Index) -> str:
    """0:3,7 for 0, 1, 2, 7."""
    found: list[list[int]] = []
    for k in (int(i) for i in inputs):
        if found and found[-1][1] == k:
            found[-1][1] = k + 1
        else:
            found.append([k, k + 1])
    return ",".join(f"{a}" if b == a + 1 else f"{a}:{b}" for a, b in found)


def powers_of_two(x: Array) -> NDArray[np.bool_]:
    """Which of these are."""
    return np.asarray(np.frexp(x)[0] == 0.5)


def reciprocals(w: Array) -> Array:
    """Above 1 / w, or equal to it."""
    return np.where(powers_of_two(w), 1.0 / w, up(up(1.0 / w)))


def spanning(P: Array) -> Array:
    """S with S'PS >= I, proved, and not much more."""
    from scipy.linalg import lapack  # here, so that importing lipcert stays fast

    factor, _ = lapack.dpotrf(P, lower=0, clean=1)
    inverse, failed = lapack.dtrtri(factor, lower=0)
    return _widened("input", inverse, failed, lambda S: spans(S, P))


def covering(Q: Array) -> Array:
    """C with C'C >= Q, proved, and not much more."""
    from scipy.linalg import lapack  # here, so that importing lipcert stays fast

    factor, failed = lapack.dpotrf(Q, lower=0, clean=1)
    return _widened("output", factor, failed, lambda C: covers(C, Q))


def _widened(end: str, factor: Array, failed: int, proves: Callable[[Array], bool]) -> Array:
    if not failed and np.all(np.isfinite(factor)):
        for k in range(_ROUNDS):
            wider = np.asarray(factor * (1.0 + 2.0 ** (k - 51.0)))
            if proves(wider):
                wider.flags.writeable = False
                return wider
    raise InputError(f"the matrix of {end} weights is too close to singular; add to its diagonal")


def spans(S: Array, P: Array) -> bool:
    """Proves S'PS >= I."""
    product, error = _congruent(S, P)
    return is_positive(product - np.eye(len(product)), np.zeros(len(product)), error)


def covers(C: Array, Q: Array) -> bool:
    """Proves C'C >= Q."""
    difference, error = _excess(C, Q)
    return is_positive(difference, np.zeros(len(Q)), error)


def span_share(S: Array, P: Array) -> float:
    """A proved m with S'PS <= I / m^2: S is that little too wide. Zero where nothing is proved."""
    product, error = _congruent(S, P)
    n = len(product)
    return _share(lambda t: is_positive(t * np.eye(n) - product, np.zeros(n), error + t * gamma(16)))


def cover_share(C: Array, Q: Array) -> float:
    """A proved m with m^2 C'C <= Q. Zero where nothing is proved."""
    return _share(lambda t: is_positive(-_excess(C, t * Q)[0], np.zeros(len(Q)), _excess(C, t * Q)[1]))


def _share(proves: Callable[[float], bool]) -> float:
    for k in range(_ROUNDS):
        t = 1.0 + 2.0 ** (k - 48.0)
        if proves(t):
            return float(1.0 / np.sqrt(t)) * (1.0 - gamma(16))
    return 0.0


def _congruent(S: Array, P: Array) -> tuple[Array, Array]:
    """S'PS in floats, symmetric; and by rows how far it and its difference from I lie from the true ones."""
    n, product = len(S), S.T @ (P @ S)
    size = np.abs(S.T) @ (np.abs(P) @ np.abs(S))
    return np.asarray((product + product.T) / 2), grow((size.sum(axis=1) + 2.0) * gamma(2 * n + 16), 4 * n)


def _excess(C: Array, Q: Array) -> tuple[Array, Array]:
    """C'C - Q in floats, and its error by rows; Q may be one product away from what is meant."""
    n, product = len(C), C.T @ C
    size = np.abs(C.T) @ np.abs(C) + np.abs(Q)
    return np.asarray((product + product.T) / 2 - Q), grow(size.sum(axis=1) * gamma(2 * n + 16), 4 * n)


def product_share(scale: Array, weights: Array) -> float:
    """A proved m with m scale_i weights_i <= 1 for all i."""
    most = float(up(np.asarray((scale * weights).max())))
    return float(down(np.asarray(1.0 / most))) * (1.0 - gamma(4))
