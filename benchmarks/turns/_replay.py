"""The rule of the turns on recorded engines, so that other constants of the rule cost a second to look at.

What engines tell each other (witnesses, sharper bounds) is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmarks.turns._curves import summary
from benchmarks.turns._engines import Curve, Curves, Point, constants
from benchmarks.turns._tables import ratio
from lipcert import Box, Network
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.engines import WitnessEngine
from lipcert.method.turns import Engine, take_turns
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.arithmetic import prove_product
from lipcert.search.progress import Progress
from lipcert.search.settings import Settings
from lipcert.witness import Witness

MARKS = (1.0, 2.0, 3.0)
# Other values of every constant: halved, doubled, and one that removes it.
OTHERS: dict[str, tuple[float, ...]] = {
    "FIRST": (0.025, 0.1),
    "GROWTH": (0.25, 1.0),
    "HOPE": (0.05, 0.2, 1.0),
    "HOPE_BELOW": (0.25, 1.0, 0.1),
    "FADES": (0.3, 0.8, 1.0),
    "HORIZONS": (3, 12, 1),
    "EARLY": (0.25, 1.0, 0.0),
    "IDLE": (1, 6, 10**6),
}

_MADE = Problem.of(Network.from_weights([np.ones((1, 1))] * 2, [np.zeros(1)] * 2), Box(np.zeros(1), 1.0))
_PROOF = prove_product(_MADE).proof  # its bound is replaced


class Recorded(Engine):
    """It does what was recorded; after the end of its record nothing changes any more."""

    def __init__(self, curve: Curve, bracket: Bracket) -> None:
        super().__init__()
        self.curve, self.bracket, self.name, self.at, self.done = curve, bracket, curve.engine, 0, 0.0
        self.below = curve.engine == WitnessEngine.name

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


def ablation(found: Sequence[Curves]) -> Iterator[str]:
    """A line for the rule as it is, and for every other value of a constant, with the ratios of both halves."""
    halves = sorted({curves.half for curves in found})
    yield " | ".join(["constant", *(f"{h}: upper, mean | worst | witness, mean" for h in halves)])
    yield " | ".join(["as it is", *(_ratios([c for c in found if c.half == h]) for h in halves)])
    for name, values in OTHERS.items():
        for value in values:
            with constants(**{name: value}):
                yield " | ".join([f"{name} {value:g}", *(_ratios([c for c in found if c.half == h]) for h in halves)])


def _ratios(found: Sequence[Curves]) -> str:
    seen = [(curves.question, *ends) for curves in found for ends in behind(curves, MARKS)]
    upper = summary(((name, up) for name, _, up, _ in seen), True)
    lower = summary(((name, low) for name, _, _, low in seen), False)
    assert upper is not None
    assert lower is not None
    return f"{ratio(upper.mean)} | {ratio(upper.worst)} | {ratio(lower.mean)}"
