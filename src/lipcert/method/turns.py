"""Turns: the one rule by which `auto` gives slices of time to engines that work on the same bracket.

    index(engine) = gain / seconds        of the engine's next slice: the engine with the largest index has it

`gain` is how much of log(upper / lower) the engine is expected to close within this slice. Two sources say so, and the
larger of them counts:

    its history  the bound that the engine has proved by itself goes on to fall as it did in its last slice, or by as
                 much with the next doubling of its time as with the last one; lower bounds rise in the same way
    its credit   an engine that was not tried for long may close a share of the gap within its next slice; this hope
                 fades with every slice that it has had, so that no engine is forgotten and none is tried for ever

Slices grow with the time that an engine has had. Nothing here knows a network, the name of a method, or the whole time:
a longer run begins as a shorter one does, and only what the run has measured decides.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.result import Turn
from lipcert.search.progress import Status

if TYPE_CHECKING:
    from lipcert.method.side import Side

# Chosen on half A of `benchmarks.turns`, looked at on half B: docs/experiments/turns.md.
FIRST = 0.05  # seconds of the first slice of an engine; a linear program or a batch of cells takes some milliseconds
GROWTH = 0.5  # the next slice of an engine, as a share of the time that it has had: more would notice a stall late
HOPE = 0.1  # share of the gap that an untried engine may close in its first slice, one of several for the upper end
HOPE_BELOW = 0.5  # the same of an engine that works on the lower end alone: half of the gap may close from below
FADES = 0.6  # factor on this hope for every slice that the engine has had
HORIZONS = 6  # horizons that are looked at: the next slice, and its doubles; an extrapolation beyond says nothing
EARLY = 0.1  # a slice ended early if the engine used less than this share of it
FAILURES = (ArithmeticError, ValueError, RuntimeError)  # numpy, scipy and HiGHS raise these
IDLE = 3  # slices in a row that ended early without a gain: then the engine has nothing to do and ends


class Engine:
    """One way to improve the bracket: `advance` works for a slice of time, and the next call goes on from there.

    `upper` is the bound that the engine has proved by itself; `promised` is the one that its solver would prove now,
    for the rule alone. `ended` says that another slice would change nothing.
    """

    name: str
    shared: bool = False  # whether each of two processes has one of its own
    below: bool = False  # whether it works on the lower end of the bracket alone
    upper: float = math.inf
    promised: float = math.inf
    ended: bool = False

    def __init__(self) -> None:
        self.history: list[_Point] = []  # before the first slice, and after each so far
        self.slices = 0  # those that were long enough, and had a result or could have had one
        self.idle = 0  # slices in a row that ended early without a gain

    @property
    def spent(self) -> float:
        """Seconds of all slices so far."""
        return self.history[-1].spent if self.history else 0.0

    def advance(self, budget: Budget) -> None:
        """Work within the budget, on from where the last slice ended, and improve the bracket."""
        raise NotImplementedError

    def least(self, budget: Budget) -> float:  # noqa: ARG002 - engines that know their next step use it
        """Seconds that the next slice must have to gain anything."""
        return 0.0

    def ahead(self, budget: Budget) -> float:  # noqa: ARG002 - engines that know their next result use it
        """Seconds to the engine's next result, in one slice or several; its hope does not fade before."""
        return 0.0

    def conclude(self) -> None:
        """Write notes for the user after the last slice."""

    def release(self) -> None:
        """Free the memory of the engine's state; it has no slice afterwards."""


@dataclass(frozen=True)
class _Point:
    """After a slice: the seconds that the engine has spent, log of its own bound, proved or promised, and by how much
    all of its slices have raised log of the lower bound. Before the first slice its bound is that of the bracket."""

    spent: float
    upper: float
    raised: float


def take_turns(engines: Sequence[Engine], bracket: Bracket, budget: Budget, side: Side | None = None) -> None:
    """Give slices until the bracket is closed, the budget is over, or no engine can use what is left of it.

    `side` is a second process that may have some of the engines.
    """
    while _goes_on(bracket, budget):
        if side is not None:
            side.exchange(lambda: _ranked(engines, bracket, budget))
        here = [engine for engine in engines if side is None or engine.name not in side.names]
        ranked = _ranked(here, bracket, budget)
        if ranked:
            _slice(ranked[0], bracket, budget, _length(ranked[0], budget))
        elif side is None or not side.wait():
            return


def _ranked(engines: Sequence[Engine], bracket: Bracket, budget: Budget) -> list[Engine]:
    """The engines that can use what is left of the budget, the largest index first."""
    able = [engine for engine in engines if not engine.ended and engine.least(budget) <= budget.left()]
    gap = _gap(bracket)
    return sorted(able, key=lambda engine: -_index(engine, bracket, budget, gap))


def _length(engine: Engine, budget: Budget) -> float:
    """Seconds of the next slice."""
    return max(engine.least(budget), GROWTH * engine.spent, FIRST)


def _goes_on(bracket: Bracket, budget: Budget) -> bool:
    if bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT, Status.MEMORY_LIMIT):
        bracket.clear_limit()  # the end of a slice is not the end of the budget
    return not (bracket.closed() or bracket.status is not Status.DONE or budget.over())


def _gap(bracket: Bracket) -> float:
    """log(upper / lower); 1 where one of them is not known yet."""
    known = 0 < bracket.lower < bracket.upper < math.inf
    return math.log(bracket.upper / bracket.lower) if known else 1.0


def _index(engine: Engine, bracket: Bracket, budget: Budget, gap: float) -> float:
    """The largest expected gain per second, over all horizons from the next slice on."""
    seconds = _length(engine, budget)
    hope = HOPE_BELOW if engine.below else HOPE
    best = hope * FADES**engine.slices * gap / max(seconds, engine.ahead(budget))
    for doubling in range(HORIZONS if engine.history else 0):
        horizon = seconds * 2.0**doubling
        best = max(best, _expected(engine.history, horizon, bracket.upper) / horizon)
    return best


def _expected(history: Sequence[_Point], more: float, upper: float) -> float:
    """How much of log(upper / lower) is expected to close within so many more seconds, by the engine's history."""
    last = history[-1]
    raised = _further([(p.spent, -p.raised) for p in history], more)
    if not math.isfinite(last.upper):
        return raised
    above = max(last.upper - _log(upper), 0.0)  # how far its own bound is above the bracket
    return raised + max(_further([(p.spent, p.upper) for p in history if math.isfinite(p.upper)], more) - above, 0.0)


def _further(points: Sequence[tuple[float, float]], more: float) -> float:
    """By how much a falling value falls within so many more seconds.

    It falls on as it did in the last slice, for as long as that was; or by as much as with the last doubling of its
    time: the larger of both.
    """
    if len(points) < 2:
        return 0.0
    (begun, before), (time, value) = points[-2:]
    steady = (before - value) * min(more / (time - begun), 1.0)
    half = next((p for p in reversed(points[:-1]) if 0 < p[0] <= time / 2), None)
    rate = 0.0 if half is None else (half[1] - value) / math.log2(time / half[0])
    return max(steady, rate * math.log2(1.0 + more / time), 0.0)


def _slice(engine: Engine, bracket: Bracket, budget: Budget, length: float) -> None:
    """Give a slice to the engine, and record it: for the rule, and for people (`Bracket.turns`)."""
    given = min(length, budget.left())
    begin, begun, lower, spent, own = budget.now(), budget.elapsed(), bracket.lower, engine.spent, engine.upper
    if not engine.history:
        engine.history.append(_Point(0.0, _log(bracket.upper), 0.0))
    raised = engine.history[-1].raised
    try:
        engine.advance(budget.upto(given))
    except MemoryError:
        _end_by_memory(engine, bracket, budget)
    except FAILURES as error:
        _end_by_failure(engine, bracket, error)
    if budget.memory.full():
        _end_by_memory(engine, bracket, budget)
    seconds = max(budget.now() - begin, 1e-9)
    unused = seconds < EARLY * given
    short = unused and engine.least(budget) > given  # the engine says what it needs: it was not tried
    early = unused and not short
    gained = engine.upper < own or bracket.lower > lower
    engine.idle = engine.idle + 1 if early and not gained else 0
    engine.ended = engine.ended or engine.idle >= IDLE
    raised += math.log(bracket.lower / lower) if 0 < lower < bracket.lower else float(lower <= 0 < bracket.lower)
    engine.history.append(_Point(spent + seconds, _log(min(engine.upper, engine.promised)), raised))
    engine.slices += not (short or engine.ahead(budget) > 0.0)
    bracket.turns.append(Turn(engine.name, begun, seconds, engine.upper, bracket.lower, bracket.upper))


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0 else -math.inf


def _end_by_failure(engine: Engine, bracket: Bracket, error: Exception) -> None:
    """End an engine whose solver has failed: what it has proved is kept, and the others go on."""
    engine.ended = True
    engine.release()
    bracket.note(f"{engine.name} ended early, its solver failed: {type(error).__name__}, {error}")


def _end_by_memory(engine: Engine, bracket: Bracket, budget: Budget) -> None:
    """End an engine that fills the memory, and free its state: the others may go on."""
    if not engine.ended:
        engine.ended = True
        engine.conclude()
        engine.release()
        bracket.out_of_memory(engine.name, budget)
        gc.collect()
