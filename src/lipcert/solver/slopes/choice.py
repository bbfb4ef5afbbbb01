"""Multipliers of a program within a budget: greedy, then first order, then an interior point where it can end.

An interior point costs (neurons)^3 / 3 and (coordinates)^2 times the width in each of some 15 steps, and ends at the
optimum. A first-order step costs width^3 for each block, and 20 of them take most of what can be gained. So the
interior point follows after a few first-order steps where the budget is expected to hold all of it; else first-order
steps go on as long as they gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram
from lipcert.rounding import Array
from lipcert.solver.slopes.first_order import FirstOrder, Point, evaluation_operations
from lipcert.solver.slopes.greedy import ROOM, START, greedy, greedy_operations
from lipcert.solver.slopes.interior import Interior, step_operations
from lipcert.solver.slopes.pencil import Pencil
from lipcert.solver.slopes.settle import complete, settle
from lipcert.solver.slopes.walk import Walk, estimate, in_units

# Measured on square layers of depth 16 to 100 and width 10 to 64.
SLOPES_GREEDY = 0.15  # share of the budget for the greedy passes; fewer Newton steps are made where that is too short
# First-order steps before an interior point may take as long as this many of its steps. At width 16 and depth 64, 25
# first-order steps are enough; at width 64, 100 are needed, and there they are 100 times cheaper.
SLOPES_BEFORE = 2.0
SLOPES_STEPS = 12  # steps of an interior point to a bound within 1e-3 (5 to 12); to a gap of 1e-7 it takes 11 to 19
SLOPES_ORDER = 9000  # coordinates of an interior point, at most: six dense matrices of that order are 4 GB
ROOM_OF_A_STEP = 1.25  # times the expected seconds of a step: what a turn must have so that one fits into it
SLOPES_SYSTEM = 6.0  # copies of the matrix of all multipliers in memory during the interior point

Start = tuple[tuple[Array, ...], Array | None]  # multipliers of neurons and of inputs
OnBetter = Callable[[SlopeMultipliers, float], bool]

GAIN = 1e-9  # relative: multipliers that are better by less are not shown
ROUNDS = (8, 3, 1)  # Newton steps for each block in a greedy pass, as the budget allows
HALF = 0.5  # share of the largest tau at which the interior point starts
BARRIERS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)  # over the coordinates; the first is the best start of an interior point
POWERS = (6.0, 10.0, 18.0, 34.0, 66.0, 130.0)  # powers of the norm that stands for the largest eigenvalue
ATTEMPTS = (1, 2)  # times the first-order steps before an interior point; more after one that failed
CENTRED = 1e-2  # the same before an interior point, which needs a start near the minimum with the first barrier
SLOW = 1e-4  # relative gain of ten first-order steps below which the next barrier follows
LONG = 14  # steps of an interior point that is still above where it began: it has failed


@dataclass(eq=False)
class _Inner:
    """An interior point that may go on: where it began, and the steps so far."""

    method: Interior
    start: Point
    steps: int = 0


class SlopeSolver:
    """A solve that can go on: `run` continues where the last one came to the end of its budget.

    `ended` says that nothing is left to be gained; `moves` counts what was begun, so that a run without any is seen.
    """

    def __init__(self, program: SlopeProgram) -> None:
        self.given = program
        self.settled = settle(program)
        self.best = float("inf")
        self.multipliers: SlopeMultipliers | None = None
        self.stopped = self.ended = False
        self.moves = 0
        self.at: Start | None = None  # first-order steps continue from here
        self.attempts, self.level = list(ATTEMPTS), 0
        self.inner: _Inner | None = None
        self.descent: tuple[int, FirstOrder] | None = None  # first-order steps of a level

    def run(self, budget: Budget, on_better: OnBetter) -> SlopeMultipliers:
        """Always at least what the greedy pass gives, whatever is left of the budget."""
        self.budget, self.on_better, self.stopped = budget, on_better, False
        with budget.threads(max(self.given.widths)):
            if self.at is None:
                self._begin()
            if not (self.stopped or self.ended):
                self._improve()
        if self.multipliers is None:
            raise ArithmeticError("the greedy pass proves nothing: numbers of the network are too far apart")
        return self.multipliers

    def least(self, budget: Budget) -> float:
        """Seconds of the next step; none of a solve that has not begun, which makes do with any time."""
        if self.at is None or self.ended:
            return 0.0
        step = 0.0 if self.inner is None else self.inner.method.operations
        return ROOM_OF_A_STEP * budget.expected(max(step, 2 * evaluation_operations(self.program)))

    def rest(self) -> None:
        """Keep the multipliers alone: an interior point has matrices of all neurons."""
        self.inner = self.descent = None

    def _begin(self) -> None:
        """Greedy passes, as many as the budget allows."""
        program = self.settled.program
        share = SLOPES_GREEDY * max(self.budget.left(), 0.0)
        costs = {r: self.budget.expected(greedy_operations(program, r)) for r in ROUNDS}
        if 2 * costs[ROUNDS[0]] <= share:
            found, weights = self._pass(ROUNDS[0], ROOM)
        if not self.stopped:
            found, weights = self._pass(0, ROOM)  # never above the product of norms
        rounds = next((r for r in ROUNDS if costs[r] <= share), 0)
        if rounds and not self.stopped:
            found, weights = self._pass(rounds, START)
        self.at = found.t, weights
        self.ended = not (found.square > 0 and program.blocks)

    def _pass(self, rounds: int, room: float) -> tuple[Walk, Array | None]:
        """A greedy pass, whose units are those of all that follows."""
        program = self.settled.program
        with self.budget.measured(greedy_operations(program, rounds)):
            found, weights = greedy(program, rounds, room)
        self.walk = found
        self.program = in_units(program, found.exponents, found.last)
        self._offer(found.t, weights, float(np.sqrt(found.square)))
        return found, weights

    def _offer(self, t: tuple[Array, ...], weights: Array | None, inside: float) -> None:
        """Show multipliers in the units of the program whose bound there is `inside`, where they are better."""
        if not np.isfinite(inside):
            return
        with np.errstate(over="ignore"):
            value = float(np.ldexp(inside, self.walk.last))
        if not (value < self.best * (1 - GAIN) or self.multipliers is None):
            return
        try:
            shown = complete(self.given, self.settled, self.walk.exponents, t, weights)
        except np.linalg.LinAlgError:
            return
        self.best, self.multipliers = value, shown
        self.stopped = bool(self.on_better(shown, value)) or self.stopped

    def _improve(self) -> None:
        """First order, and an interior point where it fits; again from further on where one fails."""
        assert self.at is not None
        if self._too_late() or (self.inner is not None and self._inside(self.inner)):
            return
        while self.attempts:
            steps = self._steps_before(*self.at) * self.attempts[0]
            if not steps:
                break
            self.attempts.pop(0)
            found = self._descend(0, steps)
            if found is None or self.stopped or self._interior(found):
                return
        while self.level < len(BARRIERS):
            if self._too_late() or self._descend(self.level, 0) is None or self.stopped:
                return
            self.level += not self._too_late()
        self.ended = not self.attempts  # a longer budget may hold an interior point

    def _too_late(self) -> bool:
        """Whether the budget is too short for two values with their gradients."""
        return self.budget.expected(2 * evaluation_operations(self.program)) > self.budget.left()

    def _descend(self, level: int, steps: int) -> Point | None:
        """First-order steps as long as they gain, at most so many where that is not 0; returns the last point."""
        assert self.at is not None
        self.moves += 1
        method = self._first_order(level)
        at: Point | None = None
        values, before = method.values, len(method.values)
        for at in method.points(*self.at):
            if len(values) > 1:
                self._offer(at.t, at.weights, at.bound)
            slow = len(values) > 10 and values[-11] - at.value < (CENTRED if steps else SLOW)
            if slow or len(values) == before + steps or self.stopped:
                break
        if at is None:
            self.ended = True
        else:
            self.at = at.t, at.weights
        return at

    def _first_order(self, level: int) -> FirstOrder:
        """The first-order method with the barrier of this level, on from where it is."""
        if self.descent is None or self.descent[0] != level:
            barrier = BARRIERS[level] / sum(self.program.widths)
            self.descent = level, FirstOrder(self.program, self.budget, barrier, POWERS[level])
        method = self.descent[1]
        method.budget = self.budget
        return method

    def _steps_before(self, t: tuple[Array, ...], weights: Array | None) -> int:
        """First-order steps before an interior point; 0 where all is not expected to end within the budget."""
        unknowns = float(sum(self.program.widths))
        if unknowns > SLOPES_ORDER or not self.budget.holds(SLOPES_SYSTEM * unknowns**2):
            return 0
        one, own = step_operations(Pencil(self.program, t, weights, 1.0)), evaluation_operations(self.program)
        steps = int(np.clip(SLOPES_BEFORE * one / own, 25, 400))
        whole = steps * own + SLOPES_STEPS * one
        return steps if self.budget.expected(whole) <= self.budget.left() else 0

    def _interior(self, at: Point) -> bool:
        """An interior point from here; whether it came to its end, by itself or that of the budget."""
        form = Pencil(self.program, at.t, at.weights, HALF / at.bound**2)
        self.inner = _Inner(Interior(form, self.budget), at)
        return self._inside(self.inner)

    def _inside(self, inner: _Inner) -> bool:
        """Go on with an interior point that has begun; whether it came to its end, by itself or that of the budget."""
        method, at = inner.method, inner.start
        form, method.budget = method.pencil, self.budget
        cuts = np.cumsum(self.program.widths[1:])[:-1]
        for y in method.iterates():
            total = float(form.cost @ y)
            weights = None if at.weights is None else at.weights * y[form.m :] / total
            t = tuple(np.split(form.t * y[: form.m] / total, cuts))
            bound = estimate(self.program, SlopeMultipliers(t, weights))
            self._offer(t, weights, bound)
            inner.steps += 1
            self.moves += 1
            if self.stopped:
                return True
            if inner.steps > LONG and bound > at.bound:
                self.inner = None
                return False
        if self.budget.expected(method.operations) > self.budget.left() and not method.closed:
            return True
        self.inner, self.ended = None, method.closed
        return method.closed
