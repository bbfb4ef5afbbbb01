"""Clarabel: a primal-dual interior point for conic programs; its convention is ours."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from lipcert.solver.conic.cones import NOTHING, Answer, ConicProblem, ConicStatus, Limits

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


def solve_clarabel(problem: ConicProblem, limits: Limits) -> Answer:
    """Solve with Clarabel's default tolerances (1e-8)."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = limits.verbose
    settings.time_limit = limits.seconds
    settings.max_iter = min(settings.max_iter, limits.iterations or settings.max_iter)
    settings.static_regularization_constant = REGULARISATION
    P = sparse.csc_matrix((problem.columns, problem.columns))
    A = sparse.csc_matrix(problem.A)
    try:
        found = clarabel.DefaultSolver(P, problem.c, A, problem.b, _cones(clarabel, problem), settings).solve()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's assertions; no subclass of Exception
            raise
        return Answer(ConicStatus.ERROR, NOTHING, 0, "a failed assertion")
    message = str(found.status)
    status = STATUS.get(message, ConicStatus.ERROR)
    return Answer(status, (found.x, found.s, found.z), int(found.iterations), message)


def _cones(clarabel: Any, problem: ConicProblem) -> list[Any]:
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "psd": clarabel.PSDTriangleConeT,
    }
    return [kinds[cone.kind](cone.size) for cone in problem.cones if cone.size]
