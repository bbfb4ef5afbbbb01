"""Alternating maximisation over unit vectors, for global Shor relaxations of one hidden layer [CLMP20]:

    max  sum_ij K_ij <t_i, w_j>,     S = [ diag(a)  -K ; -K'  diag(b) ] >= 0   =>   value <= (sum a + sum b) / 2

Exact maxima over t and w in turn, with extrapolation; at a fixed point the lengths before normalising are the
multipliers, a_i = |sum_j K_ij w_j| and b_j = |sum_i K_ij t_i|. Away from it s a and s b are feasible, with
s = |diag(a)^-1/2 K diag(b)^-1/2|_2. `two_sides` recognises such a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.costs import EIGENVALUE, EIGENVALUE_CALLS, THIN_CALLS
from lipcert.solver.result import Callback, Log, RankTwoResult, Status
from lipcert.steps import THIN


@dataclass(frozen=True, eq=False)
class Sweep:
    """Unit vectors after a sweep, and their value."""

    T: Floats
    W: Floats
    value: float


def alternate(K: Floats, W: Floats, budget: Budget) -> Iterator[Sweep]:
    """Exact maxima over t and w in turn, from w = W on, for ever."""
    turned, W_before, momentum, last = np.ascontiguousarray(K.T), W, 0.0, -np.inf
    each = 4.0 * K.size * W.shape[1] + 20.0 * W.size + THIN_CALLS
    while True:
        with budget.measured(each, THIN):
            T = normalise(K @ (normalise(W + momentum * (W - W_before)) if momentum else W))
            W_before, image = W, turned @ T
            W = normalise(image)
        value = float(np.vdot(image, W))
        # Extrapolation speeds up the sweeps several times; it restarts when the value falls.
        momentum = 0.0 if value < last else min(0.9, momentum + 0.1)
        last = value
        yield Sweep(T, W, value)


def normalise(V: Floats) -> Floats:
    """Rows of length one; a row of zeros stays."""
    norm = np.sqrt(np.einsum("ij,ij->i", V, V))
    return np.asarray(V / np.where(norm > 0, norm, 1.0)[:, None])


@dataclass(frozen=True, eq=False)
class Bipartite:
    """Multipliers of |t_i|^2 = 1 (`left`) and |w_j|^2 = 1 (`right`); S(left, right) >= 0 up to rounding.

    `dual` = (sum left + sum right) / 2 is the bound they give; `primal` is the value of the vectors found. The status
    is None while the sweeps go on.
    """

    left: Floats
    right: Floats
    dual: float
    primal: float
    status: Status | None
    sweeps: int

    @property
    def gap(self) -> float:
        return (self.dual - self.primal) / max(abs(self.primal), 1e-300)


def solve_bipartite(
    K: Floats,
    tolerance: float = 1e-5,
    sweeps: int = 5000,
    callback: Callable[[Bipartite], bool | None] | None = None,
    *,
    budget: Budget | None = None,
) -> Bipartite:
    """max sum_ij K_ij <t_i, w_j> over unit vectors, with multipliers.

    Args:
        K: p x q matrix.
        tolerance: relative gap between the multipliers' bound and the vectors' value.
        callback: called at every check with what is known then; returning True stops the sweeps.
        budget: one sweep is made even where it is over; without it there are no multipliers.
    """
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim != 2 or not np.all(np.isfinite(K)):
        raise InputError("solve_bipartite(K): expected a matrix of finite numbers")
    if sweeps < 1:
        raise InputError(f"solve_bipartite(sweeps={sweeps}): must be at least 1")
    budget = budget or Budget.unlimited()
    p, q = K.shape
    rank = int(np.sqrt(2.0 * (p + q))) + 2  # beyond sqrt(2 (p + q)) local maxima are global
    W = normalise(np.random.default_rng(0).standard_normal((q, rank)))
    alternation = alternate(K, W, budget)
    check_operations = 2.0 * p * q * min(p, q) + EIGENVALUE * min(p, q) ** 3 + EIGENVALUE_CALLS
    check, best = 1, None
    for sweep, at in zip(range(1, sweeps + 1), alternation, strict=False):
        if sweep in (check, sweeps):
            check = sweep + max(10, sweep // 4)
            with budget.measured(check_operations):
                lengths = np.linalg.norm(K @ at.W, axis=1), np.linalg.norm(K.T @ at.T, axis=1)
                best = _better(best, _scaled(K, *lengths), at.value)
            found = Bipartite(*best, at.value, None, sweep)
            stop = callback is not None and callback(found)
            if stop or found.gap < tolerance:
                return replace(found, status=Status.OPTIMAL if found.gap < tolerance else Status.INTERRUPTED)
        if budget.over():
            return replace(found, status=Status.TIME_LIMIT)
    return replace(found, status=Status.ITERATION_LIMIT)


Multipliers = tuple[Floats, Floats, float]


def _better(best: Multipliers | None, new: Multipliers, value: float) -> Multipliers:
    return new if best is None or value <= new[2] < best[2] else best


def _scaled(K: Floats, left: Floats, right: Floats) -> Multipliers:
    """Feasible multipliers from norms: the better of scaling by the spectral norm and of shifting the diagonal."""
    floor = 1e-9 * max(float(left.max(initial=0.0)), float(right.max(initial=0.0)), np.finfo(float).tiny)
    left, right = np.maximum(left, floor), np.maximum(right, floor)
    scaled = K / np.sqrt(left)[:, None] / np.sqrt(right)
    gram = scaled @ scaled.T if K.shape[0] <= K.shape[1] else scaled.T @ scaled
    factor = float(np.sqrt(np.linalg.eigvalsh(gram)[-1])) * (1.0 + 1e-12)
    return left * factor, right * factor, factor * float(left.sum() + right.sum()) / 2


Index = NDArray[np.int64]


def two_sides(problem: RankTwoProblem) -> tuple[Index, Index] | None:
    """The two sides of a problem whose only rows are X_ii = 1 and whose objective joins one side with the other.

    None for any other problem.
    """
    F = sparse.csc_array(problem.vectors)
    diagonal = (
        problem.rows == problem.terms == problem.size
        and bool(np.all(problem.equality))
        and np.array_equal(problem.ia, problem.ib)
        and bool(np.all(np.diff(F.indptr) == 1))
        and bool(np.all(np.abs(F.data) == 1))
        and bool(np.all(problem.rhs == 1))
        and len(np.unique(F.indices[problem.ia])) == problem.size
    )
    return _two_colours(sparse.csr_array(problem.objective)) if diagonal else None


def _two_colours(C: sparse.csr_array) -> tuple[Index, Index] | None:
    """A two-colouring of the graph of C, breadth first from one vertex of every component."""
    graph = sparse.csr_array((abs(C) > 0).astype(np.int64))
    label = csgraph.connected_components(graph, directed=False)[1]
    colour = np.full(C.shape[0], -1)
    frontier = np.zeros(C.shape[0], dtype=bool)
    frontier[np.unique(label, return_index=True)[1]] = True
    side = 0
    while frontier.any():
        colour[frontier] = side
        side = 1 - side
        frontier = (graph @ frontier.astype(np.int64) > 0) & (colour < 0)
    ends = graph.nonzero()
    if np.any(colour[ends[0]] == colour[ends[1]]):
        return None
    return np.flatnonzero(colour == 0), np.flatnonzero(colour == 1)


def solve_two_sided(
    problem: RankTwoProblem, sides: tuple[Index, Index], budget: Budget, callback: Callback | None = None
) -> RankTwoResult:
    """The alternating method on a problem that `two_sides` recognised; multipliers are those of the problem's rows.

    <C, X> = sum_ij K_ij <t_i, w_j> with K = 2 C[left, right], and S(y) is half of the method's own slack matrix.
    """
    left, right = sides
    K = 2.0 * sparse.csr_array(problem.objective)[left][:, right].toarray()
    variable = sparse.csc_array(problem.vectors).indices[problem.ia]
    log = Log(problem.rows, budget, callback)

    def watch(state: Bipartite) -> bool:
        y = np.empty(problem.size)
        y[left], y[right] = state.left / 2, state.right / 2
        log.add(state.primal, state.dual, (0.0, 0.0), lambda: np.asarray(y[variable]))
        return log.show()

    if not K.size:  # nothing joins anything: the objective is zero
        log.add(0.0, 0.0, (0.0, 0.0), lambda: log.y)
        return log.result(Status.OPTIMAL)
    if budget.over():
        return log.result(Status.TIME_LIMIT)
    found = solve_bipartite(K, tolerance=1e-6, callback=watch, budget=budget)
    return log.result(found.status or Status.OPTIMAL)
