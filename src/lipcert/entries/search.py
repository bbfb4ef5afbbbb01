"""Rounds: the cells on which entries are not good enough are split, the worst first, in blocks; after every block the
enclosures of the region are proved."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.entries.choice import choices
from lipcert.entries.goal import Goal, scales
from lipcert.entries.leaves import NEVER, Leaves
from lipcert.entries.replay import prove_again
from lipcert.entries.seen import Seen
from lipcert.method.result import Status
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.cells import Cells, Index
from lipcert.proof.entries import Asked, Bounded, Mask, bounded
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.proof.tree import MOST_SIGNED_NODES
from lipcert.rounding import Array
from lipcert.steps import RATES, THIN
from lipcert.witness.chart import Chart

_BLOCK = 64  # cells that are split together at most (cartpole in 5.1 s; with 256 in 6.8 s: what is seen comes later),
_SECONDS = 0.5  # and that take about so long
_CALLS = 1e5  # operations for one cell besides its products
_DRAWN, _DRAWN_SECONDS = 4096, 1.0  # points of the region at first: so many, or as many as that takes
_TRIED = 8  # points in every cell
_ROUNDING = 1e-12  # of the largest entry by linear bounds: what terms that cancel leave
_KEPT_BLOCKS, _KEPT_SHARE = 16, 1 / 64  # the state is written after so many blocks, and so much growth of the tree
_NUMBERS = 1 << 24  # of the enclosures of all open cells together


@dataclass(frozen=True)
class JacobianProgress:
    """How far `jacobian` is: of so many entries these are good enough, with so many cells, so many of them open."""

    seconds: float
    entries: int
    good: int
    cells: int
    open: int


class Search:
    """The mutable side of one call: cells, points, budget, and how it ended."""

    def __init__(self, asked: Asked, goal: Goal, budget: Budget) -> None:
        self.asked, self.goal, self.budget = asked, goal, budget
        self.leaves, self.seen = Leaves(asked), Seen(asked)
        self.status = Status.DONE
        self.notes: list[str] = []
        self.on_progress: Callable[[JacobianProgress], None] | None = None
        self.keep: Callable[[], None] | None = None  # writes what there is
        self.ready, self.resumed = False, 0  # whether all cells from before are proved again, and how many
        self._unkept, self._kept = 0, 1  # blocks since the state was written, and its nodes then
        self._rng = np.random.default_rng(0)
        self._start = time.monotonic()

    def run(self, most: int, before: JacobianCertificate | None = None) -> None:
        """The region, then blocks of its cells until all entries are good enough, or `most` cells, or the budget's
        end. What is proved of the region at first is proved, however long it takes, and so are the cells that were
        there `before`."""
        self._first(before)
        self.ready = before is None
        try:
            self.report()
            if before is not None:
                prove_again(self, before)
                self.resumed = self.cells
            self.ready, self._kept = True, self.leaves.nodes
            while not self._good().all():
                if self.budget.over():
                    self.status = Status.WORK_LIMIT if self.budget.repeatable else Status.TIME_LIMIT
                elif self._block(most):
                    continue
                else:
                    self.status = Status.OPEN
                return
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    @property
    def cells(self) -> int:
        """How many cells the region is split into."""
        return (self.leaves.nodes + 1) // 2

    @property
    def values(self) -> Interval:
        """What was seen of the entries."""
        return Interval(self.seen.least, self.seen.most)

    def _good(self) -> Mask:
        return self.goal.reached(self.leaves.hull, self.values)

    def _first(self, before: JacobianCertificate | None) -> None:
        net, root = self.asked.network, self.asked.root()
        each = 4.0 * net.entries * (1 + len(self.asked.scores))
        drawn = int(np.clip(_DRAWN_SECONDS * RATES[THIN] / max(each, 1.0), 16, _DRAWN))
        self.budget.charge(drawn * each, THIN)
        chart = Chart.of(Problem.of(net, self.asked.region, output="all"))
        middle = chart.points(np.zeros((1, net.inputs)))
        self.seen.offer(np.concatenate([middle, chart.points(chart.draw(self._rng, drawn, np.float64))]))
        if before is not None:
            self.seen.again(before.points)
        found, choice = self.bounded(root, self.asked.anything(1), np.ones((1, *self.asked.shape), dtype=bool))
        self.leaves.first(found, choice)
        size = self.leaves.hull.magnitude
        self.goal = replace(self.goal, floor=_ROUNDING * float(size[np.isfinite(size)].max(initial=0.0)))

    def _block(self, most: int) -> bool:
        """Split the worst of the open cells; False when there is nothing to split."""
        leaves = copy(self.leaves)  # put in place when all is done, so that Ctrl-C finds a whole tree at any time
        missing = self.missing(leaves.entries)
        worst = missing.max(axis=(1, 2), initial=0.0)
        leaves.rest(worst == 0)
        missing, worst = missing[worst > 0], worst[worst > 0]
        rows = np.flatnonzero(leaves.choice != NEVER)
        room = min(most, MOST_SIGNED_NODES // 2) - (leaves.nodes + 1) // 2
        if not len(rows):
            return False
        if room <= 0 or 2 * len(leaves) * leaves.away.lo.size > _NUMBERS:
            self.notes.append(f"cells: the limit was reached with {self.cells:,} of them")
            return False
        rows = rows[np.argsort(-worst[rows], kind="stable")][: min(self._size(), room)]
        both, twice = leaves.halves(rows), np.repeat(rows, 2)
        found, choice = self.bounded(both, leaves.entries.rows(twice), missing[twice] > 0)
        if isinstance(self.asked.region, Box):
            self._try(both)
        leaves.split(rows, Cells(both.lo, both.hi, found.signs), found.entries, choice)
        self.leaves = leaves
        self._keep()
        self.report()
        return True

    def _keep(self) -> None:
        """Have the state written, after so many blocks and once the tree has grown by some share of itself."""
        self._unkept += 1
        if self.keep is None or self._unkept < _KEPT_BLOCKS or self.leaves.nodes < (1 + _KEPT_SHARE) * self._kept:
            return
        self.keep()
        self._unkept, self._kept = 0, self.leaves.nodes

    def bounded(self, cells: Cells, known: Interval, wanted: Mask) -> tuple[Bounded, Index]:
        """What is proved of some cells, and where each is to be split."""
        with self.budget.measured(len(cells) * self._operations(), THIN):
            found = bounded(self.asked, cells, known, wanted, self._worth)
            return found, choices(self.asked, cells, found)

    def proved(self, cells: Cells, known: Interval, wanted: Mask) -> Bounded:
        """What is proved of some cells of which it is known where they are split."""
        with self.budget.measured(len(cells) * self._operations(), THIN):
            return bounded(self.asked, cells, known, wanted)

    def missing(self, entries: Interval) -> Array:
        """How far entries of cells are from good enough."""
        return np.maximum(*self.goal.missing(entries, self.leaves.hull, self.values))

    def _worth(self, _: Index, score: Index, entries: Interval) -> Array:
        """The ends that are missing most, by their sign, in the unit of the entry's scale."""
        seen, scale = self.values, scales(self.values)[score]
        if self.goal.gap is None:
            above, below = entries.hi, -entries.lo
            above, below = np.where(seen.hi[score] > 0, 0.0, above), np.where(seen.lo[score] < 0, 0.0, below)
        else:
            above, below = entries.hi - seen.hi[score], seen.lo[score] - entries.lo
        above, below = (np.nan_to_num(np.maximum(x, 0.0) / scale, posinf=1e9, nan=1e9) for x in (above, below))
        return np.where(above >= below, above, -below) / scale

    def _try(self, cells: Cells) -> None:
        """Points of every cell: what is seen there may be all that it has."""
        count, n = cells.lo.shape
        shares = 0.97 * self._rng.uniform(-1.0, 1.0, size=(_TRIED, n))
        shares[0] = 0.0
        shares[1 : 1 + _TRIED // 2] = np.sign(shares[1 : 1 + _TRIED // 2]) * 0.97
        middle, half = cells.lo / 2 + cells.hi / 2, cells.hi / 2 - cells.lo / 2
        points = middle[:, None, :] + half[:, None, :] * shares
        self.seen.offer(np.clip(points, cells.lo[:, None, :], cells.hi[:, None, :]).reshape(-1, n))
        net = self.asked.network
        self.budget.charge(count * _TRIED * 4.0 * net.entries * (1 + len(self.asked.scores)), THIN)

    def _operations(self) -> float:
        """About the operations for one cell: forms of open neurons down to the input, and up to every score."""
        net, below, total = self.asked.network, 0.0, 0.0
        for block in net.hidden:
            below += block.entries
            total += 2.0 * block.width * below
        return total * (1 + len(self.asked.scores)) / 4 + 4.0 * below * sum(self.asked.shape) + _CALLS

    def _size(self) -> int:
        """Cells to be split together."""
        pace = self.budget.meter.pace(THIN)
        each = 2 * self._operations() / RATES[THIN] * max(pace, 1e-9)
        return int(np.clip(_SECONDS / each, 1, min(_BLOCK, self.asked.batch // 2 + 1)))

    def report(self) -> None:
        """Tell who wants to know how far this is."""
        if self.on_progress is not None:
            good, seconds = self._good(), time.monotonic() - self._start
            self.on_progress(JacobianProgress(seconds, good.size, int(good.sum()), self.cells, len(self.leaves)))
