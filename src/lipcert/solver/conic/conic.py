"""solve_conic: one verb for every back end, chosen by name or by size."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.solver.conic.cones import (
    NOTHING,
    Cone,
    ConicAnswer,
    ConicProblem,
    ConicSolution,
    ConicStatus,
    Limits,
    make_solution,
    smat,
    svec,
    triangle,
)
from lipcert.steps import FACTOR, SPARSE, THIN

# Measured by benchmarks.conic_solvers.
CLARABEL_ITERATIONS = 25  # iterations of Clarabel on moment relaxations
PATIENCE = 20.0  # expected seconds of Clarabel above which SCS is taken: it reaches six digits sooner
MOST_ITERATIONS = 10_000_000  # limit that is given to a solver where the budget would allow more

__all__ = [
    "CONIC_SOLVERS",
    "Cone",
    "ConicProblem",
    "ConicSolution",
    "ConicStatus",
    "choose_conic",
    "interior_operations",
    "smat",
    "solve_conic",
    "svec",
]

CONIC_SOLVERS = ("auto", "clarabel", "scs", "highs", "highs-simplex", "highs-pdlp", "mosek", "csdp", "sdpa")


@dataclass(frozen=True)
class _Backend:
    """A back end: its module, and about how many operations of which kind one of its iterations takes.

    `unwatched` iterations go by before it looks at the clock again: their time is kept back.
    """

    module: str
    function: str
    operations: Callable[[ConicProblem], float]
    kind: str
    unwatched: int = 0


def interior_operations(orders: Iterable[int], entries: float) -> float:
    """Operations of an iteration of Clarabel: a block of order n is a dense one of order n(n+1)/2 in its system."""
    return float(sum(triangle(order) ** 3 / 3 for order in orders) + 100.0 * entries)


def _of_blocks(problem: ConicProblem) -> float:
    return interior_operations(problem.orders, float(problem.A.nnz))


def _of_columns(problem: ConicProblem) -> float:
    """A dense linear system of the order of the columns, and a few products of the blocks."""
    blocks = sum(20.0 * order**3 + problem.columns * float(order) ** 2 for order in problem.orders)
    return float(problem.columns**3 / 3 + blocks + 100.0 * problem.A.nnz)


def _of_eigenvalues(problem: ConicProblem) -> float:
    """Operations for all eigenvalues and eigenvectors of every block, and a sparse solve."""
    return float(sum(25.0 * order**3 for order in problem.orders) + 20.0 * problem.A.nnz)


def _of_entries(problem: ConicProblem) -> float:
    """A few looks at every entry."""
    return float(4.0 * problem.A.nnz + 20.0 * problem.rows)


_BACKENDS = {
    "clarabel": _Backend("clarabel_backend", "solve_clarabel", _of_blocks, FACTOR),
    "scs": _Backend("scs_backend", "solve_scs", _of_eigenvalues, THIN, unwatched=25),
    "highs": _Backend("highs_backend", "solve_highs", lambda p: 50.0 * _of_entries(p), SPARSE),
    "highs-simplex": _Backend("highs_backend", "solve_highs_simplex", _of_entries, SPARSE),
    "highs-pdlp": _Backend("highs_backend", "solve_highs_pdlp", _of_entries, SPARSE),
    "mosek": _Backend("mosek_backend", "solve_mosek", _of_columns, FACTOR),
    "csdp": _Backend("sdpa_backend", "solve_csdp", _of_columns, FACTOR),
    "sdpa": _Backend("sdpa_backend", "solve_sdpa", _of_columns, FACTOR),
}
_UNDECIDED = (ConicStatus.ERROR, ConicStatus.STALLED)
_OPEN = (ConicStatus.STALLED, ConicStatus.INFEASIBLE_OR_UNBOUNDED)
_LATE = 0.2  # largest share of the time left that is kept back for iterations between checks: SCS took 2.6 of 15 s
_ROUNDING = 1e-9  # relative to b, when no variable is left


def solve_conic(
    problem: ConicProblem,
    solver: str = "auto",
    *,
    budget: Budget | None = None,
    verbose: bool = False,
    tolerance: float | None = None,
) -> ConicSolution:
    """min c'x s.t. A x + s = b, s in K, and its dual max -b'z s.t. A'z + c = 0, z in K*.

    Args:
        problem: the conic program.
        solver: one of CONIC_SOLVERS; `auto` takes highs for linear programs, else clarabel or scs by size, and then
            the other one where the first comes to no end.
        budget: passed on to the solver, as seconds or, where work is counted, as a limit of iterations.
        verbose: let the solver print; silent otherwise.
        tolerance: relative, of SCS, which pays for every digit; 1e-6 when left out.

    Returns x, s and z in the same convention whatever the solver; a hint, never a bound.
    """
    if solver not in CONIC_SOLVERS:
        raise InputError(f"solve_conic(solver={solver!r}): unknown; expected one of {', '.join(CONIC_SOLVERS)}")
    budget = budget or Budget.unlimited()
    name = choose_conic(problem, budget) if solver == "auto" else solver
    if not problem.rows or not problem.columns:
        return make_solution(problem, _trivial(problem), 0.0, name)

    def run(back_end: str) -> ConicSolution:
        return _run(back_end, problem, budget, Limits(verbose=verbose, tolerance=tolerance))

    found = run(name)
    if name == "highs" and found.status in _OPEN and not budget.over():  # the simplex method decides
        return replace(run("highs-simplex"), solver="highs")
    if solver == "auto" and name == "clarabel" and found.status in _UNDECIDED and not budget.over():
        second = run("scs")
        return second if second.status not in _UNDECIDED else found
    tired = solver == "auto" and name == "scs" and found.status is ConicStatus.ITERATION_LIMIT
    if tired and _expected_interior(problem, budget) <= budget.left():
        second = run("clarabel")
        return second if second.status.has_solution else found
    return found


def _run(name: str, problem: ConicProblem, budget: Budget, limits: Limits) -> ConicSolution:
    backend = _BACKENDS[name]
    # Imported here, so that importing lipcert stays fast and a missing solver hurts only those who ask for it.
    solve: Callable[[ConicProblem, Limits], ConicAnswer]
    solve = getattr(importlib.import_module(f"lipcert.solver.conic.{backend.module}"), backend.function)
    each, left, begin = backend.operations(problem), budget.left(), budget.now()
    if left <= 0:
        return make_solution(problem, ConicAnswer(ConicStatus.TIME_LIMIT, NOTHING, 0, "no time left"), 0.0, name)
    if budget.repeatable:
        most = budget.affordable(left, backend.kind) / each
        limits = replace(limits, iterations=int(min(max(most, 1.0), MOST_ITERATIONS)))
    else:
        late = min(budget.expected(backend.unwatched * each, backend.kind), _LATE * left)
        limits = replace(limits, seconds=left - late)
    with budget.measured(0.0, backend.kind) as count:
        answer = solve(problem, limits)
        count.operations = each * max(answer.iterations, 1)
    return make_solution(problem, answer, budget.now() - begin, name)


def choose_conic(problem: ConicProblem, budget: Budget | None = None) -> str:
    """The solver that `auto` takes: highs without semidefinite blocks, else clarabel where it is expected to finish."""
    if max(problem.orders, default=0) <= 1:
        return "highs"
    budget = budget or Budget.unlimited()
    patience = min(PATIENCE, budget.left())
    return "clarabel" if _expected_interior(problem, budget) <= patience else "scs"


def _expected_interior(problem: ConicProblem, budget: Budget) -> float:
    """Expected seconds of Clarabel."""
    return budget.expected(CLARABEL_ITERATIONS * _of_blocks(problem), FACTOR)


def _trivial(problem: ConicProblem) -> ConicAnswer:
    """Nothing to choose (no columns), or nothing that limits the choice (no rows)."""
    if problem.rows:
        inside = all(_inside(kind.kind, problem.b[rows]) for kind, rows in problem.blocks())
        status = ConicStatus.OPTIMAL if inside else ConicStatus.INFEASIBLE
    else:
        status = ConicStatus.UNBOUNDED if np.any(problem.c) else ConicStatus.OPTIMAL
    solved = (np.zeros(problem.columns), problem.b, np.zeros(problem.rows))
    return ConicAnswer(status, solved if status is ConicStatus.OPTIMAL else NOTHING, 0, "nothing to solve")


def _inside(kind: str, b: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    room = _ROUNDING * (1 + float(np.abs(b).max(initial=0.0)))
    if kind == "zero":
        return bool(np.all(np.abs(b) <= room))
    values = np.linalg.eigvalsh(smat(b)) if kind == "psd" else b
    return float(values.min(initial=0.0)) >= -room
