"""What the rounding of a collapsed network's coefficients does to its gradient, for any slopes u within their bounds.

    s_k = u_k h_k,    h_k = B_{m+1,k}'c + sum_j B_jk' s_j,    gradient = h_0

With |B - true B| <= E, the vectors of the true coefficients and of the rounded ones differ by at most

    dh_k  =  sum_j (E_jk' |s_j true| + |B_jk|' ds_j),    ds_k = max|u_k| dh_k,    |s_k true| <= |s_k| + ds_k

from the last block to the input, where ds of the scores is zero; |s_k| are bounds by intervals. All of it for every
score at once, a row each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.spectral import operator_norm
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, Array, grow


class Cost(NamedTuple):
    """A bound of the norm of the difference, and for comparison the interval bound of the gradient's norm."""

    price: float
    scale: float


def price_of(
    net: Network,
    slopes: Sequence[Interval],
    errors: Sequence[Mapping[int, Array]],
    norm: Norm,
    coordinate: int | None = None,
) -> Cost:
    """Of the gradient of the one score, or of the Jacobian of all; `errors` by block and source, as its terms."""
    rows = net.outputs
    wide = [Interval(*(np.broadcast_to(end, (rows, len(end))) for end in s)) for s in slopes]
    gradients = [g.magnitude for g in _gradients(net, wide)]
    exact = np.eye(rows)
    reached = {len(net.blocks): exact}  # |s true| at most
    moved = {len(net.blocks): np.zeros((rows, rows))}  # ds
    for k in range(net.depth, -1, -1):
        change = np.zeros((rows, net.shape[k]))
        for j, weight in net.readers[k]:
            size = len(weight)
            step = reached[j] @ errors[j - 1][k] + (moved[j] @ np.abs(weight))
            change = grow(change + step + 2 * size * TINY, 2 * size + 8)
        if k == 0:
            return Cost(*(_norm(part, norm, coordinate) for part in (change, gradients[0])))
        steepest = wide[k - 1].magnitude
        moved[k] = grow(steepest * change, 4)
        reached[k] = grow(steepest * gradients[k] + moved[k], 8)
    raise AssertionError


def _gradients(net: Network, slopes: Sequence[Interval]) -> Sequence[Interval]:
    if not slopes:  # affine: the rows of the scores themselves
        weight = net.readers[0][0][1]
        return [Interval(weight, weight)]
    return gradient_bounds(net, (), np.eye(net.outputs), slopes)


def _norm(size: Array, norm: Norm, coordinate: int | None) -> float:
    if coordinate is not None:
        size = size[:, [coordinate]]
    found = norm.dual.above(size[0]) if norm.out is None else operator_norm(size, norm.p, norm.out)
    return found if not np.isnan(found) else np.inf
