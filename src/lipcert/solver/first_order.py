"""max <C, X> over X >= 0 with the rows of a problem and all triangles of signs: multipliers by a first-order method.

    X = V V', rows of V of length one
    excess e of a row: <A, X> - b;   of a triangle: -1 - (pq X_ab + qr X_bc + pr X_ac)

Between climbs over V (`climb`) the multipliers of rows and triangles follow, (y + s e) with the right signs, and a step
further along the last change. Triangles that the vectors violate most join a list, idle ones leave it (`triangles`).
At fixed multipliers what is left is a problem over unit vectors without rows: the lengths at its maximum, lifted until
the dual matrix is positive semidefinite, are the multipliers of X_ii = 1. So there is a bound from the first round on
(`Dual`), however far the rounds have come.

A variable with X_ii <= 1 has a coordinate of its own, in which it is as long as its X_ii is short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Booleans, Floats, RankTwoProblem
from lipcert.relaxation.triangles import NO_TRIANGLES, Triangles
from lipcert.solver.climb import Singles, Slope, climb, unit
from lipcert.solver.costs import EIGENVALUE, EIGENVALUE_CALLS, INTERIOR_CALLS, INTERIOR_ROW
from lipcert.solver.low_rank import Extrapolation, Factors
from lipcert.solver.start import lowest_eigenvalue
from lipcert.solver.triangles import TRIANGLE_DRAW, Edges, violated
from lipcert.steps import THIN

# Operations of one evaluation, measured on SDP-NN: for each triangle, each number of V, and the Python around it.
STEP_TRIANGLE, STEP_NUMBER, STEP_CALLS = 2e3, 5e2, 2e7
_MARGIN = 0.08  # a triangle this near its bound stays in the list
_THRESHOLD = 0.35  # least violation of the triangles that join first
_LANCZOS = 60  # steps towards the least eigenvalue of a large dual matrix
_EXACT_UP_TO = 300  # order up to which all eigenvalues are computed
_FLOORS = (0.3, 1.0)  # what the lengths are lifted in proportion to: themselves and so many times their mean


@dataclass(frozen=True)
class FirstOrderOptions:
    """Settings; measured in docs/experiments/triangles.md."""

    rank: int = 40  # of V, where sqrt(2 N) is not less
    inner: int = 30  # steps of a climb
    penalty: float = 0.06  # of triangles, in units of the mean diagonal multiplier
    row_penalty: float = 4.0  # of the problem's rows, in the same units
    joining: int = 30_000  # triangles that may join in a round
    first: int = 4  # rounds before the first list of triangles
    lasts: int = 8  # rounds that the first list lasts, and how many more each following one
    tolerance: float = 1e-4  # violation at which the rounds end
    rounds: int = 10_000


@dataclass(frozen=True, eq=False)
class Dual:
    """Multipliers y of the problem's rows and g of triangles, dual feasible up to rounding, and their bound.

    The triangles' corners are not in y: `relaxation.triangles.triangle_rows` adds them.
    """

    triangles: Triangles
    g: Floats
    y: Floats
    value: float


class _Rows:
    """The rows of the problem besides X_ii, on V itself: in single precision, in the given order of the variables."""

    def __init__(self, problem: RankTwoProblem) -> None:
        self.factors = Factors(problem)
        form = self.form = self.factors.form
        self.permutation, self.place = form.permutation, np.argsort(form.permutation)
        self.support = np.flatnonzero(np.any(form.dense != 0, axis=1))
        self.Q = np.ascontiguousarray(form.dense[self.support], dtype=np.float32)
        self.P, self.turned = sp.csr_matrix(form.rows, dtype=np.float32), sp.csr_matrix(form.rows.T, dtype=np.float32)
        self.free = np.ones(form.rhs.size, dtype=bool)
        self.free[self.factors.row] = False
        self.any = bool(self.free.any())
        self.unequal = self.factors.unequal
        self.own = self.factors.row[self.place]  # the row of X_ii of every variable
        same = form.first == form.second
        self.twice = np.where(same, 1.0, 0.5).astype(np.float32)
        other = np.flatnonzero(~same)
        count = form.size + self.Q.shape[1]
        row, column = np.r_[form.first, form.second[other]], np.r_[form.second, form.first[other]]
        numbers = np.r_[np.arange(same.size), other].astype(np.float64) + 1.0
        pattern = sp.csr_matrix((numbers, (row, column)), shape=(count, count))
        self.order = pattern.data.astype(np.int64) - 1
        self.pattern = pattern.astype(np.float32)

    def operations(self, rank: int) -> float:
        """Operations of one evaluation."""
        return float(4 * rank * (self.Q.size + 20 * self.form.first.size)) if self.any else 0.0

    def images(self, V: Singles) -> Singles:
        """[V; Q'V] in the order of the atoms."""
        V = V[self.permutation]
        return np.vstack([V, self.Q.T @ V[self.support]])

    def excess(self, images: Singles) -> Floats:
        """<A, X> - b, 0 for the rows of X_ii."""
        atoms = np.einsum("ij,ij->i", images[self.form.first], images[self.form.second])
        return np.where(self.free, (self.P @ atoms).astype(np.float64) - self.form.rhs, 0.0)

    def signed(self, y: Floats) -> Floats:
        return np.where(self.free, np.where(self.unequal, np.maximum(y, 0.0), y), 0.0)

    def weights(self, y: Floats) -> sp.csr_matrix:
        """A*(y) over the generators."""
        self.pattern.data = ((self.turned @ y.astype(np.float32)) * self.twice)[self.order]
        return self.pattern

    def pull(self, weights: sp.csr_matrix, images: Singles) -> Singles:
        """A*(y) V."""
        found = weights @ images
        n = self.form.size
        result = found[:n]
        result[self.support] += self.Q @ found[n:]
        return np.asarray(result[self.place])

    def matrix(self, y: Floats) -> Floats:
        """A*(y)."""
        dense = self.form.combine(self.form.rows.T @ y).toarray()
        return np.asarray(dense[np.ix_(self.place, self.place)])


class FirstOrderRun:
    """The rounds, one at a time: whoever holds this decides when to ask for a bound."""

    def __init__(
        self, problem: RankTwoProblem, signs: Booleans, budget: Budget, options: FirstOrderOptions = FirstOrderOptions()
    ) -> None:
        if np.any(problem.diagonal != 1.0):
            raise InputError("FirstOrderRun(problem): the method needs variables with X_ii <= 1")
        self.problem, self.options, self.budget, self.size = problem, options, budget, problem.size
        budget.charge(INTERIOR_ROW * problem.rows + INTERIOR_CALLS)
        self.rows = _Rows(problem)
        C = sp.csr_matrix(problem.objective) / self.rows.form.value_scale
        self.odd = np.flatnonzero(signs)
        busy = np.diff(C.indptr) > 0
        busy[self.odd] = True
        self.inside = np.flatnonzero(busy)  # variables of the objective or of triangles
        self.within = np.cumsum(busy) - 1
        self.M = np.asarray(C[self.inside][:, self.inside].toarray())
        self.single = self.M.astype(np.float32)
        self.fixed = self.rows.factors.fixed[self.rows.place]
        weight = self.rows.factors.weight
        self.scale, mean = float(weight.sum()), float(weight.mean())
        self.penalty, self.row_penalty = options.penalty * mean, options.row_penalty * mean
        self.V = self._start()
        self.y = self.y_base = self.y_mean = np.zeros(problem.rows)
        self.triangles, self.g = NO_TRIANGLES, np.zeros(0)
        self.g_base = self.g_mean = self.g
        self.edges: Edges | None = None
        self.extrapolation = Extrapolation()
        self.round, self.left, self.violation, self.threshold = 0, options.inner, np.inf, _THRESHOLD
        self.served, self.period = 0, 0

    def _start(self) -> Singles:
        """Random rows; the last column is for variables that may be shorter than one."""
        rank = min(self.options.rank, int(np.sqrt(2.0 * self.size)) + 2, self.size)
        V = np.random.default_rng(0).standard_normal((self.size, rank + 1)).astype(np.float32)
        V[self.fixed, -1] = 0.0
        return unit(V)

    def advance(self, budget: Budget) -> bool:
        """One round: the list may be drawn anew, vectors climb, multipliers follow. False at the end of the budget, or
        of the rounds; a climb that the budget cut short goes on in the next call."""
        self.budget = budget
        if budget.over():
            return False
        if self.left == self.options.inner and self._due():
            with budget.measured(TRIANGLE_DRAW * len(self.odd) ** 3, THIN):
                self._draw()
        self.V, self.left = climb(self._lagrangian(), self.V, self.left)
        if self.left:
            return False
        self._update()
        self.round, self.left = self.round + 1, self.options.inner
        return not self.done

    @property
    def done(self) -> bool:
        """Whether more rounds would change nothing."""
        return self.violation <= self.options.tolerance or self.round >= self.options.rounds

    def _due(self) -> bool:
        """Whether the list of triangles is drawn anew: each lasts longer than the one before.

        Rows have multipliers of their own before the first list; without rows the first climb is all there is to know.
        """
        first = self.options.first if self.rows.any else 1
        return len(self.odd) > 2 and self.round >= first and self.served >= self.period

    def _draw(self) -> None:
        V = self.V[self.odd, :-1]
        X = V @ V.T
        g, known = self.g_mean, self.triangles
        if self.edges is not None:
            near = self.edges.excess(self.V[self.inside, :-1] @ self.V[self.inside, :-1].T) > -_MARGIN
            keep = (g > 0) | near
            known, g = known[keep], g[keep]
        found, _, self.threshold = violated(X, self.threshold, self.options.joining, self.round)
        found = Triangles(self.odd[found.nodes], found.signs)
        new = found[~np.isin(found.names(), known.names())]
        self.triangles = known.joined(new)
        self.g = self.g_base = self.g_mean = np.concatenate([g, np.zeros(len(new))])
        self.served, self.extrapolation.speed = 0, 1.0
        self.period += self.options.lasts
        self.edges = Edges(Triangles(self.within[self.triangles.nodes], self.triangles.signs), len(self.inside))

    def _step_operations(self) -> float:
        """Operations of one evaluation: pairs of the objective or of triangles, rows, looks at triangles, history."""
        listed, rank = len(self.triangles), self.V.shape[1]
        pairs = (4.0 if listed else 2.0) * len(self.inside) ** 2 * rank
        rows = self.rows.operations(rank)
        return float(pairs + rows + STEP_TRIANGLE * listed + STEP_NUMBER * self.V.size + STEP_CALLS)

    def _counted(self, f: Slope) -> Slope:
        """f with its work counted; it raises TimeoutError at the end of the budget."""
        operations = self._step_operations()

        def counted(V: Singles) -> tuple[float, Singles]:
            if self.budget.over():
                raise TimeoutError
            with self.budget.measured(operations):
                return f(V)

        return counted

    def _lagrangian(self) -> Slope:
        """The augmented Lagrangian and its slope over V, at the multipliers y and g."""
        rows, edges, inside = self.rows, self.edges, self.inside
        g, weight = self.g.astype(np.float32), np.float32(self.penalty)
        S = self.single if edges is None else self.single.copy()
        flat = S.reshape(-1)
        given = None if edges is None else flat[edges.at]
        known = float(self.y @ self.y) / (2 * self.row_penalty) + float(g @ g) / (2 * self.penalty)

        def lagrangian(V: Singles) -> tuple[float, Singles]:
            slope, value = np.zeros_like(V), known
            part = V[inside, :-1]
            if rows.any:
                images = rows.images(V[:, :-1])
                y = rows.signed(self.y + self.row_penalty * rows.excess(images))
                value -= float(y @ y) / (2 * self.row_penalty)
                slope[:, :-1] -= rows.pull(rows.weights(y), images)
            if edges is not None:
                excess = edges.excess(part @ part.T)
                m = np.maximum(g + weight * excess, 0)
                flat[edges.at] = flat[edges.mirror] = given + (edges.B @ m) / 2
                # <S, X> holds the triangles' pull too: m'(B'x) = -m'(1 + excess)
                value += float(m @ (excess + 1)) - float(m @ m) / (2 * self.penalty)
            image = S @ part
            value += float(np.einsum("ij,ij->", image, part, dtype=np.float64))
            slope[inside, :-1] += image
            return value / self.scale, slope * np.float32(2 / self.scale)

        return self._counted(lagrangian)

    def _update(self) -> None:
        """Multipliers after a climb, then a step further along their last change."""
        rows, change = self.rows, 0.0
        y, g = self.y, self.g
        if rows.any:
            y = rows.signed(self.y + self.row_penalty * rows.excess(rows.images(self.V[:, :-1])))
            steps = (y - self.y) / self.row_penalty
            self.violation, change = float(np.abs(steps).max()), float(steps @ steps)
        else:
            self.violation = 0.0
        if self.edges is not None:
            part = self.V[self.inside, :-1]
            g = np.maximum(self.g + self.penalty * self.edges.excess(part @ part.T), 0.0)
            steps = (g - self.g) / self.penalty
            self.violation, change = (
                max(self.violation, float(np.abs(steps).max(initial=0.0))),
                change + float(steps @ steps),
            )
        if self._waits():
            self.violation = np.inf
        ahead = self.extrapolation.ahead(change**0.5)
        self.y, self.y_base = rows.signed(y + ahead * (y - self.y_base)), y
        self.g, self.g_base = np.maximum(g + ahead * (g - self.g_base), 0.0), g
        self.served += 1
        later = 2.0 / (self.served + 1.0)  # later rounds weigh more
        self.g_mean = self.g_mean + (g - self.g_mean) * later
        self.y_mean = self.y_mean + (y - self.y_mean) * later

    def _waits(self) -> bool:
        """Whether triangles may join later that are not in the list."""
        return len(self.odd) > 2 and (self.edges is None or self.served + 1 < self.period)

    def primal(self) -> float:
        """The value of the vectors, which still violate some rows and triangles."""
        part = self.V[self.inside, :-1]
        value: float = self.rows.form.value_scale * float(np.vdot(self.single @ part, part))
        return value

    def moments(self) -> Floats:
        """X."""
        V = self.V[:, :-1].astype(np.float64)
        return np.asarray(V @ V.T)

    def dual(self, steps: int) -> Dual:
        """A bound: multipliers of X_ii at fixed multipliers of rows and triangles, from so many steps of a climb."""
        y = self.y_base if self.edges is None else self.y_mean  # before the first list multipliers are on their way
        g, used = self.g_mean, self.g_mean > 0
        pulled = np.zeros_like(self.M)
        if self.edges is not None:
            pulled.reshape(-1)[self.edges.at] = self.edges.B @ g
            pulled = (pulled + pulled.T) / 2
        V = climb(self._at_fixed(y, pulled), self.V, steps)[0][:, :-1].astype(np.float64)
        with self.budget.measured(len(_FLOORS) * (EIGENVALUE * self.size**2 * _LANCZOS + EIGENVALUE_CALLS)):
            M = -self.rows.matrix(y)
            M[np.ix_(self.inside, self.inside)] += self.M + pulled
            d = lifted(M, V)
        form = self.rows.form
        given = y.copy()
        given[self.rows.own] = d / self.rows.factors.coefficient[self.rows.place]
        bound = form.value_scale * (float(form.rhs @ given) + float(g.sum()))
        return Dual(self.triangles[used], form.value_scale * g[used], self.rows.factors.given(given), bound)

    def _at_fixed(self, y: Floats, pulled: Floats) -> Slope:
        """<C - A*(y) + triangles, V V'> and its slope."""
        rows, inside = self.rows, self.inside
        S, weights = (self.M + pulled).astype(np.float32), rows.weights(y).copy()

        def value(V: Singles) -> tuple[float, Singles]:
            slope = np.zeros_like(V)
            if rows.any:
                slope[:, :-1] -= rows.pull(weights, rows.images(V[:, :-1]))
            slope[inside, :-1] += S @ V[inside, :-1]
            return float(np.einsum("ij,ij->", slope, V, dtype=np.float64)) / self.scale, slope * np.float32(
                2 / self.scale
            )

        return self._counted(value)


@dataclass(frozen=True, eq=False)
class _Dense:
    """A dense matrix as `lowest_eigenvalue` needs it."""

    matrix: Floats

    @property
    def size(self) -> int:
        return len(self.matrix)

    def times(self, Y: Floats) -> Floats:
        return np.asarray(self.matrix @ Y)


def lifted(M: Floats, V: Floats) -> Floats:
    """d >= 0 with diag(d) >= M up to rounding: lengths at a maximum of <M, V V'>, lifted by as little as is needed."""
    d = np.maximum(np.einsum("ij,ij->i", M @ V, V), 0.0)
    mean = float(d.mean()) or max(float(np.abs(M).max()), np.finfo(float).tiny)
    S = np.diag(d) - M
    found = []
    for floor in _FLOORS:
        weight = d + floor * mean
        found.append(d + _missing(S, 1.0 / np.sqrt(weight)) * (1.0 + 1e-9) * weight)
    return min(found, key=lambda each: float(each.sum()))


def _missing(S: Floats, scale: Floats) -> float:
    """How far the least eigenvalue of diag(scale) S diag(scale) is below zero, or a little more."""
    size = len(S)
    if size <= _EXACT_UP_TO:
        return max(-float(eigh(S * scale[:, None] * scale, eigvals_only=True, subset_by_index=(0, 0))[0]), 0.0)
    return max(-lowest_eigenvalue(_Dense(S), scale, _LANCZOS), 0.0)
