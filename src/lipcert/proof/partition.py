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
from lipcert.proof.certificate import Found, NetworkCertificate
from lipcert.proof.cost import cell_seconds
from lipcert.proof.leaves import gradient_lines
from lipcert.proof.tree import Tree, read_tree, walk
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class BoxQuestion:
    """The question that all boxes share: a network, a region that they are parts of, a norm, an output, weights."""

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
        """The signs of boxes of which nothing is known."""
        return np.zeros((count, self.columns), dtype=np.int8)


BoundBoxes = Callable[[BoxQuestion, Interval, Signs, Index], tuple[Signs, Array]]


def preactivations_on(asked: BoxQuestion, boxes: Interval, signs: Signs) -> tuple[tuple[Interval, ...], Signs]:
    """Pre-activation bounds of boxes of the ordinary question, and their signs; `signs` hold on the boxes already."""
    net = asked.problem.network
    with np.errstate(all="ignore"):
        pre = box_bounds(net, boxes, known_values(net, signs, len(boxes.lo)))
    return pre, found_signs(net, pre, signs)


def lines_on(asked: BoxQuestion, boxes: Interval, pre: tuple[Interval, ...]) -> tuple[Array, LinearBounds]:
    """The proved uppers of these boxes, and all that linear bounds of the gradient say: hints where to split."""
    with np.errstate(all="ignore"):
        linear = gradient_lines(asked.problem, pre, tangents(asked.problem.network, boxes, pre))
    return _at_vertices(asked.problem, pre, linear.upper), linear


def uppers_on(asked: BoxQuestion, boxes: Interval, pre: tuple[Interval, ...]) -> Array:
    """The proved uppers alone, in less time."""
    problem = asked.problem
    with np.errstate(all="ignore"):
        values = tangents(problem.network, boxes, pre)
        if problem.whole_map or values is not None:
            upper = gradient_lines(problem, pre, values).upper
        else:
            upper = norm_bounds(problem.network, slope_bounds(problem.network, pre), problem.norm, problem.c)
    return _at_vertices(problem, pre, upper)


def bounded_boxes(asked: BoxQuestion, boxes: Interval, signs: Signs, leaves: Index) -> tuple[Signs, Array]:
    """The signs that boxes of the ordinary question show, and the proved uppers of some of them (their numbers)."""
    pre, found = preactivations_on(asked, boxes, signs)
    if not len(leaves):
        return found, np.zeros(0)
    return found, uppers_on(asked, boxes.rows(leaves), tuple(z.rows(leaves) for z in pre))


def _at_vertices(problem: Problem, pre: tuple[Interval, ...], upper: Array) -> Array:
    """The least of linear bounds and those at the ends of few open slopes."""
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
        """Seconds that the check will take, and in words why."""
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

    def check(self, net: Network) -> Found:
        """What is proved of every cell, computed again; nothing that the file says is believed."""
        asked = BoxQuestion(net, self.region, self.question.norm, self.question.c, self.question.frame)
        try:
            return Found.below(cover_uppers(asked, self.cover, self.of_grid))
        except InputError as error:  # rows that overflow
            return self._nothing(str(error))

    def check_with_balls(self, net: Network, balls: Any) -> Found:
        """The same in ball arithmetic."""
        return Found.below(balls.cells_with_balls(self, net))

    @property
    def checked(self) -> str:
        """What ball arithmetic looks at, in words."""
        return "pre-activation bounds and linear bounds of the gradient on every cell"

    def unproved(self, found: Found, who: str) -> str | None:
        """Why the claims do not follow, in words."""
        failed, by = int(self.wrong(found).sum()), " by ball arithmetic" * (who != self.method)
        return f"{failed:,} of {len(self.claims):,} cells: the claim is not proved{by}" if failed else None


def cover_uppers(asked: BoxQuestion, cover: Tree, of_grid: bool, bounded: BoundBoxes = bounded_boxes) -> Array:
    """The proved bound of every leaf, or of every cell of the grid; signs pass from a box to its halves.

    `bounded` says in which arithmetic.
    A leaf that the walk does not reach has an infinite bound, also where the caller did not look for faults first.
    """
    grid = cover.grid
    assert grid is not None
    count = cover.roots if of_grid else cover.count
    if not asked.problem.network.depth:
        return np.full(count, prove_linear(asked.problem).upper)
    found = np.full(count, -np.inf)
    place = cover.root if of_grid else cover.leaf_numbers

    def visit(nodes: Index, cells: Cells) -> Cells:
        boxes = asked.places(cells.lo, cells.hi)
        k = np.flatnonzero(cover.where[nodes] < 0)
        signs, uppers = bounded(asked, boxes, cells.signs, k)
        np.maximum.at(found, place[nodes[k]], uppers)
        return Cells(cells.lo, cells.hi, signs)

    fits = walk(cover, grid.groups(asked.batch, asked.columns), visit, halves, asked.batch // 2)
    return np.where(found == -np.inf, np.inf, found) if fits else np.full(count, np.inf)


def read_cells(arrays: Mapping[str, Any]) -> PartitionCertificate:
    """The certificate of a file."""
    asked, claims = Question.read(arrays, LargestNorm()), real(arrays, "claims", (None,), 0.0, np.inf)
    if not isinstance(asked.region, Box):
        raise FileFormatError("cells are cells of a box, and the file has none")
    return PartitionCertificate(asked, read_tree(arrays), bool(one_whole(arrays, "of_grid", 0, 1)), claims)
