"""Class scores of many inputs at once, as intervals that hold the exact scores.

A network with one output is a binary classifier by its sign [CLMP20]: its scores are (0, output), class 1 where the
output is positive.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds.interval import Interval, affine_sum
from lipcert.problem.network import Network
from lipcert.problem.output import OutputChoice
from lipcert.rounding import Array, add_down

_CHUNK = 1 << 19  # numbers in one block of the widest layer


def class_count(net: Network) -> int:
    return max(2, net.outputs)


def pair_output(net: Network, i: int, j: int) -> OutputChoice:
    """The output whose Lipschitz constant is L_ij; that of score_i - score_j and of score_j - score_i is the same."""
    return 0 if net.outputs == 1 else (i, j)


def class_scores(net: Network, points: Array) -> Interval:
    """lo <= scores <= hi for every row of points; (batch, classes)."""
    step = max(1, _CHUNK // max(net.shape))
    parts = [_block(net, points[k : k + step]) for k in range(0, len(points), step)]
    lo, hi = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    if net.outputs == 1:
        lo, hi = (np.concatenate([np.zeros_like(end), end], axis=1) for end in (lo, hi))
    return Interval(lo, hi)


def lead(scores: Interval, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Array:
    """A lower bound on score_label - score_i for every i; infinite for the label itself."""
    rows = np.arange(len(labels))
    own = scores.lo[rows, labels][:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        margin = add_down(own, -scores.hi)
        margin = np.where(np.isfinite(own) & np.isfinite(scores.hi), margin, -np.inf)
    margin[rows, labels] = np.inf
    return margin


def room_for_another(scores: Interval, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Array:
    """What a lead is lowered by before it is stated, for every class.

    A machine that adds in another order encloses the same exact scores, in intervals about as wide. Twice the widths
    of both scores are more than the two can differ by: what is stated here is proved there.
    """
    with np.errstate(all="ignore"):
        width = scores.hi - scores.lo
        return np.asarray(2.0 * (width + width[np.arange(len(labels)), labels][:, None]))


def _block(net: Network, points: Array) -> Interval:
    """Intervals through the network, point by point."""
    xs = [Interval(points, points)]
    with np.errstate(all="ignore"):  # what overflows becomes an infinite end
        for block in net.hidden:
            z = affine_sum([(weight, xs[source]) for source, weight in block.terms], block.bias)
            xs.append(Interval(*block.activation.value_bounds(*z)))
        last = net.scores
        return affine_sum([(weight, xs[source]) for source, weight in last.terms], last.bias)
