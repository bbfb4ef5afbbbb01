"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

import math
from dataclasses import replace

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket, BracketView
from lipcert.method.planning import FIRST_ORDER_FROM, Step, first_order_fits
from lipcert.method.relaxed import Relaxed
from lipcert.method.resume import ResumeState
from lipcert.method.slopes import AnySolves, Slopes, run_slopes
from lipcert.method.solving import CutRounds, OneSolve, OnMoments, Task, rounds_fit, rounds_need
from lipcert.problem.problem import Problem
from lipcert.relaxation.one_layer import needs_x
from lipcert.relaxation.specification import Specification
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus

SLOPES_BEFORE_TIGHT = 0.3  # share of the budget, at most, for slopes before method tight


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: triangles in rounds of first order, or rounds of what a matrix violates."""

    greedy = True

    def __init__(
        self,
        slopes: bool = True,
        state: ResumeState | None = None,
        parts: bool = False,
        most: float = math.inf,
    ) -> None:
        summary = "hr2 or a lift with rows and cuts that the paper does not have: any network"
        super().__init__("tight", summary, parts, state, most)
        self.slopes = slopes  # whether method slopes comes first, where there is more than one hidden layer

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Slopes first, and on with what is left where they had not ended: a lift may not fit the time."""
        covered = self.slopes and problem.network.depth > 1 and Slopes().refusal(problem) is None
        late = _slopes_late(problem, bracket, budget.share(SLOPES_BEFORE_TIGHT)) if covered else None
        super().run(problem, bracket, budget)
        if late is not None and not budget.over() and bracket.status is not Status.INTERRUPTED:
            run_slopes(problem, bracket, budget, late)

    def of_one_case(self) -> Relaxed:
        return Tight(slopes=False, parts=self.parts, most=self.most)

    def specification(self, problem: Problem, step: Step) -> Specification:
        """Large relaxations are without x where the box reaches every pattern of signs with ease: x costs time then."""
        found = super().specification(problem, step)
        large = found.form == "hr2" and step.whole and step.order >= FIRST_ORDER_FROM
        return replace(found, values=False) if large and not needs_x(problem) else found

    def room(self, problem: Problem, step: Step, budget: Budget) -> Budget:
        """Rounds of first order are kept: a slice may take longer than it was given, the whole call may not."""
        return budget.whole() if step.whole and first_order_fits(problem, step.order, budget) else budget

    def solve(self, task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None) -> SolverStatus:
        """Rounds of first order where the relaxation is large; else rounds of cuts, or one solve, whichever fits."""
        from lipcert.method.first_order import FirstOrder  # here, so that importing lipcert stays fast

        solver, whole = bracket.settings.solver, task.specification.reduction is None
        state = self.kept(task)
        state.needs = None
        if whole and solver == "auto" and first_order_fits(task.problem, task.order, budget):
            return state.advance(FirstOrder, task, bracket, budget, look)
        stopped = state.solves.get(OneSolve)
        if CutRounds in state.solves or (
            (stopped is None or stopped.least(budget) is None) and rounds_fit(task, solver, budget)
        ):
            return state.advance(CutRounds, task, bracket, budget, look)
        status = state.advance(OneSolve, task, bracket, budget, look)
        again = state.solves[OneSolve].least(budget)
        state.needs = rounds_need(task, solver, budget) if again is None else again
        return status


def _slopes_late(problem: Problem, bracket: Bracket, budget: Budget) -> AnySolves | None:
    """Run method slopes within this budget; None if it came to its end or could not begin."""
    work = run_slopes(problem, bracket, budget)
    late = bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
    bracket.clear_limit()
    return work if late else None
