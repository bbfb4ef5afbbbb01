"""The dual norm of a gradient at a point where intervals lose it: a directional derivative with proved slopes.

Each step is tried where those before it left more than rounding should cost: the slopes that intervals of floats prove;
those that long numbers prove (`precise`), or error bounds with a row for every neuron where activations are smooth
(`errors`); and the chain rule in long numbers where every sign is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipcert import policy
from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import Array, gamma
from lipcert.witness import errors, precise, tangent
from lipcert.witness.screen import direction

_ENOUGH = 1.0 - 1e-6  # of the norm in plain floating point: no further step is tried


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
        value = self._along(pre, rows=False)
        if value >= _ENOUGH * self.formal or self.net.depth < policy.PRECISE_DEPTH:
            return value
        if precise.applies(self.net):
            return max(value, self._in_long_numbers(pre))
        if errors.rows_fit(self.net):
            self._charge(2.0 * self.net.neurons * self.net.entries, policy.DENSE)
            return max(value, self._along(errors.preactivations(self.net, self.point, rows=True), rows=True))
        return value

    def _in_long_numbers(self, pre: Sequence[Interval]) -> float:
        count = precise.digits_for(pre, self.zs)
        self._charge(*precise.work(self.net, count))
        better = precise.preactivations(self.net, self.point, count)
        if better is None:
            return 0.0
        value = self._along(better, rows=False)
        certain = all(
            not f.kinked or bool(np.all((z.lo > 0) | (z.hi < 0)))
            for f, z in zip(self.net.activations, better, strict=True)
        )
        if value >= _ENOUGH * self.formal or not certain:
            return value
        self._charge(*precise.work(self.net, count))
        least = precise.gradient(self.net, [z.lo > 0 for z in better], self.d, count)
        return value if least is None else max(value, self.norm.dual.below(least[self.chosen]))

    def _along(self, pre: Sequence[Interval], *, rows: bool) -> float:
        """The derivative along the direction in which it is largest, over the length of that direction."""
        self._charge(tangent.PASSES * self.net.entries, policy.THIN)
        near = [f.derivative(z) for f, z in zip(self.net.activations, self.zs, strict=True)]
        slopes = slope_bounds(self.net, pre)
        value, v = tangent.derivative_below(self.net, slopes, near, self.d, self._steepest, rows=rows)
        length = Norm(self.norm.p).above(np.abs(v))
        return value / length * (1.0 - gamma(4)) if 0.0 < length < np.inf else 0.0

    def _steepest(self, gradient: Array) -> Array:
        v = np.zeros(gradient.size)
        v[self.chosen] = direction(self.norm.dual, gradient[None, self.chosen])[0]
        return v

    def _charge(self, operations: float, kind: str) -> None:
        if self.budget is not None:
            self.budget.charge(operations, kind)
