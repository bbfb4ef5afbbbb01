"""The choice of a split: scores of neurons and of coordinates, and the coordinate that a box is halved at.

The linear bounds of the gradient name the cost of every open slope (`LinearBounds.loss`). The split of a neuron saves
its cost. The split of a coordinate narrows the neurons that depend on it: with the slopes in the middle, row a of z_k
in x,

    score_i = sum_k cost_k |a_i| r_i / sum_j |a_j| r_j          r the half widths of the box.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds import Interval, LinearBounds, directions
from lipcert.bounds.interval import times
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof.cells import Index
from lipcert.rounding import Array

NEVER = -1  # in place of a coordinate or a neuron: this cell cannot be split
BOXES_UP_TO = 8  # inputs, at most, of networks with kinks whose boxes are halved (paper's networks, ACAS Xu 1_1)

_UNSEEN = 0.02  # cost of an open neuron that the bound does not feel, as a share of what the neuron can change at most
_NARROW = 1e-9  # width, relative to the numbers of its ends, of an interval that is not halved


def best_coordinates(lo: Array, hi: Array, score: Array) -> Index:
    """For every box the coordinate with the largest score, the widest one where no score is positive, or NEVER where
    the box is too narrow to be halved."""
    with np.errstate(over="ignore"):
        width, middle = hi - lo, lo / 2 + hi / 2
    wide = width > _NARROW * np.maximum(np.abs(lo), np.abs(hi))
    wide &= (lo < middle) & (middle < hi)
    score = np.where(np.isfinite(score), score, 0.0)
    informed = np.where(wide, score, -1.0).max(axis=1, keepdims=True) > 0
    best = np.where(wide, np.where(informed, score, width), -1.0).argmax(axis=1)
    return np.where(wide.any(axis=1), best, NEVER)


def coordinate_scores(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds, radius: Array) -> Array:
    """About what a split of every coordinate of boxes with these half widths gains, (cells, inputs)."""
    return smear(net, slopes, matter_and_cost(net, slopes, linear)[1], radius)


def neuron_scores(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds, pre: tuple[Interval, ...]) -> Array:
    """About what a split of every neuron at its kink gains, (cells, neurons)."""
    return matter_and_cost(net, slopes, linear)[1] * balance(pre)


def cell_operations(problem: Problem) -> float:
    """About the operations of the cheap bounds of one cell: every neuron's form is carried down to the input, and up to
    every output that is asked for (one or two of those whose largest constant is wanted)."""
    net, below, total = problem.network, 0.0, 0.0
    for block in net.hidden:
        below += block.entries
        total += 4.0 * block.width * below
    if not problem.whole_map:
        return total
    return total * (net.outputs if directions(problem.norm, net.outputs) is None else 2.0)


def matter_and_cost(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds) -> tuple[Array, Array]:
    """By neuron, how much its slope can change the gradient, and about what it costs that it is open."""
    matter = _matter(net, slopes, linear)
    width = np.concatenate([s.hi - s.lo for s in slopes], axis=1)
    return matter, np.concatenate(linear.loss, axis=1) + _UNSEEN * matter * width


def _matter(net: Network, slopes: tuple[Interval, ...], linear: LinearBounds) -> Array:
    """By neuron, how much its slope can change the gradient at most, all entries together."""
    reach: list[Array] = [np.ones((len(slopes[0].lo), net.inputs))]
    matter = []
    for k, (s, block) in enumerate(zip(slopes, net.hidden, strict=True)):
        moved = sum((times(reach[source], abs(w)) for source, w in block.terms), np.zeros_like(s.hi))
        matter.append(np.nan_to_num(linear.gradients[k + 1].magnitude * moved, posinf=1e300))
        reach.append(s.magnitude * moved)
    return np.concatenate(matter, axis=1)


def balance(pre: tuple[Interval, ...]) -> Array:
    """How even the two sides of a kink are: a half that stays almost the whole gains little."""
    lo, hi = (np.concatenate([getattr(z, end) for z in pre], axis=1) for end in ("lo", "hi"))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(lo) & np.isfinite(hi), np.clip(np.minimum(hi, -lo) / (hi - lo), 0.0, 0.5), 0.5)


def smear(net: Network, slopes: tuple[Interval, ...], cost: Array, radius: Array) -> Array:
    """The score of every coordinate of every cell."""
    cells, inputs = radius.shape
    # Derivatives of x_j by x_0, transposed: (cells, inputs, .).
    rows = [np.broadcast_to(np.eye(inputs), (cells, inputs, inputs))]
    score, start = np.zeros((cells, inputs)), 0
    with np.errstate(all="ignore"):
        for block, s in zip(net.hidden, slopes, strict=True):
            flat = sum(times(rows[j].reshape(-1, rows[j].shape[2]), w) for j, w in block.terms)
            own = np.asarray(flat).reshape(cells, inputs, block.width)
            shares = np.abs(own) * radius[:, :, None]
            total = shares.sum(axis=1)
            paid = np.where(total > 0, cost[:, start : start + block.width] / total, 0.0)
            score += np.nan_to_num(np.matmul(shares, paid[:, :, None])[:, :, 0], posinf=1e300)
            rows.append(own * (s.lo / 2 + s.hi / 2)[:, None, :])
            start += block.width
    return score
