"""Method auto: it proves nothing itself, it chooses methods and divides the budget among them."""

from __future__ import annotations

import numpy as np

from lipcert import policy
from lipcert.bounds import slopes
from lipcert.budget import Budget
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.exact import Exact
from lipcert.method.result import Status
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem


class Auto(Method):
    """Cheap bounds and a witness first; cells where few signs are open; tight; cells again for what is left."""

    name = "auto"
    summary = "the best that applies and that the time allows"
    prelude = ("product", "interval", "mixed")
    closes = True

    def cost(self, problem: Problem) -> float:
        return Tight().cost(problem)

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        tight, exact = Tight(), Exact()
        if _worth_branching(problem, bracket, budget, policy.CELLS_FIRST_OPEN, 0):
            exact.run(problem, bracket, budget.share(policy.CELLS_FIRST_SHARE))
            bracket.go_on()
        if tight.applies(problem) is None and not bracket.closed():
            tight.run(problem, bracket, budget)
        if _worth_branching(problem, bracket, budget, policy.CELLS_OPEN, policy.CELLS_INPUTS):
            exact.run(problem, bracket, budget)


def _worth_branching(problem: Problem, bracket: Bracket, budget: Budget, most_open: int, few_inputs: int) -> bool:
    """Whether cells are likely to close the gap: few inputs, or few open signs."""
    if not bracket.wishes.lower or Exact().applies(problem) is not None:
        return False
    if bracket.closed() or bracket.status is not Status.DONE or budget.left() < policy.CELLS_LEAST:
        return False
    if bracket.lower <= 0:  # no gap is small beside nothing
        return False
    net = problem.network
    free = sum(int(np.sum(s.hi > s.lo)) for s in slopes(problem))
    small = max(net.neurons, net.inputs) <= policy.CELLS_LARGEST
    return small and (net.inputs <= few_inputs or free <= most_open)
