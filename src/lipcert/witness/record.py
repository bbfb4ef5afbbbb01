"""The best witness so far, and random sampling (LBS [CLMP20]), the first search that offers it points.

Every candidate is recomputed in float64, and moved off the kinks if a neuron sits on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN
from lipcert.witness.chart import Batch, Chart
from lipcert.witness.directions import steepness
from lipcert.witness.screen import Screen
from lipcert.witness.witness import Witness, evaluate

CHEAP_NETWORK = 20_000  # weights up to which climbs and walks are more patient
TRIED = 4  # points of a batch that are recomputed in double precision

OnWitness = Callable[[Witness], None]

_NUDGES = np.repeat(10.0 ** np.arange(-8, -1), 3)  # in chart coordinates, smallest first
_BESIDE = 10.0 ** np.arange(-6, 0)  # in chart coordinates: how far from the middle neurons leave their kinks
_PROVED = 0.95  # share of the norm in plain floating point; where so much is proved the middle is good enough
_EVALUATION = (20, 15)  # operations on every weight, and statements for every block, of one `evaluate`


class WitnessSearch:
    """The state of a search: problem, budget, random numbers and the best witness so far."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        *,
        rng: np.random.Generator,
        on_witness: OnWitness | None = None,
        known: Witness | None = None,
    ) -> None:
        self.problem, self.budget, self.rng, self.on_witness = problem, budget, rng, on_witness
        self.chart = Chart.of(problem)
        middle = self.chart.points(np.zeros(problem.network.inputs))
        self.best = Witness(middle, -1.0, "none") if known is None else known

    @property
    def cheap(self) -> bool:
        """Whether the network is small enough for more patience."""
        return self.problem.network.entries <= CHEAP_NETWORK

    def begin(self) -> None:
        """The middle of the region, or a point beside it where neurons of the middle sit on their kinks."""
        middle = self.best.point
        if self._seen(middle, "center"):
            return
        for size in _BESIDE:
            shift = size * self.chart.scale * self.rng.uniform(-1.0, 1.0, middle.size)
            if not shift.any() or self._seen(self.chart.region.project(middle + shift), "beside the center"):
                return

    def _seen(self, point: Array, method: str) -> bool:
        """Whether nearly all of the norm at a point is proved, or the budget is over."""
        value = self.consider(point, method)
        if self.budget.over():
            return True
        net = self.problem.network
        self.budget.charge(2 * len(self.problem.c) * net.entries, THIN)
        with np.errstate(all="ignore"):
            formal = float(np.max(steepness(self.problem, point[None, :])))
        return not value < _PROVED * formal

    def offer(self, points: Array, estimates: Array, method: str) -> None:
        """Recompute the most promising rows of `points` (inside the region) and keep the best."""
        for row in np.argsort(-estimates, kind="stable")[:TRIED]:
            if estimates[row] <= self.best.value * (1 + 1e-12):
                return
            value = self.consider(points[row], method)
            if self.budget.over():
                return
            if value < estimates[row] * (1 - 1e-4):
                self._nudge(points[row], float(estimates[row]), method)

    def consider(self, point: Array, method: str) -> float:
        """The value of a point; it becomes the best witness where it is larger, and the point inside the region."""
        net = self.problem.network
        passes = 1 + net.outputs if self.problem.whole_map else 1
        self.budget.charge(passes * _EVALUATION[0] * net.entries, THIN)
        self.budget.charge(passes * _EVALUATION[1] * len(net.blocks), SCALAR)
        value = evaluate(self.problem, point, self.budget)
        if value > self.best.value and self.chart.region.contains(point):
            self.best = Witness(point, value, method)
            if self.on_witness is not None:
                self.on_witness(self.best)
        return value

    def _nudge(self, point: Array, estimate: float, method: str) -> None:
        """Move a point off the kink of a neuron: try points nearby until one has the screen's estimate."""
        length = self.chart.scale * self.chart.reach(self.chart.coordinates(point)[None, :])[0]
        for size in _NUDGES:
            shift = size * length * self.rng.uniform(-1.0, 1.0, point.size)
            near = self.chart.region.project(point + shift)
            if self.consider(near, method) >= estimate * (1 - 1e-4) or self.budget.over():
                return


ELITE = 16  # sampled points that a search starts from

_ROWS = 4096  # given points that are valued together


def sampling(
    problem: Problem, budget: Budget, *, seed: int = 0, samples: int = 50_000, on_witness: OnWitness | None = None
) -> Witness:
    """The best of `samples` random points, found in single precision and recomputed in double precision.

    Points are uniform in a box or ball. Everywhere, they are normal around zero at lengths of 1, 10, 100 and 1000
    times the median distance of the origin from the first block's kinks, in equal shares. Stops early when the budget
    is over. One output only.
    """
    record = WitnessSearch(problem, budget, rng=np.random.default_rng(seed), on_witness=on_witness)
    record.begin()
    sample(record, Screen(problem, budget), samples, budget)
    return record.best


def sample_points(problem: Problem, points: Array | Iterable[Array], *, on_witness: OnWitness | None = None) -> Witness:
    """The best of the given points: an array (points, inputs) or an iterable of such chunks, all in double precision.

    A point outside the region is refused. One output only.
    """
    record = WitnessSearch(problem, Budget.unlimited(), rng=np.random.default_rng(0), on_witness=on_witness)
    for chunk in [points] if isinstance(points, np.ndarray) else points:
        rows = np.atleast_2d(chunk)
        if not problem.region.contains(rows):
            raise InputError("sample_points: a point lies outside the region")
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            with np.errstate(all="ignore"):
                gradients = problem.network.gradient(some, problem.c)
                norms = np.broadcast_to(problem.norm.dual.of(gradients), len(some))
            record.offer(some, np.where(np.isfinite(norms), norms, 0.0), "given points")
    if record.best.value < 0:
        raise InputError("sample_points: no point was given")
    return record.best


def sample(record: WitnessSearch, screen: Screen, samples: int, budget: Budget) -> Batch:
    """Offer the best of `samples` points to the record; the ELITE best ones in chart coordinates, best first."""
    elite = np.zeros((1, screen.scale.size), dtype=screen.dtype)
    values = np.zeros(1, dtype=screen.dtype)
    done = 0
    while done < samples and not budget.over():
        v = record.chart.draw(record.rng, min(screen.chunk, samples - done), screen.dtype)
        done += len(v)
        with np.errstate(all="ignore"):
            norms = np.broadcast_to(screen.norms(screen.forward(v)), len(v))
        top = np.argpartition(-norms, min(ELITE, len(v)) - 1)[:ELITE]
        elite, values = np.concatenate([elite, v[top]]), np.concatenate([values, norms[top]])
        order = np.argsort(-values, kind="stable")[:ELITE]
        elite, values = elite[order], values[order]
    record.offer(record.chart.points(elite), values, "sampling")
    return elite
