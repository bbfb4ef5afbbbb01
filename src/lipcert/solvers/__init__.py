"""Solvers: problems in, multipliers out. They know nothing of networks, and what they return is a hint: what the
multipliers prove is decided by the certificate code."""

from lipcert.solvers.choice import SOLVERS, choose_solver
from lipcert.solvers.result import Callback, Progress, RankTwoResult, Record, Status

__all__ = ["SOLVERS", "Callback", "Progress", "RankTwoResult", "Record", "Status", "choose_solver"]
