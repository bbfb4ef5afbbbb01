"""All triangles of signs, for one hidden layer without x: the road from a working list to a certificate.

The low-rank method finds multipliers of the triangles (`solver.triangles`); at fixed multipliers the rest is a problem
over unit vectors, whose multipliers are feasible after one eigenvalue. Whatever they are, a bound is what the proof
room proves; the positive triangles are cuts of the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import Bracket
from lipcert.method.products import products_fit, without_x_if_idle
from lipcert.method.solving import Task, proof_operations, proved
from lipcert.relaxation.triangles import triangle_rows
from lipcert.solver import Progress, Status
from lipcert.solver.triangles import Dual, TriangleOptions, TriangleRun, TriangleStart

# Measured on SDP-NN; docs/experiments.
TRIANGLES_LOOK_SHARE = 0.12  # share of the work that may go into bounds on the way
TRIANGLES_LOOK_STEPS, TRIANGLES_LAST_STEPS = 300, 1000  # polishing steps on the vectors before a bound
TRIANGLES_GAIN = 1e-3  # relative gain that is worth a proof on the way
TRIANGLES_LAST_PROOFS = 12.0  # the last bound takes at most the time of so many proofs


@dataclass(frozen=True, eq=False)
class Tightened:
    """How a run ended, and what a run on a similar problem may start from."""

    status: Status
    start: TriangleStart | None


def triangles_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether the task is one over signs alone, of an order that rounds of cuts cannot do, and the budget is enough."""
    return products_fit(task, solver, budget) and _only_signs(without_x_if_idle(task))


def _only_signs(task: Task) -> bool:
    """X_ii = 1 for every entry of y, and no other row."""
    problem = task.relaxation.problem
    if problem.rows != problem.size or "w" in task.relaxation.space.slices:
        return False
    own = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
    return bool(np.all(problem.ia == problem.ib) and np.all(problem.rhs == 1.0) and len(set(own)) == problem.size)


def solve_triangles(
    task: Task,
    bracket: Bracket,
    budget: Budget,
    start: TriangleStart | None = None,
    options: TriangleOptions = TriangleOptions(),  # noqa: B008 - frozen
) -> Tightened:
    """Bounds with triangles within the budget; every certificate on the way improves the bracket."""
    task = without_x_if_idle(task)
    if not _only_signs(task):
        return Tightened(Status.OPTIMAL, None)
    road = _Road(task, bracket, budget)
    return road.run(TriangleRun(task.relaxation.problem.objective.toarray(), budget, options, start))


class _Road:
    """One call: the best bound, and how long the last one takes."""

    def __init__(self, task: Task, bracket: Bracket, budget: Budget) -> None:
        self.task, self.bracket, self.budget = task, bracket, budget
        self.begin, self.total = budget.now(), budget.left()
        self.best, self.spent = np.inf, 0.0

    def _last(self) -> float:
        """Seconds that the last bound must have."""
        proof = self.budget.expected(proof_operations(self.task.order))
        return min(TRIANGLES_LAST_PROOFS * proof, 0.4 * self.total)

    def run(self, run: TriangleRun) -> Tightened:
        going = True
        while going and not self.bracket.closed():
            left = self.budget.left() - self._last()
            with threads_for(1):  # thin products: a second thread only waits
                going = left > 0 and run.advance(self.budget.upto(left))
            self._show(run)
            elapsed = self.budget.now() - self.begin
            if going and run.settled and self.spent <= TRIANGLES_LOOK_SHARE * elapsed:
                clock = self.budget.now()
                self._keep(run.dual(TRIANGLES_LOOK_STEPS), 1 - TRIANGLES_GAIN)
                self.spent += self.budget.now() - clock
        ended = Status.TIME_LIMIT if self.budget.left() <= self._last() else Status.OPTIMAL
        self._keep(run.dual(TRIANGLES_LAST_STEPS), 1.0)
        return Tightened(ended, run.start())

    def _show(self, run: TriangleRun) -> None:
        primal, seconds = run.primal(), self.budget.now() - self.begin
        gap = abs(self.best - primal) / max(abs(primal), 1e-3)
        self.bracket.iterate(Progress(run.round, seconds, primal, self.best, run.violation, 0.0, gap, run.base))

    def _keep(self, dual: Dual, worth: float) -> None:
        if not dual.value < self.best * worth:
            return
        relaxation = self.task.relaxation
        problem = relaxation.problem
        cuts, values, diagonal = triangle_rows(relaxation, dual.triangles, dual.g, dual.d)
        own = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
        with threads_for(problem.size):
            certificate = proved(self.task.cut(cuts), np.concatenate([diagonal[own], values]), self.budget)
        self.best = min(self.best, certificate.upper)
        self.bracket.improve(certificate)
