"""Method slopes for chains of convolutions that are too wide for a multiplier per neuron: one per channel.

First-order steps at few frequencies take most of what can be gained; then they go on at more of them. After each level
the multipliers get room at all frequencies of the proof, and what they prove is offered to the bracket.
"""

from __future__ import annotations

import math

import numpy as np

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.problem.maps import dense
from lipcert.problem.norms import EUCLIDEAN
from lipcert.problem.problem import Problem
from lipcert.proof.channels import Channels, prove_channels
from lipcert.relaxation.channels import ChannelProgram
from lipcert.rounding import Array
from lipcert.solver.slopes.channels import ChannelOrder, settled
from lipcert.solver.slopes.first_order import Point

# Frequencies on an axis, barrier, power of the norm, and share of the time that is left; measured on chains of 2, 4 and
# 16 convolutions of 8 to 32 channels on 28 x 28.
LEVELS = ((8, 3e-3, 15.0, 0.5), (14, 3e-3, 25.0, 0.7), (1 << 20, 1e-3, 40.0, 1.0))
ROOM = (0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # added to logarithms until more frequencies are feasible
SLOW = 2e-3  # gain of the logarithm in ten steps below which the next level follows
MARGINS = (1e-6, 1e-4, 1e-2)  # by which the diagonal behind the convolutions is made smaller, until it is proved
PROOF = 4.0  # operations of a proof over those of a pass
ROWS = 64  # of the layer behind the convolutions: more of them are summed up in one number by channel


class ChannelSolves:
    """A solve that goes on from turn to turn.

    `ended` says that nothing is left to do, however long a call is; `promised` is the bound of the best multipliers at
    the frequencies of the solver.
    """

    def __init__(self, problem: Problem, program: ChannelProgram, bracket: Bracket) -> None:
        self.problem, self.program, self.bracket = problem, program, bracket
        self.tail = None if program.head is not None else _tail(problem, program)
        self.level, self.x = 0, np.zeros(0)
        self.order: ChannelOrder | None = None
        self.ended, self.promised = False, math.inf

    def solve(self, _place: tuple[int, int], budget: Budget, passes_only: bool = False) -> bool:
        """Go on; only the first multipliers and their proof with `passes_only`. Whether nothing is left to do."""
        if not len(self.x):
            order = self._order(0, budget)
            with budget.measured(order.operations):
                self.x = order.begin()
            self._prove(budget)
        while not (passes_only or self.ended or budget.over() or self.bracket.closed()):
            if not self._descend(budget):
                break
        return self.ended

    def advance(self, budget: Budget) -> bool:
        """Go on within a budget; whether nothing is left to do."""
        return self.solve((-1, -1), budget)

    def least(self, budget: Budget) -> float:
        """Seconds of the next two steps with a proof."""
        if self.ended:
            return 0.0
        return budget.expected(2 * (PROOF * self.program.operations + self._order(self.level, budget).operations))

    def _order(self, level: int, budget: Budget) -> ChannelOrder:
        most, barrier, power, _ = LEVELS[level]
        return ChannelOrder(self.program.coarse(most), self.tail, budget, barrier, power)

    def _descend(self, budget: Budget) -> bool:
        """Steps of one level, and a proof; whether the level came to its end, or to that of its share of the time."""
        left = budget.left() - budget.expected(PROOF * self.program.operations)
        order = self.order if self.order is not None else self._order(self.level, budget)
        order.budget = budget.upto(left * LEVELS[self.level][3])
        if budget.expected(2 * order.operations) > order.budget.left():
            return False
        if order.last is None:
            order.last = _feasible(order, self.x, sum(self.program.counts))
        if order.last is None:
            self.ended = True
            return False
        self.order, best, late = order, order.last, True
        for point in order.points((order.last.x,), None):
            best = point if point.bound < best.bound else best
            late = budget.expected(order.operations) > order.budget.left()
            if late or (len(order.values) > 10 and order.values[-11] - point.value < SLOW):
                break
        self.x, self.promised = best.x, best.bound
        self._prove(budget)
        if late and self.level == len(LEVELS) - 1:
            return False
        self.level, self.order = self.level + 1, None
        self.ended = self.level == len(LEVELS)
        return True

    def _prove(self, budget: Budget) -> None:
        """Give the multipliers room at all frequencies, and offer the bracket what they prove."""
        order = self._order(len(LEVELS) - 1, budget)
        with budget.measured(PROOF * self.program.operations):
            at = _feasible(order, self.x, sum(self.program.counts))
            if at is None:
                return
            t, floor = settled(self.program, at.t, at.weights)
            for margin in MARGINS if len(floor) else MARGINS[:1]:
                found = prove_channels(self.problem, self.program, Channels(t, floor * (1 - margin)))
                if found.upper < math.inf:
                    self.bracket.improve(found)
                    return


def _feasible(order: ChannelOrder, x: Array, multipliers: int) -> Point | None:
    """The point, or one with a little more room, that is feasible at the frequencies of this order."""
    for more in ROOM:
        found = order.point(np.concatenate([x[:multipliers] + more, x[multipliers:]]))
        if found is not None:
            return found
    return None


def _tail(problem: Problem, program: ChannelProgram) -> Array:
    """For every channel the Gram matrix of its columns in the layers that read it; their trace where rows are many."""
    net, last, channels = problem.network, len(program.stages), program.counts[-1]
    readers, c = net.readers[last], np.atleast_2d(problem.c)
    if len(readers) == 1 and readers[0][0] > net.depth and len(c) <= ROWS:
        rows = dense(readers[0][1].T @ c.T).T.reshape(len(c), channels, -1)
        return np.asarray(np.einsum("rcp,scp->crs", rows, rows))
    squares = np.sum([EUCLIDEAN.rows_above(weight.T) ** 2 for _, weight in readers], axis=0)
    return np.asarray(squares.reshape(channels, -1).sum(axis=1)[:, None, None])
