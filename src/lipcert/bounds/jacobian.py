"""The Jacobian of the whole map on many cells: bounds of its operator norm from p to q, and of its single entries.

Rows are gradients, which `linear` bounds. With J within R of M entry by entry, the bound for any two norms is the least
of

    |(norms of the rows)|_q,      |M| + |R|,      | |M| + R |          operator norms, `operator_norms`

and from 2 to 2, with E = J - M,

    J J' = T + E E',    T = M J' + J M' - M M',      |J|^2 <= lambda_max(T) + |R|^2,

where the entries of T are linear forms in the gradients, so that terms cancel in them.

To norm inf |J| is the largest norm of a row; to norm 1 with few outputs it is the largest norm of the combinations d'J
with d_k = 1 or -1, which are rows too. Forms are made only for rows that intervals do not show to be shorter than
another.

Entries are enclosed by linear forms and, where few slopes are open, at the ends of these slopes (`vertex_entries`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import gradient_bounds, slope_bounds, vertex_entries
from lipcert.bounds.interval import Interval, middle_and_radius, sign_matrix, times
from lipcert.bounds.linear import AdjointBounds, LinearBounds, form_bounds, joined, spread_losses
from lipcert.bounds.operator_norms import (
    SIGNS_UP_TO,
    corners,
    largest_eigenvalues,
    matrix_norms,
    positive_norms,
    vector_norms,
)
from lipcert.bounds.propagation import ForwardPass
from lipcert.bounds.substitution import Tangent
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, Array, gamma, grow, or_infinite

Index = NDArray[np.int64]

_BATCH_NUMBERS = 1 << 21  # in one array of the coefficients of all forms of a batch of cells


def directions(norm: Norm, outputs: int) -> Array | None:
    """Weights of the outputs, a row for each of several problems whose largest constant is that of the whole map.

    None where there are no such rows, or too many.
    """
    if norm.out == "inf" or outputs == 1:
        return np.eye(outputs)
    if norm.out == "1" and outputs <= SIGNS_UP_TO:
        return corners(outputs)
    return None


def map_bounds(
    net: Network, slopes: Sequence[Interval], norm: Norm, values: Sequence[Tangent] | None = None
) -> LinearBounds:
    """Bounds of the operator norm on cells with these slopes, (cells, width) for every hidden block.

    As `linear_bounds` of one output; the gradients are those of the rows together, from minus to plus their lengths.
    """
    cells, rows = len(slopes[0].lo), directions(norm, net.outputs)
    count = net.outputs if rows is None else len(rows)
    step = max(1, _BATCH_NUMBERS // (2 * count * net.inputs * max(net.shape[1:-1], default=1)))
    pieces = []
    with np.errstate(all="ignore"):
        for own in (slice(k, k + step) for k in range(0, cells, step)):
            stages = None if values is None else [stage.rows(own) for stage in values]
            some = [s.rows(own) for s in slopes]
            pieces.append(
                _of_matrices(net, some, norm, stages) if rows is None else _of_rows(net, some, norm, rows, stages)
            )
    return joined(pieces)


def _of_rows(
    net: Network, slopes: list[Interval], norm: Norm, rows: Array, values: list[Tangent] | None
) -> LinearBounds:
    """The longest row. Intervals bound all rows, and forms the row that is longest by intervals; then forms bound every
    row that may still be longer."""
    cells, entries = len(slopes[0].lo), norm.p != "inf" or values is not None
    lengths = _by_intervals(net, slopes, norm, rows)
    place, first = np.arange(cells), np.argmax(lengths, axis=1)
    found = [_forms(net, slopes, norm, place, rows[first], values, entries)[1]]
    lengths[place, first] = np.fmin(lengths[place, first], found[0].upper)
    more = np.argwhere(lengths > lengths[place, first][:, None])
    if len(more):
        cell, row = more.T
        found.append(_forms(net, slopes, norm, cell, rows[row], values, entries)[1])
        lengths[cell, row] = np.fmin(lengths[cell, row], found[1].upper)
        place = np.concatenate([place, cell])
    uppers = np.concatenate([some.upper for some in found])
    return LinearBounds(or_infinite(lengths.max(axis=1)), *_together(found, uppers, place, cells))


def _by_intervals(net: Network, slopes: list[Interval], norm: Norm, rows: Array) -> Array:
    """The dual norms of all rows on all cells, (cells, rows)."""
    cells, count = len(slopes[0].lo), len(rows)
    every = [Interval(*(np.repeat(end, count, axis=0) for end in s)) for s in slopes]
    g = gradient_bounds(net, (), np.tile(rows, (cells, 1)), every)[0]
    return or_infinite(vector_norms(g.magnitude, norm.dual.p)).reshape(cells, count)


def _forms(
    net: Network, slopes: list[Interval], norm: Norm, cell: Index, c: Array, values: list[Tangent] | None, entries: bool
) -> tuple[AdjointBounds, LinearBounds]:
    """The gradients of one output c'scores on one cell each; `entries` as in `AdjointBounds.run`."""
    every = None if values is None else [stage.rows(cell) for stage in values]
    adjoint = AdjointBounds(net, tuple(s.rows(cell) for s in slopes), c, every)
    return adjoint, form_bounds(adjoint, Norm(norm.p), None, entries)


def _of_matrices(net: Network, slopes: list[Interval], norm: Norm, values: list[Tangent] | None) -> LinearBounds:
    """All rows by forms, and their norm."""
    cells, count = len(slopes[0].lo), net.outputs
    place = np.repeat(np.arange(cells), count)
    adjoint, found = _forms(net, slopes, norm, place, np.tile(np.eye(count), (cells, 1)), values, True)
    J = Interval(*(end.reshape(cells, count, net.inputs) for end in found.gradients[0]))
    M, R = middle_and_radius(J)
    assert norm.out is not None
    upper = np.fmin(vector_norms(found.upper.reshape(cells, count), norm.out), matrix_norms(M, R, norm.p, norm.out))
    upper = np.fmin(upper, _by_magnitudes(J, norm))
    if norm.p == norm.out == "2":
        upper = np.fmin(upper, _by_squares(adjoint, M, R))
    return LinearBounds(or_infinite(upper), *_together([found], found.upper, place, cells))


def _by_magnitudes(J: Interval, norm: Norm) -> Array:
    """The norm of the largest |entries|."""
    size = or_infinite(J.magnitude)
    if norm.p == norm.out == "2":
        return positive_norms(size)
    assert norm.out is not None
    return vector_norms(vector_norms(size, norm.dual.p), norm.out)


def _by_squares(adjoint: AdjointBounds, M: Array, R: Array) -> Array:
    """From 2 to 2: (lambda_max(T) + |R|^2)^(1/2)."""
    cells, count, n = M.shape
    both = np.repeat(np.concatenate([M, -M], axis=1), count, axis=0)  # for row k of J: M_i and -M_i, all i
    top, _ = adjoint.largest(both)
    top = top.reshape(cells, count, 2 * count)  # (cell, k, i)
    above, below = top[:, :, :count], -top[:, :, count:]
    high, low = above + np.swapaxes(above, 1, 2), below + np.swapaxes(below, 1, 2)
    size = np.abs(M)
    gram, bulk = M @ np.swapaxes(M, 1, 2), size @ np.swapaxes(size, 1, 2)
    middle, radius = high / 2 + low / 2 - gram, np.maximum(high / 2 - low / 2, 0.0)
    error = gamma(n + 8) * bulk + gamma(8) * (np.abs(above) + np.abs(below)) + (n + 8) * TINY
    error = error + gamma(8) * np.swapaxes(np.abs(above) + np.abs(below), 1, 2)
    squares = grow(np.square(positive_norms(R)), 2)
    return grow(np.sqrt(grow(largest_eigenvalues(middle, grow(radius + error, 8)) + squares, 2)), 4)


def _together(
    found: list[LinearBounds], lengths: Array, cell: Index, cells: int
) -> tuple[tuple[Interval, ...], tuple[Array, ...]]:
    """The lengths of the gradients of a cell's rows together, and the costs of open slopes.

    A row counts by the square of its length relative to the longest row of its cell.
    """
    longest = np.zeros(cells)
    np.maximum.at(longest, cell, np.where(np.isfinite(lengths), lengths, 0.0))
    share = np.nan_to_num(np.square(lengths / np.maximum(longest[cell], TINY)), nan=1.0, posinf=1.0)[:, None]
    gradients = []
    for blocks in zip(*(some.gradients for some in found), strict=True):
        size = np.concatenate([g.magnitude for g in blocks])
        total = np.zeros((cells, size.shape[1]))
        np.add.at(total, cell, np.square(size))
        gradients.append(Interval(-np.sqrt(total), np.sqrt(total)))
    losses = []
    for lost in zip(*(some.loss for some in found), strict=True):
        total = np.zeros((cells, lost[0].shape[1]))
        np.add.at(total, cell, share * np.concatenate(lost))
        losses.append(total)
    return tuple(gradients), tuple(losses)


Mask = NDArray[np.bool_]
Worth = Callable[[slice, Interval], Array]  # maps rows and their entries to the weight of each entry, which has a sign


def entry_bounds(
    net: Network,
    slopes: Sequence[Interval],
    rows: tuple[Index, Index, Mask],
    values: Sequence[Tangent] | None = None,
    worth: Worth | None = None,
) -> tuple[Interval, LinearBounds | None]:
    """Bounds of the entries that the rows ask for, (rows, inputs), on cells with these slopes; others are looser.

    `rows` are the cells, the scores and the mask of wanted entries. With `worth` there are hints too: the costs of the
    open slopes for the entries that matter.
    """
    cell, score, wanted = rows
    c = np.eye(net.outputs)[score]
    step = max(1, _BATCH_NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    found: list[Interval] = []
    hints: list[LinearBounds] = []
    with np.errstate(all="ignore"):
        for own in (slice(k, k + step) for k in range(0, len(cell), step)):
            stages = None if values is None else [stage.rows(cell[own]) for stage in values]
            adjoint = AdjointBounds(net, tuple(s.rows(cell[own]) for s in slopes), c[own], stages)
            gradients = adjoint.run(wanted[own])
            ends = vertex_entries(net, adjoint.slopes, c[own]) if slopes else gradients[0]
            met = _meet(gradients[0], ends)
            found.append(signed(net, adjoint.slopes, c[own], (met, *gradients[1:])))
            if worth is not None:
                hints.append(_hints(adjoint, gradients, worth(own, found[-1])))
    if not found:
        nothing = np.zeros((0, net.inputs))
        return Interval(nothing, nothing), None
    together = Interval(np.concatenate([g.lo for g in found]), np.concatenate([g.hi for g in found]))
    return together, joined(hints) if hints else None


def entries_at(net: Network, points: Array, scores: Index) -> Interval:
    """Enclosures of the gradients of these scores next to every point: (points, scores, inputs).

    A neuron whose pre-activation is zero within rounding has either slope: next to the point there are inputs whose
    gradients lie in the enclosure, whichever they are.
    """
    count = len(points)
    c = np.eye(net.outputs)[scores]
    with np.errstate(all="ignore"):
        pre = ForwardPass(net, Interval(points, points), forms=False).run().pre if net.depth else ()
        slopes = [Interval(*(np.repeat(end, len(scores), axis=0) for end in s)) for s in slope_bounds(net, pre)]
        weights = np.tile(c, (count, 1))
        gradients = gradient_bounds(net, (), weights, slopes) if slopes else AdjointBounds(net, (), weights).run()
        g = signed(net, slopes, weights, gradients)
    shape = (count, len(scores), net.inputs)
    low, high = np.where(np.isnan(g.lo), -np.inf, g.lo), np.where(np.isnan(g.hi), np.inf, g.hi)
    return Interval(low.reshape(shape), high.reshape(shape))


def signed(net: Network, slopes: Sequence[Interval], c: Array, gradients: Sequence[Interval]) -> Interval:
    """The gradient by the input, cut at zero where no path of the network can make it negative, or positive.

    The signs of the terms alone decide whether a sum can be negative. This needs no rounding: an entry that is zero is
    found to be zero, and the lower bound of an entry that no weight can make negative is 0, not -1e-17.
    """
    behind = {net.depth + 1: (c < 0, c > 0)}  # of z_i: whether its gradient may be negative, and positive
    for j in range(net.depth, -1, -1):
        falls, rises = np.zeros((2, len(c), net.shape[j]), dtype=bool)
        for i, w in net.readers[j]:
            with_, against = sign_matrix(w.T, 1), sign_matrix(w.T, -1)
            down, up = (part.astype(np.float64) for part in behind[i])
            falls |= times(down, with_) + times(up, against) > 0
            rises |= times(up, with_) + times(down, against) > 0
        g = gradients[j]
        falls, rises = falls & ~(g.lo >= 0), rises & ~(g.hi <= 0)
        if j:
            s = slopes[j - 1]
            same, turned = s.hi > 0, s.lo < 0
            behind[j] = (falls & same | rises & turned, rises & same | falls & turned)
    g = gradients[0]
    return Interval(np.where(falls, g.lo, np.maximum(g.lo, 0.0)), np.where(rises, g.hi, np.minimum(g.hi, 0.0)))


def _meet(a: Interval, b: Interval) -> Interval:
    """The intersection; both intervals are proved, so that only rounding could make it empty."""
    lo, hi = np.where(np.isnan(a.lo), -np.inf, a.lo), np.where(np.isnan(a.hi), np.inf, a.hi)
    return Interval(np.maximum(lo, b.lo), np.minimum(hi, b.hi))


def _hints(adjoint: AdjointBounds, gradients: tuple[Interval, ...], worth: Array) -> LinearBounds:
    """How much every open slope costs in the sum of the entries, each weighted by `worth`."""
    top, losses = adjoint.largest(worth[:, None, :])
    if not losses:
        return LinearBounds(top[:, 0], gradients, ())
    loss = spread_losses(adjoint.net, adjoint.slopes, gradients, losses, np.abs(worth))
    return LinearBounds(top[:, 0], gradients, tuple(loss))
