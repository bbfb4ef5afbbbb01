"""First-order bounds of a large relaxation: rounds are kept between slices of time, and each slice ends with a proof.

The rounds (`solver.first_order`) find multipliers of the relaxation's rows and of triangles of signs; triangles with
positive multipliers are cuts of the certificate. Whatever the rounds return, a bound is what the proof room proves.
"""

from __future__ import annotations

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import BracketView
from lipcert.method.solving import OnMoments, Task, proved
from lipcert.relaxation.model import is_sign
from lipcert.relaxation.triangles import triangle_rows
from lipcert.rounding import Array
from lipcert.solver import Progress, Status
from lipcert.solver.first_order import Dual, FirstOrderOptions, FirstOrderRun

# Measured on SDP-NN; docs/experiments/triangles.md.
LOOK_SHARE = 0.25  # share of the time that may go into bounds on the way
LEAST_STEPS, MOST_STEPS = 60, 400  # steps of the climb before a bound
FIRST_ROUNDS = 2  # rounds before the first bound: after one it is a tenth worse, and each takes a third of a bound
GAIN = 3e-4  # relative gain that is worth a proof on the way


class FirstOrder:
    """Rounds within the budget and a bound at its end; the next call goes on from the last vectors and multipliers."""

    def __init__(self, options: FirstOrderOptions | None = None) -> None:
        self.options = options or FirstOrderOptions()
        self.run: FirstOrderRun | None = None
        self.best = self.dual = np.inf  # the best bound of these rounds, proved, and promised
        self.seconds = 0.0  # that the last bound took

    def least(self, budget: Budget) -> float | None:  # noqa: ARG002 - as every kept solve says it
        """Seconds of a bound, and of rounds that take as long as it; None before the first."""
        return None if self.run is None else 2.0 * self.seconds

    def advance(
        self, task: Task, bracket: BracketView, budget: Budget, on_moments: OnMoments | None = None, /
    ) -> Status:
        """As every `Solve`."""
        begin, looked = budget.now(), 0.0
        with threads_for(1):  # thin products: a second thread only waits
            if self.run is None:
                self.run = _begun(task, budget, self.options)
                while self.run.round < FIRST_ROUNDS and self.run.advance(budget.whole()):
                    pass
            run, going, settled = self.run, True, self.run.round
            while going and not bracket.closed() and budget.left() > self.seconds:
                going = run.advance(budget.upto(budget.left() - self.seconds))
                self._report(bracket, budget.now() - begin)
                worth = run.settled or run.round >= 2 * settled  # before a list changes, or the rounds have doubled
                if going and worth and looked <= LOOK_SHARE * (budget.now() - begin):
                    settled, before = max(run.round, 1), budget.now()
                    self._bound(task, bracket, budget, 1 - GAIN)
                    looked += budget.now() - before
            if not bracket.closed():
                self._bound(task, bracket, budget, 1.0)
        if on_moments is not None and not bracket.closed():
            on_moments(task.relaxation, run.moments())
        return Status.OPTIMAL if run.done else Status.TIME_LIMIT

    def _report(self, bracket: BracketView, seconds: float) -> None:
        """Report a round, with its gap to the best bound."""
        run = self.run
        assert run is not None
        primal = run.primal()
        gap = abs(self.best - primal) / max(abs(primal), 1e-3)
        bracket.iterate(Progress(run.round, seconds, primal, self.best, run.violation, 0.0, gap, run.y))

    def _bound(self, task: Task, bracket: BracketView, budget: Budget, worth: float) -> None:
        """A certificate from the multipliers as they are, if it gains."""
        run, before = self.run, budget.now()
        assert run is not None
        dual = run.dual(self._steps())
        self.dual = min(self.dual, dual.value)
        if dual.value < self.best * worth:
            cut, multipliers = with_triangles(task, run, dual)
            with threads_for(task.order):
                certificate = proved(cut, multipliers, budget)
            self.best = min(self.best, certificate.upper)
            bracket.improve(certificate)
        self.seconds = budget.now() - before

    def _steps(self) -> int:
        """More steps before a bound the more rounds there were: their multipliers are worth it."""
        run = self.run
        assert run is not None
        return int(np.clip(LEAST_STEPS * (1 + run.round / 8), LEAST_STEPS, MOST_STEPS))


def _begun(task: Task, budget: Budget, options: FirstOrderOptions) -> FirstOrderRun:
    signs = np.zeros(task.order, dtype=bool)
    for name, where in task.relaxation.space.slices.items():
        signs[where] = is_sign(name)
    return FirstOrderRun(task.relaxation.problem, signs, budget, options)


def with_triangles(task: Task, run: FirstOrderRun, dual: Dual) -> tuple[Task, Array]:
    """The task with the triangles as cuts, and the multipliers of all its rows."""
    cuts, values, corners = triangle_rows(task.relaxation, dual.triangles, dual.g, np.zeros(task.order))
    y = dual.y.copy()
    y[run.rows.own] += corners
    return task.cut(cuts), np.concatenate([y, values])
