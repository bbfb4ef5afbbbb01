"""Smooth activations that never fall: ELU, softplus, sigmoid, tanh, softsign and the error function."""

from __future__ import annotations

import numpy as np

from lipcert.problem.activations.base import SLACK, Activation, Batch, Lines, widen
from lipcert.problem.activations.enclosures import between
from lipcert.problem.activations.versions import chosen_lines
from lipcert.rounding import TINY, Array


class Smooth(Activation):
    """Non-decreasing: values are bounded at the ends."""

    @property
    def range(self) -> tuple[float, float]:
        """The interval that contains every value."""
        raise NotImplementedError

    def extremes(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """The least and the largest derivative on [lo, hi], in plain floating point."""
        raise NotImplementedError

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        least, most = self.range
        return np.maximum(widen(self(lo))[0], least), np.minimum(widen(self(hi))[1], most)

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        (a, b), (low, high) = self.slopes, self.extremes(lo, hi)
        return np.maximum(widen(low)[0], a), np.minimum(widen(high)[1], b)

    def lines(self, lo: Array, hi: Array) -> Lines:
        return chosen_lines(self, lo, hi)

    def _slope(self, z: Batch) -> Batch:
        return self.derivative(z).astype(z.dtype, copy=False)


class ELU(Smooth):
    """z above zero, alpha (exp(z) - 1) below."""

    kind = "elu"
    takes_alpha = True

    @property
    def slopes(self) -> tuple[float, float]:
        return 0.0, max(self.alpha, 1.0)

    @property
    def range(self) -> tuple[float, float]:
        return -self.alpha, np.inf

    def __call__(self, z: Array) -> Array:
        return np.where(z > 0, z, self.alpha * np.expm1(np.minimum(z, 0.0)))

    def derivative(self, z: Array) -> Array:
        return np.where(z > 0, 1.0, self.alpha * np.exp(np.minimum(z, 0.0)))

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Exact on the positive side."""
        low, high = super().value_bounds(lo, hi)
        return np.where(lo > 0, lo, low), np.where(hi > 0, hi, high)

    def extremes(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        left, right = self.alpha * np.exp(np.minimum(lo, 0.0)), self.alpha * np.exp(np.minimum(hi, 0.0))
        low = np.where(lo > 0, 1.0, np.where(hi < 0, left, np.minimum(left, 1.0)))
        return low, np.where(lo > 0, 1.0, np.where(hi < 0, right, np.maximum(right, 1.0)))

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """alpha exp(z) below zero, nothing above; at zero the slope jumps unless alpha is one."""
        left, right = (widen(self.alpha * np.exp(np.minimum(z, 0.0))) for z in (lo, hi))
        jumps = (lo <= 0) & (hi >= 0) & (self.alpha != 1.0)
        low = np.where(hi < 0, left[0], 0.0)
        return np.where(jumps, -np.inf, low), np.where(jumps, np.inf, np.where(lo > 0, 0.0, right[1]))

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        s = self._slope(z)
        return s, np.where(z > 0, 0, s)


class Softplus(Smooth):
    """log(1 + exp(z))."""

    kind = "softplus"
    slopes = (0.0, 1.0)
    range = (0.0, np.inf)

    def __call__(self, z: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, z), dtype=np.float64)

    def derivative(self, z: Array) -> Array:
        return sigmoid(z)

    def extremes(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self.derivative(lo), self.derivative(hi)

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return Sigmoid.derivative_bounds(_SIGMOID, lo, hi)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        s = self._slope(z)
        return s, s * (1 - s)


class Bell(Smooth):
    """A derivative that is even and falls away from zero."""

    def extremes(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        nearest = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(np.abs(lo), np.abs(hi)))
        return self.derivative(np.maximum(np.abs(lo), np.abs(hi))), self.derivative(nearest)


class Sigmoid(Bell):
    """1 / (1 + exp(-z))."""

    kind = "sigmoid"
    slopes = (0.0, 0.25)
    range = (0.0, 1.0)

    def __call__(self, z: Array) -> Array:
        return sigmoid(z)

    def derivative(self, z: Array) -> Array:
        return bell(z)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        s = self._slope(z)
        return s, s * (1 - 2 * np.asarray(self(z), dtype=z.dtype))

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """f'(1 - 2f)."""
        low, high = self.value_bounds(lo, hi)
        return _product(self.derivative_bounds(lo, hi), (1 - 2 * high, 1 - 2 * low))


class Tanh(Bell):
    """tanh(z)."""

    kind = "tanh"
    slopes = (0.0, 1.0)
    range = (-1.0, 1.0)

    def __call__(self, z: Array) -> Array:
        return np.tanh(z)

    def derivative(self, z: Array) -> Array:
        return 4.0 * bell(2.0 * z)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        s = self._slope(z)
        return s, s * (-2 * np.asarray(self(z), dtype=z.dtype))

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """-2 f f'."""
        low, high = self.value_bounds(lo, hi)
        return _product(self.derivative_bounds(lo, hi), (-2 * high, -2 * low))


class Softsign(Bell):
    """z / (1 + |z|)."""

    kind = "softsign"
    slopes = (0.0, 1.0)
    range = (-1.0, 1.0)

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


class Erf(Bell):
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to z."""

    kind = "erf"
    _TOP = 2 / float(np.sqrt(np.pi))
    slopes = (0.0, _TOP * (1 + SLACK))
    range = (-1.0, 1.0)

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


_SIGMOID = Sigmoid()


def _product(d: tuple[Array, Array], e: tuple[Array, Array]) -> tuple[Array, Array]:
    """Bounds of a product of a factor d >= 0 and another, which is off by a rounding of its own."""
    low = np.where(e[0] >= 0, d[0], d[1]) * e[0]
    high = np.where(e[1] >= 0, d[1], d[0]) * e[1]
    slack = SLACK * d[1] * (1.0 + np.maximum(np.abs(e[0]), np.abs(e[1]))) + TINY
    return low - slack, high + slack


def sigmoid(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1.0 + e)


def bell(z: Array) -> Array:
    """sigmoid(z) sigmoid(-z), without cancellation."""
    e = np.exp(-np.abs(z))
    return e / ((1.0 + e) * (1.0 + e))
