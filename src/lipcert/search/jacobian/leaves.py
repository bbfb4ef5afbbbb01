"""The table of open cells of a Jacobian, and the enclosures on the whole region that follow from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.proof.cells import Cells, Index
from lipcert.proof.jacobian import Bounded, EntryQuestion
from lipcert.proof.tree import Tree
from lipcert.search.leaves import Leaves
from lipcert.search.scores import NEVER
from lipcert.search.tree import Mask


class EntryLeaves(Leaves):
    """Open cells with enclosures of the entries on each. Cells that are good enough are put away: their enclosures go
    into those of the region, and only their places in the tree are kept."""

    COLUMNS = (*Leaves.COLUMNS, "low", "high")

    def __init__(self, question: EntryQuestion) -> None:
        super().__init__(question.root())
        self.low, self.high = question.anything(1)
        self.away = Interval(np.full(question.shape, np.inf), np.full(question.shape, -np.inf))

    @property
    def entries(self) -> Interval:
        """The enclosures on every open cell, (cells, scores, inputs)."""
        return Interval(self.low, self.high)

    @property
    def hull(self) -> Interval:
        """The enclosures on the whole region."""
        low = np.minimum(self.away.lo, self.low.min(axis=0, initial=np.inf))
        return Interval(low, np.maximum(self.away.hi, self.high.max(axis=0, initial=-np.inf)))

    def begin(self, found: Bounded, choice: Index) -> None:
        """Write down the first bounds of the region."""
        (self.low, self.high), self.signs, self.choice = found.entries, found.signs, choice

    def splittable(self, rows: Index) -> Mask:
        """Which of some cells can be split as their choices say."""
        where, n = self.choice[rows], self.lo.shape[1]
        fine, middle = where != NEVER, self.middle(rows)
        k = np.flatnonzero(fine & (where < n))
        fine[k] = (self.lo[rows[k], where[k]] < middle[k]) & (middle[k] < self.hi[rows[k], where[k]])
        k = np.flatnonzero(where >= n)
        fine[k] = np.abs(self.signs[rows[k], where[k] - n]) < 2
        return np.asarray(fine, dtype=bool)

    def divide(self, rows: Index, both: Cells, entries: Interval, choice: Index) -> None:
        """Put the halves of some cells, in pairs, in their place."""
        fresh: dict[str, Any] = {"lo": both.lo, "hi": both.hi, "signs": both.signs, "choice": choice}
        self.split(rows, fresh | {"low": entries.lo, "high": entries.hi})

    def put_away(self, done: Mask) -> None:
        """Drop cells that are good enough; the enclosures on the region keep theirs."""
        if done.any():
            low, high = self.low[done].min(axis=0), self.high[done].max(axis=0)
            self.away = Interval(np.minimum(self.away.lo, low), np.maximum(self.away.hi, high))
            self.keep(~done)

    def splits(self) -> Tree:
        """The tree in the order of levels."""
        nodes = self.tree.order()
        return Tree(self.tree.where[nodes], self.tree.value[nodes])
