"""Witnesses on the way to a bound: the search at the start, and what the moment matrices of solvers lead to."""

from __future__ import annotations

from lipcert.bounds.collapse import collapsed_before
from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import Bracket
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.steps import THIN, Expired
from lipcert.witness import Witness, evaluate, glance, improve, search
from lipcert.witness.record import CHEAP_NETWORK
from lipcert.witness.smooth import ascent_operations

SEARCH_CHEAP = 1.0  # seconds of a witness search beside a bound by arithmetic that took no longer than this
# Random points of a search, and of one that goes on from the best point of an earlier one.
SAMPLES, SAMPLES_AGAIN = 50_000, 5_000

# Witnesses from moment matrices, measured on (80,80) and ERAN 3_50.
MOMENTS_SHARE = 0.04  # share of the whole budget that one matrix may take
MOMENTS_SHARE_LEFT = 0.15  # share of the remaining budget that one matrix may take
MOMENTS_LEAST = 0.004  # share of the whole budget below which no further matrix is used
MOMENTS_OPERATIONS = 2500.0  # times the order squared: operations for the leading eigenvectors of one matrix
MOMENTS_GAIN = 1e-6  # a relative gain below this counts as none

# The network of the open neurons is searched where the network has so many times as many multiplications: a point that
# may be better is valued in the network itself, which must not take longer than finding it.
LIFTED_FROM = 4.0
LIFTED_GAIN = 1e-4  # relative gain over the best witness from which a point is valued again

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
    samples = SAMPLES_AGAIN if again else SAMPLES
    starts = None if known is None else known.point[None, :]
    new = bracket.witness is None or problem.network.entries <= CHEAP_NETWORK
    more = (_OVERRUN_FIRST if bracket.witness is None else _OVERRUN) * max(budget.left(), 0.0)
    part, longest = budget.upto(seconds), budget.upto(seconds + more)
    asked = _searched(problem)
    take = bracket.improve if asked is problem else _Lifted(problem, bracket)
    try:
        with threads_for(problem.network.entries**0.5), longest.enforced():
            found = search(asked, part, seed=seed, samples=samples, starts=starts, on_witness=take, middle=new)
            if problem.region.contains(found.point):  # a region without room may have no point
                take(found)
    except Expired:
        pass
    except MemoryError:
        bracket.out_of_memory("the search for a lower bound", budget)


def _searched(problem: Problem) -> Problem:
    """The problem of the open neurons where it was made by now and takes much less work; else the problem itself."""
    small = collapsed_before(problem)
    entries = problem.network.entries
    if small is None or entries <= max(CHEAP_NETWORK, LIFTED_FROM * small.problem.network.entries):
        return problem
    return small.problem


class _Lifted:
    """Points of the network of the open neurons as witnesses of the problem, valued again where they may be better."""

    def __init__(self, problem: Problem, bracket: Bracket) -> None:
        self.problem, self.bracket = problem, bracket

    def __call__(self, found: Witness) -> None:
        if found.value > self.bracket.lower * (1.0 + LIFTED_GAIN):
            value = evaluate(self.problem, found.point)
            self.bracket.improve(Witness(found.point, value, found.method))


def seconds_of_a_search(problem: Problem, budget: Budget) -> float:
    """Seconds in which a search comes to the end of an ascent; less would be spent on what comes before it."""
    return min(budget.expected(ascent_operations(_searched(problem).network), THIN), SEARCH_CHEAP)


def seconds_beside_arithmetic(budget: Budget) -> float:
    """Seconds of the search for a witness of a method without a solver: as long as its bound took, at least a while."""
    spent = budget.spent()
    return max(SEARCH_CHEAP, spent.counted if budget.repeatable else spent.wall)


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
