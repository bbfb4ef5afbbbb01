"""Error bounds of one pass through a network at a point: floats, and how far exact numbers may lie from them.

An exact vector is x + rows'y + e with |y_k| <= 1 and |e| <= rest. An affine map takes x and the rows along and adds its
rounding to the rest; the magnitudes |A| of the weights make the rest grow. Where every neuron's rest becomes a row of
its own, it grows by products of the weights as they are: no faster than the errors themselves. That costs as many
columns as the network has neurons, so it is for networks that are small enough (`rows_fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipcert.bounds.interval import Interval, outward
from lipcert.problem.activations import Activation
from lipcert.problem.maps import Matrix, times
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, add_up, gamma, grow

_MOST_NUMBERS = 1 << 24  # in the rows of one block: 128 MB of them
_MOST_WORK = 2e10  # multiplications of all rows with all weights: about a second on one core


@dataclass(frozen=True, eq=False)
class Near:
    """An exact vector: the floats `value`, plus some of each of the `rows`, plus at most `rest`."""

    value: Array
    rows: Array
    rest: Array

    @classmethod
    def exact(cls, value: Array) -> Near:
        return cls(value, np.zeros((0, value.size)), np.zeros(value.size))

    @property
    def error(self) -> Array:
        """At least the distance of the exact vector from its floats."""
        return grow(np.abs(self.rows).sum(axis=0) + self.rest, len(self.rows) + 2)

    @property
    def size(self) -> Array:
        """At least the magnitude of the exact vector."""
        return grow(np.abs(self.value) + self.error, 2)

    @property
    def interval(self) -> Interval:
        return outward(self.value, self.error)

    def with_rows(self, count: int) -> Near:
        """The rest as rows of its own behind the first `count`, some of which belong to other blocks."""
        own = np.diag(self.rest)
        rows = np.concatenate([_padded(self.rows, count), own])
        return Near(self.value, rows, np.zeros(self.rest.size))

    def scaled(self, value: Array, slope: Array, doubt: Array, more: Array) -> Near:
        """What a slope within `doubt` of this one makes of the distance from the floats; `more` is a rounding."""
        share = np.abs(slope) + 4 * UNIT * (np.abs(slope) + TINY)
        rest = share * self.rest + (doubt + 4 * UNIT * share) * self.error + more
        return Near(value, self.rows * slope, grow(rest, 12) + (len(self.rows) + 8) * TINY)


def rows_fit(net: Network) -> bool:
    """Whether a row for every neuron is affordable, also where weights have entries of any kind."""
    return net.neurons * max(net.shape) <= _MOST_NUMBERS and float(net.neurons) * net.entries <= _MOST_WORK


def affine(terms: Sequence[tuple[Matrix, Near]], bias: Array | None = None) -> Near:
    """bias + sum of weight x over the terms."""
    n = sum(weight.shape[1] for weight, _ in terms)
    g, most = gamma(n + len(terms) + 4), max(len(x.rows) for _, x in terms)
    width = terms[0][0].shape[0]
    value, rest, rows = np.zeros(width), np.zeros(width), np.zeros((most, width))
    for weight, x in terms:
        value = value + times(weight, x.value[None, :])[0]
        if len(x.rows):
            rows += times(weight, _padded(x.rows, most))
        rounding = g * grow(np.abs(x.value) + np.abs(x.rows).sum(axis=0), len(x.rows) + 2)
        rest = rest + times(abs(weight), (x.rest + rounding)[None, :])[0]
    if bias is not None:
        value, rest = value + bias, rest + g * np.abs(bias)
    return Near(value, rows, grow(rest, n + len(terms) + 8) + (most + 1.0) * (n + 8) * TINY)


def preactivations(net: Network, point: Array, *, rows: bool) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m at the point; `rows` says whether every neuron's rest becomes a row."""
    xs, found, count = [Near.exact(point)], [], 0
    for block, f in zip(net.hidden, net.activations, strict=True):
        z = affine([(weight, xs[j]) for j, weight in block.terms], block.bias)
        z = z if block.slack is None else replace(z, rest=add_up(z.rest, block.slack))
        found.append(z.interval)
        x = _activated(f, z, found[-1])
        xs.append(x.with_rows(count) if rows else x)
        count += block.width
    return tuple(found)


def slope_doubt(slope: Array, bounds: Interval) -> Array:
    """How far the exact slope may lie from this one."""
    return np.maximum(np.maximum(add_up(bounds.hi, -slope), add_up(slope, -bounds.lo)), 0.0)


def product_above(a: Array, b: Array) -> float:
    """At least a'b for vectors that are not negative."""
    return float(grow(np.asarray(a @ b), a.size))


def _activated(f: Activation, z: Near, range_: Interval) -> Near:
    """f(z) - f(float) is the distance times a slope between the two."""
    value, slope = f(z.value), f.derivative(z.value)
    low, high = f.value_bounds(z.value, z.value)
    doubt = slope_doubt(slope, Interval(*f.derivative_bounds(*range_)))
    return z.scaled(value, slope, doubt, slope_doubt(value, Interval(low, high)))


def _padded(rows: Array, count: int) -> Array:
    return rows if len(rows) == count else np.pad(rows, ((0, count - len(rows)), (0, 0)))
