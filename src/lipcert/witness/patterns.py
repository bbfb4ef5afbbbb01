"""One hidden layer of ReLU or leaky ReLU: search among activation patterns, then ask for points that have them.

With w = c A_2 and slopes s = a + (1 - a) u, u in {0, 1}, the gradient is g = (w * s) A. Alternate t = direction of g
and the best u for t, from many starts at once, until nothing changes; disturb the best patterns and settle again.
Points with such patterns are found by projections, then by linear programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.maps import times
from lipcert.problem.network import Network
from lipcert.witness.chart import Batch
from lipcert.witness.chase import chase, row_lengths
from lipcert.witness.moments import Candidates
from lipcert.witness.program import Patterns, Program
from lipcert.witness.record import Record
from lipcert.witness.screen import Screen, direction

# Counts and patience were chosen on the networks that `witness/search.py` names.
REALISING_SHARE = 0.3  # share of what is left for linear programs of patterns: one on 784 inputs may take seconds
HUNT_STARTS = 512  # random patterns
HUNT_POPULATION = 64  # patterns that are disturbed
HUNT_PATIENCE = 15  # disturbances without improvement after which the hunt ends
SETTLING = 60  # alternations at most
HUNT_CHASED = 32  # patterns of the hunt that points are chased to
PURSUED = 256  # patterns of a moment matrix that points are chased to
CHASE_STEPS = 200  # steps of a chase
REALISED = 40  # linear programs at most,
REALISED_ENTRIES = 400_000  # which have at most this many entries together; one is always tried


def applies(net: Network) -> bool:
    return net.is_chain and net.depth == 1 and net.activations[0].kinked


def hunt(record: Record, screen: Screen, program: Program, starts: Batch, budget: Budget) -> tuple[Patterns, Batch]:
    """The best patterns found, best first, and points near them in chart coordinates, already offered to the record."""
    family = Family(screen, program.free, program.fixed)
    drawn = record.chart.draw(record.rng, min(64, screen.chunk), screen.dtype)
    z = np.concatenate([screen.forward(v)[0] for v in (starts, drawn)])
    patterns = _best_patterns(record, family, z > 0, budget)
    chosen = patterns[:HUNT_CHASED]
    middle = np.zeros((len(chosen), screen.scale.size), dtype=screen.dtype)
    lengths = row_lengths(program, patterns[0], budget)
    caught = chase(screen, program, middle, chosen, lengths, CHASE_STEPS, budget)
    record.offer(record.chart.points(caught.points), caught.values, "patterns")
    return patterns, caught.points[np.argsort(-caught.values, kind="stable")]


def pursue(record: Record, screen: Screen, program: Program, found: Candidates, budget: Budget) -> Batch:
    """Points for the candidates of a moment matrix: as they are, chased to their patterns, asked for. Best first."""
    own = found.points[: screen.chunk].astype(screen.dtype)
    zs = screen.forward(own)
    signs = np.where(program.free, np.concatenate(zs, axis=1) > 0, program.fixed)
    u, v = np.where(program.free & found.known, found.patterns[: len(own)], signs), own
    if applies(record.problem.network):
        u = np.concatenate([u, Family(screen, program.free, program.fixed).settle(u, budget)[0]])
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


def realise(record: Record, program: Program, patterns: Patterns, budget: Budget, method: str) -> None:
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
class Family:
    """The patterns that bounds of the hidden layer allow: `free` neurons choose, the others are as in `fixed`."""

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


def _best_patterns(record: Record, family: Family, known: Patterns, budget: Budget) -> Patterns:
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
