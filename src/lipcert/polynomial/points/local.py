"""Local solvers of polynomial problems: the problem as they need it, and one descent from one start.

`LocalProblem` is a minimum with bounds apart from constraints, everything scaled. `Compiled` evaluates many polynomials
and their derivatives by a few array operations, whatever the number of terms.

`descend` uses L-BFGS in a box, SLSQP with constraints, an augmented Lagrangian where SLSQP is too slow, and flips of
single variables where every variable has two values. `candidates` turns a point that is nearly feasible into points
that may be exactly so. Bounds, whole numbers and values of two-valued variables are snapped to; points are pushed into
violated or active inequalities; affine equalities are solved exactly for a variable of their own. Whether a candidate
is feasible is decided elsewhere, without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize

from lipcert.polynomial.monomials import Monomial, stack
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, box_constraint, variable_bounds
from lipcert.proof.polynomials import Terms, proved_value
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


TOLERANCE = 1e-6  # violation of a constraint, divided by its largest coefficient or by one, whichever is larger


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


ITERATIONS = 200
EVALUATIONS = 300  # evaluations of the objective in one descent: line searches do not end where nothing is feasible
SLSQP_MOST = 120  # variables, and four times as many constraints: SLSQP solves dense least squares of that order
HUGE = 1e30


def descend(local: LocalProblem, start: Array) -> Array:
    """A point that is locally good and nearly feasible, as far as the method came; never worse than no point at all."""
    with np.errstate(all="ignore"):
        if len(local.roots) == local.n:
            return _flip(local, start)
        constraints = local.above.m + local.zero.m
        if not constraints:
            return _bounded(local, start)
        if local.n <= SLSQP_MOST and constraints <= 4 * SLSQP_MOST:
            return _slsqp(local, start)
        return _augmented(local, start)


def _goal(local: LocalProblem, x: Array) -> tuple[float, Array]:
    return _tame(local.goal.value(x)[0]), _tame(local.goal.jacobian(x)[0])


def _tame(values: Any) -> Any:
    """Solvers compare numbers; what has overflowed must still be one."""
    if np.all(np.abs(values) <= HUGE):
        return values
    return np.clip(np.nan_to_num(values, nan=HUGE), -HUGE, HUGE)


class _Tired(Exception):  # noqa: N818 - never leaves this file
    """Enough evaluations; the last point is the answer."""


class _Counted:
    """The objective and its slope, for so many evaluations."""

    def __init__(self, local: LocalProblem, start: Array) -> None:
        self.local, self.last, self.count = local, start, 0

    def __call__(self, x: Array) -> tuple[float, Array]:
        self.last, self.count = np.array(x), self.count + 1
        if self.count > EVALUATIONS:
            raise _Tired
        return _goal(self.local, x)


def _bounds(local: LocalProblem) -> optimize.Bounds:
    return optimize.Bounds(local.lower, np.maximum(local.lower, local.upper))


def _bounded(local: LocalProblem, start: Array) -> Array:
    options = {"maxiter": ITERATIONS, "ftol": 1e-15, "gtol": 1e-9}
    goal = _Counted(local, start)
    try:
        found = optimize.minimize(goal, start, jac=True, method="L-BFGS-B", bounds=_bounds(local), options=options)
    except _Tired:
        return goal.last
    return np.asarray(found.x)


def _slsqp(local: LocalProblem, start: Array) -> Array:
    constraints = [
        {"type": kind, "fun": lambda x, c=c: _tame(c.value(x)), "jac": lambda x, c=c: _tame(c.jacobian(x))}
        for kind, c in (("ineq", local.above), ("eq", local.zero))
        if c.m
    ]
    options = {"maxiter": ITERATIONS, "ftol": 1e-12}
    goal = _Counted(local, start)
    try:
        found = optimize.minimize(
            goal, start, jac=True, method="SLSQP", bounds=_bounds(local), constraints=constraints, options=options
        )
    except _Tired:
        return goal.last
    return np.asarray(found.x)


def _augmented(local: LocalProblem, start: Array) -> Array:
    """min f + sum of (penalty / 2) max(0, -g + a / penalty)^2 and of squares of h + b / penalty, rounds of L-BFGS."""
    x, penalty = start, 10.0
    a, b = np.zeros(local.above.m), np.zeros(local.zero.m)
    before = np.inf
    for _ in range(12):

        def merit(y: Array, a: Array = a, b: Array = b, penalty: float = penalty) -> tuple[float, Array]:
            value, slope = _goal(local, y)
            low = np.maximum(0.0, a / penalty - local.above.value(y))
            off = local.zero.value(y) + b / penalty
            slope = slope + penalty * (off @ local.zero.jacobian(y) - low @ local.above.jacobian(y))
            return _tame(value + 0.5 * penalty * (low @ low + off @ off)), _tame(slope)

        options = {"maxiter": ITERATIONS // 2, "ftol": 1e-14, "gtol": 1e-9}
        found = optimize.minimize(merit, x, jac=True, method="L-BFGS-B", bounds=_bounds(local), options=options)
        x = np.asarray(found.x)
        g, h = local.above.value(x), local.zero.value(x)
        a, b = np.maximum(0.0, a - penalty * g), b + penalty * h
        worst = max(float((-g).max(initial=0.0)), float(np.abs(h).max(initial=0.0)))
        if worst <= 1e-9:
            break
        penalty = penalty * (10.0 if worst > before / 4 else 1.0)
        before = worst
    return np.asarray(x)


def _flip(local: LocalProblem, start: Array) -> Array:
    """Change the variable that gains most to its other value, as long as one gains; the merit counts violations."""
    x = with_roots(local, start[None, :])[0]
    low, high = (np.array([local.roots[i][k] for i in range(local.n)]) for k in (0, 1))
    best = float(local.merits(x[None, :])[0])
    for _ in range(4 * local.n):
        neighbours = np.tile(x, (local.n, 1))
        np.fill_diagonal(neighbours, np.where(x == low, high, low))
        merits = local.merits(neighbours)
        k = int(np.argmin(merits))
        if not merits[k] < best - 1e-12 * (1 + abs(best)):
            break
        x, best = neighbours[k], float(merits[k])
    return np.asarray(x)


NEAR = 1e-5
GRID = 2.0**30
ACTIVE = 1e-6


def candidates(local: LocalProblem, point: Array) -> Iterator[Array]:
    """Points near this one, the nearest first."""
    x = local.clip(point)
    snapped = _snapped(local, x)
    affine = [h for h in local.problem.equalities if h.degree == 1]
    yield x
    yield snapped
    for start in (x, snapped):
        if affine:
            yield from _solved(start, affine)
        for room in (1e-12, 1e-10, 1e-8, 1e-7) if local.above.m else ():
            moved = _pushed(local, start, room)
            yield moved
            if affine:
                yield from _solved(moved, affine)


def _snapped(local: LocalProblem, x: Array) -> Array:
    """Coordinates that are nearly a bound, a whole number or one of two values are made so."""
    near = with_roots(local, x[None, :])[0]
    x = np.where(np.abs(near - x) <= NEAR * (1 + np.abs(near)), near, x)
    for target in (np.round(x), local.lower, local.upper):
        with np.errstate(invalid="ignore"):
            x = np.where(np.abs(x - target) <= NEAR, target, x)
    return x


def _pushed(local: LocalProblem, x: Array, room: float) -> Array:
    """A few Gauss-Newton steps towards g >= room for the constraints that are violated or active, along h = 0."""
    free = (x > local.lower) & (x < local.upper)
    with np.errstate(all="ignore"):
        for _ in range(4):
            g = local.above.value(x)
            held = np.flatnonzero(g < max(ACTIVE, 2 * room))
            if not len(held) or float(g.min()) >= room / 2:
                break
            J = np.concatenate([local.above.jacobian(x)[held], local.zero.jacobian(x)]) * free
            wish = np.concatenate([np.maximum(room - g[held], 0.0), -local.zero.value(x)])
            if not np.all(np.isfinite(J)):
                break
            x = local.clip(x + np.linalg.lstsq(J, wish, rcond=1e-10)[0])
    return x


def _solved(x: Array, affine: list[Polynomial]) -> Iterator[Array]:
    """The point on a dyadic grid with affine equalities solved exactly, each for the variable with most room."""
    y = np.round(x * GRID) / GRID
    used: set[int] = set()
    for h in affine:
        terms = {int(row[0]): Fraction(float(v)) for row, v in zip(h.indices, h.coefficients, strict=True)}
        free = [i for i in terms if i >= 0 and i not in used and _power_of_two(terms[i])]
        if not free:
            return
        # the variable farthest from zero and its bounds moves most easily
        pivot = max(free, key=lambda i: abs(float(y[i]) - round(float(y[i]))))
        rest = sum((v * (Fraction(float(y[i])) if i >= 0 else 1) for i, v in terms.items() if i != pivot), Fraction(0))
        y[pivot] = float(-rest / terms[pivot])
        used |= {i for i in terms if i >= 0}
    yield y


def _power_of_two(value: Fraction) -> bool:
    n, d = abs(value.numerator), value.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0
