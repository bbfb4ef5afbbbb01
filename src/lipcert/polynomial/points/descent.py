"""One descent from one start: L-BFGS in a box, SLSQP with constraints, an augmented Lagrangian where that is too slow,
and flips of single variables where every one has two values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.starts import with_roots
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
