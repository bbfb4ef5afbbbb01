"""Branch and bound: cells of the region, each bounded by the cheapest proof that decides it, until the gap closes."""

from lipcert.method.branching.search import CellSearch, Outcome, State, branch, refusal

__all__ = ["CellSearch", "Outcome", "State", "branch", "refusal"]
