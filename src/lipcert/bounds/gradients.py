"""Gradients of many cells: intervals through the chain rule [FastLip18], and affine forms in the open signs.

    g_j = sum_i A_ij' (s_i g_i)           over the blocks i that read x_j, s_i their slopes

With g = m + G e + r (e_k in [-1, 1], |r| <= rest) at some block and a slope u in {a, b} or [a, b],

    u g = (a + b)/2 g + (b - a)/2 d g,   |d| <= 1,        d g = max|g| e_new

so every open neuron brings one new symbol, and the symbols pass through the affine maps exactly: where two ways to an
input cancel, they cancel here, while intervals add them up. Rounding goes to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.engine import Bounds
from lipcert.bounds.interval import Interval, finite_sum, middle_and_radius, scaled
from lipcert.bounds.substitution import through
from lipcert.problem.maps import Matrix
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, UNIT, Array, gamma, grow

_CHUNK = 1 << 18  # numbers in one array of symbols


def slope_bounds(net: Network, pre: Sequence[Interval]) -> tuple[Interval, ...]:
    """Bounds of the activations' derivatives under given pre-activation bounds, with or without an axis for cells."""
    return tuple(Interval(*f.derivative_bounds(*z)) for f, z in zip(net.activations, pre, strict=True))


def gradient_bounds(
    net: Network, pre: Sequence[Interval], c: Array, slopes: Sequence[Interval] | None = None
) -> tuple[Interval, ...]:
    """Bounds of the gradient of c'scores with respect to x_0, x_1, .., x_m, with or without an axis for cells.

    `slopes` instead of those that `pre` allows.
    """
    slopes = slope_bounds(net, pre) if slopes is None else slopes
    cells = slopes[0].lo.shape[:-1] if slopes else ()
    weights = np.broadcast_to(c, (*cells, c.shape[-1]))
    behind = {len(net.blocks): Interval(weights, weights)}  # of z_i
    gradients = []
    for j in range(net.depth, -1, -1):
        g = _sum(net.readers[j], behind, (*cells, net.shape[j]))
        gradients.append(g)
        if j:
            behind[j] = scaled(slopes[j - 1], g)
    return tuple(reversed(gradients))


def _sum(readers: Sequence[tuple[int, Matrix]], behind: dict[int, Interval], shape: tuple[int, ...]) -> Interval:
    if not readers:
        return Interval(np.zeros(shape), np.zeros(shape))
    return finite_sum([(weight.T, behind[i]) for i, weight in readers])


def interval_uppers(net: Network, bounds: Bounds, norm: Norm, c: Array) -> Array:
    """The bound of the gradient's dual norm on every cell from bounds of its entries, zero on empty cells."""
    magnitudes = gradient_magnitudes(net, bounds.pre, c)
    return np.where(bounds.empty, 0.0, [norm.dual.above(row) for row in magnitudes])


@dataclass(frozen=True, eq=False)
class _Affine:
    """Per cell and entry: the middle, the coefficients of the first symbols (second axis), and the rest."""

    middle: Array
    symbols: Array
    rest: Array

    def reach(self) -> Array:
        """At least |value|."""
        n = self.symbols.shape[1] + 4
        return grow(np.abs(self.middle) + np.abs(self.symbols).sum(axis=1) + self.rest, n)

    def with_room(self, count: int) -> _Affine:
        """The same with coefficients, zero, for symbols up to `count`."""
        more = count - self.symbols.shape[1]
        if not more:
            return self
        return _Affine(self.middle, np.pad(self.symbols, ((0, 0), (0, more), (0, 0))), self.rest)


def gradient_magnitudes(net: Network, pre: tuple[Interval, ...], c: Array) -> Array:
    """At least |entries of the gradient by x_0| on every cell: the better of intervals and affine forms."""
    count = len(pre[0].lo)
    step = max(1, _CHUNK // max(net.shape) ** 2)
    pieces = [_magnitudes(net, tuple(z.rows(slice(k, k + step)) for z in pre), c) for k in range(0, count, step)]
    return np.concatenate(pieces)


def _magnitudes(net: Network, pre: tuple[Interval, ...], c: Array) -> Array:
    slopes = slope_bounds(net, pre)
    intervals = gradient_bounds(net, pre, c, slopes)
    weights = np.broadcast_to(c, (len(pre[0].lo), len(c)))
    pending = {j: _plain(finite_sum([(weight.T, Interval(weights, weights))])) for j, weight in net.scores.terms}
    symbols = 0  # so far
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(net.depth, 0, -1):
            if i not in pending:
                continue
            form = _switch(pending.pop(i).with_room(symbols), slopes[i - 1], intervals[i])
            symbols = form.symbols.shape[1]
            for j, weight in net.hidden[i - 1].terms:
                pulled = _pull_back(weight, form)
                pending[j] = _add(pending[j], pulled) if j in pending else pulled
        reach = pending[0].reach()
    return np.minimum(intervals[0].magnitude, np.where(np.isnan(reach), np.inf, reach))


def _plain(g: Interval) -> _Affine:
    """An interval as a form without symbols."""
    middle, radius = middle_and_radius(g)
    return _Affine(middle, np.zeros((len(middle), 0, middle.shape[1])), radius)


def _switch(form: _Affine, slope: Interval, range_: Interval) -> _Affine:
    """u g with u in [lo, hi]; what intervals know of g bounds the new symbol too."""
    half, spread = slope.lo / 2 + slope.hi / 2, slope.hi / 2 - slope.lo / 2
    reach = form.reach()
    largest = np.minimum(reach, range_.magnitude)
    fresh = np.flatnonzero(np.any(spread > 0, axis=0))
    coefficient = grow(spread * largest, 4)
    new = np.zeros((len(half), len(fresh), half.shape[1]))
    new[:, np.arange(len(fresh)), fresh] = coefficient[:, fresh]
    symbols = np.concatenate([form.symbols * half[:, None, :], new], axis=1)
    # The middle slope, the products with it and the width of the slopes are rounded once each; slopes can be so small
    # that their halves underflow.
    slack = (gamma(8) * (np.abs(half) + spread) + TINY) * reach + (symbols.shape[1] + 4) * TINY
    return _Affine(form.middle * half, symbols, grow(np.abs(half) * form.rest + slack, 8))


def _pull_back(weight: Matrix, form: _Affine) -> _Affine:
    """A' v, with gamma |A|'|v| for the rounding."""
    count, symbols, width = form.symbols.shape
    n = width + symbols + 8
    size = form.rest + gamma(n) * form.reach() + TINY
    underflow = width * (symbols + 2) * TINY
    flat = through(form.symbols.reshape(-1, width), weight)
    rest = grow(through(size, abs(weight)) + underflow, n)
    return _Affine(through(form.middle, weight), flat.reshape(count, symbols, weight.shape[1]), rest)


def _add(a: _Affine, b: _Affine) -> _Affine:
    """The sum of two ways to the same values; the symbols are the same ones."""
    count = max(a.symbols.shape[1], b.symbols.shape[1])
    a, b = a.with_room(count), b.with_room(count)
    total = _Affine(a.middle + b.middle, a.symbols + b.symbols, grow(a.rest + b.rest, 2))
    return _Affine(total.middle, total.symbols, grow(total.rest + 2 * UNIT * total.reach(), 4))
