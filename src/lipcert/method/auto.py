"""Methods auto and exact: they prove nothing themselves, but give turns to the engines that apply.

Cheap bounds and a witness come first. `auto` tries every engine, in stages, and goes on with one as long as it promises
more than the others (`portfolio`). `exact` has the searches alone: branch and bound until the gap is closed.
"""

from __future__ import annotations

from lipcert.bounds.operator_norms import hard
from lipcert.budget import Budget
from lipcert.method.base import PRELUDE_SHARE, SEARCH_BEFORE_TURNS, Method
from lipcert.method.bracket import Bracket
from lipcert.method.branching import refusal as cells_refusal
from lipcert.method.cheap import eliminate_many
from lipcert.method.engines import engines_for, searches
from lipcert.method.lower import WitnessTurns
from lipcert.method.portfolio import stages, take_turns
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.steps import DENSE, RATES


class Auto(Method):
    """Every engine is tried, and continued while it promises more than the others (`portfolio`)."""

    name = "auto"
    summary = "turns of all methods that apply, each as long as it promises most"
    prelude = ("product", "interval", "linear", "mixed")
    search = SEARCH_BEFORE_TURNS
    needs_witness = True
    closes = True
    staged = True
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
            witnesses = WitnessTurns(problem, bracket, budget)
            for number, stage in enumerate(stages(budget)):
                if number:  # before the first stage `bound` has searched
                    witnesses.again(stage, self.search * max(stage.left(), 0.0))
                else:
                    witnesses.before(stage)
                take_turns(engines, bracket, stage, witnesses)
                witnesses.last(stage, patient=bracket.settings.lower)
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and (budget.over() or any(not engine.ended for engine in engines)):
            bracket.out_of_budget(budget)  # of engines that did not end, none could use what is left


class Exact(Method):
    """The searches over signs and over cells alone, and witnesses between their turns."""

    name = "exact"
    summary = "branch and bound over signs and cells until the gap is closed: few inputs or few open signs"
    needs_witness = True
    search = SEARCH_BEFORE_TURNS
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
            engines = searches(problem, bracket, budget, executor)
            witnesses = WitnessTurns(problem, bracket, budget)
            take_turns(engines, bracket, budget, witnesses)
            witnesses.last(budget)
        if not engines:
            bracket.note("too many open neurons and inputs for branch and bound; use tight")
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and budget.over():
            bracket.out_of_budget(budget)
