"""A cell of a box in the moment matrix: neurons whose sign is fixed leave it, their half-spaces come in as rows.

    s z >= 0                    for every neuron with the fixed sign s, z a form in w and x_1, x_2, ..
    b - a'x >= 0                for every half-space of the region, which is treated as one of them
    (1 +- v) s z >= 0           v the open signs
    (s z)(s' z') >= 0           pairs of half-spaces

Pre-activation bounds of the cell already make the neuron stable for the builders. Without these rows the relaxation
would not know that x lies in the cell.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.problem.problem import Problem
from lipcert.problem.region import hull, sides_of
from lipcert.relaxation.layers import layers_of
from lipcert.relaxation.model import (
    Family,
    Index,
    Relaxation,
    Tracked,
    affine,
    constants,
    exactly,
    product,
    stack,
    with_families,
)
from lipcert.relaxation.passes import inputs_of, preactivation_forms

ROWS_UP_TO = 1500  # products of half-spaces; beyond, only the half-spaces themselves


def with_halfspaces(
    relaxation: Relaxation, problem: Problem, signs: tuple[Index, ...] | None, products: bool
) -> Relaxation:
    """The relaxation with rows for `signs`, by block 1 or -1 where fixed, and for the half-spaces of the region;
    nothing where the matrix has no x.

    The problem is the one on the cell that the relaxation was built with: its bounds and norm say which neurons are
    pruned.
    """
    space = relaxation.space
    cut, fixed = sides_of(problem.region), signs is not None and any(s.any() for s in signs)
    if "w" not in space.slices or not (fixed or cut is not None):
        return relaxation
    sides, places = _sides(relaxation, problem, signs)
    if not len(places):
        return relaxation
    total = problem.network.neurons + (0 if cut is None else cut.count)
    one = constants(space, np.ones(len(places)))
    families = [product("half-space", -one, sides, places, total)]
    if products:
        others = [name for name in space.slices if name.startswith("v")]
        families += [f for name in others for f in _with_signs(relaxation, name, sides, places, total)]
        families += _pairs(sides, places, total)
    return with_families(relaxation, families)


def products_fit(problem: Problem, signs: tuple[Index, ...] | None) -> bool:
    """Whether there are few enough products of half-spaces with each other and with open signs."""
    layers, cut = layers_of(problem), sides_of(problem.region)
    fixed = 0 if cut is None else cut.count
    if signs is not None:
        fixed += sum(int(np.count_nonzero(signs[layer.index - 1])) for layer in layers.tied)
    width = sum(len(layer.free) for layer in layers.hidden if layer.binary)
    return fixed * (2 * width + fixed) <= ROWS_UP_TO


def _sides(relaxation: Relaxation, problem: Problem, signs: tuple[Index, ...] | None) -> tuple[Tracked, Index]:
    """s z of the neurons with a fixed sign, b - a'x of the region, and their places: after all neurons."""
    space, net, box, cut = relaxation.space, problem.network, hull(problem.region), sides_of(problem.region)
    assert box is not None
    x = inputs_of(space, box, relaxation.blocks["w"][0])
    starts = np.concatenate([[0], np.cumsum(net.shape[1:-1])])
    found: list[Tracked] = [Tracked(sparse.csr_array((0, space.size)), np.zeros(0))]
    places: list[Index] = [np.zeros(0, dtype=np.int64)]
    if cut is not None:
        found.append(affine(space, -cut.A, x, cut.b))
        places.append(net.neurons + np.arange(cut.count))
    for layer, z, _ in preactivation_forms(net, space, layers_of(problem), x) if signs is not None else ():
        assert signs is not None
        own = signs[layer.index - 1]
        fixed = np.flatnonzero(own)
        if len(fixed):
            found.append(z[fixed].scaled(own[fixed].astype(np.float64)))
            places.append(starts[layer.index - 1] + fixed)
    return stack(found).unit(), np.concatenate(places)


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
