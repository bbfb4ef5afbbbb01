"""How much work a call may do, how much it has done, and with how many threads."""

from lipcert.budget.budget import Budget, Meter, Work
from lipcert.budget.deadline import Expired, ask

__all__ = ["Budget", "Expired", "Meter", "Work", "ask"]
