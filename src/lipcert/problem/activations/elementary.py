"""Elementary functions of one variable: powers, exponential, logarithm, sine, cosine, arcus tangent, hyperbolic ones.

Products, quotients, softmax and norms are sums of these functions (`readers.graph.products`). A class gives formulas of
the function and its first derivatives, and the points where each of them turns; between those points it is monotone.
Bounds, slopes, curvature and lines follow for all classes in the same way.

Domains. An interval that leaves the domain, or touches a pole, has no bounds: they are infinite, and so are the bounds
of everything behind it.

Rounding. A formula has a relative error of at most SLACK, and a `floor` of an absolute one; without a floor, a computed
value has the right sign. Where a formula overflows, the exact value is larger than MOST.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.activations.base import SLACK, Activation, Batch, Lines
from lipcert.problem.activations.enclosures import NEAR, closest
from lipcert.rounding import TINY, UNIT, Array

MOST = float(np.finfo(np.float64).max) * (1 - SLACK)
_LARGEST_POWER = 64.0
_LOGARITHM = 746.0  # at least |log z| of every float z > 0
_EXACT_PHASE = 1e6  # up to which the number of turns of a sine in front of z is known


class Elementary(Activation):
    """A function that has its derivatives of order 0 to 3 given by `at`."""

    floor: ClassVar[float] = 0.0
    turning: ClassVar[tuple[tuple[float, ...], ...]] = ((), (), (), ())

    def at(self, z: Array, order: int) -> Array:
        """The derivative of this order, with its limits at infinite z."""
        raise NotImplementedError

    def turns(self, order: int) -> tuple[float, ...]:
        """Where the derivative of this order turns."""
        return self.turning[order]

    @property
    def slack(self) -> float:
        """The relative error of the formulas."""
        return SLACK

    def bounds(self, order: int, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of a derivative on intervals; infinite where they leave the domain."""
        inside = self.defined(lo, hi)
        low, high = self._extremes(order, np.where(inside, lo, 1.0), np.where(inside, hi, 1.0))
        off = [self.slack * (np.abs(np.clip(x, -MOST, MOST)) + self.floor) + TINY for x in (low, high)]
        least, most = np.minimum(low, MOST) - off[0], np.maximum(high, -MOST) + off[1]
        if not self.floor:
            least = np.where((low >= 0) & ~np.signbit(low), np.maximum(least, 0.0), least)
            most = np.where(high < 0, np.minimum(most, 0.0), most)
        known = inside & ~np.isnan(low) & ~np.isnan(high)
        return np.where(known, least, -np.inf), np.where(known, most, np.inf)

    def _extremes(self, order: int, lo: Array, hi: Array) -> tuple[Array, Array]:
        """The least and the largest value of a derivative on intervals in the domain, as the formula rounds them."""
        left, right = self.at(lo, order), self.at(hi, order)
        low, high = np.minimum(left, right), np.maximum(left, right)
        for turn in self.turns(order):
            inside, value = (lo <= turn + NEAR) & (hi >= turn - NEAR), self.at(np.asarray(turn), order)
            low = np.where(inside, np.minimum(low, value), low)
            high = np.where(inside, np.maximum(high, value), high)
        return low, high

    @cached_property
    def _steepest(self) -> tuple[float, float]:
        low, high = self.bounds(1, np.asarray(-np.inf), np.asarray(np.inf))
        return float(low), float(high)

    @property
    def slopes(self) -> tuple[float, float]:
        return self._steepest

    def __call__(self, z: Array) -> Array:
        return self.at(z, 0)

    def derivative(self, z: Array) -> Array:
        return self.at(z, 1)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self.bounds(0, lo, hi)

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self.bounds(1, lo, hi)

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self.bounds(2, lo, hi)

    def lines(self, lo: Array, hi: Array) -> Lines:
        """The chord on the hollow side and the tangent in the middle on the other; where the curve bends both ways,
        lines that are close to it."""
        bend = self.bounds(2, lo, hi)
        convex, concave = bend[0] >= 0, bend[1] <= 0
        if np.all(convex | concave):
            return self._around(lo, hi, convex)
        bent, own = closest(self, lo, hi), self._around(lo, hi, convex)
        low, below, up, above = (np.where(convex | concave, x, y) for x, y in zip(own, bent, strict=True))
        return Lines(low, np.where(np.isnan(below), -np.inf, below), up, np.where(np.isnan(above), np.inf, above))

    def _around(self, lo: Array, hi: Array, convex: NDArray[np.bool_]) -> Lines:
        """Chord and tangent where the function is convex or concave; nothing where it has no value."""
        with np.errstate(all="ignore"):
            width, middle = hi - lo, lo / 2 + hi / 2
            ends = self.bounds(0, lo, lo), self.bounds(0, hi, hi)
            value, slope = self.bounds(0, middle, middle), self.bounds(1, middle, middle)
            tangent = np.nan_to_num(self.at(middle, 1), nan=0.0, posinf=0.0, neginf=0.0)
            chord = np.where(width > 0, (ends[1][0] - ends[0][0]) / np.where(width > 0, width, 1.0), tangent)
            chord = np.nan_to_num(chord, nan=0.0, posinf=0.0, neginf=0.0)
            # The slope of the tangent is off by its rounding, which counts over the longer half of the interval.
            off = np.maximum(np.abs(slope[0] - tangent), np.abs(slope[1] - tangent)) * width
            parts = [(z, v, chord, 0.0) for z, v in zip((lo, hi), ends, strict=True)] + [(middle, value, tangent, off)]
            shifts = []
            for z, (least, most), s, more in parts:
                room = 8 * UNIT * (np.abs(s * z) + np.abs(least) + np.abs(most) + more) + TINY + more
                shifts.append((least - s * z - room, most - s * z + room))
        (l0, h0), (l1, h1), (low, high) = shifts
        inside, chords = self.defined(lo, hi), (np.minimum(l0, l1), np.maximum(h0, h1))
        below, above = np.where(convex, low, chords[0]), np.where(convex, chords[1], high)
        slopes = np.where(convex, tangent, chord), np.where(convex, chord, tangent)
        below = np.where(inside & ~np.isnan(below), below, -np.inf)
        return Lines(slopes[0], below, slopes[1], np.where(inside & ~np.isnan(above), above, np.inf))

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        return self.at(z, 1).astype(z.dtype, copy=False), self.at(z, 2).astype(z.dtype, copy=False)


class Power(Elementary):
    """z^alpha: squares, cubes, reciprocals, roots. Whole powers are defined for z < 0, negative ones not at 0."""

    kind = "power"
    takes_alpha = True

    @classmethod
    def checked(cls, alpha: float) -> float:
        number = float(alpha)
        if not 0.0 < abs(number) <= _LARGEST_POWER:
            raise InputError(f"Activation(power, alpha={number}): alpha must be between -64 and 64, and not 0")
        return number

    @property
    def is_whole(self) -> bool:
        """Whether the exponent is an integer."""
        return self.alpha == round(self.alpha)

    @property
    def slack(self) -> float:
        """Exponents of derivatives may be rounded, which is multiplied by log z."""
        exact = all(Fraction(self.alpha) - k == Fraction(self.alpha - k) for k in (1, 2, 3))
        return SLACK if exact else SLACK + 4 * UNIT * (abs(self.alpha) + 3) * _LOGARITHM

    def turns(self, order: int) -> tuple[float, ...]:
        left = self.alpha - order
        return (0.0,) if left > 0 and left % 2 == 0 else ()

    def defined(self, lo: Array, hi: Array) -> NDArray[np.bool_]:
        if self.is_whole:
            return np.ones(lo.shape, dtype=bool) if self.alpha > 0 else np.asarray((lo > 0) | (hi < 0))
        return np.asarray(lo >= 0 if self.alpha > 0 else lo > 0)

    def at(self, z: Array, order: int) -> Array:
        factor = float(np.prod([self.alpha - k for k in range(order)]))
        if factor == 0.0:
            return np.zeros_like(z)
        with np.errstate(all="ignore"):
            return np.asarray(factor * _powers(z + 0.0, self.alpha - order))


def _powers(z: Array, exponent: float) -> Array:
    """z^exponent, by the functions that round best."""
    if exponent == 0.0:
        return np.ones_like(z)
    if exponent == 1.0:
        return z
    root = 2 * exponent
    if exponent in (0.5, -0.5):
        return np.sqrt(z) if root > 0 else 1 / np.sqrt(z)
    return np.asarray(np.power(z, z.dtype.type(exponent)))


class Exp(Elementary):
    """exp(z)."""

    kind = "exp"

    def at(self, z: Array, order: int) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.exp(z))


class Log(Elementary):
    """The natural logarithm, of z > 0."""

    kind = "log"

    def defined(self, lo: Array, hi: Array) -> NDArray[np.bool_]:
        return np.asarray(lo > 0)

    def at(self, z: Array, order: int) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray((np.log(z), 1 / z, -1 / z / z, 2 / z / z / z)[order])


class Sin(Elementary):
    """sin(z). Its derivatives are the same wave a quarter further."""

    kind = "sin"
    floor = 1.0
    quarter: ClassVar[int] = 0

    def at(self, z: Array, order: int) -> Array:
        with np.errstate(all="ignore"):
            quarter = (self.quarter + order) % 4
            value = np.cos(z) if quarter % 2 else np.sin(z)
            return np.asarray(-value if quarter >= 2 else value)

    def _extremes(self, order: int, lo: Array, hi: Array) -> tuple[Array, Array]:
        left, right, first = self.at(lo, order), self.at(hi, order), (1 - self.quarter - order) % 4
        low = np.where(_meets(lo, hi, first + 2), -1.0, np.minimum(left, right))
        return low, np.where(_meets(lo, hi, first), 1.0, np.maximum(left, right))

    def bounds(self, order: int, lo: Array, hi: Array) -> tuple[Array, Array]:
        low, high = super().bounds(order, lo, hi)
        return np.maximum(low, -1.0), np.minimum(high, 1.0)


class Cos(Sin):
    """cos(z)."""

    kind = "cos"
    quarter = 1


def _meets(lo: Array, hi: Array, quarter: int) -> NDArray[np.bool_]:
    """Whether an interval contains this many quarters of a turn, up to whole turns; far out it always does."""
    turn, phase = 2 * np.pi, quarter * (np.pi / 2)
    far = np.maximum(np.abs(lo), np.abs(hi)) > _EXACT_PHASE
    near = np.where(far, 0.0, lo), np.where(far, 0.0, hi)
    return far | (np.floor((near[1] - phase + NEAR) / turn) >= np.ceil((near[0] - phase - NEAR) / turn))


class Atan(Elementary):
    """The arcus tangent."""

    kind = "atan"
    floor = 1.0
    turning = ((), (0.0,), (-((1 / 3) ** 0.5), (1 / 3) ** 0.5), ())

    def at(self, z: Array, order: int) -> Array:
        if order == 0:
            return np.asarray(np.arctan(z))
        near = np.clip(z, -1e30, 1e30).astype(np.float64, copy=False)  # beyond, all derivatives are below 1e-59
        s = 1 / (1 + near * near)
        return np.asarray((s, -2 * near * s * s, (6 * near * near - 2) * s * s * s)[order - 1])


class Sinh(Elementary):
    """The hyperbolic sine."""

    kind = "sinh"
    even: ClassVar[int] = 1  # orders of this parity are hyperbolic cosines

    def turns(self, order: int) -> tuple[float, ...]:
        return (0.0,) if order % 2 == self.even else ()

    def at(self, z: Array, order: int) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.cosh(z) if order % 2 == self.even else np.sinh(z))


class Cosh(Sinh):
    """The hyperbolic cosine."""

    kind = "cosh"
    even = 0
