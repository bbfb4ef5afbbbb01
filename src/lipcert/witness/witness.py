"""A lower bound is a point with its gradient, never a bare number: the witness, and the proof of its value.

Intervals at the point prove the gradient. Where they lose it, a directional derivative with proved slopes takes their
place (`GradientAtPoint`). Each step is tried where those before it left more than rounding should cost: the slopes that
intervals of floats prove; the slopes that long numbers prove (`precise`), or error bounds with a row for every neuron
where activations are smooth (`directional`); and the chain rule in long numbers where every sign is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array, gamma
from lipcert.steps import DENSE, THIN
from lipcert.witness import directional, precise
from lipcert.witness.directions import jacobian, steepest
from lipcert.witness.screen import direction

# Hidden blocks from which intervals may need long numbers: on 32 blocks of 16 random neurons, plain ones lose all
# signs.
PRECISE_DEPTH = 8

_ENOUGH = 1.0 - 1e-6  # share of the norm in plain floating point from which no further step is tried
# Digits of long numbers beyond those that intervals of floats ask for, at first and where that was too few: on random
# networks of 17 to 100 blocks the first were enough.
_SPARE, _SPARE_BACKWARD = (1, 5), (3, 7)
_LITTLE = 0.5  # seconds; a step that takes no longer is done even where the call has no time left
_OPEN = 0.5  # share of an activation's range of slopes; a bound of a slope that is so wide counts as none


def hopeless(net: Network, pre: Sequence[Interval]) -> bool:
    """Whether some block has no slope that the bounds of z restrict: then they prove nothing of a gradient."""
    for f, slope in zip(net.activations, slope_bounds(net, pre), strict=True):
        least, most = f.slopes
        if most > least and np.all(slope.hi - slope.lo >= _OPEN * (most - least)):
            return True
    return False


@dataclass(frozen=True, eq=False)
class GradientAtPoint:
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
        elif directional.ErrorRows.fit(self.net):
            value = max(value, self._with_rows())
        return value

    def _with_rows(self) -> float:
        work = directional.ErrorRows.work(self.net), DENSE
        if not self._charged(*work):
            return 0.0
        pre = directional.preactivations(self.net, self.point, rows=True)
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
        """The bound by the chain rule in long numbers, where every sign is certain."""
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
        if not self._charged(directional.PASSES * self.net.entries, THIN):
            return 0.0
        near = [f.derivative(z) for f, z in zip(self.net.activations, self.zs, strict=True)]
        slopes = slope_bounds(self.net, pre)
        value, v = directional.derivative_below(self.net, slopes, near, self.d, self._steepest, rows=rows)
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


_LOSS = 1e-6  # relative to the norm of a gradient: more than rounding costs if every sign is certain


@dataclass(frozen=True, eq=False)
class Witness:
    """A point of the region, the lower bound that `evaluate` proves there, and the search that found it."""

    point: Array
    value: float
    method: str

    def __post_init__(self) -> None:
        point = np.array(self.point, dtype=np.float64)
        point.flags.writeable = False
        object.__setattr__(self, "point", point)


def evaluate(problem: Problem, point: Array, budget: Budget | None = None) -> float:
    """A proved lower bound of the Lipschitz constant next to one point, from the point alone.

    One output: the dual norm of the gradient. Whole map: |J'd|_dual / |d| for the best direction d of the outputs that
    was found in plain floating point; every d proves a lower bound of the operator norm.

    Pre-activations and gradient are enclosed with outward rounding. A neuron whose pre-activation is zero within
    rounding may have either slope of its kink: a formal gradient there can exceed the Lipschitz constant
    (x - relu(x) + relu(-x) is zero, its formal gradient at 0 is 1). Its slope stays an interval, and so does the
    gradient: the value is that of the smallest magnitudes, which no gradient near the point undercuts.

    Intervals of floats grow with depth and with neurons on kinks; where they lose more than rounding should, a
    directional derivative is proved instead (see `GradientAtPoint`), which is charged to the budget.
    """
    net, norm, d = problem.network, problem.norm, problem.c
    if problem.whole_map:
        d = steepest(jacobian(problem, point), norm)
    chosen = slice(None) if problem.coordinate is None else slice(problem.coordinate, problem.coordinate + 1)
    return constant_below(net, norm, point, d, chosen, budget)


def evaluate_framed(frame: Frame, problem: Problem, point: Array) -> float:
    """`evaluate` in the weighted norms of a frame; problem and point are those of the frame's question."""
    net, changes = frame.beside(problem.network)
    whole = np.concatenate([point, np.zeros(changes)])
    d = problem.c
    if problem.whole_map:
        zs = net.preactivations(whole)
        with np.errstate(all="ignore"):
            J = np.array([net.gradient_from(zs, e)[0, -changes:] for e in np.eye(net.outputs)])
        d = steepest(np.nan_to_num(J, nan=0.0, posinf=0.0, neginf=0.0), problem.norm)
    return max(0.0, constant_below(net, problem.norm, whole, d, slice(net.inputs - changes, None)) * frame.share)


def constant_below(
    net: Network, norm: Norm, point: Array, d: Array, chosen: slice, budget: Budget | None = None
) -> float:
    """The constant of d'scores next to the point under changes of the chosen inputs, rounded down."""
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    known = not hopeless(net, pre)
    value = norm.dual.below(gradient_bounds(net, pre, d)[0].mignitude[chosen]) if known else 0.0
    with np.errstate(all="ignore"):
        zs = [z[0] for z in net.preactivations(point)]
        formal = float(norm.dual.of(net.gradient_from([z[None, :] for z in zs], d)[0, chosen]))
        if value < (1.0 - _LOSS) * formal < np.inf:
            sharper = GradientAtPoint(net, norm, point, d, chosen, zs, formal, budget)
            value = max(value, sharper.value(pre))
    if norm.out is None:
        return value
    size = norm.outputs.dual.above(np.abs(d))
    return max(0.0, value / size * (1.0 - gamma(4))) if 0.0 < size < np.inf else 0.0
