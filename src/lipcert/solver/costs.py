"""Operations of an interior point: expected before it is begun, charged while it runs."""

from __future__ import annotations

import numpy as np

from lipcert.relaxation.rank_two import RankTwoProblem

# Numbers in memory during an interior-point method, measured by the growth of the process on one and two hidden layers:
INTERIOR_SYSTEM = 6.0  # copies of the linear system (2.9 to 5.1 were seen)
INTERIOR_MATRICES = 8.0  # copies of the moment matrix
# Operations; measured on (5,5) to (320,320), ERAN 3_50 and 5_100.
ITERATIONS = 14  # iterations of the interior point to a bound within a percent of the optimum
INTERIOR_ENTRY = 400.0  # for each entry of the tables that one iteration fills, besides the cubes
INTERIOR_ROW = 1e6  # for each row, when a problem is written over atoms
INTERIOR_CALLS = 2.5e8  # the Python around one interior-point iteration
THIN_CALLS = 1e6  # the Python around one evaluation of a first-order method
EIGENVALUE = 10.0  # times the order cubed: an extreme eigenvalue of a dense matrix
EIGENVALUE_CALLS = 2.5e7  # the Python around such an eigenvalue

CONDENSED = 0.8  # unknowns of the linear system for each row, before condensing tells


def solve_operations(problem: RankTwoProblem) -> float:
    """Estimated operations of an interior point to a bound within a percent of the optimum."""
    from lipcert.solver.roots import find_roots  # here, so that importing lipcert stays fast

    roots = find_roots(problem)
    return _to_a_percent(problem.size - roots.size, roots.unknowns + CONDENSED * (problem.rows - roots.size))


def whole_operations(problem: RankTwoProblem) -> float:
    """The operations of `solve_operations` without roots: after a few rounds of cuts no variable is one any more."""
    return _to_a_percent(problem.size, CONDENSED * problem.rows)


def solve_numbers(problem: RankTwoProblem) -> float:
    """Estimated numbers in memory during an interior point."""
    from lipcert.solver.roots import find_roots  # here, so that importing lipcert stays fast

    roots = find_roots(problem)
    return interior_numbers(problem.size, roots.unknowns + CONDENSED * (problem.rows - roots.size))


def interior_numbers(size: int, unknowns: float) -> float:
    """Copies of the linear system and of the moment matrix."""
    return INTERIOR_SYSTEM * unknowns**2 + INTERIOR_MATRICES * float(size) ** 2


def _to_a_percent(size: int, unknowns: float) -> float:
    return ITERATIONS * iteration_operations(size, unknowns)


def iteration_operations(size: int, unknowns: float) -> float:
    """Operations of one iteration: a factorisation of the linear system, about six products of matrices, tables."""
    cubes, entries = unknowns**3 / 3 + 6.0 * size**3, unknowns**2 + size**2
    return float(cubes + INTERIOR_ENTRY * entries + INTERIOR_CALLS)


def setup_operations(problem: RankTwoProblem) -> float:
    """Operations to scale the problem, to write its rows over atoms, and to find a starting point."""
    return float(2.0 * problem.size**3 + INTERIOR_ROW * problem.rows + 2.0 * INTERIOR_CALLS)


def affordable_rows(size: int, operations: float) -> int:
    """Estimated number of rows with which an interior point of this order takes so many operations."""
    left = operations / ITERATIONS - iteration_operations(size, 0.0)
    if left <= 0:
        return 0
    unknowns = np.roots([1 / 3, INTERIOR_ENTRY, 0.0, -left])
    return int(max(unknowns.real[np.abs(unknowns.imag) < 1e-9 * np.abs(unknowns)]) / CONDENSED)
