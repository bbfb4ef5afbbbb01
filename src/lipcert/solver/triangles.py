"""The search for violated triangles of signs, and which moments a list of them speaks about.

    excess of a triangle  e = -1 - (pq X_ab + qr X_bc + pr X_ac) <= 0

In a violated triangle the edge of largest |x| pulls down, pq = -sign(x_ab); so the search looks at pairs with large
|x_ab|, and for each the violation over all c is one row, |x_bc - sign x_ac| - (1 - |x_ab|).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.relaxation.triangles import NO_TRIANGLES, Triangles
from lipcert.solver.climb import Singles

TRIANGLE_DRAW = 1.0  # operations of a search for violated triangles, times the order cubed

# Entries that one search for violated triangles looks at. Where all pairs have more, a random part of the pairs is
# taken.
TRIANGLE_LOOKS = 4e8

_STRONG = 0.4  # |x| of an edge that is looked at; a triangle whose three edges are weaker is violated by at most 0.2
_BLOCK = 256  # pairs at a time: their rows stay in the cache
_FROM_BLOCK = 3000  # triangles of one block
LEAST = 0.02  # a violation that is worth a row


def violated(X: Singles, threshold: float, most: int, seed: int) -> tuple[Triangles, Floats, float]:
    """Triangles violated by more than about `threshold`, `most` at most; their violations; the next threshold."""
    size = len(X)
    rng = np.random.default_rng(seed)
    a, b = np.nonzero(np.triu(np.abs(X) > _STRONG, 1))
    if len(a) * size > TRIANGLE_LOOKS:
        some = rng.random(len(a)) < TRIANGLE_LOOKS / (len(a) * size)
        a, b = a[some], b[some]
    sign = -np.sign(X[a, b])
    room = 1.0 - np.abs(X[a, b])
    pieces = [_of_block(X, a[k], b[k], sign[k], room[k], threshold) for k in _blocks(len(a))]
    if not pieces:
        return NO_TRIANGLES, np.zeros(0), max(threshold / 2, LEAST)
    nodes, signs, size_of = (np.concatenate(part) for part in zip(*pieces, strict=True))
    following = max(threshold / 2, LEAST)
    if len(nodes) > most:
        worst = np.argpartition(-size_of, most)[:most]
        nodes, signs, size_of = nodes[worst], signs[worst], size_of[worst]
        following = max(float(size_of.min()), LEAST)
    return Triangles.of(nodes, signs), size_of, following


def _blocks(count: int) -> list[slice]:
    return [slice(k, k + _BLOCK) for k in range(0, count, _BLOCK)]


Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def _of_block(
    X: Singles,
    a: np.ndarray,
    b: np.ndarray,
    sign: np.ndarray,
    room: np.ndarray,
    threshold: float,
) -> Found:
    """Nodes, signs and violations from these pairs."""
    pull = X[b]
    pull *= sign[:, None]
    pull += X[a]
    size = np.abs(pull)
    size -= room[:, None]
    flat = np.flatnonzero(size > threshold)
    if len(flat) > _FROM_BLOCK:
        flat = flat[np.argpartition(-size.ravel()[flat], _FROM_BLOCK)[:_FROM_BLOCK]]
    pair, c = np.divmod(flat, len(X))
    second, third = sign[pair].astype(np.int64), -np.sign(pull.ravel()[flat]).astype(np.int64)
    nodes = np.stack([a[pair], b[pair], c], axis=1)
    signs = np.stack([np.ones_like(second), second, third], axis=1)
    return nodes, signs, size.ravel()[flat].astype(np.float64)


class Edges:
    """Which moments the triangles of a list speak about: excess = -1 - B' x, x the moments at the places `at`."""

    def __init__(self, triangles: Triangles, size: int) -> None:
        (a, b, c), (p, q, r) = triangles.nodes.T, triangles.signs.T
        places = np.concatenate([a * size + b, b * size + c, a * size + c])
        signs = np.concatenate([p * q, q * r, p * r]).astype(np.float32)
        self.at, edge = np.unique(places, return_inverse=True)
        self.mirror: Integers = (self.at % size) * size + self.at // size
        which = np.tile(np.arange(len(triangles), dtype=np.int32), 3)
        self.B = sp.csr_matrix((signs, (edge.astype(np.int32), which)), shape=(len(self.at), len(triangles)))
        self.turned = sp.csr_matrix(self.B.T)

    def excess(self, X: Singles) -> Singles:
        return np.asarray(-1.0 - self.turned @ X.ravel()[self.at], dtype=np.float32)
