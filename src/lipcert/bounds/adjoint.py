"""Linear bounds on the graph of the gradient: CROWN's substitution, run through the chain rule, on many cells at once.

    g_j = k_j + sum_i A_ij'(u_i g_i)      over the hidden blocks i that read x_j, with k_j what the scores give,

where all that is known of a slope is u in [a, b]. With g in [l, h] the product lies between two lines,

    s' g - e'  <=  u g  <=  s g + e       chords of max(a g, b g) and of min(a g, b g) over [l, h],

so a linear form in g_j gives way to one in the gradients of the blocks above, until only constants are left. From the
last block down this bounds every entry of every gradient; where u is known nothing is lost. Bounding entries by
intervals instead loses what cancels. A form is exact by definition: what rounding changes in its coefficients is paid
at once, with the largest |g|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import each
from lipcert.bounds.interval import Interval, finite_sum, middle_and_radius, outward, scaled, times
from lipcert.problem.maps import Matrix, dense
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, gamma, grow

_NUMBERS = 1 << 20  # in one array of the coefficients of some forms


@dataclass(frozen=True, eq=False)
class Lines:
    """Above and below u g: up_slope g + shift, low_slope g - shift, neuron by neuron of every cell.

    Both chords are as far from the line through zero: max(a g, b g) + min(a g, b g) is linear.
    """

    up_slope: Array
    low_slope: Array
    shift: Array

    def above(self, w: Array) -> Array:
        """Coefficients r with w (u g) <= r g + |w| shift, for rows w of every cell."""
        return w * np.where(w > 0, self.up_slope[:, None, :], self.low_slope[:, None, :])


def product_lines(u: Interval, g: Interval) -> Lines:
    """The chords; exact where u is a number, or where g has one sign. Shifts are rounded up: any slope is a bound."""
    known, rises, falls = u.lo == u.hi, g.lo >= 0, g.hi <= 0
    with np.errstate(all="ignore"):
        width = g.hi - g.lo
        share = np.where(known | rises | falls, 0.0, g.hi / width)  # of the upper chord: 0 at l, 1 at h
        share = np.where(np.isfinite(share), share, 0.5)
        up = np.where(known | rises, u.hi, np.where(falls, u.lo, u.lo + (u.hi - u.lo) * share))
        low = np.where(known | rises, u.lo, np.where(falls, u.hi, u.hi - (u.hi - u.lo) * share))
        exact = known | rises | falls
        up_shift = np.where(exact, 0.0, np.maximum((u.lo - up) * g.lo, (u.hi - up) * g.hi))
        low_shift = np.where(exact, 0.0, np.maximum((low - u.hi) * g.lo, (low - u.lo) * g.hi))
        slack = 8 * UNIT * np.maximum(np.abs(u.lo), np.abs(u.hi)) * g.magnitude + TINY
        up_shift = np.where(exact, 0.0, np.maximum(up_shift, 0.0) + slack)
        low_shift = np.where(exact, 0.0, np.maximum(low_shift, 0.0) + slack)
    return Lines(up, low, _known(grow(np.maximum(up_shift, low_shift), 2)))


def _known(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, x)


class Adjoint:
    """The gradients of c'scores on a batch of cells; `slopes` by hidden block, c one for all cells or a row for each.

    `gradients` holds the bounds found so far, from the last block down to the input.
    """

    def __init__(self, net: Network, slopes: tuple[Interval, ...], c: Array) -> None:
        self.net, self.slopes = net, slopes
        self.cells = len(slopes[0].lo) if slopes else len(np.atleast_2d(c))
        weights = np.broadcast_to(c, (self.cells, net.outputs))
        self.longest = sum(net.shape) + 16 * (len(net.blocks) + 1)
        self.given = [self._from_scores(j, weights) for j in range(net.depth + 1)]
        self.gradients: list[Interval | None] = [None] * (net.depth + 1)
        self.lines: list[Lines | None] = [None] * (net.depth + 1)
        self.prices: list[Array | None] = [None] * (net.depth + 1)
        self.middle: dict[int, Array] = {}  # of k_j
        self.reach: dict[int, Array] = {}  # the sum of all |g_j| at most: what underflow is multiplied with
        self.sigma = {net.depth + 1: Interval(weights, weights)}  # of u_i g_i

    def _from_scores(self, j: int, weights: Array) -> Interval:
        """k_j."""
        terms = [(w.T, Interval(weights, weights)) for i, w in self.net.readers[j] if i > self.net.depth]
        nothing = np.zeros((self.cells, self.net.shape[j]))
        return finite_sum(terms) if terms else Interval(nothing, nothing)

    def run(self) -> tuple[Interval, ...]:
        """Bounds of the gradients by x_0 .. x_m: of the input's entries and of neurons with open slopes by forms."""
        for j in range(self.net.depth, -1, -1):
            self._enter(j)
        return tuple(g for g in self.gradients if g is not None)

    def _enter(self, j: int) -> None:
        hidden = [(i, w) for i, w in self.net.readers[j] if i <= self.net.depth]
        g, flow = self.given[j], np.zeros(self.given[j].lo.shape)
        if hidden:
            g = finite_sum([(w.T, self.sigma[i]) for i, w in self.net.readers[j]])
            flow = np.asarray(sum(times(self.sigma[i].magnitude, abs(w.T)) for i, w in hidden))
            g = self._better(j, g)
        self.gradients[j] = g
        if j:
            self.lines[j] = product_lines(self.slopes[j - 1], g)
            self.sigma[j] = scaled(self.slopes[j - 1], g)
        self.prices[j] = self._price(j, g, flow)

    def _open(self, j: int) -> NDArray[np.bool_]:
        return self.slopes[j - 1].lo < self.slopes[j - 1].hi

    def _price(self, j: int, g: Interval, flow: Array) -> Array:
        """What a coefficient of u_j g_j costs, in sizes of constants and in rounding: the shift of its line; and of its
        share of g_j, which is at most the steeper slope, the product, the sums behind it, and k_j."""
        k, radius = middle_and_radius(self.given[j])
        self.middle[j] = k
        self.reach[j] = g.magnitude.sum(axis=1)
        size, paid = np.abs(k), 4 * UNIT * g.magnitude + gamma(self.longest) * flow + radius
        self.reach[j] += paid.sum(axis=1)
        lines = self.lines[j]
        if lines is None:
            return np.stack([np.zeros_like(size), size, paid], axis=2)
        steep = np.maximum(np.abs(lines.up_slope), np.abs(lines.low_slope))
        return np.stack([lines.shift, steep * size, steep * paid], axis=2)

    def _better(self, j: int, g: Interval) -> Interval:
        """Entries of g_j by forms, both sides: of the input all, of a block those with an open slope, cell by cell."""
        lo, hi = g.lo.copy(), g.hi.copy()
        mine = np.ones(lo.shape, dtype=bool) if j == 0 else self._open(j)
        for own in self._some(j, mine):
            rows, count = np.broadcast_to(own, (self.cells, own.shape[-1])), own.shape[-1]
            given = Interval(*(np.take_along_axis(end, rows, axis=1) for end in self.given[j]))
            k, radius = middle_and_radius(given)
            both = np.concatenate([k, -k], axis=1)
            state = _Sums(both.copy(), np.abs(both), np.tile(radius, 2))
            pending: dict[int, Array] = {}
            for i, weight in self.net.readers[j]:
                if i <= self.net.depth:
                    columns = _columns(weight, own)
                    signed = np.concatenate([columns, -columns], axis=-2)
                    pending[i] = np.broadcast_to(signed, (self.cells, *signed.shape[-2:]))
            top = self._up(pending, j + 1, state)
            # Not where the slope is known: the bounds of a cell must not depend on the company it is in.
            used = np.take_along_axis(mine, rows, axis=1)
            low, high = np.take_along_axis(lo, rows, axis=1), np.take_along_axis(hi, rows, axis=1)
            np.put_along_axis(hi, rows, np.where(used, np.minimum(high, top[:, :count]), high), axis=1)
            np.put_along_axis(lo, rows, np.where(used, np.maximum(low, -top[:, count:]), low), axis=1)
        return Interval(np.minimum(lo, hi), np.maximum(lo, hi))

    def _some(self, j: int, mine: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """Groups of entries whose forms fit into memory: the same of all cells, or a row for each if they are few."""
        neurons = np.flatnonzero(np.any(mine, axis=0))
        most = int(mine.sum(axis=1).max(initial=0))
        if 2 * most < len(neurons) and all(isinstance(w, np.ndarray) for _, w in self.net.readers[j]):
            neurons = np.argsort(~mine, axis=1, kind="stable")[:, :most]
        step = max(1, _NUMBERS // (2 * self.cells * max(self.net.shape[1:-1])))
        return [neurons[..., k : k + step] for k in range(0, neurons.shape[-1], step)]

    def largest(self, rows: Array) -> tuple[Array, list[Array]]:
        """At least the maximum of rows g_0, rows of every cell, and what each neuron's lines added to the first."""
        state = _Sums(*(np.zeros(rows.shape[:2]) for _ in range(3)))
        losses: list[Array] = []
        top = self._up({0: rows}, 0, state, losses)
        return top, losses

    def _up(self, pending: dict[int, Array], start: int, sums: _Sums, losses: list[Array] | None = None) -> Array:
        net = self.net
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(start, net.depth + 1):
                w = pending.pop(j, None)
                if w is None:
                    if losses is not None and j:
                        losses.append(np.zeros((self.cells, net.shape[j])))
                    continue
                rows, lines, price = w, self.lines[j], self.prices[j]
                assert price is not None
                paid = np.matmul(np.abs(w), price)
                if lines is not None:
                    rows = lines.above(w)
                    if losses is not None:
                        losses.append(np.abs(w[:, 0]) * lines.shift)
                sums.constant += paid[:, :, 0] + each(rows, self.middle[j])
                sums.size += paid[:, :, 0] + paid[:, :, 1]
                sums.error += paid[:, :, 2] + (self.longest * TINY * (1.0 + self.reach[j]))[:, None]
                flat = rows.reshape(-1, rows.shape[2])
                for i, weight in net.readers[j]:
                    if i <= net.depth:
                        pushed = times(flat, weight).reshape(*rows.shape[:2], -1)
                        pending[i] = pending[i] + pushed if i in pending else pushed
            spread = grow(gamma(self.longest) * sums.size + sums.error, 2 * self.longest)
            return _known(outward(sums.constant, spread).hi)


@dataclass(eq=False)
class _Sums:
    """Of every form: the constants added up, their sizes, and what is paid for rounding."""

    constant: Array
    size: Array
    error: Array


def _columns(weight: Matrix, own: NDArray[np.int64]) -> Array:
    """Some columns of a weight, each as a row."""
    return np.ascontiguousarray(weight.T)[own] if isinstance(weight, np.ndarray) else dense(weight.T[own])
