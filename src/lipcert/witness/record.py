"""The best witness so far: every candidate is recomputed in float64, and moved off the kinks if it sits on one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN
from lipcert.witness.chart import Chart
from lipcert.witness.directions import steepness
from lipcert.witness.witness import Witness, evaluate

CHEAP_NETWORK = 20_000  # weights up to which climbs and walks are more patient
TRIED = 4  # points of a batch that are recomputed in double precision

OnWitness = Callable[[Witness], None]

_NUDGES = np.repeat(10.0 ** np.arange(-8, -1), 3)  # in chart coordinates, smallest first
_BESIDE = 10.0 ** np.arange(-6, 0)  # in chart coordinates: how far from the middle neurons leave their kinks
_PROVED = 0.95  # of the norm in plain floating point: the middle is seen well enough
_EVALUATION = (20, 15)  # operations on every weight, and statements for every block, of one `evaluate`


class Record:
    """The mutable side of a search: problem, budget, random numbers and the best witness."""

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
        """Some neuron is on its kink: look at points nearby until one has the value that the screen promised."""
        length = self.chart.scale * self.chart.reach(self.chart.coordinates(point)[None, :])[0]
        for size in _NUDGES:
            shift = size * length * self.rng.uniform(-1.0, 1.0, point.size)
            near = self.chart.region.project(point + shift)
            if self.consider(near, method) >= estimate * (1 - 1e-4) or self.budget.over():
                return
