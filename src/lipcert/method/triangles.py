"""All triangles of signs, for one hidden layer without x: the road from a working list to a certificate.

The low-rank method finds multipliers of the triangles (`solver.triangles`); at fixed multipliers the rest is a problem
over unit vectors, whose multipliers are feasible after one eigenvalue. Whatever they are, a bound is what the
certificate code proves; the positive triangles are cuts of the certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.budget.threads import threads_for
from lipcert.method.products import products_fit, without_x_if_idle
from lipcert.method.solving import Task, proof_seconds
from lipcert.proof import Certificate
from lipcert.relaxation.triangles import triangle_rows
from lipcert.solver import Progress, Status
from lipcert.solver.triangles import Dual, TriangleOptions, TriangleRun, TriangleStart

_LOOK_SHARE = 0.12  # of the time may go into bounds on the way
_LOOK_STEPS, _LAST_STEPS = 300, 1000  # of polishing the vectors before a bound
_GAIN = 1e-3  # in a bound that is worth a proof on the way
_LAST_PROOFS = 12.0  # proofs whose time the last bound takes, at most


@dataclass(frozen=True, eq=False)
class Tightened:
    """How a run ended, and what a run on a similar problem may start from."""

    status: Status
    start: TriangleStart | None


def triangles_fit(task: Task, solver: str, seconds: float) -> bool:
    """Whether the task is one over signs alone, of an order that rounds of cuts cannot do, and the time is enough."""
    return products_fit(task, solver, seconds) and _only_signs(without_x_if_idle(task))


def _only_signs(task: Task) -> bool:
    """X_ii = 1 for every entry of y, and no other row."""
    problem = task.relaxation.problem
    if problem.rows != problem.size or "w" in task.relaxation.space.slices:
        return False
    own = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
    return bool(np.all(problem.ia == problem.ib) and np.all(problem.rhs == 1.0) and len(set(own)) == problem.size)


def solve_triangles(
    task: Task,
    seconds: float,
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
    start: TriangleStart | None = None,
    options: TriangleOptions = TriangleOptions(),  # noqa: B008 - frozen
) -> Tightened:
    """Bounds with triangles, for at most about `seconds`; every certificate on the way goes to `on_certificate`."""
    entered = time.monotonic()
    task = without_x_if_idle(task)
    if not _only_signs(task):
        return Tightened(Status.OPTIMAL, None)
    road = _Road(task, entered + seconds, on_certificate, on_iteration, enough)
    return road.run(TriangleRun(task.relaxation.problem.objective.toarray(), options, start))


class _Road:
    """One call: the clock and the best bound."""

    def __init__(
        self,
        task: Task,
        end: float,
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        enough: Callable[[], bool],
    ) -> None:
        self.task, self.enough = task, enough
        self.on_certificate, self.on_iteration = on_certificate, on_iteration
        self.begin = time.monotonic()
        last = min(_LAST_PROOFS * proof_seconds(task.relaxation.problem.size), 0.4 * (end - self.begin))
        self.latest = end - last
        self.best, self.spent = np.inf, 0.0

    def run(self, run: TriangleRun) -> Tightened:
        going = True
        while going and not self.enough():
            late = self.latest - time.monotonic()
            run.deadline = time.perf_counter() + late
            with threads_for(1):  # thin products: a second thread only waits
                going = late > 0 and run.advance()
            self._show(run)
            if going and run.settled and self.spent <= _LOOK_SHARE * (time.monotonic() - self.begin):
                clock = time.monotonic()
                self._keep(run.dual(_LOOK_STEPS), 1 - _GAIN)
                self.spent += time.monotonic() - clock
        ended = Status.TIME_LIMIT if time.monotonic() > self.latest else Status.OPTIMAL
        self._keep(run.dual(_LAST_STEPS), 1.0)
        return Tightened(ended, run.start())

    def _show(self, run: TriangleRun) -> None:
        if self.on_iteration is not None:
            primal, seconds = run.primal(), time.monotonic() - self.begin
            gap = abs(self.best - primal) / max(abs(primal), 1e-3)
            self.on_iteration(Progress(run.round, seconds, primal, self.best, run.violation, 0.0, gap, run.base))

    def _keep(self, dual: Dual, worth: float) -> None:
        if not dual.value < self.best * worth:
            return
        relaxation = self.task.relaxation
        problem = relaxation.problem
        cuts, values, diagonal = triangle_rows(relaxation, dual.triangles, dual.g, dual.d)
        own = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
        cut = self.task.with_cuts(cuts)
        with threads_for(problem.size):
            certificate = cut.prove(np.concatenate([diagonal[own], values]))
        self.best = min(self.best, certificate.upper)
        self.on_certificate(certificate)
