"""All products of a grid at once: low-rank augmented Lagrangian over the problem's rows and four matrices.

    max <C, R R'>   s.t.   the problem's rows, and (1 + p a_i)(1 + q b_j) >= 0 for all i, j and signs,   R of N x rank

As in `low_rank`, rows X_ii = const hold by construction and L-BFGS climbs between updates of the multipliers. The
result is the multipliers L of the products: at fixed L the rest is a problem without them, which an exact method
solves (`shifted`), and its multipliers with L are dual feasible.

At most two of the four products of a pair can be near their bound, and most pairs have none: a list of products with a
multiplier or near their bound (`Watched`), drawn anew between the rounds, makes a step several times cheaper than four
full matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, Integers, RankTwoProblem
from lipcert.relaxation.triangles import SIGNS, Positions, grid_matrix, grid_parts
from lipcert.solver.bordered import Bordered
from lipcert.solver.costs import INTERIOR_CALLS, INTERIOR_ROW, THIN_CALLS
from lipcert.solver.low_rank import Extrapolation, Factors
from lipcert.solver.start import dual_matrix
from lipcert.steps import THIN

Moments = tuple[Floats, Floats, Floats]  # moments of (a_i, b_j), (1, a_i), (1, b_j)


def excess(moments: Moments, kind: int) -> Floats:
    """-(1 + p a)(1 + q b) for all pairs, with the signs of one kind; positive where violated."""
    cross, rows, columns = moments
    p, q = (float(sign) for sign in SIGNS[kind])
    value = (-p * q) * cross
    value -= (1.0 + p * rows)[:, None]
    value -= q * columns
    return np.asarray(value)


@dataclass(frozen=True, eq=False)
class Watched:
    """Products (kind, i, j) as flat places in the four matrices, with what their signs need."""

    flat: Integers  # place in 4 x p x q
    pair: Integers  # place in p x q
    i: Integers
    j: Integers
    p: Floats
    q: Floats
    shape: tuple[int, int]

    @staticmethod
    def near(moments: Moments, L: Floats, margin: float) -> tuple[Watched, float]:
        """Products with a positive multiplier or within `margin` of their bound; and the largest violation of all."""
        p, q = moments[0].shape
        found, worst = [], 0.0
        for kind in range(4):
            value = excess(moments, kind)
            worst = max(worst, float(value.max(initial=0.0)))
            found.append(kind * p * q + np.flatnonzero((L[kind] > 0) | (value > -margin)))
        flat = np.concatenate(found)
        kind_of, pair = np.divmod(flat, p * q)
        i, j = np.divmod(pair, q)
        signs = SIGNS[kind_of].astype(float)
        return Watched(flat, pair, i, j, signs[:, 0].copy(), signs[:, 1].copy(), (p, q)), worst

    def excess(self, moments: Moments) -> Floats:
        """-(1 + p a)(1 + q b) of the products in the list."""
        cross, rows, columns = moments
        value = (-self.p * self.q) * cross.ravel()[self.pair]
        value -= self.p * rows[self.i]
        value -= self.q * columns[self.j]
        value -= 1.0
        return np.asarray(value)

    def parts(self, m: Floats) -> Moments:
        """G*(m) at (a_i, b_j), (1, a_i), (1, b_j)."""
        p, q = self.shape
        left, right = -0.5 * self.p * m, -0.5 * self.q * m
        kinds = ((self.pair, self.p * right, p * q), (self.i, left, p), (self.j, right, q))
        cross, rows, columns = (np.bincount(at, value, minlength=n).astype(float) for at, value, n in kinds)
        return cross.reshape(p, q), rows, columns


GRID_ENTRY = 20.0  # operations for each pair and for each watched product, in one evaluation

_MARGIN = 0.08  # a product this near its bound is watched
_SWEEPS, _LANCZOS = 40, 100  # on the way to feasible multipliers


@dataclass(frozen=True)
class GridOptions:
    """Settings; measured in docs/experiments/products-of-signs.md."""

    tolerance: float = 1e-4  # violation at which the rounds end
    rounds: int = 400
    inner: int = 60
    rank: int = 40
    penalty: float = 0.4  # penalty of the products, in units of the mean diagonal multiplier; fixed
    row_penalty: float = 4.0  # penalty of the problem's rows, in the same units


@dataclass(frozen=True, eq=False)
class GridStart:
    """A start for another run on a similar problem: multipliers of rows and products, and the vectors."""

    y: Floats
    L: Floats
    R: Floats | None = None


@dataclass(frozen=True, eq=False)
class GridState:
    """One round: value, largest violation, and multipliers of the given problem that go with the vectors R."""

    round: int
    primal: float
    violation: float
    y: Floats
    L: Floats
    R: Floats  # rows in the order of the given problem


def shifted(problem: RankTwoProblem, grid: Positions, L: Floats) -> RankTwoProblem:
    """The problem with its products paid at fixed multipliers: C - G*(L) in place of C."""
    objective = sp.csr_matrix(problem.objective) - sp.csr_matrix(grid_matrix(grid, problem.size, L))
    return replace(problem, objective=objective)


class GridRun:
    """The rounds, one at a time: whoever holds this decides when to look at a bound."""

    def __init__(
        self,
        problem: RankTwoProblem,
        grid: Positions,
        budget: Budget,
        options: GridOptions = GridOptions(),
        start: GridStart | None = None,
    ) -> None:
        self.problem, self.grid, self.options, self.budget = problem, grid, options, budget
        if np.any(problem.diagonal != 1.0):
            raise InputError("GridRun(problem): the products need variables with X_ii <= 1")
        self.factors = Factors(problem, np.r_[grid.one, grid.right])
        budget.charge(INTERIOR_ROW * problem.rows + INTERIOR_CALLS)
        form = self.factors.form
        place = np.argsort(form.permutation)
        self.one, self.left, self.right = int(place[grid.one]), place[grid.left], place[grid.right]
        self.aim = self._aim()
        mean = float(self.factors.weight.mean())
        self.penalty, self.row_penalty = options.penalty * mean, options.row_penalty * mean
        self.round, self.row_violation = 0, 0.0
        self._begin(start)

    def _aim(self) -> Moments:
        """C at (a_i, b_j), (1, a_i), (1, b_j), scaled; the method needs it to have nothing else."""
        grid, scale = self.grid, self.factors.form.value_scale
        C = sp.csr_matrix(self.problem.objective) / scale
        cross = np.asarray(C[grid.left][:, grid.right].toarray())
        rows, columns = (np.asarray(C[side][:, [grid.one]].toarray())[:, 0] for side in (grid.left, grid.right))
        if C.nnz != 2 * sum(np.count_nonzero(part) for part in (cross, rows, columns)) + np.sum(C.data == 0):
            raise InputError("GridRun(problem): the objective must join the two sides and the constant only")
        return cross, rows, columns

    def _begin(self, start: GridStart | None) -> None:
        factors, form = self.factors, self.factors.form
        self.R = factors.start(self.options.rank)
        self.y = np.zeros(form.rhs.size)
        self.L = np.zeros(self.grid.shape)
        if start is not None and start.L.shape == self.L.shape:
            self.L = np.maximum(start.L / form.value_scale, 0.0)
            if start.y.shape == self.y.shape:
                given = start.y.copy()
                given[factors.row[self.one]] -= start.L.sum()
                self.y = form.scaled_multipliers(given) * factors.free
            if start.R is not None and start.R.shape == self.R.shape:
                self.R = factors.vectors(start.R[form.permutation])[0]
        self.base, self.extrapolation = (self.y, self.L), Extrapolation()
        self._watch()

    def _watch(self) -> None:
        self.watched, self.violation = Watched.near(self._moments(self.R), self.L, _MARGIN)
        self.pressed = self.L.ravel()[self.watched.flat]

    def state(self) -> GridState:
        """The current values, multipliers and vectors in the units of the given problem."""
        form = self.factors.form
        primal = float(np.vdot(form.objective.times(self.R), self.R)) * form.value_scale
        back = self.R[np.argsort(form.permutation)]
        return GridState(self.round, primal, max(self.violation, self.row_violation), *self.given(self.base[0]), back)

    def given(self, y: Floats) -> tuple[Floats, Floats]:
        """Multipliers of the given problem from scaled ones; the constant's own row takes the products' corner."""
        L, given = self.base[1] * self.factors.form.value_scale, self.factors.given(y)
        given[self.factors.row[self.one]] += float(L.sum())
        return given, L

    def advance(self, budget: Budget) -> bool:
        """One round: climb, update the multipliers, watch anew. False at the tolerance or the end of the budget.

        A climb that the budget cut short moves nothing: multipliers updated from its vectors would be worse.
        """
        self.budget = budget
        try:
            options = {"maxiter": self.options.inner, "maxcor": 12, "ftol": 1e-13, "gtol": 1e-9}
            self.R = self.factors.climb(self.R, self._lagrangian, budget, self._operations(), options)
        except TimeoutError:
            return False
        factors = self.factors
        pressed = np.maximum(self.pressed + self.penalty * self.watched.excess(self._moments(self.R)), 0.0)
        change = float(np.linalg.norm(pressed - self.pressed)) / self.penalty
        L = np.zeros(self.L.size)
        L[self.watched.flat] = pressed
        y = self.y
        if factors.free.any():
            y = factors.pressure(self.y, self.row_penalty * factors.excess(factors.images(self.R)))
            step = (y - self.y) / self.row_penalty
            self.row_violation = float(np.abs(step).max())
            change = float(np.hypot(change, np.linalg.norm(step)))
        self._extrapolate(y, L.reshape(self.L.shape), change)
        self._watch()
        self.round += 1
        return self.round < self.options.rounds and max(self.violation, self.row_violation) > self.options.tolerance

    def _extrapolate(self, y: Floats, L: Floats, change: float) -> None:
        """The next round's multipliers: a step further along the last change."""
        ahead = self.extrapolation.ahead(change)
        self.y = self.factors.signed(y + ahead * (y - self.base[0]))
        self.L = np.maximum(L + ahead * (L - self.base[1]), 0.0)
        self.base = (y, L)

    def _moments(self, V: Floats) -> Moments:
        T, W, e = V[self.left], V[self.right], V[self.one]
        return T @ W.T, T @ e, W @ e

    def _grid_pull(self, parts: Moments, V: Floats) -> Floats:
        """G*(m) V."""
        cross, rows, columns = parts
        T, W, e = V[self.left], V[self.right], V[self.one]
        result = np.zeros_like(V)
        result[self.left] = cross @ W + rows[:, None] * e
        result[self.right] = cross.T @ T + columns[:, None] * e
        result[self.one] = rows @ T + columns @ W
        return result

    def _operations(self) -> float:
        """Operations of one evaluation: moments and pull of all pairs, a few looks at watched products, the rows."""
        pairs, rank = len(self.left) * len(self.right), self.R.shape[1]
        rows = self.factors.operations(rank) if self.factors.free.any() else 12.0 * self.R.size
        return float(6 * pairs * rank + GRID_ENTRY * (pairs + len(self.pressed)) + rows)

    def _lagrangian(self, V: Floats) -> tuple[float, Floats]:
        """The augmented Lagrangian and its slope over V."""
        moments, factors = self._moments(V), self.factors
        value = 2.0 * sum(float(np.vdot(one, two)) for one, two in zip(self.aim, moments, strict=True))
        m = np.maximum(self.pressed + self.penalty * self.watched.excess(moments), 0.0)
        value -= (float(m @ m) - float(self.pressed @ self.pressed)) / (2 * self.penalty)
        parts = self.watched.parts(m)
        slope = self._grid_pull((self.aim[0] - parts[0], self.aim[1] - parts[1], self.aim[2] - parts[2]), V)
        if factors.free.any():
            images = factors.images(V)
            y = factors.pressure(self.y, self.row_penalty * factors.excess(images))
            value -= (float(y @ y) - float(self.y @ self.y)) / (2 * self.row_penalty)
            slope -= factors.pull(y, images)
        return value, 2.0 * slope

    def feasible(self) -> tuple[Floats, Floats, float]:
        """Dual feasible multipliers from the current ones, and their bound: only the diagonal ones are recomputed."""
        factors = self.factors
        work = factors.operations(1) * (_SWEEPS * self.R.shape[1] + _LANCZOS)
        with self.budget.measured(work + THIN_CALLS * (_SWEEPS + _LANCZOS), THIN):
            y = self.base[0].copy()
            y[factors.row] = 0.0
            S = dual_matrix(factors.form, y)
            self._add(S, grid_parts(self.base[1]))
            given, L = self.given(factors.rescaled(y, S, self.R, _SWEEPS, _LANCZOS))
        return given, L, float(self.problem.rhs @ given)

    def _add(self, S: Bordered, parts: Moments) -> None:
        cross, rows, columns = parts
        r = S.border.inner
        inside, one, right = self.left < r, self.one - r, self.right - r
        at, other = self.left[inside], self.left[~inside] - r
        S.B[np.ix_(at, right)] += cross[inside]
        S.B[at, one] += rows[inside]
        F = np.zeros_like(S.F)
        F[np.ix_(other, right)] = cross[~inside]
        F[other, one] = rows[~inside]
        F[right, one] += columns
        S.F += F + F.T
