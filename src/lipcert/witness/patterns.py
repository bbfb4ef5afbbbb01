"""One hidden layer of ReLU or leaky ReLU: search among activation patterns, then ask for points that have them.

With w = c A_2 and slopes s = a + (1 - a) u, u in {0, 1}, the gradient is g = (w * s) A. Alternate t = direction of g
and the best u for t, from many starts at once, until nothing changes; disturb the best patterns and settle again.
Points with such patterns are found by projections, then by linear programs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from lipcert.problem.network import Network
from lipcert.witness.chase import chase, row_lengths
from lipcert.witness.moments import Candidates
from lipcert.witness.program import Patterns, Program
from lipcert.witness.record import Record
from lipcert.witness.screen import Batch, Screen, apply, direction

_STARTS = 512
_POPULATION = 64
_SETTLING = 60  # alternations at most
_CHASED = 32
_PURSUED = 256
_CHASING = 200  # steps
_PATIENCE = 15  # disturbances without improvement
_PROGRAMS = 40  # linear programs at most, fewer when they are large
_PROGRAM_ENTRIES = 400_000


def applies(net: Network) -> bool:
    return net.depth == 1 and net.activations[0].kind in ("relu", "leaky_relu")


def hunt(record: Record, screen: Screen, program: Program, starts: Batch, seconds: float) -> tuple[Patterns, Batch]:
    """The best patterns found, best first, and points near them in chart coordinates, already offered to the record."""
    end = time.monotonic() + seconds
    family = Family(screen, program.free, program.fixed)
    z = np.concatenate([screen.forward(v)[0] for v in (starts, record.chart.draw(record.rng, 64, screen.dtype))])
    patterns = _best_patterns(record, family, z > 0, end)
    chosen = patterns[:_CHASED]
    middle = np.zeros((len(chosen), record.net.inputs), dtype=screen.dtype)
    caught = chase(screen, program, middle, chosen, row_lengths(program, patterns[0]), _CHASING, end)
    record.offer(record.chart.points(caught.points), caught.values, "patterns")
    return patterns, caught.points[np.argsort(-caught.values, kind="stable")]


def pursue(record: Record, screen: Screen, program: Program, found: Candidates, seconds: float) -> Batch:
    """Points for candidates of any depth: as they are, chased to their patterns, asked for. All points, best first."""
    end = time.monotonic() + seconds
    v = found.points.astype(screen.dtype)
    zs = screen.forward(v)
    own = np.where(program.free, np.concatenate(zs, axis=1) > 0, program.fixed)
    u = np.where(program.free & found.known, found.patterns, own)
    if applies(record.net):
        u = np.concatenate([u, Family(screen, program.free, program.fixed).settle(u, end)[0]])
        v = np.concatenate([v, v])
    promised = values_of(screen, u)
    order = np.argsort(-promised, kind="stable")[: int(np.clip(screen.chunk // 4, 1, _PURSUED))]
    caught = chase(screen, program, v[order], u[order], row_lengths(program, u[order[0]]), _CHASING, end)
    points = np.concatenate([caught.points, found.points.astype(screen.dtype)])
    norms = np.concatenate([caught.values, np.broadcast_to(screen.norms(zs), len(found.points))])
    record.offer(record.chart.points(points), norms, "moments")
    realise(record, program, u[order], "moments")
    return points[np.argsort(-norms, kind="stable")]


def values_of(screen: Screen, patterns: Patterns) -> Batch:
    """Gradient norms of patterns by the chain rule, any depth."""
    ends = np.cumsum([w.shape[0] for w in screen.weights])[:-1]
    signs = np.where(patterns, 1, -1).astype(screen.dtype)
    return screen.norms(np.split(signs, ends, axis=1))


def realise(record: Record, program: Program, patterns: Patterns, method: str = "patterns") -> None:
    """Linear programs for patterns, best first, while they would improve on the record."""
    entries = max(int(program.needed.sum()) * record.net.inputs, 1)
    for u in patterns[: int(np.clip(_PROGRAM_ENTRIES // entries, 1, _PROGRAMS))]:
        value = record.norm.dual.of(record.net.chain_rule(program.layers(u[None, :]), record.c))
        if value[0] <= record.best.value * (1 + 1e-6) or record.left <= 0:
            return
        answer = program.solve(u, record.left)
        if answer is not None and answer[1] > 0:
            record.offer(record.chart.points(answer[0][None, :]), value, method)


@dataclass(frozen=True, eq=False)
class Family:
    """The patterns that bounds of the first layer allow: `free` neurons choose, the others are as in `fixed`."""

    screen: Screen
    free: Patterns
    fixed: Patterns

    def gradients(self, u: Patterns) -> Batch:
        a = self.screen.activations[0].alpha
        return np.asarray((self.screen.c * (a + (1 - a) * u).astype(self.screen.dtype)) @ self.screen.weights[0])

    def norms(self, u: Patterns) -> Batch:
        return self.screen.dual.of(self.gradients(u))

    def settle(self, u: Patterns, end: float = np.inf) -> tuple[Patterns, Batch]:
        """Alternate until nothing changes or the time is over; neither half-step can lower the norm."""
        sign = 1.0 if self.screen.activations[0].alpha < 1 else -1.0
        u = np.where(self.free, u, self.fixed)
        for _ in range(_SETTLING):
            t = direction(self.screen.dual, self.gradients(u))
            gain = apply(self.screen.weights[0], t) * self.screen.c * sign
            chosen = np.where(self.free, gain > 0, self.fixed)
            if np.array_equal(chosen, u):
                break
            u = chosen
            if time.monotonic() > end:
                break
        return u, self.norms(u)


def _best_patterns(record: Record, family: Family, known: Patterns, end: float) -> Patterns:
    """Distinct patterns, best first: settled from random and known ones, then disturbed and settled again."""
    rng = record.rng
    width = family.free.size
    starts = int(np.clip(family.screen.chunk, 8, _STARTS))
    random = rng.random((starts, width)) < rng.random((starts, 1))
    u, values = family.settle(np.concatenate([known, random]), end)
    order = np.argsort(-values, kind="stable")[:_POPULATION]
    u, values = u[order], values[order]
    stale = 0
    while stale < _PATIENCE and time.monotonic() < end:
        before = values.max()
        rate = 1.0 / width + rng.uniform(0.0, 0.2, (len(u), 1))
        moved, reached = family.settle(u ^ (rng.random(u.shape) < rate), end)
        better = reached > values
        u, values = np.where(better[:, None], moved, u), np.where(better, reached, values)
        stale = 0 if values.max() > before * (1 + 1e-6) else stale + 1
    first = np.unique(u, axis=0, return_index=True)[1]
    return u[first[np.argsort(-values[first], kind="stable")]]
