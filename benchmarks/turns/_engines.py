"""The engines of `auto` one by one: each has all of the time, behind the cheap bounds with which `auto` begins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.turns._questions import TurnsQuestion
from benchmarks.turns._run import WORK, Clock
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method import turns
from lipcert.method.auto import Auto
from lipcert.method.bracket import Bracket
from lipcert.method.engines import engines_for
from lipcert.method.run import run
from lipcert.method.turns import Engine, take_turns
from lipcert.problem.problem import Problem

# Slices are shorter than those of `auto`, so that a replay sees what lies between.
FINE = {"FIRST": 0.05, "GROWTH": 0.25}
LONG = 1e6  # seconds: engines are stopped one by one

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


@contextmanager
def constants(**values: float) -> Iterator[None]:
    """Inside, constants of the rule have these values."""
    kept = {name: getattr(turns, name) for name in values}
    try:
        for name, value in values.items():
            setattr(turns, name, value)
        yield
    finally:
        for name, value in kept.items():
            setattr(turns, name, value)


def record(question: TurnsQuestion, clock: Clock) -> Curves:
    """The curves of all engines, each as long as the clock says."""
    net, region, output, norm = question.make()
    problem, method = Problem.of(net, region, output, norm), _Alone(clock.limit)
    budget = Budget.of_work(LONG) if clock.unit == WORK else Budget.of_seconds(LONG)
    with constants(**FINE):
        run(method, problem, Bracket(clock.settings), budget)
    return Curves(question.name, question.half, *method.before, tuple(method.found))
