"""Patterns of the whole map: bounds of the Jacobian's norm, proved at once, since nothing quicker is as good."""

from __future__ import annotations

import numpy as np

from lipcert.bounds import directions
from lipcert.method.signs.quick import Flat
from lipcert.problem.problem import Problem
from lipcert.proof.leaves import whole_leaf_bounds
from lipcert.proof.nogoods import Signs, System
from lipcert.rounding import Array
from lipcert.witness.directions import jacobians, operator_norms

_AT_ONCE = 256  # patterns in one call
_SLOWER = 2.0  # than forms in plain floating point


class Maps(Flat):
    """For all outputs together."""

    def __init__(self, problem: Problem, system: System) -> None:
        super().__init__(problem, system)
        self.problem = problem
        rows = directions(problem.norm, problem.network.outputs)
        self.rows = problem.network.outputs if rows is None else len(rows)

    @property
    def numbers(self) -> float:
        inputs, outputs = self.problem.network.inputs, self.problem.network.outputs
        return _SLOWER * self.rows * float((2 * inputs + 2 * outputs) * self.count + self.count**2)

    def bounds(self, signs: Signs) -> tuple[Array, Array]:
        parts = [self._bounds(signs[k : k + _AT_ONCE]) for k in range(0, len(signs), _AT_ONCE)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _bounds(self, signs: Signs) -> tuple[Array, Array]:
        found = whole_leaf_bounds(self.problem, self.open, signs)
        cost = np.concatenate(found.loss, axis=1)[:, self.open]
        if self.problem.norm.p == "1":  # the forms of single entries do not say
            reach = np.concatenate([g.magnitude for g in found.gradients[1:]], axis=1)[:, self.open]
            cost = cost + np.where(signs == 0, np.nan_to_num(reach), 0.0)
        return found.upper, np.where(signs == 0, np.maximum(np.nan_to_num(cost), 0.0), -1.0)

    def constants(self, signs: Signs) -> Array:
        u = np.tile(self.lo, (len(signs), 1))
        u[:, self.open] = signs > 0
        slopes = [u[:, a:b] for a, b in self._blocks()]
        return operator_norms(jacobians(self.problem.network, slopes), self.problem.norm)
