"""Branch and bound: cells of the region, each bounded by the cheapest proof that decides it, until the gap closes."""

from lipcert.method.branching.search import CellSearch, branch, refusal

__all__ = ["CellSearch", "branch", "refusal"]
