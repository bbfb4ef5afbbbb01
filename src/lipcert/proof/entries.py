"""Enclosures of the entries of the Jacobian on the cells of a region, and from these on the whole region.

The search and the checker go the same way from a cell to its halves. A half inherits the signs that are
known, and the enclosures of all entries; entries that are narrow enough already are not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell
from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import entry_bounds
from lipcert.bounds.linear import LinearBounds
from lipcert.bounds.propagation import bounds_of, box_bounds
from lipcert.bounds.substitution import tangents
from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region, hull
from lipcert.proof.cells import (
    Cells,
    Index,
    Signs,
    batch_size,
    found_signs,
    halves,
    known_values,
    sign_columns,
)
from lipcert.proof.tree import Tree, walk
from lipcert.rounding import Array

Mask = NDArray[np.bool_]
Worth = Callable[[Index, Index, Interval], Array]  # of cells, scores, entries: how much each matters, with a sign


@dataclass(frozen=True, eq=False)
class EntryQuestion:
    """The question: which entries of the Jacobian of a network, scores by inputs, on which region."""

    network: Network
    region: Region
    scores: Index
    inputs: Index

    @property
    def shape(self) -> tuple[int, int]:
        """How many scores, and how many inputs."""
        return len(self.scores), len(self.inputs)

    @cached_property
    def batch(self) -> int:
        """How many cells are bounded at once."""
        return batch_size(self.network, len(self.scores) * self.network.inputs, 2048)

    def root(self) -> Cells:
        """The region as one cell without known signs."""
        n, box = self.network.inputs, hull(self.region)
        lo, hi = (np.full(n, -np.inf), np.full(n, np.inf)) if box is None else (box.lo, box.hi)
        return Cells(lo[None, :], hi[None, :], np.zeros((1, sign_columns(self.network)), dtype=np.int8))

    def anything(self, count: int) -> Interval:
        """Enclosures that say nothing: (cells, scores, inputs)."""
        shape = (count, *self.shape)
        return Interval(np.full(shape, -np.inf), np.full(shape, np.inf))


@dataclass(frozen=True, eq=False)
class Bounded:
    """The bounds of some cells: known signs, which cells are empty, enclosures of the entries, pre-activations.

    Entries of empty cells go from plus to minus infinity. `linear` has hints where to split, if they were asked for: a
    row for each pair of a cell (`place`) and a score.
    """

    signs: Signs
    empty: Mask
    entries: Interval
    pre: tuple[Interval, ...]
    place: Index
    linear: LinearBounds | None


def bounded(
    question: EntryQuestion, cells: Cells, known: Interval, wanted: Mask, worth: Worth | None = None
) -> Bounded:
    """Bound the entries that are wanted, (cells, scores, inputs), on some cells; `known` holds on them already.

    `worth` asks for hints: it is given rows with something that is wanted, each a cell and a score (their numbers here)
    with its entries.
    """
    net = question.network
    pre, signs, empty = preactivations_of(question, cells)
    wanted = wanted & ~empty[:, None, None]
    place, score = np.nonzero(wanted.any(axis=2))
    mask = np.zeros((len(place), net.inputs), dtype=bool)
    mask[:, question.inputs] = wanted[place, score]

    def spread(own: slice, found: Interval) -> Array:
        assert worth is not None
        matter = np.zeros(found.lo.shape)
        chosen = Interval(found.lo[:, question.inputs], found.hi[:, question.inputs])
        matter[:, question.inputs] = worth(place[own], score[own], chosen)
        return matter * mask[own]

    with np.errstate(all="ignore"):
        values = tangents(net, Interval(cells.lo, cells.hi), pre)
        rows = (place, question.scores[score], mask)
        hints = None if worth is None else spread
        found, linear = entry_bounds(net, slope_bounds(net, pre), rows, values, hints)
    lo, hi = known.lo.copy(), known.hi.copy()
    lo[place, score] = np.maximum(lo[place, score], found.lo[:, question.inputs])
    hi[place, score] = np.minimum(hi[place, score], found.hi[:, question.inputs])
    lo[empty], hi[empty] = np.inf, -np.inf
    return Bounded(signs, empty, Interval(lo, hi), pre, place, linear)


BoundCells = Callable[[EntryQuestion, Cells, Interval, Mask], Bounded]


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Cells with enclosures of the entries that hold on them."""

    cells: Cells
    entries: Interval

    def rows(self, k: Index) -> Enclosed:
        return Enclosed(self.cells.rows(k), self.entries.rows(k))


def enclosure(
    question: EntryQuestion, tree: Tree, claims: Interval, bound: BoundCells | None = None
) -> Interval | None:
    """Enclosures of the entries on the whole region, (scores, inputs); None where the splits do not fit.

    Entries that are within their claims on a cell are not bounded again on its halves. `bound` is the function that
    bounds cells: it decides in which arithmetic.
    """
    bound = bounded if bound is None else bound
    low, high = np.full(question.shape, np.inf), np.full(question.shape, -np.inf)

    def visit(nodes: Index, group: Enclosed) -> Enclosed:
        known = group.entries
        found = bound(question, group.cells, known, (known.lo < claims.lo) | (known.hi > claims.hi))
        leaf = tree.where[nodes] < 0
        np.minimum(low, found.entries.lo[leaf].min(axis=0, initial=np.inf), out=low)
        np.maximum(high, found.entries.hi[leaf].max(axis=0, initial=-np.inf), out=high)
        return Enclosed(Cells(group.cells.lo, group.cells.hi, found.signs), found.entries)

    fits = walk(tree, [(np.zeros(1, dtype=np.int64), root_of(question))], visit, halved, question.batch // 2 + 1)
    return Interval(low, high) if fits else None


def root_of(question: EntryQuestion) -> Enclosed:
    """The region as one cell, with enclosures that say nothing."""
    return Enclosed(question.root(), question.anything(1))


def halved(group: Enclosed, where: Index, value: Array) -> Enclosed | None:
    """Both halves of every cell, which inherit its enclosures; None where a split is not inside its cell."""
    both = halves(group.cells, where, value)
    return None if both is None else Enclosed(both, group.entries.rows(np.repeat(np.arange(len(where)), 2)))


def preactivations_of(question: EntryQuestion, cells: Cells) -> tuple[tuple[Interval, ...], Signs, Mask]:
    """Bounds of the pre-activations, the signs that they show, and which cells are empty."""
    net, count = question.network, len(cells)
    empty = np.zeros(count, dtype=bool)
    if not net.depth:
        return (), cells.signs, empty
    known = known_values(net, cells.signs, count)
    split = np.any(np.abs(cells.signs) == 2, axis=1)
    pre = tuple(Interval(np.empty((count, b.width)), np.empty((count, b.width))) for b in net.hidden)
    with np.errstate(all="ignore"):
        if len(plain := np.flatnonzero(~split)) and isinstance(question.region, Box):
            boxes = Interval(cells.lo[plain], cells.hi[plain])
            _put(pre, plain, box_bounds(net, boxes, tuple(z.rows(plain) for z in known)))
            rest = np.flatnonzero(split)
        else:
            rest = np.arange(count)
        if len(rest):
            some = [cell_of(question, cells, int(k)) for k in rest]
            bounds = bounds_of(net, some, tuple(z.rows(rest) for z in known))
            _put(pre, rest, bounds.pre)
            empty[rest] = bounds.empty
    return pre, found_signs(net, pre, cells.signs), empty


def _put(pre: tuple[Interval, ...], rows: Index, found: tuple[Interval, ...]) -> None:
    for own, new in zip(pre, found, strict=True):
        own.lo[rows], own.hi[rows] = new


def cell_of(question: EntryQuestion, cells: Cells, k: int) -> Cell:
    """One cell as the engine takes it: the signs of splits are half-spaces."""
    net = question.network
    own = np.sign(cells.signs[k]) * (np.abs(cells.signs[k]) == 2)
    if not own.size:
        own = np.zeros(net.neurons, dtype=np.int8)
    parts = np.split(own.astype(np.int8), np.cumsum([b.width for b in net.hidden])[:-1])
    region = Box.from_bounds(cells.lo[k], cells.hi[k]) if isinstance(question.region, Box) else question.region
    return Cell(region, tuple(parts))
