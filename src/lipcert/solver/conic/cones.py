"""Conic programs over equalities, inequalities and semidefinite blocks, for any back end.

    min c'x    s.t.   A x + s = b,      s in K  = K_1 x K_2 x ...     (rows in the order of the cones)
    max -b'z   s.t.   A'z + c = 0,      z in K* (free on zero cones)

A semidefinite block of order n takes n(n+1)/2 rows: the upper triangle stacked by columns, off-diagonal entries times
sqrt(2), so that inner products of vectors are those of matrices. The answer of a back end is a hint: `primal` and
`dual` are never bounds; the certificate code decides what z proves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf, isqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats

ConeKind = Literal["zero", "nonnegative", "psd"]
CONE_KINDS: tuple[ConeKind, ...] = ("zero", "nonnegative", "psd")
_SQRT2 = float(np.sqrt(2.0))


class ConicStatus(Enum):
    """Why the solver stopped; the value is the sentence for the user."""

    OPTIMAL = "optimal: gap and infeasibilities are below the solver's tolerance"
    NEARLY_OPTIMAL = "nearly optimal: progress stopped close to the solver's tolerance"
    INFEASIBLE = "infeasible: no point satisfies the constraints"
    UNBOUNDED = "unbounded: the objective has no lower limit, or the dual has no feasible point"
    INFEASIBLE_OR_UNBOUNDED = "infeasible or unbounded: the solver did not tell which"
    TIME_LIMIT = "time limit: the best iterate found so far is returned, if there is one"
    ITERATION_LIMIT = "iteration limit: the best iterate found so far is returned"
    STALLED = "stalled: the solver stopped for lack of progress"
    INTERRUPTED = "interrupted: stopped by the user"
    ERROR = "error: the solver failed or gave an unknown answer"

    @property
    def has_solution(self) -> bool:
        """Whether x and z claim to solve the problem."""
        return self in (ConicStatus.OPTIMAL, ConicStatus.NEARLY_OPTIMAL)


@dataclass(frozen=True)
class Cone:
    """`zero` and `nonnegative` of `size` rows, or the `psd` matrices of order `size`."""

    kind: ConeKind
    size: int

    def __post_init__(self) -> None:
        if self.kind not in CONE_KINDS:
            raise InputError(f"Cone(kind={self.kind!r}): expected one of {', '.join(CONE_KINDS)}")
        if self.size < 0:
            raise InputError(f"Cone({self.kind!r}, size={self.size}): size must be >= 0")

    @property
    def rows(self) -> int:
        return triangle(self.size) if self.kind == "psd" else self.size


@dataclass(frozen=True, eq=False)
class ConicProblem:
    """min c'x s.t. A x + s = b, s in the product of the cones; see the module's first lines for the order of rows."""

    c: Floats
    A: Any
    b: Floats
    cones: tuple[Cone, ...]

    def __post_init__(self) -> None:
        c, b = _vector(self.c, "c"), _vector(self.b, "b")
        A = sparse.csc_array(self.A, dtype=np.float64)
        A.sum_duplicates()
        cones = tuple(self.cones)
        if A.shape != (len(b), len(c)):
            raise InputError(f"ConicProblem(A): shape {A.shape} does not fit {len(b)} rows of b and {len(c)} of c")
        if not np.all(np.isfinite(A.data)):
            raise InputError("ConicProblem(A): all entries must be finite")
        rows = sum(cone.rows for cone in cones)
        if rows != len(b):
            raise InputError(f"ConicProblem(cones): they take {rows} rows, but b has {len(b)}")
        for name, value in (("c", c), ("A", A), ("b", b), ("cones", cones)):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        return len(self.b)

    @property
    def columns(self) -> int:
        return len(self.c)

    def blocks(self) -> Iterator[tuple[Cone, slice]]:
        """The cones with their rows, in order; empty cones too."""
        start = 0
        for cone in self.cones:
            yield cone, slice(start, start + cone.rows)
            start += cone.rows

    def kind_rows(self, kind: ConeKind) -> NDArray[np.int64]:
        """The rows of all cones of this kind, in order."""
        parts = [np.arange(rows.start, rows.stop) for cone, rows in self.blocks() if cone.kind == kind]
        return np.concatenate([np.empty(0, np.int64), *parts])

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders of the semidefinite blocks that are not empty."""
        return tuple(cone.size for cone in self.cones if cone.kind == "psd" and cone.size)


@dataclass(frozen=True, eq=False)
class ConicSolution:
    """The answer of a back end; arrays hold NaN where it said nothing.

    x, s, z solve both problems when `status.has_solution`; for INFEASIBLE z is a ray (A'z = 0, b'z < 0), for UNBOUNDED
    x is one (c'x < 0, Ax + s = 0), where the solver gives it. `message` is the solver's own word for its status.
    """

    x: Floats
    s: Floats
    z: Floats
    status: ConicStatus
    primal: float
    dual: float
    seconds: float
    iterations: int
    solver: str
    message: str = ""


Vectors = tuple[Any, Any, Any]  # x, s, z; None where the solver has none
NOTHING: Vectors = (None, None, None)


@dataclass(frozen=True, eq=False)
class ConicAnswer:
    """Status, vectors and iterations of a back end, and its own word for the status."""

    status: ConicStatus
    vectors: Vectors
    iterations: int
    message: str


@dataclass(frozen=True)
class Limits:
    """Limits that every back end gets besides the problem: seconds, iterations (None: its own limit), whether to print.

    `tolerance` is for methods that pay for every digit (SCS); None: their own.
    """

    seconds: float = inf
    iterations: int | None = None
    tolerance: float | None = None
    verbose: bool = False


def make_solution(problem: ConicProblem, answer: ConicAnswer, seconds: float, solver: str) -> ConicSolution:
    """A solution from a back end's answer; a vector that is None or of a wrong length becomes NaN."""
    sizes = (problem.columns, problem.rows, problem.rows)
    x, s, z = (_or_nan(v, size) for v, size in zip(answer.vectors, sizes, strict=True))
    if answer.status is ConicStatus.INFEASIBLE:
        primal = dual = inf
    elif answer.status is ConicStatus.UNBOUNDED:
        primal = dual = -inf
    else:
        primal, dual = float(problem.c @ x), float(-(problem.b @ z))
    values = (primal, dual, seconds, answer.iterations)
    return ConicSolution(x, s, z, answer.status, *values, solver, answer.message)


def triangle(order: int) -> int:
    """n(n+1)/2."""
    return order * (order + 1) // 2


def svec(matrix: ArrayLike) -> Floats:
    """Symmetric (..., n, n) as vectors (..., n(n+1)/2): upper triangle by columns, sqrt(2) off the diagonal."""
    M = np.asarray(matrix, dtype=np.float64)
    if M.ndim < 2 or M.shape[-1] != M.shape[-2]:
        raise InputError(f"svec: expected square matrices, got shape {M.shape}")
    column, row = np.tril_indices(M.shape[-1])  # the lower triangle by rows is the upper one by columns
    return np.asarray(M[..., row, column] * svec_scale(M.shape[-1]))


def smat(vector: ArrayLike) -> Floats:
    """The symmetric matrices (..., n, n) of vectors (..., n(n+1)/2); the inverse of svec."""
    v = np.asarray(vector, dtype=np.float64)
    length = v.shape[-1] if v.ndim else -1
    order = (isqrt(8 * length + 1) - 1) // 2 if length >= 0 else 0
    if triangle(order) != length:
        raise InputError(f"smat: the last axis of shape {v.shape} must have length n(n+1)/2")
    column, row = np.tril_indices(order)
    M = np.empty((*v.shape[:-1], order, order))
    M[..., row, column] = M[..., column, row] = v / svec_scale(order)
    return M


def svec_scale(order: int) -> Floats:
    """The factor of each entry of svec: 1 on the diagonal, sqrt(2) elsewhere."""
    scale = np.full(triangle(order), _SQRT2)
    scale[np.cumsum(np.arange(1, order + 1)) - 1] = 1.0
    return scale


def lower_by_columns(order: int) -> NDArray[np.int64]:
    """For each entry of the lower triangle by columns (SCS, MOSEK) its place in svec."""
    row, column = np.triu_indices(order)  # the upper triangle by rows is the lower one by columns
    return np.asarray(column * (column + 1) // 2 + row, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Places:
    """Places of the rows of all semidefinite blocks: row of the problem; block, row <= column in it, scale of svec."""

    rows: NDArray[np.int64]
    block: NDArray[np.int64]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    scale: Floats


def psd_places(problem: ConicProblem) -> Places:
    """The matrix entries behind the rows of semidefinite blocks; empty blocks are not counted."""
    triangles = [np.tril_indices(order) for order in problem.orders]
    empty = np.empty(0, np.int64)
    return Places(
        problem.kind_rows("psd"),
        np.repeat(np.arange(len(problem.orders)), [triangle(order) for order in problem.orders]),
        np.concatenate([empty, *(row for _, row in triangles)]),
        np.concatenate([empty, *(column for column, _ in triangles)]),
        np.concatenate([np.empty(0), *(svec_scale(order) for order in problem.orders)]),
    )


def _vector(value: ArrayLike, name: str) -> Floats:
    vector = np.array(value, dtype=np.float64)
    if vector.ndim != 1 or not np.all(np.isfinite(vector)):
        raise InputError(f"ConicProblem({name}): expected a vector of finite numbers, got shape {vector.shape}")
    return vector


def _or_nan(value: Any, size: int) -> Floats:
    vector = np.empty(0) if value is None else np.asarray(value, dtype=np.float64)
    return vector if vector.shape == (size,) else np.full(size, np.nan)
