"""Turns: several engines work on one bracket, and each goes on while it promises more than the others.

    forecast   the bound falls by about the same factor with every doubling of an engine's work: what the last
               doublings bought says where it will be when all that is left is given to it

Engines are tried first, those that are cheap before those that are not. What is left goes to the engine with the least
forecast, half of it at a time, so that a forecast that was wrong is found out. Nothing here knows a network: only what
the run has measured decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipcert import policy
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.result import Status


class Engine:
    """Something that can go on: `turn` works within a budget, improves the bracket, and can be called again.

    `upper` is what the engine has proved by itself; `ended` that another turn would change nothing.
    """

    name: str
    upper: float = math.inf
    ended: bool = False

    def __init__(self) -> None:
        self.spent = 0.0
        self.history: list[tuple[float, float]] = []  # what was spent by then, and the bound

    def turn(self, budget: Budget) -> None:
        """Work within the budget."""
        raise NotImplementedError

    def price(self, budget: Budget) -> float:  # noqa: ARG002 - an engine that gives bounds from its first moment on
        """Seconds of the budget's clock before its first turn is worth anything."""
        return 0.0

    def take_turn(self, budget: Budget) -> None:
        """A turn, remembered for the forecast."""
        before = budget.now()
        self.turn(budget)
        self.spent += max(budget.now() - before, 1e-9)
        self.history.append((self.spent, self.upper))

    def forecast(self, more: float) -> float:
        """About where its bound will be after so many more seconds; infinite before its first turn."""
        if not self.history or not math.isfinite(self.upper) or self.upper <= 0:
            return self.upper
        spent, last = self.history[-1]
        earlier = next(
            (h for h in reversed(self.history) if h[0] <= spent / 2 and math.isfinite(h[1])), self.history[0]
        )
        doublings = math.log2(spent / earlier[0]) if spent > earlier[0] else 0.0
        if doublings <= 0:
            return last
        rate = math.log(max(earlier[1] / last, 1.0)) / doublings
        return last * math.exp(-rate * math.log2((spent + more) / spent))


def take_turns(engines: Sequence[Engine], bracket: Bracket, budget: Budget) -> None:
    """Until the bracket is closed, the budget is over, or every engine has ended."""
    _try_quick(engines, bracket, budget)
    while _goes_on(bracket, budget):
        left, alive = budget.left(), [e for e in engines if not e.ended]
        if not alive:
            return
        tried, new = [e for e in alive if e.history], [e for e in alive if not e.history]
        promised = min((e.forecast(left) for e in tried), default=math.inf)
        if new and promised > bracket.lower * (1 + bracket.wishes.gap):  # no other is about to close the gap
            moving = promised < policy.MOVING * bracket.upper
            new[0].take_turn(budget.share(policy.LONG_SHARE if moving else policy.LONGEST_SHARE))
            continue
        best = min(tried, key=lambda e: (e.forecast(left), e.spent))
        best.take_turn(budget.upto(max(policy.TURN_SHARE * left, min(left, policy.TURN_LEAST))))


def _try_quick(engines: Sequence[Engine], bracket: Bracket, budget: Budget) -> None:
    """Two turns for each engine that gives bounds soon, the second longer: a forecast needs two points."""
    total = budget.left()
    first = max(policy.TRIAL_SHARE * total, min(total, policy.TRIAL_LEAST))
    quick = [e for e in engines if e.price(budget) <= first]
    for times in (1.0, 2.0):
        for engine in quick:
            if not engine.ended and _goes_on(bracket, budget):
                engine.take_turn(budget.upto(times * first))


def _goes_on(bracket: Bracket, budget: Budget) -> bool:
    if bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT):
        bracket.go_on()  # a turn was over, not the budget
    return not (bracket.closed() or bracket.status is not Status.DONE or budget.over())
