"""Proofs on a part of a region: by intervals, by a relaxation with the part's half-spaces, or that it is empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, interval_uppers, proves_empty
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Box
from lipcert.proof.cases import has_cases
from lipcert.proof.multipliers import check, prove
from lipcert.proof.relaxed import build
from lipcert.relaxation.cuts import NO_CUTS, Cuts, valid_table, with_cuts
from lipcert.relaxation.ends import Ends
from lipcert.relaxation.halfspaces import with_halfspaces
from lipcert.relaxation.lifts import has_wide
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.one_layer import CHORDS
from lipcert.rounding import Array

KINDS = ("interval", "empty", "tight")
SIDES = "half-spaces"  # the name of an empty part's multipliers, one for every neuron


@dataclass(frozen=True, eq=False)
class Leaf:
    """How a part is proved; only a relaxation, or an empty part that intervals do not show, needs numbers."""

    kind: str = "interval"
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    shift: Mapping[str, Array] = field(default_factory=dict)
    cuts: NDArray[np.int64] = field(default_factory=lambda: NO_CUTS.table)


BY_INTERVALS = Leaf()


def relaxation_of(
    net: Network,
    part: Cell,
    norm: Norm,
    c: Array,
    pre: tuple[Interval, ...],
    chords: bool | None = None,
    values: bool | None = None,
) -> Relaxation:
    """`tight` on a part; where signs are fixed the values x stay in the matrix, so that their half-spaces can."""
    if values is None and part.fixed:
        values = True
    relaxation = build(net, part.region, norm, c, "tight", pre, chords, values)
    if not isinstance(part.region, Box):
        return relaxation
    signs = tuple(s.astype(np.int64) for s in part.signs)
    return with_halfspaces(relaxation, net, part.region, c, pre, signs, ends=Ends(norm))


def prove_leaf(relaxation: Relaxation, cuts: Cuts, multipliers: Array) -> tuple[float, Leaf]:
    """The bound on a part from any multipliers of its relaxation, which has these cuts."""
    proof = prove(relaxation, multipliers)
    leaf = Leaf("tight", relaxation.pack(proof.multipliers), relaxation.spread(proof.shift), cuts.table)
    return proof.upper, leaf


def check_relaxed(net: Network, part: Cell, norm: Norm, c: Array, pre: tuple[Interval, ...], leaf: Leaf) -> float:
    """The bound that a leaf's multipliers prove on its part, infinite when none."""
    chords, values = CHORDS in leaf.multipliers or has_wide(leaf.multipliers), "w" in leaf.shift
    if has_cases(norm) or not valid_table(leaf.cuts):
        return np.inf
    relaxation = with_cuts(relaxation_of(net, part, norm, c, pre, chords, values), Cuts(leaf.cuts))
    if not relaxation.fits(leaf.multipliers, leaf.shift):
        return np.inf
    return check(relaxation, relaxation.unpack(leaf.multipliers), relaxation.gather(leaf.shift)).upper


def prove_empty(part: Cell, bounds: Bounds, weights: Array) -> Leaf | None:
    """The proof by multiples of the part's half-spaces, one weight for every neuron; None when they prove nothing."""
    leaf = Leaf("empty", {SIDES: np.maximum(weights, 0.0)})
    return leaf if shows_empty(part, bounds, leaf) else None


def shows_empty(part: Cell, bounds: Bounds, leaf: Leaf) -> bool:
    """Whether the weights of a leaf prove its part empty; `bounds` are of this part alone."""
    weights = leaf.multipliers.get(SIDES)
    neuron = bounds.sides.neuron
    if weights is None or not isinstance(part.region, Box) or not neuron.size or len(weights) <= neuron.max():
        return False
    picked = np.where(neuron >= 0, weights[np.maximum(neuron, 0)], 0.0)
    if not (np.all(np.isfinite(picked)) and np.all(picked >= 0)):
        return False
    box = Interval(part.region.lo[None, :], part.region.hi[None, :])
    return bool(proves_empty(bounds.sides, picked, box)[0])


def check_leaves(net: Network, parts: list[Cell], bounds: Bounds, norm: Norm, c: Array, leaves: list[Leaf]) -> Array:
    """What the leaves prove on their parts: intervals all at once, the others one by one."""
    uppers = interval_uppers(net, bounds, norm, c)
    for k, (part, leaf) in enumerate(zip(parts, leaves, strict=True)):
        if leaf.kind == "empty" and shows_empty(part, bounds.rows(np.array([k])), leaf):
            uppers[k] = 0.0
        elif leaf.kind == "tight":
            uppers[k] = min(uppers[k], check_relaxed(net, part, norm, c, bounds.of(k), leaf))
    return uppers
