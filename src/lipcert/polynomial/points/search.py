"""The best feasible point that descents from many starts find, and whether it is proved feasible.

Seeded and counted: the same problem, seed and hints give the same point, unless a budget ends the search before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.polynomial.monomials import Rows
from lipcert.polynomial.points.descent import descend
from lipcert.polynomial.points.local import TOLERANCE, LocalProblem
from lipcert.polynomial.points.repair import candidates
from lipcert.polynomial.points.starts import starts
from lipcert.rounding import Array

MOST_STARTS, FEWEST_STARTS = 24, 4
ENTRIES = 2e9  # terms times factors that a search evaluates at most, about
DESCENT = 400.0  # evaluations of one descent, values and derivatives, about
DISCOURAGED = 10  # starts without a feasible point, after which the search gives up
FAR = 1e12  # values beyond: nobody needs a better one
PROVED_LOSS = 1e-5  # relative: a proved point is preferred to one within tolerance that is better by no more than this


@dataclass(frozen=True, eq=False)
class Found:
    """A point, its value, the largest relative violation of a constraint, and whether it is proved feasible.

    When `proved`, `value` is the exact value rounded outward: a theorem about the optimum. Else it is evidence.
    """

    point: Array
    value: float
    violation: float
    proved: bool
    origin: str = "descent"


def search(
    local: LocalProblem,
    *,
    seed: int = 0,
    hints: list[Array] | None = None,
    moments: tuple[Rows, Array] | None = None,
    enough: Callable[[Found], bool] | None = None,
    budget: Budget | None = None,
    most: int = MOST_STARTS,
) -> Found | None:
    """The best point that was found; None when none was feasible up to the tolerance.

    `hints` and `moments` of a relaxation are tried first; the search ends early when a point is good `enough`.
    """
    if local.empty_box or not local.n:
        return None
    budget = budget or Budget.unlimited()
    rng = np.random.default_rng(seed)
    best: Found | None = None
    for k, start in enumerate(starts(local, min(most, _affordable(local)), rng, list(hints or ()), moments)):
        if k and (budget.over() or (best is None and k >= DISCOURAGED)):
            break
        best = better(local, best, judge(local, descend(local, start)))
        if best is not None and (local.sign * best.value < -FAR or (enough is not None and enough(best))):
            break
    return best


def judge(local: LocalProblem, point: Array, origin: str = "descent") -> Found | None:
    """The point, or a neighbour of it that is proved feasible; None when it is not even feasible up to tolerance."""
    if not np.all(np.isfinite(point)):
        return None
    point = local.clip(point)
    violation = float(local.violations(point[None, :])[0])
    loose = Found(point, float(local.objectives(point[None, :])[0]), violation, False, origin)
    usable = violation <= TOLERANCE and bool(np.isfinite(loose.value))
    if violation > 100 * TOLERANCE:
        return None
    proved: Found | None = None
    for k, candidate in enumerate(candidates(local, point)):
        if proved is not None and k >= 2:  # the point itself and with whole numbers: the better one
            break
        if not np.all(np.isfinite(candidate)) or float(local.violations(candidate[None, :])[0]) > TOLERANCE:
            continue
        value = local.proved(candidate)
        if value is not None:
            proved = better(local, proved, Found(candidate, value, 0.0, True, origin))
    if proved is not None and (not usable or _near(local, proved, loose)):
        return proved
    return loose if usable else None


def _near(local: LocalProblem, proved: Found, loose: Found) -> bool:
    loss = local.sign * (proved.value - loose.value)
    return loss <= PROVED_LOSS * (1.0 + abs(loose.value))


def better(local: LocalProblem, one: Found | None, other: Found | None) -> Found | None:
    """The better of two; a proved one wins where the other is better by a little only."""
    if one is None or other is None:
        return one if other is None else other
    if one.proved != other.proved:
        proved, loose = (one, other) if one.proved else (other, one)
        return proved if _near(local, proved, loose) else loose
    return other if local.sign * (other.value - one.value) < 0 else one


def _affordable(local: LocalProblem) -> int:
    """Starts by counted work, so that a large problem gets few."""
    entries = local.goal.entries + local.above.entries + local.zero.entries + local.n**2
    return int(np.clip(ENTRIES / (DESCENT * max(1, entries)), FEWEST_STARTS, MOST_STARTS))
