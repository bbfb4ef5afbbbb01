"""Operators that are ReLUs in disguise, rewritten exactly: maxima, clipping, absolute values, pooling, sorting.

    max(a, b) = a + relu(b - a)       min(a, b) = b - relu(b - a)       clip(x) = l + relu(x - l) - relu(x - h)

One neuron serves the maximum and the minimum of a pair. A pooling window becomes a tournament, axis by axis, and
windows that overlap share the pairs that they have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lipcert.errors import InputError
from lipcert.problem.activations import RELU, Activation
from lipcert.problem.convolution import Window
from lipcert.problem.maps import Index
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast
from lipcert.readers.graph.terms import Picked, check_entries, check_width
from lipcert.rounding import Array

MAX_SORTED = 256  # values that are sorted together


def larger(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """max(a, b), entry by entry, with broadcasting."""
    return pair(graph, a, b)[0]


def smaller(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """min(a, b), entry by entry, with broadcasting."""
    return pair(graph, a, b)[1]


def pair(graph: Graph, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """max(a, b) and min(a, b) by one neuron for each entry; a second call gives the same neurons."""
    key = (min(id(a), id(b)), max(id(a), id(b)))
    if key not in graph.pairs:
        first, second = (graph.expand(_read_twice(graph, x), broadcast(a.shape, b.shape)) for x in (a, b))
        more = graph.activate(graph.subtract(second, first), RELU)
        # a and b are kept: as long as they are there, no other tensor has their identity.
        graph.pairs[key] = graph.add(first, more), graph.subtract(second, more), a, b
    return graph.pairs[key]


def larger_than(graph: Graph, x: Tensor, least: Array) -> Tensor:
    """max(x, least) for a constant."""
    return graph.scale_and_shift(graph.activate(graph.scale_and_shift(x, 1.0, -least), RELU), 1.0, least)


def smaller_than(graph: Graph, x: Tensor, most: Array) -> Tensor:
    """min(x, most) for a constant."""
    return graph.scale_and_shift(graph.activate(graph.scale_and_shift(x, -1.0, most), RELU), -1.0, most)


def clip(graph: Graph, x: Tensor, least: float, most: float) -> Tensor:
    """min(max(x, least), most); infinite ends are none."""
    if math.isnan(least) or math.isnan(most) or (least >= most and not math.isfinite(most)):
        raise InputError(f"clips to [{least}, {most}]")
    if least >= most:
        return graph.scale_and_shift(x, 0.0, most)
    if least == -math.inf:
        return x if most == math.inf else smaller_than(graph, x, np.array(most))
    above = larger_than(graph, x, np.array(least))
    if most == math.inf:
        return above
    return graph.subtract(above, graph.activate(graph.scale_and_shift(x, 1.0, -most), RELU))


def absolute(graph: Graph, x: Tensor) -> Tensor:
    """|x| = 2 relu(x) - x."""
    x = _read_twice(graph, x)
    return graph.subtract(graph.scale_and_shift(graph.activate(x, RELU), 2.0, 0.0), x)


def leaky(graph: Graph, x: Tensor, slope: Array) -> Tensor:
    """x above zero, slope x below; slopes of several values, or negative ones, by slope x + (1 - slope) relu(x)."""
    x = graph.expand(x, broadcast(x.shape, slope.shape))
    one = float(slope.reshape(-1)[0])
    if np.all(slope == one) and 0.0 <= one <= 1e6:
        return graph.activate(x, Activation("leaky_relu", one))
    x = _read_twice(graph, x)
    on = graph.scale_and_shift(graph.activate(x, RELU), 1.0 - slope, 0.0)
    return graph.add(on, graph.scale_and_shift(x, slope, 0.0))


def largest(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """The largest entries along axes."""
    inner, under = _under_relu(graph, x)
    order = [a for a in range(len(x.shape)) if a not in axes]
    rows = x.places.transpose(*order, *axes).reshape(math.prod(x.shape[a] for a in order), -1)
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    best = _tournament(graph, inner, rows).reshaped(kept if keep else tuple(x.shape[a] for a in order))
    return graph.activate(best, RELU) if under else best


def smallest(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """The smallest entries along axes."""
    return graph.scale_and_shift(largest(graph, graph.scale_and_shift(x, -1.0, 0.0), axes, keep), -1.0, 0.0)


def max_pool(graph: Graph, x: Tensor, window: Window) -> Tensor:
    """The largest entry of every window over the axes after batch and channel; padding never wins."""
    axes = len(window.kernel)
    if axes < 1 or len(x.shape) != axes + 2:
        raise InputError(f"a window over {max(axes, 1)} axes does not fit a tensor of shape {x.shape}")
    window = window.without_ceil_mode(x.shape[2:])
    outputs = window.outputs(x.shape[2:])
    check_width(math.prod(x.shape[:2]) * math.prod(outputs))
    pooled, under = _under_relu(graph, x)
    for axis in range(axes):
        taps = window.inputs(axis, np.arange(outputs[axis]))
        taps = np.where((taps >= 0) & (taps < x.shape[2 + axis]), taps, -1)
        pooled = max_along(graph, pooled, 2 + axis, taps)
    return graph.activate(pooled, RELU) if under else pooled


def max_along(graph: Graph, x: Tensor, axis: int, taps: Index) -> Tensor:
    """The largest of the entries at taps[i] along an axis, for every i; -1 is none."""
    if not np.all((taps >= 0).any(axis=1)):
        raise InputError("a pooling window lies wholly in the padding")
    check_entries(x.width // x.shape[axis] * taps.size)
    places = np.moveaxis(x.places, axis, -1)
    rows = np.where(taps >= 0, places[..., np.maximum(taps, 0)], -1)  # (.., outputs, taps)
    best = _tournament(graph, x, rows.reshape(-1, taps.shape[1])).reshaped(rows.shape[:-1])
    return graph.pick(best, np.moveaxis(best.places, -1, axis))


def sort(graph: Graph, x: Tensor, axis: int, *, descending: bool) -> Tensor:
    """The entries along an axis in order, by Batcher's network of comparisons."""
    axis = x.axis(axis)
    count = x.shape[axis]
    if count > MAX_SORTED:
        raise InputError(f"sorts {count} values together; at most {MAX_SORTED} are supported")
    rows = np.moveaxis(x.places, axis, -1)
    y = graph.pick(_read_twice(graph, x), rows)
    for low, high in _stages(count):
        first, second = (low, high) if descending else (high, low)
        more = graph.activate(
            graph.subtract(graph.pick(y, y.places[..., second]), graph.pick(y, y.places[..., first])), RELU
        )
        gain = np.full(y.shape, -1, dtype=np.int64)
        loss = gain.copy()
        gain[..., first], loss[..., second] = more.places, more.places
        y = graph.subtract(graph.add(y, graph.pick(more, gain)), graph.pick(more, loss))
    return graph.pick(y, np.moveaxis(y.places, -1, axis))


def _stages(count: int) -> list[tuple[Index, Index]]:
    """Batcher's odd-even merge sort: lanes that are compared with each other, all pairs of a stage at once."""
    stages, p = [], 1
    while p < count:
        k = p
        while k >= 1:
            lanes = np.arange(count - k)
            begins = (lanes - k % p) % (2 * k) < k
            begins &= (lanes >= k % p) & (lanes // (2 * p) == (lanes + k) // (2 * p))
            low = lanes[begins]
            if len(low):
                stages.append((low, low + k))
            k //= 2
        p *= 2
    return stages


def _tournament(graph: Graph, x: Tensor, rows: Index) -> Tensor:
    """The largest of the entries of x at the places in every row; -1 is no candidate, and every row has one."""
    x = _read_twice(graph, x)
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        a, b = rows[:, : 2 * half : 2], rows[:, 1 : 2 * half : 2]
        both = (a >= 0) & (b >= 0)
        met, which = np.unique(a[both] * x.width + b[both], return_inverse=True)
        base, spread = np.where(a >= 0, a, b), np.full(a.shape, -1, dtype=np.int64)
        spread[both] = which.reshape(-1)
        last = rows[:, 2 * half :]
        base, spread = np.hstack([base, last]), np.hstack([spread, np.full(last.shape, -1, dtype=np.int64)])
        joined = graph.pick(x, base)
        if len(met):
            more = graph.activate(graph.subtract(graph.pick(x, met % x.width), graph.pick(x, met // x.width)), RELU)
            joined = graph.add(joined, graph.pick(more, spread))
        rows, x = np.where(base >= 0, joined.places, -1), joined
    return graph.pick(x, rows[:, 0])


def _under_relu(graph: Graph, x: Tensor) -> tuple[Tensor, bool]:
    """z and True where x = relu(z): the largest of z, then a ReLU, is the same with fewer neurons; else x and False."""
    block = graph.source(x)
    if not block or x.order is not None or graph.blocks[block - 1][1] != RELU:
        return x, False
    z, term = graph.blocks[block - 1][0], x.terms[block]
    if not isinstance(term, Picked) or not graph.is_light(z) or np.any(term.index < 0):
        return x, False
    return graph.pick(z, term.index.reshape(x.shape)), True


def _read_twice(graph: Graph, x: Tensor) -> Tensor:
    """A tensor that is read several times: a block of its own where its expression is long."""
    return x if graph.is_light(x) else graph.settled(x)
