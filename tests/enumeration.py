"""The exact Lipschitz constant of a small piecewise linear network on a box, by enumerating realisable patterns.

A depth-first search over neurons, block by block: under the pattern so far every pre-activation is affine in x. A sign
is realisable when a sampled point has it, or else when a linear program finds a point with a positive margin.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog

from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.region import Box, Polytope
from lipcert.rounding import Array

MARGIN = 1e-8

Rows = list[tuple[Array, float]]
Values = list[tuple[Array, Array]]


def exact_constant(net: Network, region: Box | Polytope, c: Array, norm: Norm = INF, samples: int = 400) -> float:
    """max ||gradient||_dual over the linear pieces that meet the box, cut by half-spaces, in a set with interior."""
    box = region.base if isinstance(region, Polytope) else region
    assert isinstance(box, Box)
    points = np.random.default_rng(0).uniform(box.lo, box.hi, size=(samples, box.size))
    rows: Rows = []
    if isinstance(region, Polytope):
        points = points[np.all(region.b - points @ region.A.T > MARGIN, axis=1)]
        rows = [(-a, float(b)) for a, b in zip(region.A, region.b, strict=True)]
    piece = _Piece(net, box, c, norm)
    return _descend(piece, 0, [(np.eye(net.inputs), np.zeros(net.inputs))], rows, points)


def exact_ranges(net: Network, box: Box, samples: int = 400) -> tuple[Array, Array]:
    """The least and the largest value of every entry of the Jacobian over the same pieces."""
    points = np.random.default_rng(0).uniform(box.lo, box.hi, size=(samples, box.size))
    piece = _Ranges(net, box, np.eye(net.outputs), INF)
    _descend(piece, 0, [(np.eye(net.inputs), np.zeros(net.inputs))], [], points)
    return piece.low, piece.high


def operator(J: Array, norm: Norm) -> float:
    """The dual norm of a gradient, or the exact operator norm of a Jacobian, by the corners of one of the balls."""
    if norm.out is None:
        return float(norm.dual.of(J[None, :])[0])
    if norm.out == "inf":
        return float(norm.dual.of(J).max())
    if norm.p == "1":
        return float(norm.outputs.of(J.T).max())
    if norm.p == norm.out == "2":
        return float(np.linalg.norm(J, 2))
    size = J.shape[1] if norm.p == "inf" else J.shape[0]
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
    return float((norm.outputs.of(corners @ J.T) if norm.p == "inf" else norm.dual.of(corners @ J)).max())


class _Piece:
    def __init__(self, net: Network, box: Box, c: Array, norm: Norm) -> None:
        self.net, self.box, self.c, self.norm = net, box, c, norm

    def value(self, G: Array) -> float:
        """Of a piece where the scores are G x + h."""
        return operator(self.c @ G, self.norm)


class _Ranges(_Piece):
    """Keeps the ends of all entries."""

    def __init__(self, net: Network, box: Box, c: Array, norm: Norm) -> None:
        super().__init__(net, box, c, norm)
        self.low, self.high = np.full((net.outputs, net.inputs), np.inf), np.full((net.outputs, net.inputs), -np.inf)

    def value(self, G: Array) -> float:
        self.low, self.high = np.minimum(self.low, G), np.maximum(self.high, G)
        return 0.0


def _descend(piece: _Piece, i: int, values: Values, rows: Rows, points: Array) -> float:
    """Block i of the network, where the values before it are G x + h on the piece {a'x + b >= 0 for (a, b) in rows}."""
    net, block = piece.net, piece.net.blocks[i]
    G, h = np.zeros((block.width, net.inputs)), block.bias
    for source, weight in block.terms:
        A = weight if isinstance(weight, np.ndarray) else weight.toarray()
        G, h = G + A @ values[source][0], h + A @ values[source][1]
    if i == net.depth:
        return piece.value(G)
    if not block.activation.kinked:
        return _descend(piece, i + 1, [*values, (G, h)], rows, points)
    return _split(piece, i, (G, h), [], values, rows, points)


def _split(
    piece: _Piece, i: int, z: tuple[Array, Array], signs: list[bool], values: Values, rows: Rows, points: Array
) -> float:
    (G, h), j = z, len(signs)
    if j == len(h):
        slopes = piece.net.activations[i].derivative(np.where(signs, 1.0, -1.0))
        return _descend(piece, i + 1, [*values, (slopes[:, None] * G, slopes * h)], rows, points)
    at = points @ G[j] + h[j]
    best = 0.0
    for sign in (True, False):
        s = 1.0 if sign else -1.0
        half = (s * G[j], s * h[j])
        kept = points[s * at > MARGIN]
        if not np.any(G[j]):
            if (h[j] > 0) == sign:  # a constant neuron has one sign; exactly 0 changes no gradient
                best = max(best, _split(piece, i, z, [*signs, sign], values, rows, points))
        elif len(kept) or _realisable([*rows, half], piece.box):
            best = max(best, _split(piece, i, z, [*signs, sign], values, [*rows, half], kept))
    return best


def _realisable(rows: Rows, box: Box) -> bool:
    A, b = np.array([a for a, _ in rows]), np.array([b for _, b in rows])
    last = np.abs(A[-1]) @ np.maximum(np.abs(box.lo), np.abs(box.hi))
    if A[-1] @ (box.lo + box.hi) / 2 + np.abs(A[-1]) @ (box.hi - box.lo) / 2 + b[-1] <= MARGIN * (1 + last) * 1e-3:
        return False
    n = A.shape[1]
    answer = linprog(
        np.r_[np.zeros(n), -1.0],
        A_ub=np.c_[-A, np.ones(len(b))],
        b_ub=b,
        bounds=[*zip(box.lo, box.hi, strict=True), (None, 1.0)],
        method="highs",
    )
    return bool(answer.status == 0 and answer.x[-1] > MARGIN)
