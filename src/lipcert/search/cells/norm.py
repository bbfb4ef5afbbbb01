"""The Lipschitz constant on every cell of a box: upper bounds by lines, and lower bounds at points of the cell.

A gradient jumps where a ReLU turns, so a box has several gradients, and one point shows one of them. Any plane through
a box separates two of its corners: corners, moved inward a little so that they lie on no kink, find both sides. The
part of the box between two planes that meet touches an edge of the box: points between the crossings are tried there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.operator_norms import corners, vector_norms
from lipcert.bounds.propagation import ForwardPass
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.cells import Cells
from lipcert.proof.partition import BoxQuestion, lines_on, preactivations_on
from lipcert.rounding import TINY, Array, gamma
from lipcert.search.blocks import Found, Hints
from lipcert.search.scores import best_coordinates, cell_operations, coordinate_scores
from lipcert.witness.directions import jacobians, operator_norms, steepest

_CORNERS_UP_TO = 5  # inputs: all corners are tried
_INWARD = 0.97  # how far out corners are
_CROSSINGS = 3  # on one edge of a box that points are tried between
_CLOSED = 1e-3  # a bracket that is this narrow needs no more points
_SCATTERED = 8  # points besides
_NUMBERS = 1 << 20  # in one array of values at points
_PASSES, _CALLS = 4.0, 1e5  # operations for one cell: so many times those of its linear forms, and so many besides


@dataclass(frozen=True, eq=False)
class NormOfCells:
    """The objective: the largest norm of the gradient, or of the Jacobian, on every cell (`search.blocks`)."""

    question: BoxQuestion

    @property
    def batch(self) -> int:
        return self.question.batch

    @property
    def sign_columns(self) -> int:
        return self.question.columns

    @property
    def operations(self) -> float:
        return _PASSES * cell_operations(self.question.problem) + _CALLS

    def bound(self, cells: Cells, hints: Hints | None = None) -> Found:
        """Bound some cells; the point of each is the best of those that were tried."""
        question, net, points = self.question, self.question.problem.network, PointsOfCells(self.question)
        if net.depth:
            boxes = question.places(cells.lo, cells.hi)
            pre, signs = preactivations_on(question, boxes, cells.signs)
            upper, linear = lines_on(question, boxes, pre)
        else:
            upper, signs = np.full(len(cells), prove_linear(question.problem).upper), cells.signs
        if hints is not None:
            return Found(upper, points.proved(hints[0]), *hints, signs)
        score: Array = np.zeros_like(cells.lo)
        if net.depth:
            radius = boxes.hi / 2 - boxes.lo / 2
            score = coordinate_scores(net, slope_bounds(net, pre), linear, radius)[:, : cells.lo.shape[1]]
        best, lower = points.best(cells.lo, cells.hi, upper)
        return Found(upper, lower, best, best_coordinates(cells.lo, cells.hi, score), signs)


def shares(inputs: int) -> Array:
    """The points of a box that are tried, in half widths from its middle: (points, inputs), the middle first."""
    golden = (1 + np.sqrt(5.0)) / 2
    steps = np.sqrt(np.arange(2.0, inputs + 2.0)) * golden % 1.0
    scattered = 2.0 * ((np.arange(1, _SCATTERED + 1)[:, None] * steps) % 1.0) - 1.0
    far = corners(inputs) if inputs <= _CORNERS_UP_TO else np.where(scattered < 0, -1.0, 1.0)
    both = [far, -far] if inputs <= _CORNERS_UP_TO else [far]
    return np.concatenate([np.zeros((1, inputs)), *(_INWARD * part for part in both), _INWARD * scattered])


@dataclass(frozen=True, eq=False)
class PointsOfCells:
    """Evaluates the question of `question` at points of its region."""

    question: BoxQuestion

    @cached_property
    def _around(self) -> tuple[Network, int, float]:
        """A network, how many of its last inputs count, and the share of what is found there that is proved."""
        question = self.question
        if question.frame is None:
            return question.network, question.network.inputs, 1.0
        return *question.frame.beside(question.network), question.frame.share

    def best(self, lo: Array, hi: Array, upper: Array) -> tuple[Array, Array]:
        """A point of every box where the constant is large, and what is proved there; more are tried where that is
        clearly below the upper bound."""
        tried = shares(lo.shape[1])
        points = self._steepest_of(lo, hi, lambda a, b: _spread(a, b, tried), len(tried))
        lower = self.proved(points)
        k = np.flatnonzero(lower < (1.0 - _CLOSED) * upper)
        n, net = lo.shape[1], self._around[0]
        if len(k) and 1 < n <= _CORNERS_UP_TO and any(f.kinked for f in net.activations):
            count = n * (1 << n) * (_CROSSINGS + 1) + 2 * net.neurons
            more = self._steepest_of(lo[k], hi[k], self._between_kinks, count)
            value = self.proved(more)
            won = value > lower[k]
            points[k[won]], lower[k[won]] = more[won], value[won]
        return points, lower

    def _steepest_of(self, lo: Array, hi: Array, tried: Callable[[Array, Array], Array], count: int) -> Array:
        """The point of every box, among about `count`, where the constant is largest in plain floating point."""
        step = max(1, _NUMBERS // (count * max(self._around[0].shape)))
        points = np.empty_like(lo)
        for start in range(0, len(lo), step):
            own = slice(start, start + step)
            some = tried(lo[own], hi[own])
            steep = self._steepness(some.reshape(-1, lo.shape[1])).reshape(some.shape[:2])
            points[own] = np.take_along_axis(some, steep.argmax(axis=1)[:, None, None], axis=1)[:, 0]
        return points

    def _between_kinks(self, lo: Array, hi: Array) -> Array:
        """On every edge of the boxes, moved inward a little, middles between the first places where neurons turn."""
        n, net = lo.shape[1], self._around[0]
        signs = _INWARD * np.concatenate([corners(n), -corners(n)])
        from_, along = np.nonzero(signs < 0)  # edges start at corners that are low in their coordinate
        ends = signs[from_].copy()
        ends[np.arange(len(along)), along] *= -1.0
        first, second = _spread(lo, hi, signs[from_]), _spread(lo, hi, ends)
        both = []
        for corner in (first, second):
            zs = net.preactivations(self._whole(corner.reshape(-1, n)))
            kinked = [z for z, f in zip(zs, net.activations, strict=True) if f.kinked]
            both.append(np.concatenate(kinked, axis=1).reshape(len(lo), len(along), -1))
        a, b = both
        with np.errstate(all="ignore"):
            crossing = np.where((a < 0) != (b < 0), a / (a - b), 1.0)
        crossing = np.sort(np.nan_to_num(crossing, nan=1.0), axis=2)[:, :, :_CROSSINGS]
        zero, one = np.zeros((*crossing.shape[:2], 1)), np.ones((*crossing.shape[:2], 1))
        t = np.concatenate([zero, crossing, one], axis=2)
        t = (t[:, :, 1:] + t[:, :, :-1]) / 2
        points = first[:, :, None, :] + t[..., None] * (second - first)[:, :, None, :]
        return np.asarray(np.clip(points.reshape(len(lo), -1, n), lo[:, None, :], hi[:, None, :]))

    def proved(self, points: Array) -> Array:
        """Proved lower bounds of the constant next to every point, as `lipcert.witness.witness.evaluate` has them."""
        step = max(1, _NUMBERS // max(self._around[0].shape))
        parts = [self._proved(points[k : k + step]) for k in range(0, len(points), step)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _proved(self, points: Array) -> Array:
        net, count, share = self._around
        norm, d, whole = self.question.norm, self.question.c, self._whole(points)
        with np.errstate(all="ignore"):
            if norm.out is not None:
                d = _steepest(self._jacobians(whole), norm)
            if net.depth:
                pre = ForwardPass(net, Interval(whole, whole), forms=False).run().pre
                g = gradient_bounds(net, pre, np.broadcast_to(d, (len(points), net.outputs)))[0]
            else:  # the same everywhere
                d = d if d.ndim == 1 else d[0]
                g = gradient_bounds(net, (), d)[0]
            least = np.broadcast_to(g.mignitude, (len(points), net.inputs))[:, -count:]
            value = _below(norm.dual, least)
            if norm.out is not None:
                size = vector_norms(np.abs(d), norm.outputs.dual.p)
                value = np.where((size > 0) & np.isfinite(size), value / size * (1.0 - gamma(4)), 0.0)
            value = value * share * (1.0 - gamma(4))
        return np.where(np.isfinite(value), np.maximum(value, 0.0), 0.0)

    def _steepness(self, points: Array) -> Array:
        """About the constant next to every point."""
        net, count, _ = self._around
        whole = self._whole(points)
        with np.errstate(all="ignore"):
            if self.question.norm.out is None:
                g = np.broadcast_to(net.gradient(whole, self.question.c), (len(points), net.inputs))[:, -count:]
                return np.nan_to_num(self.question.norm.dual.of(g), nan=-1.0)
            return np.nan_to_num(operator_norms(self._jacobians(whole), self.question.norm), nan=-1.0)

    def _jacobians(self, whole: Array) -> Array:
        net, count, _ = self._around
        slopes = [f.derivative(z) for f, z in zip(net.activations, net.preactivations(whole), strict=True)]
        J = jacobians(net, slopes)
        return np.broadcast_to(J, (len(whole), *J.shape[1:]))[:, :, -count:]

    def _whole(self, points: Array) -> Array:
        net = self._around[0]
        more = net.inputs - points.shape[1]
        return np.concatenate([points, np.zeros((len(points), more))], axis=1) if more else points


def _spread(lo: Array, hi: Array, tried: Array) -> Array:
    """Points of every box, (boxes, points, inputs), by their shares of the half widths."""
    middle, half = lo / 2 + hi / 2, hi / 2 - lo / 2
    points = middle[:, None, :] + half[:, None, :] * tried
    return np.clip(points, lo[:, None, :], hi[:, None, :])


def _below(norm: Norm, least: Array) -> Array:
    """At most the norm of all vectors with |entries| of at least these, row by row."""
    n = least.shape[1]
    match norm.p:
        case "inf":
            return np.asarray(least.max(axis=1, initial=0.0))
        case "1":
            return np.asarray(least.sum(axis=1) * (1.0 - gamma(n + 8)) - (n + 8) * TINY)
        case _:
            squares = np.square(least).sum(axis=1) * (1.0 - gamma(n + 8)) - (n + 8) * TINY
            return np.asarray(np.sqrt(np.maximum(squares, 0.0)) * (1.0 - gamma(8)) - TINY)


def _steepest(J: Array, norm: Norm) -> Array:
    """A direction of the outputs for every matrix of a stack along which it is large."""
    if norm.out == "inf":
        return np.asarray(np.eye(J.shape[1])[norm.dual.of(J).argmax(axis=1)])
    if norm.p == norm.out == "2":
        return np.asarray(np.linalg.svd(J, full_matrices=False)[0][:, :, 0])
    return np.stack([steepest(one, norm) for one in J])
