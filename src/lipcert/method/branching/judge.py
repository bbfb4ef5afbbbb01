"""What the cheap bounds say of many cells at once: a proved bound of each, and where a split would gain most.

The linear bounds of the gradient name the cost of every open slope (`LinearBounds.loss`). A neuron's own split saves
it. A coordinate's split narrows the neurons that depend on it: with the slopes in the middle, row a of z_k in x,

    score_i = sum_k cost_k |a_i| r_i / sum_j |a_j| r_j          r the half widths of the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, LinearBounds, joined, slope_bounds, tree_bounds
from lipcert.bounds.interval import times
from lipcert.jobs.executors import worker_count
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.leaves import line_bounds
from lipcert.rounding import Array

CELLS_PATIENCE = 30.0  # seconds to wait for cells that were sent; then they are bounded here
CELLS_WORTH_SENDING = 16  # cells for each worker, at least

_FLAT = 1e-13  # of the largest pre-activation of a cell
_UNSEEN = 0.02  # of what a neuron can change at most: its cost where the bound does not feel that it is open


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
    """The same of many cells; an empty one counts as one without open signs."""

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
        """One of them."""
        bounds = self.bounds.rows(np.array([k]))
        ranks = self.free[k].copy(), self.neurons[k].copy(), self.coordinates[k].copy()  # views would keep the batch
        return Half(self.cells[k], float(self.uppers[k]), int(self.count[k]), bounds, *ranks)


def judge(problem: Problem, cells: Sequence[Cell], known: tuple[Interval, ...] | None = None) -> Judged:
    """The cheap bounds of cells; `known` holds on them already."""
    return judged(problem, cells, tree_bounds(problem.network, problem.region, cells, known))


def judged(problem: Problem, cells: Sequence[Cell], bounds: Bounds) -> Judged:
    """The same with their pre-activation bounds given."""
    net = problem.network
    uppers, linear = line_bounds(problem, cells, bounds)
    slopes = slope_bounds(net, bounds.pre)
    matter, cost = _matter_and_cost(net, slopes, linear)
    kinked = np.repeat([f.kinked for f in net.activations], [b.width for b in net.hidden])
    unknown = np.concatenate([s.hi > s.lo for s in slopes], axis=1)
    open_ = unknown & kinked & (matter > 0) & ~_flat(bounds.pre)
    radius = [box.hi / 2 - box.lo / 2 for box in (hull(c.region) for c in cells) if box is not None]
    by_coordinate = np.zeros((len(cells), 0))
    if len(radius) == len(cells):
        by_coordinate = _smear(net, slopes, cost, np.stack(radius))
    return Judged(cells, bounds, uppers, open_, cost * _balance(bounds.pre), by_coordinate)


def coordinate_scores(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds, radius: Array) -> Array:
    """About what a split of every coordinate of boxes with these half widths gains, (cells, inputs)."""
    return _smear(net, slopes, _matter_and_cost(net, slopes, linear)[1], radius)


def neuron_scores(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds, pre: tuple[Interval, ...]) -> Array:
    """About what a split of every neuron at its kink gains, (cells, neurons)."""
    return _matter_and_cost(net, slopes, linear)[1] * _balance(pre)


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


def _matter_and_cost(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds) -> tuple[Array, Array]:
    """By neuron, how much its slope can change the gradient, and about what it costs that it is open."""
    matter = _matter(net, slopes, linear)
    width = np.concatenate([s.hi - s.lo for s in slopes], axis=1)
    return matter, np.concatenate(linear.loss, axis=1) + _UNSEEN * matter * width


def _matter(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds) -> Array:
    """By neuron, how much its slope can change the gradient at most, all entries together."""
    reach: list[Array] = [np.ones((len(slopes[0].lo), net.inputs))]
    matter = []
    for k, (s, block) in enumerate(zip(slopes, net.hidden, strict=True)):
        moved = sum((times(reach[source], abs(w)) for source, w in block.terms), np.zeros_like(s.hi))
        matter.append(np.nan_to_num(linear.gradients[k + 1].magnitude * moved, posinf=1e300))
        reach.append(s.magnitude * moved)
    return np.concatenate(matter, axis=1)


def _flat(pre: tuple[Interval, ...]) -> NDArray[np.bool_]:
    """Neurons that are zero on the whole cell but for rounding, as where terms cancel: no split decides their sign."""
    lo, hi = (np.concatenate([getattr(z, end) for z in pre], axis=1) for end in ("lo", "hi"))
    size = np.maximum(np.abs(lo), np.abs(hi))
    return np.asarray(np.isfinite(size) & (size <= _FLAT * size.max(axis=1, keepdims=True)))


def _balance(pre: tuple[Interval, ...]) -> Array:
    """How even the two sides of a kink are: a half that stays almost the whole gains little."""
    lo, hi = (np.concatenate([getattr(z, end) for z in pre], axis=1) for end in ("lo", "hi"))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(lo) & np.isfinite(hi), np.clip(np.minimum(hi, -lo) / (hi - lo), 0.0, 0.5), 0.5)


def _smear(net: Network, slopes: tuple[Interval, ...], cost: Array, radius: Array) -> Array:
    """The score of every coordinate of every cell."""
    cells, inputs = radius.shape
    rows = [np.broadcast_to(np.eye(inputs), (cells, inputs, inputs))]  # of x_j by x_0, transposed: (cells, inputs, .)
    score, start = np.zeros((cells, inputs)), 0
    with np.errstate(all="ignore"):
        for block, s in zip(net.hidden, slopes, strict=True):
            flat = sum(times(rows[j].reshape(-1, rows[j].shape[2]), w) for j, w in block.terms)
            own = np.asarray(flat).reshape(cells, inputs, block.width)
            shares = np.abs(own) * radius[:, :, None]
            total = shares.sum(axis=1)
            paid = np.where(total > 0, cost[:, start : start + block.width] / total, 0.0)
            score += np.nan_to_num(np.matmul(shares, paid[:, :, None])[:, :, 0], posinf=1e300)
            rows.append(own * (s.lo / 2 + s.hi / 2)[:, None, :])
            start += block.width
    return score
