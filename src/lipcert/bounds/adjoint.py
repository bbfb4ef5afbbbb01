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
    """Above and below u g: up_slope g + up_shift, low_slope g - low_shift, neuron by neuron of every cell."""

    up_slope: Array
    up_shift: Array
    low_slope: Array
    low_shift: Array

    def above(self, w: Array) -> tuple[Array, Array]:
        """Coefficients r and constants with w (u g) <= r g + constant, for rows w of every cell."""
        positive = np.maximum(w, 0.0)
        constant = each(positive, self.up_shift) + each(positive - w, self.low_shift)
        return w * np.where(w > 0, self.up_slope[:, None, :], self.low_slope[:, None, :]), constant


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
    return Lines(up, _known(grow(up_shift, 2)), low, _known(grow(low_shift, 2)))


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
            open_ = np.ones(self.net.shape[j], dtype=bool) if j == 0 else np.any(self._open(j), axis=0)
            g = self._better(j, np.flatnonzero(open_), g)
        self.gradients[j], self.prices[j] = g, self._price(j, g, flow)
        if j:
            self.lines[j] = product_lines(self.slopes[j - 1], g)
            self.sigma[j] = scaled(self.slopes[j - 1], g)

    def _open(self, j: int) -> NDArray[np.bool_]:
        return self.slopes[j - 1].lo < self.slopes[j - 1].hi

    def _price(self, j: int, g: Interval, flow: Array) -> Array:
        """What a coefficient of g_j costs in rounding: its own product, the sums behind it, and k_j."""
        k, radius = middle_and_radius(self.given[j])
        paid = 4 * UNIT * g.magnitude + gamma(self.longest) * flow + radius
        return np.stack([np.abs(k), paid], axis=2)

    def _better(self, j: int, neurons: NDArray[np.int64], g: Interval) -> Interval:
        """Entries of g_j by forms, both sides."""
        lo, hi = g.lo.copy(), g.hi.copy()
        widest = max(self.net.shape[1:-1])
        step = max(1, _NUMBERS // (2 * self.cells * widest))
        for start in range(0, len(neurons), step):
            own = neurons[start : start + step]
            k, radius = middle_and_radius(Interval(self.given[j].lo[:, own], self.given[j].hi[:, own]))
            both = np.concatenate([k, -k], axis=1)
            state = _Sums(both.copy(), np.abs(both), np.tile(radius, 2))
            pending: dict[int, Array] = {}
            for i, weight in self.net.readers[j]:
                if i <= self.net.depth:
                    columns = _columns(weight, own)
                    rows = np.concatenate([columns, -columns])
                    pending[i] = np.broadcast_to(rows, (self.cells, *rows.shape))
            top = self._up(pending, j + 1, state)
            # Not where the slope is known: the bounds of a cell must not depend on the company it is in.
            used = np.ones(top[:, : len(own)].shape, dtype=bool) if j == 0 else self._open(j)[:, own]
            hi[:, own] = np.where(used, np.minimum(hi[:, own], top[:, : len(own)]), hi[:, own])
            lo[:, own] = np.where(used, np.maximum(lo[:, own], -top[:, len(own) :]), lo[:, own])
        return Interval(np.minimum(lo, hi), np.maximum(lo, hi))

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
                if j:
                    lines = self.lines[j]
                    assert lines is not None
                    rows, constant = lines.above(w)
                    sums.constant += constant
                    sums.size += constant
                    if losses is not None:
                        first = w[:, 0]
                        losses.append(np.where(first > 0, first * lines.up_shift, -first * lines.low_shift))
                else:
                    rows = w
                self._pay(j, rows, sums)
                flat = rows.reshape(-1, rows.shape[2])
                for i, weight in net.readers[j]:
                    if i <= net.depth:
                        pushed = times(flat, weight).reshape(*rows.shape[:2], -1)
                        pending[i] = pending[i] + pushed if i in pending else pushed
            spread = grow(gamma(self.longest) * sums.size + sums.error, 2 * self.longest)
            return _known(outward(sums.constant, spread).hi)

    def _pay(self, j: int, rows: Array, sums: _Sums) -> None:
        """k_j enters the constants, and what rounded on the way to these coefficients the error."""
        price, bounds = self.prices[j], self.gradients[j]
        assert price is not None
        assert bounds is not None
        k, _ = middle_and_radius(self.given[j])
        sums.constant += each(rows, k)
        both = np.matmul(np.abs(rows), price)
        sums.size += both[:, :, 0]
        reach = bounds.magnitude.sum(axis=1) + price[:, :, 1].sum(axis=1)
        sums.error += both[:, :, 1] + (self.longest * TINY * (1.0 + reach))[:, None]


@dataclass(eq=False)
class _Sums:
    """Of every form: the constants added up, their sizes, and what is paid for rounding."""

    constant: Array
    size: Array
    error: Array


def _columns(weight: Matrix, own: NDArray[np.int64]) -> Array:
    """Some columns of a weight, each as a row."""
    return np.ascontiguousarray(weight[:, own].T) if isinstance(weight, np.ndarray) else dense(weight.T[own])
