"""HiGHS, for linear programs: interior point without crossover, the simplex method, or its first-order method PDLP."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import ConicAnswer, ConicProblem, ConicStatus, Limits, Vectors

STATUS = {
    "kOptimal": ConicStatus.OPTIMAL,
    "kInfeasible": ConicStatus.INFEASIBLE,
    "kUnbounded": ConicStatus.UNBOUNDED,
    "kUnboundedOrInfeasible": ConicStatus.INFEASIBLE_OR_UNBOUNDED,
    "kTimeLimit": ConicStatus.TIME_LIMIT,
    "kIterationLimit": ConicStatus.ITERATION_LIMIT,
    "kUnknown": ConicStatus.STALLED,
    "kInterrupt": ConicStatus.INTERRUPTED,
    "kHighsInterrupt": ConicStatus.INTERRUPTED,
}


def solve_highs(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """The interior point without crossover."""
    return _solve(problem, limits, "ipm")


def solve_highs_simplex(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """The simplex method: a vertex."""
    return _solve(problem, limits, "simplex")


def solve_highs_pdlp(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """The first-order method: less memory, less accuracy."""
    return _solve(problem, limits, "pdlp")


def _solve(problem: ConicProblem, limits: Limits, method: str) -> ConicAnswer:
    if max(problem.orders, default=0) > 1:
        raise InputError("solver highs: linear programs only, this one has semidefinite blocks; use clarabel or scs")
    options: dict[str, Any] = {
        "output_flag": limits.verbose,
        "solver": method,
        "run_crossover": "off",
        "time_limit": limits.seconds,
        "allow_unbounded_or_infeasible": False,
    }
    if limits.iterations is not None:
        options[f"{method}_iteration_limit"] = limits.iterations
    equal = np.zeros(problem.rows, dtype=bool)
    equal[problem.kind_rows("zero")] = True
    free = np.full(problem.columns, np.inf)
    ends = (np.where(equal, problem.b, -np.inf), problem.b, -free, free)
    highs = with_model(linear_model(problem.c, problem.A, *ends), options)
    highs.run()
    message, info = highs.getModelStatus().name, highs.getInfo()
    if message == "kMemoryLimit":
        raise MemoryError("HiGHS has no memory left for this linear program")
    iterations = max(0, int(getattr(info, f"{method}_iteration_count")))
    status = STATUS.get(message, ConicStatus.ERROR)
    return ConicAnswer(status, _vectors(problem, highs.getSolution()), iterations, message)


def linear_model(c: Floats, A: Any, row_lo: Floats, row_hi: Floats, lo: Floats, hi: Floats) -> Any:
    """HiGHS's own form of  min c'x  s.t.  row_lo <= A x <= row_hi,  lo <= x <= hi."""
    import highspy

    lp, A = highspy.HighsLp(), A.tocsc()
    lp.num_col_, lp.num_row_ = A.shape[1], A.shape[0]
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = c, lo, hi
    lp.row_lower_, lp.row_upper_ = row_lo, row_hi
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    return lp


def with_model(model: Any, options: dict[str, Any]) -> Any:
    """HiGHS with this model and these options."""
    import highspy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for key, value in options.items():
        highs.setOptionValue(key, value)
    highs.passModel(model)
    return highs


def _vectors(problem: ConicProblem, found: Any) -> Vectors:
    x = np.array(found.col_value) if found.value_valid else None
    s = problem.b - np.array(found.row_value) if found.value_valid else None
    z = -np.array(found.row_dual) if found.dual_valid else None  # c = A'(row dual) on free columns
    return x, s, z
