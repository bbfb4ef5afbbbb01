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

from lipcert.errors import InputError
from lipcert.problem.region import Box
from lipcert.proof.splits import LEAF, Cells, Index, Splits, halves, walk
from lipcert.rounding import Array

_AT_ONCE = 1 << 13  # cells that are halved together


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
        if len(self.coordinate) < self.roots:
            return "there are fewer cells than the grid has"
        if np.any(self.coordinate >= region.size):
            return "a split of a coordinate that there is not"
        unfit = self.splits.unfit()
        if unfit is not None:
            return unfit
        inside = walk(self.splits, self.groups(_AT_ONCE), lambda _, cells: cells, halves, _AT_ONCE)
        return None if inside else "a split that is not inside its cell"

    @cached_property
    def splits(self) -> Splits:
        """The tree, whose roots are the cells of the grid."""
        return Splits(self.coordinate, self.value, self.roots)

    def grid_cells(self, nodes: Index, signs: int = 0) -> Cells:
        """Some cells of the grid; nothing is known of their neurons, of which there are so many."""
        at = np.unravel_index(nodes, self.shape)
        lo = np.stack([e[:-1][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        hi = np.stack([e[1:][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        return Cells(lo, hi, np.zeros((len(nodes), signs), dtype=np.int8))

    def groups(self, most: int, signs: int = 0) -> Iterator[tuple[Index, Cells]]:
        """The cells of the grid with their numbers, at most so many at once: where `walk` begins."""
        for start in range(0, self.roots, most):
            nodes = np.arange(start, min(start + most, self.roots))
            yield nodes, self.grid_cells(nodes, signs)

    def leaves(self) -> tuple[Array, Array, Index]:
        """Boxes that are not split, in the order of the nodes, and the cells of the grid that they belong to."""
        leaf, count = self.coordinate < 0, self.splits.leaves
        lo, hi = np.empty((count, len(self.edges))), np.empty((count, len(self.edges)))

        def keep(nodes: Index, cells: Cells) -> Cells:
            own = leaf[nodes]
            place = self.splits.leaf_numbers[nodes[own]]
            lo[place], hi[place] = cells.lo[own], cells.hi[own]
            return cells

        walk(self.splits, self.groups(_AT_ONCE), keep, halves, _AT_ONCE)
        return lo, hi, self.splits.root[leaf]

    def locate(self, points: Array) -> tuple[Index, Index]:
        """The cell of the grid and the leaf (number among the leaves) of every point, -1 outside.

        A point of several cells is given to the last of them.
        """
        places = [np.searchsorted(e[1:-1], points[:, i], side="right") for i, e in enumerate(self.edges)]
        inside = np.all([(x >= e[0]) & (x <= e[-1]) for x, e in zip(points.T, self.edges, strict=True)], axis=0)
        root = np.ravel_multi_index(places, self.shape).astype(np.int64)
        node, below = root.copy(), self.splits.below
        while np.any(split := self.coordinate[node] >= 0):
            k = np.flatnonzero(split)
            own = node[k]
            node[k] = below[own] + (points[k, self.coordinate[own]] >= self.value[own])
        return np.where(inside, root, -1), np.where(inside, self.splits.leaf_numbers[node], -1)


def _edges(i: int, count: int, lo: float, hi: float) -> Array:
    share = np.arange(count + 1) / count
    edges = lo * (1.0 - share) + hi * share
    edges[0], edges[-1] = lo, hi
    if count > 1 and not np.all(edges[:-1] < edges[1:]):
        raise InputError(f"coordinate {i}: {count:,} cells between {lo!r} and {hi!r} have no width; ask for fewer")
    return edges
