"""Smoothed ascent inside the region: any network, any activation.

Every row of a batch follows the sign of the derivative of the smoothed gradient norm while the sigmoids sharpen; the
true gradient norm is evaluated on the way, and every row keeps its best point. Rounds of such runs start from random
points and from disturbed copies of the best points so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.network import Network
from lipcert.witness.chart import Batch
from lipcert.witness.record import WitnessSearch
from lipcert.witness.screen import Screen

# Chosen on the networks that `witness/search.py` names.
CLIMB_ROWS = 64  # points that climb together
CLIMB_STEPS = (100, 400, 800)  # steps of the first, the second and all later rounds
CLIMB_PATIENCE = 1  # long rounds without improvement after which a climb ends; twice as many on cheap networks

_PASSES = 4.0  # operations for every weight and point in one step, up and down
_LAST_SHARPNESS = 20.0  # in units of 1 / (typical |z| of the neuron)
_LAST_STEP = 0.02


@dataclass(frozen=True, eq=False)
class Schedule:
    """Sharpness and step with which every row begins (columns). Both run geometrically to their common ends."""

    sharpness: Batch
    step: Batch

    def at(self, progress: float) -> tuple[Batch, Batch]:
        k, step = self.sharpness, self.step
        return k * (_LAST_SHARPNESS / k) ** progress, step * (_LAST_STEP / step) ** progress


def climb(record: WitnessSearch, screen: Screen, starts: Batch, budget: Budget) -> Batch:
    """Rounds of smoothed ascent from `starts` and random points until nothing improves or the budget is over.

    Returns the best points found, in chart coordinates, best first.
    """
    elite, values = starts, np.zeros(len(starts), dtype=screen.dtype)
    rows = int(np.clip(screen.chunk // 2, 2, CLIMB_ROWS))
    units = widths(screen, record.chart.draw(record.rng, 2 * rows, screen.dtype), rows)
    patience = CLIMB_PATIENCE * (2 if record.cheap else 1)
    turn = stale = 0
    while stale < patience and not budget.over():
        before = record.best.value
        steps = CLIMB_STEPS[min(turn, len(CLIMB_STEPS) - 1)]
        v, schedule = _begin(record, screen, elite, rows, turn)
        found, norms = ascend(screen, v, units, schedule, steps, budget)
        record.offer(record.chart.points(found), norms, "ascent")
        elite, values = np.concatenate([elite, found]), np.concatenate([values, norms])
        order = np.argsort(-values, kind="stable")[: rows // 2]
        elite, values = elite[order], values[order]
        turn += 1
        if turn >= len(CLIMB_STEPS):
            stale = 0 if record.best.value > before * (1 + 1e-6) else stale + 1
    return elite


def ascent_operations(net: Network) -> float:
    """The operations of the first ascent of a climb, of all its points."""
    return _PASSES * CLIMB_STEPS[0] * CLIMB_ROWS * float(net.entries)


def widths(screen: Screen, v: Batch, rows: int) -> list[Batch]:
    """The units of the sigmoids' widths, (rows, neurons), from the pre-activations of a batch v.

    Mean |z| in even rows, which keeps neurons soft that hardly ever change sign in the region; the deviation of z in
    odd rows, which hardens them.
    """
    odd = np.arange(rows)[:, None] % 2 == 1
    units: list[Batch] = []
    for z in screen.forward(v):
        size, spread = np.abs(z).mean(axis=0), z.std(axis=0)
        size = np.where((size > 0) & np.isfinite(size), size, 1)
        spread = np.where(np.isfinite(spread), np.maximum(spread, 1e-3 * size), 1)
        units.append(np.where(odd, spread, size).astype(screen.dtype))
    return units


def ascend(
    screen: Screen, v: Batch, units: list[Batch], schedule: Schedule, steps: int, budget: Budget
) -> tuple[Batch, Batch]:
    """One run from the rows of v: the best point of every row, and the true gradient norms there."""
    best, values = v.copy(), np.zeros(len(v), dtype=screen.dtype)
    reach = screen.chart.reach(v)
    for i in range(steps):
        zs = screen.forward(v)
        norms = screen.norms(zs)
        better = norms > values
        best[better], values[better] = v[better], norms[better]
        if budget.over():
            break
        k, step = schedule.at(i / max(steps - 1, 1))
        _, d = screen.smoothed(zs, [k / unit for unit in units])
        v = screen.chart.confine(v + step * reach * screen.chart.uphill(d))
    return best, values


def _begin(record: WitnessSearch, screen: Screen, elite: Batch, rows: int, turn: int) -> tuple[Batch, Schedule]:
    """Random rows begin smooth with long steps; elite rows, disturbed after the first turn, sharper with short ones."""
    rng, dtype = record.rng, screen.dtype
    v = record.chart.draw(rng, rows, dtype)
    kept = min(len(elite), rows // 2)
    size = rng.uniform(0.0, 0.3, (kept, 1)) * record.chart.reach(elite[:kept]) * (turn > 0)
    v[:kept] = elite[:kept] + size * rng.standard_normal((kept, v.shape[1]))
    copied = np.arange(rows)[:, None] < kept
    sharpness = np.exp(rng.uniform(np.log(0.2), np.log(0.6), (rows, 1))) * np.where(copied, 4.0, 1.0)
    step = np.exp(rng.uniform(np.log(0.2), np.log(0.6), (rows, 1))) * np.where(copied, 0.3, 1.0)
    return record.chart.confine(v), Schedule(sharpness.astype(dtype), step.astype(dtype))
