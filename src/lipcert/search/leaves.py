"""The table of open cells: one row for each, with its place in the growing tree and what the objective knows of it."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from lipcert.proof.cells import Cells, Index, halves
from lipcert.rounding import Array
from lipcert.search.scores import NEVER
from lipcert.search.tree import GrowingTree, Mask


class Leaves:
    """Boxes and signs of cells, and `choice`: the place at which each is split next.

    A choice is a coordinate, or the number of inputs plus the number of a neuron, or NEVER. A subclass names the
    columns that it adds.

    The order of the rows decides between cells that are equally bad. Methods replace columns and do not write into old
    ones: a copy stays what it was, so that Ctrl-C finds a whole table at any time.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("lo", "hi", "signs", "choice", "node")
    IN_PLACE: ClassVar[bool] = False  # the lower half takes the row of its cell; else both halves come last

    def __init__(self, cells: Cells) -> None:
        self.lo, self.hi, self.signs = cells.lo, cells.hi, cells.signs
        self.choice: Index = np.full(len(cells), NEVER, dtype=np.int64)
        self.node: Index = np.arange(len(cells), dtype=np.int64)
        self.tree = GrowingTree(len(cells))

    def __len__(self) -> int:
        return len(self.lo)

    def copy(self) -> Self:
        """The table and its tree as they are now."""
        other = copy(self)
        other.tree = self.tree.copy()
        return other

    def cells(self, rows: Index) -> Cells:
        """Some of the cells."""
        return Cells(self.lo[rows], self.hi[rows], self.signs[rows])

    def halves(self, rows: Index) -> Cells:
        """Both halves of some cells, in pairs, as their choices say."""
        both = halves(self.cells(rows), self.choice[rows], self.middle(rows))
        assert both is not None
        return both

    def middle(self, rows: Index) -> Array:
        """The value at which a coordinate is cut, zero for neurons."""
        where, middle = self.choice[rows], np.zeros(len(rows))
        k = np.flatnonzero(where < self.lo.shape[1])
        middle[k] = self.lo[rows[k], where[k]] / 2 + self.hi[rows[k], where[k]] / 2
        return middle

    def split(self, rows: Index, fresh: dict[str, Any]) -> None:
        """Put the halves of some cells in their place; `fresh` has their columns, in pairs, but for `node`."""
        fresh["node"] = self.tree.split(self.node[rows], self.choice[rows], self.middle(rows))
        stay = None if self.IN_PLACE else np.delete(np.arange(len(self)), rows)
        for name in self.COLUMNS:
            old, new = getattr(self, name), fresh[name]
            if stay is not None:
                setattr(self, name, np.concatenate([old[stay], new]))
                continue
            joined = np.concatenate([old, new[1::2]])
            joined[rows] = new[::2]
            setattr(self, name, joined)

    def keep(self, rows: Mask) -> None:
        """Drop all other rows; their nodes stay in the tree."""
        for name in self.COLUMNS:
            setattr(self, name, getattr(self, name)[rows])

    def worst(self, badness: Array) -> Index:
        """The rows that can be split and are not good enough, which have a positive badness: the worst first."""
        rows = np.flatnonzero((badness > 0) & (self.choice != NEVER))
        return rows[np.argsort(-badness[rows], kind="stable")]
