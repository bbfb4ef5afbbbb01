"""The leaves while they are split: what is known of each, and the cover that they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.cells.blocks import NEVER, Block, Found, Index
from lipcert.proof.boxes import Asked
from lipcert.proof.tree import LEAF, Tree, level_order
from lipcert.rounding import Array


class Leaves:
    """One row for every leaf; a split puts the lower half in its place and the upper one at the end.

    `node` is its number in the tree as it grew: cells of the grid first, then halves in pairs.
    """

    def __init__(self, asked: Asked, cover: Tree) -> None:
        self.grid, self.roots = cover.grid, cover.roots
        self.lo, self.hi, self.root = cover.boxes()
        count = len(self.lo)
        self.node = np.arange(count)
        self.upper, self.lower = np.full(count, np.inf), np.zeros(count)
        self.points = self.lo / 2 + self.hi / 2
        self.choice = np.full(count, NEVER, dtype=np.int64)
        self.signs = asked.unknown(count)
        self.done = np.zeros(count, dtype=bool)  # whether it was bounded at all
        self._coordinate: Index = np.full(count, LEAF, dtype=np.int64)  # of the splits of all nodes,
        self._value: Array = np.zeros(count)  # where they are,
        self._below: Index = np.full(count, -1, dtype=np.int64)  # and the first of both halves

    def __len__(self) -> int:
        return len(self.lo)

    def block(self, rows: Index) -> Block:
        """Leaves as they are, for a first bound."""
        return Block(self.lo[rows], self.hi[rows], self.signs[rows])

    def halves(self, rows: Index) -> Block:
        """Both halves of some leaves: all lower ones, then all upper ones."""
        lo, hi = np.tile(self.lo[rows], (2, 1)), np.tile(self.hi[rows], (2, 1))
        i, value, k = self.choice[rows], self._middle(rows), np.arange(len(rows))
        hi[k, i] = value
        lo[len(rows) + k, i] = value
        return Block(lo, hi, np.tile(self.signs[rows], (2, 1)))

    def keep(self, rows: Index, found: Found) -> None:
        """The first bounds of leaves; never worse than what is known."""
        self.upper[rows] = np.minimum(self.upper[rows], found.upper)
        self.lower[rows] = np.maximum(self.lower[rows], found.lower)
        self.points[rows], self.choice[rows], self.signs[rows] = found.points, found.choice, found.signs
        self.done[rows] = True

    def split(self, rows: Index, found: Found) -> None:
        """Put the halves of these leaves in their place. Their bounds are their own: a checker has no others."""
        count, n = len(rows), len(self.lo)
        block, nodes = self.halves(rows), len(self._coordinate)
        self._record(rows, nodes)
        twice = np.tile(rows, 2)
        inside = np.all((self.points[twice] >= block.lo) & (self.points[twice] <= block.hi), axis=1)
        better = inside & (self.lower[twice] > found.lower)
        lower = np.where(better, self.lower[twice], found.lower)
        points = np.where(better[:, None], self.points[twice], found.points)
        fresh = {"lo": block.lo, "hi": block.hi, "upper": found.upper, "lower": lower, "points": points}
        fresh |= {"choice": found.choice, "signs": found.signs, "root": self.root[twice]}
        fresh |= {"node": nodes + np.concatenate([2 * np.arange(count), 2 * np.arange(count) + 1])}
        fresh |= {"done": np.ones(2 * count, dtype=bool)}
        for name, value in fresh.items():
            own = np.concatenate([getattr(self, name), value[count:]])
            own[rows] = value[:count]
            setattr(self, name, own)
        assert len(self.lo) == n + count

    def cover(self) -> tuple[Tree, Index]:
        """The tree, and the rows of the leaves in its order."""
        coordinate, value = self._coordinate, self._value
        nodes = level_order(self._below, coordinate >= 0, self.roots)
        row = np.full(len(nodes), -1, dtype=np.int64)
        row[self.node] = np.arange(len(self.node))
        leaf = nodes[coordinate[nodes] < 0]
        return Tree(coordinate[nodes], value[nodes], self.grid), row[leaf]

    def of_roots(self) -> tuple[Array, Array, Index]:
        """Of every cell of the grid: the largest upper and lower bound of its leaves, and the leaf with the latter."""
        upper, lower = np.zeros(self.roots), np.zeros(self.roots)
        np.maximum.at(upper, self.root, self.upper)
        np.maximum.at(lower, self.root, self.lower)
        best = np.zeros(self.roots, dtype=np.int64)
        order = np.argsort(self.lower, kind="stable")
        best[self.root[order]] = order  # the last one stays
        return upper, lower, best

    def _middle(self, rows: Index) -> Array:
        i = self.choice[rows]
        return np.asarray(self.lo[rows, i] / 2 + self.hi[rows, i] / 2)

    def _record(self, rows: Index, nodes: int) -> None:
        """Write the splits down; `nodes` there are so far."""
        own, more = self.node[rows], 2 * len(rows)
        self._coordinate[own], self._value[own] = self.choice[rows], self._middle(rows)
        self._below[own] = nodes + 2 * np.arange(len(rows))
        self._coordinate = np.append(self._coordinate, np.full(more, LEAF, dtype=np.int64))
        self._value = np.append(self._value, np.zeros(more))
        self._below = np.append(self._below, np.full(more, -1, dtype=np.int64))


def open_rows(leaves: Leaves, good: NDArray[np.bool_]) -> Index:
    """Leaves that are not good enough and can be split, the worst first."""
    rows = np.flatnonzero(~good & leaves.done & (leaves.choice != NEVER))
    return rows[np.argsort(-leaves.upper[rows], kind="stable")]
