"""What an interior point costs, in operations: expected before it is begun, charged while it runs."""

from __future__ import annotations

import numpy as np

from lipcert import policy
from lipcert.relaxation.rank_two import RankTwoProblem

CONDENSED = 0.8  # unknowns of the linear system for each row, before condensing tells


def solve_operations(problem: RankTwoProblem) -> float:
    """About the operations of an interior point to a bound within a percent of the optimum."""
    from lipcert.solver.roots import find_roots  # here, so that importing lipcert stays fast

    roots = find_roots(problem)
    return _to_a_percent(problem.size - roots.size, roots.unknowns + CONDENSED * (problem.rows - roots.size))


def whole_operations(problem: RankTwoProblem) -> float:
    """The same where no variable is a root any more, as after a few rounds of cuts."""
    return _to_a_percent(problem.size, CONDENSED * problem.rows)


def solve_numbers(problem: RankTwoProblem) -> float:
    """About how many numbers an interior point has in memory at once."""
    from lipcert.solver.roots import find_roots  # here, so that importing lipcert stays fast

    roots = find_roots(problem)
    return interior_numbers(problem.size, roots.unknowns + CONDENSED * (problem.rows - roots.size))


def interior_numbers(size: int, unknowns: float) -> float:
    """Copies of the linear system and of the moment matrix."""
    return policy.INTERIOR_SYSTEM * unknowns**2 + policy.INTERIOR_MATRICES * float(size) ** 2


def _to_a_percent(size: int, unknowns: float) -> float:
    return policy.ITERATIONS * iteration_operations(size, unknowns)


def iteration_operations(size: int, unknowns: float) -> float:
    """Of one iteration: the linear system is factored, about six products of matrices, tables are filled."""
    cubes, entries = unknowns**3 / 3 + 6.0 * size**3, unknowns**2 + size**2
    return float(cubes + policy.INTERIOR_ENTRY * entries + policy.INTERIOR_CALLS)


def setup_operations(problem: RankTwoProblem) -> float:
    """Of scaling the problem, writing its rows over atoms, and finding a starting point."""
    return float(2.0 * problem.size**3 + policy.INTERIOR_ROW * problem.rows + 2.0 * policy.INTERIOR_CALLS)


def affordable_rows(size: int, operations: float) -> int:
    """About how many rows an interior point has that takes so many operations, with a matrix of this order."""
    left = operations / policy.ITERATIONS - iteration_operations(size, 0.0)
    if left <= 0:
        return 0
    unknowns = np.roots([1 / 3, policy.INTERIOR_ENTRY, 0.0, -left])
    return int(max(unknowns.real[np.abs(unknowns.imag) < 1e-9 * np.abs(unknowns)]) / CONDENSED)
