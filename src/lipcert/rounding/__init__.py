"""Outward rounding for matrix products: the error analysis that every proof in this package rests on.

Floats are IEEE binary64 with unit roundoff u = 2^-53. A sum of n products, in any order, with or without fused
multiply-add, satisfies |fl(a'b) - a'b| <= gamma(n) |a|'|b| + n*tiny, gamma(n) = n u / (1 - n u)  [Higham02, sect. 3.1];
the second term covers underflow, flushed to zero or gradual. We assume a conventional BLAS: no Strassen-like products.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT = 2.0**-53  # unit roundoff of float64
TINY = float(np.finfo(np.float64).tiny)  # the least normal float64, above every error by underflow

# glibc hands an array of more than 128 kB back to the system when it is freed, and the page faults of the next one take
# several times as long as what is computed in it. When one large array is freed, glibc keeps arrays up to that size
# (mallopt(3), the dynamic threshold); other systems do not care. The pages of this array are never touched.
np.empty((1 << 25) - (1 << 13), dtype=np.uint8)


class Interval(NamedTuple):
    """lo <= value <= hi, entry by entry."""

    lo: Array
    hi: Array

    @property
    def magnitude(self) -> Array:
        """The largest |value|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def mignitude(self) -> Array:
        """The smallest |value|."""
        return np.maximum(np.maximum(self.lo, -self.hi), 0.0)

    def rows(self, k: int | slice | NDArray[np.int64]) -> Interval:
        """The intervals of some cells: `k` indexes the first axis."""
        return Interval(self.lo[k], self.hi[k])

    def meet(self, other: Interval) -> Interval:
        """The intersection of both."""
        return Interval(np.maximum(self.lo, other.lo), np.minimum(self.hi, other.hi))


def gamma(n: int) -> float:
    """An upper bound on gamma(n) = n u / (1 - n u), itself rounded up."""
    if n >= 2**40:
        raise OverflowError(f"a sum of {n} terms is beyond the error analysis")
    return n * UNIT * (1.0 + 2.0**-10)


def grow(x: Array, n: int) -> Array:
    """An upper bound on an exact value whose floating-point evaluation is x >= 0.

    Valid when x came from at most n operations that only add and multiply non-negative numbers (so that relative
    errors accumulate without cancellation).
    """
    return x * (1.0 + gamma(n + 8)) + (n + 8) * TINY


def up(x: Array) -> Array:
    """The next larger float, which is an upper bound where x is a correctly rounded result."""
    return np.nextafter(x, np.inf)


def down(x: Array) -> Array:
    """The next smaller float, which is a lower bound where x is a correctly rounded result."""
    return np.nextafter(x, -np.inf)


def add_up(a: Array, b: Array) -> Array:
    """a + b rounded up; exact sums stay as they are."""
    s, e = two_sum(a, b)
    return np.where(e > 0, up(s), s)


def add_down(a: Array, b: Array) -> Array:
    """a + b rounded down; exact sums stay as they are."""
    s, e = two_sum(a, b)
    return np.where(e < 0, down(s), s)


def worst(*bounds: float) -> float:
    """The largest of several upper bounds; infinite where one of them is NaN, which max could drop."""
    return math.inf if any(math.isnan(b) for b in bounds) else float(max(bounds))


def best(*bounds: float) -> float:
    """The least of several upper bounds on the same quantity; NaN is ignored, and without any bound it is infinite."""
    return float(min((b for b in bounds if not math.isnan(b)), default=math.inf))


def or_infinite(bounds: Array) -> Array:
    """Upper bounds with infinity in place of NaN, which a difference of infinities or 0 times infinity leaves."""
    return np.where(np.isnan(bounds), math.inf, bounds)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Sum and exact error of the sum [Knuth]; both operands finite."""
    s = np.asarray(a + b, dtype=np.float64)
    t = s - a
    return s, (a - (s - t)) + (b - t)


def sum_up(x: Array) -> float:
    """An upper bound on the sum of non-negative numbers."""
    return float(grow(np.asarray(np.sum(x, dtype=np.float64)), x.size))


def sum_down(x: Array) -> float:
    """A lower bound on the sum of non-negative numbers: at least zero, and finite where the sum overflows."""
    with np.errstate(over="ignore"):
        total = min(float(np.sum(x, dtype=np.float64)), float(np.finfo(np.float64).max))
    return max(0.0, total * (1.0 - gamma(x.size + 8)) - (x.size + 8) * TINY)
