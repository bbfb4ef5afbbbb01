"""A region with half-spaces made ready: an inner point, multipliers of a small box around it, or that it is empty.

Both come from linear programs. What they say is a hint: the box is what `problem.polytope` proves with the
multipliers, the point counts when it is proved inside, and no point is what multipliers prove.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert import policy
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.problem.ball import Ball
from lipcert.problem.polytope import Polytope
from lipcert.rounding import Array

NO_POINT = "the half-spaces have no point in the region (proved): give half-spaces that hold somewhere in it"
NO_ROOM = "the half-spaces leave no interior that was found: no lower bound is searched where no point is known"
_FACES = 500  # inputs: of so many the inner point keeps away from the faces of the box too
_GAIN = 1e-9  # of the width of a side: less is not worth its multipliers
_MARGINS = (0.5, 1e-2, 1e-4, 1e-7)  # of a ball's radius, the first that leaves a point
_OPTIONS = {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex", "simplex_iteration_limit": 5000}


def prepared(region: Polytope, budget: Budget) -> Polytope:
    """The same region with an inner point and a smaller box, as far as the budget allows.

    Raises InputError where it is proved to have no point.
    """
    if np.any(~region.A.any(axis=1) & (region.b < 0)):
        raise InputError(NO_POINT)
    with np.errstate(all="ignore"):
        point, against = _inmost(region, budget)
        if against is not None and region.empty_by(against):
            raise InputError(NO_POINT)
        try:
            return Polytope(region.base, region.A, region.b, multipliers=_multipliers(region, budget), inside=point)
        except InputError:  # its box would be empty
            raise InputError(NO_POINT) from None


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
    """Of rows; 1 of those that are nothing."""
    found = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(found > 0, found, 1.0)


def _multipliers(region: Polytope, budget: Budget) -> Array | None:
    """Of every end of every coordinate that some half-space reads, until the budget is over."""
    from lipcert.solver.conic.highs_backend import (  # here, so that importing lipcert stays fast
        linear_model,
        with_model,
    )

    box, n = region.box, region.size
    center, radius = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
    rows = region.A * radius
    size = np.abs(rows).max(axis=1)
    unit = 1.0 / np.where(size > 0, size, 1.0)
    rows, right = rows * unit[:, None], (region.b - region.A @ center) * unit
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(right))):
        return None
    table, ends = sparse.csr_array(rows), np.where(radius > 0, 1.0, 0.0)
    model = linear_model(np.zeros(n), table, np.full(len(right), -np.inf), right, -ends, ends)
    highs = with_model(model, _OPTIONS)
    found = np.zeros((2 * n, region.count))
    for j in np.flatnonzero(np.any(rows != 0, axis=0)):
        for k, sign in ((j, 1.0), (n + j, -1.0)):
            if budget.over():
                return found
            with budget.measured(0.0, policy.SPARSE) as work:
                highs.changeColCost(int(j), -sign)
                highs.run()
                pivots = max(0, int(highs.getInfo().simplex_iteration_count))
                work.operations = max(table.nnz, 1) * (policy.SIGNS_ASK + policy.SIGNS_PIVOT * pivots)
            budget.charge(policy.SIGNS_CALLS, policy.SCALAR)
            if highs.getModelStatus().name != "kOptimal":
                highs.clearSolver()
                continue
            solution = highs.getSolution()
            if sign * solution.col_value[int(j)] < 1.0 - _GAIN:
                found[k] = np.maximum(-np.array(solution.row_dual), 0.0) * unit * radius[j]
        highs.changeColCost(int(j), 0.0)
    return found if found.any() else None
