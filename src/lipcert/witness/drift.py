"""A population of points that tries moves of every size and keeps what is no worse: any network, any activation.

Half of the moves are random, along one coordinate, a few or all of them; half are differences of two other members,
which have the lengths and directions that still matter. With few inputs thin linear pieces are found by trying, and
nothing else found them; with many inputs random moves change little, and the smoothed ascent does better.
"""

from __future__ import annotations

import numpy as np

from lipcert.budget import Budget
from lipcert.steps import THIN
from lipcert.witness.chart import Batch
from lipcert.witness.record import Record
from lipcert.witness.screen import Screen

# Chosen on the networks that `witness/search.py` names.
DRIFT_INPUTS = 64  # inputs at most: with more, random moves change little, and nothing was found on ERAN with 784
DRIFT_MEMBERS = 64  # points of the population
DRIFT_TRIES = 64  # moves of every member in a turn
DRIFT_PATIENCE = 60  # turns without improvement after which a drift ends
DRIFT_RENEWAL = 40  # turns after which the worst quarter of the population is drawn anew

_SMALLEST = -3.0  # decades
_MOVE = 120  # operations for every entry of a move


def applies(record: Record) -> bool:
    return record.problem.network.inputs <= DRIFT_INPUTS


def drift(record: Record, screen: Screen, starts: Batch, budget: Budget) -> Batch:
    """Turns of moves until nothing improves or the budget is over; the members, best first."""
    chart, members = record.chart, DRIFT_MEMBERS
    fresh = chart.draw(record.rng, members, screen.dtype)
    best = chart.coordinates(record.best.point[None, :]).astype(screen.dtype)
    v = np.concatenate([best, starts[: members // 2], fresh])[:members]
    values = screen.norms(screen.forward(v))
    tries = int(np.clip(screen.chunk // members, 1, DRIFT_TRIES))
    turn = stale = 0
    while stale < DRIFT_PATIENCE and not budget.over():
        turn += 1
        moved = _moves(record, screen, v, tries)
        budget.charge(_MOVE * moved.size, THIN)
        reached = screen.norms(screen.forward(moved.reshape(-1, v.shape[1]))).reshape(moved.shape[:2])
        chosen = reached.argmax(axis=1)
        rows = np.arange(len(v))
        better = reached[rows, chosen] >= values  # equal ones too: the same gradient, another place
        v = np.where(better[:, None], moved[rows, chosen], v)
        values = np.where(better, reached[rows, chosen], values)
        before = record.best.value
        if values.max() > before * (1 + 1e-6):  # more than single precision adds by itself
            record.offer(chart.points(v), values, "drift")
        stale = 0 if record.best.value > before * (1 + 1e-6) else stale + 1
        if turn % DRIFT_RENEWAL == 0:
            worst = np.argsort(values, kind="stable")[: members // 4]
            v[worst] = chart.draw(record.rng, len(worst), screen.dtype)
            values[worst] = screen.norms(screen.forward(v[worst]))
    return v[np.argsort(-values, kind="stable")]


def _moves(record: Record, screen: Screen, v: Batch, tries: int) -> Batch:
    """(members, tries, inputs)."""
    rng, (members, n) = record.rng, v.shape
    shape = (members, tries, 1)
    d = rng.standard_normal((members, tries, n), dtype=screen.dtype)
    d *= rng.random(d.shape, dtype=screen.dtype) < rng.choice([1.0 / n, 3.0 / n, 1.0], shape)
    pairs = rng.integers(members, size=(2, members, tries))
    d = np.where(rng.random(shape) < 0.5, d * screen.chart.reach(v)[:, None, :], v[pairs[0]] - v[pairs[1]])
    size = (10.0 ** rng.uniform(_SMALLEST, 0.3, shape)).astype(screen.dtype)
    moved = screen.chart.confine(v[:, None, :] + size * d)
    return np.asarray(moved, dtype=screen.dtype)
