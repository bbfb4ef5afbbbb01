"""The best feasible point that descents from many starts find, and whether it is proved feasible.

The search is seeded and counts its work: the same problem, seed and hints give the same point, unless a budget ends the
search before.

Descents start from the moments of a relaxation, samples that agree with them, random points and corners. `runaway`
searches boxes that grow: values that keep falling are evidence of an unbounded problem, not a proof, because a finite
optimum may lie beyond the largest box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.polynomial.monomials import Rows
from lipcert.polynomial.points.local import TOLERANCE, LocalProblem, candidates, descend, with_roots
from lipcert.rounding import Array

SPREAD = (1.0, 10.0)  # sizes of random points in variables without bounds
COVARIANCE = 300  # variables up to which second moments are used


def starts(
    local: LocalProblem, count: int, rng: np.random.Generator, hints: list[Array], moments: tuple[Rows, Array] | None
) -> Array:
    """Up to `count` points in the box: hints first, then the most promising of a larger random sample."""
    given = [np.nan_to_num(h) for h in hints if h.shape == (local.n,)]
    given.append(np.zeros(local.n))
    sample = [_uniform(local, 8 * count, rng, spread) for spread in SPREAD]
    sample.append(_corners(local, 8 * count, rng))
    if moments is not None:
        mean, draws = of_moments(local, *moments, 2 * count, rng)
        given.insert(0, mean)
        sample.append(draws)
    drawn = with_roots(local, local.clip(np.concatenate(sample)))
    order = np.argsort(local.merits(drawn), kind="stable")
    first = with_roots(local, local.clip(np.array(given)))
    best = drawn[order[: max(1, count // 2)]]
    others = drawn[order[len(best) :][rng.permutation(len(order) - len(best))]]
    return np.concatenate([first, best, others])[: max(count, len(first) + 1)]


def of_moments(
    local: LocalProblem, rows: Rows, values: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The first moments, and draws of a normal distribution with the first and second ones where all are there."""
    n = local.n
    degree = (rows >= 0).sum(axis=1)
    mean = np.zeros(n)
    single = np.flatnonzero(degree == 1)
    if len(single):  # without any moment rows have no columns
        mean[rows[single, -1]] = values[single]
    mean = np.nan_to_num(mean, posinf=0.0, neginf=0.0)
    pairs = np.flatnonzero(degree == 2)
    if n > COVARIANCE or not len(pairs):
        return mean, np.zeros((0, n))
    second = np.outer(mean, mean)
    i, j = rows[pairs, -2], rows[pairs, -1]
    second[i, j] = second[j, i] = np.nan_to_num(values[pairs], posinf=0.0, neginf=0.0)
    weights, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    draws = rng.normal(size=(count, n)) * np.sqrt(np.maximum(weights, 0.0))
    return mean, mean + draws @ vectors.T


def _ends(local: LocalProblem, spread: float) -> tuple[Array, Array]:
    """Finite ends of the box to draw from."""
    low = np.where(np.isfinite(local.lower), local.lower, np.minimum(-spread, local.upper - spread))
    high = np.where(np.isfinite(local.upper), local.upper, np.maximum(spread, low + spread))
    return low, np.maximum(low, high)


def _uniform(local: LocalProblem, count: int, rng: np.random.Generator, spread: float) -> Array:
    low, high = _ends(local, spread)
    return low + (high - low) * rng.random((count, local.n))


def _corners(local: LocalProblem, count: int, rng: np.random.Generator) -> Array:
    low, high = _ends(local, SPREAD[0])
    return np.where(rng.random((count, local.n)) < 0.5, low, high)


MOST_STARTS, FEWEST_STARTS = 24, 4
ENTRIES = 2e9  # terms times factors that a search evaluates at most, about
DESCENT = 400.0  # evaluations of one descent, values and derivatives, about
DISCOURAGED = 10  # starts without a feasible point, after which the search gives up
FAR = 1e12  # values beyond: nobody needs a better one
PROVED_LOSS = 1e-5  # relative: a proved point is preferred to one within tolerance that is better by no more than this


@dataclass(frozen=True, eq=False)
class FoundPoint:
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
    enough: Callable[[FoundPoint], bool] | None = None,
    budget: Budget | None = None,
    most: int = MOST_STARTS,
) -> FoundPoint | None:
    """The best point that was found; None when none was feasible up to the tolerance.

    `hints` and `moments` of a relaxation are tried first; the search ends early when a point is good `enough`.
    """
    if local.empty_box or not local.n:
        return None
    budget = budget or Budget.unlimited()
    rng = np.random.default_rng(seed)
    best: FoundPoint | None = None
    for k, start in enumerate(starts(local, min(most, _affordable(local)), rng, list(hints or ()), moments)):
        if k and (budget.over() or (best is None and k >= DISCOURAGED)):
            break
        best = better(local, best, judge(local, descend(local, start)))
        if best is not None and (local.sign * best.value < -FAR or (enough is not None and enough(best))):
            break
    return best


def judge(local: LocalProblem, point: Array, origin: str = "descent") -> FoundPoint | None:
    """The point, or a neighbour of it that is proved feasible; None when it is not even feasible up to tolerance."""
    if not np.all(np.isfinite(point)):
        return None
    point = local.clip(point)
    violation = float(local.violations(point[None, :])[0])
    loose = FoundPoint(point, float(local.objectives(point[None, :])[0]), violation, False, origin)
    usable = violation <= TOLERANCE and bool(np.isfinite(loose.value))
    if violation > 100 * TOLERANCE:
        return None
    proved: FoundPoint | None = None
    for k, candidate in enumerate(candidates(local, point)):
        if proved is not None and k >= 2:  # the point itself and with whole numbers: the better one
            break
        if not np.all(np.isfinite(candidate)) or float(local.violations(candidate[None, :])[0]) > TOLERANCE:
            continue
        value = local.proved(candidate)
        if value is not None:
            proved = better(local, proved, FoundPoint(candidate, value, 0.0, True, origin))
    if proved is not None and (not usable or _near(local, proved, loose)):
        return proved
    return loose if usable else None


def _near(local: LocalProblem, proved: FoundPoint, loose: FoundPoint) -> bool:
    loss = local.sign * (proved.value - loose.value)
    return loss <= PROVED_LOSS * (1.0 + abs(loose.value))


def better(local: LocalProblem, one: FoundPoint | None, other: FoundPoint | None) -> FoundPoint | None:
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


SIZES = (1e1, 1e3, 1e5)


def runaway(local: LocalProblem, hints: list[Array], seed: int = 0, budget: Budget | None = None) -> FoundPoint | None:
    """The best point of the largest box, when each box has points much better than those of the box before."""
    if np.all(np.isfinite(local.lower) & np.isfinite(local.upper)) or local.empty_box:
        return None
    best: FoundPoint | None = None
    for size in SIZES:
        inside = replace(local, lower=np.maximum(local.lower, -size), upper=np.minimum(local.upper, size))
        if np.any(inside.lower > inside.upper):
            return None
        known = [*hints, *([] if best is None else [best.point, 100.0 * best.point])]
        found = search(inside, seed=seed, hints=known, budget=budget, most=6)
        if found is None:
            return None
        if best is not None and local.sign * (best.value - found.value) < max(1.0, abs(best.value)):
            return None
        best = found
    return best
