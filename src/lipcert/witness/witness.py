"""A lower bound is a point with its gradient, never a bare number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.propagation import gradient_bounds, preactivation_bounds
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Box
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class Witness:
    """A point of the region, the dual norm of the gradient there (as `evaluate` finds it), and who found it."""

    point: Array
    value: float
    method: str

    def __post_init__(self) -> None:
        point = np.array(self.point, dtype=np.float64)
        point.flags.writeable = False
        object.__setattr__(self, "point", point)


def evaluate(net: Network, point: Array, c: Array, norm: Norm) -> float:
    """A proved lower bound on ||gradient of c'scores||_dual next to one point, from the point alone.

    Pre-activations and gradient are enclosed with outward rounding. A neuron whose pre-activation is zero within
    rounding may have either slope of its kink: a formal gradient there can exceed the Lipschitz constant
    (x - relu(x) + relu(-x) is zero, its formal gradient at 0 is 1). Its slope stays an interval, and so does the
    gradient: the value is that of the smallest magnitudes, which no gradient near the point undercuts.
    """
    here = Box.from_bounds(point, point)
    gradient = gradient_bounds(net, preactivation_bounds(net, here, backward=False), np.asarray(c, dtype=np.float64))[0]
    return norm.dual.below(gradient.mignitude)
