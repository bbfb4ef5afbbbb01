"""Iterative refinement of conic programs: solve again in coordinates in which the last answer is the identity.

An interior point stops at about 1e-8 of the largest number that it met. With Z = L L' (its multipliers, floored) and
the moments moved to x0, the same program in

    X = L^-1 Z L^-T,      S' = L' S L / mu,      x = x0 + P w    (columns of the transformed matrix orthonormal)

is well conditioned at X = S' = I, and its optimum is mu times smaller than the first one: every round gains digits,
until the rounding of the data is reached. The answer is projected onto the equations, which is exact up to rounding.
All of this is a hint like any solver's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import Cone, ConeKind, ConicProblem, ConicSolution, smat, svec, triangle

MOST_WORK = 2e7  # rows times columns squared: a second or so, most of it in the solver
FLOOR = 1e-11  # smallest curvature, relative to the largest multiplier: flatter directions are given this much
RANK = 1e-13
NEARLY = 1e-3

Solve = Callable[[ConicProblem], ConicSolution]


def refinable(problem: ConicProblem) -> bool:
    """Whether a round costs a second or two at most."""
    congruences = problem.columns * sum(float(order) ** 3 for order in problem.orders)
    return float(problem.rows) * float(problem.columns) ** 2 + congruences <= MOST_WORK


def refine(problem: ConicProblem, found: ConicSolution, solve: Solve, rounds: int = 3) -> Iterator[ConicSolution]:
    """Better and better answers, as long as there are some; what they are worth is for the caller to prove.

    An answer whose multipliers do not even nearly solve the equations is not worth a round.
    """
    if found.z.shape != (problem.rows,) or found.x.shape != (problem.columns,):
        return
    with np.errstate(all="ignore"):
        off = np.abs(_residual(problem, found.z)).max(initial=0.0)
    if not off <= NEARLY * (1 + np.abs(problem.c).max(initial=0.0)):
        return
    for _ in range(rounds):
        with np.errstate(all="ignore"):
            coordinates = _coordinates(problem, found)
        if coordinates is None:
            return
        inner = solve(coordinates.program)
        if inner.z.shape != (coordinates.program.rows,) or inner.x.shape != (coordinates.program.columns,):
            return
        with np.errstate(all="ignore"):
            x, z = coordinates.back(inner)
            slack = problem.b - problem.A @ x
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(z)) and np.all(np.isfinite(slack))):
            return
        found = replace(found, x=x, z=z, s=slack, status=inner.status, message=inner.message)
        yield found


@dataclass(frozen=True, eq=False)
class _Part:
    """One cone: its rows before and after, and the map between: factors of rows, or L of a semidefinite block."""

    kind: ConeKind
    rows: slice
    inner: slice
    map: Floats

    @property
    def size(self) -> int:
        return int(self.map.shape[-1])

    def forward(self, slack: Floats) -> Floats:
        """Slacks, or columns of slacks, in the new coordinates: L'SL."""
        if self.kind != "psd":
            return self.map * slack if slack.ndim == 1 else self.map[:, None] * slack
        return svec(self.map.T @ smat(slack.T) @ self.map).T

    def backward(self, multipliers: Floats) -> Floats:
        """Multipliers in the old coordinates: L X L'."""
        return self.map * multipliers if self.kind != "psd" else svec(self.map @ smat(multipliers) @ self.map.T)


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """The program in the coordinates of the last answer, and the way back."""

    program: ConicProblem
    directions: Floats
    point: Floats
    parts: list[_Part]
    kept: Floats  # multipliers of the last answer, on the rows of zero cones

    def back(self, inner: ConicSolution) -> tuple[Floats, Floats]:
        """x and z of the first program; z projected onto A'z + c = 0 in the inner product of these coordinates."""
        U, X = self.program.A.toarray(), inner.z
        X = X - U @ (self.program.c + U.T @ X)
        z = self.kept.copy()
        for part in self.parts:
            z[part.rows] += part.backward(X[part.inner])
        return self.point + self.directions @ inner.x, z


def _coordinates(problem: ConicProblem, found: ConicSolution) -> _Coordinates | None:
    x, z = found.x, found.z
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(z))):
        return None
    A, slack = problem.A.toarray(), problem.b - problem.A @ x
    try:
        parts = _parts(problem, z, _always_null(problem, A, x))
        moved = np.concatenate([part.forward(slack[part.rows]) for part in parts])
        matrix = np.concatenate([part.forward(A[part.rows]) for part in parts])
        identity = np.concatenate([_identity(part) for part in parts])
        mu = abs(float(identity @ moved)) / max(float(identity.sum()), 1.0)
        if not 1e-100 < mu < 1e100 or not np.all(np.isfinite(matrix / mu)) or not np.all(np.isfinite(moved / mu)):
            return None
        U, directions = _orthonormal(matrix / mu)
    except (np.linalg.LinAlgError, ValueError):
        return None
    kept, floored = np.zeros(len(z)), np.zeros(len(z))
    for part in parts:
        if part.kind == "zero":
            kept[part.rows] = floored[part.rows] = z[part.rows]
        else:
            floored[part.rows] = part.backward(identity[part.inner])
    c = directions.T @ _residual(problem, floored) / mu - U.T @ identity
    if not np.all(np.isfinite(c)):
        return None
    cones = tuple(Cone(part.kind, part.size) for part in parts)
    return _Coordinates(ConicProblem(c, U, moved / mu, cones), directions, x, parts, kept)


def _orthonormal(matrix: Floats) -> tuple[Floats, Floats]:
    """U with orthonormal columns and P with matrix P = U, of the directions that the matrix has."""
    from scipy.linalg import qr, solve_triangular  # here, so that importing lipcert stays fast

    Q, R, order = qr(matrix, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int((sizes > RANK * sizes.max(initial=0.0)).sum())
    directions = np.zeros((matrix.shape[1], rank))
    directions[order[:rank]] = solve_triangular(R[:rank, :rank], np.eye(rank))
    return Q[:, :rank], directions


def _parts(problem: ConicProblem, z: Floats, null: list[Floats]) -> list[_Part]:
    """The maps: of zero cones a weight, of inequalities their multipliers, of matrices L with Z = L L'."""
    parts: list[_Part] = []
    start, kernels = 0, iter(null)
    for cone, rows in problem.blocks():
        if cone.kind == "zero":
            L = np.full(cone.size, max(1.0, float(np.abs(z[rows]).max(initial=0.0))))
        elif cone.kind == "nonnegative":
            L = np.maximum(z[rows], FLOOR * max(1.0, float(z[rows].max(initial=0.0))))
        else:
            N = next(kernels)
            values, vectors = np.linalg.eigh(N.T @ smat(z[rows]) @ N)
            L = (N @ vectors) * np.sqrt(np.maximum(values, FLOOR * max(1.0, float(values.max(initial=0.0)))))
        size = triangle(int(L.shape[-1])) if cone.kind == "psd" else cone.size
        parts.append(_Part(cone.kind, rows, slice(start, start + size), L))
        start += size
    return parts


def _identity(part: _Part) -> Floats:
    """The multipliers of the last answer in its own coordinates; none on zero cones, which are counted from it."""
    if part.kind != "psd":
        return np.full(part.size, 0.0 if part.kind == "zero" else 1.0)
    return svec(np.eye(part.size))


def _always_null(problem: ConicProblem, A: Floats, x: Floats) -> list[Floats]:
    """By semidefinite block: a basis of what is left of its space when the equations' own null vectors are gone.

    Equations such as L(h m) = 0 make every feasible matrix singular in the same directions, where no interior is.
    """
    blocks = [(cone.size, rows) for cone, rows in problem.blocks() if cone.kind == "psd"]
    zero = problem.kind_rows("zero")
    if not len(zero):
        return [np.eye(order) for order, _ in blocks]
    E = A[zero]
    x = x - np.linalg.lstsq(E, E @ x - problem.b[zero], rcond=1e-12)[0]
    sizes, V = np.linalg.svd(E)[1:]
    free = V[int((sizes > 1e-10 * sizes.max(initial=0.0)).sum()) :].T
    random = np.random.default_rng(0).standard_normal((free.shape[1], 3))
    samples = [problem.b - A @ x, *(A @ (free @ w) for w in random.T)]
    kept: list[Floats] = []
    for order, rows in blocks:
        stacked = np.concatenate([smat(s[rows]) / (1.0 + np.abs(s[rows]).max(initial=0.0)) for s in samples])
        sizes, V = np.linalg.svd(stacked)[1:]
        null = sizes <= 1e-9 * sizes.max(initial=0.0)
        kept.append(np.eye(order) if null.all() or not null.any() else V[~null].T)
    return kept


def _residual(problem: ConicProblem, z: Floats) -> Floats:
    """c + A'z in extended precision where there is one: what refinement refines."""
    entries = problem.A.tocoo()
    total = problem.c.astype(np.longdouble)
    np.add.at(total, entries.col, entries.data.astype(np.longdouble) * z.astype(np.longdouble)[entries.row])
    return np.asarray(total, dtype=np.float64)
