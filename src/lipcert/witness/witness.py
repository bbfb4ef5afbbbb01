"""A lower bound is a point with its gradient, never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert import policy
from lipcert.bounds.propagation import Interval, gradient_bounds, preactivation_bounds
from lipcert.budget import Budget
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array, gamma
from lipcert.witness import precise
from lipcert.witness.directions import jacobian, steepest

_LOSS = 1e-6  # of the largest entry of a gradient: more than rounding costs where every sign is certain


@dataclass(frozen=True, eq=False)
class Witness:
    """A point of the region, what `evaluate` proves there, and which search found it."""

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

    Intervals of floats grow with depth; where they lose more than rounding should, long numbers decide (see `precise`),
    which is charged to the budget.
    """
    net, norm, d = problem.network, problem.norm, problem.c
    if problem.whole_map:
        d = steepest(jacobian(problem, point), norm)
    least = least_gradient(net, point, d, budget)
    return along(norm, d, least if problem.coordinate is None else least[[problem.coordinate]])


def evaluate_framed(frame: Frame, problem: Problem, point: Array) -> float:
    """As `evaluate`, in the weighted norms of a frame; the problem and the point are those of the frame's question."""
    net, changes = frame.beside(problem.network)
    whole = np.concatenate([point, np.zeros(changes)])
    d = problem.c
    if problem.whole_map:
        zs = net.preactivations(whole)
        with np.errstate(all="ignore"):
            J = np.array([net.gradient_from(zs, e)[0, -changes:] for e in np.eye(net.outputs)])
        d = steepest(np.nan_to_num(J, nan=0.0, posinf=0.0, neginf=0.0), problem.norm)
    return max(0.0, along(problem.norm, d, least_gradient(net, whole, d)[-changes:]) * frame.share)


def least_gradient(net: Network, point: Array, d: Array, budget: Budget | None = None) -> Array:
    """What no entry of a gradient of d'scores next to the point falls below in magnitude."""
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    least = gradient_bounds(net, pre, d)[0].mignitude
    if net.depth >= policy.PRECISE_DEPTH and precise.applies(net):
        return _at_least(net, point, d, pre, least, budget)
    return least


def along(norm: Norm, d: Array, least: Array) -> float:
    """The constant that these least magnitudes of a gradient of d'scores prove, rounded down."""
    value = norm.dual.below(least)
    if norm.out is None:
        return value
    size = norm.outputs.dual.above(np.abs(d))
    return max(0.0, value / size * (1.0 - gamma(4))) if 0.0 < size < np.inf else 0.0


def _at_least(
    net: Network, point: Array, d: Array, pre: tuple[Interval, ...], least: Array, budget: Budget | None
) -> Array:
    """`least`, or what long numbers prove where that is clearly below the gradient in plain floating point."""
    with np.errstate(all="ignore"):
        zs = net.preactivations(point)
        formal = np.abs(net.gradient_from(zs, d)[0])
    if not np.isfinite(formal).all() or np.all(least >= formal - _LOSS * formal.max()):
        return least
    count = precise.digits_for(pre, [z[0] for z in zs])
    if budget is not None:
        budget.charge(*precise.work(net, count))
    better = precise.gradient(net, point, d, count)
    return least if better is None else np.maximum(least, better)
