"""The three passes through a network as forms in y: values forward, gradients backward, directions forward.

    values       x_0 = m + r w,   z_i = A_i x_{i-1} + b_i,   x_i = f_i(z_i)
    gradients    g_m = A_{m+1}'c, s_i = u_i * g_i,           g_{i-1} = A_i' s_i
    directions   q_1 = A_1 t,     y_i = u_i * q_i,           q_{i+1} = A_{i+1} y_i

Values go as far as the first layer whose activation is smooth; behind it slopes keep their proved bounds only. The last
layer's s is linear in u, and its y is not needed: the derivative is s_m'q_m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.relaxation.layers import Layer, Layers
from lipcert.relaxation.model import Family, Index, Space
from lipcert.relaxation.switched import Switched, open_and_shut, rows, through, variable
from lipcert.relaxation.tracked import Tracked, affine, constants, exactly, merge, product
from lipcert.rounding import add_up


@dataclass(frozen=True, eq=False)
class Pass:
    """The families of a pass, its switched quantities layer by layer, and the forms of the sources z, g or q."""

    families: tuple[Family, ...]
    items: tuple[Switched, ...]
    ends: tuple[Tracked, ...]


def with_values(layers: Layers) -> tuple[Layer, ...]:
    """The layers whose z is tied to x: all before the first smooth one."""
    kept: list[Layer] = []
    for layer in layers.hidden:
        if not layer.homogeneous:
            break
        kept.append(layer)
    return tuple(kept)


def inputs_of(net: Network, space: Space, box: Box, moving: Index) -> Tracked:
    """x_0 = m + r w; m is a coordinate that does not move, but for the smallest floats, which have no half."""
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    steps = merge(space, [(moving, exactly(space["w"].scaled(radius[moving])))], net.inputs)
    error = radius.copy()
    error[moving] = 0.0
    return Tracked(sparse.csr_array(steps.matrix + space.constant(middle).matrix), error)


def values(net: Network, space: Space, layers: Layers, x: Tracked, wide: bool) -> Pass:
    """z_i as forms in x_0 and x_1 .. x_{i-1}, and the rows that tie x_i and u_i to it."""
    tied = with_values(layers)
    families: list[Family] = []
    items: list[Switched] = []
    ends: list[Tracked] = []
    for affine_map, layer in zip(net.affines, tied, strict=False):
        z = affine(space, affine_map.weight, x, affine_map.bias)
        ends.append(z)
        inside = z[layer.free]
        if layer is tied[-1]:
            families += _sign_and_reach(space, layer, inside, wide)
            break
        nothing = np.zeros(layer.width)
        a = variable(space, layer, "x", Interval(nothing, layer.z.hi))
        on, off = Interval(nothing, layer.z.hi), Interval(layer.z.lo, nothing)
        items.append(Switched(layer, "x", "z", a, inside, on, off))
        families += rows(space, items[-1], wide)
        x = with_pruned(space, layer, through(space, layer, z, a))
    return Pass(tuple(families), tuple(items), tuple(ends))


def with_pruned(space: Space, layer: Layer, x: Tracked) -> Tracked:
    """Pruned neurons pass no derivative but have values: the middle of their range, with the rest as error."""
    if not len(layer.pruned):
        return x
    lo, hi = layer.x.lo[layer.pruned], layer.x.hi[layer.pruned]
    middle = lo / 2 + hi / 2
    parts = [(layer.pruned, constants(space, middle, np.maximum(add_up(hi, -middle), add_up(middle, -lo))))]
    others = np.setdiff1d(np.arange(layer.width), layer.pruned)
    return merge(space, [*parts, (others, x[others])], layer.width)


def _sign_and_reach(space: Space, layer: Layer, z: Tracked, wide: bool) -> list[Family]:
    """The last layer with values has no x of its own."""
    plus, minus = open_and_shut(space, layer)
    hi, lo = (constants(space, end[layer.free]) for end in (layer.z.hi, layer.z.lo))
    where, total, i = layer.free, layer.width, layer.index
    families = [
        product(f"{i}: (1+v) z >= 0", -plus, z, where, total),
        product(f"{i}: (1-v) z <= 0", minus, z, where, total),
        product(f"{i}: (1+v)(hi - z) >= 0", plus, z - hi, where, total),
        product(f"{i}: (1-v)(z - lo) >= 0", -minus, z - lo, where, total),
    ]
    if wide:
        ends = plus.scaled(layer.z.hi[where] / 2) + minus.scaled(layer.z.lo[where] / 2)
        families.append(product(f"{i}: z (z - hi u - lo (1-u)) <= 0: wide chord", z, z - ends, where, total))
    return families


def gradients(net: Network, space: Space, layers: Layers, wide: bool, head: Tracked | None = None) -> Pass:
    """g_m .. g_0 (last in `ends`), and the rows that tie every s_i to g_i and u_i.

    `head` is g_m where it depends on the outputs' weights; the last layer then has an s of its own.
    """
    g = last_gradient(space, layers) if head is None else head
    families: list[Family] = []
    items: list[Switched] = []
    ends = [g]
    for affine_map, layer in zip(reversed(net.affines[:-1]), reversed(layers.hidden), strict=True):
        if layer is layers.hidden[-1] and head is None:
            s = last_slope(space, layers, g)
        else:
            a = variable(space, layer, "s", layer.g)
            items.append(Switched(layer, "s", "g", a, g[layer.free], layer.g, layer.g))
            families += rows(space, items[-1], wide)
            s = through(space, layer, g, a)
        if layer.constant is not None:
            s = Tracked(sparse.csr_array(s.matrix + space.constant(layer.constant).matrix), s.error)
        g = affine(space, affine_map.weight.T, s)
        ends.append(g)
    return Pass(tuple(families), tuple(items[::-1]), tuple(ends[::-1]))


def last_gradient(space: Space, layers: Layers) -> Tracked:
    """g_m = A_{m+1}'c: constants."""
    last = layers.hidden[-1].g
    middle = last.lo / 2 + last.hi / 2
    return constants(space, middle, np.maximum(add_up(last.hi, -middle), add_up(middle, -last.lo)))


def last_slope(space: Space, layers: Layers, g: Tracked) -> Tracked:
    """s_m = u_m * g_m, linear in u because g_m is constant."""
    layer = layers.hidden[-1]
    half = np.asarray(g.matrix[:, [0]].toarray(), dtype=np.float64).reshape(-1)[layer.free] / 2
    own = exactly(space.constant(half) + space[layer.switch].scaled(half))
    return through(space, layer, g, Tracked(own.matrix, g.error[layer.free]))


def directions(net: Network, space: Space, layers: Layers, wide: bool, source: Tracked, top: bool = False) -> Pass:
    """q_1 .. q_m from t, and the rows that tie every y_i to q_i and u_i; for the last layer those of u with q.

    `top`: the last layer has a y of its own too, and what leaves it, A_{m+1} y_m, is the last of `ends`.
    """
    families: list[Family] = []
    items: list[Switched] = []
    ends: list[Tracked] = []
    for affine_map, layer in zip(net.affines, layers.hidden, strict=False):
        q = affine(space, affine_map.weight, source)
        ends.append(q)
        if layer is layers.hidden[-1] and not top:
            families += _envelope(space, layer, q[layer.free])
            break
        a = variable(space, layer, "y", layer.q)
        items.append(Switched(layer, "y", "q", a, q[layer.free], layer.q, layer.q))
        families += rows(space, items[-1], wide)
        source = through(space, layer, q, a)
    if top:
        ends.append(affine(space, net.affines[-1].weight, source))
    return Pass(tuple(families), tuple(items), tuple(ends))


def _envelope(space: Space, layer: Layer, q: Tracked) -> list[Family]:
    plus, minus = open_and_shut(space, layer)
    high, low = (constants(space, end[layer.free]) for end in (layer.q.hi, layer.q.lo))
    where, total, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: u (q - ql) >= 0", -plus, q - low, where, total),
        product(f"{i}: (1-u)(q - ql) >= 0", -minus, q - low, where, total),
        product(f"{i}: u (qu - q) >= 0", plus, q - high, where, total),
        product(f"{i}: (1-u)(qu - q) >= 0", minus, q - high, where, total),
    ]
