"""SCS: operator splitting, for semidefinite programs too large for an interior point.

Its rows come in the order zero, nonnegative, semidefinite; a semidefinite block is the LOWER triangle by columns, with
the same sqrt(2): a permutation of ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.solver.conic.cones import ConicAnswer, ConicProblem, ConicStatus, Limits, lower_by_columns

STATUS = {
    1: ConicStatus.OPTIMAL,
    2: ConicStatus.ITERATION_LIMIT,  # "inaccurate": stopped by a limit, see _status
    -1: ConicStatus.UNBOUNDED,
    -2: ConicStatus.INFEASIBLE,
    -3: ConicStatus.STALLED,
    -4: ConicStatus.ERROR,
    -5: ConicStatus.INTERRUPTED,
    -6: ConicStatus.ITERATION_LIMIT,  # a guess at unbounded, not a proof
    -7: ConicStatus.ITERATION_LIMIT,
}
ITERATIONS = 50_000
TOLERANCE = 1e-6


def solve_scs(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """Solve to relative accuracy 1e-6 (or what the limits say), or to the limit of time or of iterations."""
    import scs

    order = _row_order(problem)
    data = {"A": sparse.csc_matrix(problem.A.tocsr()[order]), "b": problem.b[order], "c": problem.c}
    cone = {
        "z": len(problem.kind_rows("zero")),
        "l": len(problem.kind_rows("nonnegative")),
        "s": list(problem.orders),
    }
    found = scs.solve(
        data,
        cone,
        verbose=limits.verbose,
        eps_abs=limits.tolerance or TOLERANCE,
        eps_rel=limits.tolerance or TOLERANCE,
        max_iters=min(ITERATIONS, limits.iterations or ITERATIONS),
        time_limit_secs=limits.seconds if np.isfinite(limits.seconds) else 0.0,
    )
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    info = found["info"]
    status = _status(info["status_val"], info["status"])
    return ConicAnswer(status, (found["x"], found["s"][back], found["y"][back]), int(info["iter"]), str(info["status"]))


def _status(value: int, text: str) -> ConicStatus:
    status = STATUS.get(value, ConicStatus.ERROR)
    return ConicStatus.TIME_LIMIT if status is ConicStatus.ITERATION_LIMIT and "time" in text else status


def _row_order(problem: ConicProblem) -> NDArray[np.int64]:
    """Our rows in the order in which SCS wants them."""
    parts = [problem.kind_rows("zero"), problem.kind_rows("nonnegative")]
    parts += [rows.start + lower_by_columns(cone.size) for cone, rows in problem.blocks() if cone.kind == "psd"]
    return np.concatenate(parts)
