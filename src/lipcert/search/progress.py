"""Progress and end of every computation: the bracket so far, and how the computation ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from lipcert.solver import Progress as Iteration

NOTHING = 1e-140  # a constant below this is zero but for rounding
CLOSED = 1e-6  # the relative gap at which a bracket is called closed: about what proofs lose to rounding


def relative_gap(lower: float | None, upper: float) -> float | None:
    """(upper - lower) / lower, when both are there and lower > 0 (0 when both are 0 but for rounding)."""
    if lower is None or not math.isfinite(upper):
        return None
    if lower <= 0.0:
        return 0.0 if upper <= NOTHING else None
    return (upper - lower) / lower


class Status(Enum):
    """How the computation ended; the value is the sentence for a person."""

    DONE = "finished"
    OPEN = "ended with a gap that nothing here closes"
    TIME_LIMIT = "stopped at the time limit with the best proved bracket so far"
    WORK_LIMIT = "stopped when the work was done, with the best proved bracket so far"
    MEMORY_LIMIT = "stopped at the memory limit with the best proved bracket so far"
    INTERRUPTED = "interrupted with the best proved bracket so far"


@dataclass(frozen=True)
class Progress:
    """The bracket in hand while `bound` works, `seconds` after its start.

    `stage` is the method at work, `iteration` the solver's last, when one runs.
    """

    seconds: float
    lower: float | None
    upper: float
    stage: str
    iteration: Iteration | None = None

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower, as `relative_gap` has it."""
        return relative_gap(self.lower, self.upper)
