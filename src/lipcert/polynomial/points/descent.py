"""One descent from one start: L-BFGS in a box, SLSQP with constraints, an augmented Lagrangian where that is too slow,
and flips of single variables where every one has two values.

`candidates` turns a point that is nearly feasible into points that may be exactly so. Bounds, whole numbers and values
of two-valued variables are snapped to; points are pushed into violated or active inequalities; affine equalities are
solved exactly for a variable of their own. Whether a candidate is feasible is decided elsewhere, without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import optimize

from lipcert.polynomial.points.local import LocalProblem, with_roots
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import Array

ITERATIONS = 200
EVALUATIONS = 300  # of the objective in one descent: line searches without end happen where nothing is feasible
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
