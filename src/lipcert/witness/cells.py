"""Networks of ReLUs and leaky ReLUs: walk over the cells of constant gradient, best first.

A cell is a pattern with a point that has it. Patterns that differ from the best cell in one or two neurons are valued
at once, by the chain rule; the most promising are chased from its point, whatever cells the chase ends in are new
cells, and those that promised to improve on the record but were not caught are asked for a point by linear programs,
least violation first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from lipcert.relaxation.model import Index
from lipcert.witness.chase import Catch, chase, row_lengths
from lipcert.witness.patterns import values_of
from lipcert.witness.program import Patterns, Program
from lipcert.witness.record import Record
from lipcert.witness.screen import Batch, Screen

_CHASED = 256  # patterns of one expansion, fewer where a pass is expensive
_STEPS = 60
_NEIGHBOURS = 4096
_NEIGHBOUR_ENTRIES = 8_000_000
_PROGRAMS = 8  # of one expansion
_PROGRAM_SHARE = 0.5  # of the time spent here
_PATIENCE = 8  # expansions without improvement of the record; three times as many where they are cheap
_CHEAP = 20_000  # weights
_WORTH = 0.9  # of the record, for a cell or a pattern to be looked at


@dataclass(eq=False)
class _Pool:
    """Cells by pattern: those still to be expanded, and the patterns that were tried."""

    screen: Screen
    program: Program
    cells: dict[bytes, tuple[float, Patterns, Batch]] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    tried: set[bytes] = field(default_factory=set)

    def add(self, points: Batch, worth: float) -> None:
        """The cells of points whose gradient norm is at least `worth`."""
        zs = self.screen.forward(points.astype(self.screen.dtype))
        values = np.broadcast_to(self.screen.norms(zs), len(points))
        patterns = np.where(self.program.free, np.concatenate(zs, axis=1) > 0, self.program.fixed)
        for row in np.flatnonzero(values >= worth):
            key = np.packbits(patterns[row]).tobytes()
            if key not in self.seen:
                self.seen.add(key)
                self.cells[key] = (float(values[row]), patterns[row], points[row])

    def pop(self) -> tuple[float, Patterns, Batch] | None:
        if not self.cells:
            return None
        return self.cells.pop(max(self.cells, key=lambda key: self.cells[key][0]))

    def fresh(self, patterns: Patterns, most: int) -> Index:
        """The first rows that were not tried before, marked as tried."""
        rows = []
        for row, u in enumerate(patterns):
            if (key := np.packbits(u).tobytes()) not in self.tried:
                self.tried.add(key)
                rows.append(row)
                if len(rows) == most:
                    break
        return np.array(rows, dtype=np.int64)


def walk(record: Record, screen: Screen, program: Program, starts: Batch, seconds: float = np.inf) -> None:
    """Expand cell after cell, from the best witness and `starts`, until nothing improves or the time is over."""
    end = min(record.deadline, time.monotonic() + seconds)
    pool = _Pool(screen, program)
    best = record.chart.coordinates(record.best.point[None, :])
    pool.add(np.concatenate([best.astype(screen.dtype), starts]), 0.0)
    spent, begin, stale = 0.0, time.monotonic(), 0
    patience = _PATIENCE * (3 if sum(a.stored for a in record.net.affines) <= _CHEAP else 1)
    while stale < patience and time.monotonic() < end and (cell := pool.pop()) is not None:
        before = record.best.value
        caught, patterns, values = _expand(record, pool, cell, end)
        now = time.monotonic()
        if spent <= _PROGRAM_SHARE * (now - begin):
            _realise(record, pool, caught, patterns, values, end)
            spent += time.monotonic() - now
        stale = 0 if record.best.value > before * (1 + 1e-7) else stale + 1


def _expand(
    record: Record, pool: _Pool, cell: tuple[float, Patterns, Batch], end: float
) -> tuple[Catch, Patterns, Batch]:
    """Chase the best neighbours of a cell from its point; the cells where they end join the pool."""
    _, u, v = cell
    screen = pool.screen
    candidates, values = _neighbours(record, pool, u)
    worth = values >= _WORTH * record.best.value
    candidates, values = candidates[worth], values[worth]
    rows = pool.fresh(candidates, int(np.clip(screen.chunk // 4, 1, _CHASED)))
    patterns, values = candidates[rows], values[rows]
    starts = np.broadcast_to(v, (len(rows), v.size))
    lengths = row_lengths(pool.program, u)
    caught = chase(screen, pool.program, starts, patterns, lengths, _STEPS, end)
    if len(rows):
        record.offer(record.chart.points(caught.points), caught.values, "cells")
        pool.add(caught.points, _WORTH * record.best.value)
    return caught, patterns, values


def _realise(record: Record, pool: _Pool, caught: Catch, patterns: Patterns, values: Batch, end: float) -> None:
    """Linear programs for patterns that would improve on the record and were not caught, nearly caught ones first."""
    used = 0
    for row in np.argsort(caught.violation, kind="stable"):
        if used == _PROGRAMS or time.monotonic() > end:
            return
        missed = caught.values[row] < values[row] * (1 - 1e-4)
        if missed and values[row] > record.best.value * (1 + 1e-6):
            used += 1
            answer = pool.program.solve(patterns[row], end - time.monotonic())
            if answer is not None and answer[1] > 0:
                point = answer[0][None, :]
                record.offer(record.chart.points(point), values[row : row + 1], "cells")
                pool.add(point.astype(pool.screen.dtype), 0.0)


def _neighbours(record: Record, pool: _Pool, u: Patterns) -> tuple[Patterns, Batch]:
    """Patterns with one or two other free neurons, best first, and their gradient norms.

    Where pairs are too many: half of them from the neurons that are best alone, half at random.
    """
    free = np.flatnonzero(pool.program.needed)
    limit = int(np.clip(_NEIGHBOUR_ENTRIES // (u.size + record.net.inputs), 1, _NEIGHBOURS))
    singles = _flipped(u, free[:limit], free[:limit])
    alone = free[:limit][np.argsort(-values_of(pool.screen, singles), kind="stable")]
    top = alone[: max(2, int(np.sqrt(limit)))]
    first, second = np.triu_indices(top.size, 1)
    some = record.rng.choice(free, (limit // 2, 2))
    pairs = np.concatenate([np.stack([top[first], top[second]], axis=1), some])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    candidates = np.concatenate([singles, _flipped(u, pairs[:, 0], pairs[:, 1])])
    values = values_of(pool.screen, candidates)
    order = np.argsort(-values, kind="stable")
    return candidates[order], values[order]


def _flipped(u: Patterns, first: Index, second: Index) -> Patterns:
    flipped = np.zeros((first.size, u.size), dtype=bool)
    rows = np.arange(first.size)
    flipped[rows, first] = flipped[rows, second] = True
    return u ^ flipped
