"""Neurons of a block whose pre-activations are equal, or opposite, as functions: their bounds and signs are shared.

Where a network computes |z| or max(a, b), z and -z stand side by side. Fixing the sign of one fixes the other's
exactly, but rounding keeps linear forms from proving it. Rows and biases are compared as floats: the claim is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.maps import Matrix
from lipcert.rounding import Array

_MOST = 1 << 20  # entries of a block that are compared


@dataclass(frozen=True, eq=False)
class Twins:
    """z_k = sign_k z of its group, for every neuron k of a block; `starts` of groups in `order`."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    group: NDArray[np.int64]
    sign: Array

    def meet(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Bounds of z by cell and neuron: what all neurons of a group know together."""
        same = self.sign > 0
        lo, hi = np.where(same, lo, -hi)[:, self.order], np.where(same, hi, -lo)[:, self.order]
        low = np.maximum.reduceat(lo, self.starts, axis=1)[:, self.group]
        high = np.minimum.reduceat(hi, self.starts, axis=1)[:, self.group]
        return np.where(same, low, -high), np.where(same, high, -low)


def twins_of(weights: Sequence[Matrix], bias: Array) -> Twins | None:
    """The groups of neurons with these rows and biases; None when every neuron is alone, or when they are too many."""
    dense = [weight for weight in weights if isinstance(weight, np.ndarray)]
    if len(dense) < len(weights) or sum(weight.size for weight in dense) > _MOST:
        return None
    rows = np.concatenate([*dense, bias[:, None]], axis=1)
    lead = np.take_along_axis(rows, np.argmax(rows != 0, axis=1)[:, None], axis=1)
    sign = np.where(lead < 0, -1.0, 1.0)[:, 0]
    _, group = np.unique(rows * sign[:, None] + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    if group.max() + 1 == len(bias):
        return None
    order = np.argsort(group, kind="stable")
    return Twins(order, np.searchsorted(group[order], np.arange(group.max() + 1)), group, sign)
