"""Method elimination: all slopes of one hidden layer at once, and a point with the best of them."""

from __future__ import annotations

import numpy as np

from lipcert.bounds import cut_short, preactivations, slopes
from lipcert.bounds.elimination import LARGEST, best_ends
from lipcert.budget import Budget
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import elimination_terms, prove_elimination, refusal
from lipcert.steps import RATES, SPARSE
from lipcert.witness import Witness, evaluate
from lipcert.witness.program import PatternProgram

ELIMINATION_FROM = 17  # open neurons; branch and bound closes fewer in as little time

_TIMES = 2  # the bound, and the slopes that attain it


class Elimination(Method):
    """Exact where the tables over neurons that share inputs are small."""

    name = "elimination"
    summary = "the largest gradient over all slopes, exactly: one hidden layer, sparse or with about 20 open neurons"
    prelude = ("interval",)
    cheap = True
    for_many = False

    def applies(self, problem: Problem) -> str | None:
        return refusal(problem)

    def cost(self, problem: Problem) -> float:
        """The cost with the largest tables that are allowed."""
        return 4.0 * problem.network.neurons * 2.0**LARGEST / RATES[SPARSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        bracket.enter(self.name)
        preactivations(problem, budget)
        found = elimination_terms(problem)
        if found is None:
            bracket.note(f"elimination: more than {LARGEST} neurons share inputs, so that nothing was proved by it")
            return
        if bracket.certificate is not None and _TIMES * budget.expected(found.operations, SPARSE) > budget.left():
            bracket.out_of_budget(budget)
            return
        with budget.measured(found.operations, SPARSE):
            bracket.improve(prove_elimination(problem))
        if bracket.wishes.lower and not bracket.closed() and PatternProgram.applies(problem.network):
            _realise(problem, bracket, budget)


def _realise(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """A point with the slopes of the largest norm, if there is one: then the bound is the constant."""
    found = elimination_terms(problem)
    assert found is not None
    with budget.measured(found.operations, SPARSE):
        high = best_ends(found, problem.norm)
    if high is None:
        return
    own, program = slopes(problem)[0], PatternProgram.of(problem, budget)
    pattern = program.fixed.copy()
    pattern[np.flatnonzero(own.hi > own.lo)] = high
    answer = program.solve(pattern, budget)
    if answer is not None and answer[1] > 0:
        point = program.chart.points(answer[0][None, :])[0]
        bracket.improve(Witness(point, evaluate(problem, point, budget), "elimination"))


def eliminate_many(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """Elimination where it applies and many neurons are open: few are left to branch and bound over signs, which knows
    the patterns that inputs have.
    """
    if refusal(problem) is not None or cut_short(problem):
        return
    own = slopes(problem)[0]
    if int((own.hi > own.lo).sum()) < ELIMINATION_FROM:
        return
    found = elimination_terms(problem)
    if found is not None and _TIMES * budget.expected(found.operations, SPARSE) <= budget.left():
        Elimination().run(problem, bracket, budget)
