"""Unit-vector problems with two sides: recognised in a RankTwoProblem, handed to the alternating method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.solver.bipartite import Bipartite, solve_bipartite
from lipcert.solver.result import Callback, Log, RankTwoResult, Status

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
