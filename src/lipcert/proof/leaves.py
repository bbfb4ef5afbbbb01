"""Proofs on a cell of a region: by intervals, linear bounds, a relaxation with its half-spaces, or that it is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, interval_uppers, linear_bounds, proves_empty, slope_bounds
from lipcert.bounds.jacobian import map_bounds
from lipcert.bounds.linear import LinearBounds
from lipcert.bounds.substitution import Tangent, tangents
from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere, Region, hull
from lipcert.proof.arithmetic import INTERVAL, LINEAR, Arithmetic
from lipcert.proof.interior import has_interior, known_signs, no_interior, row_count
from lipcert.proof.nowhere import no_interior as nowhere
from lipcert.proof.relaxed import Multipliers, prove_multipliers
from lipcert.relaxation.model import Index, Relaxation
from lipcert.relaxation.specification import Specification
from lipcert.rounding import Array, best

SIDES = "half-spaces"  # the name of an empty cell's multipliers, one for every neuron and then for the region's
COEFFICIENTS, BASIS = "coefficients", "basis"  # the same on the whole space (`proof.nowhere`)
ROWS = "rows"  # of a cell of a bounded region without interior (`proof.interior`)


@dataclass(frozen=True, eq=False)
class Empty:
    """The cell has no points: multiples of its half-spaces, one for every neuron, show it. Or it has no interior: on
    the whole space by coefficients of the pre-activations, on a bounded region by rows that cancel."""

    multipliers: Mapping[str, Array]
    shift: Mapping[str, Array] = field(default_factory=dict)

    def shows(self, net: Network, cell: Cell, bounds: Bounds, region: Region | None = None) -> bool:
        """Whether these numbers prove it; `bounds` are of this cell alone. The cell is a part of `region`, which is the
        cell's own region where none is given."""
        if isinstance(cell.region, Everywhere):
            basis, c = self.multipliers.get(BASIS), self.multipliers.get(COEFFICIENTS)
            if c is None or basis is None or not are_places(basis, len(c)):
                return False
            return nowhere(net, bounds.pre, c, basis.astype(np.int64))
        if ROWS in self.multipliers:
            rows = self.rows(net, cell.region, region or cell.region)
            return rows is not None and no_interior(net, cell.region, known_signs(bounds.pre), rows)
        weights, place = self.multipliers.get(SIDES), hull(cell.region)
        neuron = bounds.sides.neuron
        if weights is None or place is None or not neuron.size or len(weights) <= neuron.max():
            return False
        picked = np.where(neuron >= 0, weights[np.maximum(neuron, 0)], 0.0)
        if not (np.all(np.isfinite(picked)) and np.all(picked >= 0)):
            return False
        box = Interval(place.lo[None, :], place.hi[None, :])
        return bool(proves_empty(bounds.sides, picked, box)[0])

    def rows(self, net: Network, part: Region, region: Region) -> Index | None:
        """The rows of `proof.interior` on this part of a region; None where it is not proved to have interior."""
        rows = self.multipliers[ROWS]
        if not are_places(rows, row_count(net, part)) or not has_interior(region):
            return None
        return rows.astype(np.int64)


def are_places(numbers: Array, count: int) -> bool:
    """Whether these are whole numbers from 0 to count - 1: a file keeps them among numbers of other kinds."""
    return bool(np.all((numbers >= 0) & (numbers < count) & (numbers == np.rint(numbers))))


Leaf = Arithmetic | Empty | Multipliers
BY_INTERVALS, BY_LINES = INTERVAL, LINEAR


def problem_on(problem: Problem, cell: Cell, pre: tuple[Interval, ...]) -> tuple[Problem, tuple[Index, ...]]:
    """The problem on the region of a cell with the bounds of the cell, and the cell's signs as `build` takes them."""
    return problem.on(cell.region, preactivations=pre), tuple(s.astype(np.int64) for s in cell.signs)


def prove_leaf(specification: Specification, relaxation: Relaxation, multipliers: Array) -> tuple[Multipliers, float]:
    """The proof from any multipliers of a cell's relaxation, and its bound; the signs are the tree's to know."""
    return prove_multipliers(replace(specification, signs=None), relaxation, multipliers)


def prove_empty(net: Network, cell: Cell, bounds: Bounds, weights: Array) -> Empty | None:
    """The proof by multiples of the cell's half-spaces, one weight for every neuron; None when they prove nothing."""
    leaf = Empty({SIDES: np.maximum(weights, 0.0)})
    return leaf if leaf.shows(net, cell, bounds) else None


def prove_flat(problem: Problem, cell: Cell, bounds: Bounds, rows: Index) -> Empty | None:
    """The proof that a cell of a bounded region has no interior by rows that cancel; None when they prove nothing."""
    leaf = Empty({ROWS: rows.astype(np.float64)})
    return leaf if leaf.shows(problem.network, cell, bounds, problem.region) else None


def prove_nowhere(net: Network, cell: Cell, bounds: Bounds, c: Array, basis: NDArray[np.int64]) -> Empty | None:
    """The proof that a cell of the whole space has no interior; None when these numbers prove nothing."""
    leaf = Empty({COEFFICIENTS: c, BASIS: basis.astype(np.float64)})
    return leaf if leaf.shows(net, cell, bounds) else None


def check_relaxed(problem: Problem, cell: Cell, pre: tuple[Interval, ...], leaf: Multipliers) -> float:
    """The bound that a leaf's multipliers prove on its cell, infinite when none."""
    if problem.has_cases:
        return np.inf
    own, signs = problem_on(problem, cell, pre)
    specification = replace(leaf.specification, signs=signs)
    try:
        return leaf.check_rows(own, specification)
    except MethodError:  # a relaxation that this network does not have
        return np.inf


def line_bounds(problem: Problem, cells: Sequence[Cell], bounds: Bounds) -> tuple[Array, LinearBounds]:
    """What linear bounds of the gradient (the Jacobian) prove on every cell, zero on empty ones; and all they say."""
    boxes, values = [hull(cell.region) for cell in cells], None
    if all(box is not None for box in boxes):
        lo, hi = (np.stack([getattr(box, end) for box in boxes]) for end in ("lo", "hi"))
        values = tangents(problem.network, Interval(lo, hi), bounds.pre)
    linear = gradient_lines(problem, bounds.pre, values)
    return np.where(bounds.empty, 0.0, linear.upper), linear


def gradient_lines(problem: Problem, pre: tuple[Interval, ...], values: Sequence[Tangent] | None) -> LinearBounds:
    """Linear bounds of the gradient (the Jacobian) on cells with these pre-activation bounds, and their `tangents`."""
    own = slope_bounds(problem.network, pre)
    if problem.whole_map:
        return map_bounds(problem.network, own, problem.norm, values)
    return linear_bounds(problem.network, own, problem.norm, problem.c, None, values)


def check_leaves(problem: Problem, cells: Sequence[Cell], bounds: Bounds, leaves: Sequence[Leaf]) -> Array:
    """What the leaves prove on their cells: arithmetic all at once, the others one by one.

    Of the whole map intervals alone prove nothing here: linear bounds are never above them by much.
    """
    uppers = np.full(len(leaves), np.inf)
    by_lines = np.array([leaf == BY_LINES for leaf in leaves])
    lines, rest = np.flatnonzero(by_lines), np.flatnonzero(~by_lines)
    if len(lines):
        uppers[lines] = line_bounds(problem, [cells[int(k)] for k in lines], bounds.rows(lines))[0]
    if len(rest) and not problem.whole_map:
        uppers[rest] = interval_uppers(problem.network, bounds.rows(rest), problem.norm, problem.c)
    for k, (cell, leaf) in enumerate(zip(cells, leaves, strict=True)):
        if isinstance(leaf, Empty):
            refused = leaf.shows(problem.network, cell, bounds.rows(np.array([k])), problem.region)
            uppers[k] = 0.0 if refused else uppers[k]
        elif isinstance(leaf, Multipliers):
            uppers[k] = best(float(uppers[k]), check_relaxed(problem, cell, bounds.of(k), leaf))
    return uppers
