"""The gradient at one point of a deep network, in long numbers: proved where intervals of floats say nothing.

For networks of ReLUs and leaky ReLUs. Every pre-activation is computed with so many digits that its sign is certain,
but for neurons that sit on their kinks. Where all slopes are known, the chain rule runs backward with as many digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.problem.activations import Activation
from lipcert.problem.maps import Matrix, entrywise, numbers, summed, times
from lipcert.problem.network import Network
from lipcert.rounding import Array, grow
from lipcert.rounding.digits import BITS, Long, OutOfRangeError, Product, Term, combine, sliced
from lipcert.steps import RATES, SCALAR, THIN

Signs = NDArray[np.bool_]

MOST_DIGITS = 64
_SLICED = 4  # slices that most weights have: three of float32, five of random float64
_SPLITTING = 10  # operations on every weight and slice to make them
_STATEMENTS, _STATEMENTS_DIGIT = 12, 2  # for every block, and for every block and digit: 0.3 ms of 16 neurons
_LATE = 0.5  # seconds after the end of a call within which a point that was begun before may be finished
_ENOUGH = 1e-9  # the radius of a gradient's entry against the largest


@dataclass(frozen=True, eq=False)
class _Matrix:
    """A weight in slices; `forward` multiplies rows x to (A x)', `backward` rows g to g A."""

    weight: Matrix
    slices: list[Matrix]
    top: int
    left: float

    @classmethod
    def of(cls, weight: Matrix) -> _Matrix:
        own, top, left = sliced(np.asarray(numbers(weight), dtype=np.float64))
        slices = [entrywise(weight, partial(_replaced, part)) for part in own]
        return cls(weight, slices, top, left)

    def forward(self, x: Long) -> Term:
        radius = grow(times(abs(self.weight), x.radius[None, :])[0], self.weight.shape[1])
        products: list[Product] = [partial(times, part) for part in self.slices]
        return x, products, summed(self.weight), self.top, _exact(radius, x), self.left

    def backward(self, g: Long) -> Term:
        radius = grow(np.asarray(g.radius[None, :] @ abs(self.weight))[0], self.weight.shape[0])
        products: list[Product] = [partial(_pull, part) for part in self.slices]
        return g, products, summed(self.weight, 0), self.top, _exact(radius, g), self.left


def applies(net: Network) -> bool:
    """Chains and graphs of ReLUs and leaky ReLUs with exact weights."""
    known = all(f.kinked or f.kind == "identity" for f in net.activations)
    return known and net.depth > 0 and all(b.slack is None for b in net.blocks)


def digits_for(pre: Sequence[Interval], zs: Sequence[Array]) -> int:
    """An estimate of the digits needed, from the widths of the intervals of floats at the point."""
    with np.errstate(all="ignore"):
        wide = max(
            float(np.max((z.hi - z.lo) / np.maximum(np.abs(own), 1e-10 * np.abs(own).max(initial=0.0))))
            for z, own in zip(pre, zs, strict=True)
        )
    bits = 53 + (math.log2(wide) if 1.0 <= wide < np.inf else 0.0 if wide < 1.0 else 1e9)
    return int(min(bits // BITS + 1, MOST_DIGITS))


def work(net: Network, count: int) -> tuple[float, str]:
    """Operations of `preactivations` or of `gradient`, and their kind."""
    calls = len(net.blocks) * (_STATEMENTS + _STATEMENTS_DIGIT * count)
    products = float(_SLICED) * (count * net.entries + _SPLITTING * net.stored)
    return products + calls * RATES[THIN] / RATES[SCALAR], THIN


def preactivations(net: Network, point: Array, count: int, budget: Budget | None = None) -> tuple[Interval, ...] | None:
    """Bounds of z_1 .. z_m at the point; None where numbers leave the range of long ones, or the time is over."""
    xs, found = [Long.of(point)], []
    try:
        with np.errstate(over="ignore", under="ignore"):
            for block, f in zip(net.hidden, net.activations, strict=True):
                if budget is not None and budget.left_in_all() <= -_LATE:
                    return None
                terms = [_Matrix.of(w).forward(xs[j]) for j, w in block.terms]
                z = combine([*terms, _as_term(Long.of(block.bias))], count)
                found.append(Interval(*z.sides))
                xs.append(_through(f, z, z.floats > 0, count, certain=z.least > 0))
    except OutOfRangeError:
        return None
    return tuple(found)


def gradient(net: Network, above: Sequence[Signs], d: Array, count: int) -> Array | None:
    """The least magnitudes of the gradient of d'scores where these neurons are above zero and the others below.

    None where numbers leave the range of long ones, or where so few digits say nothing.
    """
    try:
        with np.errstate(over="ignore", under="ignore"):
            return _pulled(net, above, d, count)
    except OutOfRangeError:
        return None


def _pulled(net: Network, above: Sequence[Signs], d: Array, count: int) -> Array | None:
    """The chain rule backward; None where the radius is not small."""
    behind: list[list[Term]] = [[] for _ in range(len(net.blocks) + 1)]
    r = Long.of(d)
    for i in range(len(net.blocks), 0, -1):
        if i <= net.depth:
            if not behind[i]:
                continue
            r = _through(net.activations[i - 1], combine(behind[i], count), above[i - 1], count)
        for j, w in net.blocks[i - 1].terms:
            behind[j].append(_Matrix.of(w).backward(r))
    if not behind[0]:
        return np.zeros(net.inputs)
    g = combine(behind[0], count)
    return g.least if np.all(g.radius <= _ENOUGH * np.abs(g.floats).max()) else None


def _through(f: Activation, z: Long, above: Signs, count: int, certain: Signs | None = None) -> Long:
    """z times the slopes; where a sign is not certain, any value between those of both slopes is as near as z is."""
    if not f.kinked:
        return z
    upper = z.where(above)
    if f.alpha == 0.0:
        x = upper
    else:
        lower, (parts, top, left) = z.where(~above), sliced(np.array([f.alpha]))
        products: list[Product] = [partial(np.multiply, part) for part in parts]
        radius = grow(lower.radius * abs(f.alpha), 2)
        x = combine([_as_term(upper), (lower, products, 1, top, radius, left)], count)
    if certain is None or certain.all():
        return x
    open_ = grow(z.radius * max(1.0, f.alpha) + x.radius, 4)
    return Long(x.digits, x.top, np.where(certain, x.radius, open_))


def _replaced(part: Array, _: Array) -> Array:
    return part


def _pull(part: Matrix, rows: Array) -> Array:
    return np.asarray(rows @ part)


def _as_term(x: Long) -> Term:
    return x, [lambda rows: rows], 1, 0, x.radius, 0.0


def _exact(radius: Array, x: Long) -> Array:
    """The radius of a product: zero where x is exact, which `grow` would not give."""
    return radius if x.radius.any() else np.zeros(radius.shape)
