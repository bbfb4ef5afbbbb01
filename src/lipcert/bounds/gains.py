"""Gains: how far a unit change of the input moves each neuron, and how far each neuron moves the output; any depth.

With J_i the Jacobian of x_i, g_i the gradient behind x_i, and t a unit change of the input (|t| <= 1), for every block
i that all ways from the input to the scores pass (in a chain, every block)

    L  =  max t'J_i'g_i  <=  sum_j Y_ij G_ij    and    L  <=  max |J_i t|_2  max |g_i|_2

where Y_ij bounds the dual norm of row j of J_i (L_1 in the infinity norm) and G_ij bounds |g_ij|. Entries and Euclidean
norms help each other: an entry is at most the norm of its row of weights times the Euclidean norm before it, and the
norm of a vector is at most that of its entries' bounds. Intervals gain a factor of about the width in every block whose
signs are open; Euclidean norms gain the spectral norm, which for a wide block is far less.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval, Rounded, finite_sum
from lipcert.bounds.operator_norms import operator_norm, spectral_norm, spectral_operations
from lipcert.bounds.substitution import longest_side, work
from lipcert.problem.maps import Matrix, dense
from lipcert.problem.network import Network
from lipcert.problem.norms import EUCLIDEAN, INF, Norm
from lipcert.rounding import Array, grow, or_infinite, sum_up
from lipcert.steps import step

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


def gains(
    net: Network, pre: Sequence[Interval], norm: Norm = INF, *, rows: bool = True, spectral: bool = True
) -> Gains:
    """Bounds for a norm at the input; `pre` as from `preactivation_bounds`.

    `rows=False` leaves out the Jacobians' rows, which take longest; `spectral=False` the spectral norms, which take
    longest then.
    """
    slopes = [s.magnitude for s in slope_bounds(net, pre)]
    before: list[Array] = []
    after, reach = [np.ones(net.inputs)], [EUCLIDEAN.above(np.ones(net.inputs)) if norm.p == "inf" else 1.0]
    with np.errstate(over="ignore", invalid="ignore"):
        for i, (block, slope) in enumerate(zip(net.hidden, slopes, strict=True)):
            step()
            terms = block.terms
            by_rows = [grow(np.asarray(abs(weight) @ after[j]), weight.shape[1]) for j, weight in terms]
            by_norm = [grow(EUCLIDEAN.rows_above(weight) * reach[j], 2) for j, weight in terms]
            z = np.minimum(_sum(by_rows), _sum(by_norm))
            if all(j == 0 for j, _ in terms):
                z = np.minimum(z, or_infinite(norm.dual.rows_above(terms[0][1])))
            elif rows and _operations(net, i) <= _OPERATIONS:
                z = np.minimum(z, or_infinite(_dual_norms(net, pre, i + 1, norm)))
            x = grow(slope * z, 2)
            x[slope == 0] = 0.0
            steepest, active = slope.max(initial=0.0), slope > 0
            length = float(or_infinite(np.asarray(EUCLIDEAN.above(x))))
            if spectral:
                steps = [grow(np.asarray(steepest * _spectral(weight, active) * reach[j]), 4) for j, weight in terms]
                length = min(length, float(_sum(steps)))
            before.append(z)
            after.append(x)
            reach.append(length)
    return Gains(tuple(before), tuple(after), tuple(reach))


def mixed_bound(net: Network, pre: Sequence[Interval], norm: Norm, c: Array, known: Gains) -> float:
    """L <= the least, over the blocks that no way misses, of sum_j Y_j G_j and of the product of Euclidean norms.

    For one output.
    """
    behind = _behind(net, pre, c)
    with np.errstate(over="ignore", invalid="ignore"):
        values = [_meet(known, i, *behind[i]) for i in range(len(behind)) if not _missed(net, i)]
    return min([*values, norm.dual.above(behind[0][0])])


def mixed_map_bound(net: Network, pre: Sequence[Interval], norm: Norm, known: Gains) -> float:
    """The bound of `mixed_bound` for all outputs together.

    With G_i the Jacobian behind x_i, |J t|_q is at most the q-norm of |G_i| Y_i, and at most the Euclidean norm of
    J_i t times the norm of G_i from 2 to q.
    """
    rows = [_behind(net, pre, e) for e in np.eye(net.outputs)]
    assert norm.out is not None
    values = [math.inf]
    with np.errstate(over="ignore", invalid="ignore"):
        spans = _spans(net, pre, norm.outputs, rows)
        for i in (i for i in range(net.depth + 1) if not _missed(net, i)):
            entries = np.stack([row[i][0] for row in rows])
            by_rows = or_infinite(grow(entries @ known.after[i], entries.shape[1] + 2))
            values += [norm.outputs.above(by_rows), float(or_infinite(grow(np.asarray(known.reach[i] * spans[i]), 2)))]
        first = np.stack([row[0][0] for row in rows])
    if np.all(np.isfinite(first)):
        values.append(operator_norm(first, norm.p, norm.out))
    return min(values)


def _spans(net: Network, pre: Sequence[Interval], out: Norm, rows: list[list[tuple[Array, float]]]) -> list[float]:
    """Bounds of the norms from 2 to q of the Jacobians behind x_0 .. x_m."""
    slopes = [s.magnitude for s in slope_bounds(net, pre)]
    spans: dict[int, float] = {}
    for j in range(net.depth, -1, -1):
        step()
        ways = [np.asarray(0.0)]
        for i, weight in net.readers[j]:
            if i > net.depth:
                ways.append(np.asarray(operator_norm(weight, "2", out.p)))
            else:
                steep = slopes[i - 1].max(initial=0.0)
                ways.append(grow(np.asarray(steep * _spectral(weight, slopes[i - 1] > 0) * spans[i]), 4))
        spans[j] = min(
            float(_sum(ways)), float(or_infinite(np.asarray(out.above(np.array([row[j][1] for row in rows])))))
        )
    return [spans[j] for j in range(net.depth + 1)]


def _missed(net: Network, i: int) -> bool:
    """Whether some block behind block i reads one before it."""
    return any(j < i for block in net.blocks[i:] for j, _ in block.terms)


def mixed_gradient_bounds(net: Network, pre: Sequence[Interval], c: Array) -> tuple[Interval, ...]:
    """Bounds as from `gradient_bounds`, tightened by Euclidean norms; they hold at every point of the region."""
    intervals = gradient_bounds(net, pre, c)
    entries = [entries for entries, _ in _behind(net, pre, c)]
    return tuple(Interval(np.maximum(g.lo, -e), np.minimum(g.hi, e)) for g, e in zip(intervals, entries, strict=True))


def _behind(net: Network, pre: Sequence[Interval], c: Array) -> list[tuple[Array, float]]:
    """Bounds of |g_ij| and of |g_i|_2 for the gradients with respect to x_0 .. x_m."""
    slopes = [s.magnitude for s in slope_bounds(net, pre)]
    intervals = gradient_bounds(net, pre, c)
    answers: list[tuple[Array, float]] = []
    passed: dict[int, _Passed] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(net.depth, -1, -1):
            step()
            ways = [passed[k].down(weight) if k in passed else _last(weight, c) for k, weight in net.readers[i]]
            entries, size = or_infinite(intervals[i].magnitude), 0.0
            if ways:
                by_norm, by_rows, spectral = (_sum(shares) for shares in zip(*ways, strict=True))
                entries = np.minimum(entries, np.minimum(by_norm, by_rows))
                size = min(EUCLIDEAN.above(entries), float(spectral))
            answers.append((entries, size))
            if i:
                passed[i] = _Passed.of(slopes[i - 1], entries, size)
    return answers[::-1]


@dataclass(frozen=True, eq=False)
class _Passed:
    """Bounds of s g, the gradient with respect to z: of |entries|, of its Euclidean norm; and where s is not zero."""

    entries: Array
    length: float
    active: NDArray[np.bool_]

    @classmethod
    def of(cls, slope: Array, entries: Array, size: float) -> _Passed:
        s = np.where(slope == 0, 0.0, grow(slope * entries, 2))
        length = min(EUCLIDEAN.above(s), float(grow(np.asarray(slope.max(initial=0.0) * size), 2)))
        return cls(s, length, slope > 0)

    def down(self, weight: Matrix) -> tuple[Array, Array, Array]:
        """Bounds of A'(s g): of |entries| by its norm and by its entries, and of its Euclidean norm."""
        by_norm = grow(EUCLIDEAN.rows_above(weight.T) * self.length, 2)
        by_rows = grow(np.asarray(abs(weight).T @ self.entries, dtype=np.float64), len(self.entries))
        return by_norm, by_rows, grow(np.asarray(_spectral(weight, self.active) * self.length), 2)


def _last(weight: Matrix, c: Array) -> tuple[Array, Array, Array]:
    """Bounds as from `down`, of A'c for the weight of the scores."""
    entries = finite_sum([(weight.T, Interval(c, c))]).magnitude
    return entries, entries, np.asarray(EUCLIDEAN.above(entries))


def _meet(known: Gains, i: int, entries: Array, size: float) -> float:
    """The bound that the gains of x_i and the magnitudes of the gradient behind it give."""
    by_entries = float(or_infinite(np.asarray(sum_up(grow(or_infinite(known.after[i] * entries), 2)))))
    return min(by_entries, float(or_infinite(grow(np.asarray(known.reach[i] * size), 2))))


def _sum(shares: Sequence[Array]) -> Array:
    """An upper bound of the sum of several paths' contributions."""
    total = np.asarray(shares[0], dtype=np.float64)
    for share in shares[1:]:
        total = grow(total + share, 1)
    return or_infinite(total)


def _operations(net: Network, i: int) -> float:
    """The operations for the Jacobians' rows of all blocks up to z_{i+1}."""
    below = np.cumsum([0.0] + [4.0 * b.entries for b in net.blocks])
    return float(sum(net.blocks[k].width * below[k] for k in range(1, i + 1)))


def gains_operations(net: Network, *, rows: bool = True) -> float:
    """The operations of `gains` and `prove_mixed`, about: the Jacobians' rows, and each weight's Gram matrix twice."""
    jacobians = sum(op for op in (_operations(net, i) for i in range(1, net.depth)) if op <= _OPERATIONS)
    return (jacobians if rows else 0.0) + 2.0 * spectral_work(net)


def spectral_work(net: Network) -> float:
    """The operations of the spectral norms of all weights of hidden blocks."""
    return sum(spectral_operations(weight) for block in net.hidden for _, weight in block.terms)


def rows_work(net: Network) -> Iterator[tuple[float, str]]:
    """The work of the Jacobians' rows that `gains` computes, block by block, as operations of a kind.

    A row of a Jacobian takes two products with each weight, as the forms above and below one neuron do.
    """
    for i in range(1, net.depth):
        if _operations(net, i) <= _OPERATIONS:
            operations, kind = work(net.blocks[i], net.blocks[:i])
            yield net.blocks[i].width * operations, kind


def _dual_norms(net: Network, pre: Sequence[Interval], i: int, norm: Norm) -> Array:
    """The dual norms of the gradients of z_i, some rows at a time."""
    return np.concatenate([norm.dual.rows_above(some) for some in rows_in_blocks(net, pre, i)])


def rows_in_blocks(net: Network, pre: Sequence[Interval], i: int) -> Iterator[Array]:
    """`jacobian_rows` of all neurons of a block, some at a time, so that few of them are in memory."""
    step = max(1, _BLOCK // longest_side(net.blocks[:i]))
    for start in range(0, net.shape[i], step):
        yield jacobian_rows(net, pre, i, slice(start, start + step))


def jacobian_rows(net: Network, pre: Sequence[Interval], i: int, rows: slice = slice(None)) -> Array:
    """Bounds of the |derivatives| of z_i by the input, one row for each of some neurons; z_{m+1} are the scores.

    The interval chain rule for all rows at once: |middle - true| <= radius, from the weights down to the input.
    """
    slopes = slope_bounds(net, pre)
    pending = {j: Rounded.exactly(dense(weight[rows])) for j, weight in net.blocks[i - 1].terms}
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(i - 1, 0, -1):
            if k not in pending:
                continue
            passed = pending.pop(k).scaled(slopes[k - 1])
            for j, weight in net.blocks[k - 1].terms:
                down = passed.down(weight)
                pending[j] = down + pending[j] if j in pending else down
        return grow(np.abs(pending[0].middle) + pending[0].radius, 4)


_NORMS: dict[int, tuple[weakref.ref[Any], dict[bytes, float]]] = {}  # by weight, while it lives


def _forget(key: int, _: weakref.ref[Any]) -> None:
    _NORMS.pop(key, None)


def _spectral(weight: Matrix, active: NDArray[np.bool_]) -> float:
    """The spectral norm of the active rows; kept, because every part of a network needs the same norms again."""
    key = id(weight)
    if key not in _NORMS:
        _NORMS[key] = weakref.ref(weight, partial(_forget, key)), {}
    known, rows = _NORMS[key][1], active.tobytes()
    if rows not in known:
        known[rows] = spectral_norm(weight[np.flatnonzero(active)])
    return known[rows]
