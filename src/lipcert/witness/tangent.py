"""One directional derivative at a point, proved from a backward and a forward pass in floats.

Let h_i be any numbers for the blocks, with h = d at the scores, and G_j = sum_i A_ij'h_i. The derivative of d'scores
along v is

    d't = G_0'v + sum_j (s_j G_j - h_j)'t_j            t_j the tangents of z_j along v, s_j the exact slopes

because sum_i h_i't_i = sum_j G_j'u_j with u_0 = v and u_j = s_j t_j. The backward pass makes h_j = s_j G_j but for
rounding and for slopes in doubt, so the sum is small: errors of the tangents are multiplied by errors of the backward
pass. An enclosure of the gradient itself grows with the magnitudes of all weights, and is worthless in deep networks.
A neuron on its kink whose z does not change along v, as where two equal numbers are compared, does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import Matrix
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, gamma, grow
from lipcert.witness.errors import Near, Rows, affine, product_above, slope_doubt

PASSES = 6  # products with every weight


@dataclass(frozen=True, eq=False)
class _Backward:
    """G of every block with its error, and what s G - h is at most."""

    first: Near
    residuals: list[Array]


def derivative_below(
    net: Network,
    slopes: Sequence[Interval],
    near: Sequence[Array],
    d: Array,
    direction: Callable[[Array], Array],
    *,
    rows: bool = False,
) -> tuple[float, Array]:
    """A lower bound of |d'J v| for all slopes within bounds, and v, which `direction` chooses from the gradient.

    `near` are slopes in plain floating point. `rows` says whether blocks of tangents get rows of their own.
    """
    own = [np.clip(s, b.lo, b.hi) for s, b in zip(near, slopes, strict=True)]
    doubts = [slope_doubt(s, b) for s, b in zip(own, slopes, strict=True)]
    back = _pulled_back(net, own, doubts, d)
    v = direction(back.first.value)
    size = np.abs(v)
    rounding = grow(back.first.rest + gamma(v.size + 4) * np.abs(back.first.value), 4)
    gain = math.nextafter(float(back.first.value @ v) - product_above(rounding, size), -math.inf)
    left = math.nextafter(gain - _lost(net, own, doubts, back.residuals, v, gain, rows), -math.inf)
    return (left if 0.0 < left < math.inf else 0.0), v


def _pulled_back(net: Network, own: Sequence[Array], doubts: Sequence[Array], d: Array) -> _Backward:
    behind: list[list[tuple[Matrix, Near]]] = [[] for _ in net.blocks]
    residuals = [np.zeros(0)] * net.depth
    for i in range(len(net.blocks), 0, -1):
        h = d
        if i <= net.depth:
            if not behind[i]:  # nobody reads this block
                residuals[i - 1] = np.zeros(net.blocks[i - 1].width)
                continue
            g, s, w = affine(behind[i]), own[i - 1], doubts[i - 1]
            h = s * g.value
            rest = grow(np.abs(s) + w, 2) * g.rest + w * np.abs(g.value) + 2 * UNIT * np.abs(h)
            residuals[i - 1] = grow(rest, 8) + 8 * TINY
        for j, weight in net.blocks[i - 1].terms:
            behind[j].append((weight.T, Near.exact(h)))
    return _Backward(affine(behind[0]) if behind[0] else Near.exact(np.zeros(net.inputs)), residuals)


def _lost(
    net: Network,
    own: Sequence[Array],
    doubts: Sequence[Array],
    residuals: Sequence[Array],
    v: Array,
    gain: float,
    rows: bool,
) -> float:
    """At least what the sum of the residuals times the tangents may be; infinite as soon as it exceeds the gain."""
    us, lost, every = [Near.exact(v)], 0.0, Rows(rows)
    for i, block in enumerate(net.hidden):
        t = affine([(weight, us[j]) for j, weight in block.terms])
        lost = math.nextafter(lost + product_above(residuals[i], t.size), math.inf)
        if not lost < gain:
            return math.inf
        u = own[i] * t.value
        more = doubts[i] * np.abs(t.value) + 2 * UNIT * np.abs(u) + TINY
        us.append(every.of(t.scaled(u, own[i], doubts[i], more)))
    return lost
