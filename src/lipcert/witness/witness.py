"""A lower bound is a point with its gradient, never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.propagation import gradient_bounds, preactivation_bounds
from lipcert.budget import Budget
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array, gamma
from lipcert.witness.directions import jacobian, steepest
from lipcert.witness.sharper import Sharper, hopeless

_LOSS = 1e-6  # of the norm of a gradient: more than rounding costs where every sign is certain


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

    Intervals of floats grow with depth and with neurons on kinks; where they lose more than rounding should, a
    directional derivative is proved instead (see `Sharper`), which is charged to the budget.
    """
    net, norm, d = problem.network, problem.norm, problem.c
    if problem.whole_map:
        d = steepest(jacobian(problem, point), norm)
    chosen = slice(None) if problem.coordinate is None else slice(problem.coordinate, problem.coordinate + 1)
    return constant_below(net, norm, point, d, chosen, budget)


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
            sharper = Sharper(net, norm, point, d, chosen, zs, formal, budget)
            value = max(value, sharper.value(pre))
    if norm.out is None:
        return value
    size = norm.outputs.dual.above(np.abs(d))
    return max(0.0, value / size * (1.0 - gamma(4))) if 0.0 < size < np.inf else 0.0
