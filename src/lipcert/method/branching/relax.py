"""One cell, one relaxation: a pure function of picklable values, run here or in another process."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Cell
from lipcert.budget import Budget
from lipcert.budget.memory import Memory
from lipcert.method.solving import BUILD_CALLS, CUT_IDLE, proof_operations
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.leaves import BY_INTERVALS, Leaf, prove_leaf
from lipcert.relaxation.cuts import NO_CUTS, Cuts, separate, with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build, plan_specification
from lipcert.rounding import Array
from lipcert.solver import Progress, Status
from lipcert.steps import SCALAR

CELL_SETTLED = 2e-3  # relative gap at which a relaxation stops if its bound cannot close the cell


@dataclass(frozen=True, eq=False)
class RelaxationTask:
    """A bound on a cell is asked for; one at most `threshold` decides it. `problem` is on the box of the cell, with its
    pre-activation bounds. The work is counted where the run must be `repeatable`."""

    problem: Problem
    cell: Cell
    threshold: float
    seconds: float
    repeatable: bool
    cuts: NDArray[np.int64]
    rounds: int = 1  # of cuts
    memory: float = math.inf  # bytes that the process may have


@dataclass(frozen=True, eq=False)
class RelaxationReply:
    """The best proved bound with its leaf, the cuts that were busy, and what the moments suggest."""

    upper: float
    leaf: Leaf
    cuts: NDArray[np.int64]
    doubt: Array  # by neuron, 0 (sure) to 1
    point: Array | None
    counted: float = 0.0  # work, in nominal seconds
    effort: float = 0.0  # as `Budget.effort` has it


def relax(question: RelaxationTask) -> RelaxationReply:
    """Solve, prove, cut and solve again while that decides nothing; a solver that fails proves nothing."""
    q = question
    memory = Memory(q.memory)
    budget = Budget.of_work(q.seconds, memory) if q.repeatable else Budget.of_seconds(q.seconds, memory)
    start = budget.effort()
    best = RelaxationReply(np.inf, BY_INTERVALS, q.cuts, np.zeros(q.problem.network.neurons), None)
    try:
        with np.errstate(all="ignore"):
            plan = plan_specification(q.problem, "tight", tuple(s.astype(np.int64) for s in q.cell.signs))
            base = build(q.problem, plan)
            budget.charge(BUILD_CALLS, SCALAR)
            cuts = Cuts(q.cuts)
            for turn in range(q.rounds + 1):
                if budget.over():
                    break
                best, cuts = _turn(q, (plan, base), cuts, best, budget)
                if best.upper <= q.threshold or turn == q.rounds or not len(cuts):
                    break
    except (ArithmeticError, ValueError, RuntimeError, MemoryError):  # as numpy and scipy raise them
        pass
    return replace(best, counted=budget.spent().counted, effort=budget.effort() - start)


def _turn(
    q: RelaxationTask, made: tuple[Specification, Relaxation], cuts: Cuts, best: RelaxationReply, budget: Budget
) -> tuple[RelaxationReply, Cuts]:
    """One solve; the better of both replies, and the cuts for the next (none: it would be the same)."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solver.costs import solve_numbers
    from lipcert.solver.rank_two import Options, solve_rank_two

    plan, base = made
    relaxation = with_cuts(base, cuts)
    problem = relaxation.problem
    if not budget.holds(solve_numbers(problem)):
        return best, NO_CUTS
    judge = _Judge(q.threshold, relaxation)
    result = solve_rank_two(problem, Options(tolerance=1e-8), judge, budget=budget)
    if result.status is Status.INTERRUPTED and not judge.ended:
        raise KeyboardInterrupt
    with budget.measured(proof_operations(problem.size)):
        leaf, upper = prove_leaf(plan.with_cuts(cuts), relaxation, result.y)
    reply = replace(best, upper=upper, leaf=leaf) if upper < best.upper else best
    X = result.X
    if X is None or not np.all(np.isfinite(X)) or upper <= q.threshold:
        return reply, NO_CUTS
    own = slice(problem.rows - _present(relaxation, cuts), None)
    busy = cuts if _present(relaxation, cuts) < len(cuts) else cuts.kept(result.y[own] > CUT_IDLE * abs(upper))
    found = separate(base, X, busy, budget=max(100, problem.size))
    reply = replace(
        reply, cuts=busy.table, doubt=_doubt(q.problem.network, relaxation, X), point=_point(q, relaxation, X)
    )
    return reply, busy.joined(found.first(2 * problem.size)) if len(found) else NO_CUTS


def _present(relaxation: Relaxation, cuts: Cuts) -> int:
    """How many of the cuts are rows; some may be on entries that are not there."""
    return len(relaxation.families[-1].members) if len(cuts) else 0


class _Judge:
    """Ends a solve as soon as it is decided, or cannot be."""

    def __init__(self, threshold: float, relaxation: Relaxation) -> None:
        self.threshold, self.relaxation, self.ended = threshold, relaxation, False

    def __call__(self, progress: Progress) -> bool:
        offset, finish = self.relaxation.offset, self.relaxation.finish
        dual, primal = finish(max(progress.dual + offset, 0.0)), finish(max(progress.primal, 0.0))
        low = progress.dual_infeasibility < 1e-9 and dual < self.threshold * (1 - 1e-9)
        high = progress.primal_infeasibility < 1e-4 and primal > self.threshold * (1 + 1e-3)
        self.ended = low or (high and progress.gap < CELL_SETTLED)
        return self.ended


def _doubt(net: Network, relaxation: Relaxation, X: Array) -> Array:
    """1 - (mean of v)^2 of every neuron in the matrix."""
    doubt = np.zeros(net.neurons)
    starts = np.concatenate([[0], np.cumsum(net.shape[1:-1])])
    for name, where in relaxation.space.slices.items():
        if name.startswith("v"):
            members = relaxation.blocks[name][0]
            doubt[starts[int(name[1:] or 1) - 1] + members] = np.clip(1.0 - X[0, where] ** 2, 0.0, 1.0)
    return doubt


def _point(q: RelaxationTask, relaxation: Relaxation, X: Array) -> Array | None:
    """The mean of x, a point of the box."""
    box = hull(q.cell.region)
    if box is None or "w" not in relaxation.space.slices:
        return None
    point = np.array(box.center)
    moving = relaxation.blocks["w"][0]
    point[moving] += (box.hi / 2 - box.lo / 2)[moving] * np.clip(X[0, relaxation.space.slices["w"]], -1.0, 1.0)
    return q.cell.region.project(point)
