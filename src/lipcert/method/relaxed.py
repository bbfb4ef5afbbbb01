"""Methods that solve one semidefinite relaxation: the paper's shor and hr2, and the lifts of any depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from lipcert.bounds import cut_short
from lipcert.budget import Budget
from lipcert.budget.memory import NUMBER, in_words
from lipcert.budget.threads import threads_for
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket, BracketView
from lipcert.method.cases import CaseSolves
from lipcert.method.lower import MomentRounding
from lipcert.method.planning import STEP_SHARE, Step, plan, plan_whole, unsigned_step, whole_step
from lipcert.method.resume import ResumeState, StepState
from lipcert.method.solving import (
    OneSolve,
    OnMoments,
    Task,
    build_operations,
    least_numbers,
    proof_fits,
    proof_operations,
)
from lipcert.problem.problem import Problem
from lipcert.relaxation.specification import UNSIGNED, Specification, build, plan_specification
from lipcert.relaxation.specification import refusal as relaxation_refusal
from lipcert.search.progress import Status
from lipcert.solver import Status as SolverStatus
from lipcert.steps import DENSE, RATES

# A solve of more operations takes a second or more; the pace of the machine is measured before it is planned.
_WORTH_CALIBRATING = 1e10

_FAILURES = (ArithmeticError, ValueError, RuntimeError)  # numpy and scipy raise these


class Relaxed(Method):
    """A relaxation of the whole network, or of each case of a norm.

    With `parts` it is one of parts of the network instead. `auto` asks for these where the whole takes long, and for
    no matrix of a larger order than `most`; a user who gives the name of a method gets the whole network.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        parts: bool = False,
        state: ResumeState | None = None,
        most: float = math.inf,
    ) -> None:
        self.name, self.summary, self.parts, self.most = name, summary, parts, most
        self.state = state  # where the last run was, for a method that goes on there

    def refusal(self, problem: Problem) -> str | None:
        return relaxation_refusal(problem, self.name)

    def cost(self, problem: Problem) -> float:
        return self._first(problem).operations / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        if budget.over() or cut_short(problem):  # a checker has better bounds than those: other rows
            bracket.out_of_budget(budget)
            return
        bracket.enter(self.name)
        if self._first(problem).operations > _WORTH_CALIBRATING:
            budget.calibrate()
        look = MomentRounding(problem, bracket, budget)
        if problem.has_cases:
            ended = _guarded(bracket, budget, lambda: self.solve_cases(problem, bracket, budget, look))
            _conclude(ended, bracket, budget)
        else:
            self._steps(problem, bracket, budget, look)

    def _first(self, problem: Problem) -> Step:
        """The first step. For a whole map in one piece tight begins with the lift without signs, nearly as good."""
        plain = self.name == "tight" and problem.whole_map and not problem.has_cases
        return unsigned_step(problem) if plain else whole_step(problem, self.name)

    def solve_cases(self, problem: Problem, bracket: Bracket, budget: Budget, look: MomentRounding) -> SolverStatus:
        """A relaxation of each case that can decide."""
        cases = CaseSolves() if self.state is None else self.state.cases_of(problem)
        return cases.advance(problem, self.of_one_case(), bracket, budget, look)

    def of_one_case(self) -> Relaxed:
        """The method for one case, which keeps nothing: one case has no state of another."""
        return Relaxed(self.name, self.summary, self.parts, most=self.most)

    def solve(self, task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None) -> SolverStatus:
        """One relaxation, of the whole network or of a part or case."""
        return self.kept(task).advance(OneSolve, task, bracket, budget, look)

    def kept(self, task: Task) -> StepState:
        """The state of the solves of this task; a new one where none is kept."""
        whole = self.state is not None and task.specification.reduction is None
        return self.state.of_task(task) if whole and self.state is not None else StepState()

    def planned(self, problem: Problem, budget: Budget) -> list[Step]:
        """The steps, in the order in which to take them."""
        return plan(problem, budget) if self.parts else plan_whole(problem, budget, self.name, self.most)

    def _steps(self, problem: Problem, bracket: Bracket, budget: Budget, look: MomentRounding) -> None:
        """Take the planned steps, each within its share of the budget."""
        steps = self.planned(problem, budget)
        if self.parts and steps:
            bracket.out_of_budget(budget)  # there are larger parts
        elif not self.parts and not any(step.whole for step in steps):
            self._say_why(problem, bracket, budget, bool(steps))
        for step in steps:
            if self.state is not None and self.state.ended(problem, step):
                continue
            if bracket.status is Status.INTERRUPTED or (step is not steps[0] and bracket.closed()):
                return
            last = step is steps[-1]
            share = budget if last else budget.share(STEP_SHARE)
            ended = _guarded(bracket, share, partial(self._one, problem, bracket, share, step, look))
            if last or ended is SolverStatus.INTERRUPTED:
                _conclude(ended, bracket, budget)
            if last and ended is None and not proof_fits(step.order, budget):
                bracket.out_of_budget(budget)

    def _say_why(self, problem: Problem, bracket: Bracket, budget: Budget, others: bool) -> None:
        """Note why the whole network was not planned; `others`: whether other steps were. The memory is named only if
        nothing else forbids the whole."""
        step = whole_step(problem, self.name)
        if step.order > self.most:
            reason = f"order {step.order:,} is beyond {self.most:,}"
        elif budget.holds(step.numbers):
            reason = f"order {step.order:,} takes about {budget.expected(step.operations):.0f} s here"
            bracket.out_of_budget(budget)
        else:
            needed, limit = in_words(NUMBER * step.numbers), in_words(budget.memory.limit)
            reason = f"order {step.order:,} needs about {needed} beside what is there, and the memory limit is {limit}"
            bracket.out_of_memory(self.name, budget, noted=True)
        instead = "; the lift without signs takes its place" if others else ""
        bracket.note(f"{self.name} of the whole left out: {reason}{instead}")

    def _one(
        self, problem: Problem, bracket: Bracket, budget: Budget, step: Step, look: MomentRounding
    ) -> SolverStatus | None:
        """One relaxation of all or of a part of the network; None where its proof does not fit the budget."""
        least, room = 1 if step.whole else step.order, self.room(problem, step, budget)  # building takes time too
        if not self._proof_fits(least, bracket, room, step):
            return None
        task = None if self.state is None else self.state.task(problem, step)
        if task is None:
            specification = self.specification(problem, step)
            with budget.measured(build_operations(step.order)):
                task = Task(problem, specification, build(problem, specification))
        if self.state is not None:
            self.state.begin(task, step)
        if not self._proof_fits(task.proof_order, bracket, room, step):
            return None
        with threads_for(task.order):
            return self.solve(task, bracket, budget, look if step.whole else None)

    def room(self, problem: Problem, step: Step, budget: Budget) -> Budget:  # noqa: ARG002 - tight looks at both
        """The budget in which a proof must fit for a step to be begun."""
        return budget

    def specification(self, problem: Problem, step: Step) -> Specification:
        """A part of a network is the backward lift of it, without values; tight keeps its name for its cuts."""
        if not step.signs:
            return Specification(self.name, UNSIGNED, values=False)
        if step.reduction is None:
            return plan_specification(problem, self.name)
        name = self.name if self.name == "tight" else "backward"
        return Specification(name, "backward", values=False, reduction=step.reduction.table)

    def _proof_fits(self, order: int, bracket: Bracket, budget: Budget, step: Step) -> bool:
        """Whether a proof of this order fits; of the whole network it is said when it does not."""
        if not budget.holds(least_numbers(order)):
            bracket.no_room(self.name, least_numbers(order), budget)
            return False
        if proof_fits(order, budget):
            return True
        if step.whole and not budget.over():
            seconds = budget.expected(proof_operations(order))
            bracket.note(f"{self.name} left out: a proof of order {order:,} takes about {seconds:.0f} s, too long here")
            bracket.out_of_budget(budget)
        return False


def _guarded(bracket: Bracket, budget: Budget, run: Callable[[], SolverStatus | None]) -> SolverStatus | None:
    """Run a solver, and return how it ended; None, and a note, if it failed."""
    try:
        return run()
    except MemoryError:
        bracket.out_of_memory("the solver", budget)
        return None
    except _FAILURES as error:
        bracket.note(f"the solver failed ({type(error).__name__}: {error}); the bound was proved without it")
        return None


def _conclude(ended: SolverStatus | None, bracket: Bracket, budget: Budget) -> None:
    if ended is SolverStatus.TIME_LIMIT:
        bracket.out_of_budget(budget)
    elif ended is SolverStatus.INTERRUPTED:
        bracket.status = Status.INTERRUPTED
    elif ended not in (None, SolverStatus.OPTIMAL):
        assert ended is not None
        bracket.note(f"the solver ended {ended.value}")


RELAXED: tuple[Relaxed, ...] = (
    Relaxed("shor", "the paper's first-order relaxation: one hidden layer of ReLU, infinity norm"),
    Relaxed("hr2", "the paper's HR-2, reduced: one hidden layer of ReLU, infinity norm"),
    Relaxed("backward", "the gradient's way down as variables: any depth, activation and norm"),
    Relaxed("forward", "the direction's way up as variables: contains LipSDP"),
    Relaxed("both", "both ways, with the identities between them"),
    Relaxed("backward-free", "backward without the values x: every region at once"),
    Relaxed("forward-free", "forward without the values x"),
    Relaxed("both-free", "both without the values x"),
)
