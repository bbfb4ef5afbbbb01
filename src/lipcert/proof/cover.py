"""Cover: a box as a grid of cells, each of them split as often as one likes, so written down that it cannot have gaps.

Only edges and splits are kept. Neighbours share the same float; the first and the last edge are those of the region; a
split lies strictly inside its cell, and both halves are closed. Whatever the numbers are, what passes `fault` covers
the region, and no two cells have an inner point in common.

Nodes are in the order of levels: all cells of the grid (the last coordinate fastest), then the two halves of every cell
of the grid that is split, below first, then the halves of those, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.region import Box
from lipcert.rounding import Array

Index = NDArray[np.int64]

LEAF = -1  # in place of the coordinate of a split
MOST_NODES = 1 << 24
MOST_LEVELS = 1 << 12  # of splits inside each other
_AT_ONCE = 1 << 14  # nodes whose boxes are in memory


@dataclass(frozen=True, eq=False)
class Level:
    """Some nodes of one depth: their numbers, their boxes, and the cell of the grid that each belongs to."""

    node: Index
    lo: Array
    hi: Array
    root: Index
    coordinate: Index
    value: Array

    @property
    def split(self) -> NDArray[np.bool_]:
        """Which of them have halves."""
        return np.asarray(self.coordinate >= 0)

    def rows(self, some: slice) -> Level:
        """Some of them."""
        boxes = self.lo[some], self.hi[some]
        return Level(self.node[some], *boxes, self.root[some], self.coordinate[some], self.value[some])


@dataclass(frozen=True, eq=False)
class Cover:
    """Edges of every coordinate; of every node the coordinate of its split (or LEAF) and its value."""

    edges: tuple[Array, ...]
    coordinate: Index
    value: Array

    @classmethod
    def grid(cls, region: Box, cells: Sequence[int], most: int) -> Cover:
        """Equal cells, so many along every coordinate; one along those in which the region has no width."""
        counts = [1 if lo == hi else n for n, lo, hi in zip(cells, region.lo, region.hi, strict=True)]
        total = math.prod(counts)
        if total > most:
            many = f"{total:,} cells are more than the limit of {most:,}; ask for fewer or raise"
            raise InputError(f"{many} max_cells", f"{many} --max-cells")
        edges = tuple(_edges(i, n, float(region.lo[i]), float(region.hi[i])) for i, n in enumerate(counts))
        return cls(edges, np.full(total, LEAF, dtype=np.int64), np.zeros(total))

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of the grid along every coordinate."""
        return tuple(len(e) - 1 for e in self.edges)

    @cached_property
    def roots(self) -> int:
        """Cells of the grid."""
        return math.prod(self.shape)

    def fault(self, region: Box) -> str | None:
        """Why this is no cover of the region, in words; None where it is one."""
        if len(self.edges) != region.size:
            return f"the cells have {len(self.edges)} coordinates, the region {region.size}"
        for i, e in enumerate(self.edges):
            if len(e) < 2 or e[0] != region.lo[i] or e[-1] != region.hi[i]:
                return f"the cells do not reach from end to end of coordinate {i}"
            flat = len(e) == 2 and e[0] == e[1]
            if not (np.all(e[:-1] < e[1:]) or flat):
                return f"the edges of coordinate {i} do not increase"
        if len(self.coordinate) < self.roots or len(self.coordinate) != len(self.value):
            return "there are fewer cells than the grid has"
        if len(self.coordinate) != self.roots + 2 * int(np.sum(self.coordinate >= 0)):
            return "splits and cells do not fit together"
        if np.any((self.coordinate < LEAF) | (self.coordinate >= region.size)):
            return "a split of a coordinate that there is not"
        return self._fault_of_splits()

    def _fault_of_splits(self) -> str | None:
        seen = 0
        for depth, level in self.groups(_AT_ONCE):
            if depth > MOST_LEVELS:
                return f"cells are split more than {MOST_LEVELS:,} times inside each other"
            seen += len(level.lo)
            rows = np.flatnonzero(level.split)
            i, v = level.coordinate[rows], level.value[rows]
            if not np.all((level.lo[rows, i] < v) & (v < level.hi[rows, i])):
                return "a split that is not inside its cell"
        return None if seen == len(self.coordinate) else "splits and cells do not fit together"

    def levels(self) -> Iterator[Level]:
        """From the grid downward; nothing is checked but that there are as many nodes as splits ask for."""
        level = self.grid_level(0, self.roots)
        while len(level.lo):
            yield level
            level = self.halves(level)

    def groups(self, most: int) -> Iterator[tuple[int, Level]]:
        """All nodes with their depths, at most so many at once and those below them next: in little memory."""
        for start in range(0, self.roots, most):
            todo = [(0, self.grid_level(start, min(start + most, self.roots)))]
            while todo:
                depth, level = todo.pop()
                yield depth, level
                below = self.halves(level)
                todo += [(depth + 1, below.rows(slice(k, k + most))) for k in range(0, len(below.lo), most)]

    def grid_level(self, start: int, stop: int) -> Level:
        """Some cells of the grid."""
        node = np.arange(start, stop)
        at = np.unravel_index(node, self.shape)
        lo = np.stack([e[:-1][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        hi = np.stack([e[1:][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        return Level(node, lo, hi, node, self.coordinate[node], self.value[node])

    def halves(self, level: Level) -> Level:
        """Both halves of every node that is split, below first."""
        split = level.split
        node = (self._below[level.node[split]][:, None] + np.arange(2)).reshape(-1)
        root = np.repeat(level.root[split], 2)
        return Level(node, *halves_of(level), root, self.coordinate[node], self.value[node])

    def leaves(self) -> tuple[Array, Array, Index]:
        """Boxes that are not split, in the order of the nodes, and the cells of the grid that they belong to."""
        kept = [(level.lo[~level.split], level.hi[~level.split], level.root[~level.split]) for level in self.levels()]
        lo, hi, root = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return lo, hi, root

    def locate(self, points: Array) -> tuple[Index, Index]:
        """The cell of the grid and the leaf (number among the leaves) of every point, -1 outside.

        A point of several cells is given to the last of them.
        """
        places = [np.searchsorted(e[1:-1], points[:, i], side="right") for i, e in enumerate(self.edges)]
        inside = np.all([(x >= e[0]) & (x <= e[-1]) for x, e in zip(points.T, self.edges, strict=True)], axis=0)
        root = np.ravel_multi_index(places, self.shape).astype(np.int64)
        node, below = root.copy(), self._below
        while np.any(split := self.coordinate[node] >= 0):
            k = np.flatnonzero(split)
            own = node[k]
            node[k] = below[own] + (points[k, self.coordinate[own]] >= self.value[own])
        return np.where(inside, root, -1), np.where(inside, self.leaf_numbers[node], -1)

    @cached_property
    def leaf_numbers(self) -> Index:
        """Of every node that is a leaf its number among the leaves."""
        return np.asarray(np.cumsum(self.coordinate < 0) - 1, dtype=np.int64)

    @cached_property
    def _below(self) -> Index:
        """The lower half of every node that is split: halves come in the order of what they are halves of."""
        return np.asarray(self.roots + 2 * (np.cumsum(self.coordinate >= 0) - 1), dtype=np.int64)


def halves_of(level: Level) -> tuple[Array, Array]:
    """The boxes of both halves of every node that is split, below first."""
    rows = np.flatnonzero(level.split)
    lo, hi = np.repeat(level.lo[rows], 2, axis=0), np.repeat(level.hi[rows], 2, axis=0)
    even = 2 * np.arange(len(rows))
    hi[even, level.coordinate[rows]] = level.value[rows]
    lo[even + 1, level.coordinate[rows]] = level.value[rows]
    return lo, hi


def _edges(i: int, count: int, lo: float, hi: float) -> Array:
    share = np.arange(count + 1) / count
    edges = lo * (1.0 - share) + hi * share
    edges[0], edges[-1] = lo, hi
    if count > 1 and not np.all(edges[:-1] < edges[1:]):
        raise InputError(f"coordinate {i}: {count:,} cells between {lo!r} and {hi!r} have no width; ask for fewer")
    return edges
