"""A part of a region, and its two halves.

A part is the set of x of a box (or of the whole space) with z_j >= 0 or z_j <= 0 for the neurons whose sign is fixed.
A split cuts the box at a value of a coordinate, or the part at the kink of a neuron; both halves are closed, so that
together they are the part. Hence whoever starts from the whole region and halves as often as he likes has a cover of
it, whatever the splits were.

The gradient: almost every x has no z_j = 0 but where z_j vanishes in a neighbourhood, and there either slope gives the
same gradient. The slopes that a half allows therefore contain those of the true gradient of almost all of its points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region

Signs = tuple[NDArray[np.int8], ...]  # by hidden layer: 1 where z >= 0, -1 where z <= 0, 0 where nothing is fixed


@dataclass(frozen=True)
class Split:
    """Layer 0: the box at x_index = value. Layer i >= 1: the kink of neuron `index` of hidden layer i."""

    layer: int
    index: int
    value: float = 0.0


@dataclass(frozen=True, eq=False)
class Cell:
    """The points of a region with these signs."""

    region: Region
    signs: Signs

    @property
    def fixed(self) -> int:
        """How many signs are fixed."""
        return sum(int(np.count_nonzero(s)) for s in self.signs)


def whole(net: Network, region: Region) -> Cell:
    """The region itself."""
    return Cell(region, tuple(np.zeros(a.outputs, dtype=np.int8) for a in net.affines[:-1]))


def splits_here(part: Cell, split: Split, net: Network) -> bool:
    """Whether the split means something for this part."""
    if split.layer == 0:
        if not isinstance(part.region, Box) or not 0 <= split.index < part.region.size:
            return False
        return bool(part.region.lo[split.index] <= split.value <= part.region.hi[split.index])
    if not 1 <= split.layer <= net.depth or not 0 <= split.index < net.shape[split.layer]:
        return False
    kinked = net.activations[split.layer - 1].kind in ("relu", "leaky_relu")
    return kinked and part.signs[split.layer - 1][split.index] == 0


def halves(part: Cell, split: Split) -> tuple[Cell, Cell]:
    """Below and above; the split must be one that `splits_here` accepts."""
    if split.layer == 0:
        assert isinstance(part.region, Box)
        hi, lo = part.region.hi.copy(), part.region.lo.copy()
        hi[split.index] = lo[split.index] = split.value
        below, above = Box.from_bounds(part.region.lo, hi), Box.from_bounds(lo, part.region.hi)
        return Cell(below, part.signs), Cell(above, part.signs)
    return _with_sign(part, split, -1), _with_sign(part, split, 1)


def _with_sign(part: Cell, split: Split, sign: int) -> Cell:
    signs = list(part.signs)
    own = signs[split.layer - 1].copy()
    own[split.index] = sign
    signs[split.layer - 1] = own
    return Cell(part.region, tuple(signs))
