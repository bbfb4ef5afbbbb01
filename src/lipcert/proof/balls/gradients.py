"""Gradients of c'scores on one cell, in balls: intervals through the chain rule, affine forms in the open slopes, and
linear forms whose norm is bounded at once. The formulas are those of `bounds.gradients`, `bounds.linear` and
`bounds.linear`, without their rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.region import Ball, Box
from lipcert.proof.balls.cells import weighted
from lipcert.proof.balls.forms import Stage, descend, through
from lipcert.proof.balls.numbers import (
    Balls,
    above,
    balls,
    below,
    larger,
    largest,
    load_flint,
    product,
    root,
    smaller,
    total,
    zeros,
)
from lipcert.rounding import Array

Slopes = Sequence[Interval]


class Readers:
    """The weights of a network in balls, transposed: who reads x_j, and through which matrix."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.of = [[(i, balls(dense(w)).T) for i, w in net.readers[j]] for j in range(net.depth + 1)]


def times(u: Interval, g: Interval) -> Interval:
    """Floats around u g, entry by entry; what is zero stays zero."""
    a, b, bottom, h = (balls(end) for end in (*u, *g))
    corners = [a * bottom, a * h, b * bottom, b * h]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = smaller(low, corner), larger(high, corner)
    return Interval(below(low), above(high))


def interval_gradients(readers: Readers, slopes: Slopes, c: Array) -> list[Interval]:
    """Floats around the gradients by x_0 .. x_m."""
    net = readers.net
    behind = {net.depth + 1: Interval(c, c)}
    found: list[Interval] = []
    for j in range(net.depth, -1, -1):
        found.append(_summed(readers, j, behind))
        if j:
            behind[j] = times(slopes[j - 1], found[-1])
    return found[::-1]


def _summed(readers: Readers, j: int, behind: dict[int, Interval]) -> Interval:
    low, high = zeros(readers.net.shape[j]), zeros(readers.net.shape[j])
    for i, weight in readers.of[j]:
        a, b = weighted(weight, behind[i])
        low, high = low + a, high + b
    return Interval(below(low), above(high))


def affine_magnitudes(readers: Readers, slopes: Slopes, c: Array) -> Balls:
    """At least |entries of the gradient by x_0|: the better of intervals and of affine forms, a symbol for each open
    neuron."""
    net = readers.net
    ranges = interval_gradients(readers, slopes, c)
    forms: dict[int, Balls] = {}  # by block: the middle, then a row for each symbol
    symbols = 1
    for j in range(net.depth, -1, -1):
        form = zeros(symbols, net.shape[j])
        for i, weight in readers.of[j]:
            own = balls(c)[None, :] if i > net.depth else forms[i]
            form[: len(own)] += product(own, weight.T)
        if j:
            u = slopes[j - 1]
            a, b = balls(u.lo), balls(u.hi)
            size = smaller(abs(form).sum(axis=0), balls(ranges[j].magnitude))
            fresh = np.flatnonzero(u.lo < u.hi)
            new = zeros(len(fresh), net.shape[j])
            new[np.arange(len(fresh)), fresh] = ((b - a) / 2 * size)[fresh]
            forms[j] = np.concatenate([form * ((a + b) / 2), new])
            symbols += len(fresh)
    return smaller(abs(form).sum(axis=0), balls(ranges[0].magnitude))


class Adjoint:
    """Linear bounds on the graph of the gradient of c'scores on one cell; `values` tie smooth slopes to the input."""

    def __init__(
        self, readers: Readers, slopes: Slopes, c: Array, values: tuple[Sequence[Stage], Box | Ball] | None = None
    ) -> None:
        self.readers, self.net, self.slopes, self.values = readers, readers.net, slopes, values
        m = self.net.depth
        self.given = [self._from_scores(j, c) for j in range(m + 1)]
        self.gradients: list[Interval] = [Interval(np.zeros(n), np.zeros(n)) for n in self.net.shape[:-1]]
        self.lines: dict[int, tuple[Balls, Balls, Balls]] = {}
        behind = {m + 1: Interval(c, c)}
        for j in range(m, -1, -1):
            g = _summed(readers, j, behind)
            if any(i <= m for i, _ in readers.of[j]):
                g = self._better(j, g)
            self.gradients[j] = g
            if j:
                self.lines[j] = _chords_of_product(slopes[j - 1], g)
                behind[j] = times(slopes[j - 1], g)

    def _from_scores(self, j: int, c: Array) -> Balls:
        found = zeros(self.net.shape[j])
        for i, weight in self.readers.of[j]:
            if i > self.net.depth:
                found = found + product(weight, balls(c))
        return found

    def _better(self, j: int, g: Interval) -> Interval:
        """Entries by forms, both sides: of the input all, of a block those whose slope is open."""
        own = np.flatnonzero(self.slopes[j - 1].lo < self.slopes[j - 1].hi) if j else np.arange(len(g.lo))
        if not len(own):
            return g
        signs = np.repeat([1.0, -1.0], len(own))
        rows = zeros(2 * len(own), len(g.lo))
        rows[np.arange(2 * len(own)), np.tile(own, 2)] = balls(signs)
        top = above(self.largest(rows, j))
        lo, hi = g.lo.copy(), g.hi.copy()
        hi[own], lo[own] = np.fmin(hi[own], top[: len(own)]), np.fmax(lo[own], -top[len(own) :])
        return Interval(np.minimum(lo, hi), np.maximum(lo, hi))

    def largest(self, rows: Balls, start: int = 0) -> Balls:
        """At least the maximum of rows g_start."""
        found = self._up(rows, start, curved=False)
        return found if self.values is None else smaller(found, self._up(rows, start, curved=True))

    def _up(self, rows: Balls, start: int, *, curved: bool) -> Balls:
        net, constant, lifted = self.net, product(rows, self.given[start]), dict[int, Balls]()
        pending = self._pushed({}, start, rows)
        for j in range(start + 1, net.depth + 1):
            w = pending.pop(j, None)
            if w is None:
                continue
            if curved and not net.activations[j - 1].piecewise_linear:
                rows, lifted[j], more = self._tangent(j, w)
            else:
                rows, more = self._chord(j, w)
            constant = constant + more + product(rows, self.given[j])
            pending = self._pushed(pending, j, rows)
        if not lifted or self.values is None:
            return constant
        return descend(self.values[0], {0: zeros(len(constant), net.inputs)}, lifted, constant).largest(self.values[1])

    def _pushed(self, pending: dict[int, Balls], j: int, rows: Balls) -> dict[int, Balls]:
        """rows g_j as coefficients of u_i g_i of those that read x_j."""
        for i, weight in self.readers.of[j]:
            if i <= self.net.depth:
                pushed = product(rows, weight)
                pending[i] = pending[i] + pushed if i in pending else pushed
        return pending

    def _chord(self, j: int, w: Balls) -> tuple[Balls, Balls]:
        """Coefficients of g_j above w (u g), and constants; where the sign of w is not known, |w| times the largest."""
        up, low, shift = self.lines[j]
        rises, falls = np.asarray(w > 0, dtype=bool), np.asarray(w <= 0, dtype=bool)
        size = balls(times(self.slopes[j - 1], self.gradients[j]).magnitude)
        known, zero = rises | falls, zeros(1)[0]
        rows = np.where(known, w * np.where(rises, up, low), zero)
        return rows, total(abs(w) * np.where(known, shift, size))

    def _tangent(self, j: int, w: Balls) -> tuple[Balls, Balls, Balls]:
        """u g = u0 g + g0 u - u0 g0 + (u - u0)(g - g0): coefficients of g_j, of z_j, and constants."""
        assert self.values is not None
        u, g, stage = self.slopes[j - 1], self.gradients[j], self.values[0][j - 1]
        u0, g0 = u.lo / 2 + u.hi / 2, np.where(u.lo == u.hi, 0.0, g.lo / 2 + g.hi / 2)
        far = [larger(balls(x.hi) - balls(x0), balls(x0) - balls(x.lo)) for x, x0 in ((u, u0), (g, g0))]
        both = np.where(u.lo == u.hi, zeros(1)[0], far[0] * far[1])
        a, b = balls(u0), balls(g0)
        lifted, shift = through(w * b, stage.slope, balls(u.magnitude))
        return w * a, lifted, total(abs(w) * both) - product(w, a * b) + shift


def _chords_of_product(u: Interval, g: Interval) -> tuple[Balls, Balls, Balls]:
    """low g - shift <= s g <= up g + shift for every s of u and g of its interval."""
    a, b, bottom, h = (balls(end) for end in (*u, *g))
    sure = (u.lo == u.hi) | (g.lo >= 0) | (g.hi <= 0)
    share = np.where(sure, zeros(1)[0], h / np.where(sure, balls(1.0), h - bottom))
    falls = (g.hi <= 0) & ~((u.lo == u.hi) | (g.lo >= 0))
    up = np.where(sure, np.where(falls, a, b), a + (b - a) * share)
    low = np.where(sure, np.where(falls, b, a), b - (b - a) * share)
    zero = zeros(len(u.lo))
    shift = np.where(
        sure, zero, larger(larger((a - up) * bottom, (b - up) * h), larger((low - b) * bottom, (low - a) * h))
    )
    return up, low, larger(shift, zero)


def form_bound(adjoint: Adjoint, p: str, coordinate: int | None = None) -> Any:
    """At least the dual norm of the gradient in norm p, or one |entry| of it."""
    g = adjoint.gradients[0]
    size = balls(g.magnitude)
    if coordinate is not None:
        return size[coordinate]
    if p == "1":
        return largest(size)
    low, h = balls(g.lo), balls(g.hi)
    if p == "inf":
        sure = (g.lo >= 0) | (g.hi <= 0)
        slope = np.where(sure, balls(np.where(g.lo >= 0, 1.0, -1.0)), (h + low) / np.where(sure, balls(1.0), h - low))
        shift = np.where(sure, zeros(1)[0], larger(-low - slope * low, h - slope * h))
        plain = total(size)
    else:
        slope, shift, plain = low + h, -low * h, total(size * size)
    found = smaller(adjoint.largest(slope[None, :])[0] + total(shift), plain)
    return (root(found) if p == "2" else larger(found, load_flint().arb(0)))[()]
