"""How far a unit change of the input moves each neuron, and how far each neuron moves the output: rigorous, any depth.

With J_i the Jacobian of x_i, g_i the gradient behind x_i, and t a unit change of the input (|t| <= 1), for every i

    L  =  max t'J_i'g_i  <=  sum_j Y_ij G_ij    and    L  <=  max |J_i t|_2  max |g_i|_2

where Y_ij bounds the dual norm of row j of J_i (L_1 in the infinity norm) and G_ij bounds |g_ij|. Entries and Euclidean
norms help each other: an entry is at most the norm of its row of weights times the Euclidean norm before it, and the
norm of a vector is at most that of its entries' bounds. Intervals gain a factor of about the width in every layer whose
signs are open; Euclidean norms gain the spectral norm, which for a wide layer is far less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.propagation import Interval, gradient_bounds, slope_bounds
from lipcert.bounds.spectral import spectral_norm
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Matrix, Norm
from lipcert.rounding import TINY, Array, gamma, grow, sum_up

_EUCLIDEAN = Norm("2")
_OPERATIONS = 2e11  # for the rows of all Jacobians; the choice must not depend on a clock, a checker repeats it
_BLOCK = 1 << 22  # numbers in one block of rows of a Jacobian


@dataclass(frozen=True, eq=False)
class Gains:
    """`before[i]`: bounds of the dual norms of the gradients of z_{i+1}; `after[i]` of x_i (ones at the input).

    `reach[i]` bounds |J_i t|_2 for every unit change t of the input.
    """

    before: tuple[Array, ...]
    after: tuple[Array, ...]
    reach: tuple[float, ...]


def gains(net: Network, pre: Sequence[Interval], norm: Norm = INF, *, rows: bool = True) -> Gains:
    """Bounds for a norm at the input; `pre` as from `preactivation_bounds`.

    `rows=False` leaves out the Jacobians' rows, which take longest.
    """
    slopes = [s.magnitude for s in slope_bounds(net, pre)]
    before: list[Array] = []
    after, reach = [np.ones(net.inputs)], [_EUCLIDEAN.above(np.ones(net.inputs)) if norm.p == "inf" else 1.0]
    with np.errstate(over="ignore", invalid="ignore"):
        for i, slope in enumerate(slopes):
            weight = net.affines[i].weight
            by_rows = grow(np.asarray(abs(weight) @ after[i], dtype=np.float64), weight.shape[1])
            by_norm = grow(_EUCLIDEAN.rows_above(weight) * reach[i], 2)
            z = np.minimum(_number(by_rows), _number(by_norm))
            if i == 0:
                z = np.minimum(z, _number(norm.dual.rows_above(weight)))
            elif rows and _operations(net, i) <= _OPERATIONS:
                z = np.minimum(z, _number(_jacobian_rows(net, pre, i, norm)))
            x = grow(slope * z, 2)
            x[slope == 0] = 0.0
            spectral = grow(np.asarray(slope.max(initial=0.0) * _spectral(weight, slope > 0) * reach[i]), 4)
            before.append(z)
            after.append(x)
            reach.append(float(min(_number(np.asarray(_EUCLIDEAN.above(x))), _number(spectral))))
    return Gains(tuple(before), tuple(after), tuple(reach))


def mixed_bound(net: Network, pre: Sequence[Interval], norm: Norm, c: Array, known: Gains) -> float:
    """L <= the least over all layers of sum_j Y_j G_j and of the product of Euclidean norms; one output only."""
    behind = _behind(net, pre, c)
    with np.errstate(over="ignore", invalid="ignore"):
        values = [_meet(known, i, entries, size) for i, (entries, size) in enumerate(behind)]
    return min([*values, norm.dual.above(behind[0][0])])


def mixed_gradient_bounds(net: Network, pre: Sequence[Interval], c: Array) -> tuple[Interval, ...]:
    """As `gradient_bounds`, with the help of Euclidean norms; true of the gradient at every point of the region."""
    intervals = gradient_bounds(net, pre, c)
    entries = [entries for entries, _ in _behind(net, pre, c)]
    return tuple(Interval(np.maximum(g.lo, -e), np.minimum(g.hi, e)) for g, e in zip(intervals, entries, strict=True))


def _behind(net: Network, pre: Sequence[Interval], c: Array) -> list[tuple[Array, float]]:
    """Bounds of |g_ij| and of |g_i|_2 for the gradients with respect to x_0 .. x_m."""
    slopes = [s.magnitude for s in slope_bounds(net, pre)]
    intervals = gradient_bounds(net, pre, c)
    entries = _number(intervals[-1].magnitude)
    size = _EUCLIDEAN.above(entries)
    answers = [(entries, size)]
    with np.errstate(over="ignore", invalid="ignore"):
        for affine, slope, interval in zip(net.affines[-2::-1], slopes[::-1], intervals[-2::-1], strict=True):
            s = np.where(slope == 0, 0.0, grow(slope * entries, 2))
            length = min(_EUCLIDEAN.above(s), float(grow(np.asarray(slope.max(initial=0.0) * size), 2)))
            by_norm = grow(_EUCLIDEAN.rows_above(affine.weight.T) * length, 2)
            by_rows = grow(np.asarray(abs(affine.weight).T @ s, dtype=np.float64), len(slope))
            entries = np.minimum(_number(interval.magnitude), np.minimum(_number(by_norm), _number(by_rows)))
            spectral = float(_number(grow(np.asarray(_spectral(affine.weight, slope > 0) * length), 2)))
            size = min(_EUCLIDEAN.above(entries), spectral)
            answers.append((entries, size))
    return answers[::-1]


def _meet(known: Gains, i: int, entries: Array, size: float) -> float:
    """The bound that the gains of x_i and the magnitudes of the gradient behind it give."""
    by_entries = float(_number(np.asarray(sum_up(grow(_number(known.after[i] * entries), 2)))))
    return min(by_entries, float(_number(grow(np.asarray(known.reach[i] * size), 2))))


def _number(x: Array) -> Array:
    """Where 0 times infinity or a difference of infinities appeared nothing is known."""
    return np.where(np.isnan(x), np.inf, x)


def _operations(net: Network, i: int) -> float:
    """Of the Jacobians' rows of all layers up to z_{i+1}."""
    below = np.cumsum([0.0] + [4.0 * a.stored for a in net.affines])
    return float(sum(net.affines[k].outputs * below[k] for k in range(1, i + 1)))


def gains_operations(net: Network) -> float:
    """About the operations of `gains` and `prove_mixed`: the Jacobians' rows, and each layer's Gram matrix twice."""
    rows = sum(op for op in (_operations(net, i) for i in range(1, net.depth)) if op <= _OPERATIONS)
    return rows + sum(3.0 * a.stored * min(a.inputs, a.outputs) for a in net.affines[:-1])


def _jacobian_rows(net: Network, pre: Sequence[Interval], i: int, norm: Norm) -> Array:
    """The dual norms of the gradients of z_{i+1}, by the interval chain rule for all its rows at once."""
    weight = net.affines[i].weight
    step = max(1, _BLOCK // max(max(a.weight.shape) for a in net.affines[: i + 1]))
    parts = []
    for start in range(0, weight.shape[0], step):
        rows = weight[start : start + step]
        dense = np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
        parts.append(norm.dual.rows_above(rows_down(net, pre, i, dense)))
    return np.concatenate(parts)


def rows_down(net: Network, pre: Sequence[Interval], i: int, middle: Array) -> Array:
    """Bounds of the magnitudes of rows (some of A_{i+1}, or any) times the Jacobian of x_i, entry by entry.

    |middle - true| <= radius, from the rows down to the input.
    """
    radius = np.zeros_like(middle)
    for affine, s in zip(reversed(net.affines[:i]), reversed(slope_bounds(net, pre)[:i]), strict=True):
        # s = centre +- half: (centre +- half)(middle +- radius); a slope that is known costs nothing
        centre, half = s.lo / 2 + s.hi / 2, grow(s.hi / 2 - s.lo / 2, 4)
        scaled = middle * centre
        radius = grow(np.abs(middle) * half + radius * s.magnitude + 4 * 2.0**-53 * np.abs(scaled) + TINY, 8)
        radius[:, (s.lo == 0) & (s.hi == 0)] = 0.0
        n = affine.weight.shape[0]
        magnitude = abs(affine.weight)
        error = gamma(n + 4) * (np.abs(scaled) @ magnitude) + n * TINY
        radius = grow(np.asarray(radius @ magnitude + error, dtype=np.float64), n + 8)
        middle = np.asarray(scaled @ affine.weight, dtype=np.float64)
    return grow(np.abs(middle) + radius, 4)


def _spectral(weight: Matrix, active: NDArray[np.bool_]) -> float:
    """Of the active rows."""
    return spectral_norm(weight[np.flatnonzero(active)])
