"""One run of one method on one question in a process of its own: the bracket against seconds or counted work."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import lipcert
from benchmarks._measure import busy
from benchmarks._rows import Measured, Point, Row
from benchmarks.results._case import Case, Need, Stopwatch, gigabytes, warm
from benchmarks.results._run import rows_of
from benchmarks.turns._curves import in_time
from benchmarks.turns._questions import TurnsQuestion
from lipcert.method import table
from lipcert.method.literal import LITERAL
from lipcert.method.run import answer
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.question import Question
from lipcert.search.settings import Settings

# The paper's own methods that are solved literally are slower than all others and no better.
METHODS = tuple(name for name in table.names() if not any(m.only and m.name == name for m in LITERAL))
SECONDS, PROCESSOR, WORK = "seconds", "processor", "work"
CHECK = 600.0  # seconds that a certificate may take; none has taken a tenth of it


@lru_cache(maxsize=1)
def _problem(question: TurnsQuestion) -> Problem:
    """The last question asked for is kept: its methods come one after another."""
    net, region, output, norm = question.make()
    return Problem.of(net, region, output, norm)


def refusal(question: TurnsQuestion, method: str) -> str | None:
    """Why a method does not cover a question, or that the network is not at hand."""
    try:
        return table.named(method).refusal(_problem(question))
    except SystemExit as missing:
        return str(missing)


def cases(questions: Iterable[TurnsQuestion], methods: Sequence[str], clock: Clock) -> Iterator[Case]:
    """Every question with every method, question by question."""
    for question in questions:
        for method in methods:
            run = partial(measure, question, method, clock)
            need = Need("covered", partial(refusal, question, method))
            yield Case(f"turns/{question.name}/{method}", "turns", run, needs=(need,))


def measure(question: TurnsQuestion, method: str, clock: Clock) -> Iterable[Measured]:
    """One run with its curve, and the check of its certificate; the budget is held here, to read its counted work."""
    net, region, output, norm = question.make()
    settings = replace(clock.settings, method=method)
    warm(method, True, False)
    curve: list[Point] = []
    watch, budget = Stopwatch(), settings.budget(settings.own_memory())

    def now() -> float:
        return round(budget.spent().counted if clock.unit == WORK else watch.wall, 3)

    asked = Question.of_constant(net, [region], output, (norm, None), (None, None, None))
    result = answer(asked, settings, budget, lambda p: curve.append((now(), p.lower, p.upper)))
    curve.append((now(), result.lower, result.upper))
    wall, cpu = watch.wall, watch.cpu
    watch = Stopwatch()
    checked = lipcert.verify(result.certificate, net, time_limit=CHECK)
    yield Measured(
        question.name,
        method,
        region.words,
        Norm(norm, norm if output == "all" else None).words,
        result.lower,
        result.upper,
        status=result.status.name.lower().replace("_", " "),
        limit=clock.words,
        work=budget.spent().counted,
        wall=round(wall, 3),
        cpu=round(cpu, 3),
        gigabytes=round(gigabytes(), 3),
        proved=checked.proved,
        verify_seconds=round(watch.wall, 3),
        curve=in_time(curve, clock.limit),
        facts={"by": result.method, "family": question.family, "half": question.half},
        remark="" if checked.proved else checked.reason,
    )


@dataclass(frozen=True)
class Clock:
    """What ends a run: so many seconds of the wall clock, or of the processor, or so much counted work."""

    limit: float
    unit: str = SECONDS

    @property
    def words(self) -> str:
        return {SECONDS: "{:g} s", PROCESSOR: "{:g} processor s", WORK: "work {:g}"}[self.unit].format(self.limit)

    @property
    def settings(self) -> Settings:
        return Settings(work=self.limit) if self.unit == WORK else Settings(time_limit=self.limit)

    @property
    def options(self) -> tuple[str, ...]:
        """The command line that asks for it."""
        return (f"--{self.unit}", f"{self.limit:g}")

    def start(self) -> None:
        """For seconds of the processor: every clock that this process looks at counts them from now on.

        A busy machine then gives nearly the figures of a free one. Processes that this one starts are not seen.
        """
        if self.unit == PROCESSOR:
            time.monotonic = time.perf_counter = time.process_time


def in_a_process(clock: Clock, loops: int, case: Case, commit: str | None) -> list[Row]:
    """The rows of a case, beside so many busy loops."""
    with busy(loops):
        return rows_of(case, commit, "benchmarks.turns", *clock.options)
