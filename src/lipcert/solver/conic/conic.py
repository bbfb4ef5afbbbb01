"""solve_conic: one verb for every back end, chosen by name or by size."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import inf

import numpy as np

from lipcert.errors import InputError
from lipcert.solver.conic.cones import (
    Cone,
    ConicProblem,
    ConicSolution,
    ConicStatus,
    Limits,
    make_solution,
    smat,
    svec,
    triangle,
)

__all__ = [
    "CONIC_SOLVERS",
    "Cone",
    "ConicProblem",
    "ConicSolution",
    "ConicStatus",
    "choose_conic",
    "smat",
    "solve_conic",
    "svec",
]

CONIC_SOLVERS = ("auto", "clarabel", "scs", "highs", "highs-simplex", "highs-pdlp", "mosek", "csdp", "sdpa")

_BACKENDS = {
    "clarabel": ("clarabel_backend", "solve_clarabel"),
    "scs": ("scs_backend", "solve_scs"),
    "highs": ("highs_backend", "solve_highs"),
    "highs-simplex": ("highs_backend", "solve_highs_simplex"),
    "highs-pdlp": ("highs_backend", "solve_highs_pdlp"),
    "mosek": ("mosek_backend", "solve_mosek"),
    "csdp": ("sdpa_backend", "solve_csdp"),
    "sdpa": ("sdpa_backend", "solve_sdpa"),
}
_UNDECIDED = (ConicStatus.ERROR, ConicStatus.STALLED)
_ITERATIONS = 25  # of Clarabel on moment relaxations
_FLOPS = 1.2e10  # per second of its factorisation, one thread; measured, see PERFORMANCE.md
_PATIENCE = 20.0  # seconds; above, SCS reaches six digits sooner
_ROUNDING = 1e-9  # of b, when nothing is left to choose


def solve_conic(
    problem: ConicProblem, solver: str = "auto", *, time_limit: float = inf, verbose: bool = False
) -> ConicSolution:
    """min c'x s.t. A x + s = b, s in K, and its dual max -b'z s.t. A'z + c = 0, z in K*.

    Args:
        problem: the conic program.
        solver: one of CONIC_SOLVERS; `auto` takes highs for linear programs, else clarabel or scs by size.
        time_limit: seconds; passed on to the solver.
        verbose: let the solver print; silent otherwise.

    Returns x, s and z in the same convention whatever the solver; a hint, never a bound.
    """
    limits = Limits(time_limit, verbose)
    if solver not in CONIC_SOLVERS:
        raise InputError(f"solve_conic(solver={solver!r}): unknown; expected one of {', '.join(CONIC_SOLVERS)}")
    name = choose_conic(problem, time_limit) if solver == "auto" else solver
    if not problem.rows or not problem.columns:
        return _trivial(problem, name)
    found = _run(name, problem, limits)
    left = time_limit - found.seconds
    if solver == "auto" and name == "clarabel" and found.status in _UNDECIDED and left > 0:
        second = _run("scs", problem, Limits(left, verbose))
        return second if second.status not in _UNDECIDED else found
    return found


def _run(name: str, problem: ConicProblem, limits: Limits) -> ConicSolution:
    module, function = _BACKENDS[name]
    # Imported here, so that importing lipcert stays fast and a missing solver hurts only those who ask for it.
    run: Callable[[ConicProblem, Limits], ConicSolution]
    run = getattr(importlib.import_module(f"lipcert.solver.conic.{module}"), function)
    return run(problem, limits)


def choose_conic(problem: ConicProblem, time_limit: float = inf) -> str:
    """The solver that `auto` takes: highs without semidefinite blocks, else clarabel where it is expected to finish."""
    if max(problem.orders, default=0) <= 1:
        return "highs"
    return "clarabel" if clarabel_seconds(problem) <= min(_PATIENCE, time_limit) else "scs"


def clarabel_seconds(problem: ConicProblem) -> float:
    """About how long Clarabel takes: each block of order n is a dense block of order n(n+1)/2 in its linear system."""
    flops = sum(triangle(order) ** 3 / 3 for order in problem.orders)
    return _ITERATIONS * flops / _FLOPS


def _trivial(problem: ConicProblem, name: str) -> ConicSolution:
    """Nothing to choose (no columns), or nothing that limits the choice (no rows)."""
    if problem.rows:
        inside = all(_inside(kind.kind, problem.b[rows]) for kind, rows in problem.blocks())
        status = ConicStatus.OPTIMAL if inside else ConicStatus.INFEASIBLE
    else:
        status = ConicStatus.UNBOUNDED if np.any(problem.c) else ConicStatus.OPTIMAL
    solved = status is ConicStatus.OPTIMAL
    vectors = (np.zeros(problem.columns), problem.b, np.zeros(problem.rows)) if solved else (None, None, None)
    return make_solution(problem, status, vectors, seconds=0.0, iterations=0, solver=name, message="nothing to solve")


def _inside(kind: str, b: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    room = _ROUNDING * (1 + float(np.abs(b).max(initial=0.0)))
    if kind == "zero":
        return bool(np.all(np.abs(b) <= room))
    values = np.linalg.eigvalsh(smat(b)) if kind == "psd" else b
    return float(values.min(initial=0.0)) >= -room
