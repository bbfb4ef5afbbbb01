"""Interval arithmetic, rounded outward: vectors between two ends, and matrices with an error for every entry.

Arrays have the entries of a vector on their last axis; an axis before it, where there is one, counts cells. Every
result contains the exact real values for the given floats. A `Rounded` matrix is a middle and a radius: rows that are
pulled back through a network are written like that, because one product then serves the middle of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.maps import Matrix, entrywise, numbers, row_pieces
from lipcert.rounding import TINY, UNIT, Array, Interval, add_down, add_up, down, gamma, grow, up
from lipcert.steps import step

__all__ = [
    "Interval",
    "Rounded",
    "affine_interval",
    "affine_sum",
    "finite_sum",
    "middle_and_radius",
    "outward",
    "scaled",
    "sign_matrix",
    "times",
    "widened",
]

_SMALL = 2.0**-100

Terms = Sequence[tuple[Matrix, Interval]]  # weights with the interval that each is multiplied by


def affine_interval(weight: Matrix, bias: Array, x: Interval) -> Interval:
    """Bounds of weight x + bias; infinite ends of x are allowed."""
    return affine_sum([(weight, x)], bias)


def affine_sum(terms: Terms, bias: Array) -> Interval:
    """Bounds of bias + sum of weight x over the terms; infinite ends of x are allowed."""
    if all(np.isfinite(x.lo).all() and np.isfinite(x.hi).all() for _, x in terms):
        return finite_sum(terms, bias)
    z = finite_sum([(weight, _finite(x)) for weight, x in terms], bias)
    to_minus, to_plus = np.zeros(z.lo.shape), np.zeros(z.lo.shape)
    for weight, x in terms:
        below, above = np.isneginf(x.lo).astype(np.float64), np.isposinf(x.hi).astype(np.float64)
        rises, falls = sign_matrix(weight, 1), sign_matrix(weight, -1)
        to_minus += times(below, rises) + times(above, falls)
        to_plus += times(above, rises) + times(below, falls)
    return Interval(np.where(to_minus > 0, -np.inf, z.lo), np.where(to_plus > 0, np.inf, z.hi))


def widened(z: Interval, slack: Array | None) -> Interval:
    """z with this slack on both sides; None for no slack."""
    if slack is None:
        return z
    with np.errstate(invalid="ignore"):  # infinite ends stay
        return Interval(add_down(z.lo, -slack), add_up(z.hi, slack))


def finite_sum(terms: Terms, bias: Array | None = None) -> Interval:
    """Bounds of bias + sum of weight x: W m + b up to |W| r and the rounding errors gamma (|W||m| + |b|).

    `least` pays for underflow. It is a share of the largest entry that changes no digit, because the smallest floats
    make a processor crawl where x is mostly zero.
    """
    n = sum(weight.shape[1] for weight, _ in terms)
    g = gamma(n + 4)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = [_product(weight, x, g) for weight, x in terms]
        if bias is not None:
            shares.append((bias, g * np.abs(bias)))
        z, spread = shares[0]
        for value, more in shares[1:]:
            z, spread = z + value, spread + more
        return outward(z, grow(spread, n + 8))


def _product(weight: Matrix, x: Interval, g: float) -> tuple[Array, Array]:
    """weight times the middle of x, and how far the product may be from that; g is the rounding of the whole sum."""
    m, r = middle_and_radius(x)
    reach = r + g * np.abs(m)
    least = np.fmax(TINY, _SMALL * reach.max(axis=-1, keepdims=True))
    sizes = [times(reach + least, abs(some)) for some in row_pieces(weight)]
    return times(m, weight), sizes[0] if len(sizes) == 1 else np.concatenate(sizes, axis=-1)


def middle_and_radius(x: Interval) -> tuple[Array, Array]:
    """A float in the middle, and at least the distance from it to both ends."""
    m = x.lo / 2 + x.hi / 2
    return m, np.maximum(add_up(x.hi, -m), add_up(m, -x.lo))


def outward(value: Array, spread: Array) -> Interval:
    """[value - spread, value + spread]; where a sum overflowed, nothing is known."""
    lo, hi = add_down(value, -spread), add_up(value, spread)
    unknown = ~(np.isfinite(lo) & np.isfinite(hi))
    return Interval(np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi))


def scaled(s: Interval, g: Interval) -> Interval:
    """Bounds of s g, entry by entry, for finite s."""
    exact = (s.lo == s.hi) & ((s.lo == 1.0) | (s.lo == 0.0))
    zero = (s.lo == 0) & (s.hi == 0)
    both = s.lo < 0
    if mixed := bool(both.any()):
        falls = both & (s.hi <= 0)  # s g = (-s)(-g)
        g = Interval(np.where(falls, -g.hi, g.lo), np.where(falls, -g.lo, g.hi))
        s = Interval(np.where(falls, -s.hi, s.lo), np.where(falls, -s.lo, s.hi))
        both = s.lo < 0
    with np.errstate(over="ignore", invalid="ignore"):
        lo = np.where(g.lo >= 0, s.lo, s.hi) * g.lo
        hi = np.where(g.hi <= 0, s.lo, s.hi) * g.hi
        if mixed:  # any corner may be the least
            lo = np.where(both, np.minimum(s.lo * g.hi, s.hi * g.lo), lo)
            hi = np.where(both, np.maximum(s.lo * g.lo, s.hi * g.hi), hi)
    lo, hi = np.where(zero, 0.0, np.where(exact, lo, down(lo))), np.where(zero, 0.0, np.where(exact, hi, up(hi)))
    return Interval(np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi))


def times(x: Array, weight: Matrix) -> Array:
    """weight x for every vector x."""
    step()
    return np.asarray((weight @ x.T).T, dtype=np.float64)


def _finite(x: Interval) -> Interval:
    """The finite ends, zero in place of the others."""
    lo, hi = np.where(np.isneginf(x.lo), 0.0, x.lo), np.where(np.isposinf(x.hi), 0.0, x.hi)
    return Interval(np.minimum(lo, hi), np.maximum(lo, hi))


def sign_matrix(weight: Matrix, sign: int) -> Matrix:
    """Ones where the entries have this sign."""
    return entrywise(weight, lambda numbers: (numbers * sign > 0).astype(np.float64))


_LEAST = 1e-150  # its square is a float


@dataclass(frozen=True, eq=False)
class Rounded:
    """Matrices within `radius` of `middle`, entry by entry."""

    middle: Array
    radius: Array

    @classmethod
    def exactly(cls, middle: Array) -> Rounded:
        return cls(middle, np.zeros_like(middle))

    def __add__(self, other: Rounded) -> Rounded:
        middle = self.middle + other.middle
        spread = self.radius + other.radius + 2 * UNIT * np.abs(middle)
        return Rounded(middle, np.where(spread == 0, 0.0, grow(spread, 4)))  # sums of the smallest floats are exact

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which entries are not known to be zero."""
        return np.asarray((self.middle != 0) | (self.radius != 0))

    def scaled(self, s: Interval) -> Rounded:
        """s = centre +- half: (centre +- half)(middle +- radius); a slope that is known costs nothing."""
        centre, half = s.lo / 2 + s.hi / 2, grow(s.hi / 2 - s.lo / 2, 4)
        middle = self.middle * centre
        wider = np.abs(self.middle) * half + self.radius * s.magnitude + 4 * UNIT * np.abs(middle) + TINY
        radius = grow(wider, 8)
        radius[:, (s.lo == 0) & (s.hi == 0)] = 0.0
        return Rounded(middle, radius)

    def down(self, weight: Matrix) -> Rounded:
        """These rows times a matrix; one product of magnitudes pays for the errors and for the rounding.

        `least` pays for underflow, as in `interval.finite_sum`. A zero costs nothing, and stays zero unless a weight is
        so small that a product could vanish.
        """
        step()
        n = weight.shape[0]
        size = self.radius + gamma(n + 4) * np.abs(self.middle)
        least = np.fmax(_LEAST, _SMALL * size.max(axis=1, keepdims=True, initial=0.0))
        size = np.asarray(np.where(self.filled, size + least, 0.0) @ abs(weight), dtype=np.float64)
        small = np.abs(numbers(weight))
        sure = not np.any((small > 0) & (small < _LEAST))
        radius = np.where(sure & (size == 0), 0.0, grow(size, n + 8))
        return Rounded(np.asarray(self.middle @ weight, dtype=np.float64), radius)
