"""The largest of several constants (`proof.cases`): cheap bounds for all, then a relaxation where it can decide.

The case with the largest bound is solved next. A case is done when its bound is no larger than the bound of a finished
case or the value of a witness, because it cannot lower the answer then; the run is done when no open case is left. The
relaxations of a case of a large network are about parts of the network, as for one output (`planning`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import Bracket, ended_by_memory
from lipcert.method.lower import MomentRounding
from lipcert.method.planning import STEP_SHARE, Step, whole_step
from lipcert.method.solving import BUILD_CALLS, Task, least_numbers, proof_fits
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, Multipliers
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.proof.slopes import CASES_MOST
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.reduction import gains_of
from lipcert.relaxation.specification import build
from lipcert.rounding import Array
from lipcert.search.progress import CLOSED
from lipcert.solver import Progress, Status
from lipcert.steps import SCALAR
from lipcert.witness import Witness

if TYPE_CHECKING:
    from lipcert.method.relaxed import Relaxed

CASE_SHARE = 0.25  # share of the remaining budget, at most, for one case
CASE_LEAST = 1.0  # seconds, at least, of one case, unless that is more than half of what is left


class CaseSolves:
    """Relaxations of the cases that can decide; every gain improves the bracket by a proof of the largest of all.

    Between turns it keeps which cases are solved, and all proofs. A case that ran out of its time is open again.
    """

    def __init__(self) -> None:
        self.solved: NDArray[np.bool_] | None = None
        self.proved: dict[tuple[int, int], ProvedCase] = {}

    def least(self, budget: Budget) -> float | None:  # noqa: ARG002 - as every kept solve says it
        """No time at all, once a case is solved."""
        return 0.0 if self.solved is not None and self.solved.any() else None

    def advance(
        self, problem: Problem, method: Relaxed, bracket: Bracket, budget: Budget, look: MomentRounding
    ) -> Status:
        """Bounds within the budget; `method` solves a relaxation of one case."""
        run = _CaseRun(problem, method, bracket, budget, look, self)
        self.solved = run.solved
        return run.all()


class _CaseRun:
    """One call: the bounds of all cases, and which are still open."""

    def __init__(
        self,
        problem: Problem,
        method: Relaxed,
        bracket: Bracket,
        budget: Budget,
        look: MomentRounding,
        kept: CaseSolves,
    ) -> None:
        self.problem, self.method, self.bracket, self.budget, self.look = problem, method, bracket, budget, look
        self.table, self.proved = case_table(problem), kept.proved
        self.bounds = self.table.copy()
        self.solved = np.zeros(self.table.shape, dtype=bool) if kept.solved is None else kept.solved
        self.open = ~self.solved
        for at, case in self.proved.items():
            self.bounds[at] = min(self.bounds[at], case.upper)

    @property
    def floor(self) -> float:
        """The answer cannot fall below this: the value of a witness, or the bound of a case that is done."""
        return max(self.bracket.lower, float(self.bounds[~self.open].max(initial=0.0)))

    def decided(self, at: tuple[int, int]) -> bool:
        """Whether a smaller bound of this case would not change the answer."""
        return bool(self.bounds[at] <= self.floor * (1 + CLOSED))

    def all(self) -> Status:
        late = False
        while np.any(self.open) and len(self.proved) < CASES_MOST:
            candidates = np.where(self.open, self.bounds, -1.0)
            row, column = (int(k) for k in np.unravel_index(np.argmax(candidates), candidates.shape))
            if self.decided((row, column)):
                break
            if self.budget.over():
                return Status.TIME_LIMIT
            status = self._one((row, column))
            if status is Status.INTERRUPTED:
                return status
            late = late or status is Status.TIME_LIMIT
            self.open[row, column], self.solved[row, column] = False, status is not Status.TIME_LIMIT
        return Status.TIME_LIMIT if late else Status.OPTIMAL

    def _one(self, at: tuple[int, int]) -> Status:
        left, alone = self.budget.left(), np.count_nonzero(self.open) == 1
        share = left if alone else max(CASE_SHARE * left, min(CASE_LEAST, left / 2))
        budget, case = self.budget.upto(share), self._case(at)
        whole = whole_step(case, self.method.name)
        steps = self.method.planned(case, budget)
        if not steps:
            if not self.method.parts and whole.order <= self.method.most:  # beyond, it is refused with any memory
                self.bracket.no_room(self.method.name, whole.numbers, budget)
            return Status.TIME_LIMIT
        status = Status.OPTIMAL
        for step in steps:
            own = budget if step is steps[-1] else budget.share(STEP_SHARE)
            status = self._step(case, at, step, own)
            if status is Status.INTERRUPTED or self.decided(at):
                break
        return status if steps[-1].whole or status is not Status.OPTIMAL else Status.TIME_LIMIT

    def _case(self, at: tuple[int, int]) -> Problem:
        """The problem of a case; the gains of the network are the same for all outputs."""
        case = case_of(self.problem, *at)
        if gains_of.known(self.problem) and case.coordinate is None:
            gains_of.keep(case, gains_of(self.problem))
        return case

    def _step(self, case: Problem, at: tuple[int, int], step: Step, budget: Budget) -> Status:
        """One relaxation of all or of a part of the network."""
        if not step.whole and not proof_fits(step.order, budget):
            return Status.TIME_LIMIT
        specification = self.method.specification(case, step)
        with budget.measured(BUILD_CALLS, SCALAR):
            relaxation = build(case, specification)
        if not budget.holds(least_numbers(relaxation.problem.size)):
            self.bracket.no_room(self.method.name, least_numbers(relaxation.problem.size), budget)
            return Status.TIME_LIMIT
        task = Task(case, specification, relaxation)
        if not proof_fits(task.order if step.whole else task.proof_order, budget):
            return Status.TIME_LIMIT
        look = MomentsOfCase(self.look, case) if step.whole else None
        with threads_for(task.order):
            return self.method.solve(task, _CaseBracket(self, at), budget, look)

    def keep(self, at: tuple[int, int], certificate: Certificate) -> None:
        """Keep a better bound of a case, and prove the largest of all cases with it."""
        if not certificate.upper < self.bounds[at]:
            return
        assert isinstance(certificate.proof, Multipliers)
        self.bounds[at] = certificate.upper
        self.proved[at] = ProvedCase(*at, certificate.proof, certificate.upper)
        cases = tuple(self.proved.values())
        self.bracket.improve(prove_cases(self.problem, self.method.name, self.table, cases))


class MomentsOfCase:
    """Rounds the moment matrix of one case to a witness of the whole problem."""

    def __init__(self, look: MomentRounding, case: Problem) -> None:
        self.look, self.case = look, case

    def __call__(self, relaxation: Relaxation, X: Array) -> None:
        self.look(relaxation, X, self.case)


class _CaseBracket:
    """The bracket of one case, as its solver sees it: what it proves goes into the proof of the largest."""

    def __init__(self, run: _CaseRun, at: tuple[int, int]) -> None:
        self.run, self.at, self.settings = run, at, run.bracket.settings

    @property
    def upper(self) -> float:
        """The best bound of this case."""
        return float(self.run.bounds[self.at])

    def improve(self, found: Certificate | Witness) -> None:
        """A bound of the case, or a witness of the largest."""
        if isinstance(found, Certificate):
            self.run.keep(self.at, found)
        else:
            self.run.bracket.improve(found)

    def iterate(self, iteration: Progress) -> None:
        """Say where a solver is."""
        self.run.bracket.iterate(iteration)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        self.run.bracket.note(text)

    def out_of_memory(self, what: str, budget: Budget) -> None:
        """Remember it; other cases may go on."""
        budget.memory.hit = True
        self.note(ended_by_memory(what, budget))

    def closed(self) -> bool:
        """Whether the case is decided."""
        return self.run.decided(self.at)
