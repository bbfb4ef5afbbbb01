"""Where descents begin: the moments of a relaxation, samples that agree with them, random points, corners."""

from __future__ import annotations

import numpy as np

from lipcert.polynomial.monomials import Rows
from lipcert.polynomial.points.local import LocalProblem
from lipcert.rounding import Array

SPREAD = (1.0, 10.0)  # of random points in variables without bounds
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


def with_roots(local: LocalProblem, points: Array) -> Array:
    """The points with every two-valued variable at the nearer of its values."""
    points = points.copy()
    for i, (low, high) in local.roots.items():
        points[:, i] = np.where(np.abs(points[:, i] - low) <= np.abs(points[:, i] - high), low, high)
    return points


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
