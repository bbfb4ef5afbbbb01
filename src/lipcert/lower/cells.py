"""Networks of ReLUs and leaky ReLUs: walk over the cells of constant gradient, from the best points found.

Patterns that differ in one or two neurons are valued at once, by the chain rule; those that would improve on the cell
in hand are asked for a point, one linear program each, best first.
"""

from __future__ import annotations

import numpy as np

from lipcert.lower.program import Patterns, Program
from lipcert.lower.record import Record
from lipcert.lower.screen import Batch
from lipcert.rounding import Array

_STARTS = 6
_PROGRAMS = 200  # linear programs at most, fewer when they are large
_PROGRAM_ENTRIES = 600_000
_NEIGHBOURS = 4096
_NEIGHBOUR_ENTRIES = 8_000_000


def walk(record: Record, program: Program, starts: Batch) -> None:
    """Climb from cell to better cell, first from the best witness, then from other starts while programs are left."""
    entries = max(int(program.needed.sum()) * record.net.inputs, 1)
    left = min(_PROGRAMS, _PROGRAM_ENTRIES // entries)
    tried: set[bytes] = set()
    points = np.concatenate([record.best.point[None, :], record.chart.points(starts)])
    for start in _patterns(program, points)[:_STARTS]:
        u: Patterns | None = start
        while u is not None and left > 0 and record.left > 0:
            u, used = _step(record, program, u, tried, min(left, max(left // 2, 8)))
            left -= used


def _step(record: Record, program: Program, u: Patterns, tried: set[bytes], most: int) -> tuple[Patterns | None, int]:
    """The best neighbour of a cell that is better and has a point, within `most` programs; and how many it took."""
    used = 0
    candidates, values, own = _neighbours(record, program, u)
    for candidate, value in zip(candidates, values, strict=True):
        if value <= own * (1 + 1e-7) or used == most or record.left <= 0:
            break
        if (key := np.packbits(candidate).tobytes()) in tried:
            continue
        tried.add(key)
        used += 1
        answer = program.solve(candidate, record.left)
        if answer is not None and answer[1] > 0:
            record.offer(record.chart.points(answer[0][None, :]), np.array([value]), "cells")
            return candidate, used
    return None, used


def _patterns(program: Program, points: Array) -> list[Patterns]:
    """The distinct patterns of points, in order."""
    zs = np.concatenate(program.net.preactivations(points), axis=1)
    rows = {np.packbits(u).tobytes(): u for u in reversed(np.where(program.free, zs > 0, program.fixed))}
    return list(reversed(rows.values()))


def _neighbours(record: Record, program: Program, u: Patterns) -> tuple[Patterns, Array, float]:
    """Patterns with one or two other free neurons, best first, their gradient norms, and that of u itself."""
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
    own = record.norm.dual.of(record.net.chain_rule(program.layers(u[None, :]), record.c))
    values = np.where(np.isfinite(values), values, 0.0)
    order = np.argsort(-values, kind="stable")
    return candidates[order], values[order], float(own[0])
