"""A moment matrix to points and patterns: where a relaxation believes the largest gradient to be.

X is a matrix of second moments of y = (1, w, t, v, ...): were the relaxation exact, X = y y' at the optimum. Its first
row is the mean of y, its leading eigenvectors are y where one or a few optima dominate, and normal samples with these
moments spread over the rest (Goemans and Williamson's rounding). The block w of such a y is a point of the box in chart
coordinates, the signs of its blocks v are an activation pattern. Nothing here is trusted: a point is a candidate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.network import Network
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.witness.program import Patterns

MOMENT_SAMPLES = 192  # normal samples with the moments of a matrix
MOMENT_LEADING = 24  # leading eigenvectors that are taken as points

_WHOLE = 300  # order of a matrix up to which all eigenvectors are computed
_SPARE = 8  # more columns than eigenvectors in the iteration of larger matrices
_ITERATIONS = 8


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points in chart coordinates and patterns, row by row; `known` neurons have a sign in the moment matrix.

    Without points (a relaxation over signs alone) they are zero.
    """

    points: Array
    patterns: Patterns
    known: Patterns


def candidates(net: Network, relaxation: Relaxation, X: Array, rng: np.random.Generator, budget: Budget) -> Candidates:
    """The mean, leading eigenvectors with both signs, and normal samples; nothing where X is not a moment matrix."""
    y = np.zeros((0, relaxation.space.size))
    if X.shape == (relaxation.space.size,) * 2 and budget.expected(2 * _operations(len(X))) <= budget.left():
        budget.charge(2 * _operations(len(X)))
        y = _vectors(X, rng)
    points = np.zeros((len(y), net.inputs))
    signs = np.zeros((len(y), net.neurons))
    starts = np.concatenate([[0], np.cumsum([b.width for b in net.hidden])])
    for name, where in relaxation.space.slices.items():
        width = where.stop - where.start
        members, total = relaxation.blocks.get(name, (np.arange(width), width))
        block = _block(name)
        if name == "w" and total == net.inputs:
            points[:, members] = np.clip(y[:, where], -1.0, 1.0)
        elif block is not None and 1 <= block <= net.depth and total == net.shape[block]:
            signs[:, starts[block - 1] + members] = y[:, where]
    return Candidates(points, signs > 0, np.any(signs != 0, axis=0))


def _block(name: str) -> int | None:
    """The hidden block that signs belong to: v is that of a single one, v2 the second."""
    found = re.fullmatch(r"v(\d*)", name)
    return None if found is None else int(found[1] or 1)


def _vectors(X: Array, rng: np.random.Generator) -> Array:
    """Rows y with y_0 about 1 from a matrix that should be positive semidefinite; none from one with NaN."""
    if not np.all(np.isfinite(X)) or not X[0, 0] > 0:
        return np.zeros((0, len(X)))
    X = (X + X.T) / (2 * X[0, 0])
    mean = X[0].copy()
    values, vectors = _leading(X, rng)
    spread, axes = _leading(X - np.outer(mean, mean), rng)
    noise = rng.standard_normal((MOMENT_SAMPLES, spread.size))
    samples = mean + (noise * np.sqrt(np.maximum(spread, 0.0))) @ axes.T
    count = MOMENT_LEADING
    leading = vectors.T[:count] * np.sqrt(np.maximum(values[:count], 0.0))[:, None]
    leading = leading * np.where(leading[:, :1] < 0, -1.0, 1.0)
    first = leading[:, :1]
    scaled = leading / np.where(first > 1e-3, first, 1.0)
    rows = np.concatenate([mean[None, :], scaled, mean + leading, mean - leading, samples])
    return rows[np.all(np.isfinite(rows), axis=1)]


def _leading(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Eigenvalues, largest first, and eigenvectors as columns: all of a small matrix, the leading ones of a large.

    The leading ones are approximate, from a fixed number of subspace iterations: good enough to round points from.
    """
    try:
        if len(X) <= _WHOLE:
            values, vectors = np.linalg.eigh(X)
        else:
            Q = rng.standard_normal((len(X), MOMENT_LEADING + _SPARE))
            for _ in range(_ITERATIONS):
                Q = np.linalg.qr(X @ Q)[0]
            values, rotation = np.linalg.eigh(Q.T @ X @ Q)
            vectors = Q @ rotation
    except np.linalg.LinAlgError:
        return np.zeros(0), np.zeros((len(X), 0))
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def _operations(order: int) -> float:
    """The operations of `_leading`."""
    if order <= _WHOLE:
        return 10.0 * order**3
    return 2.0 * (_ITERATIONS + 1) * (MOMENT_LEADING + _SPARE) * order**2
