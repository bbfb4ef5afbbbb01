"""Linear forms in x above quantities of many cells, and half-spaces that contain the cells.

A form says: quantity <= rows x + constant on the cell, in exact arithmetic, up to `error` and the rounding of adding
constants of total size `size`. Where signs are fixed the cell lies in half-spaces H x + h >= 0, and for any
lambda >= 0

    quantity <= rows x + constant + lambda (H x + h),

whose maximum over the box is often smaller: lambda is searched, one half-space after the other, and proves nothing by
itself. A sum lambda (H x + h) that is negative on the whole box proves that the cell is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval, middle_and_radius, outward
from lipcert.problem.norms import EUCLIDEAN
from lipcert.problem.region import Ball
from lipcert.rounding import TINY, Array, add_down, add_up, gamma, grow

_SWEEPS = 2  # over the half-spaces
_ROUNDS = 8  # of the search for the slope at which a form is divided between a ball and its box


@dataclass(frozen=True, eq=False)
class LinearForms:
    """r forms for every cell (leading axis); `longest` bounds the terms in any sum behind a number."""

    rows: Array
    constant: Array
    size: Array
    error: Array
    longest: int

    def largest(self, box: Interval, ball: Ball | None = None, joint: bool = False) -> Array:
        """Upper bounds of every quantity over the box of its cell, and over the ball that all are in: the better of
        both, or with `joint` over the part of the ball that is in the box."""
        m, r = middle_and_radius(box)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.abs(self.rows)
            top = self._top(weights, m, each(weights, r))
            if ball is not None:
                lengths = EUCLIDEAN.rows_above(self.rows.reshape(-1, self.rows.shape[2])).reshape(top.shape)
                top = np.fmin(top, self._top(weights, np.broadcast_to(ball.center, m.shape), lengths * ball.radius))
                top = np.fmin(top, self._within_both(box, ball)) if joint else top
        return np.where(np.isnan(top), np.inf, top)

    def _within_both(self, box: Interval, ball: Ball) -> Array:
        """Upper bounds of every quantity over the part of the ball that is in the box.

        A row g is divided into a part for the ball and one for the box: with l <= x - c <= u in the box and any t >= 0,

            g'(x - c)  <=  r |h| + sum_i max((g - h)_i l_i, (g - h)_i u_i),      h = g cut off at t l and t u.

        The bound holds for any h.
        """
        c, g = ball.center, self.rows
        low, high = add_down(box.lo, -c)[:, None, :], add_up(box.hi, -c)[:, None, :]
        with np.errstate(all="ignore"):
            h = share_of_ball(g, low, high, ball.radius)
            rest = g - h
            reach = EUCLIDEAN.rows_above(h.reshape(-1, h.shape[2])).reshape(h.shape[:2]) * ball.radius
            more = np.maximum(np.maximum(rest * low, rest * high), 0.0)
            # The difference g - h and both products round, and so does the sum.
            paid = gamma(h.shape[2] + 8) * (np.abs(rest) * np.maximum(-low, high)).sum(axis=2) + h.shape[2] * TINY
            return self._top(np.abs(g), np.broadcast_to(c, box.lo.shape), grow(reach + more.sum(axis=2) + paid, 8))

    def _top(self, weights: Array, center: Array, reach: Array) -> Array:
        """Upper bounds of the quantities where rows x is within `reach` of its value at the center."""
        spread = reach + gamma(self.longest) * (self.size + each(weights, np.abs(center))) + self.error
        return outward(self.constant + each(self.rows, center), grow(spread, 2 * self.longest)).hi

    def shifts(self) -> Array:
        """Constants that make the forms bounds in exact arithmetic: errors added, rounded up."""
        with np.errstate(over="ignore", invalid="ignore"):
            spread = grow(gamma(self.longest) * self.size + self.error, 2 * self.longest)
            return add_up(self.constant, spread)


def share_of_ball(g: Array, low: Array, high: Array, radius: float) -> Array:
    """The rows cut off at t low and t high, with the t that puts them, over t, on the sphere: a hint.

    The search for t comes from above: coordinates that are cut off leave the others what they do not use of the radius.
    """
    size, room = np.abs(g), np.maximum(np.where(g > 0, high, -low), 0.0)
    t = np.sqrt(np.square(size).sum(axis=2)) / radius
    for _ in range(_ROUNDS):
        free = size <= t[:, :, None] * room
        used = np.where(free, 0.0, np.square(room)).sum(axis=2)
        left = np.maximum(radius * radius - used, 0.0)
        t = np.sqrt(np.where(free, np.square(size), 0.0).sum(axis=2) / left)
    t = np.where(np.isfinite(t), t, 0.0)[:, :, None]
    return np.clip(g, t * np.minimum(low, 0.0), t * np.maximum(high, 0.0))


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """Half-spaces H x + h >= 0, exact by definition: q for every cell, and the neuron of each (-1: none, H = h = 0)."""

    H: Array
    h: Array
    neuron: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.h.shape[1])

    def rows(self, k: slice | NDArray[np.int64]) -> HalfSpaces:
        return HalfSpaces(self.H[k], self.h[k], self.neuron[k])

    def copied(self) -> HalfSpaces:
        """The same numbers in arrays of their own."""
        return HalfSpaces(self.H.copy(), self.h.copy(), self.neuron.copy())

    def with_signs(self, above: LinearForms, signs: NDArray[np.int8], neuron: NDArray[np.int64]) -> HalfSpaces:
        """These and the half-spaces of some neurons: `above` are forms above z (first half) and -z (second half).
        Signs and neurons are a row for every cell.

        s z >= 0 on the cell and s z <= form: so form >= 0.
        """
        most = int(np.count_nonzero(signs, axis=1).max(initial=0))
        if not most:
            return self
        order = np.argsort(signs == 0, axis=1, kind="stable")[:, :most]  # the fixed ones first
        picked = np.take_along_axis(signs, order, axis=1)
        where = np.where(picked > 0, order, order + signs.shape[1])
        H = np.take_along_axis(above.rows, where[:, :, None], axis=1)
        h = np.take_along_axis(above.shifts(), where, axis=1)
        sure = (picked != 0) & np.isfinite(h) & np.all(np.isfinite(H), axis=2)
        H, h = np.where(sure[:, :, None], H, 0.0), np.where(sure, h, 0.0)
        return stacked([self, HalfSpaces(H, h, np.where(sure, np.take_along_axis(neuron, order, axis=1), -1))], axis=1)


def no_sides(count: int, inputs: int) -> HalfSpaces:
    """No half-spaces of `count` cells."""
    return HalfSpaces(np.zeros((count, 0, inputs)), np.zeros((count, 0)), np.zeros((count, 0), dtype=np.int64))


def stacked(pieces: Sequence[HalfSpaces], axis: int = 0) -> HalfSpaces:
    """Half-spaces of several batches (axis 0), or more of the same cells (axis 1)."""
    if axis == 0:
        most = max(p.count for p in pieces)
        pieces = [_padded(p, most) for p in pieces]
    return HalfSpaces(*(np.concatenate([getattr(p, name) for p in pieces], axis=axis) for name in ("H", "h", "neuron")))


def _padded(sides: HalfSpaces, count: int) -> HalfSpaces:
    more = count - sides.count
    if not more:
        return sides
    return HalfSpaces(
        np.pad(sides.H, ((0, 0), (0, more), (0, 0))),
        np.pad(sides.h, ((0, 0), (0, more))),
        np.pad(sides.neuron, ((0, 0), (0, more)), constant_values=-1),
    )


def pushed(forms: LinearForms, sides: HalfSpaces, box: Interval) -> LinearForms:
    """The forms plus the multiples of half-spaces that make their maxima over the box small."""
    with np.errstate(all="ignore"):
        weights = multiples(forms, sides, box)
    return combined(forms, sides, weights, box)


def combined(forms: LinearForms, sides: HalfSpaces, weights: Array, box: Interval) -> LinearForms:
    """forms + weights (H x + h), weights >= 0; what rounds in the coefficients is paid with the largest |x|."""
    weights = np.where(np.isfinite(weights), np.maximum(weights, 0.0), 0.0)
    longest = forms.longest + sides.count + 8
    g = gamma(sides.count + 8)
    reach = np.maximum(np.abs(box.lo), np.abs(box.hi))
    with np.errstate(over="ignore", invalid="ignore"):
        rows = forms.rows + np.matmul(weights, sides.H)
        bulk = np.abs(forms.rows) + np.matmul(weights, np.abs(sides.H))
        more = np.matmul(weights, sides.h[:, :, None])[:, :, 0]
        size = forms.size + np.abs(forms.constant) + np.matmul(weights, np.abs(sides.h)[:, :, None])[:, :, 0]
        floor = longest * TINY * (1.0 + reach.sum(axis=1))[:, None]
        error = grow(forms.error + g * each(bulk, reach) + floor, longest)
        return LinearForms(rows, forms.constant + more, size, error, longest)


def proves_empty(sides: HalfSpaces, weights: Array, box: Interval) -> NDArray[np.bool_]:
    """Whether weights (H x + h) < 0 on the whole box of a cell, for weights >= 0: one vector of weights per cell."""
    count, _, n = sides.H.shape
    nothing = np.zeros((count, 1))
    zero = LinearForms(np.zeros((count, 1, n)), nothing, nothing, nothing, n + 8)
    return np.asarray(combined(zero, sides, weights[:, None, :], box).largest(box)[:, 0] < 0)


def multiples(forms: LinearForms, sides: HalfSpaces, box: Interval) -> Array:
    """Hints for the multiples: the exact minimum in one of them after the other."""
    m, r = middle_and_radius(box)
    a = forms.rows * r[:, None, :]
    G = sides.H * r[:, None, :]
    slope = sides.h + each(sides.H, m)
    weights = np.zeros((*forms.constant.shape, sides.count))
    for _ in range(_SWEEPS):
        for q in range(sides.count):
            base = a - weights[:, :, q, None] * G[:, None, q, :]
            best = _least(base, G[:, None, q, :], slope[:, q, None])
            a = base + best[:, :, None] * G[:, None, q, :]
            weights[:, :, q] = best
    return weights


def _least(a: Array, G: Array, slope: Array) -> Array:
    """The lambda >= 0 with the least lambda slope + sum_i |a_i + lambda G_i|: the breakpoint where the slope turns.

    Most forms do not fall from lambda = 0 on, and only the others are sorted.
    """
    G = np.broadcast_to(G, a.shape)
    size = np.abs(G)
    start = slope + np.where(a * G < 0, -size, size).sum(axis=2)
    found: Array = np.zeros(start.shape)
    falls = start < 0
    if falls.any():
        found[falls] = _turn(a[falls], G[falls], start[falls])
    return found


def _turn(a: Array, G: Array, start: Array) -> Array:
    """The lambda where the slope of sum_i |a_i + lambda G_i| turns; it is `start` < 0 at 0. One form per row."""
    point = np.where(G != 0, -a / np.where(G != 0, G, 1.0), -1.0)
    ahead = point > 0
    order = np.argsort(np.where(ahead, point, np.inf), axis=1)
    gain = np.take_along_axis(np.where(ahead, 2 * np.abs(G), 0.0), order, axis=1)
    after = start[:, None] + np.cumsum(gain, axis=1)
    turn = np.argmax(after >= 0, axis=1)
    turn = np.where(np.any(after >= 0, axis=1), turn, np.maximum(ahead.sum(axis=1) - 1, 0))
    found = np.take_along_axis(np.take_along_axis(point, order, axis=1), turn[:, None], axis=1)[:, 0]
    return np.where(found > 0, found, 0.0)


def each(rows: Array, x: Array) -> Array:
    """rows[k] x[k] for every cell k."""
    return np.asarray(np.matmul(rows, x[:, :, None])[:, :, 0])
