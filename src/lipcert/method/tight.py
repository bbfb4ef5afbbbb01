"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.cases import Cases, solve_cases
from lipcert.method.lower import Rounder
from lipcert.method.relaxed import Relaxed
from lipcert.method.slopes import Slopes, Work, run_slopes
from lipcert.method.solving import ROUND_CALLS, OnMoments, Rounds, Task, rounds_fit, rounds_need, solve_on, tighten
from lipcert.problem.problem import Problem
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus
from lipcert.steps import SCALAR

if TYPE_CHECKING:
    from lipcert.solver.grid import GridStart
    from lipcert.solver.result import Paused
    from lipcert.solver.triangles import TriangleStart

SLOPES_BEFORE_TIGHT = 0.3  # share of the budget, at most, for slopes before method tight


class Kept:
    """Where the last run was with a relaxation of the whole network, or with all cases, for the next run on the same
    problem."""

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.forget()

    def forget(self) -> None:
        self.rows: tuple[object, ...] = ()
        self.cases: Cases | None = None
        self.rounds: Rounds | None = None
        self.triangles: TriangleStart | None = None
        self.products: GridStart | None = None
        self.paused: Paused | None = None
        self.needs: float | None = None  # seconds of a run that does more than the last one could

    def cases_of(self, problem: Problem) -> Cases | None:
        """What is known of the cases of this problem."""
        if problem is not self.problem:
            self.forget()
            self.problem = problem
        return self.cases

    def of(self, task: Task) -> Kept:
        """This, without what was kept of another relaxation."""
        told = task.specification
        rows = (told.form, told.values, told.wide, told.exclusions, told.products)
        if task.problem is not self.problem or rows != self.rows:
            self.forget()
            self.problem, self.rows = task.problem, rows
        return self

    def least(self, budget: Budget) -> float | None:
        """Seconds that the next run takes before it has more; None where it begins anew."""
        if self.needs is not None:
            return self.needs
        if self.cases is not None:
            return 0.0 if self.cases.solved.any() else None
        if self.rounds is not None and self.rounds.best < float("inf"):
            return budget.expected(self.rounds.operations) + budget.expected(ROUND_CALLS, SCALAR)
        return None if self.triangles is None and self.products is None else 0.0


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: all triangles, all products, or rounds of what a matrix violates."""

    greedy = True

    def __init__(self, slopes: bool = True, kept: Kept | None = None, parts: bool = False) -> None:
        super().__init__("tight", "hr2 or a lift with rows and cuts that the paper does not have: any network", parts)
        self.slopes = slopes  # whether method slopes comes first, where there is more than one hidden layer
        self.kept = kept  # whether a run goes on where the last one was

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Slopes first, and on with what is left where they had not ended: a lift may not fit the time."""
        covered = self.slopes and problem.network.depth > 1 and Slopes().applies(problem) is None
        late = _slopes_late(problem, bracket, budget.share(SLOPES_BEFORE_TIGHT)) if covered else None
        super().run(problem, bracket, budget)
        if late is not None and not budget.over() and bracket.status is not Status.INTERRUPTED:
            run_slopes(problem, bracket, budget, late)

    def solve_cases(self, problem: Problem, bracket: Bracket, budget: Budget, look: Rounder) -> SolverStatus:
        if self.kept is None:
            return super().solve_cases(problem, bracket, budget, look)
        each = Tight(slopes=False, parts=self.parts)  # one case has no cuts of another
        self.kept.cases = solve_cases(problem, each, bracket, budget, look, self.kept.cases_of(problem))
        return self.kept.cases.status

    def solve(self, task: Task, bracket: Bracket, budget: Budget, look: OnMoments | None) -> SolverStatus:
        from lipcert.method.products import products_fit, products_need, solve_products  # so that importing stays fast
        from lipcert.method.triangles import solve_triangles, triangles_fit

        solver, whole = bracket.wishes.solver, task.specification.reduction is None
        kept = self.kept.of(task) if whole and self.kept is not None else Kept()
        kept.needs = None
        if whole and triangles_fit(task, solver, budget):
            signs = solve_triangles(task, bracket, budget, kept.triangles)
            kept.triangles = signs.start
            return signs.status
        if whole and products_fit(task, solver, budget):
            grid = solve_products(task, bracket, budget, kept.products)
            kept.products = grid.start
            return grid.status
        if kept.rounds is not None or (kept.paused is None and rounds_fit(task, solver, budget)):
            kept.rounds = tighten(task, bracket, budget, look, kept.rounds)
            if kept.rounds.status is SolverStatus.OPTIMAL:
                kept.needs = products_need(task, solver, budget) if whole else None
            return kept.rounds.status
        status, kept.paused = solve_on(task, bracket, budget, look, kept.paused)
        kept.needs = rounds_need(task, solver, budget) if kept.paused is None else kept.paused.least(budget)
        return status


def _slopes_late(problem: Problem, bracket: Bracket, budget: Budget) -> Work | None:
    """Method slopes within this budget; None where it came to its end, or could not begin."""
    work = run_slopes(problem, bracket, budget)
    late = bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
    bracket.go_on()
    return work if late else None
