"""LBS [CLMP20]: the largest gradient norm at sampled points."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.witness.chart import Batch
from lipcert.witness.record import OnWitness, Record
from lipcert.witness.screen import Screen
from lipcert.witness.witness import Witness

ELITE = 16  # sampled points that a search starts from

_ROWS = 4096  # of given points that are looked at together


def sampling(
    problem: Problem, budget: Budget, *, seed: int = 0, samples: int = 50_000, on_witness: OnWitness | None = None
) -> Witness:
    """The best of `samples` random points, found in single precision and recomputed in double precision.

    Points are uniform in a box or ball. Everywhere, they are normal around zero at lengths of 1, 10, 100 and 1000
    times the median distance of the origin from the first block's kinks, in equal shares. Stops early when the budget
    is over. One output only.
    """
    record = Record(problem, budget, rng=np.random.default_rng(seed), on_witness=on_witness)
    record.begin()
    sample(record, Screen(problem, budget), samples, budget)
    return record.best


def sample_points(problem: Problem, points: Array | Iterable[Array], *, on_witness: OnWitness | None = None) -> Witness:
    """The best of the given points: an array (points, inputs) or an iterable of such chunks, all in double precision.

    A point outside the region is refused. One output only.
    """
    record = Record(problem, Budget.unlimited(), rng=np.random.default_rng(0), on_witness=on_witness)
    for chunk in [points] if isinstance(points, np.ndarray) else points:
        rows = np.atleast_2d(chunk)
        if not problem.region.contains(rows):
            raise InputError("sample_points: a point lies outside the region")
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            with np.errstate(all="ignore"):
                gradients = problem.network.gradient(some, problem.c)
                norms = np.broadcast_to(problem.norm.dual.of(gradients), len(some))
            record.offer(some, np.where(np.isfinite(norms), norms, 0.0), "given points")
    if record.best.value < 0:
        raise InputError("sample_points: no point was given")
    return record.best


def sample(record: Record, screen: Screen, samples: int, budget: Budget) -> Batch:
    """Offer the best of `samples` points to the record; the ELITE best ones in chart coordinates, best first."""
    elite = np.zeros((1, screen.scale.size), dtype=screen.dtype)
    values = np.zeros(1, dtype=screen.dtype)
    done = 0
    while done < samples and not budget.over():
        v = record.chart.draw(record.rng, min(screen.chunk, samples - done), screen.dtype)
        done += len(v)
        with np.errstate(all="ignore"):
            norms = np.broadcast_to(screen.norms(screen.forward(v)), len(v))
        top = np.argpartition(-norms, min(ELITE, len(v)) - 1)[:ELITE]
        elite, values = np.concatenate([elite, v[top]]), np.concatenate([values, norms[top]])
        order = np.argsort(-values, kind="stable")[:ELITE]
        elite, values = elite[order], values[order]
    record.offer(record.chart.points(elite), values, "sampling")
    return elite
