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
_LEAST = 1e-3  # seconds that a call of the low-rank method counts at least, so that its share comes to an end


def choose_solver(name: str, problem: RankTwoProblem, budget: Budget) -> Run:
    """A function that runs the chosen solver within the budget, with a callback per iteration."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solver.low_rank import LowRankOptions, LowRankRun
    from lipcert.solver.rank_two import Options, RankTwoRun
    from lipcert.solver.unit_vectors import solve_two_sided, two_sides

    first_order = name == "low-rank" or (name == "auto" and problem.size >= ALTERNATE_FROM)
    sides = two_sides(problem) if first_order else None
    if sides is not None:
        return lambda callback: solve_two_sided(problem, sides, budget, callback)
    if name == "low-rank" or _too_large(problem, budget):
        return lambda callback: LowRankRun(problem, LowRankOptions(), callback, budget).advance(budget, callback)
    if name == "rank-two":
        return lambda callback: RankTwoRun(problem, Options(), callback, budget).advance(budget, callback)
    return lambda callback: SolveBySize(problem, budget).advance(budget, callback)


def no_room_for_interior(name: str, problem: RankTwoProblem, budget: Budget) -> bool:
    """Whether `choose_solver` takes a first-order method because the interior point does not fit the memory."""
    from lipcert.solver.unit_vectors import two_sides  # here, so that importing lipcert stays fast

    if name == "low-rank" or not _too_large(problem, budget):
        return False
    return not (name == "auto" and problem.size >= ALTERNATE_FROM and two_sides(problem) is not None)


def _too_large(problem: RankTwoProblem, budget: Budget) -> bool:
    from lipcert.solver.costs import solve_numbers  # here, so that importing lipcert stays fast

    return not math.isinf(budget.memory.limit) and not budget.holds(solve_numbers(problem))


class SolveBySize:
    """The low-rank method for a first bound, the interior point where it can get far, else the low-rank method again.

    A solve that its budget stopped goes on in the next `advance`: both methods keep their iterates. Whether the
    interior point gets far is a question about what is left of the whole call, not about one turn.
    """

    def __init__(self, problem: RankTwoProblem, budget: Budget) -> None:
        from lipcert.solver.costs import solve_operations
        from lipcert.solver.low_rank import LowRankOptions, LowRankRun
        from lipcert.solver.rank_two import Options, RankTwoRun

        self.operations = solve_operations(problem)
        if budget.expected(self.operations) > _WORTH_CALIBRATING:
            budget.calibrate()
        self.low_rank = LowRankRun(problem, LowRankOptions(), None, budget)
        self.interior = RankTwoRun(problem, Options(), None, budget)
        long = budget.expected(self.operations) > min(LONG, SURE_SHARE * budget.left_in_all())
        self.quick = QUICK_SHARE if long else 0.0  # share of the interior point's time for the first bound
        self.spent = 0.0  # seconds of the low-rank method
        self.best: RankTwoResult | None = None

    def least(self, budget: Budget) -> float:
        """Seconds that the next call needs to come any further."""
        return self.low_rank.least(budget) if self._first_order(budget) else self.interior.least(budget)

    def ahead(self, budget: Budget) -> float:
        """Seconds of the interior point to a bound within a percent of the optimum, where it comes next."""
        return 0.0 if self._first_order(budget) else self.interior.ahead(budget)

    def advance(self, budget: Budget, callback: Callback) -> RankTwoResult:
        """Go on within the budget. The result has the best multipliers of all calls."""
        status: Status | None = None
        while status is None:
            if self._first_order(budget):
                status = self._low_rank(budget, callback)
            else:
                found = self.interior.advance(budget, _Hopeless(self, budget, callback))
                self._keep(found)
                hopeless = found.status is Status.INTERRUPTED and self._hopeless(budget)
                status = None if hopeless else found.status
        assert self.best is not None
        paused = self if status is Status.TIME_LIMIT else None
        return replace(self.best, status=status, paused=paused)

    def _first_order(self, budget: Budget) -> bool:
        """Whether the low-rank method comes next."""
        return self._due(budget) > 0.0 or self._hopeless(budget)

    def _due(self, budget: Budget) -> float:
        """Seconds that the low-rank method still has before the interior point begins."""
        return 0.0 if self.interior.begun else self.quick * budget.expected(self.operations) - self.spent

    def _hopeless(self, budget: Budget) -> bool:
        """Whether the interior point would not get below the low-rank method in what is left of the call."""
        done = len(self.interior.log.history) - 1
        ahead = self.operations / ITERATIONS * (HOPELESS_FROM - done if done >= HOPELESS_AT else ITERATIONS)
        return done < HOPELESS_FROM and budget.expected(ahead) > budget.left_in_all()

    def _low_rank(self, budget: Budget, callback: Callback) -> Status | None:
        """Rounds of the low-rank method; None where the interior point comes next."""
        due, begin = self._due(budget), budget.now()
        hopeless = self._hopeless(budget)
        found = self.low_rank.advance(budget if hopeless else budget.upto(due), callback)
        self.spent += max(budget.now() - begin, _LEAST)
        self._keep(found)
        late = found.status is Status.TIME_LIMIT and (hopeless or budget.over())
        if found.status is not Status.TIME_LIMIT and not hopeless:
            self.quick = 0.0  # it has come to its end
        return found.status if hopeless or late or found.status is Status.INTERRUPTED else None

    def _keep(self, found: RankTwoResult) -> None:
        """Keep the better multipliers, with the moment matrix that there is."""
        best = self.best
        if best is None or found.dual <= best.dual:
            self.best = found
        elif found.X is not None:
            self.best = replace(best, X=found.X, iterations=found.iterations, history=found.history)


class _Hopeless:
    """Stops an interior point that turns out to be too slow."""

    def __init__(self, solve: SolveBySize, budget: Budget, callback: Callback) -> None:
        self.solve, self.budget, self.callback = solve, budget, callback

    def __call__(self, progress: Progress) -> bool:
        if self.callback(progress):
            return True
        return progress.iteration == HOPELESS_AT and self.solve._hopeless(self.budget)
