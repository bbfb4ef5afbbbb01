"""Method exact: branch and bound over signs and over cells of the region until the gap is closed."""

from __future__ import annotations

from lipcert.bounds.operator_norms import hard
from lipcert.budget import Budget
from lipcert.method.base import PRELUDE_SHARE, SEARCH_BEFORE_TURNS, Method
from lipcert.method.bracket import Bracket
from lipcert.method.branching import refusal
from lipcert.method.elimination import eliminate_many
from lipcert.method.engines import searches
from lipcert.method.lower import WitnessTurns
from lipcert.method.portfolio import take_turns
from lipcert.method.workers import workers_of
from lipcert.problem.problem import Problem
from lipcert.steps import DENSE, RATES


class Exact(Method):
    """Every piece is bounded by the cheapest proof that decides it; a witness closes them, so one is searched."""

    name = "exact"
    summary = "branch and bound over signs and cells until the gap is closed: few inputs or few open signs"
    needs_witness = True
    search = SEARCH_BEFORE_TURNS
    for_many = False
    closes = True

    def applies(self, problem: Problem) -> str | None:
        return self._too_hard(problem) or refusal(problem)

    @staticmethod
    def _too_hard(problem: Problem) -> str | None:
        """Why the gap cannot be closed by splitting: some operator norms are not computed even of a known Jacobian."""
        net, norm = problem.network, problem.norm
        reason = None if norm.out is None else hard(norm.p, norm.out, net.outputs, net.inputs)
        return None if reason is None else f"method exact cannot close: {reason}; use auto or tight"

    def cost(self, problem: Problem) -> float:
        """The cost of a hundred cells; their number is not known before."""
        net = problem.network
        return 100 * 4.0 * max(net.shape) * net.entries / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        eliminate_many(problem, bracket, budget.share(PRELUDE_SHARE))
        if bracket.closed():
            return
        with workers_of(bracket) as executor:
            engines = searches(problem, bracket, budget, executor)
            looker = WitnessTurns(problem, bracket, budget)
            take_turns(engines, bracket, budget, looker)
            looker.last(budget)
        if not engines:
            bracket.note("too many open neurons and inputs for branch and bound; use tight")
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and budget.over():
            bracket.out_of_budget(budget)
