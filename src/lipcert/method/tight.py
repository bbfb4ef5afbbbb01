"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

import math

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket, BracketView
from lipcert.method.relaxed import Relaxed
from lipcert.method.resume import ResumeState
from lipcert.method.slopes import Slopes, SlopeSolves, run_slopes
from lipcert.method.solving import CutRounds, OneSolve, OnMoments, Task, rounds_fit, rounds_need
from lipcert.problem.problem import Problem
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus

SLOPES_BEFORE_TIGHT = 0.3  # share of the budget, at most, for slopes before method tight


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: all triangles, all products, or rounds of what a matrix violates."""

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

    def solve(self, task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None) -> SolverStatus:
        """All triangles, all products, rounds of cuts, or one solve, by what fits the budget."""
        # Imported here, so that importing lipcert stays fast.
        from lipcert.method.one_layer import AllProducts, AllTriangles, products_fit, products_need, triangles_fit

        solver, whole = bracket.settings.solver, task.specification.reduction is None
        state = self.kept(task)
        state.needs = None
        if whole and triangles_fit(task, solver, budget):
            return state.advance(AllTriangles, task, bracket, budget, look)
        if whole and products_fit(task, solver, budget):
            return state.advance(AllProducts, task, bracket, budget, look)
        stopped = state.solves.get(OneSolve)
        if CutRounds in state.solves or (
            (stopped is None or stopped.least(budget) is None) and rounds_fit(task, solver, budget)
        ):
            status = state.advance(CutRounds, task, bracket, budget, look)
            if status is SolverStatus.OPTIMAL:
                state.needs = products_need(task, solver, budget) if whole else None
            return status
        status = state.advance(OneSolve, task, bracket, budget, look)
        again = state.solves[OneSolve].least(budget)
        state.needs = rounds_need(task, solver, budget) if again is None else again
        return status


def _slopes_late(problem: Problem, bracket: Bracket, budget: Budget) -> SlopeSolves | None:
    """Run method slopes within this budget; None if it came to its end or could not begin."""
    work = run_slopes(problem, bracket, budget)
    late = bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
    bracket.clear_limit()
    return work if late else None
