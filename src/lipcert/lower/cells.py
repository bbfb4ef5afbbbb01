"""Networks of ReLUs and leaky ReLUs: walk over the cells of constant gradient, from the best points found.

Patterns that differ in one or two neurons are valued at once, by the chain rule; those that would improve on the best
witness are asked for a point, one linear program each, best first.
"""

from __future__ import annotations

import numpy as np

from lipcert.lower.program import Patterns, Program
from lipcert.lower.record import Record
from lipcert.lower.screen import Batch
from lipcert.rounding import Array

_STARTS = 4
_PROGRAMS = 120  # linear programs at most, fewer when they are large
_PROGRAM_ENTRIES = 600_000
_NEIGHBOURS = 4096
_NEIGHBOUR_ENTRIES = 8_000_000


def walk(record: Record, program: Program, starts: Batch) -> None:
    """Move to better cells until no neighbour improves, or the linear programs or the time are used up."""
    entries = max(int(program.needed.sum()) * record.net.inputs, 1)
    programs = min(_PROGRAMS, _PROGRAM_ENTRIES // entries)
    tried: set[bytes] = set()
    queue = _patterns(program, record.chart.points(starts))
    queue = [_patterns(program, record.best.point[None, :])[0], *queue[:_STARTS]]
    while queue and programs > 0 and record.left > 0:
        candidates, values = _neighbours(record, program, queue.pop(0))
        for u, value in zip(candidates, values, strict=True):
            if value <= record.best.value * (1 + 1e-7) or programs <= 0 or record.left <= 0:
                break
            if (key := np.packbits(u).tobytes()) in tried:
                continue
            tried.add(key)
            programs -= 1
            answer = program.solve(u, 0.3 * record.left)
            if answer is not None and answer[1] > 0:
                record.offer(record.chart.points(answer[0][None, :]), np.array([value]), "cells")
                queue.insert(0, u)
                break


def _patterns(program: Program, points: Array) -> list[Patterns]:
    """The distinct patterns of points, in order."""
    zs = np.concatenate(program.net.preactivations(points), axis=1)
    rows = {np.packbits(u).tobytes(): u for u in reversed(np.where(program.free, zs > 0, program.fixed))}
    return list(reversed(rows.values()))


def _neighbours(record: Record, program: Program, u: Patterns) -> tuple[Patterns, Array]:
    """Patterns with one or two other free neurons and the gradient norms that they would have, best first."""
    free = np.flatnonzero(program.needed)
    limit = int(np.clip(_NEIGHBOUR_ENTRIES // (u.size + record.net.inputs), 1, _NEIGHBOURS))
    first, second = np.triu_indices(free.size)
    if first.size > limit:
        singles = np.flatnonzero(first == second)
        chosen = np.union1d(singles, record.rng.choice(first.size, limit, replace=False))[:limit]
        first, second = first[chosen], second[chosen]
    flipped = np.zeros((first.size, u.size), dtype=bool)
    rows = np.arange(first.size)
    flipped[rows, free[first]] = flipped[rows, free[second]] = True
    candidates = u ^ flipped
    values = record.norm.dual.of(record.net.chain_rule(program.layers(candidates), record.c))
    values = np.where(np.isfinite(values), values, 0.0)
    order = np.argsort(-values, kind="stable")
    return candidates[order], values[order]
