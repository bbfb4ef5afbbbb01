"""A region with half-spaces made ready: an inner point, multipliers of a small box around it, or that it is empty.

Both come from linear programs, whose answers are hints: `problem.polytope` proves the box from the multipliers, a
point counts only if it is proved to be inside, and multipliers prove that there is no point.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.bounds.forms import HalfSpaces, LinearForms, multiples
from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.problem.ball import Ball
from lipcert.problem.polytope import Polytope, tops
from lipcert.rounding import Array
from lipcert.steps import SCALAR, SPARSE

NO_POINT = "the half-spaces have no point in the region (proved): give half-spaces that hold somewhere in it"
NO_ROOM = "the half-spaces leave no interior that was found: no lower bound is searched where no point is known"
_FACES = 500  # inputs: up to so many, the inner point keeps away from the faces of the box too
_GAIN = 1e-9  # share of the width of a side: a smaller gain is not worth its multipliers
_MARGINS = (0.5, 1e-2, 1e-4, 1e-7)  # shares of a ball's radius; the first that leaves a point is taken
_AT_ONCE = 10_000_000  # numbers: up to so many, multipliers are computed without a solver first
_OPTIONS = {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex", "simplex_iteration_limit": 5000}


class NoPointError(InputError):
    """The region is proved to be empty."""


def prepared(region: Polytope, budget: Budget) -> Polytope:
    """The region with an inner point and a smaller box, as far as the budget allows.

    Raises NoPointError if the region is proved to have no point. A region that has both already is returned as it is.
    """
    if region.inside is not None and region.multipliers is not None:
        return region
    if np.any(~region.A.any(axis=1) & (region.b < 0)):
        raise NoPointError(NO_POINT)
    with np.errstate(all="ignore"):
        point, against = _inmost(region, budget)
        if against is not None and region.empty_by(against):
            raise NoPointError(NO_POINT)
        try:
            return Polytope(region.base, region.A, region.b, multipliers=_multipliers(region, budget), inside=point)
        except InputError:  # its box would be empty
            raise NoPointError(NO_POINT) from None


def _inmost(region: Polytope, budget: Budget) -> tuple[Array | None, Array | None]:
    """A point with room on all sides, or multipliers that may prove that there is none."""
    if isinstance(region.base, Ball):
        return _inmost_of_ball(region, region.base)
    from lipcert.witness.program import inmost  # here, so that importing lipcert stays fast

    box, n = region.base, region.size
    center, radius = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
    rows, room = -region.A * radius, region.b - region.A @ center
    length = _lengths(rows)
    table, right = rows / length[:, None], room / length
    if n <= _FACES:
        moving = np.eye(n)[radius > 0]
        faces = np.ones(2 * len(moving))
        both = np.vstack([table, moving, -moving])
        found = inmost(both, np.concatenate([right, faces]), 1.0, budget)
    else:
        found = inmost(table, right, 1.0, budget)
    if found is None:
        return None, None
    v, margin, weights = found
    point = box.project(center + radius * v)
    return (point, None) if margin > 0 else (point, np.maximum(weights[: region.count], 0.0) / length)


def _inmost_of_ball(region: Polytope, ball: Ball) -> tuple[Array | None, Array | None]:
    from lipcert.method.signs.realise import nearest  # here, so that importing lipcert stays fast

    rows, room = -region.A, region.b - region.A @ ball.center
    length = _lengths(rows)
    weights: Array | None = None
    for margin in _MARGINS:
        found = nearest(rows / length[:, None] * ball.radius, margin * ball.radius - room / length)
        if found is None:
            return None, None
        u, weights = found
        if u is not None and np.linalg.norm(u) < 1.0:
            return ball.project(ball.center + ball.radius * u), None
    return None, None if weights is None else weights / length


def _lengths(rows: Array) -> Array:
    """The Euclidean length of each row; 1 for a row of zeros, which is to be divided by it."""
    found = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(found > 0, found, 1.0)


def _multipliers(region: Polytope, budget: Budget) -> Array | None:
    """Multipliers for every end of every coordinate: first the best single half-space, then linear programs."""
    found = np.zeros((2 * region.size, region.count))
    if 2 * region.size * found.size <= _AT_ONCE:
        found = _in_turn(region)
    if region.count > 1:
        better = _by_programs(region, budget)
        own, other = (_ends(region, y) for y in (found, better))
        found = np.where((other < own)[:, None], better, found)
    gain = _ends(region, found) < _ends(region, np.zeros(found.shape)) - _GAIN * np.tile(region.box.radius, 2)
    found = np.where(gain[:, None], found, 0.0)
    return found if found.any() else None


def _ends(region: Polytope, y: Array) -> Array:
    """The upper ends of x and of -x that multipliers prove."""
    signs = np.concatenate([np.eye(region.size), -np.eye(region.size)])
    return tops(region.base, region.box, signs, (region.A, region.b), y)


def _in_turn(region: Polytope) -> Array:
    """The best multiplier of one half-space after the other; exact where there is one half-space."""
    n, box = region.size, Interval(region.box.lo[None], region.box.hi[None])
    nothing = np.zeros((1, 2 * n))
    forms = LinearForms(np.concatenate([np.eye(n), -np.eye(n)])[None], nothing, nothing, nothing, n)
    sides = HalfSpaces(-region.A[None], region.b[None], np.arange(region.count)[None])
    return np.asarray(multiples(forms, sides, box)[0])


def _by_programs(region: Polytope, budget: Budget) -> Array:
    """Linear programs for the coordinates that some half-space reads, until the budget is over."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.method.signs.program import SIGNS_ASK, SIGNS_CALLS, SIGNS_PIVOT
    from lipcert.solver.conic.highs_backend import linear_model, with_model

    box, n, found = region.box, region.size, np.zeros((2 * region.size, region.count))
    center, radius = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
    rows = region.A * radius
    size = np.abs(rows).max(axis=1)
    unit = 1.0 / np.where(size > 0, size, 1.0)
    rows, right = rows * unit[:, None], (region.b - region.A @ center) * unit
    if budget.over() or not (np.all(np.isfinite(rows)) and np.all(np.isfinite(right))):
        return found
    table, ends = sparse.csr_array(rows), np.where(radius > 0, 1.0, 0.0)
    highs = with_model(linear_model(np.zeros(n), table, np.full(len(right), -np.inf), right, -ends, ends), _OPTIONS)
    for j in np.flatnonzero(np.any(rows != 0, axis=0)):
        for k, sign in ((j, 1.0), (n + j, -1.0)):
            if budget.over():
                return found
            with budget.measured(0.0, SPARSE) as work:
                highs.changeColCost(int(j), -sign)
                highs.run()
                pivots = max(0, int(highs.getInfo().simplex_iteration_count))
                work.operations = max(table.nnz, 1) * (SIGNS_ASK + SIGNS_PIVOT * pivots)
            budget.charge(SIGNS_CALLS, SCALAR)
            if highs.getModelStatus().name == "kOptimal":
                found[k] = np.maximum(-np.array(highs.getSolution().row_dual), 0.0) * unit * radius[j]
            else:
                highs.clearSolver()
        highs.changeColCost(int(j), 0.0)
    return found
