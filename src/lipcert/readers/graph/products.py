"""Products of tensors, quotients, softmax, norms and normalisations, by activations of one variable each.

    x y = ((s x + y / s)^2 - (s x - y / s)^2) / 4          softmax_j = 1 / sum_k exp(x_k - x_j)
    x / y = x (1 / y)                                      x / |x| = x (sum x^2)^(-1/2)

A product loses least where s x and y / s are about as wide as each other. `Probes` estimates both widths with
derivatives along random directions at a few points; s is a power of two, so scaling is exact. Where s x and y / s are
of very different sizes their squares cancel, so s is also kept near the ratio of their sizes. A poor s makes bounds
loose, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import Activation
from lipcert.problem.maps import Index, times
from lipcert.readers.graph.terms import Picked, check_width, term_entries
from lipcert.rounding import Array

if TYPE_CHECKING:
    from lipcert.readers.graph.tensors import Graph, Tensor

Labels = Sequence[str]

SQUARE, RECIPROCAL = Activation("power", 2.0), Activation("power", -1.0)
EXP, LOG = Activation("exp"), Activation("log")

_POINTS = 4  # at which widths are estimated
_MOST_CANCELLED = 6.0  # s is within 2^6 of the ratio of sizes, so that a product keeps all but 12 of 53 binary digits
_MOST_BALANCE = 40.0  # s is between 2^-40 and 2^40
_REPEATED = 1 << 14  # entries from which a tensor that is read often becomes a block of its own, if that saves much
_SAVES = 4  # times fewer entries


class Probes:
    """Values and derivatives of all blocks at a few points, each along one direction."""

    def __init__(self, inputs: int) -> None:
        rng = np.random.default_rng(0)
        self._values: list[Array] = [rng.uniform(size=(_POINTS, inputs))]
        self._slopes: list[Array] = [rng.choice((-1.0, 1.0), size=(_POINTS, inputs))]

    def sizes_and_widths(self, graph: Graph, x: Tensor) -> tuple[Array, Array]:
        """How large the entries of a tensor are, and how much they move along the directions; 0 where unknown."""
        with np.errstate(all="ignore"):
            for z, f in graph.blocks[len(self._values) - 1 :]:
                value, slope = self._of(z, self._values) + z.bias, self._of(z, self._slopes)
                self._values.append(f(value))
                self._slopes.append(f.derivative(value) * slope)
            size, moved = np.abs(self._of(x, self._values) + x.bias), np.abs(self._of(x, self._slopes))
            known = np.isfinite(moved) & np.isfinite(size)
            means = [np.where(known, own, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1) for own in (size, moved)]
        first, second = means if x.order is None else (mean[x.order] for mean in means)
        return first, second

    @staticmethod
    def _of(x: Tensor, blocks: Sequence[Array]) -> Array:
        """The linear part of an expression, in its own order."""
        total = np.zeros((_POINTS, x.width))
        for j, term in x.terms.items():
            if isinstance(term, Picked):
                total += np.where(term.index >= 0, blocks[j][:, term.index], 0.0)
            else:
                total += times(term, blocks[j])
        return total


def multiply(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """a b, entry by entry, of two tensors of the same shape."""
    if not (a.terms and b.terms):
        x, constant = (b, a) if not a.terms else (a, b)
        return graph.scale_and_shift(x, constant.bias.reshape(x.shape), 0.0)
    places = np.arange(a.width)
    return _sums(graph, (a, places), (b, places), np.arange(a.width + 1), a.shape)


def contract(graph: Graph, a: tuple[Tensor, Labels], b: tuple[Tensor, Labels], output: Labels) -> Tensor:
    """The sums over every label that is not in the output, of the products of the entries of two tensors."""
    parts = [(x.shape, labels) for x, labels in (a, b)]
    space, extent = label_space(parts, output)
    points = check_width(2 * math.prod(extent)) // 2
    shape = tuple(extent[: len(output)])
    first, second = (np.broadcast_to(flat_index(s, n, space), extent).reshape(-1) for s, n in parts)
    ends = np.arange(math.prod(shape) + 1) * (points // math.prod(shape))
    return _sums(graph, (a[0], first), (b[0], second), ends, shape)


def _sums(
    graph: Graph, a: tuple[Tensor, Index], b: tuple[Tensor, Index], ends: Index, shape: tuple[int, ...]
) -> Tensor:
    """Sums of the products of entries at places: sum i has those from ends[i] to ends[i + 1]."""
    x, y = (graph.pick(_read_often(graph, t, len(places)), places) for t, places in (a, b))
    s = _balance(graph, x, y)
    x, y = graph.scale_and_shift(x, s, 0.0), graph.scale_and_shift(y, 1.0 / s, 0.0)
    squares = graph.activate(graph.concatenate([graph.add(x, y), graph.subtract(x, y)], 0), SQUARE)
    count = len(s)
    quarter = sparse.csr_array((np.full(count, 0.25), np.arange(count), ends), shape=(len(ends) - 1, count))
    return graph.apply(squares, sparse.csr_array(sparse.hstack([quarter, -quarter], format="csr")), shape)


def _balance(graph: Graph, x: Tensor, y: Tensor) -> Array:
    """The powers of two s for which s x and y / s move about as much as each other, but do not differ much in size."""
    if graph.probes is None:
        graph.probes = Probes(math.prod(graph.shape))
    pairs = zip(*(graph.probes.sizes_and_widths(graph, t) for t in (x, y)), strict=True)
    by_size, by_width = (_exponents(*pair) for pair in pairs)
    near = np.clip(by_width, by_size - _MOST_CANCELLED, by_size + _MOST_CANCELLED)
    return np.asarray(np.exp2(np.clip(np.round(near), -_MOST_BALANCE, _MOST_BALANCE)))


def _exponents(first: Array, second: Array) -> Array:
    """log2 of the square root of the ratio of two quantities; 0 where one of them is 0."""
    known = (first > 0) & (second > 0)
    return np.asarray((np.log2(np.where(known, second, 1.0)) - np.log2(np.where(known, first, 1.0))) / 2)


def _read_often(graph: Graph, x: Tensor, count: int) -> Tensor:
    """The tensor, as a block of its own where its expression would be written many times."""
    if not x.terms:
        return x
    entries = sum(map(term_entries, x.terms.values()))
    written = entries * count // x.width
    return graph.settled(x) if written > max(_REPEATED, _SAVES * (entries + count)) else x


def square(graph: Graph, x: Tensor) -> Tensor:
    """x^2."""
    return graph.activate(x, SQUARE)


def reciprocal(graph: Graph, x: Tensor) -> Tensor:
    """1 / x."""
    return graph.activate(x, RECIPROCAL)


def power(graph: Graph, x: Tensor, exponent: float) -> Tensor:
    """x^exponent; the whole powers 0 and 1 are no activations."""
    if exponent == 0.0:
        return graph.scale_and_shift(x, 0.0, 1.0)
    return graph.activate(x, Activation("power", exponent))


def exponential(graph: Graph, base: Array, x: Tensor) -> Tensor:
    """base^x for a positive constant."""
    if not np.all(base > 0):
        raise UnsupportedOperator("takes powers of a constant that is not positive")
    return graph.activate(graph.scale_and_shift(x, np.log(base), 0.0), EXP)


def inverse_function(graph: Graph, x: Tensor, kind: str) -> Tensor:
    """Inverse sines, cosines and tangents, circular and hyperbolic, by logarithms, roots and the arcus tangent."""
    if kind == "atanh":  # (log(1 + x) - log(1 - x)) / 2
        logs = [graph.activate(graph.scale_and_shift(x, s, 1.0), LOG) for s in (1.0, -1.0)]
        return graph.scale_and_shift(graph.subtract(*logs), 0.5, 0.0)
    if kind in ("asinh", "acosh"):  # log(x + sqrt(x^2 +- 1))
        root = power(graph, graph.scale_and_shift(square(graph, x), 1.0, 1.0 if kind == "asinh" else -1.0), 0.5)
        return graph.activate(graph.add(x, root), LOG)
    inverse = power(graph, graph.scale_and_shift(square(graph, x), -1.0, 1.0), -0.5)  # asin x = atan(x / sqrt(1 - x^2))
    angle = graph.activate(multiply(graph, x, inverse), Activation("atan"))
    return angle if kind == "asin" else graph.scale_and_shift(angle, -1.0, math.pi / 2)


def gated(graph: Graph, x: Tensor, axis: int) -> Tensor:
    """The first half along an axis times the sigmoid of the second half."""
    axis = x.axis(axis)
    if x.shape[axis] % 2:
        raise InputError(f"axis {axis} of a tensor of shape {x.shape} has no two halves")
    first, second = (graph.pick(x, half) for half in np.split(x.places, 2, axis))
    return multiply(graph, first, graph.activate(second, Activation("sigmoid")))


def product_along(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """The product of the entries along axes, pair by pair."""
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    rows = _lines(graph.opened(x), axes)
    y = graph.pick(x, rows)
    while y.shape[1] > 1:
        half = y.shape[1] // 2
        met = multiply(graph, *(graph.pick(y, y.places[:, k * half : (k + 1) * half]) for k in (0, 1)))
        y = graph.concatenate([met, graph.pick(y, y.places[:, 2 * half :])], 1) if y.shape[1] % 2 else met
    return y.reshaped(kept if keep else tuple(n for a, n in enumerate(x.shape) if a not in axes))


def softmax(
    graph: Graph, x: Tensor, axes: Sequence[int], *, logarithm: bool = False, without: NDArray[np.bool_] | None = None
) -> Tensor:
    """exp(x) over its sum along axes, or the logarithm of that; differences of entries keep exponentials small.

    Entries at places `without` have no share: they are 0, and no sum counts them.
    """
    rows = _lines(x, axes)
    there = np.ones(rows.shape, dtype=bool) if without is None else ~without.reshape(-1)[rows]
    sums = _pairwise(graph, x, rows, there)
    last = graph.activate(sums, LOG if logarithm else RECIPROCAL)
    found = graph.scale_and_shift(last, -1.0, 0.0) if logarithm else last
    back = np.full(x.width, -1, dtype=np.int64)
    back[rows[there]] = np.arange(found.width)
    return graph.pick(found, back.reshape(x.shape))


def _pairwise(graph: Graph, x: Tensor, rows: Index, there: NDArray[np.bool_]) -> Tensor:
    """sum_k exp(x_k - x_j) for every entry j that is there of every row of places; the term of j itself is 1."""
    check_width(rows.size * rows.shape[1])
    pairs = there[:, :, None] & there[:, None, :] & ~np.eye(rows.shape[1], dtype=bool)
    row, j, k = np.nonzero(pairs)
    count, width = len(row), int(there.sum())
    if not count:
        return graph.scale_and_shift(graph.pick(x, rows[there]), 0.0, 1.0)
    columns = np.stack([rows[row, k], rows[row, j]], axis=1).reshape(-1)
    ends = 2 * np.arange(count + 1)
    differences = sparse.csr_array((np.tile([1.0, -1.0], count), columns, ends), shape=(count, x.width))
    grown = graph.activate(graph.apply(x, differences, (count,)), EXP)
    ends = np.append(0, np.cumsum(pairs.sum(axis=2)[there]))
    total = sparse.csr_array((np.ones(count), np.arange(count), ends), shape=(width, count))
    return graph.scale_and_shift(graph.apply(grown, total, (width,)), 1.0, 1.0)


def _lines(x: Tensor, axes: Sequence[int]) -> Index:
    """The places of the entries along some axes, a row for every place on the other axes."""
    order = [a for a in range(len(x.shape)) if a not in axes]
    return x.places.transpose(*order, *axes).reshape(math.prod(x.shape[a] for a in order), -1)


def label_space(parts: Sequence[tuple[tuple[int, ...], Labels]], output: Labels) -> tuple[list[str], list[int]]:
    """The labels of a contraction, those of the output first, and how many entries each goes through.

    Every axis has a label; an axis of size 1 goes with any other of the same label.
    """
    sizes: dict[str, int] = {}
    for shape, names in parts:
        for n, name in zip(shape, names, strict=True):
            if n != 1 and sizes.get(name, 1) not in (1, n):
                raise InputError(f"axes of {n} and of {sizes[name]} entries are multiplied")
            sizes[name] = max(sizes.get(name, 1), n)
    space = [*output, *(name for name in sizes if name not in output)]
    return space, [sizes[name] for name in space]


def flat_index(shape: tuple[int, ...], labels: Labels, space: Labels) -> Index:
    """For every point of the labels' space, the index of its entry in the flattened array of this shape."""
    index = np.zeros((1,) * len(space), dtype=np.int64)
    stride = 1
    for n, name in zip(reversed(shape), reversed(labels), strict=True):
        line = [1] * len(space)
        line[space.index(name)] = n
        index = index + stride * np.arange(n).reshape(line)
        stride *= n
    return index
