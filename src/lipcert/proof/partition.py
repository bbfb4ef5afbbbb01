"""Certificates of constants on all cells of a partition: one file, no multipliers, everything is computed again.

edges, edge_counts   the grid, coordinate after coordinate
splits       of every node of the cover the coordinate of its split, or -1        values   of those that are split
claims       of every cell: of the grid's cells where `of_grid` is 1, else of the leaves

The boxes follow from edges and splits (`cover`), so that a cell cannot be missing or lie elsewhere. A cell of the grid
has the largest of its leaves' bounds. `bounded_boxes` bounds many boxes at once, for the search and for the checker:
linear bounds on each, and the signs that its halves inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import slope_bounds, vertex_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.linear import LinearBounds, norm_bounds
from lipcert.bounds.propagation import box_bounds
from lipcert.bounds.substitution import tangents
from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import one_whole, real
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import output_of
from lipcert.problem.problem import Problem
from lipcert.problem.question import EveryCell, LargestNorm, Question
from lipcert.problem.region import Box
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.cells import Cells, Index, Signs, batch_size, found_signs, halves, known_values, sign_columns
from lipcert.proof.certificate import CheckedBounds, NetworkCertificate
from lipcert.proof.cost import cell_seconds
from lipcert.proof.leaves import gradient_lines
from lipcert.proof.tree import Tree, read_tree, walk
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class BoxQuestion:
    """The question that all boxes share: a network, the region that they are parts of, a norm, an output, weights.

    "The ordinary question" is the one without weights that `frame` makes of it (`problem`).
    """

    network: Network
    region: Box
    norm: Norm
    c: Array
    frame: Frame | None = None

    @cached_property
    def problem(self) -> Problem:
        """The ordinary question on the whole region."""
        if self.frame is None:
            return Problem(self.network, self.region, self.norm, output_of(self.c))
        return self.frame.problem(self.network, self.region, self.norm, self.c)

    def places(self, lo: Array, hi: Array) -> Interval:
        """Boxes of the region as boxes of the ordinary question."""
        return Interval(lo, hi) if self.frame is None else Interval(*self.frame.places(lo, hi))

    @property
    def columns(self) -> int:
        """How many signs a box carries."""
        return sign_columns(self.problem.network)

    @property
    def batch(self) -> int:
        """How many boxes are bounded at once."""
        return batch_size(self.problem.network)

    def unknown(self, count: int) -> Signs:
        """Signs for so many boxes of which nothing is known: all zero."""
        return np.zeros((count, self.columns), dtype=np.int8)


BoundBoxes = Callable[[BoxQuestion, Interval, Signs, Index], tuple[Signs, Array]]


def preactivations_on(question: BoxQuestion, boxes: Interval, signs: Signs) -> tuple[tuple[Interval, ...], Signs]:
    """Pre-activation bounds of boxes of the ordinary question, and their signs; `signs` hold on the boxes already."""
    net = question.problem.network
    with np.errstate(all="ignore"):
        pre = box_bounds(net, boxes, known_values(net, signs, len(boxes.lo)))
    return pre, found_signs(net, pre, signs)


def lines_on(question: BoxQuestion, boxes: Interval, pre: tuple[Interval, ...]) -> tuple[Array, LinearBounds]:
    """Proved upper bounds on these boxes, and the linear bounds of the gradient, which hint where to split."""
    with np.errstate(all="ignore"):
        linear = gradient_lines(question.problem, pre, tangents(question.problem.network, boxes, pre))
    return _at_vertices(question.problem, pre, linear.upper), linear


def uppers_on(question: BoxQuestion, boxes: Interval, pre: tuple[Interval, ...]) -> Array:
    """Proved upper bounds on these boxes: those of `lines_on` without the hints, in less time."""
    problem = question.problem
    with np.errstate(all="ignore"):
        values = tangents(problem.network, boxes, pre)
        if problem.whole_map or values is not None:
            upper = gradient_lines(problem, pre, values).upper
        else:
            upper = norm_bounds(problem.network, slope_bounds(problem.network, pre), problem.norm, problem.c)
    return _at_vertices(problem, pre, upper)


def bounded_boxes(question: BoxQuestion, boxes: Interval, signs: Signs, leaves: Index) -> tuple[Signs, Array]:
    """The signs of all these boxes, and proved upper bounds on some: `leaves` are the numbers of these boxes."""
    pre, found = preactivations_on(question, boxes, signs)
    if not len(leaves):
        return found, np.zeros(0)
    return found, uppers_on(question, boxes.rows(leaves), tuple(z.rows(leaves) for z in pre))


def _at_vertices(problem: Problem, pre: tuple[Interval, ...], upper: Array) -> Array:
    """The smaller bound of each box: `upper`, or the norm at the ends of its open slopes if these are few."""
    ends = vertex_bounds(problem.network, slope_bounds(problem.network, pre), problem.norm, problem.c)
    return np.fmin(np.where(np.isnan(upper), np.inf, upper), ends)


@dataclass(frozen=True, eq=False)
class PartitionCertificate(NetworkCertificate):
    """On every cell of a box the constant is at most its claim. Infinite claims say nothing.

    `question` is the one about the box as a whole. There is a claim for every cell of the grid, or for every leaf.
    """

    kind: ClassVar[str] = "cells"

    question: Question
    cover: Tree
    of_grid: bool
    claims: Array

    def __repr__(self) -> str:
        return f"PartitionCertificate({self.claims.size:,} cells, {self.region!r})"

    @property
    def region(self) -> Box:
        """The box."""
        region = self.question.region
        assert isinstance(region, Box)
        return region

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        places = {name: value for name, value in self._places().items() if value.size}
        return replace(self.question, objective=EveryCell(self.claims.size, places))

    @property
    def method(self) -> str:
        """Cells are bounded by linear forms."""
        return "linear"

    @property
    def claimed(self) -> Interval:
        """The claims of all cells."""
        return Interval(np.full(len(self.claims), -np.inf), self.claims)

    def _places(self) -> dict[str, NDArray[Any]]:
        """The arrays that say where the cells are."""
        return {**self.cover.arrays(), "of_grid": np.array(int(self.of_grid))}

    def content(self) -> dict[str, NDArray[Any]]:
        """The cells, and a claim for each."""
        return {**self._places(), "claims": self.claims}

    def cost(self, net: Network) -> tuple[float, str]:
        """The seconds that the check is expected to take, and a phrase that says what makes it long."""
        nodes = len(self.cover.where)
        return nodes * cell_seconds(net), f"{nodes:,} cells and their halves"

    def refused(self, net: Network) -> str | None:
        """Why it proves nothing about this network: another question, cells that leave gaps, claims of other cells."""
        if self.cover.grid is None or self.cover.leaves is not None:
            return "the cells are not those of a grid"
        fault = self.question.unfit(net) or self.cover.fault(net, self.region)
        if fault is not None:
            return fault
        expected = self.cover.roots if self.of_grid else self.cover.count
        return None if len(self.claims) == expected else "there is not one claim for every cell"

    def check(self, net: Network) -> CheckedBounds:
        """Compute the bound of every cell again; nothing that the file says is believed."""
        question = BoxQuestion(net, self.region, self.question.norm, self.question.c, self.question.frame)
        try:
            return CheckedBounds.from_uppers(cover_uppers(question, self.cover, self.of_grid))
        except InputError as error:  # rows that overflow
            return self._no_bounds(str(error))

    def check_with_balls(self, net: Network, balls: Any) -> CheckedBounds:
        """Compute the bound of every cell again in ball arithmetic."""
        return CheckedBounds.from_uppers(balls.cells_with_balls(self, net))

    @property
    def checked(self) -> str:
        """The part of the proof that ball arithmetic checks, in words."""
        return "pre-activation bounds and linear bounds of the gradient on every cell"

    def unproved(self, found: CheckedBounds, who: str) -> str | None:
        """Why the claims do not follow, in words."""
        failed, by = int(self.wrong(found).sum()), " by ball arithmetic" * (who != self.method)
        return f"{failed:,} of {len(self.claims):,} cells: the claim is not proved{by}" if failed else None


def cover_uppers(question: BoxQuestion, cover: Tree, of_grid: bool, bounded: BoundBoxes = bounded_boxes) -> Array:
    """The proved bound of every leaf, or of every cell of the grid; signs pass from a box to its halves.

    `bounded` is the function that bounds boxes: it decides in which arithmetic. A leaf that the walk
    does not reach has an infinite bound, also where the caller did not look for faults first.
    """
    grid = cover.grid
    assert grid is not None
    count = cover.roots if of_grid else cover.count
    if not question.problem.network.depth:
        return np.full(count, prove_linear(question.problem).upper)
    found = np.full(count, -np.inf)
    place = cover.root if of_grid else cover.leaf_numbers

    def visit(nodes: Index, cells: Cells) -> Cells:
        boxes = question.places(cells.lo, cells.hi)
        k = np.flatnonzero(cover.where[nodes] < 0)
        signs, uppers = bounded(question, boxes, cells.signs, k)
        np.maximum.at(found, place[nodes[k]], uppers)
        return Cells(cells.lo, cells.hi, signs)

    fits = walk(cover, grid.groups(question.batch, question.columns), visit, halves, question.batch // 2)
    return np.where(found == -np.inf, np.inf, found) if fits else np.full(count, np.inf)


def read_cells(arrays: Mapping[str, Any]) -> PartitionCertificate:
    """The certificate of a file."""
    question, claims = Question.read(arrays, LargestNorm()), real(arrays, "claims", (None,), 0.0, np.inf)
    if not isinstance(question.region, Box):
        raise FileFormatError("cells are cells of a box, and the file has none")
    return PartitionCertificate(question, read_tree(arrays), bool(one_whole(arrays, "of_grid", 0, 1)), claims)
