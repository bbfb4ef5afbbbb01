"""Activations that fall before they rise: z times a function that goes from 0 to 1, GELU, SiLU, Mish, hard swish.

f(z) = z s(z) with 0 <= s <= 1, so f lies between 0 and z. Slopes are negative on one side and larger than 1 on the
other. Each class names the points where f, f' and f'' turn, to full double precision; between them they are monotone.

Rounding. s and s' are sums, products and quotients of positive numbers, so that f has a small relative error, but for
exp(-z^2/2) far out: there |f| has an error of about u z^2 |f|, less than u. f' = s + z s' cancels: the error is that of
its terms, s <= 1 and |z| s' <= 0.4 with at most 20 u each. So SLACK = 32 u beside the same relative one covers both.
f'' has terms of up to 2 with at most 60 u each, and eight times that slack.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from lipcert.problem.activations.base import SLACK, Activation, Batch, Lines
from lipcert.problem.activations.enclosures import between
from lipcert.problem.activations.smooth import bell, sigmoid
from lipcert.problem.activations.versions import chosen_lines
from lipcert.rounding import Array


class Bumped(Activation):
    """z s(z); `share` and `second` are given arguments between -far and far only.

    Beyond, s and s' differ from their limits by less than 1e-90, and nothing has underflowed or overflowed yet.
    """

    far: ClassVar[float]
    turns: ClassVar[tuple[float, ...]]  # where f' = 0
    bends: ClassVar[tuple[float, ...]]  # where f'' = 0
    waves: ClassVar[tuple[float, ...]]  # where f''' = 0

    def share(self, z: Array) -> tuple[Array, Array]:
        """s and s'."""
        raise NotImplementedError

    def second(self, z: Array) -> Array:
        """f''."""
        raise NotImplementedError

    @cached_property
    def _steepest(self) -> tuple[float, float]:
        low, high = between(self.derivative, self.bends, np.asarray(-np.inf), np.asarray(np.inf), SLACK)
        return float(low), float(high)

    @property
    def slopes(self) -> tuple[float, float]:
        return self._steepest

    def __call__(self, z: Array) -> Array:
        near = self._near(z)
        return np.maximum(z, near) * self.share(near)[0]  # s(far) is 1, and far s(-far) next to nothing

    def derivative(self, z: Array) -> Array:
        near = self._near(z)
        s, ds = self.share(near)
        return s + near * ds

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Between 0 and z besides, exactly."""
        reach = np.minimum(np.maximum(np.abs(lo), np.abs(hi)), 1.0)
        low, high = between(self, self.turns, lo, hi, SLACK, reach)
        return np.maximum(low, np.minimum(lo, 0.0)), np.minimum(high, np.maximum(hi, 0.0))

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        (a, b), (low, high) = self.slopes, between(self.derivative, self.bends, lo, hi, SLACK)
        return np.maximum(low, a), np.minimum(high, b)

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return between(lambda z: self.second(self._near(z)), self.waves, lo, hi, 8 * SLACK)

    def lines(self, lo: Array, hi: Array) -> Lines:
        return chosen_lines(self, lo, hi)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        slope, curve = self.derivative(z), self.second(self._near(z))
        return slope.astype(z.dtype, copy=False), curve.astype(z.dtype, copy=False)

    def _near(self, z: Array) -> Array:
        return np.clip(z, -self.far, self.far)


_ROOT = np.sqrt(2.0)


class GELU(Bumped):
    """z Phi(z), Phi the normal distribution: f' = Phi + z phi, f'' = (2 - z^2) phi, f''' = (z^3 - 4 z) phi."""

    kind = "gelu"
    far = 37.0
    turns = (-0.7517915246935645,)  # Phi(z) + z phi(z) = 0
    bends = (-_ROOT, _ROOT)
    waves = (-2.0, 0.0, 2.0)

    def share(self, z: Array) -> tuple[Array, Array]:
        from scipy.special import ndtr  # here, so that importing lipcert stays fast

        return ndtr(z), self._density(z)

    def second(self, z: Array) -> Array:
        return (2 - z * z) * self._density(z)

    def _density(self, z: Array) -> Array:
        return np.asarray(np.exp(-z * z / 2) * (1 / float(np.sqrt(2 * np.pi))))


class TanhGELU(Bumped):
    """z (1 + tanh(w / 2)) / 2 with w = 2 sqrt(2/pi) (z + 0.044715 z^3), so s is the sigmoid of w."""

    kind = "gelu_tanh"
    _K, _C = 2 * float(np.sqrt(2 / np.pi)), 0.044715
    far = 21.0  # w is 694 there
    turns = (-0.7524614220710163,)
    bends = (-1.4185040087908283, 1.4185040087908283)
    waves = (-2.013480724624258, 0.0, 2.013480724624258)

    def share(self, z: Array) -> tuple[Array, Array]:
        w, dw = self._inner(z)
        return sigmoid(w), bell(w) * dw

    def second(self, z: Array) -> Array:
        """s'(w) (2 w' + z w'' - z w'^2 tanh(w/2))."""
        w, dw = self._inner(z)
        return bell(w) * (2 * dw + self._K * 6 * self._C * z * z - z * dw * dw * np.tanh(w / 2))

    def _inner(self, z: Array) -> tuple[Array, Array]:
        square = z * z
        return self._K * z * (1 + self._C * square), self._K * (1 + 3 * self._C * square)


class SiLU(Bumped):
    """z sigmoid(z), also called swish; with a factor beta inside it is silu(beta z) / beta."""

    kind = "silu"
    far = 700.0
    turns = (-1.2784645427610738,)  # 1 + z = -exp(z)
    bends = (-2.3993572805154677, 2.3993572805154677)  # z tanh(z/2) = 2
    waves = (-3.4358409935351107, 0.0, 3.4358409935351107)

    def share(self, z: Array) -> tuple[Array, Array]:
        return sigmoid(z), bell(z)

    def second(self, z: Array) -> Array:
        return bell(z) * (2 - z * np.tanh(z / 2))


class Mish(Bumped):
    """z tanh(softplus(z)).

    With e = exp(z) and d = e^2 + 2 e + 2: s = e (e + 2) / d, s' = 4 e (1 + e) / d^2 and
    s'' = 4 e (2 + 2 e - 3 e^2 - 2 e^3) / d^3; for z > 0 the same over powers of e.
    """

    kind = "mish"
    far = 230.0
    turns = (-1.1924312145154952,)
    bends = (-2.256376396360793, 1.4905711794854285)
    waves = (-3.2673378465204046, -0.08793443131491421, 2.114842563020877)

    def share(self, z: Array) -> tuple[Array, Array]:
        e, right = np.exp(-np.abs(z)), z > 0
        s = np.where(right, 1 + 2 * e, e * (e + 2))
        d = np.where(right, 1 + 2 * e + 2 * e * e, e * e + 2 * e + 2)
        return s / d, 4 * (1 + e) * np.where(right, e * e, e) / (d * d)

    def second(self, z: Array) -> Array:
        e, right = np.exp(-np.abs(z)), z > 0
        d = np.where(right, 1 + 2 * e + 2 * e * e, e * e + 2 * e + 2)
        rising = np.where(right, 2 * e**3 + 2 * e**2 - 3 * e - 2, 2 + 2 * e - 3 * e**2 - 2 * e**3)
        return np.asarray(2 * self.share(z)[1] + z * (4 * np.where(right, e * e, e) * rising / d**3))


class HardSwish(Bumped):
    """z clip(z/6 + 1/2, 0, 1): nothing below -3, z above 3, a parabola between, and f' jumps at both."""

    kind = "hardswish"
    turns = (-1.5,)
    bends = waves = ()
    slopes = (-0.5, 1.5)

    def __call__(self, z: Array) -> Array:
        near = np.clip(z, -3, 3)
        return np.where(z >= 3, z, near * (near / 6 + 0.5))

    def derivative(self, z: Array) -> Array:
        """The left one at -3 and 3."""
        return np.where(z <= -3, 0.0, np.where(z <= 3, self._inside(z), 1.0))

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Bounds over the pieces, of three, that the interval meets, ends included."""
        nothing = np.where(lo <= -3, 0.0, np.nan), np.where(hi >= 3, 1.0, np.nan)
        meets = (lo <= 3) & (hi >= -3)
        first, last = np.where(meets, self._inside(lo), np.nan), np.where(meets, self._inside(hi), np.nan)
        low = np.fmin.reduce([*nothing, first - 2 * SLACK])
        high = np.fmax.reduce([*nothing, last + 2 * SLACK])
        return np.maximum(low, -0.5), np.minimum(high, 1.5)

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        jumps = ((lo <= -3) & (hi >= -3)) | ((lo <= 3) & (hi >= 3))
        curve = np.where((hi < -3) | (lo > 3), 0.0, 1 / 3)
        return np.where(jumps, -np.inf, curve * (1 - SLACK)), np.where(jumps, np.inf, curve * (1 + SLACK))

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        curve = np.where(np.abs(z) < 3, 1 / 3, 0.0)
        return self.derivative(z).astype(z.dtype, copy=False), curve.astype(z.dtype)

    @staticmethod
    def _inside(z: Array) -> Array:
        return np.clip(z, -3, 3) / 3 + 0.5
