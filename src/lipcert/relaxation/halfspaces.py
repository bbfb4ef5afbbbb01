"""A part of a box in the moment matrix: neurons whose sign is fixed leave it, their half-spaces come in as rows.

    s z >= 0                    for every neuron with the fixed sign s, z a form in w and x_1, x_2, ..
    (1 +- v) s z >= 0           v the open signs
    (s z)(s' z') >= 0           pairs of half-spaces

Pre-activation bounds of the part already make the neuron stable for the builders; without these rows the relaxation
would forget for which x it is.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.relaxation.ends import Ends
from lipcert.relaxation.layers import Layers, layers_of
from lipcert.relaxation.model import Family, Index, Relaxation, with_families
from lipcert.relaxation.passes import inputs_of, with_pruned, with_values
from lipcert.relaxation.switched import through, variable
from lipcert.relaxation.tracked import Tracked, affine, constants, exactly, product
from lipcert.rounding import Array

ROWS_UP_TO = 1500  # products of half-spaces; beyond, only the half-spaces themselves


def with_halfspaces(
    relaxation: Relaxation,
    net: Network,
    box: Box,
    c: Array,
    pre: tuple[Interval, ...],
    signs: tuple[Index, ...],
    products: bool | None = None,
    ends: Ends = Ends(),  # noqa: B008 - frozen
) -> Relaxation:
    """The relaxation of a part: rows for `signs`, 1 or -1 where fixed; nothing where the matrix has no x.

    `pre` are the bounds of the part that the relaxation was built with, `ends` its norms: which neurons are pruned
    depends on both. `products` as the number of rows when None.
    """
    space = relaxation.space
    if "w" not in space.slices or not any(s.any() for s in signs):
        return relaxation
    sides, places = _sides(layers_of(net, pre, c, ends), net, relaxation, box, signs)
    if not len(places):
        return relaxation
    total = net.neurons
    one = constants(space, np.ones(len(places)))
    families = [product("half-space", -one, sides, places, total)]
    others = [name for name in space.slices if name.startswith("v")]
    width = sum(space.slices[n].stop - space.slices[n].start for n in others)
    if products is None:
        products = len(places) * (2 * width + len(places)) <= ROWS_UP_TO
    if products:
        families += [f for name in others for f in _with_signs(relaxation, name, sides, places, total)]
        families += _pairs(sides, places, total)
    return with_families(relaxation, families)


def _sides(
    layers: Layers, net: Network, relaxation: Relaxation, box: Box, signs: tuple[Index, ...]
) -> tuple[Tracked, Index]:
    """s z of the neurons with a fixed sign, and their places among all neurons."""
    space = relaxation.space
    x = inputs_of(net, space, box, relaxation.blocks["w"][0])
    tied = with_values(layers)
    found: list[Tracked] = []
    places: list[Index] = []
    start = 0
    for affine_map, layer, own in zip(net.affines, tied, signs, strict=False):
        z = affine(space, affine_map.weight, x, affine_map.bias)
        fixed = np.flatnonzero(own)
        if len(fixed):
            found.append(z[fixed].scaled(own[fixed].astype(np.float64)))
            places.append(start + fixed)
        start += layer.width
        if layer is tied[-1]:
            break
        a = variable(space, layer, "x", Interval(np.zeros(layer.width), layer.z.hi))
        x = with_pruned(space, layer, through(space, layer, z, a))
    if not found:
        return constants(space, np.zeros(0)), np.zeros(0, dtype=np.int64)
    matrix = sparse.csr_array(sparse.vstack([f.matrix for f in found]))
    return Tracked(matrix, np.concatenate([f.error for f in found])).unit(), np.concatenate(places)


def _with_signs(relaxation: Relaxation, name: str, sides: Tracked, places: Index, total: int) -> list[Family]:
    """(1 +- a) s z >= 0 for all entries a of a block and all half-spaces."""
    space = relaxation.space
    where = space.slices[name]
    width = where.stop - where.start
    members, full = relaxation.blocks.get(name, (np.arange(width), width))
    if not width:
        return []
    k, j = (index.ravel() for index in np.indices((len(places), width)))
    a, z = exactly(space[name])[j], sides[k]
    one = constants(space, np.ones(len(k)))
    where_kept = places[k] * full + members[j]
    return [
        product(f"(1{s}{name}) half-space", -(one + (a if s == "+" else -a)), z, where_kept, total * full) for s in "+-"
    ]


def _pairs(sides: Tracked, places: Index, total: int) -> list[Family]:
    """(s z)(s' z') >= 0."""
    j, k = np.triu_indices(len(places), 1)
    if not len(j):
        return []
    return [product("half-spaces", -sides[j], sides[k], places[j] * total + places[k], total * total)]
