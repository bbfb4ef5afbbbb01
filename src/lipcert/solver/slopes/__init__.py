"""Multipliers of slope programs, which are hints: the bound that they promise is proved elsewhere."""

from lipcert.solver.slopes.scalars import solve_slopes

__all__ = ["solve_slopes"]
