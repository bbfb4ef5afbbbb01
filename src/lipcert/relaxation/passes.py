"""The three passes through a network as forms in y: values forward, gradients backward, directions forward.

    values       x_0 = m + r w,   z_i = b_i + sum_j A_ij x_j,           x_i = f_i(z_i)
    gradients                     g_j = sum_i A_ij' s_i,                s_i = u_i * g_i     (s of the scores: c, or d)
    directions   y_0 = t,         q_i = sum_j A_ij y_j,                 y_i = u_i * q_i

Values go through blocks whose activations are piecewise linear; behind a smooth one slopes keep their proved bounds
only. Where only the scores read a block, with given weights, g is constant: its s is linear in u and its y is not
needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.region import Box
from lipcert.relaxation.layers import Layer, Layers
from lipcert.relaxation.model import Family, Index, Space
from lipcert.relaxation.switched import Switched, open_and_shut, rows, through, variable
from lipcert.relaxation.tracked import Tracked, affine, constants, exactly, merge, product
from lipcert.rounding import Array, add_up, grow

Terms = Sequence[tuple[int, Matrix]]  # the number of a vector, and what it is multiplied with


@dataclass(frozen=True, eq=False)
class Pass:
    """The families of a pass, its switched quantities block by block, and by block the forms that it ends with.

    `ends` are g_0 .. g_m of gradients, q_1 .. q_m of directions, which have `passed` too: y_0 .. y_m where they exist.
    """

    families: tuple[Family, ...]
    items: tuple[Switched, ...]
    ends: Mapping[int, Tracked]
    passed: Mapping[int, Tracked]


def inputs_of(space: Space, box: Box, moving: Index) -> Tracked:
    """x_0 = m + r w; m is a coordinate that does not move, but for the smallest floats, which have no half."""
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    steps = merge(space, [(moving, exactly(space["w"].scaled(radius[moving])))], box.size)
    error = radius.copy()
    error[moving] = 0.0
    return Tracked(sparse.csr_array(steps.matrix + space.constant(middle).matrix), error)


def preactivation_forms(
    net: Network, space: Space, layers: Layers, x: Tracked
) -> Iterator[tuple[Layer, Tracked, Tracked | None]]:
    """Of every tied block: z as forms in x_0 and the x of blocks before, and u' z of its free neurons.

    The latter are variables; None where no tied block reads them.
    """
    xs = {0: x}
    for layer in layers.tied:
        block = net.blocks[layer.index - 1]
        z = total(space, block.terms, xs, block.width, block.bias)
        if block.slack is not None:
            z = Tracked(z.matrix, grow(z.error + block.slack, 2))
        a = variable(space, layer, "x", Interval(np.zeros(layer.width), layer.z.hi)) if layer.followed else None
        yield layer, z, a
        if a is not None:
            xs[layer.index] = _with_pruned(space, layer, through(space, layer, z, a))


def total(space: Space, terms: Terms, vectors: Mapping[int, Tracked], width: int, bias: Array | None = None) -> Tracked:
    """bias + the sum of weight times vector over the terms (number of a vector, weight); zero where there are none."""
    sum_: Tracked | None = None
    for number, weight in terms:
        part = affine(space, weight, vectors[number], bias if sum_ is None else None)
        sum_ = part if sum_ is None else sum_ + part
    return constants(space, np.zeros(width)) if sum_ is None else sum_


def values(net: Network, space: Space, layers: Layers, x: Tracked, wide: bool) -> Pass:
    """The rows that tie x_i and u_i of every tied block to z_i."""
    families: list[Family] = []
    items: list[Switched] = []
    for layer, z, a in preactivation_forms(net, space, layers, x):
        inside, nothing = z[layer.free], np.zeros(layer.width)
        if a is None:
            families += _sign_and_reach(space, layer, inside, wide)
            continue
        on, off = Interval(nothing, layer.z.hi), Interval(layer.z.lo, nothing)
        items.append(Switched(layer, "x", "z", a, inside, on, off))
        families += rows(space, items[-1], wide)
    return Pass(tuple(families), tuple(items), {}, {})


def _with_pruned(space: Space, layer: Layer, x: Tracked) -> Tracked:
    """Pruned neurons pass no derivative but have values: the middle of their range, with the rest as error."""
    if not len(layer.pruned):
        return x
    lo, hi = layer.x.lo[layer.pruned], layer.x.hi[layer.pruned]
    middle = lo / 2 + hi / 2
    parts = [(layer.pruned, constants(space, middle, np.maximum(add_up(hi, -middle), add_up(middle, -lo))))]
    others = np.setdiff1d(np.arange(layer.width), layer.pruned)
    return merge(space, [*parts, (others, x[others])], layer.width)


def _sign_and_reach(space: Space, layer: Layer, z: Tracked, wide: bool) -> list[Family]:
    """A block whose x nobody needs has none."""
    plus, minus = open_and_shut(space, layer)
    hi, lo = (constants(space, end[layer.free]) for end in (layer.z.hi, layer.z.lo))
    where, count, i = layer.free, layer.width, layer.index
    families = [
        product(f"{i}: (1+v) z >= 0", -plus, z, where, count),
        product(f"{i}: (1-v) z <= 0", minus, z, where, count),
        product(f"{i}: (1+v)(hi - z) >= 0", plus, z - hi, where, count),
        product(f"{i}: (1-v)(z - lo) >= 0", -minus, z - lo, where, count),
    ]
    if wide:
        ends = plus.scaled(layer.z.hi[where] / 2) + minus.scaled(layer.z.lo[where] / 2)
        families.append(product(f"{i}: z (z - hi u - lo (1-u)) <= 0: wide chord", z, z - ends, where, count))
    return families


def gradients(net: Network, space: Space, layers: Layers, wide: bool, weights: Tracked | None = None) -> Pass:
    """g_m .. g_0, and the rows that tie every s_i to g_i and u_i; `weights` are those of the outputs.

    They are not looked at where no lifted block and no input is read by the scores.
    """
    families: list[Family] = []
    items: list[Switched] = []
    ends: dict[int, Tracked] = {}
    passed: dict[int, Tracked] = {} if weights is None else {len(net.blocks): weights}
    for layer in reversed(layers.hidden):
        i = layer.index
        if not layer.lifted:
            ends[i] = constant_gradient(space, layer)
            s = slope_times_constant(space, layer)
        else:
            ends[i] = g = _pulled(net, space, i, passed)
            a = variable(space, layer, "s", layer.g)
            items.append(Switched(layer, "s", "g", a, g[layer.free], layer.g, layer.g))
            families += rows(space, items[-1], wide)
            s = through(space, layer, g, a)
        if layer.constant is not None:
            s = Tracked(sparse.csr_array(s.matrix + space.constant(layer.constant).matrix), s.error)
        passed[i] = s
    ends[0] = _pulled(net, space, 0, passed)
    return Pass(tuple(families), tuple(items[::-1]), ends, passed)


def _pulled(net: Network, space: Space, j: int, passed: Mapping[int, Tracked]) -> Tracked:
    """g_j from the s of all that read block j."""
    return total(space, [(i, weight.T) for i, weight in net.readers[j]], passed, net.shape[j])


def constant_gradient(space: Space, layer: Layer) -> Tracked:
    """g of a block that only the scores read, with given weights: constants."""
    middle = layer.g.lo / 2 + layer.g.hi / 2
    return constants(space, middle, np.maximum(add_up(layer.g.hi, -middle), add_up(middle, -layer.g.lo)))


def slope_times_constant(space: Space, layer: Layer) -> Tracked:
    """s = u * g, linear in u because g is constant."""
    g = constant_gradient(space, layer)
    half = (layer.g.lo / 2 + layer.g.hi / 2)[layer.free] / 2
    own = exactly(space.constant(half) + space[layer.switch].scaled(half))
    return through(space, layer, g, Tracked(own.matrix, g.error[layer.free]))


def directions(net: Network, space: Space, layers: Layers, wide: bool, source: Tracked) -> Pass:
    """q_1 .. q_m from t, and the rows that tie every y_i to q_i and u_i; where y is not needed those of u with q."""
    families: list[Family] = []
    items: list[Switched] = []
    ends: dict[int, Tracked] = {}
    passed = {0: source}
    for layer in layers.hidden:
        i = layer.index
        ends[i] = q = total(space, net.blocks[i - 1].terms, passed, layer.width)
        if not layer.lifted:
            families += _envelope(space, layer, q[layer.free])
            continue
        a = variable(space, layer, "y", layer.q)
        items.append(Switched(layer, "y", "q", a, q[layer.free], layer.q, layer.q))
        families += rows(space, items[-1], wide)
        passed[i] = through(space, layer, q, a)
    return Pass(tuple(families), tuple(items), ends, passed)


def _envelope(space: Space, layer: Layer, q: Tracked) -> list[Family]:
    plus, minus = open_and_shut(space, layer)
    high, low = (constants(space, end[layer.free]) for end in (layer.q.hi, layer.q.lo))
    where, count, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: u (q - ql) >= 0", -plus, q - low, where, count),
        product(f"{i}: (1-u)(q - ql) >= 0", -minus, q - low, where, count),
        product(f"{i}: u (qu - q) >= 0", plus, q - high, where, count),
        product(f"{i}: (1-u)(qu - q) >= 0", minus, q - high, where, count),
    ]
