"""Side: a second process has some of the engines, and both give turns by the same rule (`turns`).

The second process begins when the run has taken as long as starting a process does. It has every second engine in the
order of the index then, so that the best one stays here. It works in calls that grow with its time; after each call
the bound and the witness that it found come here, and those found here go there. When it dies, its engines
are this process's again.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lipcert.budget import Budget
from lipcert.budget.memory import Memory
from lipcert.errors import PieceLost
from lipcert.jobs.processes import Processes
from lipcert.method.bracket import Bracket
from lipcert.method.result import Turn
from lipcert.problem.problem import FORMS, Problem, ProblemFacts
from lipcert.problem.question import Question
from lipcert.proof import Certificate
from lipcert.witness import Witness

if TYPE_CHECKING:
    from lipcert.method.turns import Engine

STARTING = 1.0  # seconds that a process takes to start and to load its modules, on the machines of docs/results.md
CALL = 0.25  # seconds of the first call
GROWTH = 0.5  # the next call, as a share of the time that the process has had: rarely enough to cost nothing
SHARE = 0.25  # share of the memory limit for the second process; it begins only if the first has taken less than half
MARGIN = 0.1  # seconds kept at the end of the run, in which the last answer arrives

_Engines = Callable[[Problem, Bracket, Budget, Executor], "list[Engine]"]


@dataclass(frozen=True)
class _Call:
    """A call of the second process: it works for `seconds` and begins with the bound and the witness known here."""

    seconds: float
    upper: float
    witness: Witness | None
    begin: tuple[Any, ...] | None  # the first call alone: problem, settings, names, memory and the engines' maker


@dataclass(frozen=True)
class _Answer:
    """The answer to a call: a better proof or witness, notes, the slices, and whether all engines over there ended."""

    upper: float
    proof: Any
    witness: Witness | None
    notes: tuple[str, ...]
    turns: tuple[Turn, ...]
    ended: bool


class Side:
    """Our end of the second process; `exchange` is called between slices, and never waits."""

    def __init__(self, problem: Problem, bracket: Bracket, budget: Budget, make: _Engines) -> None:
        self.problem, self.bracket, self.budget, self.make = problem, bracket, budget, make
        self.notes: tuple[str, ...] = ()  # notes of the engines over there
        self.names: frozenset[str] = frozenset()  # names of the engines that have no slices here
        self.executor: Processes | None = None
        self.guard, self.answers = threading.Lock(), list[_Answer | BaseException]()
        self.upper, self.witness = math.inf, None  # type: float, Witness | None
        self.asked, self.offset = 0.0, 0.0
        self.limit = budget.memory.limit  # of both processes, in bytes
        self.answered = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop the process; its engines are this process's again."""
        executor, self.executor, self.names = self.executor, None, frozenset()
        if executor is not None:
            executor.shutdown(cancel_futures=True)
            self.budget.memory.limit = self.limit
        for note in self.notes:
            self.bracket.note(note)
        self.notes = ()

    def exchange(self, ranked: Callable[[], Sequence[Engine]]) -> None:
        """Begin if it is time; take what the process has found, and tell it what is known here."""
        if self.executor is None:
            if not self.asked and self.budget.elapsed() >= STARTING and self.budget.left() > 2 * STARTING:
                self._begin(ranked())
            return
        with self.guard:
            self.upper, self.witness = self.bracket.upper, self.bracket.witness
            answers, self.answers = self.answers, []
            self.answered.clear()
        for answer in answers:
            if isinstance(answer, _Answer):
                self._take(answer)
            else:
                self._lost(answer)

    def wait(self) -> bool:
        """Wait for the next answer, where nothing is left to do here; whether one can come."""
        return self.executor is not None and self.answered.wait(max(self.budget.left(), 0.0))

    def _begin(self, ranked: Sequence[Engine]) -> None:
        own = [engine.name for engine in ranked if not engine.shared]
        names = frozenset(itertools.islice(own, 1, None, 2))
        self.asked = self.offset = self.budget.elapsed()
        memory = self.budget.memory
        if not names or not memory.holds(memory.limit / 2):
            return
        memory.limit *= 1 - SHARE
        known = self.problem.facts.preactivations
        facts = ProblemFacts(None if known is None or known.way == FORMS else known)
        bare = replace(self.problem, facts=facts)
        about = (bare, replace(self.bracket.settings, workers=1), names, self.limit * SHARE, self.make)
        self.executor, self.names = Processes(1, retries=0, bare=True), names
        self.upper, self.witness = self.bracket.upper, self.bracket.witness
        self._ask(about)

    def _ask(self, begin: tuple[Any, ...] | None = None) -> None:
        """Submit the next call; the thread that waits for its answer submits the one after it."""
        executor = self.executor
        spent, left = self.budget.elapsed() - self.asked, self.budget.left() - MARGIN
        if executor is None or left <= 0:
            return
        call = _Call(min(max(CALL, GROWTH * spent), left), self.upper, self.witness, begin)
        try:
            executor.submit(_work, call).add_done_callback(self._done)
        except RuntimeError:  # the executor was shut down in the meantime
            return

    def _done(self, future: Future[_Answer]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        with self.guard:
            self.answers.append(future.result() if error is None else error)
        self.answered.set()
        if error is None and not future.result().ended:
            self._ask()

    def _take(self, answer: _Answer) -> None:
        bracket = self.bracket
        if answer.proof is not None and answer.upper < bracket.upper:
            question = Question.of_problem(self.problem)
            bracket.improve(Certificate(question, answer.proof, answer.upper))
        if answer.witness is not None and answer.witness.value > bracket.lower:
            bracket.improve(answer.witness)
        self.notes = answer.notes
        bracket.turns += [turn.moved(self.offset) for turn in answer.turns]
        if answer.ended:
            names = self.names
            self.end()
            self.names = names  # they have nothing left to do here either

    def _lost(self, error: BaseException) -> None:
        if not isinstance(error, PieceLost):
            raise error
        self.bracket.note(f"a second process ended early ({error}); this one went on alone")
        self.end()


def beside(problem: Problem, bracket: Bracket, budget: Budget, make: _Engines) -> AbstractContextManager[Side | None]:
    """A second process for this run, or None where it has one process alone."""
    settings = bracket.settings
    alone = settings.work is not None or settings.scheduler is not None or settings.workers < 2
    return nullcontext() if alone else Side(problem, bracket, budget, make)


@dataclass
class _WorkerState:
    """The state of the second process between calls."""

    bracket: Bracket | None = None
    problem: Problem | None = None
    engines: list[Engine] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    start: Budget | None = None


_STATE = _WorkerState()


def _work(call: _Call) -> _Answer:
    """Answer one call; runs in the second process."""
    from lipcert.jobs import local
    from lipcert.method.turns import take_turns

    kept = _STATE
    if call.begin is not None:
        kept.problem, settings, names, limit, make = call.begin
        kept.start = Budget.unlimited()
        kept.bracket, kept.memory = Bracket(settings), Memory(limit)
        made = make(kept.problem, kept.bracket, Budget.of_seconds(math.inf, kept.memory), local())
        kept.engines = [engine for engine in made if engine.name in names or engine.shared]
    bracket, start = kept.bracket, kept.start
    assert bracket is not None
    assert start is not None
    bracket.elsewhere = call.upper
    if call.witness is not None and call.witness.value > bracket.lower:
        bracket.improve(call.witness)
    lower, offset = bracket.lower, start.elapsed()
    bracket.turns = []
    take_turns(kept.engines, bracket, Budget.of_seconds(call.seconds, kept.memory))
    ended = bracket.closed() or all(engine.ended for engine in kept.engines)
    said = list(bracket.notes)
    for engine in kept.engines:
        engine.conclude()
    notes, bracket.notes = tuple(bracket.notes), said
    better = bracket.certificate is not None and bracket.certificate.upper < call.upper
    found = bracket.certificate
    return _Answer(
        upper=bracket.upper,
        proof=found.proof if better and found is not None else None,
        witness=bracket.witness if bracket.lower > lower else None,
        notes=notes,
        turns=tuple(turn.moved(offset) for turn in bracket.turns),
        ended=ended,
    )


def cores() -> int:
    """How many cores this process may use that nobody else does, by the mean load of the last minute."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        busy = os.getloadavg()[0]
    except (AttributeError, OSError):  # no such number on this system
        return 1
    return max(1, count - round(max(busy - 1.0, 0.0)))  # this process itself may have been the load
