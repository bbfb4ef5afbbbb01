"""Matrices whose entries are known up to an error of their own: rows that are pulled back through a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import Matrix, numbers
from lipcert.rounding import TINY, UNIT, Array, gamma, grow
from lipcert.steps import step

_SMALL = 2.0**-100
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
        """Where the entries are not known to be zero."""
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

        `least` pays for underflow, as in `interval.finite_sum`. What is zero costs nothing, and stays zero where no
        weight is so small that a product could vanish.
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
