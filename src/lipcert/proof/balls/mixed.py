"""Euclidean norms beside intervals, in balls: the formulas of `bounds.gains`, in the order of the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof.balls.cells import Hint, proved_slopes, weighted
from lipcert.proof.balls.gradients import Readers, interval_gradients, times
from lipcert.proof.balls.maps import operator_norm
from lipcert.proof.balls.numbers import (
    Balls,
    above,
    balls,
    below,
    largest,
    lengths,
    load_flint,
    product,
    smaller,
    spectral,
    total,
)


class _Weights:
    """The matrices of a network in balls, and spectral norms of their active rows."""

    def __init__(self, net: Network, slopes: Hint) -> None:
        self.net, self.slopes = net, slopes
        self.steep = [s.magnitude for s in slopes]
        self.of = {(i, j): balls(dense(w)) for i, b in enumerate(net.blocks, start=1) for j, w in b.terms}
        self._norms: dict[tuple[int, int], Any] = {}

    def length(self, i: int, j: int) -> Any:
        """The spectral norm of the rows of block i that are not off, as it reads x_j."""
        if (i, j) not in self._norms:
            active: NDArray[np.bool_] = self.steep[i - 1] > 0
            self._norms[i, j] = spectral(self.of[i, j][active])
        return self._norms[i, j]


def mixed_bound(problem: Problem, pre: Hint) -> Any:
    """The least over the blocks that no way misses of what entries and of what Euclidean norms give."""
    net, norm = problem.network, problem.norm
    slopes = proved_slopes(net, pre)
    weights, readers = _Weights(net, slopes), Readers(net)
    _, after, reach = _before(weights, norm.p)
    rows = [_behind(weights, readers, c) for c in np.atleast_2d(problem.c)]
    whole = norm.out
    if whole is None:
        best = lengths(rows[0][0][0], norm.dual.p)[()]
    else:
        best = operator_norm(np.stack([row[0][0] for row in rows]), norm.p, whole)
    spans = _spans(weights, whole, rows) if whole is not None else [length for _, length in rows[0]]
    for i in range(net.depth + 1):
        if any(j < i for block in net.blocks[i:] for j, _ in block.terms):
            continue
        by_rows = np.array([total(row[i][0] * after[i])[()] for row in rows], dtype=object)
        best = best.min(lengths(by_rows, whole or "1")[()]).min(reach[i] * spans[i])
    return best


def neuron_norms(net: Network, slopes: Hint, p: str) -> list[Balls]:
    """Bounds of the dual norms of the gradients of z_1 .. z_m."""
    return _before(_Weights(net, slopes), p)[0]


def _before(weights: _Weights, p: str) -> tuple[list[Balls], list[Balls], list[Any]]:
    """Bounds of the dual norms of the gradients of z_1 .. z_m, of those of x_0 .. x_m, and of |J t|_2 of these."""
    net, arb = weights.net, load_flint().arb
    dual = {"inf": "1", "1": "inf", "2": "2"}[p]
    after, reach = [balls(np.ones(net.inputs))], [arb(net.inputs).sqrt() if p == "inf" else arb(1)]
    before: list[Balls] = []
    for i, block in enumerate(net.hidden, start=1):
        own = [(j, weights.of[i, j]) for j, _ in block.terms]
        by_rows = sum(product(abs(w), after[j]) for j, w in own)
        by_norm = sum(lengths(abs(w), "2") * reach[j] for j, w in own)
        z = smaller(smaller(by_rows, by_norm), lengths(_jacobian(weights, i), dual))
        steep = balls(weights.steep[i - 1])
        before.append(z)
        after.append(steep * z)
        steps = sum((largest(steep) * weights.length(i, j) * reach[j] for j, _ in own), arb(0))
        reach.append(lengths(after[-1], "2")[()].min(steps))
    return before, after, reach


def _jacobian(weights: _Weights, i: int) -> Balls:
    """The largest |derivatives| of z_i by the input, intervals through the chain rule, a row for each neuron."""
    net = weights.net
    pending = {j: (weights.of[i, j], weights.of[i, j]) for j, _ in net.blocks[i - 1].terms}
    width = net.shape[i]
    for k in range(i - 1, 0, -1):
        if k not in pending:
            continue
        u = Interval(*(np.tile(end, (width, 1)) for end in weights.slopes[k - 1]))
        g = times(u, Interval(below(pending[k][0]), above(pending[k][1])))
        for j, _ in net.blocks[k - 1].terms:
            low, high = weighted(weights.of[k, j].T, Interval(g.lo.T, g.hi.T))
            low, high = low.T, high.T
            pending[j] = (pending[j][0] + low, pending[j][1] + high) if j in pending else (low, high)
    lo, hi = below(pending[0][0]), above(pending[0][1])
    return balls(Interval(lo, hi).magnitude)


def _behind(weights: _Weights, readers: Readers, c: Any) -> list[tuple[Balls, Any]]:
    """Bounds of |g_ij| and of |g_i|_2 for the gradients by x_0 .. x_m of c'scores."""
    net, arb = weights.net, load_flint().arb
    intervals = interval_gradients(readers, weights.slopes, c)
    found: dict[int, tuple[Balls, Any]] = {}
    passed: dict[int, tuple[Balls, Any]] = {}
    for j in range(net.depth, -1, -1):
        entries, size = balls(intervals[j].magnitude), arb(0)
        by_norm, by_rows, by_length = balls(np.zeros(net.shape[j])), balls(np.zeros(net.shape[j])), arb(0)
        for i, _ in net.readers[j]:
            w = weights.of[i, j]
            if i > net.depth:
                own = abs(product(w.T, balls(c)))
                by_norm, by_rows, by_length = by_norm + own, by_rows + own, by_length + lengths(own, "2")[()]
            else:
                s, length = passed[i]
                by_norm, by_rows = by_norm + lengths(abs(w.T), "2") * length, by_rows + product(abs(w.T), s)
                by_length = by_length + weights.length(i, j) * length
        entries = smaller(entries, smaller(by_norm, by_rows))
        size = lengths(entries, "2")[()].min(by_length)
        found[j] = entries, size
        if j:
            steep = balls(weights.steep[j - 1])
            s = steep * entries
            passed[j] = s, lengths(s, "2")[()].min(largest(steep) * size)
    return [found[j] for j in range(net.depth + 1)]


def _spans(weights: _Weights, out: str, rows: list[list[tuple[Balls, Any]]]) -> list[Any]:
    """Bounds of the norms from 2 to q of the Jacobians behind x_0 .. x_m."""
    net, arb = weights.net, load_flint().arb
    spans: dict[int, Any] = {}
    for j in range(net.depth, -1, -1):
        own = arb(0)
        for i, _ in net.readers[j]:
            if i > net.depth:
                own += operator_norm(weights.of[i, j], "2", out)
            else:
                own += arb(float(weights.steep[i - 1].max(initial=0.0))) * weights.length(i, j) * spans[i]
        spans[j] = own.min(lengths(np.array([row[j][1] for row in rows], dtype=object), out)[()])
    return [spans[j] for j in range(net.depth + 1)]
