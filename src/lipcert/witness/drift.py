"""A population of points that tries moves of every size and keeps what is no worse: any depth, any activation.

Half of the moves are random, along one coordinate, a few or all of them; half are differences of two other members,
which have the lengths and directions that still matter. With few inputs thin cells are found by trying, and nothing
else found them; with many inputs random moves change little, and the smoothed ascent does better.
"""

from __future__ import annotations

import time

import numpy as np

from lipcert.witness.record import Record
from lipcert.witness.screen import Batch, Screen

_MEMBERS = 64
_TRIES = 64  # of every member in a turn
_FEW_INPUTS = 64
_PATIENCE = 60  # turns without improvement
_RENEW = 40  # turns after which the worst quarter starts again
_SMALLEST = -3.0  # decades


def applies(record: Record) -> bool:
    return record.net.inputs <= _FEW_INPUTS


def drift(record: Record, screen: Screen, starts: Batch, seconds: float = np.inf) -> Batch:
    """Turns of moves until nothing improves or the time is over; the members, best first."""
    end = min(record.deadline, time.monotonic() + seconds)
    fresh = record.chart.draw(record.rng, _MEMBERS, screen.dtype)
    best = record.chart.coordinates(record.best.point[None, :]).astype(screen.dtype)
    v = np.concatenate([best, starts[: _MEMBERS // 2], fresh])[:_MEMBERS]
    values = _norms(screen, v)
    tries = int(np.clip(screen.chunk // _MEMBERS, 1, _TRIES))
    turn = stale = 0
    while stale < _PATIENCE and time.monotonic() < end:
        turn += 1
        moved = _moves(record, screen, v, tries)
        reached = _norms(screen, moved.reshape(-1, v.shape[1])).reshape(moved.shape[:2])
        chosen = reached.argmax(axis=1)
        rows = np.arange(len(v))
        better = reached[rows, chosen] >= values  # equal ones too: the same cell, another place
        v = np.where(better[:, None], moved[rows, chosen], v)
        values = np.where(better, reached[rows, chosen], values)
        before = record.best.value
        if values.max() > before * (1 + 1e-6):  # more than single precision adds by itself
            record.offer(record.chart.points(v), values, "drift")
        stale = 0 if record.best.value > before * (1 + 1e-6) else stale + 1
        if turn % _RENEW == 0:
            worst = np.argsort(values, kind="stable")[: _MEMBERS // 4]
            v[worst] = record.chart.draw(record.rng, len(worst), screen.dtype)
            values[worst] = _norms(screen, v[worst])
    return v[np.argsort(-values, kind="stable")]


def _norms(screen: Screen, v: Batch) -> Batch:
    return np.array(np.broadcast_to(screen.norms(screen.forward(v)), len(v)))


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
