"""Clarabel: a primal-dual interior point for conic programs; its convention is ours."""

from __future__ import annotations

import time
from typing import Any

from scipy import sparse

from lipcert.solver.conic.cones import NOTHING, ConicAnswer, ConicProblem, ConicStatus, Limits

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


def solve_clarabel(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """Solve with Clarabel's default tolerances (1e-8)."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = limits.verbose
    settings.max_iter = min(settings.max_iter, limits.iterations or settings.max_iter)
    settings.static_regularization_constant = REGULARISATION
    P = sparse.csc_matrix((problem.columns, problem.columns))
    A = sparse.csc_matrix(problem.A)
    clock = _Clock(limits.seconds)
    try:
        solver = clarabel.DefaultSolver(P, problem.c, A, problem.b, _cones(clarabel, problem), settings)
        solver.set_termination_callback(clock)
        found = solver.solve()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's assertions; no subclass of Exception
            raise
        return ConicAnswer(ConicStatus.ERROR, NOTHING, 0, "a failed assertion")
    message = str(found.status)
    status = ConicStatus.TIME_LIMIT if clock.ended else STATUS.get(message, ConicStatus.ERROR)
    return ConicAnswer(status, (found.x, found.s, found.z), int(found.iterations), message)


class _Clock:
    """Ends a solve before the iteration that would not end in time, as long as the last one is the measure.

    Clarabel's own limit leaves out what it prepares before its first iteration, and looks back, not ahead.
    """

    def __init__(self, seconds: float) -> None:
        self.last = time.monotonic()
        self.end, self.ended = self.last + seconds, False

    def __call__(self, _: Any) -> bool:
        now = time.monotonic()
        self.ended = now + (now - self.last) > self.end
        self.last = now
        return self.ended


def _cones(clarabel: Any, problem: ConicProblem) -> list[Any]:
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "psd": clarabel.PSDTriangleConeT,
    }
    return [kinds[cone.kind](cone.size) for cone in problem.cones if cone.size]
