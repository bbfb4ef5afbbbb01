"""What `auto` takes turns with: cells of the region, signs of open neurons, relaxations."""

from __future__ import annotations

import math
from concurrent.futures import Executor

from lipcert import policy
from lipcert.bounds import cut_short
from lipcert.bounds.collapse import collapse
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.branching import CellSearch, Outcome, State
from lipcert.method.branching import refusal as no_cells
from lipcert.method.branching.choose import cell_operations
from lipcert.method.cheap import Linear
from lipcert.method.portfolio import Engine
from lipcert.method.relaxed import RELAXED, Relaxed
from lipcert.method.result import Status
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.collapsed import prove_within
from lipcert.proof.nogoods import refusal as no_signs
from lipcert.witness import Witness


def engines_for(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """All that apply; searches close what a witness reaches, so without one there is nothing to close."""
    relaxations = ((_free(), policy.FREE_LEAVES), (Tight(), policy.TIGHT_LEAVES))
    sharper = Sharpening(problem, bracket)
    found: list[Engine] = [
        Relaxation(problem, bracket, method, leaves, sharper)
        for method, leaves in relaxations
        if method.applies(problem) is None and (method.name == "tight" or _has_values(problem))
    ]
    return found + (searches(problem, bracket, budget, executor) if bracket.wishes.lower else [])


def _free() -> Relaxed:
    return next(method for method in RELAXED if method.name == "backward-free")


def _has_values(problem: Problem) -> bool:
    """Whether tight carries the values x, so that it takes much longer than the same without them."""
    return problem.network.depth > 1 and hull(problem.region) is not None and not problem.has_cases


def searches(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """Branch and bound over signs, and over cells, where they apply; cells where some of them fit the budget."""
    engines: list[Engine] = []
    if not cut_short(problem):
        small = collapse(problem)
        if no_signs(problem if small is None else small.problem) is None:
            engines.append(Signs(problem, bracket))
    if no_cells(problem) is None:
        cells = Cells(problem, bracket, executor)
        if not engines or cells.price(budget) <= policy.CELLS_WORTH * budget.left():
            engines.append(cells)
    return engines


class Signs(Engine):
    """Branch and bound over signs, on the network of the open neurons where that is smaller."""

    name = "signs"

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        from lipcert.method.signs import SignSearch  # here, so that importing lipcert stays fast

        super().__init__()
        self.problem, self.bracket, self.small = problem, bracket, collapse(problem)
        if self.small is None:
            self.search = SignSearch(problem, bracket)
        else:
            self.search = SignSearch(self.small.problem, bracket, problem, self.small.price)

    def turn(self, budget: Budget) -> None:
        self.bracket.enter(self.name)
        self.search.run(budget)
        self.bracket.promised = math.inf
        found = self.search.certificate()
        certificate = found if self.small is None else prove_within(self.problem, found)
        self.bracket.improve(certificate)
        self.upper, self.ended = min(self.upper, certificate.upper), self.search.done
        if self.search.interrupted:
            self.bracket.status = Status.INTERRUPTED

    def conclude(self) -> None:
        state = self.search.state
        if self.history:
            counts = f"{state.nodes:,} sign patterns, {state.programs:,} linear programs, {state.nogoods:,} nogoods"
            self.bracket.note(f"{counts} over {len(self.search.quick.open):,} open neurons")


class Cells(Engine):
    """Branch and bound over cells: boxes, and signs with their half-spaces."""

    name = "cells"

    def __init__(self, problem: Problem, bracket: Bracket, executor: Executor) -> None:
        super().__init__()
        self.problem, self.bracket, self.executor = problem, bracket, executor
        self.search: CellSearch | None = None
        self.outcome: Outcome | None = None

    def price(self, budget: Budget) -> float:
        """Of a batch; where boxes are not halved, cells are bounded by relaxations, and one takes a while."""
        batch = budget.expected(2.0 * policy.CELLS_AT_ONCE * cell_operations(self.problem.network))
        smooth = not any(f.kinked for f in self.problem.network.activations)
        if self.problem.network.inputs <= policy.CELLS_INPUTS or smooth:
            return batch
        return batch + budget.expected(Tight().cost(self.problem) * policy.RATES[policy.DENSE])

    def prior(self) -> float:
        """Cells of many inputs are for what others leave."""
        return self.bracket.upper

    def turn(self, budget: Budget) -> None:
        bracket = self.bracket
        bracket.enter(self.name)
        if self.search is None:
            self.search = CellSearch(self.problem, bracket, self.executor, self._watch)
        outcome = self.outcome = self.search.run(budget)
        bracket.promised = math.inf
        bracket.improve(outcome.certificate)
        self.upper, self.ended = min(self.upper, outcome.certificate.upper), self.search.done
        if outcome.interrupted:
            bracket.status = Status.INTERRUPTED

    def conclude(self) -> None:
        if self.outcome is None:
            return
        cells, leaves, stuck = self.outcome.state.cells, self.outcome.leaves, self.outcome.stuck
        self.bracket.note(f"{cells:,} cells of the region, {leaves:,} in the proof")
        if stuck and not self.bracket.closed():
            self.bracket.note(f"{stuck:,} cells are left with a gap that no further split of them closes")

    def _watch(self, state: State, witness: Witness | None) -> None:
        bracket = self.bracket
        bracket.promised, bracket.stage = state.upper, f"cells: {state.open:,} open of {state.cells:,}"
        bracket.improve(witness) if witness is not None else bracket.report()


class Sharpening:
    """The problem with sharper pre-activation bounds, where that is worth it, once it is asked for.

    Only for relaxations: cells have better bounds of their own, and signs, which would lose little, have begun before.
    """

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        self.problem, self.bracket = problem, bracket
        self.known: Problem | None = None

    def __call__(self, budget: Budget) -> Problem:
        """At the first call for a share of the budget."""
        if self.known is None:
            self.known = self._sharper(budget) or self.problem
        return self.known

    def _sharper(self, budget: Budget) -> Problem | None:
        from lipcert.method.sharpen import gain, sharpen  # here, so that importing lipcert stays fast

        self.bracket.enter("bounds")
        found = sharpen(self.problem, budget.share(policy.SHARPEN_SHARE))
        if found is None or gain(self.problem, found) < policy.SHARPEN_WORTH:
            return None
        Linear().run(found, self.bracket, budget)
        return found


class Relaxation(Engine):
    """A relaxation in one turn: it cannot be continued, and ends when it has nothing to add.

    It is expected to leave a share of the distance from the witness to the first bound, in logarithms.
    """

    continues = False

    def __init__(self, problem: Problem, bracket: Bracket, method: Relaxed, leaves: float, sharper: Sharpening) -> None:
        super().__init__()
        self.problem, self.bracket, self.method, self.name = problem, bracket, method, method.name
        self.first, self.leaves, self.sharper = bracket.upper, leaves, sharper

    def prior(self) -> float:
        lower = self.bracket.lower
        if lower <= 0 or not math.isfinite(self.first):
            return self.first / 2
        return float(min(lower * (self.first / lower) ** self.leaves, self.bracket.upper))

    def price(self, budget: Budget) -> float:
        return budget.expected(self.method.cost(self.problem) * policy.RATES[policy.DENSE])

    def turn(self, budget: Budget) -> None:
        self.problem = self.sharper(budget)
        before = self.bracket.certificate
        self.method.run(self.problem, self.bracket, budget)
        if self.bracket.certificate is not before:
            self.upper = self.bracket.upper
        self.ended = self.bracket.status is Status.DONE
