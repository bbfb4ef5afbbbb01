"""The gradient of many parts: intervals through the chain rule, and affine forms in the open signs.

With g = m + G e + r (e_k in [-1, 1], |r| <= rest) at some layer and a slope u in {a, b} or [a, b],

    u g = (a + b)/2 g + (b - a)/2 d g,   |d| <= 1,        d g = max|g| e_new

so every open neuron brings one new symbol, and the symbols pass through the affine maps exactly: where two ways to an
input cancel, they cancel here, while intervals add them up. Rounding goes to the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.batched import Bounds
from lipcert.bounds.forms import affine_of_finite, dense
from lipcert.bounds.propagation import Interval, scaled, slope_bounds
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix, Norm
from lipcert.rounding import TINY, Array, add_up, gamma, grow

_CHUNK = 1 << 18  # numbers in one array of symbols


def interval_uppers(net: Network, bounds: Bounds, norm: Norm, c: Array) -> Array:
    """The bound of the gradient's dual norm on every part from bounds of its entries, zero on empty parts."""
    magnitudes = gradient_magnitudes(net, bounds.pre, c)
    return np.where(bounds.empty, 0.0, [norm.dual.above(row) for row in magnitudes])


def gradient_bounds(net: Network, pre: tuple[Interval, ...], c: Array) -> tuple[Interval, ...]:
    """As `bounds.propagation.gradient_bounds`, for every part: with respect to x_0 .. x_m."""
    slopes = slope_bounds(net, pre)
    count = len(pre[0].lo) if pre else 1
    weights = np.broadcast_to(c, (count, len(c)))
    g = _linear(net.affines[-1].weight.T, Interval(weights, weights))
    gradients = [g]
    for s, affine in zip(reversed(slopes), reversed(net.affines[:-1]), strict=True):
        g = _linear(affine.weight.T, scaled(s, g))
        gradients.append(g)
    return tuple(reversed(gradients))


@dataclass(frozen=True, eq=False)
class _Affine:
    """Per part and entry: the middle, the coefficients of the symbols (second axis), and the rest."""

    middle: Array
    symbols: Array
    rest: Array

    def reach(self) -> Array:
        """At least |value|."""
        n = self.symbols.shape[1] + 4
        return grow(np.abs(self.middle) + np.abs(self.symbols).sum(axis=1) + self.rest, n)


def gradient_magnitudes(net: Network, pre: tuple[Interval, ...], c: Array) -> Array:
    """At least |entries of the gradient by x_0| on every part: the better of intervals and affine forms."""
    count = len(pre[0].lo)
    widest = max(net.shape)
    step = max(1, _CHUNK // widest**2)
    pieces = []
    for k in range(0, count, step):
        own = tuple(Interval(z.lo[k : k + step], z.hi[k : k + step]) for z in pre)
        pieces.append(_magnitudes(net, own, c))
    return np.concatenate(pieces)


def _magnitudes(net: Network, pre: tuple[Interval, ...], c: Array) -> Array:
    intervals = gradient_bounds(net, pre, c)
    slopes = slope_bounds(net, pre)
    count = len(pre[0].lo)
    last = intervals[-1]
    middle = last.lo / 2 + last.hi / 2
    rest = np.maximum(add_up(last.hi, -middle), add_up(middle, -last.lo))
    form = _Affine(middle, np.zeros((count, 0, middle.shape[1])), rest)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(net.depth - 1, -1, -1):
            form = _pull_back(net.affines[k].weight, _switch(form, slopes[k], intervals[k + 1]))
        reach = form.reach()
    return np.minimum(intervals[0].magnitude, np.where(np.isnan(reach), np.inf, reach))


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
    slack = (gamma(8) * (half + spread) + TINY) * reach + (symbols.shape[1] + 4) * TINY
    return _Affine(form.middle * half, symbols, grow(half * form.rest + slack, 8))


def _pull_back(weight: Matrix, form: _Affine) -> _Affine:
    """A' v, with gamma |A|'|v| for the rounding."""
    A = dense(weight)
    count, symbols, width = form.symbols.shape
    n = width + symbols + 8
    size = form.rest + gamma(n) * form.reach() + TINY
    underflow = width * (symbols + 2) * TINY
    flat = form.symbols.reshape(-1, width) @ A
    return _Affine(form.middle @ A, flat.reshape(count, symbols, A.shape[1]), grow(size @ np.abs(A) + underflow, n))


def _linear(weight: Matrix, x: Interval) -> Interval:
    return affine_of_finite(weight, np.zeros(weight.shape[0]), x)
