"""Unit-vector problems with two sides: recognised in a RankTwoProblem, handed to the alternating method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from lipcert.relaxation.rank_two import Floats, RankTwoProblem
from lipcert.solver.bipartite import BipartiteState, solve_bipartite
from lipcert.solver.result import Callback, Progress, RankTwoResult, Record, Status

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
    problem: RankTwoProblem, sides: tuple[Index, Index], time_limit: float, callback: Callback | None
) -> RankTwoResult:
    """The alternating method on a problem that `two_sides` recognised; multipliers are those of the problem's rows.

    <C, X> = sum_ij K_ij <t_i, w_j> with K = 2 C[left, right], and S(y) is half of the method's own slack matrix.
    """
    left, right = sides
    K = 2.0 * sparse.csr_array(problem.objective)[left][:, right].toarray()
    variable = sparse.csc_array(problem.vectors).indices[problem.ia]
    history: list[Record] = []

    def multipliers(a: Floats, b: Floats) -> Floats:
        y = np.empty(problem.size)
        y[left], y[right] = a / 2, b / 2
        return np.asarray(y[variable])

    def watch(state: BipartiteState) -> bool | None:
        gap = (state.dual - state.primal) / max(abs(state.primal), 1e-300)
        history.append(Record(state.sweep, state.seconds, state.primal, state.dual, 0.0, 0.0, gap))
        if callback is None:
            return None
        y = multipliers(state.left, state.right)
        return callback(Progress(state.sweep, state.seconds, state.primal, state.dual, 0.0, 0.0, gap, y))

    if not K.size:  # nothing joins anything: the objective is zero
        zero = np.zeros(problem.rows)
        return RankTwoResult(zero, None, 0.0, 0.0, 0.0, Status.OPTIMAL, 0, 0.0, ())
    r = solve_bipartite(K, tolerance=1e-6, time_limit=time_limit, callback=watch)
    y = multipliers(r.left, r.right)
    return RankTwoResult(y, None, r.primal, r.dual, r.gap, r.status, r.sweeps, r.seconds, tuple(history))
