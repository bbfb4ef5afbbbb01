"""The search for the entries of the Jacobian: cells on which entries are not good enough are split, the worst first.

After every block of cells the enclosures on the whole region are proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.linear import LinearBounds
from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.cells import Cells, Index, kinked
from lipcert.proof.certificate import Mask
from lipcert.proof.jacobian import Bounded, EntryQuestion, JacobianCertificate, bounded
from lipcert.proof.tree import MOST_SIGNED_NODES
from lipcert.rounding import Array
from lipcert.search.jacobian.goal import EntryGoal, scales
from lipcert.search.jacobian.leaves import EntryLeaves
from lipcert.search.jacobian.points import ValuesAtPoints
from lipcert.search.jacobian.resume import prove_again
from lipcert.search.loop import LeafSearch
from lipcert.search.scores import BOXES_UP_TO, NEVER, best_coordinates, coordinate_scores, neuron_scores
from lipcert.steps import RATES, THIN
from lipcert.witness.chart import Chart

_BLOCK = 64  # cells that are split together at most (cartpole in 5.1 s; with 256 in 6.8 s: what is seen comes later),
_SECONDS = 0.5  # and that take about so long
_CALLS = 1e5  # operations for one cell besides its products
_DRAWN, _DRAWN_SECONDS = 4096, 1.0  # points of the region at first: so many, or as many as that takes
_TRIED = 8  # points in every cell
_ROUNDING = 1e-12  # relative to the largest entry by linear bounds: cancelling terms leave about this much
_KEPT_BLOCKS, _KEPT_SHARE = 16, 1 / 64  # the state is written after so many blocks, and so much growth of the tree
_NUMBERS = 1 << 24  # in the enclosures of all open cells together
_SCORES = 1 << 22  # in one array of how neurons depend on inputs
_SIGNS_UP_TO = 8  # open signs: so few are split instead of the box (cartpole in 16 s instead of 25)


@dataclass(frozen=True)
class JacobianProgress:
    """How far `jacobian` is: of so many entries these are good enough, with so many cells, so many of them open."""

    seconds: float
    entries: int
    good: int
    cells: int
    open: int


class JacobianSearch(LeafSearch[EntryLeaves]):
    """Blocks of cells are split until all entries are good enough. The region is bounded first, however long it takes,
    and so are the cells of an earlier run (`before`)."""

    def __init__(
        self, question: EntryQuestion, goal: EntryGoal, most: int, before: JacobianCertificate | None = None
    ) -> None:
        super().__init__(EntryLeaves(question), most)
        self.question, self.goal, self.before = question, goal, before
        self.seen = ValuesAtPoints(question)
        self.on_progress: Callable[[JacobianProgress], None] | None = None
        self.keep: Callable[[], None] | None = None  # writes the state into a folder
        self.ready, self.resumed = False, 0  # whether all cells of the earlier run are proved again, and their number
        self._blocks, self._kept = 0, 1  # blocks since the state was written, and the nodes that it had
        self._rng = np.random.default_rng(0)

    def run(self, budget: Budget) -> None:
        self.budget = budget
        self._bound_region()
        self.ready = self.before is None
        super().run(budget)

    def begin(self) -> None:
        """Prove the cells of the earlier run again."""
        self.report()
        if self.before is not None:
            prove_again(self, self.before)
            self.resumed = self.cells
        self.ready, self._kept = True, len(self.leaves.tree)

    def over(self) -> bool:
        return not self.good().all() and super().over()

    @property
    def cells(self) -> int:
        """How many cells the region is split into."""
        return self.leaves.tree.leaves

    @property
    def values(self) -> Interval:
        """The least and the largest value of every entry at points."""
        return Interval(self.seen.least, self.seen.most)

    def good(self) -> Mask:
        """Which entries are good enough on the region."""
        return self.goal.reached(self.leaves.hull, self.values)

    def badness(self, leaves: EntryLeaves) -> Array:
        """How far the worst entry of every cell is from good enough; cells without such an entry are put away."""
        worst = self.missing(leaves.entries).max(axis=(1, 2), initial=0.0)
        leaves.put_away(worst == 0)
        return np.asarray(worst[worst > 0])

    def room(self, leaves: EntryLeaves) -> int:
        full = 2 * len(leaves) * leaves.away.lo.size > _NUMBERS
        return 0 if full else min(self.most, MOST_SIGNED_NODES // 2) - leaves.tree.leaves

    def split(self, leaves: EntryLeaves, rows: Index) -> None:
        both, known = leaves.halves(rows), leaves.entries.rows(np.repeat(rows, 2))
        found, choice = self.bounded(both, known, self.missing(known) > 0)
        if isinstance(self.question.region, Box):
            self._try(both)
        leaves.divide(rows, Cells(both.lo, both.hi, found.signs), found.entries, choice)
        self.leaves = leaves
        self._keep()

    def _bound_region(self) -> None:
        """Points of the region, and its bounds; what rounding leaves of them is no reason to split."""
        net, root = self.question.network, self.question.root()
        each = 4.0 * net.entries * (1 + len(self.question.scores))
        drawn = int(np.clip(_DRAWN_SECONDS * RATES[THIN] / max(each, 1.0), 16, _DRAWN))
        self.budget.charge(drawn * each, THIN)
        chart = Chart.of(Problem.of(net, self.question.region, output="all"))
        middle = chart.points(np.zeros((1, net.inputs)))
        self.seen.offer(np.concatenate([middle, chart.points(chart.draw(self._rng, drawn, np.float64))]))
        if self.before is not None:
            self.seen.again(self.before.points)
        found, choice = self.bounded(root, self.question.anything(1), np.ones((1, *self.question.shape), dtype=bool))
        self.leaves.begin(found, choice)
        size = self.leaves.hull.magnitude
        self.goal = replace(self.goal, floor=_ROUNDING * float(size[np.isfinite(size)].max(initial=0.0)))

    def _keep(self) -> None:
        """Have the state written, after so many blocks and once the tree has grown by some share of itself."""
        nodes = len(self.leaves.tree)
        self._blocks += 1
        if self.keep is None or self._blocks < _KEPT_BLOCKS or nodes < (1 + _KEPT_SHARE) * self._kept:
            return
        self.keep()
        self._blocks, self._kept = 0, nodes

    def bounded(self, cells: Cells, known: Interval, wanted: Mask) -> tuple[Bounded, Index]:
        """The bounds of some cells, and where each is to be split."""
        with self.budget.measured(len(cells) * self._operations(), THIN):
            found = bounded(self.question, cells, known, wanted, self._worth)
            return found, choices(self.question, cells, found)

    def proved(self, cells: Cells, known: Interval, wanted: Mask) -> Bounded:
        """The bounds of some cells whose splits are known already."""
        with self.budget.measured(len(cells) * self._operations(), THIN):
            return bounded(self.question, cells, known, wanted)

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
        net = self.question.network
        self.budget.charge(count * _TRIED * 4.0 * net.entries * (1 + len(self.question.scores)), THIN)

    def _operations(self) -> float:
        """About the operations for one cell: forms of open neurons down to the input, and up to every score."""
        net, below, total = self.question.network, 0.0, 0.0
        for block in net.hidden:
            below += block.entries
            total += 2.0 * block.width * below
        return total * (1 + len(self.question.scores)) / 4 + 4.0 * below * sum(self.question.shape) + _CALLS

    def size(self, count: int) -> int:
        """The number of cells that take about half a second, at most a block."""
        pace = self.budget.meter.pace(THIN)
        each = 2 * self._operations() / RATES[THIN] * max(pace, 1e-9)
        return min(count, int(np.clip(_SECONDS / each, 1, min(_BLOCK, self.question.batch // 2 + 1))))

    def report(self) -> None:
        """Tell the listener how far the search is."""
        if self.on_progress is not None:
            good, seconds = self.good(), time.monotonic() - self.start
            self.on_progress(JacobianProgress(seconds, good.size, int(good.sum()), self.cells, len(self.leaves)))


def choices(question: EntryQuestion, cells: Cells, found: Bounded) -> Index:
    """For every cell the coordinate, or the number of inputs plus that of the neuron, or NEVER."""
    net = question.network
    slopes = slope_bounds(net, found.pre)
    count, n = len(cells), net.inputs
    by_input, by_neuron = np.zeros((count, n)), np.zeros((count, net.neurons))
    boxes = isinstance(question.region, Box)
    told = found.linear is not None and bool(found.linear.loss)
    scored = boxes and (n <= BOXES_UP_TO or not all(f.piecewise_linear for f in net.activations))
    step = max(1, _SCORES // (n * max(net.shape))) if scored else max(1, _SCORES // max(net.neurons, 1))
    for own in (slice(k, k + step) for k in range(0, len(found.place) if told else 0, step)):
        place, linear = found.place[own], _rows(found.linear, own)
        rows = tuple(s.rows(place) for s in slopes)
        with np.errstate(all="ignore"):
            gain = neuron_scores(net, rows, linear, tuple(z.rows(place) for z in found.pre))
            np.add.at(by_neuron, place, _finite(gain))
            if scored:
                gain = coordinate_scores(net, rows, linear, (cells.hi / 2 - cells.lo / 2)[place])
                np.add.at(by_input, place, _finite(gain))
    is_open = np.concatenate([s.lo < s.hi for s in slopes], axis=1) if slopes else np.zeros((count, 0), dtype=bool)
    # A box without open slopes has one gradient. What signs were split for may have no points, though.
    settled = ~is_open.any(axis=1) & ~np.any(np.abs(cells.signs) == 2, axis=1)
    coordinate = best_coordinates(cells.lo, cells.hi, by_input) if boxes else np.full(count, NEVER)
    coordinate = np.where(settled, NEVER, coordinate)
    if not found.signs.shape[1]:
        return coordinate
    is_open &= kinked(net) & (found.signs == 0)
    many = is_open.sum(axis=1)
    signs = (many > 0) & ((many <= _SIGNS_UP_TO) | (n > BOXES_UP_TO) | (coordinate == NEVER))
    if not signs.any():
        return coordinate
    return np.where(signs, n + np.where(is_open, by_neuron, -1.0).argmax(axis=1), coordinate)


def _rows(linear: LinearBounds | None, own: slice) -> LinearBounds:
    """The hints of some of the rows."""
    assert linear is not None
    return LinearBounds(
        linear.upper[own], tuple(g.rows(own) for g in linear.gradients), tuple(x[own] for x in linear.loss)
    )


def _finite(x: Array) -> Array:
    return np.nan_to_num(x, nan=0.0, posinf=1e300, neginf=0.0)
