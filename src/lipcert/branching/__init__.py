"""Branch and bound: the region in parts, each bounded by the cheapest proof that decides it, until the gap is closed."""

from lipcert.branching.search import State, branch, check_branching

__all__ = ["State", "branch", "check_branching"]
