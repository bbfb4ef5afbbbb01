"""Splits of a region: a tree of cells that are boxes and signs of neurons, so written down that it cannot have gaps.

Only the splits are kept. A split cuts a box at a value of a coordinate, or a cell at the kink of a neuron, and both
halves are closed: whatever the numbers are, the leaves together are the region. Nodes are in the order of levels: the
region, its halves (below first), the halves of those that are split, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region
from lipcert.rounding import Array

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # (cells, neurons): 1 where z >= 0 was found, 2 where a split says so, -1 and -2, or 0

LEAF = -1
MOST_NODES = 1 << 22
MOST_DEPTH = 1 << 12  # splits above a cell: each level is bounded by itself
SPLIT_UP_TO = 4096  # neurons: cells of larger networks carry no signs, and are split at coordinates alone


@dataclass(frozen=True, eq=False)
class Splits:
    """Of every node: the coordinate of its split, or the number of inputs plus that of the neuron, or LEAF; and the
    value of a coordinate's split."""

    where: Index
    value: Array

    @classmethod
    def none(cls) -> Splits:
        """The region as it is."""
        return cls(np.array([LEAF]), np.zeros(1))

    @property
    def leaves(self) -> int:
        """How many cells the region is split into."""
        return int(np.sum(self.where == LEAF))

    @cached_property
    def below(self) -> Index:
        """The lower half of every node that is split; the upper one comes next."""
        return np.asarray(1 + 2 * (np.cumsum(self.where >= 0) - 1), dtype=np.int64)

    def fault(self, net: Network, region: Region) -> str | None:
        """Why these are no splits of the region, in words; None where they are, but for values (see `halves`)."""
        inner = self.where >= 0
        if len(self.where) != 1 + 2 * int(inner.sum()) or len(self.value) != len(self.where):
            return "splits and cells do not fit together"
        if not np.all(self.below[inner] > np.flatnonzero(inner)):
            return "splits and cells do not fit together"
        if np.any((self.where < LEAF) | (self.where >= net.inputs + sign_columns(net))):
            return "a split of something that the network does not have"
        if not isinstance(region, Box) and np.any(inner & (self.where < net.inputs)):
            return "a split of a coordinate, but the region is no box"
        neurons = self.where[self.where >= net.inputs] - net.inputs
        if not np.all(kinked(net)[neurons]):
            return "a split of a neuron without a kink"
        return f"cells are split more than {MOST_DEPTH:,} times inside each other" if self._deep else None

    @property
    def _deep(self) -> bool:
        """Whether there are more levels of splits than one may ask for."""
        split = np.concatenate([[0], np.cumsum(self.where >= 0)])
        start, stop = 0, 1
        for _ in range(MOST_DEPTH + 1):
            start, stop = stop, stop + 2 * int(split[stop] - split[start])
            if start == stop:
                return False
        return True


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells: the ends of their boxes (those of the region's hull where it is no box), and their signs."""

    lo: Array
    hi: Array
    signs: Signs

    def __len__(self) -> int:
        return len(self.lo)

    def rows(self, k: slice | Index) -> Cells:
        """Some of them."""
        return Cells(self.lo[k], self.hi[k], self.signs[k])


def sign_columns(net: Network) -> int:
    """How many signs a cell carries."""
    return net.neurons if net.neurons <= SPLIT_UP_TO else 0


def kinked(net: Network) -> NDArray[np.bool_]:
    """Which neurons have a kink, all blocks one after the other."""
    return np.repeat(np.array([f.kinked for f in net.activations], dtype=bool), [b.width for b in net.hidden])


def halves(cells: Cells, where: Index, value: Array) -> Cells | None:
    """Both halves of every cell, below first; None where a split does not lie inside its cell."""
    n = cells.lo.shape[1]
    lo, hi, signs = np.repeat(cells.lo, 2, axis=0), np.repeat(cells.hi, 2, axis=0), np.repeat(cells.signs, 2, axis=0)
    box, neuron = np.flatnonzero(where < n), np.flatnonzero(where >= n)
    i, v = where[box], value[box]
    if not np.all((cells.lo[box, i] < v) & (v < cells.hi[box, i])):
        return None
    hi[2 * box, i] = v
    lo[2 * box + 1, i] = v
    j = where[neuron] - n
    # A sign that was found meanwhile is no reason to refuse: whether it shows can depend on the order of additions.
    if not np.all(np.abs(cells.signs[neuron, j]) < 2):
        return None
    signs[2 * neuron, j], signs[2 * neuron + 1, j] = -2, 2
    return Cells(lo, hi, signs)
