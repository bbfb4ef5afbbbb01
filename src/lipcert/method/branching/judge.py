"""Cheap bounds of many cells at once: a proved bound of each, and where a split would gain most."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, joined, slope_bounds, tree_bounds
from lipcert.jobs.executors import worker_count
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.leaves import line_bounds
from lipcert.rounding import Array
from lipcert.search.scores import balance, matter_and_cost, smear

CELLS_PATIENCE = 30.0  # seconds to wait for cells that were sent; then they are bounded here
CELLS_WORTH_SENDING = 16  # cells for each worker, at least

_FLAT = 1e-13  # of the largest pre-activation of a cell


@dataclass(frozen=True, eq=False)
class Half:
    """One cell with what the cheap bounds say of it: `free` neurons are open, `neurons` and `coordinates` about what a
    split of each gains."""

    cell: Cell
    upper: float
    open: int
    bounds: Bounds
    free: NDArray[np.bool_]
    neurons: Array
    coordinates: Array


@dataclass(frozen=True, eq=False)
class Judged:
    """Many cells with what the cheap bounds say of them; an empty cell counts as one without open signs."""

    cells: Sequence[Cell]
    bounds: Bounds
    uppers: Array
    free: NDArray[np.bool_]
    neurons: Array
    coordinates: Array

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All but the cells and their bounds."""
        return self.uppers, self.free, self.neurons, self.coordinates

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """Open signs of every cell."""
        return np.where(self.bounds.empty, 0, self.free.sum(axis=1))

    def half(self, k: int) -> Half:
        """Cell k."""
        bounds = self.bounds.rows(slice(k, k + 1)).copied()
        ranks = self.free[k].copy(), self.neurons[k].copy(), self.coordinates[k].copy()  # views would keep the batch
        return Half(self.cells[k], float(self.uppers[k]), int(self.count[k]), bounds, *ranks)


def judge(problem: Problem, cells: Sequence[Cell], known: tuple[Interval, ...] | None = None) -> Judged:
    """The cheap bounds of cells; `known` holds on them already."""
    return judged(problem, cells, tree_bounds(problem.network, problem.region, cells, known))


def judged(problem: Problem, cells: Sequence[Cell], bounds: Bounds) -> Judged:
    """The cheap bounds of cells whose pre-activation bounds are given."""
    net = problem.network
    uppers, linear = line_bounds(problem, cells, bounds)
    slopes = slope_bounds(net, bounds.pre)
    matter, cost = matter_and_cost(net, slopes, linear)
    kinked = np.repeat([f.kinked for f in net.activations], [b.width for b in net.hidden])
    unknown = np.concatenate([s.hi > s.lo for s in slopes], axis=1)
    open_ = unknown & kinked & (matter > 0) & ~_flat(bounds.pre)
    radius = [box.hi / 2 - box.lo / 2 for box in (hull(c.region) for c in cells) if box is not None]
    by_coordinate = np.zeros((len(cells), 0))
    if len(radius) == len(cells):
        by_coordinate = smear(net, slopes, cost, np.stack(radius))
    return Judged(cells, bounds, uppers, open_, cost * balance(bounds.pre), by_coordinate)


def judge_together(problem: Problem, cells: Sequence[Cell], known: tuple[Interval, ...], executor: Executor) -> Judged:
    """The same, shared among the workers where there are enough cells; what a worker fails to do is done here."""
    workers = worker_count(executor)
    if workers == 1 or len(cells) < workers * CELLS_WORTH_SENDING:
        return judge(problem, cells, known)
    ends = [len(cells) * k // workers for k in range(workers + 1)]
    parts = [(cells[a:b], tuple(z.rows(slice(a, b)) for z in known)) for a, b in pairwise(ends)]
    question = problem.on(problem.region)  # without what is kept with it: less to send
    futures: list[Future[Judged] | None] = []
    for some, own in parts:
        try:
            futures.append(executor.submit(judge, question, some, own))
        except (RuntimeError, OSError):  # the executor is broken
            futures.append(None)
    found = []
    for future, (some, own) in zip(futures, parts, strict=True):
        try:
            found.append(judge(problem, some, own) if future is None else future.result(CELLS_PATIENCE))
        except Exception:  # its process died, twice, or the cluster has no workers any more
            found.append(judge(problem, some, own))
    arrays = [np.concatenate(pieces) for pieces in zip(*(j.arrays for j in found), strict=True)]
    return Judged(cells, joined([j.bounds for j in found]), *arrays)


def _flat(pre: tuple[Interval, ...]) -> NDArray[np.bool_]:
    """Neurons that are zero on the whole cell but for rounding, as where terms cancel: no split decides their sign."""
    lo, hi = (np.concatenate([getattr(z, end) for z in pre], axis=1) for end in ("lo", "hi"))
    size = np.maximum(np.abs(lo), np.abs(hi))
    return np.asarray(np.isfinite(size) & (size <= _FLAT * size.max(axis=1, keepdims=True)))
