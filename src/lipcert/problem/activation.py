"""Activations: values, derivatives, and proved bounds of both on intervals.

Every activation here is non-decreasing with derivative in a slope interval [a, b]. The derivative of a kinked one at
its kink is any number between its one-sided derivatives; `derivative` returns the left one, bounds contain both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lipcert.errors import InputError
from lipcert.rounding import TINY, Array, down, up

Kind = Literal["identity", "relu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh"]
KINDS: tuple[Kind, ...] = ("identity", "relu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh")

# Elementary functions of libm and numpy's SIMD loops are within 4 ulp; compositions of three of them within this slack.
_SLACK = 32 * 2.0**-53


class Lines(NamedTuple):
    """low_slope z + low_shift <= activation(z) <= up_slope z + up_shift on an interval, coordinate by coordinate."""

    low_slope: Array
    low_shift: Array
    up_slope: Array
    up_shift: Array


@dataclass(frozen=True)
class Activation:
    """What a hidden layer applies to every neuron.

    `kind` is "identity", "relu", "leaky_relu", "elu", "softplus", "sigmoid" or "tanh". `alpha` is the slope of a leaky
    ReLU below zero, or the scale of an ELU; the others ignore it.
    """

    kind: Kind
    alpha: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"Activation({self.kind!r}): unknown kind; use one of {', '.join(KINDS)}")
        if self.kind not in ("leaky_relu", "elu"):
            object.__setattr__(self, "alpha", 0.0)
        alpha = float(self.alpha)
        if not (0.0 <= alpha <= 1e6):
            raise InputError(f"Activation({self.kind}, alpha={alpha}): alpha must be between 0 and 1e6")
        object.__setattr__(self, "alpha", alpha)
        if self.kind == "leaky_relu" and alpha in (0.0, 1.0):
            object.__setattr__(self, "kind", "identity" if alpha else "relu")
            object.__setattr__(self, "alpha", 0.0)

    def __str__(self) -> str:
        return f"{self.kind}({self.alpha:g})" if self.kind in ("leaky_relu", "elu") else self.kind

    @property
    def piecewise_linear(self) -> bool:
        """True for the identity, ReLU and leaky ReLU."""
        return self.kind in ("identity", "relu", "leaky_relu")

    @property
    def slopes(self) -> tuple[float, float]:
        """The interval [a, b] that contains every derivative."""
        match self.kind:
            case "identity":
                return 1.0, 1.0
            case "leaky_relu":
                return min(self.alpha, 1.0), max(self.alpha, 1.0)
            case "elu":
                return 0.0, max(self.alpha, 1.0)
            case "sigmoid":
                return 0.0, 0.25
            case _:
                return 0.0, 1.0

    def __call__(self, z: Array) -> Array:
        """The value, entry by entry."""
        match self.kind:
            case "identity":
                return z
            case "relu":
                return np.maximum(z, 0.0)
            case "leaky_relu":
                return np.where(z > 0, z, self.alpha * z)
            case "elu":
                return np.where(z > 0, z, self.alpha * np.expm1(np.minimum(z, 0.0)))
            case "softplus":
                return np.asarray(np.logaddexp(0.0, z), dtype=np.float64)
            case "sigmoid":
                return _sigmoid(z)
            case "tanh":
                return np.tanh(z)

    def derivative(self, z: Array) -> Array:
        """The derivative, entry by entry (the left one at a kink)."""
        match self.kind:
            case "identity":
                return np.ones_like(z)
            case "relu":
                return (z > 0).astype(np.float64)
            case "leaky_relu":
                return np.where(z > 0, 1.0, self.alpha)
            case "elu":
                return np.where(z > 0, 1.0, self.alpha * np.exp(np.minimum(z, 0.0)))
            case "softplus":
                return _sigmoid(z)
            case "sigmoid":
                return _bell(z)
            case "tanh":
                return 4.0 * _bell(2.0 * z)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of the value for lo <= z <= hi (infinite ends allowed)."""
        if self.kind in ("identity", "relu"):
            return self(lo), self(hi)
        if self.kind == "leaky_relu":
            return np.where(lo > 0, lo, down(self(lo))), np.where(hi > 0, hi, up(self(hi)))
        least, most = self._range()
        low, high = _widen(self(lo))[0], _widen(self(hi))[1]
        if self.kind == "elu":  # exact on the positive side
            low, high = np.where(lo > 0, lo, low), np.where(hi > 0, hi, high)
        return np.maximum(low, least), np.minimum(high, most)

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of the derivative for lo <= z <= hi (infinite ends allowed).

        A kinked neuron that only touches its kink at an end of [lo, hi] keeps the slope that it has inside.
        """
        a, b = self.slopes
        if self.kind == "identity":
            return np.ones_like(lo), np.ones_like(hi)
        if self.kind in ("relu", "leaky_relu"):
            on, off = (lo >= 0) & (hi > 0), (hi <= 0) & (lo < 0)
            below = self.alpha if self.kind == "leaky_relu" else 0.0
            return np.where(on, 1.0, np.where(off, below, a)), np.where(on, 1.0, np.where(off, below, b))
        if self.kind == "softplus":
            low, high = self.derivative(lo), self.derivative(hi)
        elif self.kind == "elu":
            left, right = self.alpha * np.exp(np.minimum(lo, 0.0)), self.alpha * np.exp(np.minimum(hi, 0.0))
            low = np.where(lo > 0, 1.0, np.where(hi < 0, left, np.minimum(left, 1.0)))
            high = np.where(lo > 0, 1.0, np.where(hi < 0, right, np.maximum(right, 1.0)))
        else:  # even, decreasing away from zero
            nearest = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(np.abs(lo), np.abs(hi)))
            low, high = self.derivative(np.maximum(np.abs(lo), np.abs(hi))), self.derivative(nearest)
        return np.maximum(_widen(low)[0], a), np.minimum(_widen(high)[1], b)

    def lines(self, lo: Array, hi: Array) -> Lines:
        """Proved linear bounds on finite intervals, for backward substitution [CROWN18]."""
        if self.kind == "identity":
            one, zero = np.ones_like(lo), np.zeros_like(lo)
            return Lines(one, zero, one, zero)
        if self.piecewise_linear:
            return self._lines_of_kink(lo, hi)
        return self._lines_of_curve(lo, hi)

    def _lines_of_kink(self, lo: Array, hi: Array) -> Lines:
        below = self.alpha if self.kind == "leaky_relu" else 0.0
        on, off = lo >= 0, hi <= 0
        stable = on | off
        width = np.where(stable, 1.0, np.maximum(hi - lo, TINY))
        chord = np.where(on, 1.0, np.where(off, below, (hi / width) - below * (lo / width)))
        # The chord meets the activation at both ends; its shift is rounded away from the activation.
        at_lo, at_hi = below * lo - chord * lo, hi - chord * hi
        slack = 4 * _SLACK * (1.0 + below) * (1.0 + np.abs(chord)) * np.maximum(np.abs(lo), np.abs(hi)) + TINY
        side = np.where(on, 1.0, np.where(off, below, np.where(hi > -lo, 1.0, below)))
        zero = np.zeros_like(lo)
        if below <= 1.0:  # convex: chord above, a piece below
            shift = np.where(stable, 0.0, np.maximum(at_lo, at_hi) + slack)
            return Lines(side, zero, chord, shift)
        shift = np.where(stable, 0.0, np.minimum(at_lo, at_hi) - slack)
        return Lines(chord, shift, side, zero)

    def _lines_of_curve(self, lo: Array, hi: Array) -> Lines:
        """Parallel lines of the smallest slope: activation(z) - s z is non-decreasing when s <= derivative."""
        slope = self.derivative_bounds(lo, hi)[0]
        low, high = self.value_bounds(lo, hi)
        reach = np.maximum(np.abs(lo), np.abs(hi))
        slack = _SLACK * (slope * reach + np.abs(low) + np.abs(high)) + TINY
        return Lines(slope, low - slope * lo - slack, slope, high - slope * hi + slack)

    def _range(self) -> tuple[float, float]:
        match self.kind:
            case "elu":
                return -self.alpha, np.inf
            case "softplus":
                return 0.0, np.inf
            case "sigmoid":
                return 0.0, 1.0
            case "tanh":
                return -1.0, 1.0
            case _:
                return -np.inf, np.inf


IDENTITY = Activation("identity")
RELU = Activation("relu")


def _sigmoid(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1.0 + e)


def _bell(z: Array) -> Array:
    """sigmoid(z) sigmoid(-z), without cancellation."""
    e = np.exp(-np.abs(z))
    return e / ((1.0 + e) * (1.0 + e))


def _widen(x: Array) -> tuple[Array, Array]:
    slack = _SLACK * np.abs(x) + TINY
    slack = np.where(np.isfinite(slack), slack, 0.0)
    return x - slack, x + slack
