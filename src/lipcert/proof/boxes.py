"""The constant on many boxes at once: what linear bounds prove of each, and the signs that its halves inherit.

A neuron whose sign is known on a box has that sign on every part of it. So the walk from a box to its halves carries
one small number per neuron, and linear forms are made of the open neurons alone. Whoever checks a proof walks the same
way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
from lipcert.proof.leaves import gradient_lines
from lipcert.rounding import Array

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # (boxes, neurons): 1 where z >= 0, -1 where z <= 0, 0 where nothing is known

INHERITED_UP_TO = 4096  # neurons: larger networks carry nothing, memory would be full of signs
_NUMBERS = 1 << 22  # in one array of what is known of the neurons of a batch of boxes


@dataclass(frozen=True, eq=False)
class Asked:
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
        count = self.problem.network.neurons
        return count if count <= INHERITED_UP_TO else 0

    @property
    def batch(self) -> int:
        """How many boxes are bounded at once."""
        return max(1, min(4096, _NUMBERS // max(self.problem.network.neurons, self.problem.network.inputs, 1)))

    def unknown(self, count: int) -> Signs:
        """The signs of boxes of which nothing is known."""
        return np.zeros((count, self.columns), dtype=np.int8)


BoundBoxes = Callable[[Asked, Interval, Signs, Index], tuple[Signs, Array]]


def preactivations_on(asked: Asked, boxes: Interval, signs: Signs) -> tuple[tuple[Interval, ...], Signs]:
    """Pre-activation bounds of boxes of the ordinary question, and their signs; `signs` hold on the boxes already."""
    net = asked.problem.network
    with np.errstate(all="ignore"):
        pre = box_bounds(net, boxes, known_by(net, signs, len(boxes.lo)))
    return pre, signs_of(net, pre, asked.columns)


def lines_on(asked: Asked, boxes: Interval, pre: tuple[Interval, ...]) -> tuple[Array, LinearBounds]:
    """The proved uppers of these boxes, and all that linear bounds of the gradient say: hints where to split."""
    with np.errstate(all="ignore"):
        linear = gradient_lines(asked.problem, pre, tangents(asked.problem.network, boxes, pre))
    return _at_vertices(asked.problem, pre, linear.upper), linear


def uppers_on(asked: Asked, boxes: Interval, pre: tuple[Interval, ...]) -> Array:
    """The proved uppers alone, in less time."""
    problem = asked.problem
    with np.errstate(all="ignore"):
        values = tangents(problem.network, boxes, pre)
        if problem.whole_map or values is not None:
            upper = gradient_lines(problem, pre, values).upper
        else:
            upper = norm_bounds(problem.network, slope_bounds(problem.network, pre), problem.norm, problem.c)
    return _at_vertices(problem, pre, upper)


def bounded_boxes(asked: Asked, boxes: Interval, signs: Signs, leaves: Index) -> tuple[Signs, Array]:
    """The signs that boxes of the ordinary question show, and the proved uppers of some of them (their numbers)."""
    pre, found = preactivations_on(asked, boxes, signs)
    if not len(leaves):
        return found, np.zeros(0)
    return found, uppers_on(asked, boxes.rows(leaves), tuple(z.rows(leaves) for z in pre))


def _at_vertices(problem: Problem, pre: tuple[Interval, ...], upper: Array) -> Array:
    """The least of linear bounds and those at the ends of few open slopes."""
    ends = vertex_bounds(problem.network, slope_bounds(problem.network, pre), problem.norm, problem.c)
    return np.fmin(np.where(np.isnan(upper), np.inf, upper), ends)


def known_by(net: Network, signs: Signs, count: int) -> tuple[Interval, ...]:
    """The pre-activation bounds that these signs say, block by block."""
    known, start = [], 0
    for block in net.hidden:
        own = signs[:, start : start + block.width]
        if not own.shape[1]:
            own = np.zeros((count, block.width), dtype=np.int8)
        known.append(Interval(np.where(own > 0, 0.0, -np.inf), np.where(own < 0, 0.0, np.inf)))
        start += block.width
    return tuple(known)


def signs_of(net: Network, pre: tuple[Interval, ...], columns: int) -> Signs:
    """The signs of neurons with a kink that these bounds show; the signs of other neurons say nothing."""
    if not columns:
        return np.zeros((len(pre[0].lo) if pre else 0, 0), dtype=np.int8)
    found = [
        ((z.lo >= 0).astype(np.int8) - (z.hi <= 0).astype(np.int8)) * np.int8(f.kinked)
        for z, f in zip(pre, net.activations, strict=True)
    ]
    return np.concatenate(found, axis=1)
