"""Forward zonotopes: the values of all blocks from the input upward, on many cells at once.

    x  =  center + sum_k columns_k e_k + d,      |e_k| <= 1,  |d| <= rest

The first symbols e_k are those of the input's coordinates; in a Euclidean ball their vector has a norm of at most one.
Every neuron that is not linear adds a symbol of its own: on its interval the activation lies between two lines of one
slope s, so f(z) = s z + middle + gap e with a new e. A column is the values of a whole block, so a layer is one product
with a batch of columns, whatever its weight is. Columns of the newest symbols have one entry each, and are kept as
`gaps` until a weight has spread them. Two ways to the same neuron may cancel: symbols see that, intervals do not.

Rounding is paid for once for each layer: no entry of a product is off by more than gamma |W| (|center| + sum of
|columns|), which one more column computes; it goes to `rest`. Where symbols are more than `most`, the smallest columns
go to `rest` too. On its way up `rest` grows by the sums of the rows of |W|, which on many layers makes rounding larger
than everything else. So the Euclidean `length` of d is known beside it: that grows by the spectral norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval, middle_and_radius, outward, times
from lipcert.bounds.operator_norms import quick_norm, vector_norms
from lipcert.problem.activations.parallel import parallel
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, Operator, entries, row_pieces, summed
from lipcert.problem.network import Network
from lipcert.problem.norms import EUCLIDEAN
from lipcert.problem.region import Ball
from lipcert.rounding import TINY, UNIT, Array, gamma, grow

Index = NDArray[np.int64]

_PIECE = 1 << 20  # numbers whose magnitudes are added up at a time
_SMALL = 2.0**-100  # share of the largest entry that is added to what pays for rounding: it changes no digit
_NORMS = 10.0  # operations of a spectral norm, at most, for each symbol and entry of the weight


@dataclass(frozen=True, eq=False)
class Zonotope:
    """Values of a block on every cell (first axis); `columns` are (cells, symbols, width).

    Symbol `start` + k has the one entry gaps[:, k] at neuron fresh[k]; symbols from the last column up to `start` have
    none. `size` is at least |center| + sum of |columns| + gaps, `length` at least the Euclidean norm of d on each cell.
    """

    center: Array
    columns: Array
    rest: Array
    size: Array
    start: int
    fresh: Index
    gaps: Array
    length: Array

    @property
    def symbols(self) -> int:
        """No symbol from this one on has an entry."""
        return max(int(self.columns.shape[1]), self.start + len(self.fresh) if len(self.fresh) else 0)

    def without(self, dropped: NDArray[np.bool_]) -> Zonotope:
        """The symbols that are not dropped; the columns of the others are in `rest`."""
        mine, own = dropped[: self.columns.shape[1]], dropped[self.start : self.start + len(self.fresh)]
        more = magnitudes(self.columns[:, mine])
        more[:, self.fresh[own]] += self.gaps[:, own]
        more = grow(more, int(np.count_nonzero(dropped)) + 4)
        start = self.start - int(np.count_nonzero(dropped[: self.start]))
        columns, fresh, gaps = self.columns[:, ~mine], self.fresh[~own], self.gaps[:, ~own]
        rest, length = grow(self.rest + more, 2), grow(self.length + vector_norms(more, "2"), 2)
        return replace(self, columns=columns, rest=rest, start=start, fresh=fresh, gaps=gaps, length=length)


class ZonotopePass:
    """The values of the blocks of a network, one block after the other, with at most `most` symbols.

    `preactivation` and then `activate` are called for every block in order.
    """

    def __init__(self, net: Network, box: Interval, ball: Ball | None, most: int) -> None:
        center, radius = middle_and_radius(box)
        if ball is not None:
            center, radius = np.broadcast_to(ball.center, center.shape), np.full(center.shape, ball.radius)
        cells, n = center.shape
        first = np.arange(n)
        if n > most:
            first = np.sort(np.argsort(-radius.sum(axis=0), kind="stable")[:most])
        kept = np.zeros(n, dtype=bool)
        kept[first] = True
        size = grow(np.abs(center) + radius, 2)
        rest, columns = np.where(kept, 0.0, radius), np.zeros((cells, 0, n))
        value = Zonotope(center, columns, rest, size, 0, first, radius[:, first], vector_norms(rest, "2"))
        self.most, self.values, self.pending = most, {0: value}, dict[int, Zonotope]()
        self.symbols = self.used = len(first)  # now, and as many as there were at once
        self.together = self.symbols if ball is not None else 0  # so many of the first symbols are in a Euclidean ball
        self.last = {source: i for i, block in enumerate(net.blocks, start=1) for source, _ in block.terms}

    def preactivation(self, i: int, block: Block) -> Interval:
        """Bounds of z of block i; values that no later block reads are forgotten."""
        with np.errstate(all="ignore"):
            z = self.pending[i] = affine([(weight, self.values[j]) for j, weight in block.terms], block)
            self.values = {j: value for j, value in self.values.items() if self.last.get(j, 0) > i}
            return outward(z.center, grow(self.reach(z), z.symbols + 8))

    def reach(self, z: Zonotope) -> Array:
        """How far the values may be from the center, not rounded up."""
        ours, others = z.columns[:, : self.together], z.columns[:, self.together :]
        return _lengths(ours) + magnitudes(others) + z.rest if self.together else magnitudes(others) + z.rest

    def activate(self, i: int, block: Block, z: Interval) -> None:
        """The values of block i, whose pre-activations are within `z`: s z + middle + gap e, with a new symbol e."""
        own, f = self.pending.pop(i), block.activation
        if self.last.get(i, 0) <= i:
            return
        with np.errstate(all="ignore"):
            lines = parallel(f, z.lo, z.hi)
            slope, low, high = lines.low_slope, lines.low_shift, lines.up_shift
            known = np.isfinite(high - low)
            slope, middle = np.where(known, slope, 0.0), np.where(known, low / 2 + high / 2, 0.0)
            gap = np.maximum(high - middle, middle - low)
            gap = np.where(known, np.where(gap > 0, grow(gap, 4), 0.0), np.inf)
            value = scaled(own, slope, middle)
            fresh = np.flatnonzero(np.any(gap > 0, axis=0))
            self.values[i] = self._with_symbols(value, fresh, gap)

    def _with_symbols(self, value: Zonotope, fresh: Index, gap: Array) -> Zonotope:
        """The values with a new symbol for each of these neurons; the smallest are dropped where there are too many."""
        more = self.symbols + len(fresh) - self.most
        size = grow(value.size + gap, 2)
        value = replace(value, size=size, start=self.symbols, fresh=fresh, gaps=gap[:, fresh])
        self.symbols += len(fresh)
        self.used = max(self.used, self.symbols)
        if more <= 0:
            return value
        scores = np.zeros(self.symbols)
        scores[: value.columns.shape[1]] = np.abs(value.columns).sum(axis=(0, 2))
        scores[value.start :] = value.gaps.sum(axis=0)
        dropped = np.zeros(self.symbols, dtype=bool)
        dropped[np.argsort(scores, kind="stable")[:more]] = True
        self.values = {j: other.without(dropped) for j, other in self.values.items()}
        self.symbols -= more
        self.together -= int(np.count_nonzero(dropped[: self.together]))
        return value.without(dropped)


def affine(terms: Sequence[tuple[Matrix, Zonotope]], block: Block) -> Zonotope:
    """z = bias + sum of weight x + slack; the rounding of all columns is in `rest`."""
    n = sum(summed(weight) for weight, _ in terms) + 2 * len(terms) + 4
    g = gamma(n)
    center, columns = None, None
    rest, paid, length = np.zeros(1), g * np.abs(block.bias) + block.doubt, np.zeros(1)
    for weight, x in terms:
        value, spread = times(x.center, weight), _spread(weight, x)
        center = value + block.bias if center is None else center + value
        columns = spread if columns is None else _added(columns, spread)
        carried, rounded = _rests(weight, x, g)
        by_length, norm = _by_length(weight, x)
        rest = rest + np.fmin(carried, by_length)
        paid, length = paid + rounded, length + norm * x.length
    assert center is not None
    assert columns is not None
    k = columns.shape[1]
    paid = grow(paid + (k + 4) * n * TINY, n + 8)
    rest = grow(rest + paid, n + 8)
    length = np.fmin(grow(length + vector_norms(paid, "2"), len(terms) + 4), vector_norms(rest, "2"))
    size = grow(np.abs(center) + magnitudes(columns), k + 4)
    none = np.zeros(0, dtype=np.int64)
    return Zonotope(center, columns, rest, size, k, none, np.zeros((len(center), 0)), length)


def _rests(weight: Matrix, x: Zonotope, g: float) -> tuple[Array, Array]:
    """|weight| rest, and |weight| times what pays for rounding; not rounded up."""
    both = np.concatenate([x.rest, g * x.size])
    both = np.where(both > 0, both + np.fmax(TINY, _SMALL * both.max(axis=-1, keepdims=True, initial=0.0)), 0.0)
    found = np.concatenate([times(both, abs(some)) for some in row_pieces(weight)], axis=-1)
    return found[: len(x.rest)], found[len(x.rest) :]


def _by_length(weight: Matrix, x: Zonotope) -> tuple[Array, float]:
    """Bounds of |weight d| by the norms of rows and the length of d; and at least the spectral norm of the weight."""
    norm = quick_norm(weight, _NORMS * x.symbols * entries(weight))
    return grow(EUCLIDEAN.rows_above(weight) * x.length[:, None], 2), norm


def _spread(weight: Matrix, x: Zonotope) -> Array:
    """The columns of weight x, one for each symbol of x."""
    cells, k, width = x.columns.shape
    parts = []
    if k:
        parts.append(times(x.columns.reshape(cells * k, width), weight).reshape(cells, k, -1))
    if len(x.fresh):
        if x.start > k:
            parts.append(np.zeros((cells, x.start - k, weight.shape[0])))
        parts.append(picked(weight, x.fresh)[None] * x.gaps[:, :, None])
    if not parts:
        return np.zeros((cells, 0, weight.shape[0]))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def picked(weight: Matrix, own: Index) -> Array:
    """Some columns of a weight, each as a row."""
    if isinstance(weight, Operator):
        units = np.zeros((len(own), weight.shape[1]))
        units[np.arange(len(own)), own] = 1.0
        return times(units, weight)
    columns = weight[:, own].T
    return np.asarray(columns) if isinstance(weight, np.ndarray) else np.asarray(columns.toarray())


def _added(a: Array, b: Array) -> Array:
    """The sum of columns of the same symbols; the one that has more of them is changed."""
    long, short = (a, b) if a.shape[1] >= b.shape[1] else (b, a)
    long[:, : short.shape[1]] += short
    return long


def scaled(z: Zonotope, slope: Array, middle: Array) -> Zonotope:
    """slope z + middle, neuron by neuron; changes the columns of z. Slopes of zero and one cost no rounding."""
    exact = ((slope == 1.0) | (slope == 0.0)) & (middle == 0.0)
    steep = np.abs(slope)
    if not np.all(slope == 1.0):
        np.multiply(z.columns, slope[:, None, :], out=z.columns)
    size = np.where(exact, steep * z.size, grow(steep * z.size + np.abs(middle), 4))
    paid = np.where(exact, 0.0, gamma(8) * size + (z.symbols + 4) * TINY)
    rest = np.where(exact, np.where(slope == 0.0, 0.0, z.rest), grow(steep * z.rest + paid, 6))
    length = grow(steep.max(axis=1, initial=0.0) * z.length + vector_norms(paid, "2"), 6)
    length = np.fmin(length, vector_norms(rest, "2"))
    return replace(z, center=slope * z.center + middle, rest=rest, size=size, length=length)


def magnitudes(columns: Array) -> Array:
    """The sum of |columns| over the symbols, not rounded up."""
    cells, k, width = columns.shape
    step = max(1, _PIECE // max(1, cells * width))
    total = np.zeros((cells, width))
    for start in range(0, k, step):
        total += np.abs(columns[:, start : start + step]).sum(axis=1)
    return total


def _lengths(columns: Array) -> Array:
    """At least the Euclidean norms over the symbols, but for a few units of roundoff for each symbol."""
    largest = np.abs(columns).max(axis=1, initial=0.0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    ratio = columns / unit[:, None, :]
    return np.where(largest > 0, unit * np.sqrt(np.square(ratio).sum(axis=1)) * (1 + 8 * UNIT), 0.0)
