"""Method exact: branch and bound over cells of the region until the gap is closed."""

from __future__ import annotations

import math

from lipcert import policy
from lipcert.budget import Budget
from lipcert.jobs import local, processes
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.branching import State, branch, refusal
from lipcert.method.result import Status
from lipcert.problem.problem import Problem
from lipcert.witness import Witness


class Exact(Method):
    """Each cell is bounded by the cheapest proof that decides it; cells are closed by a witness, so one is searched."""

    name = "exact"
    summary = "branch and bound over cells of the region until the gap is closed: small networks, one output, boxes"
    closes = needs_witness = True
    for_many = False

    def applies(self, problem: Problem) -> str | None:
        return refusal(problem)

    def cost(self, problem: Problem) -> float:
        """Of a hundred cells; how many there will be no one knows."""
        net = problem.network
        return 100 * 4.0 * max(net.shape) * net.entries / policy.RATES[policy.DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        bracket.enter("cells")

        def watch(state: State, witness: Witness | None) -> None:
            bracket.promised, bracket.stage = state.upper, f"cells: {state.open:,} open of {state.cells:,}"
            bracket.improve(witness) if witness is not None else bracket.report()

        with local() if bracket.wishes.workers == 1 else processes(bracket.wishes.workers) as executor:
            outcome = branch(problem, bracket, budget, executor, on_state=watch)
        bracket.promised = math.inf
        bracket.improve(outcome.certificate)
        if outcome.interrupted:
            bracket.status = Status.INTERRUPTED
        elif not outcome.closed and budget.over():
            bracket.out_of_budget(budget)
        bracket.note(f"{outcome.state.cells:,} cells of the region, {outcome.leaves:,} in the proof")
        if outcome.stuck and not outcome.closed:
            bracket.note(f"{outcome.stuck:,} cells are left with a gap that no further split of them closes")
