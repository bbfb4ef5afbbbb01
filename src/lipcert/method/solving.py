"""From a relaxation to a certificate: a solver proposes multipliers, the proof room decides what they prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from lipcert.budget import Budget
from lipcert.method.bracket import BracketView
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.multipliers import factored_order, prove_relaxed
from lipcert.relaxation.cuts import NO_CUTS, Cuts, separate, with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build, plan_specification
from lipcert.rounding import Array
from lipcert.solver import Progress, Status, choose_solver, no_room_for_interior
from lipcert.solver.result import PausedSolve
from lipcert.steps import SCALAR, THIN

# Memory, measured by the growth of the process on one and two hidden layers, orders of 300 to 2,000.
LOW_RANK_MATRICES = 8.0  # times the order squared: a first-order method, and the eigenvalue that ends it
PROOF_MATRICES = 8.0  # times the order squared: a proof

# Proofs while a solver runs.
PROOF_OPERATIONS = 10.0  # times the order cubed: eigenvalues and two factorisations
PROOF_SHARE = 0.08  # share of a solver's work that may go into proofs on the way
LAST_PROOF_SHARE = 0.7  # share of the budget that may be kept for the last proof
FIRST_PROOF = 1.0  # seconds of a solve before its first proof
STEP_ROOM = 1.25  # times the expected seconds of a solver's step: what a slice must have so that one fits into it
MOMENTS_FROM = 0.1  # relative gap of a solve from which its moment matrix leads to witnesses
WORTH_A_PROOF = 0.999  # multipliers are proved if they promise less than this times the best bound of the solve

# Rounds of cuts, measured on the paper's (80,80) networks and ACAS Xu 1_1; docs/experiments/ablation.md.
ROUNDS_LEAST = 4.0  # solves that must fit into the budget; otherwise there is one solve without cuts
ROUND_SHARE = 0.3  # share of the remaining budget that the next round may take
ROUND_GAIN = 2e-4  # relative gain that is worth another round
ROUND_CALLS = 2e4  # calls around a solve that do not depend on its size
CUT_IDLE = 1e-6  # a cut is idle if its multiplier is below this, relative to the bound
CUT_NEAR = 0.15  # an idle cut with less slack than this stays: without it, the next round would violate it
SEPARATION_OPERATIONS = 60.0  # times the order squared: the search for violated cuts
BUILD_CALLS = 5e3  # calls while a relaxation is built
# Operations for each entry of the matrix while a relaxation is built, on 256x2 and SIGMOID 6x200: 1,000 to 4,000.
BUILD_ENTRY = 3e3

OnMoments = Callable[[Relaxation, Array], None]  # a relaxation and its moment matrix, while the solver rests


@dataclass(frozen=True, eq=False)
class Task:
    """A problem, a relaxation of it, and the specification by which that was built."""

    problem: Problem
    specification: Specification
    relaxation: Relaxation

    @classmethod
    def of(cls, problem: Problem, method: str) -> Task:
        """The relaxation that a method has for this problem."""
        specification = plan_specification(problem, method)
        return cls(problem, specification, build(problem, specification))

    @property
    def order(self) -> int:
        """Order of the moment matrix."""
        return self.relaxation.problem.size

    @cached_property
    def proof_order(self) -> int:
        """Order of the matrix that a proof factors."""
        return factored_order(self.relaxation.problem)

    def prove(self, multipliers: Array) -> Certificate:
        """The certificate from any multipliers, good or bad."""
        return prove_relaxed(self.problem, self.specification, self.relaxation, multipliers)

    def cut(self, cuts: Cuts) -> Task:
        """The task with these cuts; this one must have none."""
        return Task(self.problem, self.specification.with_cuts(cuts), with_cuts(self.relaxation, cuts))


def proof_operations(order: int) -> float:
    """Operations of one proof: eigenvalues and two factorisations."""
    return PROOF_OPERATIONS * float(order) ** 3


def build_operations(order: int) -> float:
    """Operations to build a relaxation."""
    return BUILD_ENTRY * float(order) ** 2


def proof_fits(order: int, budget: Budget) -> bool:
    """Whether there is time for a solver and a proof; without the proof the solver's answer is no bound."""
    return budget.expected(proof_operations(order)) <= LAST_PROOF_SHARE * budget.left()


def least_numbers(order: int) -> float:
    """Least numbers in memory for a solve: those of a first-order method and of a proof."""
    return (LOW_RANK_MATRICES + PROOF_MATRICES) * float(order) ** 2


def proved(task: Task, multipliers: Array, budget: Budget) -> Certificate:
    """The certificate from multipliers, its work charged."""
    with budget.measured(proof_operations(task.proof_order)):
        return task.prove(multipliers)


class Solve(Protocol):
    """A way to solve relaxations that is kept between turns: another call goes on where the last budget ended.

    Every certificate on the way, and the last, improve the bracket. A moment matrix, where there is one, goes to
    `on_moments` while the solver rests. Whatever a solver returns, only what the proof room proves is handed on.
    `dual` is the bound that its best multipliers promise, proved or not.
    """

    dual: float

    def advance(
        self, task: Task, bracket: BracketView, budget: Budget, on_moments: OnMoments | None = None, /
    ) -> Status:
        """Work within the budget; the task is the same in all calls, or built anew from the same question."""

    def least(self, budget: Budget) -> float | None:
        """Seconds that the next call needs before it has more; None where it would begin anew."""


class OneSolve:
    """One solver, chosen by size and budget; one that its budget stopped goes on in the next call."""

    def __init__(self) -> None:
        self.paused: PausedSolve | None = None
        self.dual = math.inf
        self.proof = 0.0  # operations of a proof

    def least(self, budget: Budget) -> float | None:
        """Seconds of the next step of the solver, and of a proof of what it finds."""
        if self.paused is None:
            return None
        return STEP_ROOM * self.paused.least(budget) + budget.expected(self.proof) / LAST_PROOF_SHARE

    def ahead(self, budget: Budget) -> float:
        """Seconds to the solver's next result."""
        return 0.0 if self.paused is None else self.paused.ahead(budget)

    def advance(self, task: Task, bracket: BracketView, budget: Budget, on_moments: OnMoments | None = None) -> Status:
        """The solver within the budget, but for the time of a last proof.

        A solver that goes on later is proved where it promises a better bound than the bracket has.
        """
        self.proof = proof_operations(task.proof_order)
        reserve = min(LAST_PROOF_SHARE * budget.left(), budget.expected(self.proof))
        watcher = Watcher(task, bracket, budget, latest=budget.end - 2 * reserve)
        if no_room_for_interior(bracket.settings.solver, task.relaxation.problem, budget):
            bracket.note(
                "a first-order method takes the place of an interior point: the memory limit has no room for one"
            )
        within = budget.upto(budget.left() - reserve)
        if self.paused is None:
            result = choose_solver(bracket.settings.solver, task.relaxation.problem, within)(watcher)
        else:
            result = self.paused.advance(within, watcher)
        self.paused, self.dual = result.paused, result.dual
        worth = self.paused is None or result.dual < WORTH_A_PROOF * bracket.upper
        if worth and (watcher.proved is None or not np.array_equal(watcher.proved, result.y)):
            bracket.improve(proved(task, result.y, budget))
        if on_moments is not None and result.X is not None and (self.paused is None or result.gap < MOMENTS_FROM):
            on_moments(task.relaxation, result.X)
        return result.status


class Prover(Protocol):
    """A task, as `Watcher` needs it: it turns multipliers into a certificate."""

    @property
    def proof_order(self) -> int: ...

    def prove(self, multipliers: Array) -> Certificate: ...


class Watcher:
    """Proves a bound from the current multipliers whenever that costs little of the work done."""

    def __init__(self, task: Prover, bracket: BracketView, budget: Budget, latest: float) -> None:
        self.task, self.bracket, self.budget, self.latest = task, bracket, budget, latest
        self.start, self.spent, self.best = budget.now(), 0.0, bracket.upper  # nothing above it is worth a proof
        self.proved: Array | None = None  # the multipliers of the last proof

    def __call__(self, progress: Progress) -> None:
        self.bracket.iterate(progress)
        now = self.budget.now()
        worth = progress.dual < WORTH_A_PROOF * self.best
        in_time = self.start + FIRST_PROOF < now < self.latest
        if in_time and worth and self.spent <= PROOF_SHARE * (now - self.start):
            with self.budget.measured(proof_operations(self.task.proof_order)):
                certificate = self.task.prove(progress.y)
            self.proved = progress.y.copy()
            self.best = min(self.best, certificate.upper)
            self.bracket.improve(certificate)
            self.spent += self.budget.now() - now


def rounds_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether there is time for several solves by the interior point, which the cuts need for its moment matrix."""
    needed = rounds_need(task, solver, budget)
    return needed is not None and needed < budget.left()


def rounds_need(task: Task, solver: str, budget: Budget) -> float | None:
    """Seconds that a budget must have for rounds of cuts; None if they are not worth it, whatever the time."""
    from lipcert.solver.costs import CONDENSED, interior_numbers, whole_operations

    problem = task.relaxation.problem
    if solver == "low-rank" or not budget.holds(interior_numbers(problem.size, CONDENSED * problem.rows)):
        return None
    return ROUNDS_LEAST * budget.expected(whole_operations(problem))


class CutRounds:
    """Solve, add the cuts that the moment matrix violates, drop the idle ones, solve again: a certificate every round.

    The rounds end when nothing is violated, when the bracket is closed, when two rounds in turn gain too little, or
    when the next round would not fit the budget. Each round's bound stands by itself.
    """

    def __init__(self) -> None:
        self.dual = math.inf
        self.cuts, self.operations = NO_CUTS, 0.0  # cuts of the next solve, and about how many operations it takes
        self.best = np.inf  # bound of a solve that came to its end
        self.stalled = 0  # rounds in turn that gained too little

    def least(self, budget: Budget) -> float | None:
        """Seconds of the next solve."""
        if not self.best < np.inf:
            return None
        return budget.expected(self.operations) + budget.expected(ROUND_CALLS, SCALAR)

    def advance(self, task: Task, bracket: BracketView, budget: Budget, on_moments: OnMoments | None = None) -> Status:
        """Rounds until the end of the budget; the first solve is begun whatever it takes."""
        from lipcert.solver.costs import CONDENSED, affordable_rows, interior_numbers, solve_operations
        from lipcert.solver.rank_two import Options, solve_rank_two

        base = task.relaxation
        while True:
            current, cuts = task.cut(self.cuts), self.cuts
            problem = current.relaxation.problem
            self.operations = solve_operations(problem)
            least = self.least(budget)
            if budget.over() or (least is not None and least > budget.left()):
                return Status.TIME_LIMIT
            reserve = 2 * budget.expected(proof_operations(current.proof_order))
            watcher = Watcher(current, bracket, budget, latest=budget.end - reserve)
            result = solve_rank_two(problem, Options(tolerance=1e-6), watcher, budget=budget)
            certificate = proved(current, result.y, budget)
            self.dual = min(self.dual, certificate.upper)
            bracket.improve(certificate)
            if on_moments is not None and result.X is not None:
                on_moments(current.relaxation, result.X)
            if result.status in (Status.TIME_LIMIT, Status.INTERRUPTED) or result.X is None:
                return result.status
            self.stalled = self.stalled + 1 if certificate.upper > self.best * (1 - ROUND_GAIN) else 0
            self.best = min(self.best, certificate.upper)
            own = slice(problem.rows - len(cuts), None)
            slack = (problem.rhs - problem.apply(result.X))[own]
            busy = cuts.kept((result.y[own] > CUT_IDLE * self.best) | (slack < CUT_NEAR))
            found = separate(base, result.X, busy, budget=max(200, 2 * problem.size))
            budget.charge(SEPARATION_OPERATIONS * float(problem.size) ** 2, THIN)
            self.cuts = busy
            if not len(found) or self.stalled == 2 or bracket.closed():
                return Status.OPTIMAL
            affordable = budget.affordable(ROUND_SHARE * budget.left())
            room = affordable_rows(problem.size, affordable) - base.problem.rows - len(busy)
            self.cuts = busy.joined(found.first(max(room, 2 * problem.size)))
            rows = base.problem.rows + len(self.cuts)
            if not budget.holds(interior_numbers(problem.size, CONDENSED * rows)):
                bracket.out_of_memory("rounds of cuts", budget)
                return Status.OPTIMAL
