"""Which solver, by name or by size and budget.

The interior point takes problems up to a few thousand rows to full accuracy. Unit-vector problems with two sides go to
the alternating method. Where the interior point is expected to take long, the low-rank method goes first for a quick
bound; where it cannot get far, or does not fit the memory, the low-rank method has all of the budget. The expected time
follows the pace of the run, so a slow or busy machine moves from one to the other instead of ending with nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.solver.costs import ITERATIONS
from lipcert.solver.result import Callback, Progress, RankTwoResult, Status

# Which solver; measured on SDP-NN, ERAN 5_100 at 0.01 and mnist-net_256x2 at 0.05.
ALTERNATE_FROM = 400  # order from which alternation beats the interior point on problems with two sides
# The low-rank method makes a first bound where the interior point is expected to take more seconds than LONG, or more
# than the share SURE_SHARE of the budget. That first bound gets the share QUICK_SHARE of the budget.
LONG = 8.0
SURE_SHARE = 0.35
QUICK_SHARE = 0.08
HOPELESS_FROM = 9  # iterations that an interior point needs to get below the low-rank method
HOPELESS_AT = 3  # the iteration at which the budget is asked whether the interior point will get there

SOLVERS = ("auto", "rank-two", "low-rank")
Run = Callable[[Callback], RankTwoResult]
# Seconds that an interior point is expected to take above which the pace of the machine is measured first.
_WORTH_CALIBRATING = 1.0


def choose_solver(name: str, problem: RankTwoProblem, budget: Budget) -> Run:
    """A function that runs the chosen solver within the budget, with a callback per iteration."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solver.low_rank import solve_low_rank
    from lipcert.solver.rank_two import Options, solve_rank_two
    from lipcert.solver.unit_vectors import solve_two_sided, two_sides

    first_order = name == "low-rank" or (name == "auto" and problem.size >= ALTERNATE_FROM)
    sides = two_sides(problem) if first_order else None
    if sides is not None:
        return lambda callback: solve_two_sided(problem, sides, budget, callback)
    if name == "low-rank" or _too_large(problem, budget):
        return lambda callback: solve_low_rank(problem, callback=callback, budget=budget)
    if name == "rank-two":
        return lambda callback: solve_rank_two(problem, Options(), callback, budget=budget)
    return lambda callback: _by_size(problem, budget, callback)


def no_room_for_interior(name: str, problem: RankTwoProblem, budget: Budget) -> bool:
    """Whether `choose_solver` takes a first-order method because the interior point does not fit the memory."""
    from lipcert.solver.unit_vectors import two_sides  # here, so that importing lipcert stays fast

    if name == "low-rank" or not _too_large(problem, budget):
        return False
    return not (name == "auto" and problem.size >= ALTERNATE_FROM and two_sides(problem) is not None)


def _too_large(problem: RankTwoProblem, budget: Budget) -> bool:
    from lipcert.solver.costs import solve_numbers  # here, so that importing lipcert stays fast

    return not math.isinf(budget.memory.limit) and not budget.holds(solve_numbers(problem))


def _by_size(problem: RankTwoProblem, budget: Budget, callback: Callback) -> RankTwoResult:
    """The low-rank method for a first bound where that is worth it, the interior point, and the low-rank method again
    where the interior point would not get far; the best multipliers of all."""
    from lipcert.solver.costs import solve_operations
    from lipcert.solver.low_rank import LowRankOptions, LowRankRun
    from lipcert.solver.rank_two import Options, RankTwoRun

    whole = solve_operations(problem)
    if budget.expected(whole) > _WORTH_CALIBRATING:
        budget.calibrate()
    quick = LowRankRun(problem, LowRankOptions(), callback, budget)
    first = None
    if budget.expected(whole) > min(LONG, SURE_SHARE * budget.left()):
        first = quick.run(budget.share(QUICK_SHARE))
        if first.status is Status.INTERRUPTED:
            return first
    if first is not None and budget.expected(whole) > budget.left():
        return quick.run(budget)
    watch = _Hopeless(whole / ITERATIONS, budget, callback)
    interior = RankTwoRun(problem, Options(), watch, budget)
    found = interior.run(budget)
    if watch.hopeless:
        last = quick.run(budget)
        found = replace(found if found.dual <= last.dual else last, status=last.status)
    elif found.status is Status.TIME_LIMIT and interior.begun:
        found = replace(found, paused=interior)
    if first is None or found.dual <= first.dual:
        return found
    return replace(first, status=found.status, paused=found.paused)


class _Hopeless:
    """Stops an interior point that is too slow to get below what the low-rank method finds in the same time."""

    def __init__(self, operations: float, budget: Budget, callback: Callback) -> None:
        self.operations, self.budget, self.callback = operations, budget, callback
        self.hopeless = False

    def __call__(self, progress: Progress) -> bool:
        if self.callback(progress):
            return True
        if progress.iteration == HOPELESS_AT:
            rest = (HOPELESS_FROM - HOPELESS_AT) * self.operations
            self.hopeless = self.budget.expected(rest) > self.budget.left()
        return self.hopeless
