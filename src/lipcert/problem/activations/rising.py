"""More activations that never fall and whose slope is a bell, with closer lines: softsign and the error function."""

from __future__ import annotations

import numpy as np

from lipcert.problem.activations.base import SLACK, Batch, Lines, widen
from lipcert.problem.activations.secants import closest
from lipcert.problem.activations.smooth import Bell
from lipcert.problem.activations.turning import between
from lipcert.rounding import Array


class Close(Bell):
    """Lines of several slopes in place of the smallest."""

    def lines(self, lo: Array, hi: Array) -> Lines:
        return closest(self, lo, hi)


class Softsign(Close):
    """z / (1 + |z|)."""

    kind = "softsign"

    @property
    def slopes(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def range(self) -> tuple[float, float]:
        return -1.0, 1.0

    def __call__(self, z: Array) -> Array:
        size = np.abs(z)
        return np.where(size > 1, np.sign(z) / (1 + 1 / np.maximum(size, 1)), np.clip(z, -1, 1) / (1 + size))

    def derivative(self, z: Array) -> Array:
        inverse = 1 / (1 + np.abs(z))
        return inverse * inverse

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """-2 / (1 + |z|)^3 with the sign of z: it rises on both sides of zero, where it falls from 2 to -2."""
        left, right = widen(self._second(lo))[0], widen(self._second(hi))[1]
        across = (lo <= 0) & (hi >= 0)
        return np.where(across, -2.0, left), np.where(across, 2.0, right)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        return self._slope(z), self._second(z).astype(z.dtype, copy=False)

    @staticmethod
    def _second(z: Array) -> Array:
        inverse = 1 / (1 + np.abs(z))
        return -2 * np.sign(z) * inverse * inverse * inverse


class Erf(Close):
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to z."""

    kind = "erf"
    _TOP = 2 / float(np.sqrt(np.pi))

    @property
    def slopes(self) -> tuple[float, float]:
        return 0.0, self._TOP * (1 + SLACK)

    @property
    def range(self) -> tuple[float, float]:
        return -1.0, 1.0

    def __call__(self, z: Array) -> Array:
        from scipy.special import erf  # here, so that importing lipcert stays fast

        return np.asarray(erf(z))

    def derivative(self, z: Array) -> Array:
        near = np.clip(z, -26, 26)
        return self._TOP * np.exp(-near * near)

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """The square is rounded: by up to z^2 u. Beyond 5 that is more than SLACK, of less than 2e-11."""
        low, high = super().derivative_bounds(lo, hi)
        return np.maximum(low - 1e-9 * SLACK, 0.0), np.minimum(high + 1e-9 * SLACK, self.slopes[1])

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """-2 z f', which turns at the roots of 1/2."""
        root = float(np.sqrt(0.5))
        return between(self._second, (-root, root), lo, hi, SLACK)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        return self._slope(z), self._second(z).astype(z.dtype, copy=False)

    def _second(self, z: Array) -> Array:
        return -2 * np.clip(z, -26, 26) * self.derivative(z)
