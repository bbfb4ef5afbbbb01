"""The largest of several constants: what ran out of time is not called done, and what was solved stays solved."""

from __future__ import annotations

import numpy as np

from lipcert import Box
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket, BracketView
from lipcert.method.cases import CaseSolves
from lipcert.method.lower import MomentRounding
from lipcert.method.resume import ResumeState
from lipcert.method.solving import OnMoments, Task
from lipcert.method.tight import Tight
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.solver import Status
from tests.problems import net_of


class Counting(Tight):
    """Solves so many cases; then each runs out of its time at once."""

    def __init__(self, most: int) -> None:
        super().__init__(slopes=False)
        self.cases, self.solved = most, 0

    def solve(self, task: Task, bracket: BracketView, budget: Budget, look: OnMoments | None) -> Status:
        if self.solved == self.cases:
            return Status.TIME_LIMIT
        self.solved += 1
        return super().solve(task, bracket, budget, look)


def problem_of() -> Problem:
    """Intervals do not say which of three partial derivatives is the largest."""
    return Problem.of(net_of(3, 4, 4, 1, seed=2), Box(np.zeros(3), 2.0), norm=Norm("1"))


def test_a_case_that_ran_out_of_time_is_not_the_end() -> None:
    """Its cheap bound stands, and everything below it is decided; more time would still change the answer."""
    problem, bracket, budget = problem_of(), Bracket(), Budget.of_work(50.0)
    cases, look = CaseSolves(), MomentRounding(problem, bracket, budget)
    assert cases.advance(problem, Counting(0), bracket, budget, look) is Status.TIME_LIMIT
    assert cases.solved is not None
    assert not cases.solved.any()


def test_another_run_solves_the_rest() -> None:
    problem, bracket, budget = problem_of(), Bracket(), Budget.of_work(50.0)
    look = MomentRounding(problem, bracket, budget)
    whole = Counting(100)
    assert CaseSolves().advance(problem, whole, Bracket(), budget, look) is Status.OPTIMAL
    assert whole.solved > 1, "or there is nothing to go on with"
    first, second, cases = Counting(1), Counting(100), CaseSolves()
    assert cases.advance(problem, first, bracket, budget, look) is Status.TIME_LIMIT
    assert cases.solved is not None
    assert cases.solved.sum() == 1
    proved = set(cases.proved)
    assert cases.advance(problem, second, bracket, budget, look) is Status.OPTIMAL
    assert second.solved == whole.solved - 1
    assert proved <= cases.proved.keys()


def test_turns_keep_the_cases_of_their_problem() -> None:
    problem, state, bracket = problem_of(), ResumeState(), Bracket()
    Tight(slopes=False, state=state).run(problem, bracket, Budget.of_work(50.0))
    assert state.cases is not None
    assert state.cases.solved is not None
    assert state.cases.solved.any()
    assert state.least(Budget.of_work(1.0)) == 0.0
    assert state.cases_of(problem) is state.cases
    assert state.cases_of(problem_of()).solved is None
