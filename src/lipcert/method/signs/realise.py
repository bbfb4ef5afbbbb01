"""Inputs with the signs of a pattern, and the witnesses that they are.

One linear program finds a point well inside the cell of a pattern, or multipliers that refuse the pattern. The point of
the program that decides whether a pattern is possible lies on faces of its cell, where the slope of a kink may be
either: the gradient proved there can be far less than that of the pattern. So a pattern that would be a better witness
is asked for a point well inside, and so is every whole pattern whose bound counts.

Under a pattern that leaves signs open, only rows of neurons that it makes affine count: the point may miss the others.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.bounds.interval import Interval, middle_and_radius
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.signs.program import SIGNS_ASK, SIGNS_CALLS, SIGNS_PIVOT
from lipcert.method.signs.quick import Flat
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Polytope, ball_of, hull, sides_of
from lipcert.proof.nogoods import Index, Signs
from lipcert.rounding import Array
from lipcert.solver.conic.highs_backend import linear_model, with_model
from lipcert.steps import SCALAR, SPARSE, THIN
from lipcert.witness import Witness, evaluate

NogoodMultipliers = tuple[Array, Array]
SIGNS_EVALUATE = 20.0  # operations for every entry of the network, at a point that is proved
METHOD = "signs"

_MARGINS = (1e-3, 1e-6, 0.0)  # of a ball's radius: the first that leaves a point
_FLAT = 1e-9  # of the size of the box: a cell that is no wider may have no interior
_OPTIONS = {"output_flag": False, "threads": 1, "simplex_iteration_limit": 20_000}


class Realise:
    """Asks once for every whole pattern."""

    def __init__(self, problem: Problem, quick: Flat) -> None:
        box = hull(problem.region)
        assert box is not None
        self.quick, self.box = quick, box
        self.region, self.ball, self.cut = problem.region, ball_of(problem.region), sides_of(problem.region)
        self.center, self.radius = middle_and_radius(Interval(self.box.lo, self.box.hi))
        self.tried: dict[bytes, tuple[Array | None, NogoodMultipliers | None]] = {}

    def point(self, signs: Signs, budget: Budget) -> tuple[Array | None, NogoodMultipliers | None]:
        """The point with the largest margin, and y and t of `proof.nogoods` that ought to show that there is none, or
        that there is none but on faces; one of them may be missing, and both are there where it is close."""
        key = signs.tobytes()
        if not np.all(signs):
            return self._point(signs, budget)
        if key not in self.tried:
            self.tried[key] = self._point(signs, budget)
        return self.tried[key]

    def _point(self, signs: Signs, budget: Budget) -> tuple[Array | None, NogoodMultipliers | None]:
        quick = self.quick
        rows, shifts, affine = quick.forms(signs)
        zero = ~rows.any(axis=1) & (shifts == 0)  # any sign is right
        used = np.flatnonzero((signs != 0) & (affine & ~zero)[quick.open])
        if not len(used):
            return self.region.project(np.array(self.box.center)), None
        way, own = signs[used].astype(np.float64), quick.open[used]
        rows, shifts = way[:, None] * rows[own], way * shifts[own]
        if self.cut is not None:
            rows, shifts = np.vstack([rows, -self.cut.A]), np.concatenate([shifts, self.cut.b])
        if self.ball is not None:
            return self._in_ball(signs, used, rows, shifts + rows @ self.ball.center)
        shifts, rows = shifts + rows @ self.center, rows * self.radius
        length = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
        found = _inmost(rows / length[:, None], shifts / length, budget)
        if found is None:
            return None, None
        v, margin, multipliers = found
        point = self.region.project(self.center + self.radius * v) if margin > 0 else None
        against = self._multipliers(signs, used, np.maximum(multipliers, 0.0) / length) if margin <= _FLAT else None
        return point, against

    def _in_ball(
        self, signs: Signs, used: Index, rows: Array, shifts: Array
    ) -> tuple[Array | None, NogoodMultipliers | None]:
        """The point of the cell that is nearest to the center, a little inside; its multipliers where that is too far.

        A ball that is cut at the ends of a box may miss the point: then nothing is known.
        """
        ball, length = self.ball, np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
        assert ball is not None
        rows, shifts = rows / length[:, None] * ball.radius, shifts / length
        against: NogoodMultipliers | None = None
        for margin in _MARGINS:
            found = nearest(rows, margin * ball.radius - shifts)
            if found is None:
                break
            u, weights = found
            if u is not None and np.linalg.norm(u) < 1.0:
                return self.region.project(ball.center + ball.radius * u), against if margin == 0 else None
            against = self._multipliers(signs, used, weights / length)
        return None, against

    def _multipliers(self, signs: Signs, used: Index, weights: Array) -> NogoodMultipliers:
        """sum weights |z| as a sum of the rows: weights at v of what is on and w of what is off, and at no other v."""
        quick, sides = self.quick, weights[len(used) :]
        mu, u = np.zeros(quick.count), quick.lo.copy()
        mu[quick.open[used]], u[quick.open] = weights[: len(used)], signs > 0
        on = np.ones(len(mu), dtype=bool)
        on[quick.open] = signs > 0
        y = np.zeros(len(mu))
        for a, b in reversed(list(zip(quick.ends[:-1], quick.ends[1:], strict=True))):
            # Behind a row stands the slope of its neuron: 1 where it is open, the known one elsewhere.
            slope = np.where(np.isin(np.arange(b, len(mu)), quick.open), 1.0, u[b:])
            pulled = (y[b:] * slope) @ quick.B[b:, a:b]
            y[a:b] = np.where(on[a:b], mu[a:b] + pulled, -mu[a:b])
        return y, np.concatenate([np.zeros(len(mu)), sides])


class PatternWitnesses:
    """Improves the bracket with points of `original`, which the problem searched was made of."""

    def __init__(self, problem: Problem, original: Problem, bracket: Bracket, quick: Flat) -> None:
        self.problem, self.original, self.bracket, self.quick = problem, original, bracket, quick
        self.realise = Realise(problem, quick)

    def offer(self, point: Array, budget: Budget) -> None:
        """Any point of the box."""
        budget.charge(SIGNS_CALLS, SCALAR)
        pattern = self.quick.patterns(point[None])
        norm = float(self.quick.constants(pattern)[0])
        if norm <= self.bracket.lower:
            return
        if self._evaluate(point, budget) < norm * (1.0 - self.bracket.settings.gap):
            self.whole(pattern[0], budget)

    def whole(self, signs: Signs, budget: Budget) -> NogoodMultipliers | None:
        """A point inside the cell of a whole pattern; multipliers that may refuse the pattern if there is none."""
        point, multipliers = self.realise.point(signs, budget)
        if point is not None:
            self._evaluate(point, budget)
        return multipliers

    def _evaluate(self, point: Array, budget: Budget) -> float:
        budget.charge(SIGNS_EVALUATE * self.original.network.entries, THIN)
        budget.charge(SIGNS_CALLS, SCALAR)
        if isinstance(self.original.region, Ball | Polytope):  # the linear programs know its box, and round
            point = self.original.region.project(point)
        value = evaluate(self.original, point)
        if value > self.bracket.lower and self.original.region.contains(point):
            self.bracket.improve(Witness(point, value, METHOD))
        return value


def nearest(rows: Array, right: Array) -> tuple[Array | None, Array] | None:
    """min |u| s.t. rows u >= right [LawsonHanson74]: u (None where there is none) and multipliers >= 0 of the rows.

    Where there is no u, or it is far, the sum of the rows with these multipliers shows it. None when it fails.
    """
    from scipy.optimize import nnls  # here, so that importing lipcert stays fast

    scale = max(float(np.abs(right).max(initial=0.0)), 1e-300)
    table, one = np.vstack([rows.T, right[None, :] / scale]), np.zeros(rows.shape[1] + 1)
    one[-1] = 1.0
    try:
        y, _ = nnls(table, one)
    except (RuntimeError, ValueError):
        return None
    r = table @ y - one
    if abs(r[-1]) < 1e-12:
        return None, y
    u = -r[:-1] / r[-1] * scale
    misses = rows @ u < right - 1e-9 * (np.abs(rows) @ np.abs(u) + scale)  # r may be nothing but rounding
    return None if np.any(misses) else u, y


def _inmost(rows: Array, shifts: Array, budget: Budget) -> tuple[Array, float, Array] | None:
    """max d s.t. rows v + shifts >= d, d <= 1, |v_i| <= 1: v, d and the multipliers of the rows; None when it fails."""
    count, n = rows.shape
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(shifts))):
        return None
    table = sparse.csr_array(np.hstack([rows, -np.ones((count, 1))]))
    ends = np.append(np.ones(n), np.inf)
    top = np.append(np.ones(n), 1.0)
    model = linear_model(np.append(np.zeros(n), -1.0), table, -shifts, np.full(count, np.inf), -ends, top)
    with budget.measured(0.0, SPARSE) as work:
        highs = with_model(model, _OPTIONS)
        highs.run()
        pivots = max(0, int(highs.getInfo().simplex_iteration_count))
        work.operations = table.nnz * (SIGNS_ASK + SIGNS_PIVOT * pivots)
    if highs.getModelStatus().name != "kOptimal":
        return None
    found = highs.getSolution()
    v = np.array(found.col_value)
    return v[:-1], float(v[-1]), np.array(found.row_dual)
