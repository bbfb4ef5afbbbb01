"""Vectors of multiple-precision numbers in fixed point, multiplied by matrices through ordinary float64 products.

Interval arithmetic multiplies the width of an interval by |A| in every layer, while the value is multiplied by A: after
64 layers of random weights no correct digit of a float64 is left. A few hundred bits leave enough of them. A number is

    x = 2^(B top) sum_k digits_k 2^(-B k)  +- radius,      digits_k whole, |digits_k| <= 2^(B - 1),   B = 18

and a matrix is a sum of slices of such digits. Sums of products of whole numbers are exact in float64, in any order,
while they stay below 2^53: BLAS computes them, and only the digits that are cut off at the end add to the radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import TINY, Array, grow

BITS = 18  # bits of one digit
SLICES = 8  # most digits of a weight: weights down to 2^-70 of the largest one are exact
MOST_PRODUCTS = 1 << 18  # products of two digits in one sum, so that the sum stays within 2^52
_BASE = 2.0**BITS
_LIMIT = 900  # largest exponent of a number; beyond it OutOfRangeError is raised

Product = Callable[[Array], Array]  # (digits, in) -> (digits, out), exact on small whole numbers


class OutOfRangeError(ArithmeticError):
    """An exponent is too large for this arithmetic, or a sum has too many terms."""


@dataclass(frozen=True, eq=False)
class Long:
    """A vector of n numbers: digits (count, n), the most significant first, and a radius of error for each number."""

    digits: Array
    top: int
    radius: Array

    @classmethod
    def of(cls, x: Array) -> Long:
        """A float64 vector; the result is exact but for entries below 2^-70 of the largest."""
        slices, top, rest = sliced(x)
        return cls(np.array(slices), top, np.full(x.shape, rest))

    @property
    def floats(self) -> Array:
        """The middles as floats, within a few units in the last place; the radius is not looked at."""
        total = np.zeros(self.digits.shape[1])
        for row in self.digits[::-1]:  # the least significant digit first
            total = total / _BASE + row
        return np.asarray(np.ldexp(total, BITS * self.top))

    @property
    def least(self) -> Array:
        """A lower bound on each |value|."""
        size = np.abs(self.floats) * (1.0 - 2.0**-40) - TINY
        return np.maximum(size - self.radius * (1.0 + 2.0**-40), 0.0)

    @property
    def sides(self) -> tuple[Array, Array]:
        """A lower and an upper bound on each value."""
        middle = self.floats
        reach = (np.abs(middle) * 2.0**-40 + self.radius) * (1.0 + 2.0**-40) + TINY
        return np.nextafter(middle - reach, -np.inf), np.nextafter(middle + reach, np.inf)

    def where(self, chosen: NDArray[np.bool_]) -> Long:
        """The chosen numbers; the others become exactly zero."""
        return Long(self.digits * chosen, self.top, self.radius * chosen)


def sliced(numbers: Array) -> tuple[list[Array], int, float]:
    """Slices and `top` with numbers = sum_i slices_i 2^(B (top - i)) + rest, and a bound on every |rest|."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return [np.zeros(numbers.shape)], 0, 0.0
    exponent = math.frexp(largest)[1]
    if not np.isfinite(largest) or abs(exponent) > _LIMIT:
        raise OutOfRangeError(f"a number of about 2^{exponent}")
    top = -((BITS - 1 - exponent) // BITS)  # the least with largest <= 2^(B top + B - 1)
    rest = np.ldexp(numbers, -BITS * top)
    lost = bool(np.any((rest == 0.0) != (numbers == 0.0)))
    slices: list[Array] = []
    while len(slices) < SLICES and (not slices or rest.any()):
        slices.append(np.rint(rest))
        rest = (rest - slices[-1]) * _BASE  # both exact
    left = lost or bool(rest.any())
    return slices, top, _power(top - len(slices), BITS) if left else 0.0


# The factors of one product: a vector; the products with each slice of a matrix; the most nonzero entries in a row of
# the matrix; the `top` of its slices; an upper bound on |matrix| times the vector's radius; and a bound on the part of
# each entry of the matrix that its slices leave out.
Term = tuple[Long, list[Product], int, int, Array, float]


def combine(terms: Sequence[Term], count: int) -> Long:
    """The sum of products of matrices and vectors, cut to `count` digits."""
    parts = [_product(*term) for term in terms]
    top = max(part.top for part in parts)
    radius = np.sum([part.radius for part in parts], axis=0)
    shifted = [np.vstack([np.zeros((top - part.top, part.digits.shape[1])), part.digits]) for part in parts]
    rows = max(map(len, shifted))
    total = np.zeros((rows, radius.size))
    for digits in shifted:
        total[: len(digits)] += digits
    return _cut(total, top, grow(radius, len(parts)), count)


def _product(x: Long, products: list[Product], n: int, top: int, radius: Array, left: float) -> Long:
    count = len(x.digits)
    if n * min(len(products), count) > MOST_PRODUCTS:
        raise OutOfRangeError(f"a sum of {n} terms")
    total = np.zeros((count + len(products) - 1, radius.size))
    for i, product in enumerate(products):
        total[i : i + count] += product(x.digits)
    lost = n * left * _power(x.top, BITS) * 2.0 if left else 0.0
    return _cut(total, x.top + top, grow(radius + lost, 4) if left else radius, None)


def _cut(total: Array, top: int, radius: Array, count: int | None) -> Long:
    """Carry, so that every digit is small; then keep `count` digits, beginning with the first that is not zero."""
    digits = np.vstack([np.zeros((3, total.shape[1])), total])
    for k in range(len(digits) - 1, 0, -1):
        carry = np.rint(digits[k] / _BASE)
        digits[k] -= carry * _BASE
        digits[k - 1] += carry
    top += 3
    first = int(np.argmax(digits.any(axis=1)))
    digits, top = digits[first:], top - first
    if count is None or len(digits) <= count:
        return Long(digits, top, radius)
    tail = digits[count:].any(axis=0)
    return Long(digits[:count], top, np.where(tail, grow(radius + _power(top - count, BITS), 2), radius))


def _power(digits: int, bits: int) -> float:
    """An upper bound on 2^(B digits + bits) that is positive as a float."""
    exponent = BITS * digits + bits
    if exponent > _LIMIT + 100:
        raise OutOfRangeError(f"a number of about 2^{exponent}")
    return max(math.ldexp(1.0, exponent), TINY)
