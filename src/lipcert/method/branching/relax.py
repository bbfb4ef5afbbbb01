"""One part, one relaxation: a pure function of picklable values, run here or in another process."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Cell
from lipcert.bounds.propagation import Interval
from lipcert.budget.threads import threads_for
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.leaves import BY_INTERVALS, Leaf, problem_on, prove_leaf
from lipcert.relaxation.build import build
from lipcert.relaxation.cuts import NO_CUTS, Cuts, separate, with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, plan_specification
from lipcert.rounding import Array
from lipcert.solver import Progress, Status

_SETTLED = 2e-3  # relative gap at which a bound that decides nothing is good enough
_IDLE = 1e-6  # a multiplier, relative to the bound, below which a cut is idle


@dataclass(frozen=True, eq=False)
class Question:
    """A bound on a part is asked for; one at most `threshold` decides it."""

    problem: Problem
    part: Cell
    pre: tuple[Interval, ...]
    threshold: float
    seconds: float
    cuts: NDArray[np.int64]
    rounds: int = 1  # of cuts


@dataclass(frozen=True, eq=False)
class Reply:
    """The best proved bound with its leaf, the cuts that were busy, and what the moments suggest."""

    upper: float
    leaf: Leaf
    cuts: NDArray[np.int64]
    doubt: Array  # by neuron, 0 (sure) to 1
    point: Array | None
    seconds: float  # of CPU


def relax(question: Question) -> Reply:
    """Solve, prove, cut and solve again while that decides nothing; a solver that fails proves nothing."""
    start, cpu = time.monotonic(), time.process_time()
    q = question
    best = Reply(np.inf, BY_INTERVALS, q.cuts, np.zeros(q.problem.network.neurons), None, 0.0)
    try:
        with np.errstate(all="ignore"):
            own, signs = problem_on(q.problem, q.part, q.pre)
            plan = plan_specification(own, "tight", signs)
            base = build(own, plan)
            cuts = Cuts(q.cuts)
            for turn in range(q.rounds + 1):
                left = q.seconds - (time.monotonic() - start)
                if left <= 0:
                    break
                best, cuts = _turn(q, plan.with_cuts(cuts), base, best, left)
                if best.upper <= q.threshold or turn == q.rounds or not len(cuts):
                    break
    except (ArithmeticError, ValueError, RuntimeError, MemoryError):  # as numpy and scipy raise them
        pass
    return replace(best, seconds=time.process_time() - cpu)


def _turn(q: Question, plan: Specification, base: Relaxation, best: Reply, left: float) -> tuple[Reply, Cuts]:
    """One solve with the plan's cuts; the better of both replies, and the next cuts (none: it would be the same)."""
    from lipcert.solver.rank_two import Options, solve_rank_two  # here, so that importing lipcert stays fast

    cuts = plan.cuts
    relaxation = with_cuts(base, cuts)
    problem = relaxation.problem
    with threads_for(problem.size):
        judge = _Judge(q.threshold, relaxation)
        result = solve_rank_two(problem, Options(tolerance=1e-8, time_limit=left), judge)
    if result.status is Status.INTERRUPTED and not judge.ended:
        raise KeyboardInterrupt
    leaf, upper = prove_leaf(plan, relaxation, result.y)
    reply = replace(best, upper=upper, leaf=leaf) if upper < best.upper else best
    X = result.X
    if X is None or not np.all(np.isfinite(X)) or upper <= q.threshold:
        return reply, NO_CUTS
    own = slice(problem.rows - _present(relaxation, cuts), None)
    busy = cuts if _present(relaxation, cuts) < len(cuts) else cuts.kept(result.y[own] > _IDLE * abs(upper))
    found = separate(base, X, busy, budget=max(100, problem.size))
    doubt, point = _doubt(q.problem.network, relaxation, X), _point(q, relaxation, X)
    reply = replace(reply, cuts=busy.table, doubt=doubt, point=point)
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
        self.ended = low or (high and progress.gap < _SETTLED)
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


def _point(q: Question, relaxation: Relaxation, X: Array) -> Array | None:
    """The mean of x, a point of the box."""
    box = q.part.region
    if not isinstance(box, Box) or "w" not in relaxation.space.slices:
        return None
    point = np.array(box.center)
    moving = relaxation.blocks["w"][0]
    point[moving] += (box.hi / 2 - box.lo / 2)[moving] * np.clip(X[0, relaxation.space.slices["w"]], -1.0, 1.0)
    return box.project(point)
