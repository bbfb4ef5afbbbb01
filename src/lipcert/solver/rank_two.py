"""Primal-dual interior point for rank-two semidefinite programs.

    max <C, X>   s.t.   f_a' X f_b (= or <=) b,   X >= 0
    min b'y      s.t.   Z = A*(y) - C >= 0,       y >= 0 on the inequalities

HKM direction with Mehrotra's predictor and corrector.  When every X_ii has a row of its own (all our relaxations)
the start is dual feasible and every iterate stays so: b'y of any iteration is an upper bound, an anytime method.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from lipcert.budget.threads import threads_for
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.atoms import AtomForm, atom_form
from lipcert.solver.bordered import Bordered, Inverse
from lipcert.solver.dense import cholesky, gram, symmetrise, symv
from lipcert.solver.result import Callback, Progress, RankTwoResult, Record, Status
from lipcert.solver.schur import Schur
from lipcert.solver.start import Iterate, dual_matrix, starting_point
from lipcert.solver.steps import longest_ratio, longest_step

NEAR = 1e-4  # gap and infeasibility from which on a failure is called nearly optimal
FLOPS = 5e10  # a guess for the first iteration's time only


@dataclass(frozen=True)
class Options:
    """Settings of the interior point; times in seconds of wall clock."""

    tolerance: float = 1e-7
    iterations: int = 80
    time_limit: float = float("inf")
    keep_primal: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise InputError(f"Options(tolerance={self.tolerance}): must lie between 0 and 1")
        if self.iterations < 0:
            raise InputError(f"Options(iterations={self.iterations}): must be >= 0")
        if not self.time_limit > 0:
            raise InputError(f"Options(time_limit={self.time_limit}): must be positive")


def solve_rank_two(
    problem: RankTwoProblem,
    options: Options = Options(),  # noqa: B008 - frozen
    callback: Callback | None = None,
    y0: Floats | None = None,
) -> RankTwoResult:
    """max <C, X> s.t. f_a' X f_b (= or <=) b, X >= 0, by an interior point.

    Args:
        problem: the program.
        options: tolerance (relative gap and infeasibility), iteration and time limits.
        callback: called once per iteration with a Progress; returning True stops the solver.
        y0: multipliers of an earlier, similar problem to start from.

    Returns multipliers y with y >= 0 on the inequalities, whatever the status; the best ones that were dual feasible.
    """
    if y0 is not None and (np.shape(y0) != (problem.rows,) or not np.all(np.isfinite(y0))):
        raise InputError(f"solve_rank_two(y0): expected {problem.rows} finite multipliers, got shape {np.shape(y0)}")
    with threads_for(max(problem.size, problem.rows // 4)):
        return _Run(problem, options, callback, y0).run()


def expected_seconds(problem: RankTwoProblem, iterations: int = 14) -> float:
    """About how long the interior point takes to a bound within a percent of the optimum, on two cores."""
    unknowns = 0.8 * problem.rows  # condensing removes about a fifth
    return iterations * (unknowns**3 / 3 + 6.0 * problem.size**3) / FLOPS


def affordable_rows(size: int, seconds: float, iterations: int = 14) -> int:
    """About how many rows fit into these seconds with a matrix of this order: the inverse of `expected_seconds`."""
    flops = seconds * FLOPS / iterations - 6.0 * size**3
    return int((3.0 * max(flops, 0.0)) ** (1 / 3) / 0.8)


@dataclass(eq=False)
class _Direction:
    dX: Floats  # noqa: N815 - the letters of the literature
    dslack: Floats
    dy: Floats
    dZ: Bordered  # noqa: N815


class _Run:
    """One solve: the iterate and what is computed from it."""

    def __init__(
        self,
        problem: RankTwoProblem,
        options: Options,
        callback: Callback | None,
        y0: Floats | None,
    ) -> None:
        self.begin = time.perf_counter()
        self.options, self.callback = options, callback
        self.form: AtomForm = atom_form(problem)
        self.unequal = np.flatnonzero(~problem.equality)
        self.at: Iterate = starting_point(self.form, y0)
        self.inverse = Inverse(self.at.Z)
        self.factor_X = cholesky(self.at.X)
        self.history: list[Record] = []
        self.best = np.inf
        self.best_y = self._given(self.at.y)
        self.short_steps = 0
        self.longest = 0.0  # seconds of the slowest iteration so far

    def _given(self, y: Floats) -> Floats:
        given = self.form.multipliers(y)
        given[self.unequal] = np.maximum(given[self.unequal], 0.0)
        return given

    def run(self) -> RankTwoResult:
        try:
            status = self._iterate()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except np.linalg.LinAlgError:
            status = self._close_enough(Status.NUMERICAL_TROUBLE)
        return self._result(status)

    def _iterate(self) -> Status:
        self.schur = Schur(self.form)
        self.longest = (self.schur.unknowns**3 / 3 + 6.0 * self.form.size**3) / FLOPS
        for iteration in range(self.options.iterations + 1):
            clock = time.perf_counter()
            status = self._finished(self._measure(iteration))
            if status is not None:
                return status
            if iteration == self.options.iterations:
                break
            self._advance()
            self.longest = max(self.longest * 0.7, time.perf_counter() - clock)
        return Status.ITERATION_LIMIT

    def _measure(self, iteration: int) -> Record:
        form, at = self.form, self.at
        self.images = at.X @ form.dense
        self.gap_rows = form.rhs - form.rows @ form.values(at.X, self.images)
        self.gap_rows[self.unequal] -= at.slack
        self.mu = float(at.Z.dot(at.X) + at.slack @ at.y[self.unequal]) / (form.size + at.slack.size)
        primal, dual = form.objective.dot(at.X), float(form.rhs @ at.y)
        pinf = float(np.linalg.norm(self.gap_rows) / (1.0 + np.linalg.norm(form.rhs)))
        dinf = at.residual.norm() if at.residual is not None else 0.0
        gap = abs(dual - primal) / max(abs(primal), abs(dual), 1e-3)
        scale = form.value_scale
        seconds = time.perf_counter() - self.begin
        record = Record(iteration, seconds, scale * primal, scale * dual, pinf, dinf, gap)
        self.history.append(record)
        if dinf < 1e-9 and dual < self.best:
            self.best, self.best_y = dual, self._given(at.y)
        return record

    def _finished(self, record: Record) -> Status | None:
        if self.callback is not None:
            y = self._given(self.at.y)
            seen = Progress(
                record.iteration, record.seconds, record.primal, record.dual, record.primal_infeasibility,
                record.dual_infeasibility, record.gap, y,
            )  # fmt: skip
            if self.callback(seen):
                return Status.INTERRUPTED
        if max(record.gap, record.primal_infeasibility, record.dual_infeasibility) < self.options.tolerance:
            return Status.OPTIMAL
        if self._worn_out():
            return Status.NEARLY_OPTIMAL
        if self.short_steps >= 4:
            return self._close_enough(Status.STALLED)
        if np.max(np.abs(self.at.y), initial=0.0) > 1e9 or record.dual < -1e6 * self.form.value_scale:
            return Status.NO_INTERIOR
        if time.perf_counter() - self.begin + 1.05 * self.longest > self.options.time_limit:
            return Status.TIME_LIMIT
        return None

    def _worn_out(self) -> bool:
        """At the floor of rounding: the multipliers no longer improve, or X drifts away from feasibility."""
        closest = min(self.history, key=lambda r: max(r.gap, r.primal_infeasibility, r.dual_infeasibility))
        if max(closest.gap, closest.primal_infeasibility, closest.dual_infeasibility) > NEAR:
            return False
        lowest = min(r.primal_infeasibility for r in self.history)
        drift = self.history[-1].primal_infeasibility > 1e3 * max(lowest, 0.01 * self.options.tolerance)
        past = [r.dual for r in self.history[-5:]]
        still = len(past) == 5 and past[0] - min(past[1:]) < 0.1 * self.options.tolerance * abs(past[0])
        return drift or still

    def _close_enough(self, otherwise: Status) -> Status:
        near = any(max(r.gap, r.primal_infeasibility, r.dual_infeasibility) < NEAR for r in self.history)
        return Status.NEARLY_OPTIMAL if near else otherwise

    def _advance(self) -> None:
        """One predictor-corrector step."""
        form, at = self.form, self.at
        Zi = self.inverse.toarray()
        images = Zi @ form.dense
        self.schur.factor(
            gram(at.X, self.images, form.dense), gram(Zi, images, form.dense), self._weight()
        )  # fmt: skip
        self.base = -form.rhs.copy()
        if at.residual is not None:
            back = self.inverse.times(at.residual.times(at.X))
            symmetrise(back)
            self.base += form.rows @ form.values(back)
        self.central = form.rows @ form.values(Zi, images)
        aimed = self._direction(0.0, Zi, None, None)
        primal, dual = self._steps(aimed, 1.0)
        sigma = self._centering(aimed, primal, dual)
        cross = self.inverse.times(aimed.dZ.times(aimed.dX))
        symmetrise(cross)
        second = aimed.dslack * aimed.dy[self.unequal] / at.y[self.unequal]
        step = self._direction(sigma * self.mu, Zi, cross, second)
        primal, dual = self._steps(step, 0.9 + 0.07 * min(primal, dual))
        self._move(step, primal, dual)

    def _weight(self) -> Floats:
        weight = np.zeros(self.form.rhs.size)
        weight[self.unequal] = self.at.slack / self.at.y[self.unequal]
        return weight

    def _direction(self, mu: float, Zi: Floats, cross: Floats | None, second: Floats | None) -> _Direction:
        form, at, li = self.form, self.at, self.unequal
        z = at.y[li]
        rhs = self.base + mu * self.central
        rhs[li] += mu / z
        if cross is not None and second is not None:
            rhs -= form.rows @ form.values(cross)
            rhs[li] -= second
        dy = self.schur.solve(rhs, 0.01 * self.options.tolerance * (1.0 + float(np.linalg.norm(form.rhs))))
        dZ = form.combine(form.rows.T @ dy)
        if at.residual is not None:
            dZ = dZ.plus(-1.0, at.residual)
        dX = self.inverse.times(dZ.times(at.X))
        symmetrise(dX)
        dX += at.X
        np.negative(dX, out=dX)
        dslack = mu / z - at.slack - at.slack * dy[li] / z
        if mu:
            dX += mu * Zi
        if cross is not None and second is not None:
            dX -= cross
            dslack -= second
        return _Direction(dX, dslack, dy, dZ)

    def _steps(self, step: _Direction, damping: float) -> tuple[float, float]:
        at, L = self.at, self.factor_X
        primal = longest_step(
            lambda v: np.asarray(lapack.dpotrs(L, v, lower=1)[0]), lambda v: symv(step.dX, v),
            lambda v: symv(at.X, v), self.form.size,
        )  # fmt: skip
        dual = longest_step(
            lambda v: self.inverse.times(v[:, None])[:, 0], lambda v: step.dZ.times(v[:, None])[:, 0],
            lambda v: at.Z.times(v[:, None])[:, 0], self.form.size,
        )  # fmt: skip
        primal = min(primal, longest_ratio(at.slack, step.dslack))
        dual = min(dual, longest_ratio(at.y[self.unequal], step.dy[self.unequal]))
        return min(1.0, damping * primal), min(1.0, damping * dual)

    def _centering(self, aimed: _Direction, primal: float, dual: float) -> float:
        at, li = self.at, self.unequal
        pairs = (
            at.Z.dot(at.X) + primal * at.Z.dot(aimed.dX) + dual * (aimed.dZ.dot(at.X) + primal * aimed.dZ.dot(aimed.dX))
        )
        slack = (at.slack + primal * aimed.dslack) @ (at.y[li] + dual * aimed.dy[li])
        reached = max(float(pairs + slack), 0.0) / (self.form.size + li.size)
        power = max(2.0, 3.0 * min(primal, dual) ** 2)
        return float(min(0.9, max(1e-5, (reached / self.mu) ** power)))

    def _move(self, step: _Direction, primal: float, dual: float) -> None:
        at, form = self.at, self.form
        for _ in range(12):
            y = at.y + dual * step.dy
            Z = dual_matrix(form, y) if at.residual is None or dual == 1.0 else at.Z.plus(dual, step.dZ)
            try:
                self.inverse = Inverse(Z)
                break
            except np.linalg.LinAlgError:
                dual *= 0.7
        else:
            raise np.linalg.LinAlgError("no dual step keeps Z positive definite")
        residual = None
        if at.residual is not None and dual < 1.0:
            residual = Z.plus(-1.0, dual_matrix(form, y))
        primal = self._move_primal(step, primal)
        self.short_steps = self.short_steps + 1 if max(primal, dual) < 0.02 else 0
        self.at = Iterate(at.X, at.slack + primal * step.dslack, y, Z, residual)

    def _move_primal(self, step: _Direction, primal: float) -> float:
        """X <- X + primal dX, shortened until the Cholesky factor that the next iteration needs exists."""
        X = self.at.X
        X += primal * step.dX
        for _ in range(12):
            try:
                self.factor_X = cholesky(X)
                return primal
            except np.linalg.LinAlgError:
                X -= 0.3 * primal * step.dX
                primal *= 0.7
        raise np.linalg.LinAlgError("no primal step keeps X positive definite")

    def _result(self, status: Status) -> RankTwoResult:
        last = self.history[-1] if self.history else Record(0, 0.0, -np.inf, np.inf, np.inf, np.inf, np.inf)
        y = self.best_y if np.isfinite(self.best) else self._given(self.at.y)
        dual = self.best * self.form.value_scale if np.isfinite(self.best) else last.dual
        X = None
        if self.options.keep_primal:
            place = np.argsort(self.form.permutation)
            scale = self.form.variable_scale
            X = self.at.X[np.ix_(place, place)] * scale[:, None] * scale
        seconds = time.perf_counter() - self.begin
        return RankTwoResult(
            y, X, last.primal, dual, last.gap, status, last.iteration, seconds, tuple(self.history)
        )  # fmt: skip
