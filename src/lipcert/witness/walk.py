"""Networks of ReLUs and leaky ReLUs: walk from linear piece to linear piece, best first.

A linear piece is a pattern with a point that has it; the gradient is constant there. Patterns that differ from the best
piece in one or two neurons are valued at once, by the chain rule; the most promising are chased from its point,
whatever pieces the chase ends in are new, and patterns that promised to improve on the record but were not caught are
asked for a point by linear programs, least violation first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lipcert.budget import Budget
from lipcert.relaxation.model import Index
from lipcert.witness.chart import Batch
from lipcert.witness.chase import Catch, chase, row_lengths
from lipcert.witness.program import Patterns, Program
from lipcert.witness.record import Record
from lipcert.witness.screen import Screen

# Chosen on the networks that `witness/search.py` names. An expansion values the neighbours of one pattern.
WALK_CHASED = 256  # neighbours that points are chased to in one expansion, fewer where a pass is expensive
WALK_STEPS = 60  # steps of that chase
WALK_NEIGHBOURS = 4096  # patterns that are valued in one expansion,
WALK_NEIGHBOUR_ENTRIES = 8_000_000  # which have at most this many entries together
WALK_PROGRAMS = 8  # linear programs of one expansion
WALK_PROGRAM_SHARE = 0.5  # share of a walk's effort for linear programs
WALK_PATIENCE = 8  # expansions without improvement after which a walk ends; three times as many on cheap networks
WALK_WORTH = 0.9  # share of the record that a pattern must promise to be looked at


@dataclass(frozen=True, eq=False)
class _Piece:
    value: float
    pattern: Patterns
    point: Batch


@dataclass(eq=False)
class _Pool:
    """Linear pieces still to be expanded, by pattern, and the patterns that were seen or tried."""

    screen: Screen
    program: Program
    pieces: dict[bytes, _Piece] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    tried: set[bytes] = field(default_factory=set)

    def add(self, points: Batch, worth: float) -> None:
        """The pieces of points whose gradient norm is at least `worth`."""
        zs = self.screen.forward(points.astype(self.screen.dtype))
        values = self.screen.norms(zs)
        patterns = np.where(self.program.free, np.concatenate(zs, axis=1) > 0, self.program.fixed)
        for row in np.flatnonzero(values >= worth):
            key = np.packbits(patterns[row]).tobytes()
            if key not in self.seen:
                self.seen.add(key)
                self.pieces[key] = _Piece(float(values[row]), patterns[row], points[row])

    def pop(self) -> _Piece | None:
        if not self.pieces:
            return None
        return self.pieces.pop(max(self.pieces, key=lambda key: self.pieces[key].value))

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


def walk(record: Record, screen: Screen, program: Program, starts: Batch, budget: Budget) -> None:
    """Expand piece after piece, from the best witness and `starts`, until nothing improves or the budget is over."""
    if not program.fits(budget):
        return
    pool = _Pool(screen, program)
    best = record.chart.coordinates(record.best.point[None, :])
    pool.add(np.concatenate([best.astype(screen.dtype), starts]), 0.0)
    begin, programs, stale = budget.effort(), 0.0, 0
    patience = WALK_PATIENCE * (3 if record.cheap else 1)
    while stale < patience and not budget.over() and (piece := pool.pop()) is not None:
        before = record.best.value
        caught, patterns, values = _expand(record, pool, piece, budget)
        now = budget.effort()
        if programs <= WALK_PROGRAM_SHARE * (now - begin):
            _realise(record, pool, caught, patterns, values, budget.share(WALK_PROGRAM_SHARE))
            programs += budget.effort() - now
        stale = 0 if record.best.value > before * (1 + 1e-7) else stale + 1


def _expand(record: Record, pool: _Pool, piece: _Piece, budget: Budget) -> tuple[Catch, Patterns, Batch]:
    """Chase the best neighbours of a piece from its point; the pieces where they end join the pool."""
    screen = pool.screen
    patterns, values = _neighbours(record, pool, piece.pattern, budget)
    worth = values >= WALK_WORTH * record.best.value
    patterns, values = patterns[worth], values[worth]
    rows = pool.fresh(patterns, int(np.clip(screen.chunk // 4, 1, WALK_CHASED)))
    patterns, values = patterns[rows], values[rows]
    starts = np.broadcast_to(piece.point, (len(rows), piece.point.size))
    lengths = row_lengths(pool.program, piece.pattern, budget)
    caught = chase(screen, pool.program, starts, patterns, lengths, WALK_STEPS, budget)
    if len(rows):
        record.offer(record.chart.points(caught.points), caught.values, "walk")
        pool.add(caught.points, WALK_WORTH * record.best.value)
    return caught, patterns, values


def _realise(record: Record, pool: _Pool, caught: Catch, patterns: Patterns, values: Batch, budget: Budget) -> None:
    """Linear programs for patterns that would improve on the record and were not caught, nearly caught ones first."""
    used = 0
    for row in np.argsort(caught.violation, kind="stable"):
        if used == WALK_PROGRAMS or budget.over():
            return
        missed = caught.values[row] < values[row] * (1 - 1e-4)
        if missed and values[row] > record.best.value * (1 + 1e-6):
            used += 1
            answer = pool.program.solve(patterns[row], budget)
            if answer is not None and answer[1] > 0:
                point = answer[0][None, :]
                record.offer(record.chart.points(point), values[row : row + 1], "walk")
                pool.add(point.astype(pool.screen.dtype), 0.0)


def _neighbours(record: Record, pool: _Pool, u: Patterns, budget: Budget) -> tuple[Patterns, Batch]:
    """Patterns with one or two other free neurons, best first, and their gradient norms.

    Where pairs are too many: half of them from the neurons that are best alone, half at random.
    """
    free = np.flatnonzero(pool.program.needed)
    entries = u.size + pool.screen.scale.size
    limit = int(np.clip(WALK_NEIGHBOUR_ENTRIES // entries, 1, WALK_NEIGHBOURS))
    singles = _flipped(u, free[:limit], free[:limit])
    alone = free[:limit][np.argsort(-pool.screen.values(singles, budget), kind="stable")]
    top = alone[: max(2, int(np.sqrt(limit)))]
    first, second = np.triu_indices(top.size, 1)
    some = record.rng.choice(free, (limit // 2, 2))
    pairs = np.concatenate([np.stack([top[first], top[second]], axis=1), some])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    candidates = np.concatenate([singles, _flipped(u, pairs[:, 0], pairs[:, 1])])
    values = pool.screen.values(candidates, budget)
    order = np.argsort(-values, kind="stable")
    return candidates[order], values[order]


def _flipped(u: Patterns, first: Index, second: Index) -> Patterns:
    flipped = np.zeros((first.size, u.size), dtype=bool)
    rows = np.arange(first.size)
    flipped[rows, first] = flipped[rows, second] = True
    return u ^ flipped
