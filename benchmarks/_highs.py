"""Mixed-integer linear programs, and HiGHS for them.

    max cost'x    s.t.   row_lo <= A x <= row_hi,   lo <= x <= hi,   x_j whole where `integer`

Every variable has finite bounds, so that variables and rows can be brought to the size of one before tolerances, which
are absolute, mean anything. Neither the `value` nor the `bound` that comes back is proved.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import ConicStatus
from lipcert.solver.conic.highs_backend import STATUS, linear_model, with_model
from lipcert.steps import SPARSE

Mask = NDArray[np.bool_]

_TOLERANCE = 1e-9  # of rows, bounds and whole numbers: big numbers multiply what it lets through
_GAP = 1e-7  # relative, at which the search ends
_POLL = 0.05  # seconds between two looks at the solver's thread
# Operations of HiGHS between two of its looks at whether to go on, for each entry of the program; measured on the
# paper's networks (20,20) and (40,40).
_LOOK = 1400.0


@dataclass(frozen=True, eq=False)
class MixedIntegerProblem:
    """The program above; `A` is a scipy CSR array."""

    cost: Floats
    A: Any
    row_lo: Floats
    row_hi: Floats
    lo: Floats
    hi: Floats
    integer: Mask

    def __post_init__(self) -> None:
        rows, columns = self.A.shape
        if any(v.shape != (columns,) for v in (self.cost, self.lo, self.hi, self.integer)):
            raise InputError(f"MixedIntegerProblem: {columns} columns need as many costs, bounds and kinds")
        if any(v.shape != (rows,) for v in (self.row_lo, self.row_hi)):
            raise InputError(f"MixedIntegerProblem: {rows} rows need as many bounds")
        if not all(np.all(np.isfinite(v)) for v in (self.cost, self.lo, self.hi, self.A.data)):
            raise InputError("MixedIntegerProblem: costs, coefficients and bounds of variables must be finite")


@dataclass(frozen=True, eq=False)
class MixedIntegerSolution:
    """`value` is the objective at `x`, `bound` what the solver believes no point exceeds (inf: nothing yet)."""

    status: ConicStatus
    x: Floats | None
    value: float
    bound: float
    nodes: int
    seconds: float


@dataclass(frozen=True)
class Event:
    """The search so far: the solver's bound, and a better point when that is the news."""

    bound: float
    x: Floats | None = None


def solve_mixed_integer(
    problem: MixedIntegerProblem,
    budget: Budget,
    *,
    start: Floats | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> MixedIntegerSolution:
    """Run HiGHS within the budget, from a known point if one is given.

    The solver has a thread of its own: this one waits, hands events on, and stops it on Ctrl-C or when time is over.
    An interruption is a status, not an exception: what was found is handed back. Where work is counted, HiGHS is
    stopped after so many of its own looks at whether to go on, which come at the same places in every run.
    """
    begin = budget.now()
    scaled, units, unit = _scaled(problem)
    each = _LOOK * (scaled.A.nnz + len(scaled.cost))
    seconds, looks = budget.left(), math.inf
    if budget.repeatable:
        seconds, looks = math.inf, budget.affordable(seconds, SPARSE) / each
    run = _Run(scaled, seconds, looks, None if start is None else start / units)

    def hand_on(event: Event) -> None:
        if on_event is not None:
            on_event(Event(event.bound * unit, None if event.x is None else event.x * units))

    with budget.measured(0.0, SPARSE) as count:
        interrupted = _watch(run, budget, hand_on)
        count.operations = each * max(run.looks, 1)
    status, x, value, bound, nodes = run.answer()
    if interrupted:
        status = ConicStatus.INTERRUPTED
    elif status is ConicStatus.INTERRUPTED:  # by the budget here, which was not waited for there
        status = ConicStatus.TIME_LIMIT
    found = None if x is None else x * units
    ends = value * unit + 0.0, bound * unit + 0.0  # no minus in front of zero
    return MixedIntegerSolution(status, found, *ends, nodes, budget.now() - begin)


def _watch(run: _Run, budget: Budget, hand_on: Callable[[Event], None]) -> bool:
    """Wait for the end of a run; whether Ctrl-C ended it. HiGHS looks at its clock itself, in most places."""
    interrupted = False
    try:
        while run.alive:
            try:
                for event in run.events(_POLL):
                    hand_on(event)
            except KeyboardInterrupt:
                interrupted = True
            if interrupted or (not budget.repeatable and budget.left() < -1.0):
                run.stop()
    finally:
        run.finish()
    return interrupted


def _scaled(problem: MixedIntegerProblem) -> tuple[MixedIntegerProblem, Floats, float]:
    """The same program with variables, coefficients and objective of about the size of one; units are powers of two."""
    sizes = np.maximum(np.abs(problem.lo), np.abs(problem.hi))
    units = np.where(problem.integer, 1.0, _power_of_two(sizes))
    A = problem.A.multiply(units[None, :]).tocsr()
    rows = _power_of_two(abs(A).max(axis=1).toarray().ravel())
    A = A.multiply(1.0 / rows[:, None]).tocsr()
    cost = problem.cost * units
    unit = float(_power_of_two(np.array([np.abs(cost).sum()]))[0])
    ends = (problem.row_lo / rows, problem.row_hi / rows, problem.lo / units, problem.hi / units)
    return MixedIntegerProblem(cost / unit, A, *ends, problem.integer), units, unit


def _power_of_two(sizes: Floats) -> Floats:
    return np.where(sizes > 0, np.exp2(np.ceil(np.log2(np.where(sizes > 0, sizes, 1.0)))), 1.0)


class _Run:
    """HiGHS at work in a thread of its own."""

    def __init__(self, problem: MixedIntegerProblem, seconds: float, most: float, start: Floats | None) -> None:
        import highspy

        self.problem, self.most, self.looks = problem, most, 0
        options: dict[str, Any] = {
            "output_flag": False,
            "time_limit": max(seconds, 0.01),
            "mip_rel_gap": _GAP,
            "mip_abs_gap": 1e-12,
            "mip_feasibility_tolerance": _TOLERANCE,
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        }
        ends = (problem.row_lo, problem.row_hi, problem.lo, problem.hi)
        model = linear_model(problem.cost, problem.A, *ends)
        model.sense_ = highspy.ObjSense.kMaximize
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[int(flag)] for flag in problem.integer]
        self.highs = with_model(model, options)
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = list(start)
            self.highs.setSolution(known)
        self._bound, self._news = math.inf, queue.SimpleQueue[Event]()
        self.highs.HandleUserInterrupt = True
        self.highs.cbMipInterrupt += self._progress
        self.highs.cbMipImprovingSolution += self._improved
        self._done = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        try:
            self.highs.run()
        finally:
            self._done.set()

    @property
    def alive(self) -> bool:
        return not self._done.is_set() or not self._news.empty()

    def stop(self) -> None:
        self.highs.cancelSolve()

    def finish(self) -> None:
        """Leave no thread behind, however the waiting ended."""
        if not self._done.is_set():
            self.stop()
            self._done.wait()

    def events(self, seconds: float) -> list[Event]:
        """The answer of the solver; waits up to `seconds` for the end.

        Not with `Thread.join`: Ctrl-C in it marks a thread as stopped that still runs (CPython 3.11).
        """
        self._done.wait(seconds)
        happened = [] if self._bound == math.inf else [Event(self._bound)]
        while not self._news.empty():
            happened.append(self._news.get())
        return happened

    def answer(self) -> tuple[ConicStatus, Floats | None, float, float, int]:
        """Status, point, value, bound, nodes."""
        info, found = self.highs.getInfo(), self.highs.getSolution()
        status = STATUS.get(self.highs.getModelStatus().name, ConicStatus.ERROR)
        x = np.array(found.col_value) if found.value_valid else None
        value = -math.inf if x is None else float(self.problem.cost @ x)
        bound = float(info.mip_dual_bound) if self.problem.integer.any() else value
        # Without a dual bound HiGHS says minus infinity, also when it maximises.
        known = math.isfinite(bound) and status is not ConicStatus.ERROR
        return status, x, value, bound if known else math.inf, max(0, int(info.mip_node_count))

    def _progress(self, event: Any) -> None:
        self.looks += 1
        if self.looks >= self.most:
            event.interrupt()
        if math.isfinite(event.data_out.mip_dual_bound):
            self._bound = float(event.data_out.mip_dual_bound)

    def _improved(self, event: Any) -> None:
        self._news.put(Event(self._bound, np.array(event.data_out.mip_solution, dtype=np.float64)))
