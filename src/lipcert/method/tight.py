"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

from lipcert import policy
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.relaxed import Relaxed
from lipcert.method.result import Status
from lipcert.method.slopes import Slopes, Work, run_slopes
from lipcert.method.solving import OnMoments, Task, rounds_fit, solve, tighten
from lipcert.problem.problem import Problem
from lipcert.solver import Status as SolverStatus


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: all triangles, all products, or rounds of what a matrix violates."""

    greedy = True

    def __init__(self, slopes: bool = True) -> None:
        super().__init__("tight", "hr2 or a lift with rows and cuts that the paper does not have: any network")
        self.slopes = slopes  # whether method slopes comes first, where there is more than one hidden layer

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Slopes first, and on with what is left where they had not ended: a lift may not fit the time."""
        covered = self.slopes and problem.network.depth > 1 and Slopes().applies(problem) is None
        late = _slopes_late(problem, bracket, budget.share(policy.SLOPES_BEFORE_TIGHT)) if covered else None
        super().run(problem, bracket, budget)
        if late is not None and not budget.over() and bracket.status is not Status.INTERRUPTED:
            run_slopes(problem, bracket, budget, late)

    def solve(self, task: Task, bracket: Bracket, budget: Budget, look: OnMoments | None) -> SolverStatus:
        from lipcert.method.products import products_fit, solve_products  # here, so that importing lipcert stays fast
        from lipcert.method.triangles import solve_triangles, triangles_fit

        solver, whole = bracket.wishes.solver, task.specification.reduction is None
        if whole and triangles_fit(task, solver, budget):
            return solve_triangles(task, bracket, budget).status
        if whole and products_fit(task, solver, budget):
            return solve_products(task, bracket, budget).status
        if rounds_fit(task, solver, budget):
            return tighten(task, bracket, budget, look)
        return solve(task, bracket, budget, look)


def _slopes_late(problem: Problem, bracket: Bracket, budget: Budget) -> Work | None:
    """Method slopes within this budget; None where it came to its end, or could not begin."""
    work = run_slopes(problem, bracket, budget)
    late = bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
    bracket.go_on()
    return work if late else None
