"""Piecewise linear activations: the identity, for blocks that only add up; ReLU and leaky ReLU, with a kink at zero."""

from __future__ import annotations

import numpy as np

from lipcert.problem.activations.base import SLACK, Activation, Batch, Lines
from lipcert.rounding import TINY, Array, down, up


class Identity(Activation):
    """z itself."""

    kind = "identity"
    piecewise_linear = True
    slopes = (1.0, 1.0)

    def __call__(self, z: Array) -> Array:
        return z

    def derivative(self, z: Array) -> Array:
        return np.ones_like(z)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return lo, hi

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return np.ones_like(lo), np.ones_like(hi)

    def lines(self, lo: Array, hi: Array) -> Lines:
        one, zero = np.ones_like(lo), np.zeros_like(lo)
        return Lines(one, zero, one, zero)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        return np.ones_like(z), np.zeros_like(z)


class ReLU(Activation):
    """max(z, 0)."""

    kind = "relu"
    kinked = piecewise_linear = True

    @property
    def slopes(self) -> tuple[float, float]:
        return min(self.alpha, 1.0), max(self.alpha, 1.0)

    def __call__(self, z: Array) -> Array:
        return np.maximum(z, 0.0)

    def derivative(self, z: Array) -> Array:
        return (z > 0).astype(np.float64)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self(lo), self(hi)

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """A neuron that only touches its kink at an end of [lo, hi] keeps the slope that it has inside."""
        a, b = self.slopes
        on, off = (lo >= 0) & (hi > 0), (hi <= 0) & (lo < 0)
        return np.where(on, 1.0, np.where(off, self.alpha, a)), np.where(on, 1.0, np.where(off, self.alpha, b))

    def lines(self, lo: Array, hi: Array) -> Lines:
        """The chord on one side, one of the two pieces on the other."""
        below, on, off = self.alpha, lo >= 0, hi <= 0
        stable = on | off
        width = np.where(stable, 1.0, np.maximum(hi - lo, TINY))
        chord = np.where(on, 1.0, np.where(off, below, (hi / width) - below * (lo / width)))
        # The chord meets the activation at both ends; its shift is rounded away from the activation.
        at_lo, at_hi = below * lo - chord * lo, hi - chord * hi
        slack = 4 * SLACK * (1.0 + below) * (1.0 + np.abs(chord)) * np.maximum(np.abs(lo), np.abs(hi)) + TINY
        side = np.where(on, 1.0, np.where(off, below, np.where(hi > -lo, 1.0, below)))
        zero = np.zeros_like(lo)
        if below <= 1.0:  # convex: chord above, a piece below
            shift = np.where(stable, 0.0, np.maximum(at_lo, at_hi) + slack)
            return Lines(side, zero, chord, shift)
        shift = np.where(stable, 0.0, np.minimum(at_lo, at_hi) - slack)
        return Lines(chord, shift, side, zero)

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        e = np.exp(-np.abs(sharpness * z))
        sigmoid, rise = np.where(z >= 0, 1, e) / (1 + e), 1 - self.alpha
        return self.alpha + rise * sigmoid, rise * sharpness * e / ((1 + e) * (1 + e))


class LeakyReLU(ReLU):
    """z above zero, alpha z below."""

    kind = "leaky_relu"
    takes_alpha = True

    def __call__(self, z: Array) -> Array:
        return np.where(z > 0, z, self.alpha * z)

    def derivative(self, z: Array) -> Array:
        return np.where(z > 0, 1.0, self.alpha)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return np.where(lo > 0, lo, down(self(lo))), np.where(hi > 0, hi, up(self(hi)))
