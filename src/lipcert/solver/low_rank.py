"""Low-rank first-order method (Burer-Monteiro) for rank-two semidefinite programs, with multipliers.

    max <C, R R'>   s.t.   rows of the problem on X = R R',   R of size N x rank

Rows X_ii = const hold by construction, because the rows of R are brought to their length. All others enter an augmented
Lagrangian: at multipliers y and penalty s the pressure is (y + s (A(R R') - b)), cut at zero on inequalities. L-BFGS
climbs it over R (`Factors`), then the multipliers follow. After every round they are made dual feasible, in two ways,
and the better one is a bound. Cheap per round where the interior point is not, but its bound stays a few percent above
the optimum: a first phase, or a last resort for sizes beyond the interior point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from lipcert.budget import Budget
from lipcert.budget.threads import one_thread
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, Integers, RankTwoProblem
from lipcert.solver.atoms import AtomForm, atom_form
from lipcert.solver.bordered import Bordered
from lipcert.solver.costs import INTERIOR_CALLS, INTERIOR_ROW, THIN_CALLS
from lipcert.solver.result import Callback, Log, RankTwoResult, Status
from lipcert.solver.start import balance, diagonal_rows, dual_matrix, lowest_eigenvalue
from lipcert.steps import THIN

Lagrangian = Callable[[Floats], tuple[float, Floats]]  # value and slope at rows of the right lengths


class Extrapolation:
    """How far multipliers go beyond their last change before the next round (Nesterov): further each time, unless the
    change grew."""

    def __init__(self) -> None:
        self.speed, self.last = 1.0, np.inf

    def ahead(self, change: float) -> float:
        """The share of the last change, whose size is given, that is added once more."""
        self.speed = 1.0 if change > self.last else (1.0 + np.sqrt(1.0 + 4.0 * self.speed**2)) / 2
        self.last = change
        return float((self.speed - 1.0) / (self.speed + 2.0))


class Factors:
    """The problem as the low-rank methods need it, without R and y, which change."""

    def __init__(self, problem: RankTwoProblem, outside: Integers | None = None) -> None:
        self.form: AtomForm = atom_form(problem, outside)
        form = self.form
        self.row, self.coefficient = diagonal_rows(form)
        if np.any(self.row < 0):
            raise InputError("low-rank factors need for every variable a row of its own that bounds X_ii")
        self.unequal = ~problem.equality
        self.fixed = form.equality[self.row]  # variables whose length is fixed
        self.length = np.sqrt(np.maximum(form.rhs[self.row] / self.coefficient, 0.0))
        self.free = np.ones(form.rhs.size, dtype=bool)  # rows of the augmented Lagrangian
        self.free[self.row[self.fixed]] = False
        self.weight = balance(form.objective)

    def operations(self, rank: int) -> float:
        """Estimated operations of one evaluation: the objective and all rows, on R and back."""
        form, border = self.form, self.form.border
        rows = form.size * form.dense.shape[1] + 4 * form.first.size
        objective = 2 * border.inner * border.outer + border.outer**2
        return float(4 * rank * (rows + objective + 12 * form.size))

    def start(self, rank: int) -> Floats:
        """Random rows of the right lengths."""
        size = (self.form.size, min(rank, self.form.size))
        return self.vectors(np.random.default_rng(0).standard_normal(size) / np.sqrt(size[1]))[0]

    def vectors(self, R: Floats) -> tuple[Floats, Floats]:
        """Rows brought to their fixed lengths, and the lengths they had."""
        norm = np.sqrt(np.einsum("ij,ij->i", R, R))
        norm[norm == 0] = 1.0
        return R * np.where(self.fixed, self.length / norm, 1.0)[:, None], norm

    def images(self, V: Floats) -> Floats:
        """[V; Q'V]: every generator's image."""
        return np.vstack([V, self.form.dense.T @ V])

    def excess(self, images: Floats) -> Floats:
        """A(V V') - b for the rows of the augmented Lagrangian, 0 for the others."""
        form = self.form
        atoms = np.einsum("ij,ij->i", images[form.first], images[form.second])
        return np.where(self.free, form.rows @ atoms - form.rhs, 0.0)

    def pressure(self, y: Floats, change: Floats) -> Floats:
        """y + change with the right signs, 0 for rows that hold by construction."""
        return self.signed(y + change) * self.free

    def signed(self, y: Floats) -> Floats:
        return np.where(self.unequal, np.maximum(y, 0.0), y)

    def pull(self, y: Floats, images: Floats) -> Floats:
        """A*(y) V without forming A*(y)."""
        form, n, d = self.form, self.form.size, self.form.dense.shape[1]
        core = sp.csr_matrix(((form.rows.T @ y) / 2, (form.first, form.second)), shape=(n + d, n + d))
        result = core @ images + core.T @ images
        return np.asarray(result[:n] + form.dense @ result[n:])

    def tangent(self, slope: Floats, V: Floats, norm: Floats) -> Floats:
        """The slope over R from that over V = vectors(R)."""
        inward = np.einsum("ij,ij->i", slope, V) / np.maximum(self.length, 1e-300) ** 2
        slope = slope - np.where(self.fixed, inward, 0.0)[:, None] * V
        slope *= np.where(self.fixed, self.length / norm, 1.0)[:, None]
        return slope

    def climb(
        self, R: Floats, lagrangian: Lagrangian, budget: Budget, operations: float, options: Mapping[str, float]
    ) -> Floats:
        """R after some steps of L-BFGS up the Lagrangian; raises TimeoutError at the end of the budget."""
        scale = float(self.weight.sum())

        def negative(flat: Floats) -> tuple[float, Floats]:
            if budget.over():
                raise TimeoutError
            with budget.measured(operations + THIN_CALLS, THIN):
                V, norm = self.vectors(flat.reshape(R.shape))
                value, slope = lagrangian(V)
                slope = self.tangent(slope, V, norm)
            return -value / scale, -slope.ravel() / scale

        found = minimize(negative, R.ravel(), jac=True, method="L-BFGS-B", options=dict(options))
        return self.vectors(found.x.reshape(R.shape))[0]

    def given(self, y: Floats) -> Floats:
        """Multipliers of the given problem from scaled ones."""
        return self.signed(self.form.multipliers(y))

    def rescaled(self, y: Floats, S: Bordered, R: Floats, sweeps: int, rounds: int) -> Floats:
        """Dual feasible multipliers: those of the diagonal recomputed from S, which has none of them.

        In proportion to lengths at a maximum over unit vectors, by sweeps v_i <- normalise(-(S v)_i + |(S v)_i| v_i).
        """
        V = R / np.maximum(np.linalg.norm(R, axis=1), 1e-12)[:, None]
        weight = np.ones(len(V))
        for _ in range(sweeps):
            image = -S.times(V * self.length[:, None])
            weight = np.linalg.norm(image, axis=1)
            image += weight[:, None] * V
            V = image / np.maximum(np.linalg.norm(image, axis=1), 1e-300)[:, None]
        weight = weight / np.maximum(self.length, 1e-12)
        weight = np.maximum(weight, 1e-3 * weight.mean() + 1e-300)
        low = lowest_eigenvalue(S, 1.0 / np.sqrt(weight), rounds)
        y = y.copy()
        y[self.row] = weight * max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        return y

    def shifted(self, y: Floats, R: Floats, rounds: int) -> Floats:
        """Dual feasible multipliers: those of the fixed diagonal from stationarity at R, then all of it lifted."""
        y = np.where(self.free, y, 0.0)
        image = dual_matrix(self.form, y).times(R)
        lengths = -np.einsum("ij,ij->i", image, R) / np.maximum(self.length, 1e-12) ** 2
        y[self.row] += np.where(self.fixed, lengths, 0.0) / self.coefficient
        low = lowest_eigenvalue(dual_matrix(self.form, y), np.ones(self.form.size), rounds)
        y[self.row] += max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        return y


_SWEEPS, _LANCZOS = 25, (60, 100)  # effort of the two ways to feasible multipliers
EVALUATIONS = 1.2  # of the Lagrangian, for each step of L-BFGS
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

    def advance(self, budget: Budget, callback: Callback) -> RankTwoResult:
        """Go on with the next round; the callback sees the rounds of this call alone."""
        self.log.callback, self.log.budget = callback, budget
        found = self.run(budget)
        return replace(found, paused=self) if found.status is Status.TIME_LIMIT else found

    def ahead(self, budget: Budget) -> float:  # noqa: ARG002 - as every solve that can be stopped says it
        """No time: every round may give a bound."""
        return 0.0

    def least(self, budget: Budget) -> float:
        """Seconds of the next round with its bound; those of a start before the first one."""
        if self.round < 0:
            return budget.expected(INTERIOR_ROW * self.problem.rows + INTERIOR_CALLS)
        climb = self.options.inner * (self.factors.operations(self.R.shape[1]) + THIN_CALLS)
        return budget.expected(EVALUATIONS * climb + self._bound_operations(), THIN)

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
        """Operations to make multipliers feasible."""
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
