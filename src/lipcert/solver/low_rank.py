"""Low-rank first-order method (Burer-Monteiro) for rank-two semidefinite programs, with multipliers.

    max <C, R R'>   s.t.   rows of the problem on X = R R',   R of size N x rank

Rows X_ii = const hold by construction (rows of R are scaled to their length); all others enter an augmented
Lagrangian, maximised by L-BFGS.  Its multipliers, with diagonal ones read off stationarity and enlarged until
S(y) >= 0, are dual feasible: every outer round yields a bound.  Cheap per round where the interior point is not, but
its bound stays a percent or so above the optimum: a first phase, or a last resort for sizes beyond the interior point.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from lipcert.budget.threads import threads_for
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.atoms import AtomForm, atom_form
from lipcert.solver.bordered import Bordered
from lipcert.solver.result import Callback, Progress, RankTwoResult, Record, Status
from lipcert.solver.start import balance, diagonal_rows, dual_matrix, lowest_eigenvalue


@dataclass(frozen=True)
class LowRankOptions:
    """Settings of the low-rank method; the time limit is in seconds of wall clock."""

    tolerance: float = 1e-3
    rounds: int = 200
    inner: int = 40
    time_limit: float = float("inf")
    rank: int = 0  # 0: chosen from the size

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise InputError(f"LowRankOptions(tolerance={self.tolerance}): must lie between 0 and 1")
        if self.rounds < 1 or self.inner < 1 or self.rank < 0:
            raise InputError("LowRankOptions: rounds and inner must be positive, rank >= 0")
        if not self.time_limit > 0:
            raise InputError(f"LowRankOptions(time_limit={self.time_limit}): must be positive")


class _OutOfTime(Exception):  # noqa: N818 - a signal, not an error
    pass


def solve_low_rank(
    problem: RankTwoProblem,
    options: LowRankOptions = LowRankOptions(),  # noqa: B008 - frozen
    callback: Callback | None = None,
) -> RankTwoResult:
    """max <C, X> s.t. f_a' X f_b (= or <=) b, X >= 0, by low-rank factors; multipliers of every round are feasible.

    Every variable needs a row X_ii = const or X_ii <= const of its own.
    """
    with threads_for(max(problem.size, problem.rows // 4)):
        return _Run(problem, options, callback).run()


class _Run:
    def __init__(self, problem: RankTwoProblem, options: LowRankOptions, callback: Callback | None) -> None:
        self.begin = time.perf_counter()
        self.options, self.callback = options, callback
        self.form: AtomForm = atom_form(problem)
        form = self.form
        self.row, self.coefficient = diagonal_rows(form)
        if np.any(self.row < 0):
            raise InputError("solve_low_rank(problem): every variable needs a row of its own that bounds X_ii")
        self.unequal = ~problem.equality
        self.fixed = form.equality[self.row]  # variables whose length is fixed
        length = np.sqrt(np.maximum(form.rhs[self.row] / self.coefficient, 0.0))
        self.length = length
        self.free = np.ones(form.rhs.size, dtype=bool)
        self.free[self.row[self.fixed]] = False
        self.weight = balance(form.objective)
        self.rank = options.rank or int(min(form.size, max(8, np.sqrt(form.size) / 2)))
        self.R = np.random.default_rng(0).standard_normal((form.size, self.rank)) / np.sqrt(self.rank)
        self.y = np.zeros(form.rhs.size)
        self.sigma = 4.0 * float(self.weight.mean())
        self.best, self.best_y = np.inf, self.y
        self.history: list[Record] = []

    def run(self) -> RankTwoResult:
        status, last = Status.ITERATION_LIMIT, np.inf
        try:
            for index in range(self.options.rounds):
                self._ascend()
                violation = self._update()
                stop = self._report(index, violation)
                if stop is not None:
                    status = stop
                    break
                if violation > 0.6 * last:
                    self.sigma *= 1.5
                last = violation
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return self._result(status)

    def _vectors(self, R: Floats) -> tuple[Floats, Floats]:
        """Rows of fixed length, and the lengths they had."""
        norm = np.linalg.norm(R, axis=1)
        norm[norm == 0] = 1.0
        V = np.where(self.fixed[:, None], R * (self.length / norm)[:, None], R)
        return V, norm

    def _excess(self, V: Floats) -> Floats:
        """A(V V') - b for the rows of the augmented Lagrangian, 0 for the others."""
        form = self.form
        images = np.vstack([V, form.dense.T @ V])
        atoms = np.einsum("ij,ij->i", images[form.first], images[form.second])
        return np.where(self.free, form.rows @ atoms - form.rhs, 0.0)

    def _pressure(self, excess: Floats) -> Floats:
        y = self.y + self.sigma * excess
        return np.where(self.unequal, np.maximum(y, 0.0), y) * self.free

    def _transport(self, y: Floats, V: Floats) -> Floats:
        """A*(y) V without forming A*(y)."""
        form, n, d = self.form, self.form.size, self.form.dense.shape[1]
        weights = form.rows.T @ y
        core = sp.csr_matrix((weights / 2, (form.first, form.second)), shape=(n + d, n + d))
        images = np.vstack([V, form.dense.T @ V])
        result = core @ images + core.T @ images
        return np.asarray(result[:n] + form.dense @ result[n:])

    def _ascend(self) -> None:
        """L-BFGS on the augmented Lagrangian over R."""
        size = self.R.shape

        def negative(flat: Floats) -> tuple[float, Floats]:
            if time.perf_counter() - self.begin > 0.97 * self.options.time_limit:
                raise _OutOfTime
            V, norm = self._vectors(flat.reshape(size))
            y = self._pressure(self._excess(V))
            image = self.form.objective.times(V)
            value = float(np.vdot(image, V)) - (float(y @ y) - float(self.y @ self.y)) / (2 * self.sigma)
            slope = 2.0 * (image - self._transport(y, V))
            inward = np.einsum("ij,ij->i", slope, V) / np.maximum(self.length, 1e-300) ** 2
            tangent = (slope - inward[:, None] * V) * (self.length / norm)[:, None]
            slope = np.where(self.fixed[:, None], tangent, slope)
            self.R = V
            return -value / self.scale, -slope.ravel() / self.scale

        self.scale = float(self.weight.sum())
        try:
            found = minimize(
                negative,
                self.R.ravel(),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.options.inner, "maxcor": 15},
            )
            self.R = self._vectors(found.x.reshape(size))[0]
        except _OutOfTime:
            pass

    def _update(self) -> float:
        excess = self._excess(self.R)
        violation = np.where(self.unequal, np.maximum(excess, -self.y / self.sigma), excess)
        self.y = self._pressure(excess)
        return float(np.linalg.norm(violation) / (1.0 + np.linalg.norm(self.form.rhs)))

    def _feasible(self) -> tuple[Floats, float]:
        """Dual feasible multipliers from the current ones: only the diagonal ones are recomputed."""
        form = self.form
        y = self.y.copy()
        y[self.row] = 0.0
        S = dual_matrix(form, y)
        weight = self._stationary(S)
        low = lowest_eigenvalue(S, 1.0 / np.sqrt(weight))
        y[self.row] = weight * max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        return y, float(form.rhs @ y)

    def _stationary(self, S: Bordered, sweeps: int = 25) -> Floats:
        """Diagonal multipliers at fixed y: sweeps v_i <- normalise(-(S v)_i + |(S v)_i| v_i) from the vectors found."""
        V = self.R / np.maximum(np.linalg.norm(self.R, axis=1), 1e-12)[:, None]
        weight = np.ones(len(V))
        for _ in range(sweeps):
            image = -(S.times(V * self.length[:, None]))
            weight = np.linalg.norm(image, axis=1) / np.maximum(self.length, 1e-12)
            image += (np.linalg.norm(image, axis=1))[:, None] * V
            V = image / np.maximum(np.linalg.norm(image, axis=1), 1e-300)[:, None]
        return np.asarray(np.maximum(weight, 1e-3 * weight.mean() + 1e-300))

    def _report(self, index: int, violation: float) -> Status | None:
        scale, form = self.form.value_scale, self.form
        y, dual = self._feasible()
        if dual < self.best:
            self.best, self.best_y = dual, self._given(y)
        primal = float(np.vdot(form.objective.times(self.R), self.R))
        gap = abs(self.best - primal) / max(abs(primal), abs(self.best), 1e-3)
        seconds = time.perf_counter() - self.begin
        record = Record(index, seconds, scale * primal, scale * self.best, violation, 0.0, gap)
        self.history.append(record)
        seen = Progress(index, seconds, record.primal, record.dual, violation, 0.0, gap, self.best_y)
        if self.callback is not None and self.callback(seen):
            return Status.INTERRUPTED
        if max(gap, violation) < self.options.tolerance:
            return Status.OPTIMAL
        return Status.TIME_LIMIT if seconds > 0.9 * self.options.time_limit else None

    def _given(self, y: Floats) -> Floats:
        given = self.form.multipliers(y)
        return np.where(self.unequal, np.maximum(given, 0.0), given)

    def _result(self, status: Status) -> RankTwoResult:
        last = self.history[-1] if self.history else Record(0, 0.0, -np.inf, np.inf, np.inf, 0.0, np.inf)
        dual = self.best * self.form.value_scale
        seconds = time.perf_counter() - self.begin
        return RankTwoResult(
            self.best_y, None, last.primal, dual, last.gap, status, len(self.history), seconds, tuple(self.history)
        )  # fmt: skip
