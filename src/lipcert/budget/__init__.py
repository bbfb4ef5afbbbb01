"""How much work a call may do, how much it has done, and with how many threads."""

from lipcert.budget.budget import Budget

__all__ = ["Budget"]
