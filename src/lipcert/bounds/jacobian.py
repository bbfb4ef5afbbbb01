"""The Jacobian of the whole map on many cells: bounds of its operator norm from p to q by linear forms.

Rows are gradients, which `linear` bounds. With J within R of M entry by entry, whatever the norms, the least of

    |(norms of the rows)|_q,      |M| + |R|,      | |M| + R |          operator norms, `stacks`

and from 2 to 2, with E = J - M,

    J J' = T + E E',    T = M J' + J M' - M M',      |J|^2 <= lambda_max(T) + |R|^2,

where the entries of T are linear forms in the gradients: what cancels in them cancels.

To norm inf |J| is the largest of the rows; to norm 1 with few outputs the largest of the combinations d'J with d_k = 1
or -1, which are rows too. Forms are made for those that intervals do not show to be shorter than another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.adjoint import Adjoint
from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval, middle_and_radius
from lipcert.bounds.linear import Linear, form_bounds, joined
from lipcert.bounds.stacks import SIGNS_UP_TO, corners, largest_eigenvalues, matrix_norms, positive_norms, vector_norms
from lipcert.bounds.tangents import Tangent
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, Array, gamma, grow

Index = NDArray[np.int64]

_NUMBERS = 1 << 21  # in one array of the coefficients of all forms of a batch of cells


def directions(norm: Norm, outputs: int) -> Array | None:
    """Weights of the outputs, a row for each of several problems whose largest constant is that of the whole map.

    None where there are no such rows, or too many.
    """
    if norm.out == "inf" or outputs == 1:
        return np.eye(outputs)
    if norm.out == "1" and outputs <= SIGNS_UP_TO:
        return corners(outputs)
    return None


def map_bounds(net: Network, slopes: Sequence[Interval], norm: Norm, values: Sequence[Tangent] | None = None) -> Linear:
    """Bounds of the operator norm on cells with these slopes, (cells, width) for every hidden block.

    As `linear_bounds` of one output; the gradients are those of the rows together, from minus to plus their lengths.
    """
    cells, rows = len(slopes[0].lo), directions(norm, net.outputs)
    count = net.outputs if rows is None else len(rows)
    step = max(1, _NUMBERS // (2 * count * net.inputs * max(net.shape[1:-1], default=1)))
    pieces = []
    with np.errstate(all="ignore"):
        for own in (slice(k, k + step) for k in range(0, cells, step)):
            stages = None if values is None else [stage.rows(own) for stage in values]
            some = [s.rows(own) for s in slopes]
            pieces.append(
                _of_matrices(net, some, norm, stages) if rows is None else _of_rows(net, some, norm, rows, stages)
            )
    return joined(pieces)


def _of_rows(net: Network, slopes: list[Interval], norm: Norm, rows: Array, values: list[Tangent] | None) -> Linear:
    """The longest row: by intervals all of them, by forms the one that they say is longest, and any that may be longer
    than this one then is."""
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
    return Linear(_known(lengths.max(axis=1)), *_together(found, uppers, place, cells))


def _by_intervals(net: Network, slopes: list[Interval], norm: Norm, rows: Array) -> Array:
    """The dual norms of all rows on all cells, (cells, rows)."""
    cells, count = len(slopes[0].lo), len(rows)
    every = [Interval(*(np.repeat(end, count, axis=0) for end in s)) for s in slopes]
    g = gradient_bounds(net, (), np.tile(rows, (cells, 1)), every)[0]
    return _known(vector_norms(g.magnitude, norm.dual.p)).reshape(cells, count)


def _forms(
    net: Network, slopes: list[Interval], norm: Norm, cell: Index, c: Array, values: list[Tangent] | None, entries: bool
) -> tuple[Adjoint, Linear]:
    """The gradients of one output c'scores on one cell each; `entries` as in `Adjoint.run`."""
    every = None if values is None else [stage.rows(cell) for stage in values]
    adjoint = Adjoint(net, tuple(s.rows(cell) for s in slopes), c, every)
    return adjoint, form_bounds(adjoint, Norm(norm.p), None, entries)


def _of_matrices(net: Network, slopes: list[Interval], norm: Norm, values: list[Tangent] | None) -> Linear:
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
    return Linear(_known(upper), *_together([found], found.upper, place, cells))


def _by_magnitudes(J: Interval, norm: Norm) -> Array:
    """The norm of the largest |entries|."""
    size = _known(J.magnitude)
    if norm.p == norm.out == "2":
        return positive_norms(size)
    assert norm.out is not None
    return vector_norms(vector_norms(size, norm.dual.p), norm.out)


def _by_squares(adjoint: Adjoint, M: Array, R: Array) -> Array:
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
    found: list[Linear], lengths: Array, cell: Index, cells: int
) -> tuple[tuple[Interval, ...], tuple[Array, ...]]:
    """Of the rows of every cell: the gradients' lengths, and what open slopes cost, as far as a row is near the longest
    of its cell."""
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


def _known(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, x)
