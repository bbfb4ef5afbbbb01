"""The published relaxations, literally, for networks with one hidden layer: an independent reference for small sizes.

[CLMP20], MomLCEP-2: one vector of moments L(monomial); a dense M_1 over (1, x, t, u, z); M_2 and the localizing
matrices M_1(g y) on the cliques {x_i, t_i} and {u_j, z_j}; and of the affine constraints only

    L(z - A x - b) = 0,     L((z - A x - b)^2) = 0.

Nothing of `lipcert.relaxation` is used. The only liberty is a change of units inside the cliques (x by the box, z by
its range), which changes no relaxation. A slope alpha below zero enters the objective as alpha + (1 - alpha) u.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Monomial = tuple[int, ...]  # sorted variables, repeated by their power
Polynomial = dict[Monomial, float]


def variable(i: int) -> Polynomial:
    return {(i,): 1.0}


def plus(*terms: tuple[float, Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for factor, p in terms:
        for monomial, value in p.items():
            total[monomial] = total.get(monomial, 0.0) + factor * value
    return total


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for (m, a), (n, b) in itertools.product(p.items(), q.items()):
        key = tuple(sorted(m + n))
        product[key] = product.get(key, 0.0) + a * b
    return product


ONE: Polynomial = {(): 1.0}


class MomentProblem:
    """sup L(objective) over moment sequences with L(1) = 1, solved by clarabel."""

    def __init__(self) -> None:
        self.columns: dict[Monomial, int] = {}
        self.zero: list[Polynomial] = []
        self.nonnegative: list[Polynomial] = []
        self.matrices: list[list[list[Polynomial]]] = []

    def equals_zero(self, p: Polynomial) -> None:
        self.zero.append(p)

    def at_least_zero(self, p: Polynomial) -> None:
        self.nonnegative.append(p)

    def moment_matrix(self, variables: Iterable[int], order: int, localizer: Polynomial = ONE) -> None:
        """M_order(localizer y) on these variables is positive semidefinite."""
        self.matrices.append(_matrix(variables, order, localizer))

    def vanishing_matrix(self, variables: Iterable[int], order: int, localizer: Polynomial) -> None:
        """M_order(localizer y) = 0: one equation per monomial."""
        basis = _basis(variables, 2 * order)
        self.zero += [times(localizer, {monomial: 1.0}) for monomial in basis]

    def maximum(self, objective: Polynomial) -> float:
        rows: list[tuple[Polynomial, float]] = [(p, 1.0) for p in self.zero + self.nonnegative]
        cones: list[object] = [clarabel.ZeroConeT(len(self.zero)), clarabel.NonnegativeConeT(len(self.nonnegative))]
        for matrix in self.matrices:
            n = len(matrix)
            rows += [(matrix[i][j], 1.0 if i == j else np.sqrt(2.0)) for j in range(n) for i in range(j + 1)]
            cones.append(clarabel.PSDTriangleConeT(n))
        A, b = self._assemble(rows)
        q = np.zeros(A.shape[1])
        for monomial, value in objective.items():
            q[self.columns[monomial]] = -value
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        empty = sparse.csc_matrix((len(q), len(q)))
        solution = clarabel.DefaultSolver(empty, q, sparse.csc_matrix(A), b, cones, settings).solve()
        assert str(solution.status) in ("Solved", "AlmostSolved", "InsufficientProgress"), solution.status
        return -float(solution.obj_val)

    def _assemble(self, rows: list[tuple[Polynomial, float]]) -> tuple[sparse.csr_array, Array]:
        """s = b - A y in the cones, with s the value of each row; L(1) = 1 is a constant."""
        entries: list[tuple[int, int, float]] = []
        b = np.zeros(len(rows))
        for k, (p, weight) in enumerate(rows):
            for monomial, value in p.items():
                if monomial == ():
                    b[k] += weight * value
                else:
                    column = self.columns.setdefault(monomial, len(self.columns))
                    entries.append((k, column, -weight * value))
        row, column_of, value_of = (np.array(part) for part in zip(*entries, strict=True))
        return sparse.csr_array((value_of, (row, column_of)), (len(rows), len(self.columns))), b


def hr2(A: Array, b: Array, c: Array, lo: Array, hi: Array, alpha: float = 0.0, order: int = 0) -> float:
    """MomLCEP-2 on a box with interior; stable neurons are taken out, the others get M_order(g y) >= 0 for
    g = u(hi - z) and (1-u)(z - lo). Order 0 is L(g) >= 0; order 1 is what a constraint of a clique has in HR-2."""
    A, b, c, fixed = _without_stable(A, b, c, lo, hi, alpha)
    problem, x, t, u, z = _variables(A)
    middle, reach = _range(A, b, lo, hi)
    low, high = middle / reach - 1.0, middle / reach + 1.0
    for i in range(len(x)):
        clique = (x[i], t[i])
        problem.moment_matrix(clique, 2)
        problem.moment_matrix(clique, 1, plus((1.0, ONE), (-1.0, _square(x[i]))))
        problem.moment_matrix(clique, 1, plus((1.0, ONE), (-1.0, _square(t[i]))))
    for j in range(len(u)):
        clique, U, Z = (u[j], z[j]), variable(u[j]), variable(z[j])
        problem.moment_matrix(clique, 2)
        problem.vanishing_matrix(clique, 1, plus((1.0, _square(u[j])), (-1.0, U)))
        problem.moment_matrix(clique, 1, times(plus((1.0, U), (-0.5, ONE)), Z))
        problem.moment_matrix(clique, order, times(U, plus((high[j], ONE), (-1.0, Z))))
        problem.moment_matrix(clique, order, times(plus((1.0, ONE), (-1.0, U)), plus((1.0, Z), (-low[j], ONE))))
    _tie(problem, A, b, lo, hi, x, z)
    return problem.maximum(_objective(A, c, fixed, alpha, t, u))


def shor(A: Array, b: Array, c: Array, lo: Array, hi: Array, alpha: float = 0.0, stable: bool = True) -> float:
    """The first-order relaxation: M_1 and L of every constraint. All neurons stay, unless `stable` is False."""
    fixed = np.zeros(A.shape[1])
    if not stable:
        A, b, c, fixed = _without_stable(A, b, c, lo, hi, alpha)
    problem, x, t, u, z = _variables(A)
    for variables in (x, t):
        for i in variables:
            problem.at_least_zero(plus((1.0, ONE), (-1.0, _square(i))))
    for j in range(len(u)):
        problem.equals_zero(plus((1.0, _square(u[j])), (-1.0, variable(u[j]))))
        problem.at_least_zero(times(plus((1.0, variable(u[j])), (-0.5, ONE)), variable(z[j])))
    _tie(problem, A, b, lo, hi, x, z)
    return problem.maximum(_objective(A, c, fixed, alpha, t, u))


def everywhere(A: Array, c: Array, alpha: float = 0.0) -> float:
    """Both relaxations on the whole space: x and z say nothing, M_1 over (1, t, u) remains."""
    p1, p0 = A.shape
    t, u = range(p0), range(p0, p0 + p1)
    problem = MomentProblem()
    problem.moment_matrix([*t, *u], 1)
    for i in t:
        problem.moment_matrix((i,), 2)
        problem.moment_matrix((i,), 1, plus((1.0, ONE), (-1.0, _square(i))))
    for j in u:
        problem.moment_matrix((j,), 2)
        problem.vanishing_matrix((j,), 1, plus((1.0, _square(j)), (-1.0, variable(j))))
    return problem.maximum(_objective(A, c, np.zeros(p0), alpha, t, u))


def _without_stable(
    A: Array, b: Array, c: Array, lo: Array, hi: Array, alpha: float
) -> tuple[Array, Array, Array, Array]:
    """The neurons that change their sign on the box, and the gradient of the others."""
    middle, reach = _range(A, b, lo, hi)
    on, off = middle - reach >= 0, middle + reach <= 0
    free = ~(on | off)
    return A[free], b[free], c[free], A.T @ (np.where(on, 1.0, alpha) * np.where(free, 0.0, c))


def _variables(A: Array) -> tuple[MomentProblem, range, range, range, range]:
    p1, p0 = A.shape
    x, t = range(p0), range(p0, 2 * p0)
    u, z = range(2 * p0, 2 * p0 + p1), range(2 * p0 + p1, 2 * (p0 + p1))
    problem = MomentProblem()
    problem.moment_matrix([*x, *t, *u, *z], 1)
    return problem, x, t, u, z


def _tie(problem: MomentProblem, A: Array, b: Array, lo: Array, hi: Array, x: range, z: range) -> None:
    """L(r) = 0 and L(r^2) = 0 for r = z - A x - b, over the range of z."""
    middle, reach = _range(A, b, lo, hi)
    G = A * ((hi - lo) / 2)
    for j in range(len(z)):
        terms = [(1.0, variable(z[j])), (-middle[j] / reach[j], ONE)]
        residual = plus(*terms, *((-G[j, i] / reach[j], variable(x[i])) for i in range(len(x))))
        problem.equals_zero(residual)
        problem.equals_zero(times(residual, residual))


def _objective(A: Array, c: Array, fixed: Array, alpha: float, t: range, u: range) -> Polynomial:
    """t'(fixed + A' diag(alpha + (1 - alpha) u) c)."""
    p: Polynomial = {(t[i],): float(fixed[i] + alpha * (A[:, i] @ c)) for i in range(len(t))}
    for j, i in itertools.product(range(len(u)), range(len(t))):
        p[tuple(sorted((t[i], u[j])))] = (1 - alpha) * float(A[j, i] * c[j])
    return p


def _range(A: Array, b: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    return A @ ((lo + hi) / 2) + b, np.abs(A) @ ((hi - lo) / 2)


def _square(i: int) -> Polynomial:
    return {(i, i): 1.0}


def _basis(variables: Iterable[int], degree: int) -> list[Monomial]:
    ordered = sorted(variables)
    return [m for d in range(degree + 1) for m in itertools.combinations_with_replacement(ordered, d)]


def _matrix(variables: Iterable[int], order: int, localizer: Polynomial) -> list[list[Polynomial]]:
    basis = _basis(variables, order)
    return [[times(localizer, {tuple(sorted(m + n)): 1.0}) for n in basis] for m in basis]
