"""How a leaf of a tree is closed, and what that proves.

    LINES       linear bounds of the gradient on the cell
    INTERVALS   intervals of the gradient on the cell
    RELAXED     multipliers of a relaxation on the cell
    EMPTY       the cell has no points or no interior: multiples of its half-spaces, or rows that cancel, show it
    SIGNS       linear bounds of the gradient on the whole region, with the slopes that the signs on the path name
    NOGOOD      no input, or no set of inputs with interior, has the signs on the path: they contain the literals of a
                nogood that is proved (`nogoods`)

On a path of signs almost every input has the slopes that the signs name (`bounds.cell`): 1 where z >= 0, 0 where
z <= 0. So leaves of the last two kinds need no pre-activation bounds of their own, and many are bounded in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import (
    Bounds,
    Cell,
    Interval,
    Split,
    halves,
    interval_uppers,
    linear_bounds,
    proves_empty,
    root_bounds,
    slope_bounds,
    slopes,
    splits_here,
    tree_bounds,
)
from lipcert.bounds.jacobian import map_bounds
from lipcert.bounds.linear import LinearBounds, norm_bounds
from lipcert.bounds.substitution import Tangent, tangents
from lipcert.errors import FileFormatError, MethodError
from lipcert.files.numbers import LARGEST_WHOLE, whole
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere, Region, hull, sides_of
from lipcert.proof import encoding
from lipcert.proof.arithmetic import INTERVAL, LINEAR, Arithmetic
from lipcert.proof.interior import has_interior, known_signs, no_interior, no_interior_unbounded, row_count
from lipcert.proof.multipliers import Multipliers, prove_multipliers
from lipcert.proof.nogoods import Nogoods, Signs, System, no_nogoods, read_nogoods
from lipcert.relaxation.model import Index, Relaxation
from lipcert.relaxation.specification import Specification
from lipcert.rounding import Array, best

SIDES = "half-spaces"  # the name of an empty cell's multipliers, one for every neuron and then for the region's
COEFFICIENTS, BASIS = "coefficients", "basis"  # the same on the whole space (`proof.interior`)
ROWS = "rows"  # a cell of a bounded region has no interior (`proof.interior`)


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
            return no_interior_unbounded(net, bounds.pre, c, basis.astype(np.int64))
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


Leaf = Arithmetic | Empty | Multipliers  # a leaf that is bounded on its cell
BY_INTERVALS, BY_LINES = INTERVAL, LINEAR

NAMES = "leaf_kinds|leaf_nogoods|nogood_literals|nogood_rows|nogood_numbers"


class Kind(IntEnum):
    """How a leaf is closed, as files number it."""

    INTERVALS = 0
    EMPTY = 1
    RELAXED = 2
    LINES = 3
    SIGNS = 4
    NOGOOD = 5


@dataclass(frozen=True, eq=False)
class Leaves:
    """The table of leaves, in the order of a tree's nodes: the kind of each, the proofs of those that are empty or
    relaxed, and the numbers of the nogoods of those that a nogood closes."""

    kinds: Index
    proofs: tuple[Empty | Multipliers, ...] = ()
    refused: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    nogoods: Nogoods = field(default_factory=no_nogoods)

    @classmethod
    def of(cls, leaves: Sequence[Leaf]) -> Leaves:
        """Leaves that are bounded on their cells."""
        proofs = tuple(leaf for leaf in leaves if not isinstance(leaf, Arithmetic))
        return cls(np.array([_kind(leaf) for leaf in leaves], dtype=np.int64), proofs)

    @classmethod
    def under_signs(cls, nogood: Index, nogoods: Nogoods) -> Leaves:
        """Leaves by the signs on their paths: each with the number of the nogood that closes it, -1 for none."""
        refused = nogood >= 0
        return cls(np.where(refused, Kind.NOGOOD, Kind.SIGNS).astype(np.int64), (), nogood[refused], nogoods)

    def __len__(self) -> int:
        return len(self.kinds)

    @cached_property
    def over_signs(self) -> NDArray[np.bool_]:
        """Which leaves need nothing but the signs on their path."""
        return np.asarray(self.kinds >= Kind.SIGNS)

    @cached_property
    def _place(self) -> Index:
        """The number among the proofs of every leaf that has one."""
        return np.asarray(np.cumsum(_has_proof(self.kinds)) - 1, dtype=np.int64)

    def leaf(self, k: int) -> Leaf:
        """A leaf that is bounded on its cell."""
        kind = int(self.kinds[k])
        if kind in (Kind.EMPTY, Kind.RELAXED):
            return self.proofs[int(self._place[k])]
        return BY_LINES if kind == Kind.LINES else BY_INTERVALS

    def in_order(self, order: Index) -> Leaves:
        """The same leaves in another order."""
        number = np.cumsum(self.kinds == Kind.NOGOOD) - 1
        proofs = tuple(self.proofs[k] for k in self._place[order[_has_proof(self.kinds[order])]])
        refused = self.refused[number[order[self.kinds[order] == Kind.NOGOOD]]]
        return Leaves(self.kinds[order], proofs, refused, self.nogoods)

    def fits(self, problem: Problem, count: int) -> bool:
        """Whether the table has so many leaves, and the neurons, rows and nogoods that it names exist."""
        net, cut = problem.network, sides_of(problem.region)
        named = int(np.sum(self.kinds == Kind.NOGOOD))
        if len(self) != count or named != len(self.refused) or np.sum(_has_proof(self.kinds)) != len(self.proofs):
            return False
        if not np.all((self.kinds >= Kind.INTERVALS) & (self.kinds <= Kind.NOGOOD)):
            return False
        if not np.all((self.refused >= 0) & (self.refused < self.nogoods.count)):
            return False
        cuts = 0 if cut is None else cut.count
        return self.nogoods.fits(net.neurons, cuts, row_count(net, problem.region)) if named else True

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of a file; tables that no leaf needs are left out."""
        found: dict[str, NDArray[np.generic]] = {"leaf_kinds": self.kinds.astype(np.int8)}
        if self.proofs:
            specifications = [p.specification if isinstance(p, Multipliers) else None for p in self.proofs]
            found |= encoding.encode_specifications(specifications) | encoding.encode_numbers(self.proofs)
        if len(self.refused):
            found |= {"leaf_nogoods": self.refused} | self.nogoods.arrays()
        return found


def _has_proof(kinds: Index) -> NDArray[np.bool_]:
    return np.asarray((kinds == Kind.EMPTY) | (kinds == Kind.RELAXED))


def _kind(leaf: Leaf) -> Kind:
    if isinstance(leaf, Arithmetic):
        return Kind.LINES if leaf == BY_LINES else Kind.INTERVALS
    return Kind.EMPTY if isinstance(leaf, Empty) else Kind.RELAXED


def read_leaves(arrays: Mapping[str, Any]) -> Leaves:
    """The table of leaves of a file."""
    kinds = whole(arrays, "leaf_kinds", (None,), Kind.INTERVALS, Kind.NOGOOD)
    encoding.check_count(len(kinds))
    proofs = read_proofs(arrays, kinds) if np.any(_has_proof(kinds)) else ()
    count = int(np.sum(kinds == Kind.NOGOOD))
    if not count:
        return Leaves(kinds, proofs)
    refused = whole(arrays, "leaf_nogoods", (count,), 0, LARGEST_WHOLE)
    return Leaves(kinds, proofs, refused, read_nogoods(arrays, refused, len(kinds)))


def read_proofs(arrays: Mapping[str, Any], kinds: Index) -> tuple[Empty | Multipliers, ...]:
    """The proofs of the leaves of these kinds that have one: a proof in the file for each of these leaves, or for each
    leaf. A leaf without what its kind needs is refused: a small file could have thousands of them, each slow to build.
    """
    own = np.flatnonzero(_has_proof(kinds))
    specifications = encoding.decode_specifications(arrays, "tight")
    if len(specifications) not in (len(own), len(kinds)):
        raise FileFormatError("the leaves of the tree and their proofs do not fit together")
    every = len(specifications) == len(kinds)
    numbers = encoding.decode_numbers(arrays, len(specifications))
    found: list[Empty | Multipliers] = []
    for kind, k in zip(kinds[own], own.tolist() if every else range(len(own)), strict=True):
        specification, both = specifications[k], numbers[k]
        names = both[0].keys()
        if kind == Kind.EMPTY:
            if not (names & {SIDES, ROWS} or {COEFFICIENTS, BASIS} <= names):
                raise FileFormatError("a leaf of the tree is said to be empty, but has no multipliers that show it")
            found.append(Empty(*both))
        elif specification is None or not any(np.any(y) for y in both[0].values()):
            raise FileFormatError("a leaf of the tree is said to be proved by a relaxation, but has no multipliers")
        else:
            found.append(Multipliers(specification, *both))
    return tuple(found)


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
    """The bound proved on every cell, zero on empty ones, and the linear bounds of the gradient that prove it."""
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
    """The bounds that leaves prove on their cells: those by arithmetic all at once, the others one by one.

    For the whole map intervals alone prove nothing here: linear bounds are never above them by much.
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


@dataclass(frozen=True, eq=False)
class Group:
    """Some cells of a walk with their pre-activation bounds."""

    cells: list[Cell]
    bounds: Bounds

    @classmethod
    def first(cls, problem: Problem) -> Group:
        """The cell that a tree begins with."""
        cell, bounds = root_bounds(problem)
        return cls([cell], bounds)

    def rows(self, k: Index) -> Group:
        """Some of the cells."""
        return Group([self.cells[int(i)] for i in k], self.bounds.rows(k))


def halved(problem: Problem) -> Callable[[Group, Index, Array], Group | None]:
    """The function that halves cells of a problem's region; it gives None where a split does not fit its cell."""
    net = problem.network

    def halve(group: Group, where: Index, value: Array) -> Group | None:
        both = cell_halves(net, group.cells, where, value)
        if both is None:
            return None
        twice = np.repeat(np.arange(len(where)), 2)
        known = tuple(z.rows(twice) for z in group.bounds.pre)
        return Group(both, tree_bounds(net, problem.region, both, known))

    return halve


def cell_halves(net: Network, cells: Sequence[Cell], where: Index, value: Array) -> list[Cell] | None:
    """Both halves of every cell, below first; None where a split does not fit its cell."""
    found: list[Cell] = []
    for cell, number, middle in zip(cells, where.tolist(), value.tolist(), strict=True):
        split = split_at(net, number, middle)
        if not splits_here(cell, split, net):
            return None
        found += halves(cell, split)
    return found


def split_at(net: Network, where: int, value: float = 0.0) -> Split:
    """The split that a tree writes as this number: a coordinate, or behind all of these a neuron."""
    layer, index = 0, where
    for width in net.shape[:-1]:
        if index < width:
            break
        layer, index = layer + 1, index - width
    return Split(layer, index, 0.0 if layer else value)


def number_of(net: Network, split: Split) -> int:
    """The number by which a tree writes a split."""
    return split.index + sum(net.shape[: split.layer])


def leaf_bounds(problem: Problem, neurons: Index, signs: Signs) -> Array:
    """Proved bounds on the inputs with these signs of some neurons, a row for each set of inputs."""
    if problem.whole_map:
        return whole_leaf_bounds(problem, neurons, signs).upper
    return norm_bounds(problem.network, leaf_slopes(problem, neurons, signs), problem.norm, problem.c)


def whole_leaf_bounds(problem: Problem, neurons: Index, signs: Signs) -> LinearBounds:
    """Linear bounds of the whole map on the inputs with these signs, a row for each set of inputs."""
    return map_bounds(problem.network, leaf_slopes(problem, neurons, signs), problem.norm)


def leaf_slopes(problem: Problem, neurons: Index, signs: Signs) -> tuple[Interval, ...]:
    """The slopes on the region, and under the signs those that they name; block by block, a row for each leaf."""
    found = slopes(problem)
    lo, hi = (np.tile(np.concatenate([s[k] for s in found]), (len(signs), 1)) for k in (0, 1))
    lo[:, neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, lo[:, neurons]))
    hi[:, neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, hi[:, neurons]))
    ends = np.cumsum([len(s.lo) for s in found])[:-1]
    return tuple(Interval(*pair) for pair in zip(np.split(lo, ends, axis=1), np.split(hi, ends, axis=1), strict=True))


def proved_nogoods(problem: Problem, leaves: Leaves, wanted: Index) -> NDArray[np.bool_]:
    """Which nogoods are proved, of those that are wanted."""
    system = System.of(problem)
    return np.zeros(leaves.nogoods.count, dtype=bool) if system is None else leaves.nogoods.proved(system, wanted)
