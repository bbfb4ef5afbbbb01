"""The largest of several constants: what ran out of time is not called done, and what was solved stays solved."""

from __future__ import annotations

import numpy as np

from lipcert import Box
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.cases import solve_cases
from lipcert.method.lower import Rounder
from lipcert.method.solving import OnMoments, Task
from lipcert.method.tight import Kept, Tight
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.solver import Status
from tests.problems import net_of


class Counting(Tight):
    """Solves so many cases; then each runs out of its time at once."""

    def __init__(self, most: int) -> None:
        super().__init__(slopes=False)
        self.most, self.solved = most, 0

    def solve(self, task: Task, bracket: Bracket, budget: Budget, look: OnMoments | None) -> Status:
        if self.solved == self.most:
            return Status.TIME_LIMIT
        self.solved += 1
        return super().solve(task, bracket, budget, look)


def problem_of() -> Problem:
    """Intervals do not say which of three partial derivatives is the largest."""
    return Problem.of(net_of(3, 4, 4, 1, seed=2), Box(np.zeros(3), 2.0), norm=Norm("1"))


def test_a_case_that_ran_out_of_time_is_not_the_end() -> None:
    """Its cheap bound stands, and everything below it is decided; more time would still change the answer."""
    problem, bracket, budget = problem_of(), Bracket(), Budget.of_work(50.0)
    run = solve_cases(problem, Counting(0), bracket, budget, Rounder(problem, bracket, budget))
    assert run.status is Status.TIME_LIMIT
    assert not run.solved.any()


def test_another_run_solves_the_rest() -> None:
    problem, bracket, budget = problem_of(), Bracket(), Budget.of_work(50.0)
    look = Rounder(problem, bracket, budget)
    whole = Counting(100)
    assert solve_cases(problem, whole, Bracket(), budget, look).status is Status.OPTIMAL
    assert whole.solved > 1, "or there is nothing to go on with"
    first, second = Counting(1), Counting(100)
    stopped = solve_cases(problem, first, bracket, budget, look)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.solved.sum() == 1
    ended = solve_cases(problem, second, bracket, budget, look, stopped)
    assert ended.status is Status.OPTIMAL
    assert second.solved == whole.solved - 1
    assert stopped.proved.keys() <= ended.proved.keys()


def test_turns_keep_the_cases_of_their_problem() -> None:
    problem, kept, bracket = problem_of(), Kept(), Bracket()
    Tight(slopes=False, kept=kept).run(problem, bracket, Budget.of_work(50.0))
    assert kept.cases is not None
    assert kept.cases.solved.any()
    assert kept.least(Budget.of_work(1.0)) == 0.0
    assert kept.cases_of(problem) is kept.cases
    assert kept.cases_of(problem_of()) is None
