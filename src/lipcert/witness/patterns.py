"""Search among activation patterns, then for points that have them.

*One hidden layer* of ReLU or leaky ReLU (`hunt`). With w = c A_2 and slopes s = a + (1 - a) u, u in {0, 1}, the
gradient is g = (w * s) A. Alternate t = direction of g and the best u for t, from many starts at once, until nothing
changes; disturb the best patterns and settle again. Points with such patterns are found by projections, then by linear
programs.

*Any depth* (`walk`): from linear piece to linear piece, best first. A linear piece is a pattern with a point that has
it; the gradient is constant there. Patterns that differ from the best piece in one or two neurons are valued at once,
by the chain rule. Points are chased from the best piece towards the most promising patterns, and every piece where a
chase ends is new. Patterns that promise to improve on the record but were not reached are asked for a point by linear
programs, least violation first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.maps import times
from lipcert.problem.network import Network
from lipcert.relaxation.model import Index
from lipcert.witness.chart import Batch
from lipcert.witness.moments import Candidates
from lipcert.witness.program import ChaseResult, PatternProgram, Patterns, chase, row_lengths
from lipcert.witness.record import WitnessSearch
from lipcert.witness.screen import Screen, direction

# Counts and patience were chosen on the networks that `witness/search.py` names.
REALISING_SHARE = 0.3  # share of the remaining budget for linear programs: one on 784 inputs may take seconds
HUNT_STARTS = 512  # random patterns
HUNT_POPULATION = 64  # patterns that are disturbed
HUNT_PATIENCE = 15  # disturbances without improvement after which the hunt ends
SETTLING = 60  # alternations at most
HUNT_CHASED = 32  # patterns of the hunt that points are chased to
PURSUED = 256  # patterns of a moment matrix that points are chased to
CHASE_STEPS = 200  # steps of a chase
REALISED = 40  # linear programs at most
REALISED_ENTRIES = 400_000  # entries of all these linear programs together; one program is always tried


def patterns_apply(net: Network) -> bool:
    return net.is_chain and net.depth == 1 and net.activations[0].kinked


def hunt(
    record: WitnessSearch, screen: Screen, program: PatternProgram, starts: Batch, budget: Budget
) -> tuple[Patterns, Batch]:
    """The best patterns found, best first, and points near them in chart coordinates, already offered to the record."""
    family = AllowedPatterns(screen, program.free, program.fixed)
    drawn = record.chart.draw(record.rng, min(64, screen.chunk), screen.dtype)
    z = np.concatenate([screen.forward(v)[0] for v in (starts, drawn)])
    patterns = _best_patterns(record, family, z > 0, budget)
    chosen = patterns[:HUNT_CHASED]
    middle = np.zeros((len(chosen), screen.scale.size), dtype=screen.dtype)
    lengths = row_lengths(program, patterns[0], budget)
    caught = chase(screen, program, middle, chosen, lengths, CHASE_STEPS, budget)
    record.offer(record.chart.points(caught.points), caught.values, "patterns")
    return patterns, caught.points[np.argsort(-caught.values, kind="stable")]


def pursue(record: WitnessSearch, screen: Screen, program: PatternProgram, found: Candidates, budget: Budget) -> Batch:
    """Points for the candidates of a moment matrix, best first: the points themselves, and points with the patterns."""
    own = found.points[: screen.chunk].astype(screen.dtype)
    zs = screen.forward(own)
    signs = np.where(program.free, np.concatenate(zs, axis=1) > 0, program.fixed)
    u, v = np.where(program.free & found.known, found.patterns[: len(own)], signs), own
    if patterns_apply(record.problem.network):
        u = np.concatenate([u, AllowedPatterns(screen, program.free, program.fixed).settle(u, budget)[0]])
        v = np.concatenate([v, v])
    promised = screen.values(u, budget)
    order = np.argsort(-promised, kind="stable")[: int(np.clip(screen.chunk // 4, 1, PURSUED))]
    lengths = row_lengths(program, u[order[0]], budget)
    caught = chase(screen, program, v[order], u[order], lengths, CHASE_STEPS, budget)
    points = np.concatenate([caught.points, own])
    norms = np.concatenate([caught.values, screen.norms(zs)])
    record.offer(record.chart.points(points), norms, "moments")
    realise(record, program, u[order], record.budget.share(REALISING_SHARE), "moments")
    return points[np.argsort(-norms, kind="stable")]


def realise(record: WitnessSearch, program: PatternProgram, patterns: Patterns, budget: Budget, method: str) -> None:
    """Linear programs for patterns, best first, while they would improve on the record."""
    problem = record.problem
    entries = max(int(program.needed.sum()) * problem.network.inputs, 1)
    for u in patterns[: int(np.clip(REALISED_ENTRIES // entries, 1, REALISED))]:
        value = problem.norm.dual.of(problem.network.chain_rule(program.slopes(u[None, :]), problem.c))
        if value[0] <= record.best.value * (1 + 1e-6) or budget.over():
            return
        answer = program.solve(u, budget)
        if answer is not None and answer[1] > 0:
            record.offer(record.chart.points(answer[0][None, :]), value, method)


@dataclass(frozen=True, eq=False)
class AllowedPatterns:
    """The patterns that bounds of the hidden layer allow: `free` neurons have either sign, others that of `fixed`."""

    screen: Screen
    free: Patterns
    fixed: Patterns

    def gradients(self, u: Patterns) -> Batch:
        a = self.screen.activations[0].alpha
        g = self.screen.chain_rule([(a + (1 - a) * u).astype(self.screen.dtype)])[0]
        assert g is not None
        return g

    def settle(self, u: Patterns, budget: Budget) -> tuple[Patterns, Batch]:
        """Patterns and norms after alternating until nothing changes or the budget is over; no step lowers a norm."""
        screen, weight = self.screen, self.screen.terms[0][0][1]
        sign = 1.0 if screen.activations[0].alpha < 1 else -1.0
        u = np.where(self.free, u, self.fixed)
        for _ in range(SETTLING):
            t = direction(screen.dual, self.gradients(u))
            screen.charge(len(u))
            chosen = np.where(self.free, times(weight, t) * screen.last[1] * sign > 0, self.fixed)
            if np.array_equal(chosen, u):
                break
            u = chosen
            if budget.over():
                break
        return u, screen.dual.of(self.gradients(u))


def _best_patterns(record: WitnessSearch, family: AllowedPatterns, known: Patterns, budget: Budget) -> Patterns:
    """Distinct patterns, best first: settled from random and known ones, then disturbed and settled again."""
    rng = record.rng
    width = family.free.size
    starts = int(np.clip(family.screen.chunk, 8, HUNT_STARTS))
    random = rng.random((starts, width)) < rng.random((starts, 1))
    u, values = family.settle(np.concatenate([known, random]), budget)
    order = np.argsort(-values, kind="stable")[:HUNT_POPULATION]
    u, values = u[order], values[order]
    stale = 0
    while stale < HUNT_PATIENCE and not budget.over():
        before = values.max()
        rate = 1.0 / width + rng.uniform(0.0, 0.2, (len(u), 1))
        moved, reached = family.settle(u ^ (rng.random(u.shape) < rate), budget)
        better = reached > values
        u, values = np.where(better[:, None], moved, u), np.where(better, reached, values)
        stale = 0 if values.max() > before * (1 + 1e-6) else stale + 1
    order = np.argsort(-values, kind="stable")
    distinct = {u[k].tobytes(): k for k in order[::-1]}
    return u[[k for k in order if distinct[u[k].tobytes()] == k]]


# Chosen on the networks that `witness/search.py` names. An expansion values the neighbours of one pattern.
WALK_CHASED = 256  # neighbours that points are chased to in one expansion, fewer where a pass is expensive
WALK_STEPS = 60  # steps of that chase
WALK_NEIGHBOURS = 4096  # patterns that are valued in one expansion
WALK_NEIGHBOUR_ENTRIES = 8_000_000  # entries of all these patterns and their gradients together
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
class _OpenPieces:
    """Linear pieces that are not expanded yet, by pattern, and the patterns that were seen or tried."""

    screen: Screen
    program: PatternProgram
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


def walk(record: WitnessSearch, screen: Screen, program: PatternProgram, starts: Batch, budget: Budget) -> None:
    """Expand piece after piece, from the best witness and `starts`, until nothing improves or the budget is over."""
    if not program.fits(budget):
        return
    pool = _OpenPieces(screen, program)
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


def _expand(
    record: WitnessSearch, pool: _OpenPieces, piece: _Piece, budget: Budget
) -> tuple[ChaseResult, Patterns, Batch]:
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


def _realise(
    record: WitnessSearch, pool: _OpenPieces, caught: ChaseResult, patterns: Patterns, values: Batch, budget: Budget
) -> None:
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


def _neighbours(record: WitnessSearch, pool: _OpenPieces, u: Patterns, budget: Budget) -> tuple[Patterns, Batch]:
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
