"""Cells of a box, the worst first, until the number that an objective bounds is good enough on each of them.

The rounds do not depend on how many workers there are, nor on whether blocks were found in a folder: the same question
gives the same cells, however often it was killed on the way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.jobs import End
from lipcert.jobs.run import JobProgress
from lipcert.proof.cells import Cells, Index
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.blocks import BlockRunner, Found
from lipcert.search.leaves import Leaves
from lipcert.search.loop import LeafSearch
from lipcert.search.progress import Progress, Status
from lipcert.search.tree import Mask
from lipcert.steps import THIN

_BLOCK = 1024  # leaves that are split in one piece
_FIRST = 512  # leaves that a round splits at least,
_SHARE = 0.5  # and at least this share of those that are open
_ENDS = {
    End.DEADLINE: Status.TIME_LIMIT,
    End.INTERRUPTED: Status.INTERRUPTED,
    End.EXECUTOR_LOST: Status.OPEN,
}


@dataclass(frozen=True)
class CellGoal:
    """A cell is good enough by any of these that are given:

    gap      its bracket is narrow: upper - lower <= gap times the largest lower bound of the whole region
    target   upper <= target
    largest  it does not matter for the region's constant: upper <= (1 + largest) times the largest lower bound

    With none of them every cell is.
    """

    gap: float | None = None
    target: float | None = None
    largest: float | None = None

    def check(self) -> None:
        """Refuse numbers that are no goal."""
        for name in ("gap", "target", "largest"):
            value = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not (value > 0):
                raise InputError.about(name, f"must be a finite number > 0, not {value!r}")

    @property
    def none(self) -> bool:
        """Whether nothing is to be split."""
        return self.gap is None and self.target is None and self.largest is None

    def reached(self, upper: Array, lower: Array, top: float) -> Mask:
        """Which cells are good enough; `top` is the largest lower bound of the region."""
        if self.none:
            return np.ones(len(upper), dtype=bool)
        good = np.zeros(len(upper), dtype=bool)
        if self.gap is not None:
            good |= upper - lower <= self.gap * top
        if self.target is not None:
            good |= upper <= self.target
        if self.largest is not None:
            good |= upper <= (1.0 + self.largest) * top
        return good

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"gap": self.gap, "target": self.target, "largest": self.largest}


class BoxLeaves(Leaves):
    """All leaves of a cover, which begins as the cells of a grid, with their brackets and where these are attained.

    The tree knows every leaf, so none is dropped. `root` is the cell of the grid that a leaf is a part of, `done` says
    whether the leaf was bounded at all.
    """

    COLUMNS = (*Leaves.COLUMNS, "root", "upper", "lower", "points", "done")
    IN_PLACE = True

    def __init__(self, cover: Tree, sign_columns: int) -> None:
        lo, hi, self.root = cover.boxes()
        super().__init__(Cells(lo, hi, np.zeros((len(lo), sign_columns), dtype=np.int8)))
        self.grid, count = cover.grid, len(lo)
        self.upper, self.lower = np.full(count, np.inf), np.zeros(count)
        self.points = self.lo / 2 + self.hi / 2
        self.done = np.zeros(count, dtype=bool)

    def begin(self, rows: Index, found: Found) -> None:
        """Write down the first bounds of some cells of the grid."""
        self.upper[rows], self.lower[rows] = found.upper, np.maximum(self.lower[rows], found.lower)
        self.points[rows], self.choice[rows], self.signs[rows] = found.points, found.choice, found.signs
        self.done[rows] = True

    def divide(self, rows: Index, both: Cells, found: Found) -> None:
        """Put halves, in pairs, in place of their cells. Their bounds are their own: a checker has no others."""
        twice = np.repeat(rows, 2)
        inside = np.all((self.points[twice] >= both.lo) & (self.points[twice] <= both.hi), axis=1)
        better = inside & (self.lower[twice] > found.lower)
        fresh: dict[str, Any] = {
            "lo": both.lo,
            "hi": both.hi,
            "signs": found.signs,
            "choice": found.choice,
            "upper": found.upper,
        }
        fresh |= {"lower": np.where(better, self.lower[twice], found.lower), "root": self.root[twice]}
        fresh |= {"points": np.where(better[:, None], self.points[twice], found.points)}
        self.split(rows, fresh | {"done": np.ones(len(twice), dtype=bool)})

    def cover(self) -> tuple[Tree, Index]:
        """The tree, and the rows of the leaves in its order."""
        tree, nodes = self.tree, self.tree.order()
        row = np.full(len(tree), -1, dtype=np.int64)
        row[self.node] = np.arange(len(self.node))
        return Tree(tree.where[nodes], tree.value[nodes], self.grid), row[nodes[~tree.is_split[nodes]]]

    def of_roots(self) -> tuple[Array, Array, Index]:
        """For every cell of the grid the largest upper and lower bound of its leaves, and the leaf with the latter."""
        roots = self.tree.roots
        upper, lower = np.zeros(roots), np.zeros(roots)
        np.maximum.at(upper, self.root, self.upper)
        np.maximum.at(lower, self.root, self.lower)
        best = np.zeros(roots, dtype=np.int64)
        order = np.argsort(self.lower, kind="stable")
        best[self.root[order]] = order  # the last one stays
        return upper, lower, best


class BoxSearch(LeafSearch[BoxLeaves]):
    """Rounds over the cells of a box: in each the worst leaves are split, in blocks."""

    def __init__(self, runner: BlockRunner, cover: Tree, goal: CellGoal, of_grid: bool, most: int) -> None:
        super().__init__(BoxLeaves(cover, runner.objective.sign_columns), most)
        self.runner, self.objective, self.goal, self.of_grid = runner, runner.objective, goal, of_grid
        self.splits = self.bounded = self.rounds = 0
        self.on_progress: Callable[[Progress], None] | None = None
        self._stage = "starting"

    @property
    def top(self) -> float:
        """The largest lower bound."""
        return float(self.leaves.lower.max(initial=0.0))

    def good(self) -> Mask:
        """Which leaves are good enough: those of a grid beside the lower bound of their cell of the grid."""
        lower = self.leaves.of_roots()[1][self.leaves.root] if self.of_grid else self.leaves.lower
        return self.goal.reached(self.leaves.upper, lower, self.top) & self.leaves.done

    def badness(self, leaves: BoxLeaves) -> Array:
        """The upper bounds of leaves that are not good enough."""
        return np.where(self.good() | ~leaves.done, 0.0, leaves.upper)

    def size(self, count: int) -> int:
        """A share of the leaves that are open: a round of few would not keep workers busy."""
        return max(_FIRST, int(_SHARE * count))

    def over(self) -> bool:
        """Whether a block was not done; the budget is looked at before every block."""
        return self.status is not Status.DONE

    def begin(self) -> None:
        """Bound the cells of the grid."""
        leaves, step = self.leaves, min(2 * _BLOCK, self.objective.batch)
        parts = [np.arange(k, min(k + step, len(leaves))) for k in range(0, len(leaves), step)]
        self._stage = f"{len(leaves):,} cells"
        for rows, found in self._bound(parts, [leaves.cells(rows) for rows in parts]):
            leaves.begin(rows, found)
        self._report()

    def split(self, leaves: BoxLeaves, rows: Index) -> None:
        """Split these leaves in blocks: in each all lower halves come before all upper ones."""
        self.rounds += 1
        self._stage = f"{len(leaves):,} cells, splitting {len(rows):,}"
        step = max(1, min(_BLOCK, self.objective.batch // 2))
        parts = [rows[k : k + step] for k in range(0, len(rows), step)]
        pairs = [np.arange(2 * len(own)).reshape(2, -1).T.reshape(-1) for own in parts]
        blocks = [leaves.halves(own).rows(np.argsort(pair)) for own, pair in zip(parts, pairs, strict=True)]
        for own, found in self._bound(parts, blocks):
            pair = np.arange(2 * len(own)).reshape(2, -1).T.reshape(-1)
            leaves = self.leaves.copy()
            leaves.divide(own, leaves.halves(own), found.rows(pair))
            self.leaves = leaves
            self.splits += len(own)
        self._report()

    def _bound(self, parts: Sequence[Index], blocks: Sequence[Cells]) -> list[tuple[Index, Found]]:
        """Have blocks bounded, as many as the budget allows: the rows and answers of those that were, in order."""
        blocks = blocks[: self._affordable(blocks)]
        deadline = None if self.budget.repeatable else self.budget.end
        answers, end = self.runner.run(f"round-{self.rounds:05d}", blocks, self._see, deadline)
        if end is End.EXECUTOR_LOST:
            self.notes.append("workers: they are gone; go on with resume where there is a folder")
        if end in _ENDS and self.status is Status.DONE:
            self.status = _ENDS[end]
        found = [(rows, one) for rows, one in zip(parts, answers, strict=False) if one is not None]
        self.bounded += sum(len(one.upper) for _, one in found)
        return found

    def _affordable(self, blocks: Sequence[Cells]) -> int:
        """How many of the blocks the counted work allows, which is charged; on the wall clock all of them or none."""
        for k, block in enumerate(blocks):
            if self.budget.over():
                self.status = Status.WORK_LIMIT if self.budget.repeatable else Status.TIME_LIMIT
                return k
            self.budget.charge(len(block) * self.objective.operations, THIN)
        return len(blocks)

    def _see(self, pieces: JobProgress) -> None:
        blocks = f" ({pieces.done} of {pieces.total} blocks)" if pieces.total > 1 else ""
        self._report(blocks)

    def _report(self, more: str = "") -> None:
        if self.on_progress is None:
            return
        upper = float(self.leaves.upper.max())
        self.on_progress(Progress(time.monotonic() - self.start, self.top, upper, self._stage + more))
