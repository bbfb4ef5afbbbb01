"""Certified and attacked shares as functions of the radius, outward: never more proved than is, nor more refuted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.report.job import Job, Points

_STEPS = 400  # finer than a drawing's pixels


@dataclass(frozen=True)
class Shares:
    """Between radii[k] and radii[k + 1] at least certified[k] inputs are robust, at most possible[k] can be."""

    radii: NDArray[np.float64]
    certified: NDArray[np.int64]
    possible: NDArray[np.int64]
    possible_at_end: int  # at the last radius itself, where counterexamples of exactly that size count


def shares(job: Job) -> Shares | None:
    """Of every radius when the results of single inputs are here, of the asked radii otherwise."""
    if job.points is not None and job.radii and max(job.radii) > 0:
        return _by_input(job.points, np.unique(np.append(np.linspace(0, max(job.radii), _STEPS), job.radii)))
    if job.last is None or job.last.radius == 0:
        return None
    tallies = [t for t in job.tallies if t.radius > 0]
    possible = [job.correct, *(job.correct - t.attacked for t in tallies)]
    return Shares(
        np.array([0.0, *(t.radius for t in tallies)]),
        np.array([t.certified for t in tallies], dtype=np.int64),
        np.array(possible[:-1], dtype=np.int64),
        possible[-1],
    )


def _by_input(points: Points, grid: NDArray[np.float64]) -> Shares:
    correct = points.correct
    proved = np.sort(points.certified_radius[correct])
    refuted = np.sort(points.attack_radius[correct])
    certified = proved.size - np.searchsorted(proved, grid, side="left")  # radius >= epsilon
    possible = refuted.size - np.searchsorted(refuted, grid, side="right")  # counterexample beyond epsilon only
    return Shares(grid, certified[1:].astype(np.int64), possible[:-1].astype(np.int64), int(possible[-1]))
