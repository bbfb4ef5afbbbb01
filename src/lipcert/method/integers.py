"""Method mip: a mixed-integer solver looks for the largest gradient; what it says is a claim, never a bound."""

from __future__ import annotations

import math

from lipcert import policy
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.mip.claim import Claim
from lipcert.method.mip.formulation import check_mip
from lipcert.method.result import Status
from lipcert.problem.problem import Problem
from lipcert.solver import ConicStatus


class Mip(Method):
    """The solver's points are witnesses like any other, its optimum stands beside the bracket."""

    name = "mip"
    summary = "what a mixed-integer solver claims, beside what linear and mixed prove: ReLU, a box, small networks"
    search = policy.SEARCH_BESIDE_MIP
    solvers = ("auto",)
    for_many = False

    def check_solver(self, name: str) -> None:
        if name != "auto":
            raise MethodError(f"method mip has a solver of its own, HiGHS, not {name}; leave the solver out")

    def applies(self, problem: Problem) -> str | None:
        try:
            check_mip(problem)
        except MethodError as error:
            return str(error)
        return None

    def cost(self, problem: Problem) -> float:
        """No one knows; a program with this many integers at least."""
        return float(problem.network.neurons) ** 2 * problem.network.entries / policy.RATES[policy.DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        from lipcert.method.mip.search import maximise  # here, so that importing lipcert stays fast

        bracket.enter(self.name)

        def hear(bound: float) -> None:
            if math.isfinite(bound):
                bracket.enter(f"mip: nothing above {bound:.6g}, not certified")

        try:
            claim, ended = maximise(problem, budget, known=bracket.witness, on_witness=bracket.improve, on_bound=hear)
        except MethodError as error:
            bracket.note(str(error))
            return
        if ended is ConicStatus.TIME_LIMIT:
            bracket.out_of_budget(budget)
        elif ended is ConicStatus.INTERRUPTED:
            bracket.status = Status.INTERRUPTED
        if _credible(claim, bracket):
            bracket.claim = claim


def _credible(claim: Claim, bracket: Bracket) -> bool:
    """Whether a claim agrees with what is proved."""
    lower = -math.inf if bracket.witness is None else bracket.witness.value
    if claim.bound >= lower * (1 - policy.AGREEMENT) and claim.value <= bracket.upper * (1 + policy.AGREEMENT):
        return True
    bracket.note(f"left out, because it contradicts what is proved: {claim}")
    return False
