"""Run the pieces of a job, keep every outcome when it arrives, and stop without losing one.

`JobProgress` says how far a job is, and how long it will take.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from enum import Enum

from lipcert.errors import InputError
from lipcert.jobs.executors import queue_depth, worker_count
from lipcert.jobs.folder import JobFolder, file_stem
from lipcert.jobs.piece import Finished, Outcome, Piece, execute, lost


@dataclass(frozen=True)
class JobProgress:
    """`done` counts the `failed` ones too; `remaining` is an estimate in seconds, None while nothing is known."""

    done: int
    failed: int
    total: int
    seconds: float
    remaining: float | None
    last: str | None = None

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.remaining is None else f", about {in_words(self.remaining)} left"
        return f"{self.done} of {self.total} done{failed}, {in_words(self.seconds)}{left}"


def estimate(mean: float | None, ages: Collection[float], waiting: int, workers: int) -> float | None:
    """Seconds until all is done, if running pieces (their ages) and waiting ones take the mean of the finished ones.

    A piece already older than the mean is expected to take half its age more, so that one long piece at the
    end does not read "0 s left" for an hour. Shared by the workers, but never less than the longest single piece.
    """
    if not ages and not waiting:
        return 0.0
    if mean is None:
        return None
    running = [mean - age if age < 2 / 3 * mean else age / 2 for age in ages]
    single = max([*running, mean if waiting else 0.0])
    return max(single, (sum(running) + waiting * mean) / max(workers, 1))


def in_words(seconds: float) -> str:
    """12 s, 3 min 20 s, 5 h 4 min, 2 d 3 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


Settle = Callable[[Piece, Mapping[str, Outcome]], Outcome | None]

_TICK = 10.0  # seconds after which to look whether the executor still has workers


class End(Enum):
    """Why the run ended."""

    FINISHED = "every piece has an outcome"
    DEADLINE = "out of time: the pieces that are missing were not done"
    INTERRUPTED = "interrupted: the pieces that are missing were not done"
    EXECUTOR_LOST = "the workers are gone: the pieces that are missing were not done"


@dataclass(frozen=True)
class Run:
    """The outcomes in the order of the pieces, how many of them were there before, and how the run ended."""

    outcomes: dict[str, Outcome]
    end: End
    resumed: int
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return self.end is End.FINISHED

    @property
    def failures(self) -> dict[str, str]:
        """Name -> the error, in one line, of the pieces that failed."""
        return {name: o.error for name, o in self.outcomes.items() if o.error is not None}


def run_pieces(
    pieces: Sequence[Piece],
    folder: JobFolder | None,
    executor: Executor,
    on_progress: Callable[[JobProgress], None] | None = None,
    deadline: float | None = None,
    stored: Mapping[str, Outcome] | None = None,
    settle: Settle | None = None,
) -> Run:
    """Do every piece that has no outcome yet, in the order given, and return all outcomes.

    Args:
        pieces: with different names.
        folder: keeps the outcomes; None keeps them in memory.
        executor: `local()`, `processes(n)`, `isolated(...)`, `cluster(address)`, or any other.
        on_progress: called at the start and after every piece.
        deadline: on the clock of time.monotonic(); no piece is waited for after it. A local piece is not interrupted.
        stored: by name, the outcomes to go on with; left out, all outcomes in the folder. `stored_outcomes` without
            failures makes a run do the pieces again that failed before.
        settle: asked before a piece is done, with all outcomes so far: its outcome where doing it is not worth the
            time. The folder does not keep it, so that a later run asks again.

    Guarantees: a piece that raises, dies or runs out of time is an outcome with an error. At the deadline, on Ctrl-C,
    or when the executor breaks, every outcome that has arrived is kept, and a later run does the others.
    """
    stems = {file_stem(piece.name): piece.name for piece in pieces}
    if len(stems) != len(pieces):
        raise InputError("two pieces of the job have the same name")
    run = _Running(pieces, folder, executor, on_progress, deadline, settle)
    run.resume(stored_outcomes(folder, pieces) if stored is None else stored)
    try:
        run.go()
    except KeyboardInterrupt:
        run.end = End.INTERRUPTED
    finally:
        run.withdraw()
    return run.result()


def stored_outcomes(folder: JobFolder | None, pieces: Sequence[Piece], *, failures: bool = True) -> dict[str, Outcome]:
    """The outcomes of the pieces in a folder, by name, with or without failures."""
    found = {} if folder is None else {piece.name: folder.load(piece.name) for piece in pieces}
    return {name: o for name, o in found.items() if o is not None and (failures or not o.failed)}


class _Running:
    """The mutable side of one call."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        folder: JobFolder | None,
        executor: Executor,
        on_progress: Callable[[JobProgress], None] | None,
        deadline: float | None,
        settle: Settle | None,
    ) -> None:
        self.pieces, self.folder, self.executor = pieces, folder, executor
        self.on_progress, self.deadline, self.settle = on_progress, deadline, settle
        self.start = time.monotonic()
        self.end = End.FINISHED
        self.resumed = 0
        self.outcomes: dict[str, Outcome] = {}
        self.failed: set[str] = set()
        self.worked = 0.0  # seconds of all outcomes, starting them included
        self.waiting: deque[Piece] = deque()
        self.under_way: dict[Future[Finished], Piece] = {}  # in the order of submission
        self.since: dict[str, float] = {}  # when a piece came among the first, which are the ones being worked on

    def resume(self, stored: Mapping[str, Outcome]) -> None:
        for piece in self.pieces:
            outcome = stored.get(piece.name)
            if outcome is None:
                self.waiting.append(piece)
            else:
                self._count(outcome)
        self.resumed = len(self.outcomes)

    def go(self) -> None:
        self._report(None)
        while self.waiting or self.under_way:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.end = End.DEADLINE
                return
            if not self._submit():
                return
            if not self.under_way:
                return  # the rest was settled
            left = _TICK if self.deadline is None else min(_TICK, max(0.0, self.deadline - time.monotonic()))
            for future in wait(self.under_way, left, FIRST_COMPLETED).done:
                if not self._keep(future):
                    self.end = End.EXECUTOR_LOST
                    return
            if getattr(self.executor, "lost", False):
                self.end = End.EXECUTOR_LOST
                return

    def withdraw(self) -> None:
        """Cancel what is under way and keep what has arrived meanwhile."""
        for future in [*self.under_way]:
            if not future.cancel() and future.done():
                self._keep(future)

    def result(self) -> Run:
        for piece in self.waiting:  # the run was stopped before these pieces began
            known = None if self.settle is None else self.settle(piece, self.outcomes)
            if known is not None:
                self._count(known)
        outcomes = {p.name: self.outcomes[p.name] for p in self.pieces if p.name in self.outcomes}
        notes = tuple(self.folder.notes) if self.folder is not None else ()
        return Run(outcomes, self.end if len(outcomes) < len(self.pieces) else End.FINISHED, self.resumed, notes)

    def _submit(self) -> bool:
        """Fill the queue, not more: a million futures would hold a million arguments."""
        depth = queue_depth(self.executor)
        while self.waiting and len(self.under_way) < depth:
            piece = self.waiting[0]
            known = None if self.settle is None else self.settle(piece, self.outcomes)
            if known is not None:
                self.waiting.popleft()
                self._count(known)
                self._report(piece.name)
                continue
            try:
                future = self.executor.submit(execute, piece)
            except (RuntimeError, OSError):  # shut down or broken; what a piece raises is caught where it runs
                self.end = End.EXECUTOR_LOST
                return False
            except Exception as error:  # arguments that cannot be sent
                future = Future()
                future.set_exception(error)
            self.waiting.popleft()
            self.under_way[future] = piece
        for piece in [*self.under_way.values()][: worker_count(self.executor)]:
            self.since.setdefault(piece.name, time.monotonic())
        return True

    def _keep(self, future: Future[Finished]) -> bool:
        """Store an outcome; it counts as under way until it is stored. False: the executor broke, not the piece."""
        piece = self.under_way[future]
        try:
            finished = future.result()
        except (CancelledError, BrokenExecutor):
            return False
        except Exception as error:
            finished = lost(piece, error, time.monotonic() - self.since.get(piece.name, time.monotonic()))
        outcome = finished.outcome if self.folder is None else self.folder.store(finished)
        self._count(outcome)
        del self.under_way[future]
        begun = self.since.pop(piece.name, None)
        if begun is not None:  # starting a process takes time too, and the estimate must know of it
            self.worked += max(0.0, time.monotonic() - begun - outcome.seconds)
        self._report(piece.name)
        return True

    def _count(self, outcome: Outcome) -> None:
        if outcome.name in self.outcomes:
            return  # Ctrl-C came between keeping it and crossing it off
        self.outcomes[outcome.name] = outcome
        self.worked += outcome.seconds
        if outcome.failed:
            self.failed.add(outcome.name)

    def _report(self, last: str | None) -> None:
        if self.on_progress is None:
            return
        now = time.monotonic()
        ages = [now - since for since in self.since.values()]
        waiting = len(self.pieces) - len(self.outcomes) - len(ages)
        mean = self.worked / len(self.outcomes) if self.outcomes else None
        remaining = estimate(mean, ages, waiting, worker_count(self.executor))
        total = len(self.pieces)
        self.on_progress(JobProgress(len(self.outcomes), len(self.failed), total, now - self.start, remaining, last))
