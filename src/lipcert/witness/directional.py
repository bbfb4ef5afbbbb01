"""One directional derivative at a point, proved from a backward and a forward pass in floats.

Let h_i be any numbers for the blocks, with h = d at the scores, and G_j = sum_i A_ij'h_i. The derivative of d'scores
along v is

    d't = G_0'v + sum_j (s_j G_j - h_j)'t_j            t_j the tangents of z_j along v, s_j the exact slopes

because sum_i h_i't_i = sum_j G_j'u_j with u_0 = v and u_j = s_j t_j. The backward pass makes h_j = s_j G_j but for
rounding and for slopes in doubt, so the sum is small: errors of the tangents are multiplied by errors of the backward
pass. An enclosure of the gradient itself grows with the magnitudes of all weights, and is worthless in deep networks.
A neuron on its kink whose z does not change along v, as where two equal numbers are compared, does no harm.

The passes carry error bounds (`Approximate`): an exact vector is x + rows'y + e with |y_k| <= 1 and |e| <= rest. An
affine map takes x and the rows along and adds its rounding to the rest; the magnitudes |A| of the weights make the rest
grow. If the rest of every neuron of a block becomes a row of its own, it grows by products of the weights with their
signs: no faster than the errors themselves. This costs as many rows as these blocks have neurons, so it is done in
networks that are small enough (`ErrorRows.fit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lipcert.bounds.interval import Interval, outward
from lipcert.problem.activations import Activation
from lipcert.problem.maps import Matrix, summed, times
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, add_up, gamma, grow

_EVERY = 4  # blocks between two with rows; in between |A| costs about two of ten spare digits a block of 200 neurons
_MOST_NUMBERS = 1 << 26  # numbers in the rows of all blocks: 0.5 GB
_MOST_WORK = 2e10  # multiplications of all rows with all weights: about a second on one core


@dataclass(frozen=True, eq=False)
class Approximate:
    """An exact vector: the floats `value`, plus a combination of the `rows`, plus at most `rest`."""

    value: Array
    rows: Array
    rest: Array

    @classmethod
    def exact(cls, value: Array) -> Approximate:
        return cls(value, np.zeros((0, value.size)), np.zeros(value.size))

    @cached_property
    def spread(self) -> Array:
        """Upper bounds of the rows' combination."""
        return grow(np.abs(self.rows).sum(axis=0), len(self.rows)) if len(self.rows) else np.zeros(self.value.size)

    @property
    def error(self) -> Array:
        """Upper bounds of the distance of the exact vector from its floats."""
        return grow(self.spread + self.rest, 2)

    @property
    def size(self) -> Array:
        """Upper bounds of the magnitude of the exact vector."""
        return grow(np.abs(self.value) + self.error, 2)

    @property
    def interval(self) -> Interval:
        return outward(self.value, self.error)

    def scaled(self, value: Array, slope: Array, doubt: Array, more: Array) -> Approximate:
        """The vector times a slope within `doubt` of this one; `value` is the product, `more` its rounding."""
        share = np.abs(slope) + 4 * UNIT * (np.abs(slope) + TINY)
        rest = share * self.rest + (doubt + 4 * UNIT * share) * self.error + more
        return Approximate(value, self.rows * slope, grow(rest, 12) + (len(self.rows) + 8) * TINY)


class ErrorRows:
    """Which blocks of a pass get error rows, and how many rows there are; without `kept` no block gets any."""

    def __init__(self, kept: bool) -> None:
        self.kept, self.count, self.blocks = kept, 0, 0

    @staticmethod
    def work(net: Network) -> float:
        """Multiplications of one pass with rows."""
        return net.neurons / _EVERY * net.entries

    @classmethod
    def fit(cls, net: Network) -> bool:
        """Whether they are affordable."""
        return net.neurons / _EVERY * net.neurons / 2 <= _MOST_NUMBERS and cls.work(net) <= _MOST_WORK

    def of(self, x: Approximate) -> Approximate:
        """The values of the next block; every few blocks its rest becomes rows behind all others."""
        self.blocks += 1
        if not self.kept or self.blocks % _EVERY:
            return x
        rows = np.concatenate([_padded(x.rows, self.count), np.diag(x.rest)])
        self.count += len(x.rest)
        return Approximate(x.value, rows, np.zeros(x.rest.size))


def affine(terms: Sequence[tuple[Matrix, Approximate]], bias: Array | None = None) -> Approximate:
    """bias + sum of weight x over the terms."""
    n = sum(summed(weight) for weight, _ in terms)
    g, most = gamma(n + len(terms) + 4), max(len(x.rows) for _, x in terms)
    width = terms[0][0].shape[0]
    value, rest, rows = np.zeros(width), np.zeros(width), np.zeros((most, width))
    for weight, x in terms:
        value = value + times(weight, x.value[None, :])[0]
        if len(x.rows):
            rows += times(weight, _padded(x.rows, most))
        rounding = g * grow(np.abs(x.value) + x.spread, 2)
        rest = rest + times(abs(weight), (x.rest + rounding)[None, :])[0]
    if bias is not None:
        value, rest = value + bias, rest + g * np.abs(bias)
    return Approximate(value, rows, grow(rest, n + len(terms) + 8) + (most + 1.0) * (n + 8) * TINY)


def preactivations(net: Network, point: Array, *, rows: bool) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m at the point; `rows` says whether blocks get rows of their own."""
    xs, found, every = [Approximate.exact(point)], [], ErrorRows(rows)
    for block, f in zip(net.hidden, net.activations, strict=True):
        z = affine([(weight, xs[j]) for j, weight in block.terms], block.bias)
        z = z if block.slack is None else replace(z, rest=add_up(z.rest, block.slack))
        found.append(z.interval)
        xs.append(every.of(_activated(f, z, found[-1])))
    return tuple(found)


def slope_doubt(slope: Array, bounds: Interval) -> Array:
    """The largest distance of the exact slope from this one."""
    return np.maximum(np.maximum(add_up(bounds.hi, -slope), add_up(slope, -bounds.lo)), 0.0)


def product_above(a: Array, b: Array) -> float:
    """An upper bound of a'b for vectors that are not negative."""
    return float(grow(np.asarray(a @ b), a.size))


def _activated(f: Activation, z: Approximate, range_: Interval) -> Approximate:
    """f(z) - f(float) is the distance times a slope between the two."""
    value, slope = f(z.value), f.derivative(z.value)
    low, high = f.value_bounds(z.value, z.value)
    doubt = slope_doubt(slope, Interval(*f.derivative_bounds(*range_)))
    return z.scaled(value, slope, doubt, slope_doubt(value, Interval(low, high)))


def _padded(rows: Array, count: int) -> Array:
    return rows if len(rows) == count else np.pad(rows, ((0, count - len(rows)), (0, 0)))


PASSES = 6  # products with every weight


@dataclass(frozen=True, eq=False)
class _Backward:
    """G of the input with its error, and bounds of |s G - h| for every block."""

    first: Approximate
    residuals: list[Array]


def derivative_below(
    net: Network,
    slopes: Sequence[Interval],
    near: Sequence[Array],
    d: Array,
    direction: Callable[[Array], Array],
    *,
    rows: bool = False,
) -> tuple[float, Array]:
    """A lower bound of |d'J v| for all slopes within bounds, and v, which `direction` chooses from the gradient.

    `near` are slopes in plain floating point. `rows` says whether blocks of tangents get rows of their own.
    """
    own = [np.clip(s, b.lo, b.hi) for s, b in zip(near, slopes, strict=True)]
    doubts = [slope_doubt(s, b) for s, b in zip(own, slopes, strict=True)]
    back = _pulled_back(net, own, doubts, d)
    v = direction(back.first.value)
    size = np.abs(v)
    rounding = grow(back.first.rest + gamma(v.size + 4) * np.abs(back.first.value), 4)
    gain = math.nextafter(float(back.first.value @ v) - product_above(rounding, size), -math.inf)
    left = math.nextafter(gain - _lost(net, own, doubts, back.residuals, v, gain, rows), -math.inf)
    return (left if 0.0 < left < math.inf else 0.0), v


def _pulled_back(net: Network, own: Sequence[Array], doubts: Sequence[Array], d: Array) -> _Backward:
    behind: list[list[tuple[Matrix, Approximate]]] = [[] for _ in net.blocks]
    residuals = [np.zeros(0)] * net.depth
    for i in range(len(net.blocks), 0, -1):
        h = d
        if i <= net.depth:
            if not behind[i]:  # nobody reads this block
                residuals[i - 1] = np.zeros(net.blocks[i - 1].width)
                continue
            g, s, w = affine(behind[i]), own[i - 1], doubts[i - 1]
            h = s * g.value
            rest = grow(np.abs(s) + w, 2) * g.rest + w * np.abs(g.value) + 2 * UNIT * np.abs(h)
            residuals[i - 1] = grow(rest, 8) + 8 * TINY
        for j, weight in net.blocks[i - 1].terms:
            behind[j].append((weight.T, Approximate.exact(h)))
    return _Backward(affine(behind[0]) if behind[0] else Approximate.exact(np.zeros(net.inputs)), residuals)


def _lost(
    net: Network,
    own: Sequence[Array],
    doubts: Sequence[Array],
    residuals: Sequence[Array],
    v: Array,
    gain: float,
    rows: bool,
) -> float:
    """An upper bound of the sum of residuals times tangents; infinite as soon as it exceeds the gain."""
    us, lost, every = [Approximate.exact(v)], 0.0, ErrorRows(rows)
    for i, block in enumerate(net.hidden):
        t = affine([(weight, us[j]) for j, weight in block.terms])
        lost = math.nextafter(lost + product_above(residuals[i], t.size), math.inf)
        if not lost < gain:
            return math.inf
        u = own[i] * t.value
        more = doubts[i] * np.abs(t.value) + 2 * UNIT * np.abs(u) + TINY
        us.append(every.of(t.scaled(u, own[i], doubts[i], more)))
    return lost
