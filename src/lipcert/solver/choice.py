"""Which solver, by name or by size and time.

The interior point takes problems up to a few thousand rows to full accuracy. Unit-vector problems with two sides go to
the alternating method. Where the interior point needs many seconds, the low-rank method goes first for a quick bound,
and alone where the interior point could not finish. The thresholds are measured: see PERFORMANCE.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.solver.result import Callback, RankTwoResult, Status

SOLVERS = ("auto", "rank-two", "low-rank")
Run = Callable[[Callback], RankTwoResult]

_ALTERNATE_FROM = 400  # the order from which alternation beats the interior point
_QUICK_SHARE = 0.08  # of the time for a first bound by the low-rank method
_LONG = 8.0  # seconds of interior point from which a first bound is worth having


def choose_solver(name: str, problem: RankTwoProblem, seconds: float) -> Run:
    """A function that runs the chosen solver for at most about `seconds`, with a callback per iteration."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solver.low_rank import LowRankOptions, solve_low_rank
    from lipcert.solver.rank_two import Options, expected_seconds, solve_rank_two
    from lipcert.solver.sides import solve_two_sided, two_sides

    def interior(seconds: float) -> Run:
        return lambda callback: solve_rank_two(problem, Options(time_limit=max(seconds, 1e-3)), callback)

    def low_rank(seconds: float) -> Run:
        return lambda callback: solve_low_rank(problem, LowRankOptions(time_limit=max(seconds, 1e-3)), callback)

    first_order = name == "low-rank" or (name == "auto" and problem.size >= _ALTERNATE_FROM)
    sides = two_sides(problem) if first_order else None
    if sides is not None:
        return lambda callback: solve_two_sided(problem, sides, max(seconds, 1e-3), callback)
    if name == "low-rank":
        return low_rank(seconds)
    expected = expected_seconds(problem)
    if name == "rank-two" or expected < min(_LONG, seconds):
        return interior(seconds)
    if expected > seconds:
        return low_rank(seconds)
    return _in_turn(low_rank, interior, seconds)


def _in_turn(quick: Callable[[float], Run], thorough: Callable[[float], Run], seconds: float) -> Run:
    """A quick first bound, then the thorough solver for the rest of the time; the better multipliers of both."""

    def run(callback: Callback) -> RankTwoResult:
        start = time.perf_counter()
        first = quick(_QUICK_SHARE * seconds)(callback)
        if first.status is Status.INTERRUPTED:
            return first
        second = thorough(seconds - (time.perf_counter() - start))(callback)
        return second if second.dual <= first.dual else replace(first, status=second.status)

    return run
