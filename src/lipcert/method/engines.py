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
# Share of the widths of open neurons' bounds that must go; below it a certificate without sharper bounds is better,
# because it is smaller.
SHARPEN_WORTH = 0.05


def engines_for(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """All engines that apply to the problem. Those before others that are tried as little are tried first."""
    found = _searches(problem, bracket, budget, executor)
    if Slopes().refusal(problem) is None:
        found.append(SlopeEngine(problem, bracket))
    if _free().refusal(problem) is None and _has_values(problem):
        found.append(RelaxationEngine(problem, bracket, _free()))
    if Tight().refusal(problem) is None:
        tight = Tight(slopes=False, state=ResumeState(), most=LARGEST_ORDER)
        found.append(RelaxationEngine(problem, bracket, tight))
    if has_parts(problem, budget):
        found.append(PartsEngine(problem, bracket))
    return _with_sharpening(found, problem, bracket)


def searches_for(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """The engines of method exact: witnesses, and branch and bound."""
    return _with_sharpening(_searches(problem, bracket, budget, executor), problem, bracket)


def _with_sharpening(engines: list[Engine], problem: Problem, bracket: Bracket) -> list[Engine]:
    """The engines with sharper bounds first, where one of them has a use for them."""
    sharpening = Sharpening(problem, bracket)
    sharpening.users = [engine for engine in engines if isinstance(engine, BoundsEngine)]
    return [sharpening, *engines] if sharpening.users and hull(problem.region) is not None else engines


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


def _searches(problem: Problem, bracket: Bracket, budget: Budget, executor: Executor) -> list[Engine]:
    """Witnesses, and branch and bound over signs, and over cells, where they apply."""
    from lipcert.method.signs import search_refusal  # here, so that importing lipcert stays fast

    engines: list[Engine] = [WitnessEngine(problem, bracket)]
    if not cut_short(problem):
        small = collapse(problem, budget)
        searched = problem if small is None else small.problem
        if search_refusal(searched) is None and _has_room(searched, bracket, budget):
            engines.append(SignEngine(problem, bracket))
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


class Sharpening(Engine):
    """Sharper pre-activation bounds by linear programs; engines that gain by them begin anew with them.

    A slice that was too short for all programs is followed by one that is longer. Bounds that gain too little are not
    handed on. (Cells have better bounds of their own.)
    """

    name = "bounds"
    shared = True

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        super().__init__()
        self.problem, self.bracket = problem, bracket
        self.users: list[BoundsEngine] = []
        self.gained, self.longest = 0.0, 0.0  # share of the widths that is gone, and seconds of the longest slice

    def least(self, budget: Budget) -> float:  # noqa: ARG002 - as every engine says it
        return ANEW * self.longest

    def ahead(self, budget: Budget) -> float:
        """All programs have to end: before that nothing was tried."""
        return 0.0 if self.ended else self.least(budget)

    def advance(self, budget: Budget) -> None:
        from lipcert.method.sharpen import gain, sharpen  # here, so that importing lipcert stays fast

        self.bracket.enter(self.name)
        self.longest = max(self.longest, budget.left())
        found = sharpen(self.problem, budget)
        self.ended = not budget.over()
        gained = 0.0 if found is None else gain(self.problem, found)
        if found is None or gained < self.gained + SHARPEN_WORTH:
            return
        self.gained, before = gained, self.bracket.certificate
        Linear().run(found, self.bracket, budget)
        if self.bracket.certificate is not before:
            self.upper = self.bracket.upper
        for engine in self.users:
            engine.renew(found)


class BoundsEngine(Engine):
    """An engine that needs pre-activation bounds, and begins anew where they have become sharper."""

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        super().__init__()
        self.problem, self.bracket = problem, bracket

    def renew(self, problem: Problem) -> None:
        """Begin anew with the bounds of this problem; the hope is that of a new engine."""
        self.release()
        self.problem, self.ended, self.promised, self.slices = problem, False, math.inf, 0


class SignEngine(BoundsEngine):
    """Branch and bound over signs, on the network of the open neurons where that is smaller."""

    name = "signs"
    state: SignSearch | None = None

    def release(self) -> None:
        self.state = None

    def advance(self, budget: Budget) -> None:
        if self.state is None:
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


class RelaxationEngine(BoundsEngine):
    """A relaxation of the whole network: a slice goes on with the iterate, the cuts or the cases of the last one."""

    def __init__(self, problem: Problem, bracket: Bracket, method: Relaxed) -> None:
        super().__init__(problem, bracket)
        self.method, self.name = method, method.name
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
        self.longest = max(self.longest, budget.left())
        before = self.bracket.certificate
        self.method.run(self.problem, self.bracket, budget)
        if self.bracket.certificate is not before:
            self.upper = self.bracket.upper
        state = self.method.state
        self.promised = math.inf if state is None else state.dual
        over = self.bracket.status in (Status.DONE, Status.MEMORY_LIMIT)
        self.ended = over and (state is None or not state.waits)

    def release(self) -> None:
        if self.method.state is not None:
            self.method.state.forget()


class PartsEngine(RelaxationEngine):
    """Parts of the network, where the whole takes long. A slice begins anew, with larger parts in a longer one."""

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        super().__init__(problem, bracket, Tight(slopes=False, parts=True))
        self.name = "parts"

    def renew(self, problem: Problem) -> None:
        """The gains that bound what is left out are those of the old bounds."""


class SlopeEngine(BoundsEngine):
    """Method slopes: a slice goes on from the multipliers of the last one. It ends where no slice is long enough."""

    name = "slopes"
    state: AnySolves | None = None

    def least(self, budget: Budget) -> float:
        """Seconds of the next move; before there is one, those of a greedy pass and its proof."""
        return first_seconds(self.problem, budget) if self.state is None else self.state.least(budget)

    def advance(self, budget: Budget) -> None:
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
