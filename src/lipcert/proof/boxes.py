"""Bounds of the constant on many boxes at once, by linear forms, and the signs that the halves of a box inherit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipcert.bounds.gradients import slope_bounds, vertex_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.linear import LinearBounds, norm_bounds
from lipcert.bounds.propagation import box_bounds
from lipcert.bounds.substitution import tangents
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import output_of
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.cells import Index, Signs, batch_size, found_signs, known_values, sign_columns
from lipcert.proof.leaves import gradient_lines
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
