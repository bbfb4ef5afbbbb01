"""From a relaxation to a certificate: a solver proposes multipliers, the certificate code decides what they prove."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lipcert.budget.threads import threads_for
from lipcert.errors import MethodError
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, prove_relaxed
from lipcert.relaxation.build import build
from lipcert.relaxation.cuts import NO_CUTS, Cuts, separate, with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, plan_specification
from lipcert.rounding import Array
from lipcert.solver import CONIC_SOLVERS, SOLVERS, Progress, Status, choose_solver

OnMoments = Callable[[Relaxation, Array], None]  # a relaxation and its moment matrix, while the solver rests

_STALL = 2e-4  # a gain that is worth another round of cuts
_IDLE = 1e-6  # a multiplier, relative to the bound, below which a cut is idle
_ROUND_SHARE = 0.3  # of the time left may go into the next round
_OVERHEAD = 0.2  # seconds of a solve that do not depend on its size
_NEAR = 0.15  # an idle cut with less slack than this is kept: dropped, it would be violated again in the next round
_PROOF_SHARE = 0.08  # of the solver's time may go into proofs on the way
_PROOF_RATE = 2e-10  # seconds times the order cubed: eigenvalues and two factorisations on one core
_LAST_PROOF_SHARE = 0.7  # of the time, at most, may be kept for the last proof


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be proved, by which relaxation: the one that the specification says."""

    problem: Problem
    specification: Specification
    relaxation: Relaxation

    @classmethod
    def of(cls, problem: Problem, specification: Specification | str) -> Task:
        """The task whose relaxation a specification, or the name of a method, means."""
        own = plan_specification(problem, specification) if isinstance(specification, str) else specification
        return cls(problem, own, build(problem, own))

    def with_cuts(self, cuts: Cuts) -> Task:
        """The task of a relaxation without cuts, with these."""
        own = self.specification.with_cuts(cuts)
        return replace(self, specification=own, relaxation=with_cuts(self.relaxation, cuts))

    def prove(self, multipliers: Array) -> Certificate:
        """The certificate from any multipliers."""
        return prove_relaxed(self.problem, self.specification, self.relaxation, multipliers)


def check_solver(name: str, literal: bool = False) -> None:
    """Refuse a solver that is not there: the conic ones are for the literal relaxations only."""
    known = CONIC_SOLVERS if literal else SOLVERS
    if name not in known:
        raise MethodError(f"unknown solver {name!r} here; use one of {', '.join(known)}")


def proof_seconds(order: int) -> float:
    """About how long one proof with a matrix of this order takes."""
    return float(_PROOF_RATE * order**3)


def proof_fits(order: int, seconds: float) -> bool:
    """Whether there is time for a solver and a proof; without the proof the solver's answer is no bound."""
    return proof_seconds(order) <= _LAST_PROOF_SHARE * seconds


def solve(
    task: Task,
    solver: str,
    seconds: float,
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    on_moments: OnMoments | None = None,
) -> Status:
    """Run a solver for at most about `seconds`; every certificate on the way, and the last, go to `on_certificate`.

    The moment matrix, where the solver has one, goes to `on_moments` afterwards. Whatever the solver returns, only what
    the certificate code proves is handed on.
    """
    start = time.monotonic()
    reserve = min(_LAST_PROOF_SHARE * seconds, proof_seconds(task.relaxation.problem.size))
    watcher = Watcher(task, on_certificate, on_iteration, start, start + seconds - 2 * reserve)
    result = choose_solver(solver, task.relaxation.problem, seconds - reserve)(watcher)
    if watcher.proved is None or not np.array_equal(watcher.proved, result.y):
        on_certificate(task.prove(result.y))
    if on_moments is not None and result.X is not None:
        on_moments(task.relaxation, result.X)
    return result.status


def rounds_fit(task: Task, solver: str, seconds: float) -> bool:
    """Whether there is time for several solves by the interior point, which the cuts need for its moment matrix."""
    from lipcert.solver.rank_two import expected_seconds

    return solver != "low-rank" and 4 * expected_seconds(task.relaxation.problem) < seconds


def tighten(
    task: Task,
    solver: str,  # noqa: ARG001 - the interior point, the same arguments as `solve`
    seconds: float,
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    on_moments: OnMoments | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Status:
    """Solve, add the cuts that the moment matrix violates, drop the idle ones, solve again: a certificate every round.

    Stops when nothing is violated, when `enough` says so, when two rounds in turn gain less than `_STALL`, or when the
    next round would not fit the time. Each round's bound stands by itself.
    """
    from lipcert.solver.rank_two import Options, affordable_rows, expected_seconds, solve_rank_two

    base, cuts, stalled, best, slowness = task.relaxation, NO_CUTS, 0, np.inf, 1.0
    end = time.monotonic() + seconds
    while True:
        current = task.with_cuts(cuts)
        problem = current.relaxation.problem
        left, expected = end - time.monotonic(), _OVERHEAD + expected_seconds(problem)
        if left <= 0 or (best < np.inf and expected > left):
            return Status.TIME_LIMIT
        now = time.monotonic()
        watcher = Watcher(current, on_certificate, on_iteration, now, end - 2 * proof_seconds(problem.size))
        with threads_for(problem.size):
            result = solve_rank_two(problem, Options(tolerance=1e-6, time_limit=left), watcher)
        slowness = max(1.0, (time.monotonic() - now) / expected)  # of this machine, on such a problem
        certificate = current.prove(result.y)
        on_certificate(certificate)
        if on_moments is not None and result.X is not None:
            on_moments(current.relaxation, result.X)
        if result.status in (Status.TIME_LIMIT, Status.INTERRUPTED) or result.X is None:
            return result.status
        stalled = stalled + 1 if certificate.upper > best * (1 - _STALL) else 0
        best = min(best, certificate.upper)
        own = slice(problem.rows - len(cuts), None)
        slack = (problem.rhs - problem.apply(result.X))[own]
        busy = cuts.kept((result.y[own] > _IDLE * best) | (slack < _NEAR))
        found = separate(base, result.X, busy, budget=max(200, 2 * problem.size))
        if not len(found) or stalled == 2 or enough():
            return Status.OPTIMAL
        next_seconds = _ROUND_SHARE * (end - time.monotonic()) / slowness - _OVERHEAD
        room = affordable_rows(problem.size, next_seconds) - base.problem.rows - len(busy)
        cuts = busy.joined(found.first(max(room, 2 * problem.size)))


class Prover(Protocol):
    """Whatever turns multipliers into a certificate."""

    def prove(self, multipliers: Array) -> Certificate: ...


class Watcher:
    """Proves a bound from the current multipliers whenever that costs little of the time spent."""

    def __init__(
        self,
        task: Prover,
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        start: float,
        latest: float,
    ) -> None:
        self.task, self.on_certificate, self.on_iteration = task, on_certificate, on_iteration
        self.start, self.latest, self.spent, self.best = start, latest, 0.0, float("inf")
        self.proved: Array | None = None  # the multipliers of the last proof

    def __call__(self, progress: Progress) -> None:
        if self.on_iteration is not None:
            self.on_iteration(progress)
        now = time.monotonic()
        worth = progress.dual < 0.999 * self.best
        in_time = self.start + 1.0 < now < self.latest
        if in_time and worth and self.spent <= _PROOF_SHARE * (now - self.start):
            certificate = self.task.prove(progress.y)
            self.proved = progress.y.copy()
            self.best = min(self.best, certificate.upper)
            self.on_certificate(certificate)
            self.spent += time.monotonic() - now
