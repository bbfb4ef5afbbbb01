"""What a solver of a RankTwoProblem hands back: multipliers first, everything else is commentary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

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


@dataclass(frozen=True, eq=False)
class Progress:
    """One iteration, as the callback sees it; `y` are multipliers of the given problem (y >= 0 on inequalities)."""

    iteration: int
    seconds: float
    primal: float
    dual: float
    primal_infeasibility: float
    dual_infeasibility: float
    gap: float
    y: Floats


Callback = Callable[[Progress], bool | None]  # returning True stops the solver


@dataclass(frozen=True)
class Record:
    """One line of history."""

    iteration: int
    seconds: float
    primal: float
    dual: float
    primal_infeasibility: float
    dual_infeasibility: float
    gap: float


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
