"""Gradients of many cells: intervals, affine forms in the open slopes, and the ends of few open slopes.

*Intervals* through the chain rule [FastLip18],

    g_j = sum_i A_ij' (s_i g_i)           over the blocks i that read x_j, s_i their slopes.

*Affine forms.* With g = m + G e + r (e_k in [-1, 1], |r| <= rest) at some block and a slope u in {a, b} or [a, b],

    u g = (a + b)/2 g + (b - a)/2 d g,   |d| <= 1,        d g = max|g| e_new

so every open neuron brings one new symbol, and the symbols pass through the affine maps exactly: where two paths to an
input cancel, they cancel here, while intervals add them up. Rounding goes to the rest.

*Ends.* The gradient is affine in the slope of each neuron when the others are fixed: a path through the network meets a
neuron once. A norm of it is then convex in each slope, and over a box of slopes it is largest where every slope is at
one of its ends, whether or not an input has these slopes. With k open slopes these are 2^k gradients without anything
open, which cost little each; linear bounds are exact for one open slope, and lose where several meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval, finite_sum, middle_and_radius, scaled
from lipcert.bounds.operator_norms import matrix_norms, vector_norms
from lipcert.bounds.substitution import through
from lipcert.problem.maps import Matrix
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, UNIT, Array, gamma, grow

_CHUNK = 1 << 18  # numbers in one array of symbols


def slope_bounds(net: Network, pre: Sequence[Interval]) -> tuple[Interval, ...]:
    """Bounds of the activations' derivatives under given pre-activation bounds, with or without an axis for cells."""
    return tuple(Interval(*f.derivative_bounds(*z)) for f, z in zip(net.activations, pre, strict=True))


def unbounded_slope(net: Network, pre: Sequence[Interval]) -> str | None:
    """Names the first neuron whose slope has no bound between its pre-activation bounds; None where all have one."""
    for i, (f, z, slope) in enumerate(zip(net.activations, pre, slope_bounds(net, pre), strict=True), start=1):
        lost = np.flatnonzero(~np.isfinite(slope.magnitude))
        if len(lost):
            k = int(lost[0])
            where = f"[{z.lo[k]:.6g}, {z.hi[k]:.6g}]"
            return f"neuron {k} of block {i} applies {f} on {where}, where its slope has no bound"
    return None


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


@dataclass(frozen=True, eq=False)
class _Affine:
    """Per cell and entry: the middle, the coefficients of the first symbols (second axis), and the rest."""

    middle: Array
    symbols: Array
    rest: Array

    def reach(self) -> Array:
        """Upper bounds of |value|."""
        n = self.symbols.shape[1] + 4
        return grow(np.abs(self.middle) + np.abs(self.symbols).sum(axis=1) + self.rest, n)

    def with_room(self, count: int) -> _Affine:
        """This form with coefficients for `count` symbols; those that are added are zero."""
        more = count - self.symbols.shape[1]
        if not more:
            return self
        return _Affine(self.middle, np.pad(self.symbols, ((0, 0), (0, more), (0, 0))), self.rest)


def gradient_magnitudes(net: Network, pre: tuple[Interval, ...], c: Array) -> Array:
    """Upper bounds of |entries of the input's gradient| on every cell: the better of intervals and affine forms."""
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
    """u g with u in [lo, hi]; the interval of g bounds the new symbol too."""
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


OPEN_UP_TO = 7  # open slopes up to which norms are enumerated
ENTRIES_UP_TO = 4  # open slopes up to which entries are: entries are split anyway, and more costs more than it saves
_NUMBERS = 1 << 20  # in one array of the slopes of some patterns


def vertex_bounds(net: Network, slopes: Sequence[Interval], norm: Norm, c: Array) -> Array:
    """The largest norm over the ends of the open slopes of every cell; infinite where none, one or many are open."""
    lo, hi = (np.concatenate([getattr(s, end) for s in slopes], axis=1) for end in ("lo", "hi"))
    is_open = lo < hi
    count = is_open.sum(axis=1)
    upper = np.full(len(lo), np.inf)
    for k in range(2, OPEN_UP_TO + 1):
        cells = np.flatnonzero(count == k)
        step = max(1, _NUMBERS // (lo.shape[1] << k))
        for own in (cells[j : j + step] for j in range(0, len(cells), step)):
            ends = _ends(lo[own], hi[own], is_open[own], k)
            upper[own] = _norms(net, ends.reshape(-1, lo.shape[1]), norm, c).reshape(len(own), -1).max(axis=1)
    return upper


def vertex_entries(net: Network, slopes: Sequence[Interval], c: Array) -> Interval:
    """The least and the largest of every entry of the gradient of c'scores over the ends of the open slopes.

    c has a row for each cell. The ends are infinite where one slope or many are open; without open slopes they are the
    gradient itself.
    """
    lo, hi = (np.concatenate([getattr(s, end) for s in slopes], axis=1) for end in ("lo", "hi"))
    is_open = lo < hi
    count = is_open.sum(axis=1)
    low, high = np.full((len(lo), net.inputs), -np.inf), np.full((len(lo), net.inputs), np.inf)
    widths = np.cumsum([b.width for b in net.hidden])[:-1]
    for k in (0, *range(2, ENTRIES_UP_TO + 1)):
        rows = np.flatnonzero(count == k)
        step = max(1, _NUMBERS // (lo.shape[1] << k))
        for own in (rows[j : j + step] for j in range(0, len(rows), step)):
            ends = _ends(lo[own], hi[own], is_open[own], k).reshape(-1, lo.shape[1])
            with np.errstate(all="ignore"):
                parts = [Interval(s, s) for s in np.split(ends, widths, axis=1)]
                g = gradient_bounds(net, (), np.repeat(c[own], 1 << k, axis=0), parts)[0]
            shape = (len(own), 1 << k, net.inputs)
            low[own], high[own] = g.lo.reshape(shape).min(axis=1), g.hi.reshape(shape).max(axis=1)
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def _ends(lo: Array, hi: Array, is_open: NDArray[np.bool_], k: int) -> Array:
    """All choices of ends of the k open slopes of every cell: (cells, choices, neurons)."""
    choices = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1  # (choices, k)
    if not k:
        return lo[:, None, :]
    place = np.clip(np.cumsum(is_open, axis=1) - 1, 0, k - 1)  # which of the open ones a neuron is
    up = np.take(choices.T, place, axis=0)  # (cells, neurons, choices)
    chosen = np.where((up > 0) & is_open[:, :, None], hi[:, :, None], lo[:, :, None])
    return np.swapaxes(chosen, 1, 2)


def _norms(net: Network, slopes: Array, norm: Norm, c: Array) -> Array:
    """Upper bounds of the norms for known slopes, which are rows."""
    parts = np.split(slopes, np.cumsum([b.width for b in net.hidden])[:-1], axis=1)
    with np.errstate(all="ignore"):
        if norm.out is None:
            g = gradient_bounds(net, (), c, [Interval(s, s) for s in parts])[0]
            found = vector_norms(g.magnitude, norm.dual.p)
        else:
            every = [Interval(*2 * (np.repeat(s, net.outputs, axis=0),)) for s in parts]
            rows = gradient_bounds(net, (), np.tile(np.eye(net.outputs), (len(slopes), 1)), every)[0]
            M, R = middle_and_radius(rows)
            shape = (len(slopes), net.outputs, net.inputs)
            found = matrix_norms(M.reshape(shape), R.reshape(shape), norm.p, norm.out)
    return np.where(np.isnan(found), np.inf, found)
