"""Inputs that the search meets on its way, and the largest gradient among them.

The point of a linear program lies on faces of its cell, where the slope of a kink may be either: what is proved there
can be far less than the gradient of its pattern. So a pattern that would be a better witness is asked for a point well
inside (`realise`), and so is every whole pattern whose bound counts.
"""

from __future__ import annotations

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.signs.program import SIGNS_CALLS
from lipcert.method.signs.quick import Flat
from lipcert.method.signs.realise import Multipliers, Realise
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Polytope
from lipcert.proof.nogoods import Signs
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN
from lipcert.witness import Witness, evaluate

SIGNS_EVALUATE = 20.0  # operations for every entry of the network, at a point that is proved

METHOD = "signs"


class Points:
    """Improves the bracket with points of `original`, which the problem searched was made of."""

    def __init__(self, problem: Problem, original: Problem, bracket: Bracket, quick: Flat) -> None:
        self.problem, self.original, self.bracket, self.quick = problem, original, bracket, quick
        self.realise = Realise(problem, quick)

    def offer(self, point: Array, budget: Budget) -> None:
        """Any point of the box."""
        budget.charge(SIGNS_CALLS, SCALAR)
        pattern = self.quick.patterns(point[None])
        norm = float(self.quick.constants(pattern)[0])
        if norm <= self.bracket.lower:
            return
        if self._evaluate(point, budget) < norm * (1.0 - self.bracket.settings.gap):
            self.whole(pattern[0], budget)

    def whole(self, signs: Signs, budget: Budget) -> Multipliers | None:
        """A point inside the cell of a whole pattern; multipliers that may refuse the pattern if there is none."""
        point, multipliers = self.realise.point(signs, budget)
        if point is not None:
            self._evaluate(point, budget)
        return multipliers

    def _evaluate(self, point: Array, budget: Budget) -> float:
        budget.charge(SIGNS_EVALUATE * self.original.network.entries, THIN)
        budget.charge(SIGNS_CALLS, SCALAR)
        if isinstance(self.original.region, Ball | Polytope):  # the linear programs know its box, and round
            point = self.original.region.project(point)
        value = evaluate(self.original, point)
        if value > self.bracket.lower and self.original.region.contains(point):
            self.bracket.improve(Witness(point, value, METHOD))
        return value
