"""Rows of a switched quantity a = u' b: the same for values (x of z), gradients (s of g) and directions (y of q).

    u' in {0, 1}    a (1-u') = 0,   u' (a - b) = 0,   a (a - b) = 0
    u' in [0, 1]    a (a - b) <= 0
    factors         a - l u',  h u' - a,  (b - a) - l (1-u'),  h (1-u') - (b - a)     all >= 0 for l <= b <= h
    chord           (a - l u')(a - h u') <= 0;  wide: ((b - a) - l (1-u'))((b - a) - h (1-u')) <= 0

In a space without u' only a (a - b) is left (see `unsigned`).

The factors are rows by themselves, and cuts multiply them with 1 +- any entry of y. The wide chord couples everything
that b is made of, which costs the solver its sparsity: it is for small problems.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.propagation import Interval
from lipcert.relaxation.layers import Layer
from lipcert.relaxation.model import Factors, Family, Space
from lipcert.relaxation.tracked import Tracked, constants, exactly, in_common_units, merge, product
from lipcert.rounding import Array, add_up, grow

WIDE = "wide chord"


@dataclass(frozen=True, eq=False)
class Switched:
    """a = u' b of the free neurons of a layer; `on` bounds b where u' = 1, `off` where u' = 0."""

    layer: Layer
    own: str  # the letter of a
    source: str  # and of b
    a: Tracked
    b: Tracked
    on: Interval
    off: Interval

    def name(self, text: str) -> str:
        return f"{self.layer.index}: " + text.replace("a", self.own).replace("b", self.source)


def variable(space: Space, layer: Layer, letter: str, range_: Interval) -> Tracked:
    """A quantity within min(lo, 0) .. max(hi, 0) as middle + radius * its variable, which this defines.

    With the middle in the constant the relaxation is never looser than intervals on the last step.
    """
    lo, hi = np.minimum(range_.lo, 0.0)[layer.free], np.maximum(range_.hi, 0.0)[layer.free]
    middle = lo / 2 + hi / 2
    radius = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    return exactly(space.constant(middle) + space[layer.name(letter)].scaled(radius))


def open_and_shut(space: Space, layer: Layer) -> tuple[Tracked, Tracked]:
    """2 u' and 2 (1 - u') of the free neurons."""
    one, v = space.constant(np.ones(len(layer.free))), space[layer.switch]
    return exactly(one + v), exactly(one - v)


def rows(space: Space, item: Switched, wide: bool) -> list[Family]:
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


def factors(space: Space, item: Switched) -> tuple[Tracked, Tracked, Tracked, Tracked]:
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


def stored(space: Space, item: Switched) -> Factors:
    """The factors as the cuts use them; none in a space without u'."""
    batches = factors(space, item) if item.layer.switch in space.slices else ()
    pair = in_common_units(item.a, item.b) if item.layer.binary else None
    return Factors(tuple(f.matrix for f in batches), tuple(f.error for f in batches), pair)


def through(space: Space, layer: Layer, source: Tracked, own: Tracked | None) -> Tracked:
    """u source of the whole layer, where own = u' source of the free neurons (None when there are none)."""
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
