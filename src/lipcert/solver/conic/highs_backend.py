"""HiGHS, for linear programs: interior point without crossover, the simplex method, or its first-order method PDLP."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.solver.conic.cones import Answer, ConicProblem, ConicStatus, Limits, Vectors

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


def solve_highs(problem: ConicProblem, limits: Limits) -> Answer:
    """The interior point without crossover."""
    return _solve(problem, limits, "ipm")


def solve_highs_simplex(problem: ConicProblem, limits: Limits) -> Answer:
    """The simplex method: a vertex."""
    return _solve(problem, limits, "simplex")


def solve_highs_pdlp(problem: ConicProblem, limits: Limits) -> Answer:
    """The first-order method: less memory, less accuracy."""
    return _solve(problem, limits, "pdlp")


def _solve(problem: ConicProblem, limits: Limits, method: str) -> Answer:
    import highspy

    if max(problem.orders, default=0) > 1:
        raise InputError("solver highs: linear programs only, this one has semidefinite blocks; use clarabel or scs")
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "output_flag": limits.verbose,
        "solver": method,
        "run_crossover": "off",
        "time_limit": limits.seconds,
        "allow_unbounded_or_infeasible": False,
    }
    if limits.iterations is not None:
        options[f"{method}_iteration_limit"] = limits.iterations
    for key, value in options.items():
        highs.setOptionValue(key, value)
    highs.passModel(_model(highspy, problem))
    highs.run()
    message, info = highs.getModelStatus().name, highs.getInfo()
    iterations = max(0, int(getattr(info, f"{method}_iteration_count")))
    status = STATUS.get(message, ConicStatus.ERROR)
    return Answer(status, _vectors(problem, highs.getSolution()), iterations, message)


def _model(highspy: Any, problem: ConicProblem) -> Any:
    """min c'x, Ax = b on zero cones and Ax <= b elsewhere, x free."""
    equal = np.zeros(problem.rows, dtype=bool)
    equal[problem.kind_rows("zero")] = True
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = problem.columns, problem.rows
    lp.col_cost_ = problem.c
    lp.col_lower_ = np.full(problem.columns, -highspy.kHighsInf)
    lp.col_upper_ = np.full(problem.columns, highspy.kHighsInf)
    lp.row_lower_ = np.where(equal, problem.b, -highspy.kHighsInf)
    lp.row_upper_ = problem.b
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = problem.A.indptr
    lp.a_matrix_.index_ = problem.A.indices
    lp.a_matrix_.value_ = problem.A.data
    return lp


def _vectors(problem: ConicProblem, found: Any) -> Vectors:
    x = np.array(found.col_value) if found.value_valid else None
    s = problem.b - np.array(found.row_value) if found.value_valid else None
    z = -np.array(found.row_dual) if found.dual_valid else None  # c = A'(row dual) on free columns
    return x, s, z
