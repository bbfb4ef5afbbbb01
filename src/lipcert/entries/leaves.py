"""The cells while they are split: those that are open, what is known of each, and the tree of all splits so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.proof.cells import Cells, Index, halves
from lipcert.proof.entries import Asked, Bounded
from lipcert.proof.tree import LEAF, Tree, level_order
from lipcert.rounding import Array

NEVER = -1  # in place of where to split: nothing is left to split there


class Leaves:
    """One row for every open cell. Cells that are good enough are put away (`rest`): their enclosures go into those of
    the region, and only their places in the tree are kept.

    Methods replace arrays and never write into old ones: a shallow copy stays what it was."""

    def __init__(self, asked: Asked) -> None:
        root = asked.root()
        self.lo, self.hi, self.signs = root.lo, root.hi, root.signs
        self.entries = asked.anything(1)
        self.choice: Index = np.full(1, NEVER)
        self.node: Index = np.zeros(1, dtype=np.int64)
        self.away = Interval(np.full(asked.shape, np.inf), np.full(asked.shape, -np.inf))
        self._where: Index = np.full(1, LEAF)
        self._value: Array = np.zeros(1)
        self._below: Index = np.full(1, LEAF)

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def nodes(self) -> int:
        """All cells that there ever were."""
        return len(self._where)

    @property
    def hull(self) -> Interval:
        """The enclosures on the whole region."""
        low = np.minimum(self.away.lo, self.entries.lo.min(axis=0, initial=np.inf))
        return Interval(low, np.maximum(self.away.hi, self.entries.hi.max(axis=0, initial=-np.inf)))

    def cells(self, rows: Index) -> Cells:
        """Some of the open ones."""
        return Cells(self.lo[rows], self.hi[rows], self.signs[rows])

    def halves(self, rows: Index) -> Cells:
        """Both halves of some of them, as their choices say."""
        both = halves(self.cells(rows), self.choice[rows], self._middle(rows))
        assert both is not None
        return both

    def first(self, found: Bounded, choice: Index) -> None:
        """What is known of the region."""
        self.entries, self.signs, self.choice = found.entries, found.signs, choice

    def splittable(self, rows: Index) -> NDArray[np.bool_]:
        """Which of some cells can be split as their choices say."""
        where, n = self.choice[rows], self.lo.shape[1]
        fine, middle = where != NEVER, self._middle(rows)
        k = np.flatnonzero(fine & (where < n))
        fine[k] = (self.lo[rows[k], where[k]] < middle[k]) & (middle[k] < self.hi[rows[k], where[k]])
        k = np.flatnonzero(where >= n)
        fine[k] = np.abs(self.signs[rows[k], where[k] - n]) < 2
        return np.asarray(fine, dtype=bool)

    def split(self, rows: Index, both: Cells, entries: Interval, choice: Index) -> None:
        """Put the halves of some cells in their place, with what is known of them."""
        nodes, count = len(self._where), 2 * len(rows)
        own = self.node[rows]
        self._where = np.append(self._where, np.full(count, LEAF))
        self._below = np.append(self._below, np.full(count, LEAF))
        self._value = np.append(self._value, np.zeros(count))
        self._where[own], self._value[own] = self.choice[rows], self._middle(rows)
        self._below[own] = nodes + 2 * np.arange(len(rows))
        fresh = (both.lo, both.hi, both.signs, entries, choice, nodes + np.arange(count))
        self._keep(np.delete(np.arange(len(self)), rows), fresh)

    def rest(self, done: NDArray[np.bool_]) -> None:
        """Put cells away that are good enough."""
        if not done.any():
            return
        low, high = self.entries.lo[done].min(axis=0), self.entries.hi[done].max(axis=0)
        self.away = Interval(np.minimum(self.away.lo, low), np.maximum(self.away.hi, high))
        few = slice(0, 0)
        none = (self.lo[few], self.hi[few], self.signs[few], self.entries.rows(few), self.choice[few], self.node[few])
        self._keep(np.flatnonzero(~done), none)

    def splits(self) -> Tree:
        """The tree in the order of levels."""
        nodes = level_order(self._below, self._where >= 0)
        return Tree(self._where[nodes], self._value[nodes])

    def _middle(self, rows: Index) -> Array:
        """Where a coordinate is cut, zero for neurons."""
        where, middle = self.choice[rows], np.zeros(len(rows))
        k = np.flatnonzero(where < self.lo.shape[1])
        middle[k] = self.lo[rows[k], where[k]] / 2 + self.hi[rows[k], where[k]] / 2
        return middle

    def _keep(self, rows: Index, fresh: tuple[Array, Array, NDArray[np.int8], Interval, Index, Index]) -> None:
        """Some of the rows, and fresh ones behind them."""
        lo, hi, signs, entries, choice, node = fresh
        self.lo, self.hi = np.concatenate([self.lo[rows], lo]), np.concatenate([self.hi[rows], hi])
        self.signs = np.concatenate([self.signs[rows], signs])
        both = zip(self.entries.rows(rows), entries, strict=True)
        self.entries = Interval(*(np.concatenate(ends) for ends in both))
        self.choice, self.node = np.append(self.choice[rows], choice), np.append(self.node[rows], node)
