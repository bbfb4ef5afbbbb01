"""The largest of several constants (`proof.cases`): cheap bounds for all, then a relaxation where it can decide.

The problem with the largest bound is solved next. It is done when its bound falls to what another problem, or a
witness, keeps the answer at anyway; everything is done when no open problem is above that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from lipcert.budget.threads import threads_for
from lipcert.method.solving import Task, proof_fits, rounds_fit, solve, tighten
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, Multipliers
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.solver import Progress, Status

OnCase = Callable[[Relaxation, Array, Array], None]  # a relaxation, its moment matrix, and the outputs' weights

_SHARE = 0.25  # of the time left, at most, for one problem
_LEAST = 1.0  # seconds for one problem, where half of the time left is as much
_MOST = 1000  # problems that are solved: a certificate's file has room for them
_CLOSED = 1e-6


def solve_cases(
    problem: Problem,
    method: str,
    solver: str,
    seconds: float,
    lower: Callable[[], float],
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    on_moments: OnCase | None = None,
) -> Status:
    """Bounds for at most about `seconds`; every gain goes to `on_certificate` as a proof of the largest of all."""
    run = _Run(problem, method, solver, lower, on_certificate, on_iteration, on_moments)
    return run.all(time.monotonic() + seconds)


class _Run:
    """One call: the bounds of all problems, and the proofs so far."""

    def __init__(
        self,
        problem: Problem,
        method: str,
        solver: str,
        lower: Callable[[], float],
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        on_moments: OnCase | None,
    ) -> None:
        self.on_moments = on_moments
        self.problem, self.method, self.solver = problem, method, solver
        self.lower, self.on_certificate, self.on_iteration = lower, on_certificate, on_iteration
        self.table = case_table(problem)
        self.bounds = self.table.copy()
        self.open = np.ones(self.table.shape, dtype=bool)
        self.proved: dict[tuple[int, int], ProvedCase] = {}

    @property
    def floor(self) -> float:
        """What the answer cannot fall below: a witness, or a problem that is done."""
        done = self.bounds[~self.open]
        return max(self.lower(), float(done.max(initial=0.0)))

    def all(self, end: float) -> Status:
        late = False
        while np.any(self.open) and len(self.proved) < _MOST:
            candidates = np.where(self.open, self.bounds, -1.0)
            row, column = (int(k) for k in np.unravel_index(np.argmax(candidates), candidates.shape))
            if candidates[row, column] <= self.floor * (1 + _CLOSED):
                return Status.OPTIMAL
            left = end - time.monotonic()
            if left <= 0:
                return Status.TIME_LIMIT
            status = self._one(row, column, left if np.count_nonzero(self.open) == 1 else _SHARE * left, end)
            if status is Status.INTERRUPTED:
                return status
            late = late or status is Status.TIME_LIMIT
            self.open[row, column] = False
        return Status.TIME_LIMIT if late else Status.OPTIMAL

    def _one(self, row: int, column: int, seconds: float, end: float) -> Status:
        begin = time.monotonic()
        task = Task.of(case_of(self.problem, row, column), self.method)
        relaxation = task.relaxation
        left = end - time.monotonic()
        seconds = max(seconds - (time.monotonic() - begin), min(_LEAST, left / 2))
        if not proof_fits(relaxation.problem.size, seconds):
            return Status.TIME_LIMIT

        def keep(certificate: Certificate) -> None:
            self._keep(row, column, certificate)

        def enough() -> bool:
            return bool(self.bounds[row, column] <= self.floor * (1 + _CLOSED))

        def look(relaxation: Relaxation, X: Array) -> None:
            if self.on_moments is not None:
                self.on_moments(relaxation, X, task.problem.c)

        with threads_for(relaxation.problem.size):
            if self.method == "tight" and rounds_fit(task, self.solver, seconds):
                return tighten(task, self.solver, seconds, keep, self.on_iteration, look, enough)
            return solve(task, self.solver, seconds, keep, self.on_iteration, look)

    def _keep(self, row: int, column: int, certificate: Certificate) -> None:
        if not certificate.upper < self.bounds[row, column]:
            return
        self.bounds[row, column] = certificate.upper
        assert isinstance(certificate.proof, Multipliers)
        self.proved[row, column] = ProvedCase(row, column, certificate.proof, certificate.upper)
        self.on_certificate(prove_cases(self.problem, self.method, self.table, tuple(self.proved.values())))
