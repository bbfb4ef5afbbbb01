"""Any depth: the backward pass as variables. ReLU networks in the infinity norm.

    s_m = u_m * (A_{m+1}'c),   g_i = A_{i+1}' s_{i+1},   s_i = u_i * g_i,      L = max t' A_1' s_1

Naming the vectors of the chain rule keeps everything quadratic: one moment matrix over (1, w, t, v_i, x_i, s_i), with
x_0 = m + r w, u = (1+v)/2, and x_i, s_i scaled by proved bounds. Stable neurons are substituted. For the others

    sign, reach   (1+v) z >= 0, (1-v) z <= 0, (1+v)(hi - z) >= 0, (1-v)(z - lo) >= 0
    value         x (1-u) = 0,  u (x - z) = 0,  x (x - z) = 0
    gradient      s (1-u) = 0,  u (s - g) = 0,  s (s - g) = 0
    envelope      u (g - gl) >= 0, (1-u)(g - gl) >= 0, u (gu - g) >= 0, (1-u)(gu - g) >= 0

On the whole space the rows with x are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lipcert.errors import MethodError
from lipcert.network import Network
from lipcert.norms import Norm
from lipcert.propagation import Interval, gradient_bounds, preactivation_bounds
from lipcert.quadratic.exclusions import exclusions
from lipcert.quadratic.model import Family, Finish, Index, Relaxation, Space, assemble
from lipcert.quadratic.reduction import Share, losses, middle_and_radius, places, squared, without_signs
from lipcert.quadratic.tracked import Tracked, affine, constants, exactly, merge, product
from lipcert.region import Box, Region
from lipcert.rounding import Array, add_up, sum_up

NOTHING = 1e-200  # a gradient this small leaves the problem; the offset pays for it
PRODUCTS_UP_TO = 100  # inputs, for the rows (1 +- t)(1 +- w) >= 0


def check_applies(net: Network, norm: Norm, name: str = "backward") -> None:
    """Refuse what this relaxation does not cover, by name."""
    if norm.p != "inf":
        raise MethodError(f"method {name} works in the infinity norm only, not in norm {norm}; use interval")
    if net.depth == 0:
        raise MethodError(f"method {name} needs a hidden layer; an affine network is exact with interval")
    other = next((f for f in net.activations if f.kind != "relu"), None)
    if other is not None:
        raise MethodError(f"method {name} needs ReLU in every hidden layer, not {other}; use interval")


@dataclass(frozen=True, eq=False)
class _Layer:
    """Hidden layer i: its neurons whose slope is open, those that are on, bounds of z and of the gradient behind it."""

    index: int
    width: int
    free: Index
    on: Index
    z: Interval
    g: Interval
    dropped: Index  # with an open sign, but not in the matrix: see reduction.py

    def name(self, letter: str) -> str:
        return f"{letter}{self.index}"


def backward(
    net: Network,
    region: Region,
    c: Array,
    pre: tuple[Interval, ...] | None = None,
    exclude: bool = False,
    share: Share | None = None,
) -> Relaxation:
    """The backward lift; `pre` as from `preactivation_bounds`.

    `exclude` adds the pairs of signs of the first layer that the box does not allow. `share` says what the matrix keeps
    of a large network; x of a neuron that left is not known, so then the rows with x leave too.
    """
    pre = preactivation_bounds(net, region) if pre is None else pre
    gradients = gradient_bounds(net, pre, c) if share is None else share.gradients
    layers = _layers(pre, gradients, share)
    signs = np.arange(net.inputs) if share is None else places(share.inputs & (share.reach == 0))
    whole = not any(len(layer.dropped) for layer in layers[:-1])
    box = region if whole and isinstance(region, Box) and any(len(layer.free) for layer in layers) else None
    moving = np.flatnonzero(box.hi > box.lo) if box is not None else np.arange(0)
    space = _space(signs, layers, len(moving), box is not None)
    families = _diagonal(space, net.inputs, signs, layers, moving, box is not None)
    if box is not None:
        families += _values(net, space, layers, box, moving)
        if exclude:
            families += _exclusions(net, space, layers[0], box)
        if net.inputs <= PRODUCTS_UP_TO:
            families += _products(space, moving, signs, net.inputs)
    gradient, more = _gradients(net, space, layers)
    objective, offset = _objective(space, gradient) if share is None else _shared(space, gradient, share)
    blocks = {layer.name(letter): (layer.free, layer.width) for layer in layers for letter in "vxs"}
    kept = {name: where for name, where in blocks.items() if name in space.slices}
    kept |= {"w": (moving, net.inputs), "t": (signs, net.inputs)}
    blocks = {name: where for name, where in kept.items() if name in space.slices}
    relaxation = assemble("backward", space, objective, families + more, offset, blocks)
    return relaxation if share is None else replace(relaxation, finish=_finish(layers, share))


def _layers(pre: tuple[Interval, ...], gradients: tuple[Interval, ...], share: Share | None = None) -> list[_Layer]:
    layers = []
    for i, (z, g) in enumerate(zip(pre, gradients[1:], strict=True), start=1):
        on, off = (z.lo >= 0) & (z.hi > 0), (z.hi <= 0) & (z.lo < 0)
        free = ~(on | off) & (g.magnitude > NOTHING)
        left = np.zeros_like(free) if share is None else free & ~share.neurons[i - 1]
        layers.append(_Layer(i, len(z.lo), places(free & ~left), places(on), z, g, places(left)))
    return layers


def _space(signs: Index, layers: list[_Layer], moving: int, with_x: bool) -> Space:
    sizes: dict[str, int] = {"w": moving} if with_x else {}
    sizes["t"] = len(signs)
    sizes |= {layer.name("v"): len(layer.free) for layer in layers}
    for letter in ("x", "s") if with_x else ("s",):
        sizes |= {layer.name(letter): len(layer.free) for layer in layers[:-1]}
    return Space(**sizes)


def _diagonal(space: Space, p0: int, signs: Index, layers: list[_Layer], moving: Index, with_x: bool) -> list[Family]:
    """y_i^2 = 1 for signs, y_i^2 <= 1 for scaled quantities."""

    def squares(name: str, members: Index, total: int, equality: bool) -> Family:
        forms, ones = space[name], np.ones(len(members))
        return Family(f"{name}^2 {'=' if equality else '<='} 1", forms, forms, ones, equality, members, total)

    families = [squares("one", np.arange(1), 1, True), squares("t", signs, p0, True)]
    families += [squares(layer.name("v"), layer.free, layer.width, True) for layer in layers]
    if with_x:
        families.append(squares("w", moving, p0, False))
        families += [squares(layer.name("x"), layer.free, layer.width, False) for layer in layers[:-1]]
    return families + [squares(layer.name("s"), layer.free, layer.width, False) for layer in layers[:-1]]


def _switch(space: Space, layer: _Layer) -> tuple[Tracked, Tracked]:
    """1 + v = 2u and 1 - v = 2(1 - u) of the free neurons."""
    one, v = space.constant(np.ones(len(layer.free))), space[layer.name("v")]
    return exactly(one + v), exactly(one - v)


def _values(net: Network, space: Space, layers: list[_Layer], box: Box, moving: Index) -> list[Family]:
    """The forward pass: z_i as forms in w and x_1 .. x_{i-1}, and the rows that tie x_i and u_i to it."""
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    steps = merge(space, [(moving, exactly(space["w"].scaled(radius[moving])))], net.inputs)
    x = Tracked(sparse.csr_array(steps.matrix + space.constant(middle).matrix), np.zeros(net.inputs))
    families: list[Family] = []
    for affine_map, layer in zip(net.affines, layers, strict=False):
        z = affine(space, affine_map.weight, x, affine_map.bias)
        families += _sign_and_reach(space, layer, z[layer.free])
        if layer is not layers[-1]:
            half = layer.z.hi[layer.free] / 2
            own = exactly(space.constant(half)) + exactly(space[layer.name("x")].scaled(half))
            own = Tracked(own.matrix, np.zeros(len(layer.free)))  # x = half (1 + its variable) defines the variable
            families += _switched(space, layer, "x", "z", own, z[layer.free])
            x = merge(space, [(layer.free, own), (layer.on, z[layer.on])], layer.width)
    return families


def _exclusions(net: Network, space: Space, first: _Layer, box: Box) -> list[Family]:
    A = net.affines[0].weight
    dense = A if isinstance(A, np.ndarray) else np.asarray(A.toarray())
    return exclusions(space, dense, net.affines[0].bias, box, first.free, first.name("v"))


def _sign_and_reach(space: Space, layer: _Layer, z: Tracked) -> list[Family]:
    plus, minus = _switch(space, layer)
    hi, lo = (constants(space, end[layer.free]) for end in (layer.z.hi, layer.z.lo))
    where, total, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: (1+v) z >= 0", -plus, z, where, total),
        product(f"{i}: (1-v) z <= 0", minus, z, where, total),
        product(f"{i}: (1+v)(hi - z) >= 0", plus, z - hi, where, total),
        product(f"{i}: (1-v)(z - lo) >= 0", -minus, z - lo, where, total),
    ]


def _switched(space: Space, layer: _Layer, own: str, source: str, a: Tracked, b: Tracked) -> list[Family]:
    """a = u b: a (1-u) = 0, u (a - b) = 0, a (a - b) = 0."""
    plus, minus = _switch(space, layer)
    gap = a - b
    where, total, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: {own} (1-u) = 0", minus, a, where, total, equality=True),
        product(f"{i}: u ({own} - {source}) = 0", plus, gap, where, total, equality=True),
        product(f"{i}: {own} ({own} - {source}) = 0", a, gap, where, total, equality=True),
    ]


def _gradients(net: Network, space: Space, layers: list[_Layer]) -> tuple[Tracked, list[Family]]:
    """The backward pass: the gradient at the input as forms, and the rows that tie every s_i to g_i and u_i."""
    last = layers[-1].g
    middle = last.lo / 2 + last.hi / 2
    g = constants(space, middle, np.maximum(add_up(last.hi, -middle), add_up(middle, -last.lo)))
    families: list[Family] = []
    for affine_map, layer in zip(reversed(net.affines[:-1]), reversed(layers), strict=True):
        free = g[layer.free]
        if layer is layers[-1]:  # s = g u is linear in u: g is constant there
            half = middle[layer.free] / 2
            own = exactly(space.constant(half)) + exactly(space[layer.name("v")].scaled(half))
            own = Tracked(own.matrix, free.error)
        else:
            own = _slopes(space, layer)
            families += _switched(space, layer, "s", "g", own, free)
            families += _envelope(space, layer, free)
        rest = np.setdiff1d(np.arange(layer.width), np.concatenate([layer.free, layer.on, layer.dropped]))
        nothing = constants(space, np.zeros(len(rest)), np.where(layer.z.hi <= 0, 0.0, layer.g.magnitude)[rest])
        s = merge(
            space, [(layer.free, own), (layer.on, g[layer.on]), (rest, nothing), _middles(space, layer)], layer.width
        )
        g = affine(space, affine_map.weight.T, s)
    return g, families


def _middles(space: Space, layer: _Layer) -> tuple[Index, Tracked]:
    """The neurons that left, at the middle of their s: what that changes is paid in the offset."""
    lo, hi = np.minimum(layer.g.lo, 0.0)[layer.dropped], np.maximum(layer.g.hi, 0.0)[layer.dropped]
    return layer.dropped, constants(space, middle_and_radius(lo, hi)[0])


def _slopes(space: Space, layer: _Layer) -> Tracked:
    """s = middle + radius * its variable, which this defines, for s between min(gl, 0) and max(gu, 0).

    With the middle in the constant the relaxation is never looser than intervals on the last step.
    """
    lo, hi = np.minimum(layer.g.lo, 0.0)[layer.free], np.maximum(layer.g.hi, 0.0)[layer.free]
    middle = lo / 2 + hi / 2
    radius = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    steps = space[layer.name("s")].scaled(radius)
    return exactly(space.constant(middle) + steps)


def _envelope(space: Space, layer: _Layer, g: Tracked) -> list[Family]:
    plus, minus = _switch(space, layer)
    high, low = (constants(space, end[layer.free]) for end in (layer.g.hi, layer.g.lo))
    where, total, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: u (g - gl) >= 0", -plus, g - low, where, total),
        product(f"{i}: (1-u)(g - gl) >= 0", -minus, g - low, where, total),
        product(f"{i}: u (gu - g) >= 0", plus, g - high, where, total),
        product(f"{i}: (1-u)(gu - g) >= 0", minus, g - high, where, total),
    ]


def _products(space: Space, moving: Index, signs: Index, p0: int) -> list[Family]:
    """(1 + s t_i)(1 + q w_i) >= 0 for the coordinates that move and have a sign."""
    moving, of_w, of_t = np.intersect1d(moving, signs, assume_unique=True, return_indices=True)
    one, w = exactly(space.constant(np.ones(len(moving)))), exactly(space["w"])[of_w]
    t = exactly(space["t"])[of_t]
    pairs = [(a, b, t if a == "+" else -t, w if b == "+" else -w) for a in "+-" for b in "+-"]
    return [product(f"(1{a}t)(1{b}w) >= 0", -(one + first), one + second, moving, p0) for a, b, first, second in pairs]


def _objective(space: Space, gradient: Tracked) -> tuple[sparse.csr_array, float]:
    """y'Cy = t'gradient, and what the forms of the gradient may be off in all."""
    start = space.slices["t"].start
    part = sparse.coo_array(gradient.matrix)
    half = sparse.coo_array((part.data / 2, (part.coords[0] + start, part.coords[1])), (space.size, space.size))
    return sparse.csr_array(half + half.T), sum_up(gradient.error)


def _shared(space: Space, gradient: Tracked, share: Share) -> tuple[sparse.csr_array, float]:
    """y'Cy = t'(weighted gradient) on the inputs with a sign and chords on the others; or its Euclidean norm."""
    if share.reach:
        return squared(space, gradient, share)
    signs, others = places(share.inputs), places(~share.inputs)
    C, offset = _objective(space, gradient[signs].scaled(share.weights[signs]))
    g = Interval(share.gradients[0].lo[others], share.gradients[0].hi[others])
    chord, paid = without_signs(space, gradient[others], g, share.weights[others])
    half = sparse.csr_array(chord.matrix) / 2
    pointer = np.array([0, half.nnz] + [half.nnz] * (space.size - 1))
    first = sparse.csr_array((half.data, half.indices, pointer), C.shape)
    return sparse.csr_array(C + first + first.T), sum_up(np.array([offset, sum_up(chord.error), paid]))


def _finish(layers: list[_Layer], share: Share) -> Finish:
    """The root of a Euclidean reduction, and the price of the neurons that left."""
    dropped = [np.isin(np.arange(layer.width), layer.dropped) for layer in layers]
    price = sum_up(np.array([sum_up(part) for part in losses(share, tuple(dropped))[1]]))
    return Finish(share.scale if share.reach else 0.0, price)
