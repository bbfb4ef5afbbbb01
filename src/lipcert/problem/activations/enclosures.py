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

_PIECES = 8
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
        slope = _through_ends(f, lo, hi)
        low, high = _shifts(slope, bounds, first, lo, hi)
    return Lines(slope, low, slope, high)


def closest(f: Activation, lo: Array, hi: Array) -> Lines:
    """On each side the line that is best in the middle, of those with the slopes of the secant and of both ends."""
    with np.errstate(all="ignore"):
        middle = lo / 2 + hi / 2
        best: tuple[Array, ...] | None = None
        for slope in (_through_ends(f, lo, hi), f.derivative(lo), f.derivative(hi)):
            slope = np.where(np.isfinite(slope), slope, 0.0)
            low, high = _shifts(slope, f.value_bounds, f.derivative_bounds, lo, hi)
            if best is None:
                best = slope, low, slope, high
                continue
            higher = slope * middle + low > best[0] * middle + best[1]
            lower = slope * middle + high < best[2] * middle + best[3]
            own = slope, low, slope, high
            best = tuple(
                np.where(better, mine, old)
                for better, mine, old in zip((higher, higher, lower, lower), own, best, strict=True)
            )
    assert best is not None
    return Lines(*best)


def _through_ends(f: Callable[[Array], Array], lo: Array, hi: Array) -> Array:
    """The slope of the secant, zero where there is none."""
    width = hi - lo
    slope = np.where(width > 0, (f(hi) - f(lo)) / np.where(width > 0, width, 1.0), 0.0)
    return np.where(np.isfinite(slope), slope, 0.0)


def _shifts(slope: Array, bounds: Bounds, first: Bounds, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Proved bounds of f(z) - slope z on the interval."""
    shares = np.arange(_PIECES + 1) / _PIECES
    ends = np.clip(lo + shares.reshape(-1, *([1] * lo.ndim)) * (hi - lo), lo, hi)
    ends[-1] = hi
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
