"""The dual norm of a gradient at a point where intervals lose it: a directional derivative with proved slopes.

Each step is tried where those before it left more than rounding should cost: the slopes that intervals of floats prove;
those that long numbers prove (`precise`), or error bounds with a row for every neuron where activations are smooth
(`errors`); and the chain rule in long numbers where every sign is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import Array, gamma
from lipcert.steps import DENSE, THIN
from lipcert.witness import errors, precise, tangent
from lipcert.witness.screen import direction

# Hidden blocks from which intervals may need long numbers: on 32 blocks of 16 random neurons, plain ones lose all
# signs.
PRECISE_DEPTH = 8

_ENOUGH = 1.0 - 1e-6  # of the norm in plain floating point: no further step is tried
# Digits of long numbers beyond those that intervals of floats ask for, at first and where that was too few: on random
# networks of 17 to 100 blocks the first were enough.
_SPARE, _SPARE_BACKWARD = (1, 5), (3, 7)
_LITTLE = 0.5  # seconds: a step that takes no longer is done also where the call has no time left
_OPEN = 0.5  # of the slopes that an activation can have: a bound of a slope that is so wide says nothing


def hopeless(net: Network, pre: Sequence[Interval]) -> bool:
    """Whether bounds of z say nothing of any slope of some block: then nothing of a gradient is left."""
    for f, slope in zip(net.activations, slope_bounds(net, pre), strict=True):
        least, most = f.slopes
        if most > least and np.all(slope.hi - slope.lo >= _OPEN * (most - least)):
            return True
    return False


@dataclass(frozen=True, eq=False)
class Sharper:
    """The gradient of d'scores by the chosen inputs; `zs` are pre-activations and `formal` is its dual norm, in plain
    floating point."""

    net: Network
    norm: Norm
    point: Array
    d: Array
    chosen: slice
    zs: Sequence[Array]
    formal: float
    budget: Budget | None

    def value(self, pre: Sequence[Interval]) -> float:
        """A lower bound of the dual norm of every gradient next to the point; `pre` are bounds of z there."""
        value = 0.0 if hopeless(self.net, pre) else self._along(pre)
        if self._enough(value) or self.net.depth < PRECISE_DEPTH:
            return value
        if precise.applies(self.net):
            value = max(value, self._in_long_numbers(pre))
        elif errors.Rows.fit(self.net):
            value = max(value, self._with_rows())
        return value

    def _with_rows(self) -> float:
        work = errors.Rows.work(self.net), DENSE
        if not self._charged(*work):
            return 0.0
        pre = errors.preactivations(self.net, self.point, rows=True)
        value = self._along(pre)
        return value if self._enough(value) or not self._charged(*work) else max(value, self._along(pre, rows=True))

    def _in_long_numbers(self, pre: Sequence[Interval]) -> float:
        value, needed = 0.0, precise.digits_for(pre, self.zs)
        for spare in _SPARE:
            if not self._charged(*precise.work(self.net, needed + spare)):
                return value
            better = precise.preactivations(self.net, self.point, needed + spare, self.budget)
            if better is None:
                return value
            value = max(value, self._along(better))
            if self._enough(value):
                return value
            if self._certain(better):
                return max(value, self._pulled(better, needed))
        return value

    def _pulled(self, pre: Sequence[Interval], needed: int) -> float:
        """By the chain rule in long numbers, where every sign is certain."""
        for spare in _SPARE_BACKWARD:
            if not self._charged(*precise.work(self.net, needed + spare)):
                return 0.0
            least = precise.gradient(self.net, [z.lo > 0 for z in pre], self.d, needed + spare)
            if least is not None:
                return self.norm.dual.below(least[self.chosen])
        return 0.0

    def _certain(self, pre: Sequence[Interval]) -> bool:
        signs = ((z.lo > 0) | (z.hi < 0) for f, z in zip(self.net.activations, pre, strict=True) if f.kinked)
        return all(bool(np.all(known)) for known in signs)

    def _enough(self, value: float) -> bool:
        return value >= _ENOUGH * self.formal

    def _along(self, pre: Sequence[Interval], *, rows: bool = False) -> float:
        """The derivative along the direction in which it is largest, over the length of that direction."""
        if not self._charged(tangent.PASSES * self.net.entries, THIN):
            return 0.0
        near = [f.derivative(z) for f, z in zip(self.net.activations, self.zs, strict=True)]
        slopes = slope_bounds(self.net, pre)
        value, v = tangent.derivative_below(self.net, slopes, near, self.d, self._steepest, rows=rows)
        length = Norm(self.norm.p).above(np.abs(v))
        return value / length * (1.0 - gamma(4)) if 0.0 < length < np.inf else 0.0

    def _steepest(self, gradient: Array) -> Array:
        v = np.zeros(gradient.size)
        v[self.chosen] = direction(self.norm.dual, gradient[None, self.chosen])[0]
        return v

    def _charged(self, operations: float, kind: str) -> bool:
        """Whether there is time for so much work; then it is charged to the budget."""
        if self.budget is None:
            return True
        if self.budget.expected(operations, kind) > max(self.budget.left_in_all(), _LITTLE):
            return False
        self.budget.charge(operations, kind)
        return True
