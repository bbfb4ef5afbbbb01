"""Bracket: the state of a call of `bound`; everything else in the call is a constant value."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from lipcert.budget import Budget
from lipcert.budget.memory import NUMBER, in_words
from lipcert.errors import InputError
from lipcert.jobs import cluster, local, processes
from lipcert.method.result import NetworkSummary, Result, Turn
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.search.progress import NOTHING, Progress, Status
from lipcert.search.settings import Settings
from lipcert.solver import Progress as Iteration
from lipcert.witness import Witness


class BracketView(Protocol):
    """The part of a bracket that a solver's run needs: the bracket of the whole question, or that of one case."""

    settings: Settings

    @property
    def upper(self) -> float:
        """The best proved upper bound."""

    def improve(self, found: Certificate | Witness) -> None:
        """Keep the certificate or the witness if it is better than the one so far."""

    def iterate(self, iteration: Iteration) -> None:
        """Report an iteration of a solver."""

    def note(self, text: str) -> None:
        """Note something that the user should know."""

    def out_of_memory(self, what: str, budget: Budget) -> None:
        """Set the status: the memory limit ended work that could have gone on."""

    def closed(self) -> bool:
        """Whether a better bound would change nothing."""


def ended_by_memory(what: str, budget: Budget) -> str:
    """The note about something that had no more memory."""
    return f"{what} ended early, out of memory: the limit is {in_words(budget.memory.limit)}"


class Bracket:
    """lower <= L <= upper as far as it is known: the best proof, the best witness, the status, and notes.

    Every method writes to it and nothing is taken back. `on_progress` is called with every change. `floor` is a
    constant that was attained elsewhere, in another region say: an upper bound that is not above it is good enough.
    """

    def __init__(
        self,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        on_progress: Callable[[Progress], None] | None = None,
        floor: float = 0.0,
    ) -> None:
        self.settings, self.on_progress, self.floor = settings, on_progress, floor
        self.certificate: Certificate | None = None
        self.witness: Witness | None = None
        self.status = Status.DONE
        self.notes: list[str] = []
        self.turns: list[Turn] = []
        self.stage = "product"
        self.iteration: Iteration | None = None
        self.elsewhere = math.inf  # a bound that another process has proved and keeps
        self.promised = math.inf  # a bound that is proved already by a proof that is not finished
        self.clock = Budget.unlimited()

    @property
    def upper(self) -> float:
        """The best proved upper bound; infinite when there is none."""
        return self.elsewhere if self.certificate is None else min(self.certificate.upper, self.elsewhere)

    @property
    def lower(self) -> float:
        """The gradient norm at the witness; zero without one."""
        return 0.0 if self.witness is None else max(self.witness.value, 0.0)

    def improve(self, found: Certificate | Witness) -> None:
        """Keep the certificate or the witness if it is better than the one so far."""
        if isinstance(found, Certificate):
            if self.certificate is None or found.upper < self.certificate.upper:
                self.certificate = found
        elif self.witness is None or found.value >= self.witness.value:
            self.witness = found
        self.report()

    def closed(self) -> bool:
        """Whether the gap is as small as the settings ask for, or the bracket decides about their limit `below`."""
        below = self.settings.below
        if below is not None and (self.upper < below or self.lower >= below):
            return True
        if math.isinf(self.upper):
            return False
        if self.upper <= max(self.floor, NOTHING):
            return True
        return self.witness is not None and self.upper <= self.witness.value * (1 + self.settings.gap)

    def enter(self, stage: str) -> None:
        """Begin a stage of the work; the name is shown with the progress."""
        self.stage, self.iteration = stage, None
        self.report()

    def iterate(self, iteration: Iteration) -> None:
        """Keep the last iteration of a solver for the callback."""
        self.iteration = iteration
        self.report()

    def out_of_budget(self, budget: Budget) -> None:
        """Set the status: the budget ended work that could have gone on."""
        if self.status is not Status.DONE:
            return
        if budget.memory.full():
            self.out_of_memory(self.stage.partition(":")[0], budget)
        else:
            self.status = Status.WORK_LIMIT if budget.repeatable else Status.TIME_LIMIT

    def out_of_memory(self, what: str, budget: Budget, noted: bool = False) -> None:
        """Set the status: the memory limit ended work that could have gone on."""
        budget.memory.hit = True
        if self.status in (Status.DONE, Status.TIME_LIMIT, Status.WORK_LIMIT):
            self.status = Status.MEMORY_LIMIT
        if not noted:
            self.note(ended_by_memory(what, budget))

    def no_room(self, what: str, numbers: float, budget: Budget) -> None:
        """Note that work was not begun, because it needs more memory than there is: so many `numbers`."""
        needed, limit = in_words(NUMBER * numbers), in_words(budget.memory.limit)
        self.out_of_memory(what, budget, noted=True)
        self.note(f"{what} left out: it needs about {needed} beside what is there, and the memory limit is {limit}")

    def end(self, closes: bool, budget: Budget) -> None:
        """Settle the status at the end of a method.

        A closed bracket is finished, even if the budget ran out on the way. A method that works until the gap is
        closed (`closes`) has not finished while there is a gap; without a witness the gap is unknown.
        """
        if self.closed():
            self.clear_limit()
        elif budget.memory.hit and self.status is Status.DONE:
            self.status = Status.MEMORY_LIMIT
        if self.status is Status.DONE and math.isinf(self.upper):
            self.status = Status.OPEN  # every number on the way overflowed
        if closes and self.status is Status.DONE and self.witness is not None and not self.closed():
            self.status = Status.OPEN

    def clear_limit(self) -> None:
        """Undo a limit as the status: only a share of the budget was over, or nothing is left to do."""
        if self.status in (Status.TIME_LIMIT, Status.WORK_LIMIT, Status.MEMORY_LIMIT):
            self.status = Status.DONE

    def note(self, text: str) -> None:
        """Note something that the user should know; it replaces a note with the same words before the colon."""
        matter, colon, _ = text.partition(": ")
        self.notes = [known for known in self.notes if not (colon and known.startswith(matter + colon))]
        if text not in self.notes:
            self.notes.append(text)

    def executor(self) -> Executor:
        """The executor of the pieces of a search: this process, processes beside it, or a Dask cluster.

        Where the cluster is gone by now, this process works alone: what is proved is kept.
        """
        if self.settings.scheduler is not None:
            try:
                return cluster(self.settings.scheduler)
            except InputError as error:
                self.note(f"{error}; this process worked alone")
                return local()
        others = self.settings.workers - 1  # one process takes turns with other engines
        return local() if others < 2 else processes(others)

    def report(self) -> None:
        """Call `on_progress` with the bracket and the stage."""
        if self.on_progress is not None:
            lower = None if self.witness is None else self.witness.value
            upper = min(self.upper, self.promised)
            self.on_progress(Progress(self.clock.spent().wall, lower, upper, self.stage, self.iteration))

    def result(self, problem: Problem, budget: Budget) -> Result:
        """The result that `bound` returns; something must have been proved."""
        assert self.certificate is not None
        return Result(
            certificate=self.certificate,
            best=self.witness if self.settings.lower else None,
            status=self.status,
            seconds=self.clock.spent().wall,
            region=problem.region,
            norm=problem.norm,
            output=problem.output,
            network=NetworkSummary(problem.network),
            notes=tuple(self.notes),
            turns=tuple(sorted(self.turns, key=lambda turn: turn.begin)),
            explain=self.settings.explain,
            work=budget.spent().counted,
        )
