"""The engines that `auto` gives turns to: branch and bound over cells and over signs, relaxations, slopes."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from lipcert.bounds import cut_short, preactivations
from lipcert.bounds.collapse import collapse
from lipcert.bounds.gradients import unbounded_slope
from lipcert.budget import Budget
from lipcert.chart.numbers import counted
from lipcert.method.bracket import Bracket
from lipcert.method.branching import CellSearch
from lipcert.method.branching import refusal as cells_refusal
from lipcert.method.branching.realise import REALISE_SECONDS
from lipcert.method.cheap import Linear
from lipcert.method.lower import look, seconds_of_a_search
from lipcert.method.planning import LARGEST_ORDER, expected_order, has_parts
from lipcert.method.relaxed import RELAXED, Relaxed
from lipcert.method.resume import ResumeState
from lipcert.method.slopes import AnySolves, Slopes, first_seconds, run_slopes
from lipcert.method.solving import build_operations
from lipcert.method.tight import Tight
from lipcert.method.turns import Engine
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.sharpened import prove_within
from lipcert.search.loop import SearchOutcome, SearchState
from lipcert.search.progress import Status
from lipcert.search.scores import cell_operations
from lipcert.witness import Witness

if TYPE_CHECKING:
    from lipcert.method.signs import SignSearch

# Factor on the longest slice of an engine that begins anew in each: less would repeat what is proved.
ANEW = 2.0

# Sharper pre-activation bounds by linear programs, measured on mnist-net_256x2 and ERAN 3_50.
SHARPEN_SHARE = 0.1  # share of the first turn of a search over signs, or of a relaxation
SHARPEN_AGAIN = 3.0  # sharpening that was cut short begins again when its share is so many times as long
# Share of the widths of open neurons' bounds that must go; below it a certificate without sharper bounds is better,
# because it is smaller.
SHARPEN_WORTH = 0.05


def engines_for(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """All engines that apply to the problem. Those before others that are tried as little are tried first."""
    sharper = Sharpening(problem, bracket)
    found = [WitnessEngine(problem, bracket), *searches(problem, bracket, budget, executor, sharper)]
    if Slopes().refusal(problem) is None:
        found.append(SlopeEngine(problem, bracket, sharper))
    if _free().refusal(problem) is None and _has_values(problem):
        found.append(RelaxationEngine(problem, bracket, _free(), sharper))
    if Tight().refusal(problem) is None:
        found.append(
            RelaxationEngine(problem, bracket, Tight(slopes=False, state=ResumeState(), most=LARGEST_ORDER), sharper)
        )
    if has_parts(problem, budget):
        found.append(PartsEngine(problem, bracket, sharper))
    return found


def searches_for(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """The engines of method exact: witnesses, and branch and bound."""
    return [WitnessEngine(problem, bracket), *searches(problem, bracket, budget, executor)]


def _free() -> Relaxed:
    named = next(method for method in RELAXED if method.name == "backward-free")
    return Relaxed(named.name, named.summary, state=ResumeState(), most=LARGEST_ORDER)


def _has_values(problem: Problem) -> bool:
    """Whether tight has the values x as variables, so that it takes much longer than the relaxation without them.

    For a whole map tight itself begins without them. For cases backward-free proves no more than method slopes.
    """
    return (
        problem.network.depth > 1 and hull(problem.region) is not None and not (problem.whole_map or problem.has_cases)
    )


def searches(
    problem: Problem, bracket: Bracket, budget: Budget, executor: Executor, sharper: Sharpening | None = None
) -> list[Engine]:
    """Branch and bound over signs, and over cells, where they apply."""
    from lipcert.method.signs import search_refusal  # here, so that importing lipcert stays fast

    engines: list[Engine] = []
    if not cut_short(problem):
        small = collapse(problem, budget)
        searched = problem if small is None else small.problem
        if search_refusal(searched) is None and _has_room(searched, bracket, budget):
            engines.append(SignEngine(problem, bracket, sharper or Sharpening(problem, bracket)))
    if cells_refusal(problem) is None:
        engines.append(CellEngine(problem, bracket, executor))
    return engines


def _has_room(problem: Problem, bracket: Bracket, budget: Budget) -> bool:
    """Whether the tables of the search over signs fit into memory; a note says so if they do not."""
    from lipcert.method.signs.quick import SIGNS_COPIES  # here, so that importing lipcert stays fast

    net = problem.network
    numbers = SIGNS_COPIES * net.neurons * (net.neurons + net.inputs)
    if budget.holds(numbers):
        return True
    bracket.no_room(SignEngine.name, numbers, budget)
    return False


# Share of the work of a cell of the problem that a cell of the network of the open neurons may take to be searched in
# its place.
COLLAPSED_CELLS = 0.5


class Sharpening:
    """The problem with sharper pre-activation bounds, if they gain enough: for signs and relaxations.

    They are computed in a share of the first turn that asks for them, and again in a longer turn if that share was too
    short. (Cells have better bounds of their own.)
    """

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        self.problem, self.bracket = problem, bracket
        self.best = problem  # with the best bounds so far
        self.enough = 0.0  # seconds: a shorter share is not spent again

    def __call__(self, budget: Budget) -> Problem:
        """The problem with the best bounds so far, or with those that a share of this budget finds."""
        share = budget.share(SHARPEN_SHARE)
        if share.left() > self.enough:
            self.enough = SHARPEN_AGAIN * share.left()
            self._sharpen(share)
            if not share.over():
                self.enough = math.inf
        return self.best

    def _sharpen(self, budget: Budget) -> None:
        from lipcert.method.sharpen import gain, sharpen  # here, so that importing lipcert stays fast

        self.bracket.enter("bounds")
        found = sharpen(self.problem, budget)
        if found is not None and gain(self.problem, found) >= SHARPEN_WORTH:
            self.best = found
            Linear().run(found, self.bracket, budget)


class SignEngine(Engine):
    """Branch and bound over signs, on the network of the open neurons where that is smaller."""

    name = "signs"

    def __init__(self, problem: Problem, bracket: Bracket, sharper: Sharpening) -> None:
        super().__init__()
        self.problem, self.bracket, self.sharper = problem, bracket, sharper
        self.state: SignSearch | None = None

    def advance(self, budget: Budget) -> None:
        if self.state is None:
            self.problem = self.sharper(budget)
            self.state = self._begun()
        self.bracket.enter(self.name)
        self.state.run(budget)
        found, small = self.state.certificate(), collapse(self.problem)
        certificate = found if small is None else prove_within(self.problem, found)
        self.bracket.improve(certificate)
        self.upper, self.ended = min(self.upper, certificate.upper), self.state.done
        if self.state.interrupted:
            self.bracket.status = Status.INTERRUPTED

    def _begun(self) -> SignSearch:
        from lipcert.method.signs import SignSearch  # here, so that importing lipcert stays fast

        small = collapse(self.problem)
        if small is None:
            return SignSearch(self.problem, self.bracket)
        return SignSearch(small.problem, self.bracket, self.problem, small.price)

    def conclude(self) -> None:
        if self.state is not None:
            found = self.state.state
            seen, refused = counted(found.nodes, "sign pattern"), counted(found.nogoods, "refused pattern")
            counts = f"{seen}, {counted(found.programs, 'linear program')}, {refused}"
            self.bracket.note(f"{counts} over {counted(len(self.state.quick.open), 'open neuron')}")


class CellEngine(Engine):
    """Branch and bound over cells: boxes, and signs with their half-spaces."""

    name = "cells"

    def __init__(self, problem: Problem, bracket: Bracket, executor: Executor) -> None:
        super().__init__()
        self.problem, self.bracket, self.executor = problem, bracket, executor
        self.state: CellSearch | None = None
        self.outcome: SearchOutcome | None = None

    def least(self, budget: Budget) -> float:
        """Seconds of the first cell and its halves; a search that has begun can use any time, but for the linear
        programs that had too little."""
        if self.state is None:
            return budget.expected(3.0 * cell_operations(self._searched[0]))
        return REALISE_SECONDS if self.state.waits else 0.0

    @property
    def _searched(self) -> tuple[Problem, float]:
        """The problem of the open neurons and its price, where cells of it take much less; else the problem itself."""
        small = None if cut_short(self.problem) else collapse(self.problem)
        if small is None or cell_operations(small.problem) > COLLAPSED_CELLS * cell_operations(self.problem):
            return self.problem, 0.0
        return small.problem, small.price

    def advance(self, budget: Budget) -> None:
        bracket = self.bracket
        bracket.enter(self.name)
        if self.state is None:
            searched, price = self._searched
            self.state = CellSearch(searched, bracket, self.executor, self._watch, self.problem, price)
        self.state.run(budget)
        outcome = self.outcome = self.state.outcome()
        bracket.promised = math.inf
        whole = self.state.problem is self.problem
        certificate = outcome.certificate if whole else prove_within(self.problem, outcome.certificate)
        bracket.improve(certificate)
        self.upper = min(self.upper, certificate.upper)
        # Numbers that overflow do so in every cell; smaller cells may bring a slope back that has no bound.
        lost = math.isinf(self.upper) and unbounded_slope(self.problem.network, preactivations(self.problem)) is None
        self.ended = self.state.done or lost
        if outcome.interrupted:
            bracket.status = Status.INTERRUPTED

    def conclude(self) -> None:
        if self.outcome is None:
            return
        cells, leaves, stuck = self.outcome.state.nodes, self.outcome.leaves, self.outcome.stuck
        self.bracket.note(f"{counted(cells, 'cell')} of the region, {leaves:,} in the proof")
        if stuck and not self.bracket.closed():
            left = counted(stuck, "cell is", "cells are")
            self.bracket.note(f"{left} left with a gap that no further split closes")

    def _watch(self, state: SearchState, witness: Witness | None) -> None:
        bracket = self.bracket
        bracket.promised, bracket.stage = state.upper, f"cells: {state.open:,} open of {state.nodes:,}"
        bracket.improve(witness) if witness is not None else bracket.report()


class RelaxationEngine(Engine):
    """A relaxation of the whole network: a slice goes on with the iterate, the cuts or the cases of the last one.

    It begins anew where pre-activation bounds have become sharper.
    """

    def __init__(self, problem: Problem, bracket: Bracket, method: Relaxed, sharper: Sharpening) -> None:
        super().__init__()
        self.problem, self.bracket, self.method, self.name = problem, bracket, method, method.name
        self.sharper = sharper
        self.longest = 0.0  # seconds of the longest slice so far

    def least(self, budget: Budget) -> float:
        """Seconds of the next step of the solve; before there is one, those in which the relaxation is built.

        A slice that was too short to begin is followed by one that is longer.
        """
        state = self.method.state
        again = None if state is None else state.least(budget)
        if again is not None:
            return again
        return max(ANEW * self.longest, budget.expected(build_operations(expected_order(self.problem))))

    def ahead(self, budget: Budget) -> float:
        return 0.0 if self.method.state is None else self.method.state.ahead(budget)

    def advance(self, budget: Budget) -> None:
        self.problem = self.sharper(budget)
        self.longest = max(self.longest, budget.left())
        before = self.bracket.certificate
        self.method.run(self.problem, self.bracket, budget)
        if self.bracket.certificate is not before:
            self.upper = self.bracket.upper
        state = self.method.state
        self.promised = math.inf if state is None else state.dual
        self.ended = self.bracket.status in (Status.DONE, Status.MEMORY_LIMIT)

    def release(self) -> None:
        if self.method.state is not None:
            self.method.state.forget()


class PartsEngine(RelaxationEngine):
    """Parts of the network, where the whole takes long. A slice begins anew, with larger parts in a longer one."""

    def __init__(self, problem: Problem, bracket: Bracket, sharper: Sharpening) -> None:
        super().__init__(problem, bracket, Tight(slopes=False, parts=True), sharper)
        self.name = "parts"


class SlopeEngine(Engine):
    """Method slopes: a slice goes on from the multipliers of the last one. It ends where no slice is long enough."""

    name = "slopes"

    def __init__(self, problem: Problem, bracket: Bracket, sharper: Sharpening) -> None:
        super().__init__()
        self.problem, self.bracket, self.sharper = problem, bracket, sharper
        self.state: AnySolves | None = None

    def least(self, budget: Budget) -> float:
        """Seconds of the next move; before there is one, those of a greedy pass and its proof."""
        return first_seconds(self.problem, budget) if self.state is None else self.state.least(budget)

    def advance(self, budget: Budget) -> None:
        self.problem = self.sharper(budget)
        before = self.bracket.certificate
        self.state = run_slopes(self.problem, self.bracket, budget, self.state)
        if self.bracket.certificate is not before:
            self.upper = self.bracket.upper
        self.promised = math.inf if self.state is None else self.state.promised
        late = self.bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT)
        done = not late if self.state is None else self.state.ended
        self.ended = done or self.bracket.status is Status.MEMORY_LIMIT

    def release(self) -> None:
        self.state = None


class WitnessEngine(Engine):
    """Searches for witnesses, each from the best point so far, with a seed of its own, and as long as all before it."""

    name = "witness"
    below = True

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        super().__init__()
        self.problem, self.bracket = problem, bracket

    def least(self, budget: Budget) -> float:
        """A search plans its time, and a longer one finds more than two that are half as long."""
        return min(max(seconds_of_a_search(self.problem, budget), self.spent), max(budget.left(), 0.0))

    def advance(self, budget: Budget) -> None:
        look(self.problem, self.bracket, budget, budget.left(), self.slices or None)
