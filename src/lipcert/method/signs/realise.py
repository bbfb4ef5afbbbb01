"""A whole pattern of signs: one linear program finds a point well inside its cell, or multipliers that refuse it."""

from __future__ import annotations

import numpy as np

from lipcert import policy
from lipcert.bounds.interval import Interval, middle_and_radius
from lipcert.budget import Budget
from lipcert.method.signs.quick import Quick
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.nogoods import Signs
from lipcert.rounding import Array
from lipcert.witness.program import inmost

Multipliers = tuple[Array, Array]


class Realise:
    """Asks once for every pattern."""

    def __init__(self, problem: Problem, quick: Quick) -> None:
        assert isinstance(problem.region, Box)
        self.quick, self.box = quick, problem.region
        self.center, self.radius = middle_and_radius(Interval(self.box.lo, self.box.hi))
        self.tried: dict[bytes, tuple[Array | None, Multipliers | None]] = {}

    def point(self, signs: Signs, budget: Budget) -> tuple[Array | None, Multipliers | None]:
        """The point with the largest margin, or y and t of `proof.nogoods` that ought to show that there is none."""
        key = signs.tobytes()
        if key not in self.tried:
            self.tried[key] = self._point(signs, budget.upto(policy.REALISE_SECONDS))
        return self.tried[key]

    def _point(self, signs: Signs, budget: Budget) -> tuple[Array | None, Multipliers | None]:
        quick, way = self.quick, signs.astype(np.float64)
        rows, shifts = quick.forms(signs)
        rows, shifts = way[:, None] * rows[quick.open], way * shifts[quick.open]
        shifts, rows = shifts + rows @ self.center, rows * self.radius
        length = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
        found = inmost(rows / length[:, None], shifts / length, 1.0, budget)
        if found is None:
            return None, None
        v, margin, multipliers = found
        if margin > 0:
            return self.box.project(self.center + self.radius * v), None
        return None, self._multipliers(signs, np.maximum(multipliers, 0.0) / length)

    def _multipliers(self, signs: Signs, weights: Array) -> Multipliers:
        """sum weights |z| as a sum of the rows: weights at v of what is on and w of what is off, and at no other v."""
        quick = self.quick
        mu, u = np.zeros(len(quick.fv)), quick.lo.copy()
        mu[quick.open], u[quick.open] = weights, signs > 0
        on = np.ones(len(mu), dtype=bool)
        on[quick.open] = signs > 0
        y = np.zeros(len(mu))
        for a, b in reversed(list(zip(quick.ends[:-1], quick.ends[1:], strict=True))):
            # Behind a row stands the slope of its neuron: 1 where it is open, the known one elsewhere.
            slope = np.where(np.isin(np.arange(b, len(mu)), quick.open), 1.0, u[b:])
            pulled = (y[b:] * slope) @ quick.B[b:, a:b]
            y[a:b] = np.where(on[a:b], mu[a:b] + pulled, -mu[a:b])
        return y, np.zeros(len(mu))
