"""Primal-dual interior point for rank-two semidefinite programs.

    max <C, X>   s.t.   f_a' X f_b (= or <=) b,   X >= 0
    min b'y      s.t.   Z = A*(y) - C >= 0,       y >= 0 on the inequalities

HKM direction with Mehrotra's predictor and corrector.  When every X_ii has a row of its own (all our relaxations)
the start is dual feasible and every iterate stays so: b'y of any iteration is an upper bound, an anytime method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.atoms import NONE, AtomForm, atom_form
from lipcert.solver.bordered import Bordered, Inverse
from lipcert.solver.costs import ITERATIONS, iteration_operations, setup_operations, solve_operations
from lipcert.solver.dense import cholesky, longest_ratio, longest_step, symmetrise, symv
from lipcert.solver.result import Callback, Log, RankTwoResult, Record, Status
from lipcert.solver.roots import find_core
from lipcert.solver.schur import Schur
from lipcert.solver.start import Iterate, dual_matrix, starting_point

NEAR = 1e-4  # gap and infeasibility from which on a failure is called nearly optimal
# Largest share of the way to zero for the slack or multiplier of a root: neither is zero at the optimum.
ROOT_STEP = 0.9


@dataclass(frozen=True)
class Options:
    """Settings of the interior point."""

    tolerance: float = 1e-7
    iterations: int = 80
    keep_primal: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise InputError(f"Options(tolerance={self.tolerance}): must lie between 0 and 1")
        if self.iterations < 0:
            raise InputError(f"Options(iterations={self.iterations}): must be >= 0")


def solve_rank_two(
    problem: RankTwoProblem,
    options: Options = Options(),
    callback: Callback | None = None,
    y0: Floats | None = None,
    *,
    budget: Budget | None = None,
) -> RankTwoResult:
    """max <C, X> s.t. f_a' X f_b (= or <=) b, X >= 0, by an interior point.

    Args:
        problem: the program.
        options: tolerance (relative gap and infeasibility) and iteration limit.
        callback: called once per iteration with a Progress; returning True stops the solver.
        y0: multipliers of an earlier, similar problem to start from.
        budget: no iteration is begun that is not expected to end within it; as long as it takes when left out.

    Returns multipliers y with y >= 0 on the inequalities, whatever the status; the best ones that were dual feasible.
    """
    if y0 is not None and (np.shape(y0) != (problem.rows,) or not np.all(np.isfinite(y0))):
        raise InputError(f"solve_rank_two(y0): expected {problem.rows} finite multipliers, got shape {np.shape(y0)}")
    budget = budget or Budget.unlimited()
    return RankTwoRun(problem, options, callback, budget).run(budget, y0)


@dataclass(eq=False)
class _Direction:
    dX: Floats  # noqa: N815 - the letters of the literature
    dslack: Floats
    dy: Floats
    dZ: Bordered  # noqa: N815


class RankTwoRun:
    """One solve: the iterate and what is computed from it. `run` may be called again, and goes on."""

    def __init__(self, problem: RankTwoProblem, options: Options, callback: Callback | None, budget: Budget) -> None:
        self.options, self.log, self.budget = options, Log(problem.rows, budget, callback), budget
        self.given, self.begun = problem, False
        self.core = find_core(problem)
        self.problem = problem if self.core is None else self.core.problem
        self.unequal = np.flatnonzero(~self.problem.equality)
        self.short_steps = 0

    def run(self, budget: Budget, y0: Floats | None = None) -> RankTwoResult:
        """Zero multipliers where the budget is over already; `y0` is for the first call."""
        self.budget = self.log.budget = budget
        with budget.threads(max(self.problem.size, self.given.rows // 4)):
            return self._run(y0)

    def advance(self, budget: Budget, callback: Callback) -> RankTwoResult:
        """Go on from the last iterate; the callback sees the iterations of this call alone."""
        self.log.callback = callback
        found = self.run(budget)
        return replace(found, paused=self) if found.status is Status.TIME_LIMIT else found

    def least(self, budget: Budget) -> float:
        """Seconds of the next iteration; before the first one, those of the start too."""
        if self.begun:
            return budget.expected(self.iteration())
        return budget.expected(setup_operations(self.problem) + solve_operations(self.given) / ITERATIONS)

    def ahead(self, budget: Budget) -> float:
        """Seconds of the iterations to a bound within a percent of the optimum."""
        done = len(self.log.history) - 1
        return max(ITERATIONS - done, 0) * budget.expected(self.iteration()) if self.begun else 0.0

    def iteration(self) -> float:
        """Operations of the next one."""
        return iteration_operations(self.form.size, self.schur.unknowns)

    def _run(self, y0: Floats | None) -> RankTwoResult:
        if self.budget.over():
            return self.log.result(Status.TIME_LIMIT)
        if not self.begun:
            self._begin(y0)
            self.begun = True
        try:
            status = self._iterate()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except TimeoutError:
            status = Status.TIME_LIMIT
        except np.linalg.LinAlgError:
            status = self._close_enough(Status.NUMERICAL_TROUBLE)
        return self.log.result(status, self._moments() if self.options.keep_primal else None)

    def _begin(self, y0: Floats | None) -> None:
        self.form: AtomForm = atom_form(self.problem, bounds=NONE if self.core is None else self.core.bound)
        roots0 = None
        if self.core is not None and y0 is not None:
            y0, roots0 = self.core.split(y0)
        self.plain = np.flatnonzero(self.unequal < self.problem.rows - self.form.roots.rows.size)
        self.at, edge = starting_point(self.form, y0, roots0)
        self.log.floor = 1e-3 * self.form.value_scale
        if edge is not None:
            self.log.offer(self._dual(edge), lambda: self._given(edge))
        self.inverse = Inverse(self.at.Z)
        self.factor_X = cholesky(self.at.X)
        self.schur = Schur(self.form)
        order = sum(self.form.dense.shape)
        self.tables = np.empty((2, order, order))
        self.budget.charge(setup_operations(self.problem))

    def _dual(self, y: Floats) -> float:
        return self.form.value_scale * (float(self.form.rhs @ y) + self.form.roots.price(y))

    def _given(self, y: Floats) -> Floats:
        given = self.form.multipliers(y)
        given[self.unequal] = np.maximum(given[self.unequal], 0.0)
        return given if self.core is None else self.core.multipliers(given)

    def _moments(self) -> Floats:
        place, scale = np.argsort(self.form.permutation), self.form.variable_scale
        X = self.at.X[np.ix_(place, place)] * scale[:, None] * scale
        return X if self.core is None else self.core.moments(X)

    def _iterate(self) -> Status:
        each = self.iteration()
        for iteration in range(self.options.iterations + 1):
            status = self._finished(self._measure())
            if status is not None:
                return status
            if iteration == self.options.iterations:
                break
            if self.budget.expected(each) > self.budget.left():
                return Status.TIME_LIMIT
            with self.budget.measured(each):
                self._advance()
        return Status.ITERATION_LIMIT

    def _measure(self) -> Record:
        form, at = self.form, self.at
        self.images = form.columns.images(at.X)
        self.gap_rows = form.rhs - form.rows @ form.values(at.X, self.images)
        self.gap_rows[self.unequal] -= at.slack
        self.mu = float(at.Z.dot(at.X) + self._pairs(at.slack, at.y[self.unequal])) / (form.size + self.plain.size)
        root = at.slack[self.plain.size :]
        primal = form.objective.dot(at.X) + 2.0 * float(form.roots.gain @ np.sqrt(root))
        pinf = float(np.linalg.norm(self.gap_rows) / (1.0 + np.linalg.norm(form.rhs)))
        dinf = at.residual.norm() if at.residual is not None else 0.0
        scale = form.value_scale
        return self.log.add(scale * primal, self._dual(at.y), (pinf, dinf), lambda: self._given(at.y))

    def _pairs(self, slack: Floats, multiplier: Floats) -> float:
        """Complementarity of the inequalities; the rows of roots have another."""
        return float(slack[self.plain] @ multiplier[self.plain])

    def _finished(self, record: Record) -> Status | None:
        if self.log.show():
            return Status.INTERRUPTED
        if record.error < self.options.tolerance:
            return Status.OPTIMAL
        if self._worn_out():
            return Status.NEARLY_OPTIMAL
        if self.short_steps >= 4:
            return self._close_enough(Status.STALLED)
        if np.max(np.abs(self.at.y), initial=0.0) > 1e9 or record.dual < -1e6 * self.form.value_scale:
            return Status.NO_INTERIOR
        return None

    def _worn_out(self) -> bool:
        """Whether rounding stops the progress: the multipliers no longer improve, or X drifts away from feasibility."""
        history = self.log.history
        if min(r.error for r in history) > NEAR:
            return False
        lowest = min(r.primal_infeasibility for r in history)
        drift = history[-1].primal_infeasibility > 1e3 * max(lowest, 0.01 * self.options.tolerance)
        past = [r.dual for r in history[-5:]]
        still = len(past) == 5 and past[0] - min(past[1:]) < 0.1 * self.options.tolerance * abs(past[0])
        return drift or still

    def _close_enough(self, otherwise: Status) -> Status:
        return Status.NEARLY_OPTIMAL if any(r.error < NEAR for r in self.log.history) else otherwise

    def _advance(self) -> None:
        """One predictor-corrector step."""
        form, at = self.form, self.at
        Zi = self.inverse.toarray()
        images = form.columns.images(Zi)
        self.weight = self._weight()
        sides = ((at.X, self.images), (Zi, images))
        GX, GZ = (form.columns.gram(*side, memory) for side, memory in zip(sides, self.tables, strict=True))
        self.schur.factor(GX, GZ, self.weight)
        self._in_time()
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
        second = self._second(aimed)
        self._in_time()
        step = self._direction(sigma * self.mu, Zi, cross, second)
        primal, dual = self._steps(step, 0.9 + 0.07 * min(primal, dual))
        self._move(step, primal, dual)

    def _in_time(self) -> None:
        """Between the parts of an iteration, which may take longer than expected; the iterate is still whole."""
        if self.budget.over():
            raise TimeoutError

    def _weight(self) -> Floats:
        """-d slack / d multiplier: slack * multiplier = mu; slack * multiplier + mu = gain^2 / multiplier for roots."""
        weight, roots = np.zeros(self.form.rhs.size), self.form.roots
        weight[self.unequal] = self.at.slack / self.at.y[self.unequal]
        weight[roots.rows] += roots.gain**2 / self.at.y[roots.rows] ** 3
        return weight

    def _aim(self, mu: float) -> Floats:
        """The slacks that belong to the multipliers."""
        aim = mu / self.at.y[self.unequal]
        aim[self.plain.size :] = self.form.roots.paired(self.at.y, mu)
        return np.asarray(aim)

    def _second(self, aimed: _Direction) -> Floats:
        """Second-order terms of the same equations."""
        share = aimed.dy[self.unequal] / self.at.y[self.unequal]
        second = aimed.dslack * share
        root = slice(self.plain.size, None)
        second[root] -= self.form.roots.paired(self.at.y) * share[root] ** 2
        return np.asarray(second)

    def _direction(self, mu: float, Zi: Floats, cross: Floats | None, second: Floats | None) -> _Direction:
        form, at, li = self.form, self.at, self.unequal
        aim = self._aim(mu)
        rhs = self.base + mu * self.central
        rhs[li] += aim
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
        dslack = aim - at.slack - self.weight[li] * dy[li]
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
        pairs = ((at.slack, step.dslack), (at.y[self.unequal], step.dy[self.unequal]))
        p = self.plain.size
        plain, roots = ([longest_ratio(v[s], dv[s]) for v, dv in pairs] for s in (slice(p), slice(p, None)))
        primal = min(1.0, damping * min(primal, plain[0]), ROOT_STEP * roots[0])
        return primal, min(1.0, damping * min(dual, plain[1]), ROOT_STEP * roots[1])

    def _centering(self, aimed: _Direction, primal: float, dual: float) -> float:
        at, li = self.at, self.unequal
        pairs = (
            at.Z.dot(at.X) + primal * at.Z.dot(aimed.dX) + dual * (aimed.dZ.dot(at.X) + primal * aimed.dZ.dot(aimed.dX))
        )
        slack = self._pairs(at.slack + primal * aimed.dslack, at.y[li] + dual * aimed.dy[li])
        reached = max(float(pairs + slack), 0.0) / (self.form.size + self.plain.size)
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
