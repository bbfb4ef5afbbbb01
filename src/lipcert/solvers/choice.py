"""Which solver, by name or by size and time.

The interior point takes problems up to a few thousand rows to full accuracy; unit-vector problems with two sides go to
the alternating method; the low-rank method gives a first bound where the interior point cannot finish. The thresholds
are measured: see PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Callable

from lipcert.quadratic.problem import RankTwoProblem
from lipcert.solvers.result import Callback, RankTwoResult

SOLVERS = ("auto", "rank-two", "low-rank")
Run = Callable[[Callback], RankTwoResult]

_ALTERNATE_FROM = 400  # the order from which alternation beats the interior point


def choose_solver(name: str, problem: RankTwoProblem, seconds: float) -> Run:
    """A function that runs the chosen solver for at most about `seconds`, with a callback per iteration."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solvers.low_rank import LowRankOptions, solve_low_rank
    from lipcert.solvers.rank_two import Options, solve_rank_two
    from lipcert.solvers.sides import solve_two_sided, two_sides

    seconds = max(seconds, 1e-3)
    first_order = name == "low-rank" or (name == "auto" and problem.size >= _ALTERNATE_FROM)
    sides = two_sides(problem) if first_order else None
    if sides is not None:
        return lambda callback: solve_two_sided(problem, sides, seconds, callback)
    if name == "low-rank":
        return lambda callback: solve_low_rank(problem, LowRankOptions(time_limit=seconds), callback)
    return lambda callback: solve_rank_two(problem, Options(time_limit=seconds), callback)
