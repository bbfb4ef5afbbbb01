"""Sharper pre-activation bounds by linear programs: how far z of a neuron reaches over the triangles before it.

Blocks are bounded in order, each with the sharper bounds of those before it. All programs of a block differ in their
objective only, so that the simplex method starts from the last answer. Neurons that may become stable come first, those
whose open slope costs the linear bound most before others. A solver's answer is a hint: what its multipliers prove the
proof code computes (`proof.sharpened`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.bounds import Interval, cut_short, linear_bounds, preactivations, slopes
from lipcert.bounds.collapse import left_out
from lipcert.budget import Budget
from lipcert.method.signs.program import SIGNS_ASK, SIGNS_CALLS, SIGNS_PIVOT, Program
from lipcert.method.signs.quick import SIGNS_COPIES, SIGNS_ENTRIES
from lipcert.problem.maps import matrix
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof.nogoods import Index, System
from lipcert.proof.sharpened import Sharper, gathered, narrowed, rows_of, swept, tops
from lipcert.rounding import Array
from lipcert.steps import SCALAR, SPARSE

_GAIN = 1e-3  # share of the distance between both bounds: a smaller gain is not worth its multipliers
_SURE = 1e-9  # relative to the sum of magnitudes: a smaller sum has no certain sign, another BLAS may add differently
_DUAL, _PRIMAL = 1, 4  # of HiGHS's strategies; the last point stays feasible, but of many inputs most flip their ends:
# on 784 of them the dual one took a quarter of the time, on 2 and 5 half as much again to twice as much


def sharpen(problem: Problem, budget: Budget) -> Problem | None:
    """The problem with sharper bounds, whose certificates prove these too; None if nothing was gained."""
    base = None if cut_short(problem) or left_out(problem) else rows_of(problem)
    if base is None or not _fits(base.network, budget):
        return None
    search = _Sharpening(base, budget)
    with np.errstate(all="ignore"), budget.threads(base.network.neurons):
        swept(base, search.block)
        found = search.found.of(problem) if len(search.targets) else None
    budget.charge(8.0 * base.network.neurons * base.network.entries)
    return found


def gain(problem: Problem, sharper: Problem) -> float:
    """The mean share of the width of an open neuron's bounds that is gone; all of it where it is stable now."""
    parts = []
    for f, old, new in zip(problem.network.activations, *map(preactivations, (problem, sharper)), strict=True):
        open_, still = f.kinked & (old.lo < 0) & (old.hi > 0), (new.lo < 0) & (new.hi > 0)
        parts.append(np.where(still, (new.hi - new.lo) / np.where(open_, old.hi - old.lo, 1.0), 0.0)[open_])
    left = np.concatenate(parts)
    return float(np.mean(1.0 - left)) if len(left) else 0.0


def _fits(net: Network, budget: Budget) -> bool:
    """Whether the programs fit into memory, and both passes (one to search, one to check) into the budget."""
    flat = net.neurons * (net.neurons + net.inputs)
    if flat > SIGNS_ENTRIES or not budget.holds(SIGNS_COPIES * flat):
        return False
    return budget.expected(8.0 * net.neurons * net.entries) <= budget.left()


class _Sharpening:
    """The multipliers found so far, block by block."""

    def __init__(self, base: Problem, budget: Budget) -> None:
        self.budget, self.loss = budget, _loss(base)
        self.open = [int(np.count_nonzero(s.lo < s.hi)) for s in slopes(base)]
        self.targets: list[Index] = []
        self.y: list[Array] = []
        self.t: list[Array] = []

    def block(self, k: int, system: System, z: Interval) -> Interval:
        """Bounds of a block by programs, until its share of the budget is over."""
        wanted = _order(k, z, self.loss[k])
        if not len(wanted) or not (np.any(system.open) or system.cuts):
            return z
        budget = self.budget.share(self.open[k] / max(sum(self.open[k:]), 1))
        program, found = _Reach(system), []
        for target in wanted:
            if budget.over():
                break
            with budget.measured(0.0, SPARSE) as work:
                found.append((target, *program.largest(int(target[1]), int(target[2]))))
                work.operations = program.entries * (SIGNS_ASK + SIGNS_PIVOT * program.pivots)
            budget.charge(SIGNS_CALLS, SCALAR)
        return self._proved(system, z, found)

    def _proved(self, system: System, z: Interval, found: list[tuple[Index, Array, Array]]) -> Interval:
        """The bounds of the block with those that are proved and gain something."""
        if not found:
            return z
        targets, y, t = (np.array(column) for column in zip(*found, strict=True))
        top, size = tops(system, targets, y, t)
        k, above = targets[:, 1], targets[:, 2] > 0
        old = np.where(above, z.hi[k], -z.lo[k])
        better = (top < old - _GAIN * (z.hi[k] - z.lo[k])) & ~((top <= 0) & (top > -_SURE * size))
        self.targets += list(targets[better])
        self.y += list(y[better])
        self.t += list(t[better])
        return narrowed(z, targets[better], top[better])

    @property
    def found(self) -> Sharper:
        return gathered(np.array(self.targets), self.y, self.t)


class _Reach(Program):
    """The largest z or -z of the scores of a system over its rows."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self.highs.setOptionValue("simplex_strategy", _PRIMAL if system.net.inputs <= len(self.open) else _DUAL)
        net = system.net
        starts = np.cumsum([0, *net.shape[:-1]])
        units = np.concatenate([self.radius, self.v_unit])
        table = np.zeros((net.outputs, starts[-1]))
        for source, weight in net.scores.terms:
            table[:, starts[source] : starts[source + 1]] = sparse.csr_array(matrix(weight)).toarray()
        self.costs = table * units
        self.where = np.arange(len(units), dtype=np.int32)
        self.pivots = 0
        rest = np.arange(len(units), len(units) + len(self.open), dtype=np.int32)
        self.highs.changeColsCost(len(rest), rest, np.zeros(len(rest)))

    def largest(self, neuron: int, side: int) -> tuple[Array, Array]:
        """Multipliers y and t of the system for this neuron; zeros where there are none."""
        cost = -side * self.costs[neuron]
        unit = max(float(np.max(np.abs(cost))), 1e-300)
        self.highs.changeColsCost(len(cost), self.where, cost / unit)
        self.highs.run()
        self.pivots = max(0, int(self.highs.getInfo().simplex_iteration_count))
        if self.highs.getModelStatus().name != "kOptimal":
            self.highs.clearSolver()
            return np.zeros(self.system.neurons), np.zeros(self.system.neurons + self.system.cuts)
        y, t = self.in_units(-unit * np.array(self.highs.getSolution().row_dual))
        return y, np.maximum(t, 0.0)


def _loss(base: Problem) -> tuple[Array, ...]:
    """Estimated cost of the open slope of every neuron to the linear bound; the same for all neurons of a whole map."""
    if base.whole_map or base.coordinate is not None:
        return tuple(np.ones(len(s.lo)) for s in slopes(base))
    cell = tuple(Interval(s.lo[None, :], s.hi[None, :]) for s in slopes(base))
    return tuple(own[0] for own in linear_bounds(base.network, cell, base.norm, base.c).loss)


def _order(k: int, z: Interval, loss: Array) -> Index:
    """Targets of a block: of every open neuron first the side that is nearer to zero, then all others."""
    own = np.flatnonzero((z.lo < 0) & (z.hi > 0))
    lo, hi = z.lo[own], z.hi[own]
    near = np.minimum(hi, -lo) / (hi - lo)
    own = own[np.argsort(-loss[own] * (1.0 - near), kind="stable")]
    side = np.where(z.hi[own] <= -z.lo[own], 1, -1)
    block = np.full(len(own), k + 1)
    first, then = np.stack([block, own, side], axis=1), np.stack([block, own, -side], axis=1)
    return np.concatenate([first, then]).astype(np.int64)
