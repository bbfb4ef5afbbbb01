"""Splits: a tree of cells that are boxes and signs of neurons, so written down that it cannot have gaps.

Only the splits are kept. A split cuts a box at a value of a coordinate, or a cell at the kink of a neuron, and both
halves are closed: whatever the numbers are, the leaves together are the cells that the tree begins with. Nodes are in
the order of levels: the roots (one region, or the cells of a grid), their halves (below first), the halves of those
that are split, and so on. `walk` is the only way through such a tree: whoever checks one says what a cell is, how it is
halved, and what is looked at in a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region
from lipcert.rounding import Array
from lipcert.steps import step

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # (cells, neurons): 1 where z >= 0 was found, 2 where a split says so, -1 and -2, or 0

LEAF = -1
MOST_NODES = 1 << 24  # nodes of a tree whose cells are boxes alone,
MOST_SIGNED_NODES = 1 << 22  # and of a tree whose cells carry the signs of neurons as well
MOST_DEPTH = 1 << 12  # splits above a cell: each level is bounded by itself
SPLIT_UP_TO = 4096  # neurons: cells of larger networks carry no signs, and are split at coordinates alone
_WAITING = 16  # groups of cells; with every so many more that wait in memory, groups are half as large
_UNFIT = "splits and cells do not fit together"


@dataclass(frozen=True, eq=False)
class Splits:
    """For every node: the coordinate of its split, or the number of inputs plus that of the neuron, or LEAF; and the
    value of a coordinate's split. The first `roots` nodes are what is split."""

    where: Index
    value: Array
    roots: int = 1

    @classmethod
    def none(cls) -> Splits:
        """The region as it is."""
        return cls(np.array([LEAF]), np.zeros(1))

    @property
    def leaves(self) -> int:
        """How many cells the region is split into."""
        return int(np.sum(self.where < 0))

    @cached_property
    def below(self) -> Index:
        """The lower half of every node that is split; the upper one comes next."""
        return np.asarray(self.roots + 2 * (np.cumsum(self.where >= 0) - 1), dtype=np.int64)

    @cached_property
    def leaf_numbers(self) -> Index:
        """The number among the leaves of every node that is one."""
        return np.asarray(np.cumsum(self.where < 0) - 1, dtype=np.int64)

    @cached_property
    def root(self) -> Index:
        """The root that every node is a part of."""
        found, inner = np.arange(len(self.where)), np.flatnonzero(self.where >= 0)
        for start, stop in self._levels():
            if start:
                found[start:stop] = found[inner[(np.arange(start, stop) - self.roots) // 2]]
        return found

    def unfit(self) -> str | None:
        """Why the nodes are no tree in the order of levels, in words; None where they are."""
        inner = self.where >= 0
        if len(self.where) != self.roots + 2 * int(inner.sum()) or len(self.value) != len(self.where):
            return _UNFIT
        if not np.all(self.below[inner] > np.flatnonzero(inner)) or np.any(self.where < LEAF):
            return _UNFIT
        deep = any(depth > MOST_DEPTH for depth, _ in enumerate(self._levels()))
        return f"cells are split more than {MOST_DEPTH:,} times inside each other" if deep else None

    def fault(self, net: Network, region: Region) -> str | None:
        """Why these are no splits of the region, in words; None where they are, but for values (see `halves`)."""
        unfit, inner = self.unfit(), self.where >= 0
        if unfit is not None:
            return unfit
        if np.any(self.where >= net.inputs + sign_columns(net)):
            return "a split of something that the network does not have"
        if not isinstance(region, Box) and np.any(inner & (self.where < net.inputs)):
            return "a split of a coordinate, but the region is no box"
        neurons = self.where[self.where >= net.inputs] - net.inputs
        return None if np.all(kinked(net)[neurons]) else "a split of a neuron without a kink"

    def _levels(self) -> Iterator[tuple[int, int]]:
        """The first node of every level, and the first one behind it."""
        split = np.concatenate([[0], np.cumsum(self.where >= 0)])
        start, stop = 0, self.roots
        while start < stop:
            yield start, stop
            start, stop = stop, stop + 2 * int(split[stop] - split[start])


class Batch(Protocol):
    """Some cells of a walk, with all that is known of them."""

    def rows(self, k: Index) -> Self:
        """Some of them."""


B = TypeVar("B", bound=Batch)
Visit = Callable[[Index, B], B | None]  # nodes and their cells; the cells with what their halves inherit
Halve = Callable[[B, Index, Array], B | None]  # cells, where each is split, at which value; both halves of each


def walk(splits: Splits, roots: Iterable[tuple[Index, B]], visit: Visit[B], halve: Halve[B], most: int) -> bool:
    """Visit all nodes in groups, a node before its halves; `most` cells are halved at once. False as soon as a visit or
    a split says that the tree proves nothing."""
    for group in roots:
        todo = [group]
        while todo:
            step()
            nodes, cells = todo.pop()
            known = visit(nodes, cells)
            if known is None:
                return False
            inner = np.flatnonzero(splits.where[nodes] >= 0)
            room = max(1, most >> len(todo) // _WAITING)
            for some in (inner[k : k + room] for k in range(0, len(inner), room)):
                own = nodes[some]
                both = halve(known.rows(some), splits.where[own], splits.value[own])
                if both is None:
                    return False
                todo.append((np.stack([splits.below[own], splits.below[own] + 1], axis=1).reshape(-1), both))
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
