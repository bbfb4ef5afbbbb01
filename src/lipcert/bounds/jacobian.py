"""The Jacobian of the whole map on many cells: bounds of its operator norm from p to q by linear forms.

Rows are gradients, which `linear` bounds. With J within R of M entry by entry, whatever the norms, the least of

    |(norms of the rows)|_q,      |M| + |R|,      | |M| + R |          operator norms, `stacks`

and from 2 to 2, with E = J - M,

    J J' = T + E E',    T = M J' + J M' - M M',      |J|^2 <= lambda_max(T) + |R|^2,

where the entries of T are linear forms in the gradients: what cancels in them cancels. There the outputs are turned
first, U'J in place of J, so that M M' is about diagonal: then one entry of T decides. U is any matrix near orthogonal,
here from the Jacobian with all slopes in the middle; |J| <= |U'J| / (1 - |U'U - I|)^(1/2).

To norm 1 with few outputs, |J| is the largest of the rows of the combinations d'J with d_k = 1 or -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipcert.bounds.adjoint import Adjoint
from lipcert.bounds.interval import Interval, middle_and_radius
from lipcert.bounds.linear import Linear, form_bounds
from lipcert.bounds.stacks import corners, largest_eigenvalues, matrix_norms, positive_norms, vector_norms
from lipcert.bounds.tangents import Tangent
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, Array, gamma, grow

SIGNS_UP_TO = 8  # outputs: so many signs of d are enumerated for norm 1
_NUMBERS = 1 << 21  # in one array of the coefficients of all forms of a batch of cells
_APART = 1e-4  # of the trace, by which eigenvalues are kept apart: U must not depend on rounding


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
) -> Linear:
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
            pieces.append(_bounds(net, [s.rows(own) for s in slopes], norm, rows, stages))
    if len(pieces) == 1:
        return pieces[0]
    gradients = tuple(
        Interval(np.concatenate([g.lo for g in block]), np.concatenate([g.hi for g in block]))
        for block in zip(*(p.gradients for p in pieces), strict=True)
    )
    loss = tuple(np.concatenate(block) for block in zip(*(p.loss for p in pieces), strict=True))
    return Linear(np.concatenate([p.upper for p in pieces]), gradients, loss)


def _bounds(
    net: Network, slopes: list[Interval], norm: Norm, rows: Array | None, values: list[Tangent] | None
) -> Linear:
    cells = len(slopes[0].lo)
    turned = rows is None and norm.p == norm.out == "2"
    weights = _turns(net, slopes) if turned else np.eye(net.outputs) if rows is None else rows
    count = weights.shape[-2]
    each = np.repeat(np.arange(cells), count)
    every = None if values is None else [stage.rows(each) for stage in values]
    c = np.broadcast_to(weights, (cells, count, net.outputs)).reshape(-1, net.outputs)
    adjoint = Adjoint(net, tuple(s.rows(each) for s in slopes), c, every)
    found = form_bounds(adjoint, Norm(norm.p), None)
    lengths = found.upper.reshape(cells, count)
    if rows is not None:
        upper = lengths.max(axis=1)
    else:
        assert norm.out is not None
        J = Interval(*(end.reshape(cells, count, net.inputs) for end in found.gradients[0]))
        M, R = middle_and_radius(J)
        upper = np.fmin(vector_norms(lengths, norm.out), matrix_norms(M, R, norm.p, norm.out))
        upper = np.fmin(upper, _by_magnitudes(J, norm))
        if turned:
            upper = np.fmin(upper, _by_squares(adjoint, M, R))
            upper = grow(upper / np.sqrt(_straight(weights)), 8)
    return Linear(_known(upper), _together(found, cells, count), _shared(found, lengths))


def _by_magnitudes(J: Interval, norm: Norm) -> Array:
    """The norm of the largest |entries|."""
    size = _known(J.magnitude)
    if norm.p == "1" or norm.out != "2" or norm.p != "2":  # the others are in what the rows give
        assert norm.out is not None
        return vector_norms(vector_norms(size, Norm(norm.p).dual.p), norm.out)
    return positive_norms(size)


def _turns(net: Network, slopes: list[Interval]) -> Array:
    """U' of every cell: eigenvectors of M M' with all slopes in the middle, kept apart by a little more on the
    diagonal."""
    middle = [s.lo / 2 + s.hi / 2 for s in slopes]
    J = np.stack([net.chain_rule(middle, e) for e in np.eye(net.outputs)], axis=1)
    gram = J @ np.swapaxes(J, 1, 2)
    trace = np.trace(gram, axis1=1, axis2=2)
    fine = np.isfinite(trace) & (trace > 0)
    order = np.arange(net.outputs) / net.outputs
    gram = np.where(fine[:, None, None], gram / np.where(fine, trace, 1.0)[:, None, None], 0.0)
    gram = gram + _APART * np.diag(order)
    try:
        U = np.linalg.eigh(gram)[1]
    except np.linalg.LinAlgError:
        U = np.broadcast_to(np.eye(net.outputs), gram.shape)
    return np.swapaxes(U, 1, 2)


def _straight(turns: Array) -> Array:
    """At most 1 - |U'U - I| of every cell, not below a half: U is far nearer to orthogonal, or nothing is known."""
    n, size = turns.shape[-1], np.abs(turns)
    gram = turns @ np.swapaxes(turns, 1, 2)
    off = np.abs(gram - np.eye(n)) + gamma(n + 4) * (size @ np.swapaxes(size, 1, 2) + np.eye(n))
    bend = grow(off.sum(axis=2), 2 * n + 8).max(axis=1)
    return np.where(bend < 0.1, 1.0 - 2 * bend, np.nan)


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


def _together(found: Linear, cells: int, count: int) -> tuple[Interval, ...]:
    answer = []
    for g in found.gradients:
        size = np.sqrt(np.square(g.magnitude).reshape(cells, count, -1).sum(axis=1))
        answer.append(Interval(-size, size))
    return tuple(answer)


def _shared(found: Linear, lengths: Array) -> tuple[Array, ...]:
    """What the open slopes cost: that of every row counts as far as the row is near the longest."""
    cells, count = lengths.shape
    share = lengths / np.maximum(lengths.max(axis=1, keepdims=True), TINY)
    share = np.nan_to_num(np.square(share), nan=1.0, posinf=1.0)[:, :, None]
    return tuple((own.reshape(cells, count, -1) * share).sum(axis=1) for own in found.loss)


def _known(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, x)
