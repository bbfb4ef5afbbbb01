"""Low-rank first-order method (Burer-Monteiro) for rank-two semidefinite programs, with multipliers.

    max <C, R R'>   s.t.   rows of the problem on X = R R',   R of size N x rank

L-BFGS climbs the augmented Lagrangian over R (`factors`), then the multipliers follow. After every round they are made
dual feasible, in two ways, and the better one is a bound. Cheap per round where the interior point is not, but its
bound stays a few percent above the optimum: a first phase, or a last resort for sizes beyond the interior point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import one_thread
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.costs import INTERIOR_CALLS, INTERIOR_ROW, THIN_CALLS
from lipcert.solver.factors import Factors
from lipcert.solver.result import Callback, Log, RankTwoResult, Status
from lipcert.solver.start import dual_matrix
from lipcert.steps import THIN

_SWEEPS, _LANCZOS = 25, (60, 100)  # of the two ways to feasible multipliers
_PENALTY = 4.0  # at first, in units of the mean diagonal multiplier
_STEEPEST = 16.0  # times that: beyond, the multipliers of unfinished climbs are noise


@dataclass(frozen=True)
class LowRankOptions:
    """Settings of the low-rank method."""

    tolerance: float = 1e-3
    rounds: int = 200
    inner: int = 40
    rank: int = 0  # 0: chosen from the size

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise InputError(f"LowRankOptions(tolerance={self.tolerance}): must lie between 0 and 1")
        if self.rounds < 1 or self.inner < 1 or self.rank < 0:
            raise InputError("LowRankOptions: rounds and inner must be positive, rank >= 0")


def solve_low_rank(
    problem: RankTwoProblem,
    options: LowRankOptions = LowRankOptions(),
    callback: Callback | None = None,
    *,
    budget: Budget | None = None,
) -> RankTwoResult:
    """max <C, X> s.t. f_a' X f_b (= or <=) b, X >= 0, by low-rank factors; multipliers of every round are feasible.

    Every variable needs a row X_ii = const or X_ii <= const of its own.
    """
    budget = budget or Budget.unlimited()
    return LowRankRun(problem, options, callback, budget).run(budget)


class LowRankRun:
    """The rounds; `run` goes on where the last call ended."""

    def __init__(
        self, problem: RankTwoProblem, options: LowRankOptions, callback: Callback | None, budget: Budget
    ) -> None:
        self.problem, self.options, self.budget = problem, options, budget
        self.log = Log(problem.rows, budget, callback)
        self.last, self.round = np.inf, -1  # no round yet, not even a start
        self.penalty = self.steepest = 1.0

    def run(self, budget: Budget) -> RankTwoResult:
        """Rounds until the tolerance, their limit, or the end of this budget."""
        self.budget, status = budget, None
        try:
            with one_thread():  # thin products: a second one only waits
                while status is None:
                    status = self._round()
        except TimeoutError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return self.log.result(status)

    def _round(self) -> Status | None:
        """One round, the start being the first; a climb that the budget cut short changes nothing."""
        if self.budget.over():
            return Status.TIME_LIMIT
        violation = np.inf
        if self.round < 0:
            self._begin()
        else:
            self.R = self._ascend()
            violation = self._update()
            if violation > 0.6 * self.last:
                self.penalty = min(1.5 * self.penalty, self.steepest)
            self.last = violation
        self.round += 1
        return self._report(violation)

    def _begin(self) -> None:
        self.factors = Factors(self.problem)
        self.budget.charge(INTERIOR_ROW * self.problem.rows + INTERIOR_CALLS)
        size, mean = self.problem.size, float(self.factors.weight.mean())
        self.R = self.factors.start(self.options.rank or int(max(8, np.sqrt(size) / 2)))
        self.y = np.zeros(self.problem.rows)
        self.penalty, self.steepest = _PENALTY * mean, _STEEPEST * _PENALTY * mean
        self.log.floor = 1e-3 * self.factors.form.value_scale

    def _ascend(self) -> Floats:
        """The vectors at the multipliers y, with time left for a bound from them."""
        factors, start = self.factors, float(self.y @ self.y)

        def lagrangian(V: Floats) -> tuple[float, Floats]:
            images, objective = factors.images(V), factors.form.objective.times(V)
            y = factors.pressure(self.y, self.penalty * factors.excess(images))
            value = float(np.vdot(objective, V)) - (float(y @ y) - start) / (2 * self.penalty)
            return value, 2.0 * (objective - factors.pull(y, images))

        options = {"maxiter": self.options.inner, "maxcor": 15}
        in_time = self.budget.upto(self.budget.left() - self.budget.expected(self._bound_operations(), THIN))
        return factors.climb(self.R, lagrangian, in_time, factors.operations(self.R.shape[1]), options)

    def _bound_operations(self) -> float:
        """Of making multipliers feasible."""
        products, columns = _SWEEPS + sum(_LANCZOS), _SWEEPS * self.R.shape[1] + sum(_LANCZOS)
        return float(self.factors.operations(1) * columns + THIN_CALLS * products)

    def _update(self) -> float:
        """The multipliers follow; how far the rows are violated."""
        factors = self.factors
        excess = factors.excess(factors.images(self.R))
        violation = np.where(factors.unequal, np.maximum(excess, -self.y / self.penalty), excess)
        self.y = factors.pressure(self.y, self.penalty * excess)
        return float(np.linalg.norm(violation) / (1.0 + np.linalg.norm(factors.form.rhs)))

    def _report(self, violation: float) -> Status | None:
        factors, form, scale = self.factors, self.factors.form, self.factors.form.value_scale
        with self.budget.measured(self._bound_operations(), THIN):
            without = self.y.copy()
            without[factors.row] = 0.0
            ways = [factors.rescaled(without, dual_matrix(form, without), self.R, _SWEEPS, _LANCZOS[0])]
            if self.round:
                ways.append(factors.shifted(self.y, self.R, _LANCZOS[1]))
            for y in ways:
                self.log.offer(scale * float(form.rhs @ y), lambda y=y: factors.given(y))  # type: ignore[misc]
            primal = float(np.vdot(form.objective.times(self.R), self.R))
        record = self.log.add(scale * primal, self.log.dual, (violation, 0.0), lambda: self.log.y)
        if self.log.show():
            return Status.INTERRUPTED
        if record.error < self.options.tolerance:
            return Status.OPTIMAL
        return None if self.round < self.options.rounds else Status.ITERATION_LIMIT
