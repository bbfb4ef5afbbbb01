"""A lower bound is a point with its gradient, never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.propagation import gradient_bounds, preactivation_bounds
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array, gamma
from lipcert.witness.directions import jacobian, steepest


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


def evaluate(problem: Problem, point: Array) -> float:
    """A proved lower bound of the Lipschitz constant next to one point, from the point alone.

    One output: the dual norm of the gradient. Whole map: |J'd|_dual / |d| for the best direction d of the outputs that
    was found in plain floating point; every d proves a lower bound of the operator norm.

    Pre-activations and gradient are enclosed with outward rounding. A neuron whose pre-activation is zero within
    rounding may have either slope of its kink: a formal gradient there can exceed the Lipschitz constant
    (x - relu(x) + relu(-x) is zero, its formal gradient at 0 is 1). Its slope stays an interval, and so does the
    gradient: the value is that of the smallest magnitudes, which no gradient near the point undercuts.
    """
    net, norm, d = problem.network, problem.norm, problem.c
    if problem.whole_map:
        d = steepest(jacobian(problem, point), norm)
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    least = gradient_bounds(net, pre, d)[0].mignitude
    value = norm.dual.below(least if problem.coordinate is None else least[[problem.coordinate]])
    if not problem.whole_map:
        return value
    size = norm.outputs.dual.above(np.abs(d))
    return max(0.0, value / size * (1.0 - gamma(4))) if 0.0 < size < np.inf else 0.0
