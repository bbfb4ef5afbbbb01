"""The engines of `auto` one by one: the curve that each has alone, and the rule of the turns on recorded curves.

`record` gives one engine after the other all of the time, behind the cheap bounds with which `auto` begins. `replay`
takes turns with engines that do what was recorded, so that other constants of the rule cost nothing to look at. What
engines tell each other (witnesses, sharper bounds) is not seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.turns._questions import TurnsQuestion
from lipcert import Box, Network
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method.auto import Auto
from lipcert.method.bracket import Bracket
from lipcert.method.engines import engines_for
from lipcert.method.run import run
from lipcert.method.turns import Engine, take_turns
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.arithmetic import prove_product
from lipcert.search.progress import Progress
from lipcert.search.settings import Settings
from lipcert.witness import Witness

Point = tuple[float, float, float]  # seconds that an engine has had, its own upper bound, and the lower bound


@dataclass(frozen=True)
class Curve:
    """An engine alone: a point for every slice, the seconds that it asked for after each, and whether it ended."""

    engine: str
    points: tuple[Point, ...]
    needs: tuple[float, ...]  # the first before any slice
    ended: bool


@dataclass(frozen=True)
class Curves:
    """All engines of a question, and the bracket before them, which took so many seconds."""

    question: str
    half: str
    seconds: float
    lower: float
    upper: float
    engines: tuple[Curve, ...]

    @property
    def line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> Curves:
        found = json.loads(line)
        engines = tuple(
            Curve(c["engine"], tuple((s, u, low) for s, u, low in c["points"]), tuple(c["needs"]), c["ended"])
            for c in found.pop("engines")
        )
        return cls(**found, engines=engines)


def read_curves(file: Path) -> list[Curves]:
    """The last curves of every question in a file."""
    return list({found.question: found for found in map(Curves.of_line, file.read_text().splitlines())}.values())


class _Alone(Auto):
    """Method auto, but every engine has all of the time, one after the other."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.found = seconds, list[Curve]()
        self.before = 0.0, 0.0, math.inf

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        self.before = budget.elapsed(), bracket.lower, bracket.upper
        with local() as executor:
            for k in range(len(engines_for(problem, bracket, budget, executor))):
                own = Bracket(bracket.settings)
                assert bracket.certificate is not None
                own.improve(bracket.certificate)
                if bracket.witness is not None:
                    own.improve(bracket.witness)
                engine = engines_for(problem, own, budget, executor)[k]
                self.found.append(_alone(engine, own, budget.upto(self.seconds)))
                engine.release()


def _alone(engine: Engine, bracket: Bracket, budget: Budget) -> Curve:
    needs = [engine.least(budget)]
    given = engine.advance

    def advance(slice_: Budget) -> None:
        given(slice_)
        needs.append(engine.least(budget))

    engine.advance = advance  # type: ignore[method-assign, assignment]
    take_turns([engine], bracket, budget)
    spent = np.cumsum([turn.seconds for turn in bracket.turns]).tolist()
    points = tuple((s, t.own, t.lower) for s, t in zip(spent, bracket.turns, strict=True))
    return Curve(engine.name, points, tuple(needs), engine.ended)


def record(question: TurnsQuestion, seconds: float) -> Curves:
    """The curves of all engines; seconds are those of the clock that the process has (`Clock.start`)."""
    net, region, output, norm = question.make()
    problem, method = Problem.of(net, region, output, norm), _Alone(seconds)
    run(method, problem, Bracket(Settings()), Budget.of_seconds(1e6))
    return Curves(question.name, question.half, *method.before, tuple(method.found))


_MADE = Problem.of(Network.from_weights([np.ones((1, 1))] * 2, [np.zeros(1)] * 2), Box(np.zeros(1), 1.0))
_PROOF = prove_product(_MADE).proof  # its bound is replaced


class Recorded(Engine):
    """It does what was recorded; after the end of its record nothing changes any more."""

    def __init__(self, curve: Curve, bracket: Bracket) -> None:
        super().__init__()
        self.curve, self.bracket, self.name, self.at, self.done = curve, bracket, curve.engine, 0, 0.0

    def least(self, budget: Budget) -> float:  # noqa: ARG002 - as every engine says it
        return self.curve.needs[self.at] if self.at < len(self.curve.needs) else 0.0

    def advance(self, budget: Budget) -> None:
        points = self.curve.points
        last = points[-1][0] if points else 0.0
        length = budget.left()
        if self.curve.ended:
            length = min(length, max(last - self.done, 0.0))
        budget.add(length)
        self.done += length
        while self.at < len(points) and points[self.at][0] <= self.done * (1 + 1e-9):
            _, upper, lower = points[self.at]
            self.at += 1
            if upper < self.upper:
                self.upper = upper
                improve(self.bracket, upper=upper)
            if lower > self.bracket.lower:
                improve(self.bracket, lower=lower)
        self.ended = self.curve.ended and self.done >= last * (1 - 1e-9)


def improve(bracket: Bracket, lower: float = 0.0, upper: float = math.inf) -> None:
    """Make the bracket believe these ends."""
    if upper < math.inf:
        bracket.improve(Certificate.of(_MADE, _PROOF, upper))
    if lower > 0:
        bracket.improve(Witness(np.zeros(1), lower, "recorded"))


def replay(found: Curves, seconds: float) -> list[Point]:
    """The rule on recorded engines: (seconds since the first slice, upper, lower) whenever the bracket changes."""
    budget, points = Budget.of_work(seconds), list[Point]()
    bracket = Bracket(Settings())
    improve(bracket, found.lower, found.upper)

    def seen(progress: Progress) -> None:
        points.append((budget.elapsed(), progress.upper, progress.lower or 0.0))

    bracket.on_progress = seen
    bracket.report()
    take_turns([Recorded(curve, bracket) for curve in found.engines], bracket, budget)
    return points


def at(points: Iterable[Point], seconds: float) -> tuple[float, float]:
    """The lower and the upper end at a time."""
    seen = [(lower, upper) for when, upper, lower in points if when <= seconds * (1 + 1e-9)]
    return max((lower for lower, _ in seen), default=0.0), min((upper for _, upper in seen), default=math.inf)


def behind(found: Curves, marks: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """For each mark: the rule's upper bound over the best of one engine alone, and its witness over the best one."""
    mine = replay(found, max(marks))
    for mark in marks:
        lower, upper = at(mine, mark)
        ends = [at(curve.points, mark) for curve in found.engines]
        best = min([found.upper, *(up for _, up in ends)])
        high = max([found.lower, *(low for low, _ in ends)])
        yield mark, upper / best, lower / high if high > 0 else 1.0
