"""Lines close to smooth functions: the secant's slope, and shifts that are proved piece by piece.

On a piece with middle m and half width w, f(z) - s z differs from f(m) - s m by at most |f' - s| w. So the shifts are
off by the square of the width of the interval over the number of pieces, whatever the function. The same is done for
values (with bounds of the derivative) and for derivatives (with bounds of the second one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.bounds.substitution import Stage
from lipcert.problem.activations import Activation, Lines
from lipcert.problem.activations.base import widen
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array

_PIECES = 8

Bounds = Callable[[Array, Array], tuple[Array, Array]]


def value_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the activation on finite intervals."""
    return f.lines(lo, hi) if f.piecewise_linear else _secant(f, f.value_bounds, f.derivative_bounds, lo, hi)


def slope_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the derivative on finite intervals."""
    return _secant(f.derivative, f.derivative_bounds, f.second_bounds, lo, hi)


def _secant(f: Callable[[Array], Array], bounds: Bounds, first: Bounds, lo: Array, hi: Array) -> Lines:
    """`bounds` of f on an interval, `first` of its derivative there."""
    width = hi - lo
    with np.errstate(all="ignore"):
        slope = np.where(width > 0, (f(hi) - f(lo)) / np.where(width > 0, width, 1.0), 0.0)
        slope = np.where(np.isfinite(slope), slope, 0.0)
        shares = np.arange(_PIECES + 1) / _PIECES
        ends = np.clip(lo + shares.reshape(-1, *([1] * lo.ndim)) * width, lo, hi)
        ends[-1] = hi
        left, right = ends[:-1], ends[1:]
        middle = left / 2 + right / 2
        half = np.maximum(right - middle, middle - left) * (1 + 4 * UNIT) + TINY
        size = np.abs(slope) * np.maximum(np.abs(left), np.abs(right))
        low, high = widen(f(middle))
        steep = first(left, right)
        reach = np.maximum(np.abs(steep[0] - slope), np.abs(steep[1] - slope)) * half
        slack = 16 * UNIT * (size + np.abs(low) + np.abs(high) + reach) + TINY
        top, bottom = high - slope * middle + reach + slack, low - slope * middle - reach - slack
        plain = bounds(left, right)
        rounding = 16 * UNIT * (size + np.abs(plain[0]) + np.abs(plain[1])) + TINY
        top = np.fmin(top, plain[1] - np.minimum(slope * left, slope * right) + rounding)
        bottom = np.fmax(bottom, plain[0] - np.maximum(slope * left, slope * right) - rounding)
    return Lines(slope, bottom.min(axis=0), slope, top.max(axis=0))


@dataclass(frozen=True, eq=False)
class Tangent(Stage):
    """A stage whose lines are close to its activation, and that has lines of the slope too."""

    @cached_property
    def lines(self) -> Lines:
        return value_lines(self.block.activation, self.z.lo, self.z.hi)

    def rows(self, k: slice | NDArray[np.int64]) -> Tangent:
        """Of some of the cells."""
        return Tangent(self.block, self.z.rows(k), self.x.rows(k), tuple(x.rows(k) for x in self.sources))

    @cached_property
    def slope(self) -> Lines:
        """Linear bounds of the derivative."""
        return slope_lines(self.block.activation, self.z.lo, self.z.hi)


def tangents(net: Network, box: Interval, pre: tuple[Interval, ...]) -> list[Tangent] | None:
    """The stages of cells with these boxes and pre-activation bounds; None where no line would help.

    That is where all activations are piecewise linear, and on unbounded regions.
    """
    smooth = any(not f.piecewise_linear for f in net.activations)
    if not smooth or not all(bool(np.all(np.isfinite(z.lo) & np.isfinite(z.hi))) for z in (box, *pre)):
        return None
    values, stages = [box], list[Tangent]()
    for block, z in zip(net.hidden, pre, strict=True):
        x = Interval(*block.activation.value_bounds(*z))
        stages.append(Tangent(block, z, x, tuple(values[j] for j, _ in block.terms)))
        values.append(x)
    return stages
