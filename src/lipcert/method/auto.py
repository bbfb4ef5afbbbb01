"""Method auto: it proves nothing itself; cheap bounds and a witness first, then turns of all engines that apply."""

from __future__ import annotations

from lipcert.budget import Budget
from lipcert.method.base import PRELUDE_SHARE, SEARCH_BEFORE_TURNS, Method
from lipcert.method.bracket import Bracket
from lipcert.method.elimination import eliminate_many
from lipcert.method.engines import engines_for
from lipcert.method.lower import WitnessTurns
from lipcert.method.portfolio import stages, take_turns
from lipcert.method.tight import Tight
from lipcert.method.workers import workers_of
from lipcert.problem.problem import Problem


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
        with workers_of(bracket) as executor:
            engines = engines_for(problem, bracket, budget, executor)
            looker = WitnessTurns(problem, bracket, budget)
            for number, stage in enumerate(stages(budget)):
                if number:  # before the first one `bound` has looked
                    looker.again(stage, self.search * max(stage.left(), 0.0))
                else:
                    looker.before(stage)
                take_turns(engines, bracket, stage, looker)
                looker.last(stage, patient=bracket.wishes.lower)
        for engine in engines:
            engine.conclude()
        if not bracket.closed() and (budget.over() or any(not engine.ended for engine in engines)):
            bracket.out_of_budget(budget)  # of engines that did not end, none could use what is left
