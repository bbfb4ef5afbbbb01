"""The largest of several constants (`proof.cases`): cheap bounds for all, then a relaxation where it can decide.

The problem with the largest bound is solved next. It is done when its bound falls to what another problem, or a
witness, keeps the answer at anyway; everything is done when no open problem is above that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipcert.bounds.propagation import Interval
from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.solving import Task, proof_fits, rounds_fit, solve, tighten
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.proof.cases import case_norm, case_of, case_table, prove_cases, proved_case
from lipcert.proof.certificate import ProvedCase
from lipcert.proof.relaxed import build
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.solver import Progress, Status

OnCase = Callable[[Relaxation, Array, Array], None]  # a relaxation, its moment matrix, and the outputs' weights

_SHARE = 0.25  # of the time left, at most, for one problem
_LEAST = 1.0  # seconds for one problem, where half of the time left is as much
_MOST = 1000  # problems that are solved: a certificate's file has room for them
_CLOSED = 1e-6


def solve_cases(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    method: str,
    solver: str,
    pre: tuple[Interval, ...],
    budget: Budget,
    lower: Callable[[], float],
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    on_moments: OnCase | None = None,
) -> Status:
    """Bounds within the budget; every gain goes to `on_certificate` as a proof of the largest of all."""
    run = _Run(net, region, norm, c, method, solver, pre, lower, on_certificate, on_iteration, on_moments)
    return run.all(budget)


class _Run:
    """One call: the bounds of all problems, and the proofs so far."""

    def __init__(
        self,
        net: Network,
        region: Region,
        norm: Norm,
        c: Array,
        method: str,
        solver: str,
        pre: tuple[Interval, ...],
        lower: Callable[[], float],
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        on_moments: OnCase | None,
    ) -> None:
        self.on_moments = on_moments
        self.net, self.region, self.norm, self.c, self.method, self.solver = net, region, norm, c, method, solver
        self.pre, self.lower, self.on_certificate, self.on_iteration = pre, lower, on_certificate, on_iteration
        self.table = case_table(net, region, norm, c, pre)
        self.bounds = self.table.copy()
        self.open = np.ones(self.table.shape, dtype=bool)
        self.proved: dict[tuple[int, int], ProvedCase] = {}

    @property
    def floor(self) -> float:
        """What the answer cannot fall below: a witness, or a problem that is done."""
        done = self.bounds[~self.open]
        return max(self.lower(), float(done.max(initial=0.0)))

    def all(self, budget: Budget) -> Status:
        late = False
        while np.any(self.open) and len(self.proved) < _MOST:
            candidates = np.where(self.open, self.bounds, -1.0)
            row, column = (int(k) for k in np.unravel_index(np.argmax(candidates), candidates.shape))
            if candidates[row, column] <= self.floor * (1 + _CLOSED):
                return Status.OPTIMAL
            if budget.over():
                return Status.TIME_LIMIT
            share = 1.0 if np.count_nonzero(self.open) == 1 else _SHARE
            status = self._one(row, column, budget, budget.share(share))
            if status is Status.INTERRUPTED:
                return status
            late = late or status is Status.TIME_LIMIT
            self.open[row, column] = False
        return Status.TIME_LIMIT if late else Status.OPTIMAL

    def _one(self, row: int, column: int, whole: Budget, budget: Budget) -> Status:
        weights, output, coordinate = case_of(self.net, self.norm, self.c, row, column)
        about = (self.net, self.region, case_norm(self.norm), weights)
        relaxation = build(*about, self.method, self.pre, coordinate=coordinate)
        budget = whole.upto(max(budget.left(), min(_LEAST, whole.left() / 2)))
        if not proof_fits(relaxation.problem.size, budget.left()):
            return Status.TIME_LIMIT
        task = Task(*about, relaxation, coordinate=coordinate)

        def keep(certificate: Certificate) -> None:
            self._keep(row, column, output, certificate)

        def enough() -> bool:
            return bool(self.bounds[row, column] <= self.floor * (1 + _CLOSED))

        def look(relaxation: Relaxation, X: Array) -> None:
            if self.on_moments is not None:
                self.on_moments(relaxation, X, weights)

        with threads_for(relaxation.problem.size):
            if self.method == "tight" and rounds_fit(task, self.solver, budget):
                return tighten(task, self.solver, budget, keep, self.on_iteration, look, enough)
            return solve(task, self.solver, budget, keep, self.on_iteration, look)

    def _keep(self, row: int, column: int, output: int, certificate: Certificate) -> None:
        if not certificate.upper < self.bounds[row, column]:
            return
        self.bounds[row, column] = certificate.upper
        self.proved[row, column] = proved_case(certificate, output)
        about = (self.net, self.region, self.norm, self.c, self.method)
        self.on_certificate(prove_cases(*about, self.table, tuple(self.proved.values())))
