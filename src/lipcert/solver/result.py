"""The result of a solver of a RankTwoProblem: multipliers first, everything else is commentary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import numpy as np

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import Floats


class Status(Enum):
    """Why the solver stopped; the value is the sentence for the user."""

    OPTIMAL = "optimal: gap and infeasibilities are below the tolerance"
    NEARLY_OPTIMAL = "nearly optimal: progress stopped close to the tolerance"
    TIME_LIMIT = "time limit: the best multipliers found so far are returned"
    ITERATION_LIMIT = "iteration limit: the best multipliers found so far are returned"
    STALLED = "stalled: steps became too short to make progress"
    NO_INTERIOR = "no interior: the multipliers diverge, so the feasible set is empty or has no interior point"
    NUMERICAL_TROUBLE = "numerical trouble: a factorisation failed in spite of regularisation"
    INTERRUPTED = "interrupted: stopped by the callback or the keyboard, the best multipliers found so far are returned"


@dataclass(frozen=True)
class Record:
    """One line of history; seconds are those of the budget's clock."""

    iteration: int
    seconds: float
    primal: float
    dual: float
    primal_infeasibility: float
    dual_infeasibility: float
    gap: float

    @property
    def error(self) -> float:
        """The largest of gap and infeasibilities."""
        return max(self.gap, self.primal_infeasibility, self.dual_infeasibility)


@dataclass(frozen=True, eq=False)
class Progress(Record):
    """One iteration, as the callback sees it; `y` are the best multipliers so far, `dual` is what they give."""

    y: Floats


Callback = Callable[[Progress], bool | None]  # returning True stops the solver


@dataclass(frozen=True, eq=False)
class RankTwoResult:
    """Multipliers y (y >= 0 on inequalities) and the values that go with them.

    `dual` is b'y: an upper bound only in so far as S(y) >= 0, which the certificate code decides.
    """

    y: Floats
    X: Floats | None
    primal: float
    dual: float
    gap: float
    status: Status
    iterations: int
    seconds: float
    history: tuple[Record, ...]
    paused: PausedSolve | None = None  # continues from here if more time would help


class PausedSolve(Protocol):
    """A solve that was stopped by its budget."""

    def least(self, budget: Budget) -> float:
        """Seconds that it needs to come any further."""

    def ahead(self, budget: Budget) -> float:
        """Seconds that it is expected to need to a bound near its optimum; none where every step may give a bound."""

    def advance(self, budget: Budget, callback: Callback) -> RankTwoResult:
        """Go on from the last iterate; the callback sees the iterations of this call alone."""


class Log:
    """The history of a run, and the best multipliers among those that were dual feasible.

    Before there are any, the multipliers are zero, or the last ones where no iterate was ever feasible.
    """

    def __init__(self, rows: int, budget: Budget, callback: Callback | None) -> None:
        self.budget, self.callback = budget, callback
        self.begin = budget.now()
        self.history: list[Record] = []
        self.dual, self.y = np.inf, np.zeros(rows)
        self.floor = 1e-300  # smallest denominator of a relative gap

    def offer(self, dual: float, multipliers: Callable[[], Floats]) -> None:
        """Dual feasible multipliers, kept if they are the best."""
        if dual < self.dual:
            self.dual, self.y = dual, multipliers()

    def add(
        self, primal: float, dual: float, infeasibilities: tuple[float, float], multipliers: Callable[[], Floats]
    ) -> Record:
        """One iteration: values and infeasibilities of the primal and of the dual, and the multipliers."""
        gap = abs(dual - primal) / max(abs(primal), abs(dual), self.floor)
        seconds = self.budget.now() - self.begin
        record = Record(len(self.history), seconds, primal, dual, *infeasibilities, gap)
        self.history.append(record)
        if record.dual_infeasibility < 1e-9:
            self.offer(dual, multipliers)
        elif not np.isfinite(self.dual):
            self.y = multipliers()
        return record

    def show(self) -> bool:
        """Call the callback; whether it asks to stop."""
        if self.callback is None:
            return False
        last = self.history[-1]
        dual = self.dual if np.isfinite(self.dual) else last.dual
        return bool(self.callback(Progress(**vars(replace(last, dual=dual)), y=self.y)))

    def result(self, status: Status, X: Floats | None = None) -> RankTwoResult:
        """The result of the run so far."""
        seconds = self.budget.now() - self.begin
        last = self.history[-1] if self.history else Record(0, seconds, -np.inf, np.inf, np.inf, 0.0, np.inf)
        dual = self.dual if np.isfinite(self.dual) else last.dual
        return RankTwoResult(
            self.y, X, last.primal, dual, last.gap, status, last.iteration, seconds, tuple(self.history)
        )  # fmt: skip
