"""ResumeState: the state of a relaxation between two turns, so that the next one goes on instead of beginning anew."""

from __future__ import annotations

import math

from lipcert.budget import Budget
from lipcert.method.bracket import BracketView
from lipcert.method.cases import CaseSolves
from lipcert.method.planning import Step
from lipcert.method.solving import OneSolve, OnMoments, Solve, Task
from lipcert.problem.problem import Problem
from lipcert.solver import Status


class StepState:
    """One relaxation: its task, the solves that were begun, by their class, and how the last one ended.

    `needs` are the seconds that a turn must have to do more than the last one could; None if no turn can.
    """

    def __init__(self) -> None:
        self.task: Task | None = None
        self.solves: dict[type[Solve], Solve] = {}
        self.needs: float | None = None
        self.status: Status | None = None

    @property
    def ended(self) -> bool:
        """Whether another turn would change nothing."""
        return self.status not in (None, Status.TIME_LIMIT) and self.needs is None

    def least(self, budget: Budget) -> float | None:
        """Seconds that the next turn takes before it has more; None where it begins anew."""
        if self.needs is not None:
            return self.needs
        kept = (solve.least(budget) for solve in self.solves.values())
        return next((seconds for seconds in kept if seconds is not None), None)

    def advance(
        self, kind: type[Solve], task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None
    ) -> Status:
        """Go on with a solve of this class, or begin one."""
        solve = self.solves.get(kind) or kind()
        self.solves[kind] = solve
        self.status = solve.advance(task, bracket, budget, look)
        return self.status


class ResumeState:
    """All relaxations of the whole network that a method has begun on a problem; `cases` where it has some.

    The lift of a whole map without signs is one of them, and the one with signs is another.
    """

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.steps: dict[bool, StepState] = {}  # by whether slopes have variables of their own
        self.cases: CaseSolves | None = None

    @property
    def dual(self) -> float:
        """The bound that the best multipliers so far promise, proved or not."""
        solves = (solve for step in self.steps.values() for solve in step.solves.values())
        return min((solve.dual for solve in solves), default=math.inf)

    @property
    def waits(self) -> bool:
        """Whether a longer turn could do more than the last one."""
        return any(step.needs is not None for step in self.steps.values())

    def cases_of(self, problem: Problem) -> CaseSolves:
        """The cases of this problem that are solved already."""
        self._about(problem)
        self.cases = self.cases or CaseSolves()
        return self.cases

    def task(self, problem: Problem, step: Step) -> Task | None:
        """The task of a step that was begun."""
        self._about(problem)
        known = self.steps.get(step.signs) if step.reduction is None else None
        return None if known is None else known.task

    def begin(self, task: Task, step: Step) -> None:
        """Keep the task of a step of the whole network."""
        if step.reduction is None:
            self.steps.setdefault(step.signs, StepState()).task = task

    def of_task(self, task: Task) -> StepState:
        """The state of a relaxation, new where none was kept."""
        self._about(task.problem)
        kept = next((step for step in self.steps.values() if step.task is task), None)
        if kept is None:
            kept = StepState()
            kept.task = task
        return kept

    def ended(self, problem: Problem, step: Step) -> bool:
        """Whether another turn on this step would change nothing."""
        known = self.steps.get(step.signs) if problem is self.problem and step.reduction is None else None
        return known is not None and known.ended

    def least(self, budget: Budget) -> float | None:
        """Seconds that the next run takes before it has more; None where it begins anew."""
        if self.cases is not None:
            return self.cases.least(budget)
        kept = (step.least(budget) for step in self.steps.values() if not step.ended)
        return next((seconds for seconds in kept if seconds is not None), None)

    def ahead(self, budget: Budget) -> float:
        """Seconds that solves which go on need to their next result."""
        solves = (solve for step in self.steps.values() if not step.ended for solve in step.solves.values())
        return max((solve.ahead(budget) for solve in solves if isinstance(solve, OneSolve)), default=0.0)

    def _about(self, problem: Problem) -> None:
        if problem is not self.problem:
            self.forget()
            self.problem = problem
