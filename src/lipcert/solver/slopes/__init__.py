"""Multipliers of slope programs, which are hints: the bound that they promise is proved elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lipcert.budget import Budget
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram

if TYPE_CHECKING:
    from lipcert.solver.slopes.choice import SlopeSolver

__all__ = ["estimate", "slope_solver", "solve_slopes"]


def solve_slopes(
    program: SlopeProgram, budget: Budget, on_better: Callable[[SlopeMultipliers, float], bool]
) -> SlopeMultipliers:
    """The best multipliers found; `on_better` sees all that are better than those before, and True stops."""
    from lipcert.solver.slopes.choice import solve_slopes as solve  # here, so that importing lipcert stays fast

    return solve(program, budget, on_better)


def slope_solver(program: SlopeProgram) -> SlopeSolver:
    """A solve that can go on, budget after budget."""
    from lipcert.solver.slopes.choice import SlopeSolver

    return SlopeSolver(program)


def estimate(program: SlopeProgram, multipliers: SlopeMultipliers) -> float:
    """The bound by these multipliers in plain floating point; infinite if they are not feasible."""
    from lipcert.solver.slopes.walk import estimate as walked

    return walked(program, multipliers)
