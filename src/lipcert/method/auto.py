"""Methods auto and exact: they prove nothing themselves, but give turns to the engines that apply.

Cheap bounds come first. `auto` gives slices of time to every engine by one rule (`turns`). `exact` has the searches
alone: branch and bound until the gap is closed.
"""

from __future__ import annotations

from lipcert.bounds.operator_norms import hard
from lipcert.budget import Budget
from lipcert.method.base import PRELUDE_SHARE, Method
from lipcert.method.bracket import Bracket
from lipcert.method.branching import refusal as cells_refusal
from lipcert.method.cheap import eliminate_many
from lipcert.method.engines import engines_for, searches_for
from lipcert.method.side import beside
from lipcert.method.tight import Tight
from lipcert.method.turns import take_turns
from lipcert.problem.problem import Problem
from lipcert.steps import DENSE, RATES


class Auto(Method):
    """Every engine has slices of time, most of them the one that closes most of the gap per second (`turns`)."""

    name = "auto"
    summary = "turns of all methods that apply, each as long as it promises most"
    prelude = ("product", "interval", "linear", "mixed")
    search = 0.0  # a glance: an engine looks further
    needs_witness = True
    closes = True
    greedy = True

    def cost(self, problem: Problem) -> float:
        return Tight().cost(problem)

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        if bracket.closed() or problem.network.depth == 0:
            return
        eliminate_many(problem, bracket, budget.share(PRELUDE_SHARE))
        if bracket.closed():
            return
        with bracket.executor() as executor:
            engines = engines_for(problem, bracket, budget, executor)
            with beside(problem, bracket, budget, engines_for) as side:
                take_turns(engines, bracket, budget, side)
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and (budget.over() or any(not engine.ended for engine in engines)):
            bracket.out_of_budget(budget)  # no engine that goes on could use the rest of the budget


class Exact(Method):
    """The searches over signs and over cells alone, and witnesses between their turns."""

    name = "exact"
    summary = "branch and bound over signs and cells until the gap is closed: few inputs or few open signs"
    needs_witness = True
    search = 0.0  # a glance: an engine looks further
    for_many = False
    closes = True

    def refusal(self, problem: Problem) -> str | None:
        return self._too_hard(problem) or cells_refusal(problem)

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
        with bracket.executor() as executor:
            engines = searches_for(problem, bracket, budget, executor)
            with beside(problem, bracket, budget, searches_for) as side:
                take_turns(engines, bracket, budget, side)
        if len(engines) < 2:
            bracket.note("too many open neurons and inputs for branch and bound; use tight")
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and (budget.over() or any(not engine.ended for engine in engines)):
            bracket.out_of_budget(budget)
