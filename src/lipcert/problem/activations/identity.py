"""The identity: a block of neurons that only adds up."""

from __future__ import annotations

import numpy as np

from lipcert.problem.activations.base import Activation, Batch, Lines
from lipcert.rounding import Array


class Identity(Activation):
    """z itself."""

    kind = "identity"
    piecewise_linear = True

    @property
    def slopes(self) -> tuple[float, float]:
        return 1.0, 1.0

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
