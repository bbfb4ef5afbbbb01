"""Two parallel lines around an activation, close to each other: what a zonotope takes.

For a slope s the lines are s z + the bounds of F(z) = f(z) - s z on the interval. The slope is that of the chord, that
of an end, or zero, whichever leaves the least between the lines. Smooth activations are bounded piece by piece: where
F' has one sign the extremes are at the ends of the piece, and elsewhere F is no further from the larger end than
|F''| w^2 / 8 or |F'| w / 2 on a piece of width w.
"""

from __future__ import annotations

import numpy as np

from lipcert.problem.activations.base import Activation, Lines
from lipcert.rounding import TINY, UNIT, Array

_PIECES = 16

Pair = tuple[Array, Array, Array]  # a slope, and bounds of f(z) - slope z from below and from above


def parallel(f: Activation, lo: Array, hi: Array) -> Lines:
    """The lines on an interval. Where its ends are infinite the slope is zero."""
    with np.errstate(all="ignore"):
        best: Pair = (np.zeros_like(lo), *f.value_bounds(lo, hi))
        for own in [_around_kink(f, lo, hi)] if f.piecewise_linear else _smooth_pairs(f, lo, hi):
            gap = best[2] - best[1]
            better = own[2] - own[1] < np.where(np.isnan(gap), np.inf, gap)
            best = tuple(np.where(better, new, old) for new, old in zip(own, best, strict=True))  # type: ignore[assignment]
    slope, low, high = best
    return Lines(slope, low, slope, high)


def _around_kink(f: Activation, lo: Array, hi: Array) -> Pair:
    """The chord of a function with a kink at zero and the parallel through it; the function itself without a kink.

    The slope lies between both slopes of f, so F has its least or its largest value, zero, at the kink.
    """
    if not f.kinked:
        return np.ones_like(lo), np.zeros_like(lo), np.zeros_like(lo)
    below, on, off = f.alpha, lo >= 0, hi <= 0
    width = np.where(on | off, 1.0, hi - lo)
    chord = np.clip(hi / width - below * (lo / width), *f.slopes)
    slope = np.where(on, 1.0, np.where(off, below, chord))
    gap = np.maximum(np.abs((below - slope) * lo), np.abs((1.0 - slope) * hi)) * (1 + 8 * UNIT) + TINY
    gap, zero = np.where(on | off, 0.0, gap), np.zeros_like(lo)
    return (slope, zero, gap) if below <= 1.0 else (slope, -gap, zero)


def _smooth_pairs(f: Activation, lo: Array, hi: Array) -> list[Pair]:
    """The slopes of the chord and of both ends, each with its bounds."""
    ends = np.clip(lo + (np.arange(_PIECES + 1) / _PIECES).reshape(-1, *([1] * lo.ndim)) * (hi - lo), lo, hi)
    ends[-1] = hi
    left, right = ends[:-1], ends[1:]
    values, first, second = f.value_bounds(ends, ends), f.derivative_bounds(left, right), f.second_bounds(left, right)
    half = (right - left) * (0.5 + 4 * UNIT) + TINY
    found = []
    for slope in ((f(hi) - f(lo)) / (hi - lo), f.derivative(lo), f.derivative(hi)):
        s = np.where(np.isfinite(slope), slope, 0.0)
        move = s * ends
        slack = 16 * UNIT * (np.abs(move) + np.abs(values[0]) + np.abs(values[1])) + TINY
        bottom, top = values[0] - move - slack, values[1] - move + slack
        steep = np.maximum(np.abs(first[0] - s), np.abs(first[1] - s)) * half
        bend = half * half * (0.5 + 4 * UNIT)
        one_way = (first[0] >= s) | (first[1] <= s)
        above = np.where(one_way, 0.0, np.fmin(steep, np.maximum(-second[0], 0.0) * bend))
        below = np.where(one_way, 0.0, np.fmin(steep, np.maximum(second[1], 0.0) * bend))
        high = np.maximum(top[:-1], top[1:]) + above * (1 + 16 * UNIT)
        low = np.minimum(bottom[:-1], bottom[1:]) - below * (1 + 16 * UNIT)
        room = 4 * UNIT * np.maximum(np.abs(low), np.abs(high))
        found.append((s, (low - room).min(axis=0), (high + room).max(axis=0)))
    return found
