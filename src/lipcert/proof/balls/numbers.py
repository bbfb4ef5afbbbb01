"""Arrays of balls: numbers that carry their own error (python-flint), in numpy arrays of objects.

Every result contains the exact real number for the given floats, whatever the order of the operations: nothing here
counts roundings. At the end of a step a ball is rounded outward to floats, which the next step begins with.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, how_to_install
from lipcert.rounding import Array
from lipcert.steps import step

Balls = NDArray[Any]  # an array of `flint.arb`

BITS = 128
MOST_ORDER = 600  # order of a matrix that is proved to be positive definite
# Added to the whole diagonal, relative to its largest entry, until a proof succeeds; the bound pays for it.
LIFTS = tuple(2.0**-k for k in (46, 43, 40, 36, 32))
_ROOM = (2.0**-70, 2.0**-60, 2.0**-50, 2.0**-40, 2.0**-30, 2.0**-20)  # above the hint of an eigenvalue


def load_flint() -> Any:
    """The module, or an InputError that says how to get it."""
    try:
        return importlib.import_module("flint")
    except ImportError:
        raise InputError(f"the exact check needs python-flint; {how_to_install('exact')}") from None


def balls(x: Any) -> Balls:
    """Floats as they are, exactly."""
    arb, floats = load_flint().arb, np.asarray(x, dtype=np.float64)
    found = np.empty(floats.size, dtype=object)
    found[:] = [arb(e) for e in floats.ravel().tolist()]
    return found.reshape(floats.shape)


def zeros(*shape: int) -> Balls:
    """Zeros."""
    return balls(np.zeros(shape))


def product(A: Balls, B: Balls) -> Balls:
    """The matrix product of two matrices, or of a matrix and a vector."""
    step()
    if B.ndim == 1:
        return np.asarray(product(A, B[:, None])[:, 0])
    found = np.empty(A.shape[0] * B.shape[1], dtype=object)
    found[:] = (matrix(A) * matrix(B)).entries() if found.size and A.shape[1] else zeros(found.size)
    return found.reshape(A.shape[0], B.shape[1])


def matrix(A: Balls) -> Any:
    """These balls as a matrix of python-flint."""
    return load_flint().arb_mat(*A.shape, A.ravel().tolist())


def of_matrix(A: Any) -> Balls:
    """And back."""
    found = np.empty(A.nrows() * A.ncols(), dtype=object)
    found[:] = A.entries()
    return found.reshape(A.nrows(), A.ncols())


def total(x: Balls) -> Balls:
    """Sums along the last axis."""
    return np.asarray(x.sum(axis=-1)) if x.shape[-1] else zeros(*x.shape[:-1])


def _elementwise(function: Callable[..., Any], inputs: int) -> Callable[..., Balls]:
    ufunc: Any = np.frompyfunc(function, inputs, 1)

    def apply(*arrays: Any) -> Balls:
        return np.asarray(ufunc(*arrays), dtype=object)

    return apply


larger = _elementwise(lambda a, b: a.max(b), 2)
smaller = _elementwise(lambda a, b: a.min(b), 2)
root = _elementwise(lambda a: a.nonnegative_part().sqrt(), 1)


def largest(x: Balls) -> Any:
    """The largest of all entries, at least zero."""
    arb = load_flint().arb
    top = arb(0)
    for e in x.ravel().tolist():
        top = top.max(e)
    return top


def float_above(value: Any) -> float:
    """The least float, nearly, that is not below the ball; infinite where the ball is no number."""
    top, arb = value.upper(), load_flint().arb
    if not top.is_finite():
        return math.inf
    result = float(top)
    while math.isfinite(result) and not arb(result) >= top:
        result = math.nextafter(result, math.inf)
    return result


def above(x: Balls) -> Array:
    """Floats that are not below."""
    return np.array([float_above(e) for e in x.ravel().tolist()], dtype=np.float64).reshape(x.shape)


def below(x: Balls) -> Array:
    """Floats that are not above."""
    return -above(-x)


def floats(x: Balls) -> Array:
    """Middles, rounded: hints."""
    return np.array([float(e.mid()) for e in x.ravel().tolist()], dtype=np.float64).reshape(x.shape)


def lengths(size: Balls, p: str) -> Balls:
    """The p-norm of vectors with these magnitudes, along the last axis."""
    if p == "1":
        return total(size)
    if p == "2":
        return root(total(size * size))
    found = np.empty(size.shape[:-1], dtype=object)
    for k in np.ndindex(*size.shape[:-1]):
        found[k] = largest(size[k])
    return found


def is_positive_definite(A: Any) -> bool:
    """Proves that every symmetric matrix in the balls of A, of python-flint, is positive definite; False is no proof.

    If || X A X' - I ||_inf < 1 for some X, then X A X' is positive definite, and so is A. The inverse of a
    floating-point Cholesky factor is tried, after scaling with powers of two.
    """
    from scipy.linalg import lapack  # here, so that importing lipcert stays fast

    flint, n = load_flint(), A.nrows()
    if n == 0:
        return True
    diagonal = [A[i, i] for i in range(n)]
    if not all(e.is_finite() and e > 0 for e in diagonal):
        return False
    powers = [-(int((e.mid().man_exp()[1]) + e.mid().man_exp()[0].bit_length()) // 2) for e in diagonal]
    scale = flint.arb_mat(n, n)
    for i, k in enumerate(powers):
        scale[i, i] = flint.arb(2) ** k
    B = scale * A * scale
    middles = np.array([float(e.mid()) for e in B.entries()], dtype=np.float64).reshape(n, n)
    if not np.all(np.isfinite(middles)):
        return False
    factor, failed = lapack.dpotrf(middles, lower=1, clean=1)
    if failed:
        return False
    inverse, failed = lapack.dtrtri(factor, lower=1)
    if failed or not np.all(np.isfinite(inverse)):
        return False
    X = flint.arb_mat(n, n, inverse.ravel().tolist())
    E = of_matrix(X * B * X.transpose()) - balls(np.eye(n))
    return all(bool(row < 1) for row in total(abs(E)).tolist())


def largest_eigenvalue(S: Balls) -> Any:
    """At least the largest eigenvalue, or zero, of every symmetric matrix in the balls of S; a hint is proved.

    Where no hint is, the largest sum of magnitudes in a row is returned.
    """
    arb, n = load_flint().arb, len(S)
    top = largest(total(abs(S)))
    if n < 2 or n > MOST_ORDER or not top.is_finite() or not top > 0:
        return largest(S[0]) if n == 1 else top
    middle = floats(S / top)
    hint = max(float(np.linalg.eigvalsh((middle + middle.T) / 2)[-1]), 0.0)
    for room in _ROOM:
        value = arb(hint) + arb(room)
        if is_positive_definite(matrix(balls(np.eye(n)) * (value * top) - S)):
            return (value * top).min(top)
    return top


def spectral(A: Balls) -> Any:
    """At least the spectral norm of every matrix in the balls."""
    arb = load_flint().arb
    if 0 in A.shape:
        return arb(0)
    cheap = largest(total(abs(A))) * largest(total(abs(A.T)))
    if min(A.shape) > MOST_ORDER or not cheap > 0:
        return cheap.nonnegative_part().sqrt()
    B = A if A.shape[0] <= A.shape[1] else A.T
    return largest_eigenvalue(product(B, B.T)).min(cheap).nonnegative_part().sqrt()
