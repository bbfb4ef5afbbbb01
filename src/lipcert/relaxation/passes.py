"""The three passes through a network as forms in y: values forward, gradients backward, directions forward.

    values       x_0 = m + r w,   z_i = b_i + sum_j A_ij x_j,           x_i = f_i(z_i)
    gradients                     g_j = sum_i A_ij' s_i,                s_i = u_i * g_i     (s of the scores: c, or d)
    directions   y_0 = t,         q_i = sum_j A_ij y_j,                 y_i = u_i * q_i

Values go through blocks whose activations are piecewise linear; behind a smooth one slopes keep their proved bounds
only. Where only the scores read a block, with given weights, g is constant: its s is linear in u and its y is not
needed.

Every pass ties switched quantities a = u' b to their sources by the same rows, for values (x of z), gradients (s of g)
and directions (y of q):

    u' in {0, 1}    a (1-u') = 0,   u' (a - b) = 0,   a (a - b) = 0
    u' in [0, 1]    a (a - b) <= 0
    factors         a - l u',  h u' - a,  (b - a) - l (1-u'),  h (1-u') - (b - a)     all >= 0 for l <= b <= h
    chord           (a - l u')(a - h u') <= 0;  wide: ((b - a) - l (1-u'))((b - a) - h (1-u')) <= 0

In a space without u' only a (a - b) is left (see `lifts.unsigned`). The factors are rows by themselves, and cuts
multiply them with 1 +- any entry of y. The wide chord couples everything that b is made of, which costs the solver its
sparsity: it is for small problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.bounds.interval import Interval
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.region import Box
from lipcert.relaxation.layers import LiftedLayer, LiftedLayers
from lipcert.relaxation.model import (
    Family,
    Index,
    NonnegativeForms,
    Space,
    Tracked,
    affine,
    constants,
    exactly,
    in_common_units,
    merge,
    product,
)
from lipcert.rounding import Array, add_up, grow

WIDE = "wide chord"


@dataclass(frozen=True, eq=False)
class SwitchedQuantity:
    """a = u' b of the free neurons of a layer; `on` bounds b where u' = 1, `off` where u' = 0."""

    layer: LiftedLayer
    own: str  # the letter of a
    source: str  # and of b
    a: Tracked
    b: Tracked
    on: Interval
    off: Interval

    def name(self, text: str) -> str:
        return f"{self.layer.index}: " + text.replace("a", self.own).replace("b", self.source)


def variable(space: Space, layer: LiftedLayer, letter: str, range_: Interval) -> Tracked:
    """A quantity within min(lo, 0) .. max(hi, 0) as middle + radius * its variable, which this defines.

    With the middle in the constant the relaxation is never looser than intervals on the last step.
    """
    lo, hi = np.minimum(range_.lo, 0.0)[layer.free], np.maximum(range_.hi, 0.0)[layer.free]
    middle = lo / 2 + hi / 2
    radius = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    return exactly(space.constant(middle) + space[layer.name(letter)].scaled(radius))


def open_and_shut(space: Space, layer: LiftedLayer) -> tuple[Tracked, Tracked]:
    """2 u' and 2 (1 - u') of the free neurons."""
    one, v = space.constant(np.ones(len(layer.free))), space[layer.switch]
    return exactly(one + v), exactly(one - v)


def rows(space: Space, item: SwitchedQuantity, wide: bool) -> list[Family]:
    """All rows of a = u' b."""
    layer, a, gap = item.layer, item.a, item.a - item.b
    place = (layer.free, layer.width)
    sign = "=" if layer.binary else "<="
    families = [product(item.name(f"a (a - b) {sign} 0"), a, gap, *place, equality=layer.binary)]
    if layer.switch not in space.slices:
        return families
    plus, minus = open_and_shut(space, layer)
    if layer.binary:
        families = [
            product(item.name("a (1-u) = 0"), minus, a, *place, equality=True),
            product(item.name("u (a - b) = 0"), plus, gap, *place, equality=True),
            *families,
        ]
    low, high, rest_low, rest_high = factors(space, item)
    one = constants(space, np.ones(len(layer.free)))
    names = ("a - l u >= 0", "h u - a >= 0", "b - a - l (1-u) >= 0", "h (1-u) - b + a >= 0")
    for text, factor in zip(names, (low, high, rest_low, rest_high), strict=True):
        families.append(product(item.name(text), -one, factor, *place))
    families.append(product(item.name("(a - l u)(a - h u) <= 0"), -low, high, *place))
    if wide:
        families.append(product(item.name("b - a: ") + WIDE, -rest_low, rest_high, *place))
    return families


def factors(space: Space, item: SwitchedQuantity) -> tuple[Tracked, Tracked, Tracked, Tracked]:
    """Four batches of forms of quantities that are >= 0."""
    plus, minus = open_and_shut(space, item.layer)
    free, rest = item.layer.free, item.b - item.a

    def times(side: Tracked, values: Array) -> Tracked:
        return side.scaled(values[free] / 2)

    return (
        (item.a - times(plus, item.on.lo)).unit(),
        (times(plus, item.on.hi) - item.a).unit(),
        (rest - times(minus, item.off.lo)).unit(),
        (times(minus, item.off.hi) - rest).unit(),
    )


def stored(space: Space, item: SwitchedQuantity) -> NonnegativeForms:
    """The factors as the cuts use them; none in a space without u'."""
    batches = factors(space, item) if item.layer.switch in space.slices else ()
    pair = in_common_units(item.a, item.b) if item.layer.binary else None
    return NonnegativeForms(tuple(f.matrix for f in batches), tuple(f.error for f in batches), pair)


def through(space: Space, layer: LiftedLayer, source: Tracked, own: Tracked | None) -> Tracked:
    """u times the source for the whole layer; `own` is u' times the source for free neurons, None without any."""
    fixed = layer.base.copy()
    fixed[layer.free] = 0.0
    same, other = np.flatnonzero(fixed == 1.0), np.flatnonzero((fixed != 1.0) & (fixed != 0.0))
    parts = [(same, source[same]), (other, source[other].scaled(fixed[other]))]
    free = layer.free
    if own is not None and len(free):
        if np.any((layer.delta[free] != 1.0) | (layer.base[free] != 0.0)):
            own = source[free].scaled(layer.base[free]) + own.scaled(layer.delta[free])
        parts.append((free, own))
    whole = merge(space, parts, layer.width)
    doubt = np.where(layer.doubt > 0, layer.doubt * source.reach, 0.0)
    return Tracked(whole.matrix, grow(whole.error + doubt, 4))


Terms = Sequence[tuple[int, Matrix]]  # the number of a vector, and what it is multiplied with


@dataclass(frozen=True, eq=False)
class PassRows:
    """The families of a pass, its switched quantities block by block, and by block the forms that it ends with.

    `ends` are g_0 .. g_m of gradients, q_1 .. q_m of directions, which have `passed` too: y_0 .. y_m where they exist.
    """

    families: tuple[Family, ...]
    items: tuple[SwitchedQuantity, ...]
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
    net: Network, space: Space, layers: LiftedLayers, x: Tracked
) -> Iterator[tuple[LiftedLayer, Tracked, Tracked | None]]:
    """For every tied block: z as forms in x_0 and the x of blocks before, and u' z of its free neurons.

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


def values(net: Network, space: Space, layers: LiftedLayers, x: Tracked, wide: bool) -> PassRows:
    """The rows that tie x_i and u_i of every tied block to z_i."""
    families: list[Family] = []
    items: list[SwitchedQuantity] = []
    for layer, z, a in preactivation_forms(net, space, layers, x):
        inside, nothing = z[layer.free], np.zeros(layer.width)
        if a is None:
            families += _sign_and_reach(space, layer, inside, wide)
            continue
        on, off = Interval(nothing, layer.z.hi), Interval(layer.z.lo, nothing)
        items.append(SwitchedQuantity(layer, "x", "z", a, inside, on, off))
        families += rows(space, items[-1], wide)
    return PassRows(tuple(families), tuple(items), {}, {})


def _with_pruned(space: Space, layer: LiftedLayer, x: Tracked) -> Tracked:
    """Pruned neurons pass no derivative but have values: the middle of their range, with the rest as error."""
    if not len(layer.pruned):
        return x
    lo, hi = layer.x.lo[layer.pruned], layer.x.hi[layer.pruned]
    middle = lo / 2 + hi / 2
    parts = [(layer.pruned, constants(space, middle, np.maximum(add_up(hi, -middle), add_up(middle, -lo))))]
    others = np.setdiff1d(np.arange(layer.width), layer.pruned)
    return merge(space, [*parts, (others, x[others])], layer.width)


def _sign_and_reach(space: Space, layer: LiftedLayer, z: Tracked, wide: bool) -> list[Family]:
    """Rows of a block whose x no tied block reads, so that x is no variable."""
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


def gradients(net: Network, space: Space, layers: LiftedLayers, wide: bool, weights: Tracked | None = None) -> PassRows:
    """g_m .. g_0, and the rows that tie every s_i to g_i and u_i; `weights` are those of the outputs.

    The weights are not used where the scores read neither a lifted block nor the input.
    """
    families: list[Family] = []
    items: list[SwitchedQuantity] = []
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
            items.append(SwitchedQuantity(layer, "s", "g", a, g[layer.free], layer.g, layer.g))
            families += rows(space, items[-1], wide)
            s = through(space, layer, g, a)
        if layer.constant is not None:
            s = Tracked(sparse.csr_array(s.matrix + space.constant(layer.constant).matrix), s.error)
        passed[i] = s
    ends[0] = _pulled(net, space, 0, passed)
    return PassRows(tuple(families), tuple(items[::-1]), ends, passed)


def _pulled(net: Network, space: Space, j: int, passed: Mapping[int, Tracked]) -> Tracked:
    """g_j from the s of all that read block j."""
    return total(space, [(i, weight.T) for i, weight in net.readers[j]], passed, net.shape[j])


def constant_gradient(space: Space, layer: LiftedLayer) -> Tracked:
    """g of a block that only the scores read, with given weights: constants."""
    middle = layer.g.lo / 2 + layer.g.hi / 2
    return constants(space, middle, np.maximum(add_up(layer.g.hi, -middle), add_up(middle, -layer.g.lo)))


def slope_times_constant(space: Space, layer: LiftedLayer) -> Tracked:
    """s = u * g, linear in u because g is constant."""
    g = constant_gradient(space, layer)
    half = (layer.g.lo / 2 + layer.g.hi / 2)[layer.free] / 2
    own = exactly(space.constant(half) + space[layer.switch].scaled(half))
    return through(space, layer, g, Tracked(own.matrix, g.error[layer.free]))


def directions(net: Network, space: Space, layers: LiftedLayers, wide: bool, source: Tracked) -> PassRows:
    """q_1 .. q_m from t, and the rows that tie every y_i to q_i and u_i; where y is not needed those of u with q."""
    families: list[Family] = []
    items: list[SwitchedQuantity] = []
    ends: dict[int, Tracked] = {}
    passed = {0: source}
    for layer in layers.hidden:
        i = layer.index
        ends[i] = q = total(space, net.blocks[i - 1].terms, passed, layer.width)
        if not layer.lifted:
            families += _envelope(space, layer, q[layer.free])
            continue
        a = variable(space, layer, "y", layer.q)
        items.append(SwitchedQuantity(layer, "y", "q", a, q[layer.free], layer.q, layer.q))
        families += rows(space, items[-1], wide)
        passed[i] = through(space, layer, q, a)
    return PassRows(tuple(families), tuple(items), ends, passed)


def _envelope(space: Space, layer: LiftedLayer, q: Tracked) -> list[Family]:
    plus, minus = open_and_shut(space, layer)
    high, low = (constants(space, end[layer.free]) for end in (layer.q.hi, layer.q.lo))
    where, count, i = layer.free, layer.width, layer.index
    return [
        product(f"{i}: u (q - ql) >= 0", -plus, q - low, where, count),
        product(f"{i}: (1-u)(q - ql) >= 0", -minus, q - low, where, count),
        product(f"{i}: u (qu - q) >= 0", plus, q - high, where, count),
        product(f"{i}: (1-u)(qu - q) >= 0", minus, q - high, where, count),
    ]
