"""Witnesses on the way to a bound: the search at the start, and what the moment matrices of solvers lead to."""

from __future__ import annotations

import math

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import Bracket
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.search.progress import Status
from lipcert.steps import THIN, Expired
from lipcert.witness import Witness, evaluate, glance, improve, search
from lipcert.witness.record import CHEAP_NETWORK

SEARCH_CHEAP = 1.0  # seconds of a witness search beside a bound by arithmetic that took no longer than this

# Witness searches between the turns of other engines.
LOOK_SHARE = 0.2  # first share of a turn's time that goes to a search; a search that finds nothing halves it
LOOK_SHARE_MOST = 0.5  # largest share; one that closes more of the gap than the turn did doubles it up to this
LOOK_MOST = 0.5  # share of the remaining budget that one search may take
LOOK_LEAST = 0.02  # share of the budget below which no search begins: short searches find nothing
LOOK_LAST = 1.0  # seconds, at least, of a search when nothing else is left to do

# Witnesses from moment matrices, measured on (80,80) and ERAN 3_50.
MOMENTS_SHARE = 0.04  # share of the whole budget that one matrix may take
MOMENTS_SHARE_LEFT = 0.15  # share of the remaining budget that one matrix may take
MOMENTS_LEAST = 0.004  # share of the whole budget below which no further matrix is used
MOMENTS_OPERATIONS = 2500.0  # times the order squared: operations for the leading eigenvectors of one matrix
MOMENTS_GAIN = 1e-6  # a relative gain below this counts as none

# How much longer than its own time a search may take before it is cut, as a share of what is left of the call. The
# values were chosen, not tuned; annealing went on for 40 s after a limit of 5 s on a network of 426,000 neurons.
_OVERRUN, _OVERRUN_FIRST = 0.25, 0.6  # the second as long as there is no witness at all


def look_at_middle(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """Look for a witness at the middle of the region, before the bounds of a large network take all of the time."""
    if problem.network.entries <= CHEAP_NETWORK:
        return
    bracket.enter("lower bound")
    try:
        with threads_for(problem.network.entries**0.5), budget.share(_OVERRUN).enforced():
            glance(problem, budget, seed=bracket.settings.seed, on_witness=bracket.improve)
    except Expired:
        pass
    except MemoryError:
        bracket.out_of_memory("the search for a lower bound", budget)


def look(problem: Problem, bracket: Bracket, budget: Budget, seconds: float, again: int | None = 0) -> None:
    """Search for a witness for so many seconds of the budget. A search that is cut keeps the points it has found.

    `again` counts the earlier searches; it changes the seed, and the search starts from the best point so far. With
    None the search starts anew, so that its result does not depend on the earlier ones.
    """
    bracket.enter("lower bound")
    known, seed = None if again is None else bracket.witness, bracket.settings.seed + (again or 0)
    starts = None if known is None else known.point[None, :]
    new = bracket.witness is None or problem.network.entries <= CHEAP_NETWORK
    more = (_OVERRUN_FIRST if bracket.witness is None else _OVERRUN) * max(budget.left(), 0.0)
    part, longest = budget.upto(seconds), budget.upto(seconds + more)
    try:
        with threads_for(problem.network.entries**0.5), longest.enforced():
            found = search(problem, part, seed=seed, starts=starts, on_witness=bracket.improve, middle=new)
            if problem.region.contains(found.point):  # of a region without room there may be no point
                bracket.improve(found)
    except Expired:
        pass
    except MemoryError:
        bracket.out_of_memory("the search for a lower bound", budget)


def seconds_beside_arithmetic(budget: Budget) -> float:
    """Seconds of the search for a witness of a method without a solver: as long as its bound took, at least a while."""
    spent = budget.spent()
    return max(SEARCH_CHEAP, spent.counted if budget.repeatable else spent.wall)


class WitnessTurns:
    """Searches for witnesses between the turns of the engines, for a share of the time that the turns take.

    The first search is as long as that of a method without a solver, so that no cheap method has a better witness. It
    comes after the first turn that leaves a gap, or before all turns if the network is so large that a turn may take
    long. Its time is saved up again before the next search. The share is halved after a search that found nothing; it
    is doubled after one that closed more of the gap in its time than the turns before it.
    """

    def __init__(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        self.problem, self.bracket = problem, bracket
        self.share, self.saved, self.times, self.start = LOOK_SHARE, 0.0, 0, budget.now()
        self.upper, self.waited = bracket.upper, 0.0  # the bound at the last search, and seconds of turns since
        self.begun, self.alone = False, seconds_beside_arithmetic(budget)

    def before(self, budget: Budget) -> None:
        """Search before the first turn if the network is large, because that turn may take long."""
        if self.problem.network.entries > CHEAP_NETWORK:
            self._first(budget)

    def _first(self, budget: Budget) -> None:
        """The first search: as long as that of a method without a solver, but at most half of the time."""
        self.begun = True
        seconds, start = min(self.alone, LOOK_MOST * budget.left()), budget.now()
        if not self.bracket.closed() and seconds > 0.0:
            look(self.problem, self.bracket, budget, seconds, None)
            self.saved = start - budget.now()

    def __call__(self, spent: float, budget: Budget) -> None:
        """Search for a share of the `spent` seconds of a turn, even if a long turn left little time."""
        if not self.begun:
            self._first(budget)
        self.saved, self.waited = self.saved + self.share * spent, self.waited + spent
        seconds = min(self.saved, LOOK_MOST * max(budget.left(), 0.0))
        if self.bracket.closed() or seconds < LOOK_LEAST * (budget.end - self.start):
            return
        before, start = self.bracket.lower, budget.now()
        self.times += 1
        look(self.problem, self.bracket, budget, seconds, self.times)
        took = budget.now() - start
        self.saved = max(self.saved - took, 0.0)
        risen, fallen = _gain(before, self.bracket.lower), _gain(self.bracket.upper, self.upper)
        if risen <= MOMENTS_GAIN:
            self.share /= 2
        elif risen * self.waited > fallen * took:
            self.share = min(2 * self.share, LOOK_SHARE_MOST)
        self.upper, self.waited = self.bracket.upper, 0.0

    def again(self, budget: Budget, seconds: float) -> None:
        """Another search, for so many seconds of this budget."""
        if not self.bracket.closed() and not budget.over():
            self.times += 1
            look(self.problem, self.bracket, budget, seconds, self.times)

    def last(self, budget: Budget, patient: bool = False) -> None:
        """Search when all engines have ended with a gap: a better witness may close it.

        `patient`: search until the budget is over, each time as long as the whole run so far, unless there is no bound.
        """
        while self.bracket.status is Status.DONE and not self.bracket.closed() and not budget.over():
            before = budget.now()
            self.again(budget, max(LOOK_LAST, before - self.start))
            if not patient or math.isinf(self.bracket.upper) or budget.now() <= before:
                return


def _gain(small: float, large: float) -> float:
    """Logarithm of large / small; infinite if there was no value before."""
    return math.log(large / small) if 0 < small <= large < math.inf else math.inf if small < large else 0.0


class MomentRounding:
    """Rounds moment matrices to witnesses; a matrix that gives no better one halves the share of the budget."""

    def __init__(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        self.problem, self.bracket, self.budget = problem, bracket, budget
        self.share, self.seed, self.total = MOMENTS_SHARE, bracket.settings.seed, budget.left()

    def __call__(self, relaxation: Relaxation, X: Array, case: Problem | None = None) -> None:
        """Search from the leading vectors of X; `case` is given if the matrix is that of one of several problems."""
        bracket, left = self.bracket, self.budget.left()
        known = bracket.witness
        if known is None or bracket.closed() or self.share < MOMENTS_LEAST:
            return
        seconds = min(self.share * self.total, MOMENTS_SHARE_LEFT * left)
        if seconds < self.budget.expected(MOMENTS_OPERATIONS * len(X) ** 2, THIN):
            return
        self.seed += 1
        with threads_for(self.problem.network.entries**0.5):
            found = self._found(known, relaxation, X, self.budget.upto(seconds), case)
        bracket.improve(found)
        if found.value <= known.value * (1 + MOMENTS_GAIN):
            self.share /= 2

    def _found(self, known: Witness, relaxation: Relaxation, X: Array, budget: Budget, case: Problem | None) -> Witness:
        if case is None or not self.problem.whole_map:
            return improve(self.problem, known, relaxation, X, budget, seed=self.seed, on_witness=self.bracket.improve)
        along = self.problem.along(case.c, part=True)  # one output of the map; its points are valued by the whole map
        start = Witness(known.point, evaluate(along, known.point), known.method)
        point = improve(along, start, relaxation, X, budget, seed=self.seed).point
        found = Witness(point, evaluate(self.problem, point), known.method)
        return found if found.value > known.value else known
