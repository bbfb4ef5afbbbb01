"""Bounds of smooth functions on an interval: between their turning points, and by lines that are close to them.

`between` takes the ends and the turning points inside. Lines have shifts that are proved piece by piece.
On a piece with middle m and half width w, f(z) - s z differs from f(m) - s m by at most |f' - s| w. So the shifts are
off by the square of the width of the interval over the number of pieces, whatever the function. The same is done for
values (with bounds of the derivative) and for derivatives (with bounds of the second one).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipcert.problem.activations.base import Activation, Lines
from lipcert.rounding import TINY, UNIT, Array

_PIECES = 16
NEAR = 1e-6  # a turning point this near to an interval counts as inside: that only widens the bounds

Bounds = Callable[[Array, Array], tuple[Array, Array]]


def between(
    f: Callable[[Array], Array],
    turns: tuple[float, ...],
    lo: Array,
    hi: Array,
    slack: float,
    floor: Array | float = 1.0,
) -> tuple[Array, Array]:
    """Bounds of f for lo <= z <= hi, where f is monotone between `turns` and before and behind them.

    f may take infinite arguments. It is evaluated with an error of at most slack (|f| + floor). The turning points are
    floats next to the exact ones, where f differs by the square of that distance.
    """
    left, right = f(lo), f(hi)
    low, high = np.minimum(left, right), np.maximum(left, right)
    for turn in turns:
        inside, value = (lo <= turn + NEAR) & (hi >= turn - NEAR), f(np.asarray(turn))
        low = np.where(inside, np.minimum(low, value), low)
        high = np.where(inside, np.maximum(high, value), high)
    size = np.maximum(np.abs(low), np.abs(high))
    off = slack * (np.where(np.isfinite(size), size, 0.0) + floor) + TINY
    return low - off, high + off


def secant(f: Callable[[Array], Array], bounds: Bounds, first: Bounds, lo: Array, hi: Array) -> Lines:
    """Lines of the secant's slope; `bounds` of f on an interval, `first` of its derivative there."""
    with np.errstate(all="ignore"):
        slope = through_ends(f, lo, hi)
        low, high = shifts(slope, bounds, first, lo, hi)
    return Lines(slope, low, slope, high)


def closest(f: Activation, lo: Array, hi: Array) -> Lines:
    """On each side the line whose value in the middle of the interval is best.

    A line that touches the hull of the graph above the middle has one of four slopes: the tangent's in the middle, the
    secant's, or that of a line from one end that touches the graph. The last two are found among points of the graph.
    """
    with np.errstate(all="ignore"):
        slopes = [np.where(np.isfinite(slope), slope, 0.0) for slope in _touching(f, lo, hi)]
        up = shifts(slopes[0], f.value_bounds, f.derivative_bounds, lo, hi)[1]
        low = shifts(slopes[1], f.value_bounds, f.derivative_bounds, lo, hi)[0]
    return Lines(slopes[1], low, slopes[0], up)


def _touching(f: Activation, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Slopes of the lines above and below f that are about the best in the middle."""
    middle, ends = lo / 2 + hi / 2, _pieces(lo, hi)
    values = f(ends)
    from_left, from_right = (values[1:] - values[0]) / (ends[1:] - lo), (values[-1] - values[:-1]) / (hi - ends[:-1])
    found = []
    for sign in (1.0, -1.0):
        touching = [sign * np.fmax.reduce(sign * from_left), sign * np.fmin.reduce(sign * from_right)]
        slopes = np.stack([f.derivative(middle), from_left[-1], *touching])
        height = np.stack([np.fmax.reduce(sign * (values - slope * (ends - middle))) for slope in slopes])
        best = np.argmin(np.where(np.isnan(height), np.inf, height), axis=0)
        found.append(np.take_along_axis(slopes, best[None], axis=0)[0])
    return found[0], found[1]


def _pieces(lo: Array, hi: Array) -> Array:
    """The ends of the pieces of every interval, on the first axis."""
    shares = np.arange(_PIECES + 1) / _PIECES
    ends = np.clip(lo + shares.reshape(-1, *([1] * lo.ndim)) * (hi - lo), lo, hi)
    ends[-1] = hi
    return ends


def through_ends(f: Callable[[Array], Array], lo: Array, hi: Array) -> Array:
    """The slope of the secant, zero where there is none."""
    width = hi - lo
    slope = np.where(width > 0, (f(hi) - f(lo)) / np.where(width > 0, width, 1.0), 0.0)
    return np.where(np.isfinite(slope), slope, 0.0)


def shifts(slope: Array, bounds: Bounds, first: Bounds, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Proved bounds of f(z) - slope z on the interval."""
    ends = _pieces(lo, hi)
    left, right = ends[:-1], ends[1:]
    middle = left / 2 + right / 2
    half = np.maximum(right - middle, middle - left) * (1 + 4 * UNIT) + TINY
    size = np.abs(slope) * np.maximum(np.abs(left), np.abs(right))
    low, high = bounds(middle, middle)
    steep = first(left, right)
    reach = np.maximum(np.abs(steep[0] - slope), np.abs(steep[1] - slope)) * half
    slack = 16 * UNIT * (size + np.abs(low) + np.abs(high) + reach) + TINY
    top, bottom = high - slope * middle + reach + slack, low - slope * middle - reach - slack
    plain = bounds(left, right)
    rounding = 16 * UNIT * (size + np.abs(plain[0]) + np.abs(plain[1])) + TINY
    top = np.fmin(top, plain[1] - np.minimum(slope * left, slope * right) + rounding)
    bottom = np.fmax(bottom, plain[0] - np.maximum(slope * left, slope * right) - rounding)
    return bottom.min(axis=0), top.max(axis=0)
