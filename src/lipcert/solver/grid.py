"""All products of a grid at once: low-rank augmented Lagrangian over the problem's rows and four matrices.

    max <C, R R'>   s.t.   the problem's rows, and (1 + p a_i)(1 + q b_j) >= 0 for all i, j and signs,   R of N x rank

As in `low_rank`, rows X_ii = const hold by construction and L-BFGS climbs between updates of the multipliers. What is
left at the end are multipliers L of the products: at fixed L the rest is a problem without them, which an exact method
solves (`shifted`), and its multipliers with L are dual feasible.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from lipcert.errors import InputError
from lipcert.relaxation.grid import Grid, grid_matrix, grid_parts
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.atoms import AtomForm, atom_form
from lipcert.solver.bordered import Bordered
from lipcert.solver.pairs import Moments, Watched
from lipcert.solver.start import balance, diagonal_rows, dual_matrix, lowest_eigenvalue

_MARGIN = 0.08  # a product this near its bound is watched


@dataclass(frozen=True)
class GridOptions:
    """Settings; the time limit is in seconds of wall clock."""

    tolerance: float = 1e-4  # of the violation, at which the rounds end
    rounds: int = 400
    inner: int = 60
    rank: int = 40
    time_limit: float = float("inf")
    penalty: float = 0.4  # of the products, in units of the mean diagonal multiplier; fixed, see PERFORMANCE.md
    row_penalty: float = 4.0  # of the problem's rows, in the same units


@dataclass(frozen=True, eq=False)
class GridStart:
    """What a run hands to the next one on a similar problem: multipliers of rows and products, and the vectors."""

    y: Floats
    L: Floats
    R: Floats | None = None


@dataclass(frozen=True, eq=False)
class GridState:
    """One round: value, largest violation, and multipliers of the given problem that go with the vectors R."""

    round: int
    seconds: float
    primal: float
    violation: float
    y: Floats
    L: Floats
    R: Floats  # rows in the order of the given problem


def shifted(problem: RankTwoProblem, grid: Grid, L: Floats) -> RankTwoProblem:
    """The problem with its products paid at fixed multipliers: C - G*(L) in place of C."""
    objective = sp.csr_matrix(problem.objective) - sp.csr_matrix(grid_matrix(grid, problem.size, L))
    return replace(problem, objective=objective)


class GridRun:
    """The rounds, one at a time: whoever holds this decides when to look at a bound."""

    def __init__(
        self,
        problem: RankTwoProblem,
        grid: Grid,
        options: GridOptions = GridOptions(),  # noqa: B008 - frozen
        start: GridStart | None = None,
    ) -> None:
        self.begin = time.perf_counter()
        self.deadline = self.begin + options.time_limit  # may be moved between the rounds
        self.problem, self.grid, self.options = problem, grid, options
        if np.any(problem.diagonal != 1.0):
            raise InputError("GridRun(problem): the products need variables with X_ii <= 1")
        self.form: AtomForm = atom_form(problem, np.r_[grid.one, grid.right])
        form = self.form
        place = np.argsort(form.permutation)
        self.one, self.left, self.right = int(place[grid.one]), place[grid.left], place[grid.right]
        self.row, self.coefficient = diagonal_rows(form)
        if np.any(self.row < 0):
            raise InputError("GridRun(problem): every variable needs a row of its own that bounds X_ii")
        self.unequal = ~problem.equality
        self.fixed = form.equality[self.row]
        self.length = np.sqrt(np.maximum(form.rhs[self.row] / self.coefficient, 0.0))
        self.free = np.ones(form.rhs.size, dtype=bool)
        self.free[self.row[self.fixed]] = False
        self.aim = self._aim()
        self.weight = balance(form.objective)
        mean = float(self.weight.mean())
        self.penalty, self.row_penalty = options.penalty * mean, options.row_penalty * mean
        self.round, self.last = 0, np.inf
        self._begin(start)

    def _aim(self) -> Moments:
        """C at (a_i, b_j), (1, a_i), (1, b_j), scaled; the method needs it to have nothing else."""
        grid, scale = self.grid, self.form.value_scale
        C = sp.csr_matrix(self.problem.objective) / scale
        cross = np.asarray(C[grid.left][:, grid.right].toarray())
        rows, columns = (np.asarray(C[side][:, [grid.one]].toarray())[:, 0] for side in (grid.left, grid.right))
        if C.nnz != 2 * sum(np.count_nonzero(part) for part in (cross, rows, columns)) + np.sum(C.data == 0):
            raise InputError("GridRun(problem): the objective must join the two sides and the constant only")
        return cross, rows, columns

    def _begin(self, start: GridStart | None) -> None:
        form, rank = self.form, min(self.options.rank, self.form.size)
        self.R = np.random.default_rng(0).standard_normal((form.size, rank)) / np.sqrt(rank)
        self.y = np.zeros(form.rhs.size)
        self.L = np.zeros(self.grid.shape)
        if start is not None and start.L.shape == self.L.shape:
            self.L = np.maximum(start.L / form.value_scale, 0.0)
            if start.y.shape == self.y.shape:
                given = start.y.copy()
                given[self.row[self.one]] -= start.L.sum()
                self.y = form.scaled_multipliers(given) * self.free
            if start.R is not None and start.R.shape == self.R.shape:
                self.R = start.R[form.permutation].copy()
        self.R = self._vectors(self.R)[0]
        self.base, self.speed = (self.y, self.L), 1.0
        self._watch()

    def _watch(self) -> None:
        self.watched, self.violation = Watched.near(self._moments(self.R), self.L, _MARGIN)
        self.pressed = self.L.ravel()[self.watched.flat]

    def state(self) -> GridState:
        """Where the rounds are, in the units of the given problem."""
        form = self.form
        primal = float(np.vdot(form.objective.times(self.R), self.R)) * form.value_scale
        seconds = time.perf_counter() - self.begin
        back = self.R[np.argsort(form.permutation)]
        y, L = self.given(self.base[0])
        return GridState(self.round, seconds, primal, max(self.violation, self.row_violation), y, L, back)

    def given(self, y: Floats) -> tuple[Floats, Floats]:
        """Multipliers of the given problem from scaled ones; the constant's own row takes the products' corner."""
        L = self.base[1] * self.form.value_scale
        given = self.form.multipliers(y)
        given = np.where(self.unequal, np.maximum(given, 0.0), given)
        given[self.row[self.one]] += float(L.sum())
        return given, L

    row_violation = 0.0

    def advance(self) -> bool:
        """One round: climb, update the multipliers, watch anew. False at the tolerance or the deadline.

        A climb that the deadline cut short moves nothing: multipliers updated from its vectors would be worse.
        """
        if not self._climb():
            return False
        excess = self.watched.excess(self._moments(self.R))
        pressed = np.maximum(self.pressed + self.penalty * excess, 0.0)
        change = float(np.linalg.norm(pressed - self.pressed)) / self.penalty
        L = np.zeros(self.L.size)
        L[self.watched.flat] = pressed
        y = self.y
        if self.free.any():
            y = self._pressure(self._row_excess(self._images(self.R)))
            step = (y - self.y) / self.row_penalty
            self.row_violation = float(np.abs(step).max())
            change = float(np.hypot(change, np.linalg.norm(step)))
        self._extrapolate(y, L.reshape(self.L.shape), change)
        self._watch()
        self.round += 1
        return self.round < self.options.rounds and max(self.violation, self.row_violation) > self.options.tolerance

    def _extrapolate(self, y: Floats, L: Floats, change: float) -> None:
        """The next round's multipliers: a step further along the last change (Nesterov), unless it grew."""
        self.speed = 1.0 if change > self.last else (1.0 + np.sqrt(1.0 + 4.0 * self.speed**2)) / 2
        ahead = (self.speed - 1.0) / (self.speed + 2.0)
        self.y = y + ahead * (y - self.base[0])
        self.y = np.where(self.unequal, np.maximum(self.y, 0.0), self.y)
        self.L = np.maximum(L + ahead * (L - self.base[1]), 0.0)
        self.base = (y, L)
        self.last = change

    def _vectors(self, R: Floats) -> tuple[Floats, Floats]:
        """Rows of fixed length, and the lengths they had."""
        norm = np.sqrt(np.einsum("ij,ij->i", R, R))
        norm[norm == 0] = 1.0
        factor = np.where(self.fixed, self.length / norm, 1.0)
        return R * factor[:, None], norm

    def _moments(self, V: Floats) -> Moments:
        T, W, e = V[self.left], V[self.right], V[self.one]
        return T @ W.T, T @ e, W @ e

    def _images(self, V: Floats) -> Floats:
        return np.vstack([V, self.form.dense.T @ V])

    def _row_excess(self, images: Floats) -> Floats:
        form = self.form
        atoms = np.einsum("ij,ij->i", images[form.first], images[form.second])
        return np.where(self.free, form.rows @ atoms - form.rhs, 0.0)

    def _pressure(self, excess: Floats) -> Floats:
        y = self.y + self.row_penalty * excess
        return np.where(self.unequal, np.maximum(y, 0.0), y) * self.free

    def _row_pull(self, y: Floats, images: Floats) -> Floats:
        """A*(y) V, from [V; Q'V]."""
        form, n, d = self.form, self.form.size, self.form.dense.shape[1]
        core = sp.csr_matrix(((form.rows.T @ y) / 2, (form.first, form.second)), shape=(n + d, n + d))
        result = (core + core.T) @ images
        return np.asarray(result[:n] + form.dense @ result[n:])

    def _grid_pull(self, parts: Moments, V: Floats) -> Floats:
        """G*(m) V."""
        cross, rows, columns = parts
        T, W, e = V[self.left], V[self.right], V[self.one]
        result = np.zeros_like(V)
        result[self.left] = cross @ W + rows[:, None] * e
        result[self.right] = cross.T @ T + columns[:, None] * e
        result[self.one] = rows @ T + columns @ W
        return result

    def _negative(self, flat: Floats) -> tuple[float, Floats]:
        """Minus the augmented Lagrangian, over a scale, and its slope."""
        if time.perf_counter() > self.deadline:
            raise TimeoutError
        V, norm = self._vectors(flat.reshape(self.R.shape))
        moments = self._moments(V)
        value = 2.0 * sum(float(np.vdot(one, two)) for one, two in zip(self.aim, moments, strict=True))
        m = np.maximum(self.pressed + self.penalty * self.watched.excess(moments), 0.0)
        value -= (float(m @ m) - float(self.pressed @ self.pressed)) / (2 * self.penalty)
        parts = self.watched.parts(m)
        slope = self._grid_pull((self.aim[0] - parts[0], self.aim[1] - parts[1], self.aim[2] - parts[2]), V)
        if self.free.any():
            images = self._images(V)
            y = self._pressure(self._row_excess(images))
            value -= (float(y @ y) - float(self.y @ self.y)) / (2 * self.row_penalty)
            slope -= self._row_pull(y, images)
        inward = np.einsum("ij,ij->i", slope, V) / np.maximum(self.length, 1e-300) ** 2
        slope -= np.where(self.fixed, inward, 0.0)[:, None] * V
        slope *= np.where(self.fixed, self.length / norm, 1.0)[:, None]
        scale = float(self.weight.sum())
        return -value / scale, -2.0 * slope.ravel() / scale

    def _climb(self) -> bool:
        options = {"maxiter": self.options.inner, "maxcor": 12, "ftol": 1e-13, "gtol": 1e-9}
        try:
            found = minimize(self._negative, self.R.ravel(), jac=True, method="L-BFGS-B", options=options)
        except TimeoutError:
            return False
        self.R = self._vectors(found.x.reshape(self.R.shape))[0]
        return True

    def feasible(self) -> tuple[Floats, Floats, float]:
        """Dual feasible multipliers from the current ones, and their bound: only the diagonal ones are recomputed."""
        form = self.form
        y = self.base[0].copy()
        y[self.row] = 0.0
        S = dual_matrix(form, y)
        self._add(S, grid_parts(self.base[1]))
        weight = self._stationary(S)
        low = lowest_eigenvalue(S, 1.0 / np.sqrt(weight), 100)
        y[self.row] = weight * max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        given, L = self.given(y)
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

    def _stationary(self, S: Bordered, sweeps: int = 40) -> Floats:
        """Diagonal multipliers at fixed others, by sweeps v_i <- normalise(-(S v)_i + |(S v)_i| v_i)."""
        V = self.R / np.maximum(np.linalg.norm(self.R, axis=1), 1e-12)[:, None]
        weight = np.ones(len(V))
        for _ in range(sweeps):
            image = -S.times(V * self.length[:, None])
            weight = np.linalg.norm(image, axis=1)
            image += weight[:, None] * V
            V = image / np.maximum(np.linalg.norm(image, axis=1), 1e-300)[:, None]
        weight = weight / np.maximum(self.length, 1e-12)
        return np.asarray(np.maximum(weight, 1e-3 * weight.mean() + 1e-300))
