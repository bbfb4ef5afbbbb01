"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

from dataclasses import replace

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket, BracketView
from lipcert.method.cases import CaseSolves
from lipcert.method.lower import MomentRounding
from lipcert.method.planning import FIRST_ORDER_FROM, Step, expected_order, first_order_fits, first_seconds
from lipcert.method.relaxed import Relaxed
from lipcert.method.slopes import Slopes, SlopeSolves, run_slopes
from lipcert.method.solving import CutRounds, OneSolve, OnMoments, Solve, Task, rounds_fit, rounds_need
from lipcert.problem.problem import Problem
from lipcert.relaxation.one_layer import needs_x
from lipcert.relaxation.specification import Specification
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus

SLOPES_BEFORE_TIGHT = 0.3  # share of the budget, at most, for slopes before method tight


class ResumeState:
    """The state that method tight keeps between two turns on the same problem: the solves it has begun, by their class.

    They are solves of the relaxation of the whole network; `cases` is the solve over all cases, if there are some.
    `needs` are the seconds that a turn must have to do more than the last one could; None if no turn can.
    """

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.task: Task | None = None
        self.solves: dict[type[Solve], Solve] = {}
        self.cases: CaseSolves | None = None
        self.needs: float | None = None

    def cases_of(self, problem: Problem) -> CaseSolves:
        """The cases of this problem that are solved already."""
        if problem is not self.problem:
            self.forget()
            self.problem = problem
        return self.cases or CaseSolves()

    def of_task(self, task: Task) -> ResumeState:
        """This state, without what was kept of another relaxation."""
        if self.kept(task.problem, task.specification) is None:
            self.forget()
            self.problem, self.task = task.problem, task
        return self

    def kept(self, problem: Problem, asked: Specification) -> Task | None:
        """The task of the last run, if it has the same rows; None if it has others."""
        known = self.task
        if known is None or problem is not self.problem or asked.reduction is not None:
            return None
        return known if _rows(known.specification) == _rows(asked) else None

    def least(self, budget: Budget) -> float | None:
        """Seconds that the next run takes before it has more; None where it begins anew."""
        if self.needs is not None:
            return self.needs
        kept = self.solves.values() if self.cases is None else [self.cases]
        return next((seconds for solve in kept if (seconds := solve.least(budget)) is not None), None)

    def advance(
        self, kind: type[Solve], task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None
    ) -> SolverStatus:
        """Go on with a solve of this class, or begin one."""
        solve = self.solves.get(kind) or kind()
        status = solve.advance(task, bracket, budget, look)
        self.solves[kind] = solve
        return status


def _rows(asked: Specification) -> tuple[object, ...]:
    return (asked.form, asked.values, asked.wide, asked.exclusions, asked.products)


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: all triangles, all products, or rounds of what a matrix violates."""

    greedy = True

    def __init__(self, slopes: bool = True, state: ResumeState | None = None, parts: bool = False) -> None:
        super().__init__("tight", "hr2 or a lift with rows and cuts that the paper does not have: any network", parts)
        self.slopes = slopes  # whether method slopes comes first, where there is more than one hidden layer
        self.state = state  # where the last run was, for a method that goes on there

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Slopes first, and on with what is left where they had not ended: a lift may not fit the time."""
        covered = self.slopes and problem.network.depth > 1 and Slopes().refusal(problem) is None
        late = _slopes_late(problem, bracket, budget.share(SLOPES_BEFORE_TIGHT)) if covered else None
        super().run(problem, bracket, budget)
        if late is not None and not budget.over() and bracket.status is not Status.INTERRUPTED:
            run_slopes(problem, bracket, budget, late)

    def least(self, problem: Problem, budget: Budget) -> float:
        """Seconds of the first bound of first order where they are not left; else a slice takes what it needs."""
        order = expected_order(problem)
        if not first_order_fits(problem, order, budget):
            return 0.0
        seconds = first_seconds(problem, order, budget)
        return seconds if seconds > budget.left() else 0.0

    def specification(self, problem: Problem, step: Step) -> Specification:
        """Large relaxations are without x where the box reaches every pattern of signs with ease: x costs time then."""
        found = super().specification(problem, step)
        large = found.form == "hr2" and step.whole and step.order >= FIRST_ORDER_FROM
        return replace(found, values=False) if large and not needs_x(problem) else found

    def room(self, problem: Problem, step: Step, budget: Budget) -> Budget:
        """Rounds of first order are kept: a slice may take longer than it was given, the whole call may not."""
        return budget.whole() if step.whole and first_order_fits(problem, step.order, budget) else budget

    def task(self, problem: Problem, specification: Specification, budget: Budget) -> Task:
        known = None if self.state is None else self.state.kept(problem, specification)
        return known or super().task(problem, specification, budget)

    def solve_cases(self, problem: Problem, bracket: Bracket, budget: Budget, look: MomentRounding) -> SolverStatus:
        if self.state is None:
            return super().solve_cases(problem, bracket, budget, look)
        each = Tight(slopes=False, parts=self.parts)  # one case has no cuts of another
        cases = self.state.cases_of(problem)
        status = cases.advance(problem, each, bracket, budget, look)
        self.state.cases = cases
        return status

    def solve(self, task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None) -> SolverStatus:
        """Rounds of first order where the relaxation is large; else rounds of cuts, or one solve, whichever fits."""
        from lipcert.method.first_order import FirstOrder  # here, so that importing lipcert stays fast

        solver, whole = bracket.settings.solver, task.specification.reduction is None
        state = self.state.of_task(task) if whole and self.state is not None else ResumeState()
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


def _slopes_late(problem: Problem, bracket: Bracket, budget: Budget) -> SlopeSolves | None:
    """Run method slopes within this budget; None if it came to its end or could not begin."""
    work = run_slopes(problem, bracket, budget)
    late = bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
    bracket.clear_limit()
    return work if late else None
