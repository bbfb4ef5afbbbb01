"""Branch and bound: parts of the region, each bounded by the cheapest proof that decides it, until the gap closes."""

from lipcert.method.branching.choose import BOXES_UP_TO
from lipcert.method.branching.search import EXACT, Outcome, State, branch, check_branching

__all__ = ["BOXES_UP_TO", "EXACT", "Outcome", "State", "branch", "check_branching"]
