"""Certificates of the entries of a Jacobian: one file for all of them, no multipliers, everything is computed again.

splits       of every cell where it is split, or -1 (`splits`)        values   of those that are split at a coordinate
lower, upper                        what is claimed of every entry on the region
points       inputs of the region   seen_least, seen_most    what is claimed to be seen at one of them,
least_at, most_at                   which one, of every entry; -1 for none

The cells follow from the splits, so that none can be missing or lie elsewhere.

The search and the checker walk the same way from a cell to its halves (`bounded`, `enclosure`). A half inherits the
signs that are known and the enclosures of all entries; entries that are narrow enough already are not bounded again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell
from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import entries_at, entry_bounds
from lipcert.bounds.linear import LinearBounds
from lipcert.bounds.propagation import bounds_of, box_bounds
from lipcert.bounds.substitution import tangents
from lipcert.files.numbers import real, whole
from lipcert.problem.network import Network
from lipcert.problem.question import EveryEntry, Question, read_entries
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
from lipcert.proof.certificate import CheckedBounds, Mask, NetworkCertificate
from lipcert.proof.cost import cell_seconds
from lipcert.proof.tree import Tree, read_tree, walk
from lipcert.proof.verification import Verification
from lipcert.rounding import Array
from lipcert.steps import step

# Maps cells, scores and entries to the weight of each entry, which has a sign.
Worth = Callable[[Index, Index, Interval], Array]
ENDS = ("lower", "upper", "seen_least", "seen_most")
PLACES = ("least_at", "most_at")
_ROOM = 1e-9  # room of a claim, relative to its larger end, for the order in which another BLAS adds
_POINTS = 256  # points that are evaluated together


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


@dataclass(frozen=True, eq=False)
class JacobianCertificate(NetworkCertificate):
    """Every entry d score / d input lies in [lower, upper] on the region; next to points[least_at] it is at most
    seen_least, next to points[most_at] at least seen_most."""

    kind: ClassVar[str] = "jacobian"

    question: Question  # its objective is `EveryEntry`
    splits: Tree
    claims: Interval
    points: Array
    seen: Interval
    at: tuple[Index, Index]

    def __repr__(self) -> str:
        return f"JacobianCertificate({self.scores.size:,} by {self.inputs.size:,} entries, {self.region!r})"

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return self.question

    @property
    def entries(self) -> EveryEntry:
        """Which entries it is about."""
        assert isinstance(self.question.objective, EveryEntry)
        return self.question.objective

    @property
    def scores(self) -> Index:
        """The numbers of the scores."""
        return self.entries.scores

    @property
    def inputs(self) -> Index:
        """The numbers of the inputs."""
        return self.entries.inputs

    @property
    def region(self) -> Region:
        """The region on which the claims hold."""
        return self.question.region

    @property
    def claimed(self) -> Interval:
        """The claims about all entries."""
        return self.claims

    def content(self) -> dict[str, NDArray[Any]]:
        """The cells, the claims, and the points where values are seen."""
        return {
            **self.splits.arrays(),
            "points": self.points,
            **dict(zip(ENDS, (*self.claims, *self.seen), strict=True)),
            **dict(zip(PLACES, self.at, strict=True)),
        }

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many cells and points the proof has."""
        return {"cells": self.splits.count, "points": len(self.points)}

    def cost(self, net: Network) -> tuple[float, str]:
        """The seconds that the check is expected to take, and a phrase that says what makes it long."""
        nodes = len(self.splits.where) * len(self.scores)
        return nodes * cell_seconds(net), f"{self.splits.count:,} cells, {len(self.scores):,} scores"

    def refused(self, net: Network) -> str | None:
        """Why it proves nothing about this network: another question, cells that leave gaps, points elsewhere."""
        unfit = self.question.unfit(net)
        if unfit is not None:
            return unfit
        if len(self.points) > 2 * self.claims.lo.size:
            return "the certificate has more points than its entries name"
        outside = len(self.points) and not self.region.contains(self.points)
        if self.points.shape[1] != net.inputs or outside:
            return "a point of the certificate is not in the region"
        tree = self.splits
        if tree.grid is not None or tree.leaves is not None:
            return "the splits are those of another kind of certificate"
        if not isinstance(self.region, Box) and np.any((tree.where >= 0) & (tree.where < net.inputs)):
            return "a split of a coordinate, but the region is no box"
        return tree.fault(net, self.region)

    def check(self, net: Network) -> CheckedBounds:
        """Compute the enclosure of every entry again, and find the claimed values that are not seen at their points."""
        found = enclosure(EntryQuestion(net, self.region, self.scores, self.inputs), self.splits, self.claims)
        if found is None:
            return self._no_bounds("a split that is not inside its cell")
        return CheckedBounds(found, unseen=self.unseen(lambda points: entries_at(net, points, self.scores)))

    def check_with_balls(self, net: Network, balls: Any) -> CheckedBounds:
        """Do what `check` does in ball arithmetic."""
        found: CheckedBounds = balls.entries_with_balls(self, net)
        return found

    @property
    def checked(self) -> str:
        """The part of the proof that ball arithmetic checks, in words."""
        return "pre-activation bounds and every entry on every cell, and the values at all points"

    def unseen(self, entries: Callable[[Array], Interval]) -> Mask:
        """Which entries have a claim of a value at a point that is not there; `entries` encloses all entries of some
        points. An entry without a point claims nothing."""
        missing = np.zeros(self.claims.lo.shape, dtype=bool)
        ends = ((self.at[0], self.seen.lo, np.inf), (self.at[1], self.seen.hi, -np.inf))
        for at, value, none in ends:
            missing |= (at < 0) & (value != none)
        for start in range(0, len(self.points), _POINTS):
            step()
            g = entries(self.points[start : start + _POINTS])
            for (at, value, _), end, sign in zip(ends, (g.hi, g.lo), (-1.0, 1.0), strict=True):
                row, column = np.nonzero((at >= start) & (at < start + _POINTS))
                own = end[at[row, column] - start, row, self.inputs[column]]
                missing[row, column] |= ~(sign * own >= sign * value[row, column])
        return missing

    def wrong(self, found: CheckedBounds) -> Mask:
        """Which claims do not follow; a claim without an end on either side claims nothing."""
        return super().wrong(found) | ~np.isfinite(self.claims.lo)

    def unproved(self, found: CheckedBounds, who: str) -> str | None:
        """Why the claims do not follow, in words."""
        by = " by ball arithmetic" * (who != "it")
        wrong, unseen = self.wrong(CheckedBounds(found.bounds)), found.unseen
        if wrong.any():
            return f"{int(wrong.sum()):,} of {wrong.size:,} entries: the claimed bounds are not proved{by}"
        if unseen is not None and unseen.any():
            return f"{int(unseen.sum()):,} of {wrong.size:,} entries: the claimed values are not seen there"
        return None

    def verify(self, subject: Network, exact: bool = False) -> Verification:
        """Check the proof about this network; with `exact` in ball arithmetic as well."""
        return replace(super().verify(subject, exact), seen=self.seen)

    def largest(self, bounds: Interval) -> float:
        """The largest magnitude of an entry."""
        return float(bounds.magnitude.max(initial=0.0))


def with_room(entries: Interval) -> Interval:
    """The claims that a file makes of these enclosures: a little wider, but every sign stays what it is."""
    size = _ROOM * np.where(np.isfinite(entries.magnitude), entries.magnitude, 0.0)
    low, high = np.nextafter(entries.lo - size, -np.inf), np.nextafter(entries.hi + size, np.inf)
    return Interval(_signed(low, entries.lo), _signed(high, entries.hi))


def without_room(claims: Interval) -> Interval:
    """Roughly the inverse of `with_room`, a little narrower than the entries that the file was made of."""
    size = 2 * _ROOM * np.where(np.isfinite(claims.magnitude), claims.magnitude, 0.0)
    return Interval(claims.lo + size, claims.hi - size)


def seen_with_room(seen: Interval) -> Interval:
    """The values that a file claims to be seen: a little less than those that were."""
    size = _ROOM * np.where(np.isfinite(seen.magnitude), seen.magnitude, 0.0)
    return Interval(_signed(seen.lo + size, seen.lo), _signed(seen.hi - size, seen.hi))


def _signed(moved: Array, value: Array) -> Array:
    """The moved numbers; a number that would change its sign is halved instead, and a zero stays zero."""
    return np.where(np.sign(moved) == np.sign(value), moved, np.where(value == 0, 0.0, value / 2))


def read_jacobian(arrays: Mapping[str, Any]) -> JacobianCertificate:
    """The certificate of a file."""
    every = read_entries(arrays)
    shape, points = (len(every.scores), len(every.inputs)), real(arrays, "points", (None, None))
    lower, upper, least, most = (real(arrays, name, shape, -np.inf, np.inf) for name in ENDS)
    least_at, most_at = (whole(arrays, name, shape, -1, len(points) - 1) for name in PLACES)  # -1: at no point
    ends = (Interval(lower, upper), points, Interval(least, most))
    return JacobianCertificate(Question.read(arrays, every), read_tree(arrays), *ends, (least_at, most_at))
