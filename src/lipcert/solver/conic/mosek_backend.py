"""MOSEK, where it is installed and licensed, through its optimizer API (version 10 or later).

MOSEK is fast on semidefinite variables, so it gets our dual: min b'z s.t. A'z = -c, z in K*; x and s are its
multipliers. Its triangles are lower ones by columns, without sqrt(2).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse

from lipcert.errors import InputError, how_to_install
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import (
    NOTHING,
    ConicAnswer,
    ConicProblem,
    ConicStatus,
    Limits,
    lower_by_columns,
    psd_places,
    svec_scale,
)

STATUS = {
    "optimal": ConicStatus.OPTIMAL,
    "prim_and_dual_feas": ConicStatus.NEARLY_OPTIMAL,
    "prim_infeas_cer": ConicStatus.UNBOUNDED,  # MOSEK's primal is our dual
    "dual_infeas_cer": ConicStatus.INFEASIBLE,
    "unknown": ConicStatus.STALLED,
    "prim_feas": ConicStatus.STALLED,
    "dual_feas": ConicStatus.STALLED,
    "prim_illposed_cer": ConicStatus.STALLED,
    "dual_illposed_cer": ConicStatus.STALLED,
}
STOPPED = {  # termination codes that say more than an undecided status
    "trm_max_time": ConicStatus.TIME_LIMIT,
    "trm_max_iterations": ConicStatus.ITERATION_LIMIT,
    "trm_user_callback": ConicStatus.INTERRUPTED,
}


def solve_mosek(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """Solve with MOSEK's interior point and its default tolerances."""
    try:
        import mosek
    except ImportError:
        raise InputError(f"solver mosek: the package is not installed; {how_to_install('mosek')}") from None
    try:
        with mosek.Task() as task:
            _set_options(mosek, task, limits)
            _put_problem(mosek, task, problem)
            stopped = _name(task.optimize())
            said = _name(task.getsolsta(mosek.soltype.itr))
            vectors = _vectors(mosek, task, problem)
            iterations = int(task.getintinf(mosek.iinfitem.intpnt_iter))
    except mosek.Error as error:
        text = " ".join(str(error).split())
        if "license" in text.lower():
            raise InputError(
                f"solver mosek: no valid licence ({text}); see mosek.com/products/academic-licenses"
            ) from None
        return ConicAnswer(ConicStatus.ERROR, NOTHING, 0, text)
    status = STATUS.get(said, ConicStatus.ERROR)
    if status is ConicStatus.STALLED:
        status = STOPPED.get(stopped, status)
    return ConicAnswer(status, vectors, iterations, f"{said} ({stopped})")


def _name(value: object) -> str:
    return str(value).rsplit(".", 1)[-1]


def _set_options(mosek: Any, task: Any, limits: Limits) -> None:
    if limits.verbose:
        task.set_Stream(mosek.streamtype.log, sys.stdout.write)
    task.putintparam(mosek.iparam.optimizer, mosek.optimizertype.intpnt)
    task.putintparam(mosek.iparam.intpnt_basis, mosek.basindtype.never)
    if np.isfinite(limits.seconds):
        task.putdouparam(mosek.dparam.optimizer_max_time, limits.seconds)
    if limits.iterations is not None:
        task.putintparam(mosek.iparam.intpnt_max_iterations, limits.iterations)


def _put_problem(mosek: Any, task: Any, problem: ConicProblem) -> None:
    """min b'z, A'z = -c: scalars for the rows of zero (free) and nonnegative cones, matrices for the others."""
    free, nonnegative = problem.kind_rows("zero"), problem.kind_rows("nonnegative")
    scalars = np.concatenate([free, nonnegative])
    task.appendcons(problem.columns)
    task.appendvars(len(scalars))
    task.putvarboundsliceconst(0, len(free), mosek.boundkey.fr, 0.0, 0.0)
    task.putvarboundsliceconst(len(free), len(scalars), mosek.boundkey.lo, 0.0, 0.0)
    task.putclist(np.arange(len(scalars), dtype=np.int32), problem.b[scalars])
    task.putconboundslice(0, problem.columns, [mosek.boundkey.fx] * problem.columns, -problem.c, -problem.c)
    task.putobjsense(mosek.objsense.minimize)
    rows = problem.A.tocsr()
    entries = sparse.coo_array(rows[scalars])
    task.putaijlist(entries.coords[1].astype(np.int32), entries.coords[0].astype(np.int32), entries.data)
    _put_matrices(task, problem, rows)


def _put_matrices(task: Any, problem: ConicProblem, rows: Any) -> None:
    if not problem.orders:
        return
    places = psd_places(problem)
    block, row, column = (index.astype(np.int32) for index in (places.block, places.row, places.column))
    task.appendbarvars(list(problem.orders))
    objective = problem.b[places.rows] / places.scale
    k = np.flatnonzero(objective)
    task.putbarcblocktriplet(block[k], column[k], row[k], objective[k])
    entries = sparse.coo_array(rows[places.rows])
    k, i = entries.coords
    task.putbarablocktriplet(i.astype(np.int32), block[k], column[k], row[k], entries.data / places.scale[k])


def _vectors(mosek: Any, task: Any, problem: ConicProblem) -> tuple[Floats, Floats, Floats]:
    itr = mosek.soltype.itr
    free = len(problem.kind_rows("zero"))
    scalars = np.concatenate([problem.kind_rows("zero"), problem.kind_rows("nonnegative")])
    s, z = np.zeros(problem.rows), np.zeros(problem.rows)
    z[scalars] = task.getxx(itr)
    s[scalars[free:]] = np.asarray(task.getslx(itr))[free:]
    blocks = [(cone, rows) for cone, rows in problem.blocks() if cone.kind == "psd" and cone.size]
    for j, (cone, rows) in enumerate(blocks):
        place = rows.start + lower_by_columns(cone.size)
        scale = svec_scale(cone.size)[place - rows.start]
        z[place] = np.asarray(task.getbarxj(itr, j)) * scale
        s[place] = np.asarray(task.getbarsj(itr, j)) * scale
    return np.asarray(task.gety(itr), dtype=np.float64), s, z
