"""Class scores of many inputs at once, as intervals that hold the exact scores.

A network with one output is a binary classifier by its sign [CLMP20]: its scores are (0, output), class 1 where the
output is positive.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Affine, Network
from lipcert.problem.output import OutputChoice
from lipcert.rounding import TINY, Array, add_down, add_up, gamma, grow

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


def _block(net: Network, points: Array) -> tuple[Array, Array]:
    """Intervals through the layers, points as columns: two matrix products for each layer."""
    columns = points.T
    x = Interval(columns, columns)
    with np.errstate(all="ignore"):  # what overflows becomes an infinite end
        for affine, f in zip(net.affines, net.activations, strict=False):
            x = Interval(*f.value_bounds(*_image(affine, x)))
        s = _image(net.affines[-1], x)
    return s.lo.T, s.hi.T


def _image(affine: Affine, x: Interval) -> Interval:
    """Bounds of weight x + bias for the columns of x, as `bounds.propagation.affine_interval` has them for one.

    The terms for underflow are kept out of the product: numbers that small make a processor crawl, and images are
    mostly zeros.
    """
    weight, bias = affine.weight, affine.bias[:, None]
    n, size = affine.inputs, abs(affine.weight)
    g = gamma(n + 4)
    if x.lo is x.hi:  # points
        m, r = x.lo, np.zeros(1)
    else:
        m = x.lo / 2 + x.hi / 2
        r = np.maximum(add_up(x.hi, -m), add_up(m, -x.lo))
    z = weight @ m + bias
    underflow = 2 * TINY * (1.0 + np.asarray(size.sum(axis=1), dtype=np.float64).reshape(-1, 1))
    spread = grow(size @ (r + g * np.abs(m)) + g * np.abs(bias) + underflow, n + 8)
    lo, hi = add_down(z, -spread), add_up(z, spread)
    unknown = ~(np.isfinite(lo) & np.isfinite(hi))
    return Interval(np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi))
