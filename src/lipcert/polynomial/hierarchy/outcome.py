"""How the work on a polynomial problem ended; each value is the sentence for a person."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """What is known now. Whether something is proved is part of every sentence."""

    CLOSED = "solved: the proved bound and the value of a point agree"
    GAP = "a bound is proved; the best point found leaves a gap"
    BOUND = "a bound is proved; no feasible point was found"
    INFEASIBLE = "infeasible: it is proved that no point satisfies the constraints"
    SEEMS_INFEASIBLE = "seems infeasible, not proved: the relaxation has no solution, and no feasible point was found"
    UNBOUNDED = "seems unbounded: feasible points far out have values beyond every limit tried"
    NOT_CERTIFIED = "not certified: no bound was proved"
