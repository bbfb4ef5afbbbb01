"""Linear bounds on the graph of the gradient: CROWN's substitution, run through the chain rule, on many cells at once.

    g_j = k_j + sum_i A_ij'(u_i g_i)      over the hidden blocks i that read x_j, with k_j what the scores give,

where all that is known of a slope is u in [a, b]. With g in [l, h] the product lies between two lines,

    s' g - e'  <=  u g  <=  s g + e       chords of max(a g, b g) and of min(a g, b g) over [l, h],

so a linear form in g_j gives way to one in the gradients of the blocks above, until only constants are left. From the
last block down this bounds every entry of every gradient; where u is known nothing is lost. Bounding entries by
intervals instead loses what cancels. Where u = f'(z) is smooth there is another way,

    u g  =  u0 g + g0 (u - u0) + (u - u0)(g - g0),      |u - u0| |g - g0| <= the product of both radii,

whose u lies between lines in z, and z in those in x (`tangents`): what is lost falls with the square of the region's
size. The better of both is taken. A form is exact by definition: what rounding changes in its coefficients is paid at
once, with the largest |g|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import Forms, each
from lipcert.bounds.interval import Interval, finite_sum, middle_and_radius, outward, scaled, times
from lipcert.bounds.substitution import descend, through_lines
from lipcert.bounds.tangents import Tangent
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

    `values` are the stages of these cells where tangents are wanted. `gradients` holds the bounds found so far, from
    the last block down to the input.
    """

    def __init__(
        self, net: Network, slopes: tuple[Interval, ...], c: Array, values: Sequence[Tangent] | None = None
    ) -> None:
        self.net, self.slopes, self.values = net, slopes, values
        self.cells = len(slopes[0].lo) if slopes else len(np.atleast_2d(c))
        weights = np.broadcast_to(c, (self.cells, net.outputs))
        self.longest = sum(net.shape) + 16 * (len(net.blocks) + 1)
        self.given = [self._from_scores(j, weights) for j in range(net.depth + 1)]
        self.gradients: list[Interval | None] = [None] * (net.depth + 1)
        self.lines: list[Lines | None] = [None] * (net.depth + 1)
        self.prices: list[Array | None] = [None] * (net.depth + 1)
        self.middle: dict[int, Array] = {}  # of k_j
        self.rounding: dict[int, Array] = {}  # what a coefficient of g_j costs
        self.reach: dict[int, Array] = {}  # the sum of all |g_j| at most: what underflow is multiplied with
        self.sigma = {net.depth + 1: Interval(weights, weights)}  # of u_i g_i

    def _from_scores(self, j: int, weights: Array) -> Interval:
        """k_j."""
        terms = [(w.T, Interval(weights, weights)) for i, w in self.net.readers[j] if i > self.net.depth]
        nothing = np.zeros((self.cells, self.net.shape[j]))
        return finite_sum(terms) if terms else Interval(nothing, nothing)

    def run(self, entries: bool | NDArray[np.bool_] = True) -> tuple[Interval, ...]:
        """Bounds of the gradients by x_0 .. x_m: of the input's entries and of neurons with open slopes by forms.

        Without `entries`, those of the input whose sign intervals know stay as they are; a mask (cells, inputs) says
        which of them are wanted at all.
        """
        for j in range(self.net.depth, -1, -1):
            self._enter(j, entries)
        return tuple(g for g in self.gradients if g is not None)

    def _enter(self, j: int, entries: bool | NDArray[np.bool_]) -> None:
        hidden = [(i, w) for i, w in self.net.readers[j] if i <= self.net.depth]
        g, flow = self.given[j], np.zeros(self.given[j].lo.shape)
        if hidden:
            g = finite_sum([(w.T, self.sigma[i]) for i, w in self.net.readers[j]])
            flow = np.asarray(sum(times(self.sigma[i].magnitude, abs(w.T)) for i, w in hidden))
            g = self._better(j, g, self._open(j) if j else self._wanted(g, entries))
        self.gradients[j] = g
        if j:
            self.lines[j] = product_lines(self.slopes[j - 1], g)
            self.sigma[j] = scaled(self.slopes[j - 1], g)
        self.prices[j] = self._price(j, g, flow)

    def _wanted(self, g: Interval, entries: bool | NDArray[np.bool_]) -> NDArray[np.bool_]:
        return entries if isinstance(entries, np.ndarray) else (g.lo < 0) & (g.hi > 0) | entries

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
        lines, self.rounding[j] = self.lines[j], np.stack([size, paid], axis=2)
        if lines is None:
            return np.stack([np.zeros_like(size), size, paid], axis=2)
        steep = np.maximum(np.abs(lines.up_slope), np.abs(lines.low_slope))
        return np.stack([lines.shift, steep * size, steep * paid], axis=2)

    def _better(self, j: int, g: Interval, mine: NDArray[np.bool_]) -> Interval:
        """Entries of g_j by forms, both sides: those that a cell wants."""
        lo, hi = g.lo.copy(), g.hi.copy()
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
            top = self._least(pending, j + 1, state)
            # Not where others want them: the bounds of a cell must not depend on the company it is in.
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
        sums = _Sums(*(np.zeros(rows.shape[:2]) for _ in range(3)))
        losses: list[Array] = []
        return self._least({0: rows}, 0, sums, losses), losses

    def _least(self, pending: dict[int, Array], start: int, sums: _Sums, losses: list[Array] | None = None) -> Array:
        """By chords, and by tangents where there are any."""
        if self.values is None:
            return self._up(pending, start, sums, losses)
        curved = self._up(dict(pending), start, sums.copy(), None, self.values)
        return np.minimum(curved, self._up(pending, start, sums, losses))

    def _up(
        self,
        pending: dict[int, Array],
        start: int,
        sums: _Sums,
        losses: list[Array] | None = None,
        values: Sequence[Tangent] | None = None,
    ) -> Array:
        net, lifted = self.net, {}
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(start, net.depth + 1):
                w = pending.pop(j, None)
                if w is None:
                    if losses is not None and j:
                        losses.append(np.zeros((self.cells, net.shape[j])))
                    continue
                if values is not None and j and not net.activations[j - 1].piecewise_linear:
                    rows, lifted[j] = self._tangent(j, w, values[j - 1], sums)
                else:
                    rows = self._chord(j, w, sums, losses)
                sums.constant += each(rows, self.middle[j])
                sums.error += (self.longest * TINY * (1.0 + self.reach[j]))[:, None]
                flat = rows.reshape(-1, rows.shape[2])
                for i, weight in net.readers[j]:
                    if i <= net.depth:
                        pushed = times(flat, weight).reshape(*rows.shape[:2], -1)
                        pending[i] = pending[i] + pushed if i in pending else pushed
            if values is None or not lifted:
                return _known(sums.above(self.longest))
            forms = Forms(np.zeros((*sums.size.shape, 0)), sums.constant, sums.size, sums.error, 2 * self.longest)
            return descend(values, {}, lifted, forms).largest(values[0].sources[0])

    def _chord(self, j: int, w: Array, sums: _Sums, losses: list[Array] | None) -> Array:
        """Coefficients of g_j above w (u g); of the input's own gradient they are given."""
        lines, price = self.lines[j], self.prices[j]
        assert price is not None
        paid = np.matmul(np.abs(w), price)
        sums.constant += paid[:, :, 0]
        sums.size += paid[:, :, 0] + paid[:, :, 1]
        sums.error += paid[:, :, 2]
        if lines is None:
            return w
        if losses is not None:
            losses.append(np.abs(w[:, 0]) * lines.shift)
        return lines.above(w)

    def _tangent(self, j: int, w: Array, stage: Tangent, sums: _Sums) -> tuple[Array, Array]:
        """Coefficients of g_j and of z_j above w (u g)."""
        g, u = self.gradients[j], self.slopes[j - 1]
        assert g is not None
        known = u.lo == u.hi
        u0, u_radius = middle_and_radius(u)
        g0, g_radius = middle_and_radius(g)
        g0 = np.where(known, 0.0, g0)
        both, product = np.where(known, 0.0, u_radius * g_radius * (1 + 4 * UNIT) + TINY), u0 * g0
        slopes, shift, _ = through_lines(w * g0[:, None, :], stage.slope)
        size, rows = np.abs(w), w * u0[:, None, :]
        largest = np.maximum(np.abs(stage.slope.up_shift), np.abs(stage.slope.low_shift))
        sums.constant += each(size, both) - each(w, product) + shift
        sums.size += each(size, both + np.abs(product) + np.abs(g0) * largest)
        off = np.abs(u0) * g.magnitude + np.abs(g0) * (u.magnitude + np.abs(u0) + largest) + TINY
        sums.error += 8 * UNIT * each(size, np.where(known, 0.0, off))
        paid = np.matmul(np.abs(rows), self.rounding[j])
        sums.size += paid[:, :, 0]
        sums.error += paid[:, :, 1]
        return rows, slopes


@dataclass(eq=False)
class _Sums:
    """Of every form: the constants added up, their sizes, and what is paid for rounding."""

    constant: Array
    size: Array
    error: Array

    def copy(self) -> _Sums:
        return _Sums(self.constant.copy(), self.size.copy(), self.error.copy())

    def above(self, longest: int) -> Array:
        """The constants rounded up; no number in them is a sum of more terms."""
        return outward(self.constant, grow(gamma(longest) * self.size + self.error, 2 * longest)).hi


def _columns(weight: Matrix, own: NDArray[np.int64]) -> Array:
    """Some columns of a weight, each as a row."""
    return np.ascontiguousarray(weight.T)[own] if isinstance(weight, np.ndarray) else dense(weight.T[own])
