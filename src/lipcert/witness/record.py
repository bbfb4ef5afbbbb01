"""The best witness so far: every candidate is recomputed in float64, and moved off the kinks if it sits on one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region, check_region
from lipcert.rounding import Array
from lipcert.witness.screen import Chart
from lipcert.witness.witness import Witness, evaluate

OnProgress = Callable[[Witness], None]

_TRIED = 4  # candidates of a batch that are recomputed
_NUDGES = np.repeat(10.0 ** np.arange(-8, -1), 3)  # in chart coordinates, smallest first


class Record:
    """The mutable side of a search: problem, clock, random numbers and the best witness."""

    def __init__(
        self,
        net: Network,
        region: Region,
        c: Array,
        norm: Norm,
        *,
        rng: np.random.Generator,
        seconds: float = np.inf,
        on_progress: OnProgress | None = None,
        center: bool = True,
        known: Witness | None = None,
    ) -> None:
        check_region(region, net.inputs)
        self.net, self.c, self.norm = net, np.asarray(c, dtype=np.float64), norm
        self.chart = Chart.of(net, region)
        self.rng = rng
        self.deadline = time.monotonic() + seconds
        self.on_progress = on_progress
        self.best = Witness(self.chart.points(np.zeros(net.inputs)), -1.0, "none")
        if known is not None:
            self.best = known
        elif center:
            self.offer(self.best.point[None, :], np.array([np.inf]), "center")

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.deadline - time.monotonic()

    def offer(self, points: Array, estimates: Array, method: str) -> None:
        """Recompute the most promising rows of `points` (inside the region) and keep the best."""
        for row in np.argsort(-estimates, kind="stable")[:_TRIED]:
            if estimates[row] <= self.best.value * (1 + 1e-12):
                return
            value = self._consider(points[row], method)
            if np.isfinite(estimates[row]) and value < estimates[row] * (1 - 1e-4):
                self._nudge(points[row], float(estimates[row]), method)

    def _nudge(self, point: Array, estimate: float, method: str) -> None:
        """Some neuron is on its kink: look at points nearby until one has the value that the screen promised."""
        length = self.chart.scale * self.chart.reach(self.chart.coordinates(point)[None, :])[0]
        for size in _NUDGES:
            shift = size * length * self.rng.uniform(-1.0, 1.0, point.size)
            if self._consider(self.chart.region.project(point + shift), method) >= estimate * (1 - 1e-4):
                return

    def _consider(self, point: Array, method: str) -> float:
        value = evaluate(self.net, point, self.c, self.norm)
        if value > self.best.value and self.chart.region.contains(point):
            self.best = Witness(point, value, method)
            if self.on_progress is not None:
                self.on_progress(self.best)
        return value
