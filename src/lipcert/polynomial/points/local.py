"""A polynomial problem as local solvers want it: a minimum, bounds apart from constraints, everything scaled.

`Compiled` evaluates many polynomials and their derivatives by a few array operations, whatever the number of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipcert.polynomial.monomials import Monomial, stack
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, box_constraint, variable_bounds
from lipcert.proof.points import Terms, proved_value
from lipcert.rounding import Array

CHUNK = 1 << 22  # numbers in memory at once


class Compiled:
    """Polynomials p_1, ..., p_m in x_0, ..., x_{n-1} as one table of terms."""

    def __init__(self, polynomials: Sequence[Polynomial], n: int) -> None:
        self.n, self.m = n, len(polynomials)
        rows = stack([np.zeros((0, 0), dtype=np.int32), *(p.indices for p in polynomials)])
        self.rows = np.where(rows < 0, n, rows).astype(np.int64)  # column n of a point is 1
        self.coefficients = np.concatenate([np.zeros(0), *(p.coefficients for p in polynomials)])
        self.owner = np.repeat(np.arange(self.m), [len(p.coefficients) for p in polynomials]).astype(np.int64)
        self.entries = int(self.rows.size) + len(self.coefficients)

    def values(self, points: Array) -> Array:
        """p_j at every point: (B, n) -> (B, m)."""
        x = np.concatenate([points, np.ones((len(points), 1))], axis=1)
        step = max(1, CHUNK // max(1, len(self.coefficients)))
        found = [self._values(x[k : k + step]) for k in range(0, len(x), step)]
        return np.concatenate(found) if found else np.zeros((0, self.m))

    def _values(self, x: Array) -> Array:
        terms = np.broadcast_to(self.coefficients, (len(x), len(self.coefficients))).copy()
        for column in self.rows.T:
            terms *= x[:, column]
        flat = np.arange(len(x))[:, None] * self.m + self.owner
        sums = np.bincount(flat.ravel(), weights=terms.ravel(), minlength=len(x) * self.m)
        return sums.astype(np.float64).reshape(len(x), self.m)

    def value(self, x: Array) -> Array:
        """p_j at one point: (n,) -> (m,)."""
        return np.asarray(self.values(x[None, :])[0])

    def jacobian(self, x: Array) -> Array:
        """The derivative of p_j in x_i at one point: (m, n).

        A factor that occurs twice is two columns of the table, each left out once: that is the product rule.
        """
        factors = np.append(x, 1.0)[self.rows]
        width = factors.shape[1]
        after = np.ones((width + 1, len(factors)))
        for k in range(width - 1, -1, -1):
            after[k] = after[k + 1] * factors[:, k]
        total = np.zeros(self.m * (self.n + 1))
        before = self.coefficients.copy()
        for k in range(width):
            place = self.owner * (self.n + 1) + self.rows[:, k]
            total += np.bincount(place, weights=before * after[k + 1], minlength=len(total))
            before = before * factors[:, k]
        return total.reshape(self.m, self.n + 1)[:, : self.n]


TOLERANCE = 1e-6  # of a constraint, over its largest coefficient (or over one, where that is less)


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """min sign * f over g >= 0, h = 0 and the box; `inequalities` leaves out constraints that the box implies."""

    problem: PolynomialProblem
    lower: Array
    upper: Array
    inequalities: tuple[Polynomial, ...]
    roots: dict[int, tuple[float, float]]  # the values of each variable that can take only two values

    @staticmethod
    def of(problem: PolynomialProblem) -> LocalProblem:
        lower, upper = variable_bounds(problem)
        said = {box_constraint(i, lower[i], upper[i]) for i in range(problem.n) if _some(lower[i], upper[i])}
        kept = tuple(g for g in problem.inequalities if g.degree and g not in said and not _single(g))
        return LocalProblem(problem, lower, upper, kept, _roots(problem))

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def sign(self) -> float:
        return 1.0 if self.problem.sense == "min" else -1.0

    @cached_property
    def empty_box(self) -> bool:
        """Whether bounds that were proved of every feasible point contradict each other."""
        return bool(np.any(self.lower > self.upper))

    @cached_property
    def goal(self) -> Compiled:
        """sign * f over its largest coefficient."""
        f = self.problem.objective
        return Compiled([_scaled(f * self.sign)], self.n)

    @cached_property
    def above(self) -> Compiled:
        return Compiled([_scaled(g) for g in self.inequalities], self.n)

    @cached_property
    def zero(self) -> Compiled:
        return Compiled([_scaled(h) for h in self.problem.equalities if h.degree], self.n)

    @cached_property
    def every(self) -> Compiled:
        """All inequalities, those that the box says included, scaled for `violations`."""
        return Compiled([_relative(g) for g in self.problem.inequalities], self.n)

    @cached_property
    def every_zero(self) -> Compiled:
        return Compiled([_relative(h) for h in self.problem.equalities], self.n)

    def clip(self, points: Array) -> Array:
        return np.clip(points, self.lower, np.maximum(self.lower, self.upper))

    def violations(self, points: Array) -> Array:
        """The largest violation of a constraint at every point, relative to the size of its coefficients."""
        with np.errstate(all="ignore"):
            low = -self.every.values(points).min(axis=1, initial=0.0)
            off = np.abs(self.every_zero.values(points)).max(axis=1, initial=0.0)
            box = np.maximum(np.asarray(self.problem.lower) - points, points - np.asarray(self.problem.upper))
            worst = np.maximum(np.maximum(low, off), box.max(axis=1, initial=0.0))
        return np.where(np.isfinite(worst), worst, np.inf)

    def objectives(self, points: Array) -> Array:
        """f at every point, in floating point."""
        with np.errstate(all="ignore"):
            return self.problem.objective.evaluate(points)

    def merits(self, points: Array) -> Array:
        """The scaled objective plus a penalty for violations; good starting points have small merits."""
        with np.errstate(all="ignore"):
            merit = self.goal.values(points)[:, 0] + 10.0 * self.violations(points)
        return np.where(np.isfinite(merit), merit, np.inf)

    def proved(self, point: Array) -> float | None:
        """The value of the objective, rounded outward, where the point is proved feasible."""
        p = self.problem
        box = np.asarray(p.lower), np.asarray(p.upper)
        goal, above, zero = _terms(p.objective), [_terms(g) for g in p.inequalities], [_terms(h) for h in p.equalities]
        return proved_value(goal, above, zero, box, point, p.sense)


def _terms(p: Polynomial) -> Terms:
    return p.indices, p.coefficients


def _scaled(p: Polynomial) -> Polynomial:
    largest = float(np.abs(p.coefficients).max(initial=0.0))
    return p / largest if largest else p


def _relative(p: Polynomial) -> Polynomial:
    return p / max(1.0, float(np.abs(p.coefficients).max(initial=0.0)))


def _some(lower: float, upper: float) -> bool:
    return lower <= upper and bool(np.isfinite(lower) or np.isfinite(upper))


def _single(g: Polynomial) -> bool:
    """Affine in one variable: a bound, found by `variable_bounds` too."""
    return g.degree == 1 and len(g.variables) == 1


def _roots(problem: PolynomialProblem) -> dict[int, tuple[float, float]]:
    """The two values of every variable with an equation x^2 = a x + b of its own."""
    found: dict[int, tuple[float, float]] = {}
    for h in problem.equalities:
        if h.degree == 2 and len(h.variables) == 1:
            i = int(h.variables[0])
            c2, c1, c0 = (h.coefficient(m) for m in _powers(i))
            square = c1 * c1 - 4 * c2 * c0
            if square >= 0:
                root = float(np.sqrt(square))
                low, high = sorted([(-c1 - root) / (2 * c2), (-c1 + root) / (2 * c2)])
                found[i] = low, high
    return found


def _powers(i: int) -> tuple[Monomial, Monomial, Monomial]:
    return (i, i), (i,), ()


def with_roots(local: LocalProblem, points: Array) -> Array:
    """The points with every two-valued variable at the nearer of its values."""
    points = points.copy()
    for i, (low, high) in local.roots.items():
        points[:, i] = np.where(np.abs(points[:, i] - low) <= np.abs(points[:, i] - high), low, high)
    return points
