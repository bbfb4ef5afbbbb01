"""Named conic programs with known optimal values, and where the values come from."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import sparse

from lipcert.solver.conic.conic import Cone, ConicProblem, ConicSolution, smat, svec


@dataclass(frozen=True)
class Known:
    name: str
    problem: ConicProblem
    value: float


def transport() -> Known:
    """min of 2x2 transport costs; by hand: ship 3 on the cheap edge, 1 and 2 on the next."""
    # x11 + x12 = 3, x21 + x22 = 3, x11 + x21 = 4, x12 + x22 = 2; costs 1 4 2 3: x11 = 3, x21 = 1, x22 = 2
    A = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    rows = sparse.vstack([sparse.csc_array(A), -sparse.eye_array(4)])
    cones = (Cone("zero", 4), Cone("nonnegative", 4))
    return Known(
        "transport", ConicProblem(np.array([1.0, 4, 2, 3]), rows, np.r_[3.0, 3, 4, 2, np.zeros(4)], cones), 11.0
    )


def degenerate() -> Known:
    """max x + y with five rows through (1, 1): value 2."""
    A = np.array([[1, 0], [0, 1], [1, 1], [2, 1], [1, 2], [-1, 0], [0, -1]])
    b = np.array([1.0, 1, 2, 3, 3, 0, 0])
    return Known("degenerate", ConicProblem(-np.ones(2), A, b, (Cone("nonnegative", 7),)), -2.0)


def order_one() -> Known:
    """min x s.t. x >= 2 as a block of order one, between empty cones."""
    cones = (Cone("psd", 0), Cone("psd", 1), Cone("zero", 0), Cone("nonnegative", 0))
    return Known("order one", ConicProblem(np.ones(1), -np.ones((1, 1)), -2 * np.ones(1), cones), 2.0)


def cut_triangle() -> Known:
    """max-cut of the triangle, as max (1/4) <L, X>, diag X = 1, X >= 0: 9/4 (Goemans and Williamson 1995)."""
    L = 3 * np.eye(3) - np.ones((3, 3))
    rows = np.array([svec(np.outer(e, e)) for e in np.eye(3)])
    A = sparse.vstack([sparse.csc_array(rows), -sparse.eye_array(6)])
    problem = ConicProblem(-svec(L) / 4, A, np.r_[np.ones(3), np.zeros(6)], (Cone("zero", 3), Cone("psd", 3)))
    return Known("max-cut of the triangle", problem, -2.25)


def cut_triangle_dual() -> Known:
    """Its dual: min sum y s.t. Diag(y) - L/4 >= 0; no equality, so every solver sees its favourite form."""
    L = 3 * np.eye(3) - np.ones((3, 3))
    A = np.array([svec(-np.outer(e, e)) for e in np.eye(3)]).T
    return Known("dual of max-cut", ConicProblem(np.ones(3), A, svec(-L / 4), (Cone("psd", 3),)), 2.25)


def theta_pentagon() -> Known:
    """The theta number of the 5-cycle is sqrt(5) (Lovasz 1979): max <J, X>, tr X = 1, X_ij = 0 on edges."""
    rows = [svec(np.eye(5))]
    for i in range(5):
        E = np.zeros((5, 5))
        E[i, (i + 1) % 5] = E[(i + 1) % 5, i] = 1
        rows.append(svec(E))
    A = sparse.vstack([sparse.csc_array(np.array(rows)), -sparse.eye_array(15)])
    problem = ConicProblem(-svec(np.ones((5, 5))), A, np.r_[1.0, np.zeros(20)], (Cone("zero", 6), Cone("psd", 5)))
    return Known("theta of the pentagon", problem, -sqrt(5))


def largest_eigenvalues() -> Known:
    """min t + u s.t. t I >= M, u I >= N: two blocks, value = sum of the largest eigenvalues."""
    M, N = np.array([[2.0, 1, 0], [1, 2, 1], [0, 1, 2]]), np.array([[0.0, 3], [3, 0]])
    A = sparse.block_diag([sparse.coo_array(-svec(np.eye(n))[:, None]) for n in (3, 2)])
    problem = ConicProblem(np.ones(2), A, -np.r_[svec(M), svec(N)], (Cone("psd", 3), Cone("psd", 2)))
    return Known("largest eigenvalues", problem, 2 + sqrt(2) + 3)


def mixed_order() -> Known:
    """min tr X s.t. X >= 0, X_12 = 1, X_11 >= 2: cones in an unusual order; value 2.5 at X = [[2, 1], [1, 1/2]]."""
    # x = (X11, X12, X22)
    A = sparse.vstack([sparse.csc_array(-np.diag([1, sqrt(2), 1])), sparse.csc_array([[-1.0, 0, 0], [0, 1.0, 0]])])
    cones = (Cone("psd", 2), Cone("nonnegative", 1), Cone("zero", 1))
    return Known("mixed order", ConicProblem(np.array([1.0, 0, 1]), A, np.r_[np.zeros(3), -2, 1], cones), 2.5)


LINEAR = [transport(), degenerate(), order_one()]
SEMIDEFINITE = [
    cut_triangle(),
    cut_triangle_dual(),
    theta_pentagon(),
    largest_eigenvalues(),
    mixed_order(),
]


def random_sdp(seed: int, columns: int = 6, orders: tuple[int, ...] = (4, 1, 3), equalities: int = 2) -> ConicProblem:
    """A random program with strictly feasible points on both sides, by construction."""
    rng = np.random.default_rng(seed)
    cones = (Cone("zero", equalities), *(Cone("psd", n) for n in orders), Cone("nonnegative", 3))
    A = rng.standard_normal((sum(cone.rows for cone in cones), columns))
    A[rng.random(A.shape) < 0.3] = 0
    inside = np.concatenate([*(svec(np.eye(n)) for n in orders), np.ones(3)])
    b = A @ rng.standard_normal(columns) + np.r_[np.zeros(equalities), inside]
    c = -A.T @ np.r_[rng.standard_normal(equalities), inside]
    return ConicProblem(c, A, b, cones)


def unbounded() -> ConicProblem:
    """min -x, x >= 0."""
    return ConicProblem(-np.ones(1), -np.ones((1, 1)), np.zeros(1), (Cone("nonnegative", 1),))


def infeasible() -> ConicProblem:
    """min x, x <= -1, x >= 1."""
    return ConicProblem(np.ones(1), np.array([[1.0], [-1.0]]), -np.ones(2), (Cone("nonnegative", 2),))


def infeasible_sdp() -> ConicProblem:
    """min x with [[x, 2], [2, 1 - x]] >= 0: x (1 - x) <= 1/4 < 4."""
    A = np.stack([svec(np.diag([-1.0, 1.0]))], axis=1)
    return ConicProblem(np.ones(1), A, svec(np.array([[0.0, 2], [2, 1]])), (Cone("psd", 2),))


def violation(problem: ConicProblem, found: ConicSolution) -> float:
    """The largest error of feasibility on both sides, relative to the data."""
    errors = [problem.A @ found.x + found.s - problem.b, problem.A.T @ found.z + problem.c]
    for cone, rows in problem.blocks():
        s, z = found.s[rows], found.z[rows]
        if cone.kind == "zero":
            errors.append(s)
        elif cone.kind == "nonnegative":
            errors += [np.minimum(s, 0), np.minimum(z, 0)]
        elif cone.size:
            errors += [np.minimum(np.linalg.eigvalsh(smat(v)), 0) for v in (s, z)]
    scale = 1 + max(np.abs(problem.b).max(initial=0), np.abs(problem.c).max(initial=0))
    return float(max(np.abs(e).max(initial=0) for e in errors) / scale)
