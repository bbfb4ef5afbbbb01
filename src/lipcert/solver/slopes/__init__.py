"""Multipliers of slope programs, which are hints: the bound that they promise is proved elsewhere."""

from lipcert.solver.slopes.choice import solve_slopes
from lipcert.solver.slopes.walk import estimate

__all__ = ["estimate", "solve_slopes"]
