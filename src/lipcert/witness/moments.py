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

from lipcert.problem.network import Network
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.witness.program import Patterns

_LEADING = 24  # eigenvectors
_WHOLE = 300  # the order up to which all eigenvectors are computed


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points in chart coordinates and patterns, row by row; `known` neurons have a sign in the moment matrix.

    Without points (a relaxation over signs alone) they are zero.
    """

    points: Array
    patterns: Patterns
    known: Patterns


def candidates(
    net: Network, relaxation: Relaxation, X: Array, rng: np.random.Generator, count: int = 192
) -> Candidates:
    """The mean, leading eigenvectors with both signs, and `count` normal samples; nothing where X is no such matrix."""
    y = _vectors(X, rng, count) if X.shape == (relaxation.space.size,) * 2 else np.zeros((0, relaxation.space.size))
    points = np.zeros((len(y), net.inputs))
    signs = np.zeros((len(y), net.neurons))
    starts = np.concatenate([[0], np.cumsum(net.shape[1:-1])])
    for name, where in relaxation.space.slices.items():
        width = where.stop - where.start
        members, total = relaxation.blocks.get(name, (np.arange(width), width))
        layer = _layer(name)
        if name == "w" and total == net.inputs:
            points[:, members] = np.clip(y[:, where], -1.0, 1.0)
        elif layer is not None and layer <= net.depth and total == net.shape[layer]:
            signs[:, starts[layer - 1] + members] = y[:, where]
    return Candidates(points, signs > 0, np.any(signs != 0, axis=0))


def _layer(name: str) -> int | None:
    """The hidden layer of a block of signs: v is that of a single one, v2 the second."""
    found = re.fullmatch(r"v(\d*)", name)
    return None if found is None else int(found[1] or 1)


def _vectors(X: Array, rng: np.random.Generator, count: int) -> Array:
    """Rows y with y_0 about 1 from a matrix that should be positive semidefinite; none from one with NaN."""
    if not np.all(np.isfinite(X)) or not X[0, 0] > 0:
        return np.zeros((0, len(X)))
    X = (X + X.T) / (2 * X[0, 0])
    mean = X[0].copy()
    values, vectors = _leading(X)
    spread, axes = _leading(X - np.outer(mean, mean))
    samples = mean + (rng.standard_normal((count, spread.size)) * np.sqrt(np.maximum(spread, 0.0))) @ axes.T
    leading = vectors.T[:_LEADING] * np.sqrt(np.maximum(values[:_LEADING], 0.0))[:, None]
    leading = leading * np.where(leading[:, :1] < 0, -1.0, 1.0)
    first = leading[:, :1]
    scaled = leading / np.where(first > 1e-3, first, 1.0)
    rows = np.concatenate([mean[None, :], scaled, mean + leading, mean - leading, samples])
    return rows[np.all(np.isfinite(rows), axis=1)]


def _leading(X: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first, and eigenvectors as columns: all of a small matrix, the leading ones of a large."""
    from scipy.sparse.linalg import ArpackError, eigsh  # slow to import

    try:
        if len(X) <= _WHOLE:
            values, vectors = np.linalg.eigh(X)
        else:
            values, vectors = eigsh(X, k=_LEADING, which="LA", tol=1e-3, v0=np.ones(len(X)), maxiter=300)
    except (ArpackError, np.linalg.LinAlgError):
        return np.zeros(0), np.zeros((len(X), 0))
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]
