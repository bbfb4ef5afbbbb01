"""The derivative as an objective: at the input, at the scores, or both with the identities that tie them.

    t' g_0  =  sum_j (A_{m+1,j}'d)' y_j         the same number, seen at both ends

and neuron by neuron s q = g y = s y. A block that only the scores read, with given
weights, has no y: s'q stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.problem.problem import Problem
from lipcert.relaxation.ends import euclidean, source, weights
from lipcert.relaxation.layers import Layers
from lipcert.relaxation.model import Family, Space
from lipcert.relaxation.passes import Pass, directions, gradients, slope_times_constant, total
from lipcert.relaxation.switched import factors
from lipcert.relaxation.tracked import Tracked, affine, constants, product, stack
from lipcert.rounding import UNIT, Array, gamma, grow, sum_up


@dataclass(frozen=True, eq=False)
class Derivative:
    """The objective and what it may be off; `scale` as in `Finish`; the passes, and the rows that tie them."""

    objective: sparse.csr_array
    offset: float
    scale: float
    passes: tuple[Pass, ...]
    families: tuple[Family, ...] = ()


def derivative(problem: Problem, space: Space, layers: Layers, form: str, wide: bool) -> Derivative:
    """The objective of a lift of this form, the passes that it needs, and the rows that tie them."""
    net = problem.network
    t, d = source(problem, space), weights(problem, space)
    if form == "backward":
        down = gradients(net, space, layers, wide, d)
        return Derivative(*meets(space, t, down.ends[0]), (down,))
    assert t is not None
    up = directions(net, space, layers, wide, t)
    at_top = _at_scores(problem, space, layers, up)
    if form == "forward":
        return Derivative(*at_top, (up,))
    down = gradients(net, space, layers, wide, d)
    at_input, off_at_input = bilinear(t, down.ends[0])
    # Equal at true points, and in the relaxation too where every layer is tied: the mean serves layers that are not.
    mean = sparse.csr_array((at_input + at_top[0]) / 2)
    rounding = 4 * UNIT * float(abs(at_input).sum() + abs(at_top[0]).sum())
    off = sum_up(np.array([max(at_top[1], off_at_input), rounding]))
    return Derivative(mean, off, 0.0, (down, up), (*ties(down, up), *corners(space, down, up)))


def _at_scores(problem: Problem, space: Space, layers: Layers, up: Pass) -> tuple[sparse.csr_array, float, float]:
    """d'(what the directions do to the scores)."""
    scores = problem.network.scores
    if problem.whole_map:
        return meets(space, weights(problem, space), total(space, scores.terms, up.passed, scores.width))
    slopes: list[Tracked] = []
    moved: list[Tracked] = []
    for j, _ in scores.terms:
        if j not in up.passed:
            slopes.append(slope_times_constant(space, layers.hidden[j - 1]))
            moved.append(up.ends[j])
    linear = [term for term in scores.terms if term[0] in up.passed]
    if linear:
        slopes.append(constants(space, np.ones(1)))
        moved.append(affine(space, problem.c[None, :], total(space, linear, up.passed, scores.width)))
    return *bilinear(stack(slopes), stack(moved)), 0.0


def meets(space: Space, end: Tracked | None, vector: Tracked) -> tuple[sparse.csr_array, float, float]:
    """end'vector, or the Euclidean norm of the vector where the end has no variables."""
    return euclidean(space, vector) if end is None else (*bilinear(end, vector), 0.0)


def ties(gradient: Pass, direction: Pass) -> list[Family]:
    """s q = s y = g y, neuron by neuron, where u' is 0 or 1."""
    families: list[Family] = []
    for s, y in zip(gradient.items, direction.items, strict=True):
        place, i = (s.layer.free, s.layer.width), s.layer.index
        if s.layer.binary:
            families += [
                product(f"{i}: s (q - y) = 0", s.a, y.b - y.a, *place, equality=True),
                product(f"{i}: (g - s) y = 0", s.b - s.a, y.a, *place, equality=True),
            ]
    return families


def corners(space: Space, gradient: Pass, direction: Pass) -> list[Family]:
    """(s - l u)(y - l' u) >= 0 and its three sisters: what s and y are between, multiplied."""
    families: list[Family] = []
    for s, y in zip(gradient.items, direction.items, strict=True):
        place, i = (s.layer.free, s.layer.width), s.layer.index
        of_s, of_y = factors(space, s)[:2], factors(space, y)[:2]
        for first, a in zip(("s - l u", "h u - s"), of_s, strict=True):
            for second, b in zip(("y - l u", "h u - y"), of_y, strict=True):
                families.append(product(f"{i}: ({first})({second}) >= 0", -a, b, *place))
    return families


def bilinear(a: Tracked, b: Tracked) -> tuple[sparse.csr_array, float]:
    """C with y'Cy = sum_k a_k b_k, and what errors and rounding may take from it."""
    half = sparse.csr_array((sparse.csr_array(a.matrix).T @ sparse.csr_array(b.matrix)) / 2)
    sizes = (a.magnitude, b.magnitude)
    with np.errstate(over="ignore", invalid="ignore"):
        terms: Array = sizes[0] * b.error + sizes[1] * a.error + a.error * b.error
        terms = terms + gamma(len(a) + 8) * sizes[0] * sizes[1]
        return sparse.csr_array(half + half.T), sum_up(grow(terms, 8))
