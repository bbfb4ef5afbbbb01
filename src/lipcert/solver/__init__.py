"""Solvers: problems in, multipliers out. They know nothing of networks, and what they return is a hint: what the
multipliers prove is decided by the certificate code."""

from lipcert.solver.choice import SOLVERS, choose_solver, no_room_for_interior
from lipcert.solver.conic.conic import CONIC_SOLVERS, Cone, ConicProblem, ConicSolution, ConicStatus, solve_conic
from lipcert.solver.result import Callback, Progress, RankTwoResult, Record, Status

__all__ = [
    "CONIC_SOLVERS",
    "SOLVERS",
    "Callback",
    "Cone",
    "ConicProblem",
    "ConicSolution",
    "ConicStatus",
    "Progress",
    "RankTwoResult",
    "Record",
    "Status",
    "choose_solver",
    "no_room_for_interior",
    "solve_conic",
]
