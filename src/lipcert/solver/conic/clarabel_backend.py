"""Clarabel: a primal-dual interior point for conic programs; its convention is ours."""

from __future__ import annotations

import time
from typing import Any

from scipy import sparse

from lipcert.solver.conic.cones import ConicProblem, ConicSolution, ConicStatus, Limits, make_solution

STATUS = {
    "Solved": ConicStatus.OPTIMAL,
    "AlmostSolved": ConicStatus.NEARLY_OPTIMAL,
    "PrimalInfeasible": ConicStatus.INFEASIBLE,
    "AlmostPrimalInfeasible": ConicStatus.STALLED,  # not proved: no more than a lack of progress
    "DualInfeasible": ConicStatus.UNBOUNDED,
    "AlmostDualInfeasible": ConicStatus.STALLED,
    "MaxIterations": ConicStatus.ITERATION_LIMIT,
    "MaxTime": ConicStatus.TIME_LIMIT,
    "InsufficientProgress": ConicStatus.STALLED,
    "NumericalError": ConicStatus.ERROR,
    "CallbackTerminated": ConicStatus.INTERRUPTED,
}

# A hundred times the default: iterative refinement removes its trace, and moment relaxations of order two, which have
# many optimal multipliers, are solved to the tolerance instead of almost. Measured by benchmarks.conic_solvers.
REGULARISATION = 1e-6


def solve_clarabel(problem: ConicProblem, limits: Limits) -> ConicSolution:
    """Solve with Clarabel's default tolerances (1e-8)."""
    import clarabel

    start = time.perf_counter()
    settings = clarabel.DefaultSettings()
    settings.verbose = limits.verbose
    settings.time_limit = limits.time_limit
    settings.static_regularization_constant = REGULARISATION
    P = sparse.csc_matrix((problem.columns, problem.columns))
    A = sparse.csc_matrix(problem.A)
    try:
        found = clarabel.DefaultSolver(P, problem.c, A, problem.b, _cones(clarabel, problem), settings).solve()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's assertions; no subclass of Exception
            raise
        found = None
    message = "a failed assertion" if found is None else str(found.status)
    if found is None:
        return make_solution(
            problem,
            ConicStatus.ERROR,
            (None, None, None),
            seconds=time.perf_counter() - start,
            iterations=0,
            solver="clarabel",
            message=message,
        )
    return make_solution(
        problem,
        STATUS.get(message, ConicStatus.ERROR),
        (found.x, found.s, found.z),
        seconds=time.perf_counter() - start,
        iterations=int(found.iterations),
        solver="clarabel",
        message=message,
    )


def _cones(clarabel: Any, problem: ConicProblem) -> list[Any]:
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "psd": clarabel.PSDTriangleConeT,
    }
    return [kinds[cone.kind](cone.size) for cone in problem.cones if cone.size]
