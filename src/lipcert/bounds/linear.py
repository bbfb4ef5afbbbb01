"""The linear road: the dual norm of the gradient on many cells by linear bounds, at the end by one form for the norm.

    |g|_1  <=  sum_j alpha_j g_j + beta_j                chords of |g_j| over the interval of each entry
    |g|_2^2 <= sum_j (l_j + h_j) g_j - l_j h_j           chords of the squares

whose right-hand sides are bounded as *one* linear form in g (`adjoint`): what cancels between entries cancels. The
largest |entry| needs no form of its own. It is auto_LiRPA's bound of the Jacobian [RecurJac19, LiRPA22], proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.adjoint import Adjoint
from lipcert.bounds.interval import Interval, middle_and_radius, outward, times
from lipcert.bounds.spectral import operator_norm
from lipcert.bounds.stacks import matrix_norms
from lipcert.bounds.tangents import Tangent
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, UNIT, Array, gamma, grow

_NORM_NUMBERS = 1 << 20  # likewise, where few of them are needed: the fewer cells share them the fewer they are,
_NORM_CELLS = 8  # but so many at least
_NUMBERS = 1 << 21  # in one array of the coefficients of all forms of a batch of cells


@dataclass(frozen=True, eq=False)
class Linear:
    """Of every cell: a proved bound of the norm, bounds of the gradients by x_0 .. x_m, and by hidden block about what
    the open slope of every neuron cost (a hint where to split)."""

    upper: Array
    gradients: tuple[Interval, ...]
    loss: tuple[Array, ...]


def linear_bounds(
    net: Network,
    slopes: Sequence[Interval],
    norm: Norm,
    c: Array,
    coordinate: int | None = None,
    values: Sequence[Tangent] | None = None,
) -> Linear:
    """Bounds of the gradient of c'scores on cells with these slopes, (cells, width) for every hidden block.

    c is one vector of weights, or a row for each cell; `coordinate` asks for one entry of the gradient alone; `values`
    (of `tangents`) tie the slopes of smooth activations to the input.
    """
    cells = len(slopes[0].lo) if slopes else len(np.atleast_2d(c))
    step = max(1, _NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    weights = np.broadcast_to(c, (cells, net.outputs))
    pieces = []
    for own in (slice(k, k + step) for k in range(0, cells, step)):
        stages = None if values is None else [stage.rows(own) for stage in values]
        adjoint = Adjoint(net, tuple(s.rows(own) for s in slopes), weights[own], stages)
        pieces.append(form_bounds(adjoint, norm, coordinate))
    return joined(pieces)


def joined(pieces: Sequence[Linear]) -> Linear:
    """Bounds of batches of cells, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    gradients = tuple(
        Interval(np.concatenate([g.lo for g in block]), np.concatenate([g.hi for g in block]))
        for block in zip(*(p.gradients for p in pieces), strict=True)
    )
    loss = tuple(np.concatenate(block) for block in zip(*(p.loss for p in pieces), strict=True))
    return Linear(np.concatenate([p.upper for p in pieces]), gradients, loss)


def norm_bounds(net: Network, slopes: Sequence[Interval], norm: Norm, c: Array) -> Array:
    """As `linear_bounds(...).upper`, in less time: in the infinity norm an entry whose sign is known needs no form."""
    cells = len(slopes[0].lo)
    step = max(_NORM_CELLS, _NORM_NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    pieces = []
    for own in (slice(k, k + step) for k in range(0, cells, step)):
        adjoint = Adjoint(net, tuple(s.rows(own) for s in slopes), c)
        pieces.append(form_bounds(adjoint, norm, None, entries=norm.p != "inf").upper)
    return np.concatenate(pieces)


def linear_map_bound(
    net: Network,
    slopes: Sequence[Interval],
    norm: Norm,
    coordinate: int | None = None,
    values: Sequence[Tangent] | None = None,
) -> float:
    """A bound of the operator norm of the Jacobian under slopes without an axis for cells: its rows by forms.

    |J t|_q is at most the q-norm of the dual norms of the rows, at most that of the largest |entries|, and at most the
    norm of the middle and that of the radius of all entries: exact where no slope is open (`stacks`).
    """
    rows = tuple(Interval(*(np.broadcast_to(end, (net.outputs, len(end))) for end in s)) for s in slopes)
    every = None if values is None else [stage.rows(np.zeros(net.outputs, dtype=np.int64)) for stage in values]
    found = linear_bounds(net, rows, Norm(norm.p), np.eye(net.outputs), coordinate, every)
    size = found.gradients[0].magnitude
    if coordinate is not None:
        size = size[:, [coordinate]]
    size = np.where(np.isnan(size), np.inf, size)
    assert norm.out is not None
    by_entries = operator_norm(size, norm.p, norm.out) if np.all(np.isfinite(size)) else np.inf
    if coordinate is None:
        M, R = middle_and_radius(found.gradients[0])
        with np.errstate(all="ignore"):
            by_entries = min(by_entries, float(np.fmin(matrix_norms(M[None], R[None], norm.p, norm.out)[0], np.inf)))
    return float(min(by_entries, norm.outputs.above(found.upper)))


def linear_operations(net: Network, slopes: Sequence[Interval]) -> float:
    """About the operations for one cell: every entry and every open neuron is carried up to the scores."""
    above, total = 0.0, 0.0
    for j in range(net.depth, -1, -1):
        above += sum(float(np.prod(w.shape)) for i, w in net.readers[j] if i <= net.depth)
        rows = net.inputs if j == 0 else int(np.sum(np.any(np.atleast_2d(slopes[j - 1].lo < slopes[j - 1].hi), axis=0)))
        total += 4.0 * rows * above
    return total


def form_bounds(adjoint: Adjoint, norm: Norm, coordinate: int | None, entries: bool = True) -> Linear:
    net, slopes = adjoint.net, adjoint.slopes
    with np.errstate(all="ignore"):
        gradients = adjoint.run(entries)
        g = gradients[0]
        nothing = [np.zeros(s.lo.shape) for s in slopes]
        if coordinate is not None:
            return Linear(_known(g.magnitude[:, coordinate]), gradients, tuple(nothing))
        if norm.p == "1":
            return Linear(_known(g.magnitude.max(axis=1, initial=0.0)), gradients, tuple(nothing))
        slope, shift, per_width = _chords(g, norm)
        top, losses = adjoint.largest(slope[:, None, :])
        n = g.lo.shape[1]
        rounding = grow(gamma(n + 4) * (np.abs(shift).sum(axis=1) + np.abs(top[:, 0])), n + 4)
        total = np.maximum(outward(top[:, 0] + shift.sum(axis=1), rounding).hi, 0.0)
        plain = grow((g.magnitude if norm.p == "inf" else np.square(g.magnitude)).sum(axis=1), n + 4)
        upper = np.fmin(_known(total), _known(plain))
        if norm.p == "2":
            upper = grow(np.sqrt(upper), 4)
        loss = spread_losses(net, slopes, gradients, losses, per_width)
    return Linear(_known(upper), gradients, tuple(loss))


def _chords(g: Interval, norm: Norm) -> tuple[Array, Array, Array]:
    """slope g + shift above |g| or g^2 on the interval, and its largest excess over width: what less width would save.

    At the most: of |g| at zero, of g^2 in the middle.
    """
    width = g.hi - g.lo
    if norm.p == "inf":
        sure = (g.lo >= 0) | (g.hi <= 0)
        slope = np.where(g.lo >= 0, 1.0, np.where(g.hi <= 0, -1.0, (g.hi + g.lo) / np.where(sure, 1.0, width)))
        slope = np.where(np.isfinite(slope), slope, 0.0)
        shift = np.maximum(-g.lo - slope * g.lo, g.hi - slope * g.hi)
        shift = np.where(sure, 0.0, np.maximum(shift, 0.0) + 8 * UNIT * g.magnitude + TINY)
    else:
        slope = np.where(np.isfinite(g.lo + g.hi), g.lo + g.hi, 0.0)
        shift = np.maximum(g.lo * (g.lo - slope), g.hi * (g.hi - slope))  # negative where the sign is known
        shift = shift + 8 * UNIT * np.square(g.magnitude) + TINY
        return slope, _known(shift), width / 4
    return slope, _known(shift), np.where(width > 0, shift / np.where(width > 0, width, 1.0), 0.0)


def spread_losses(
    net: Network, slopes: tuple[Interval, ...], gradients: tuple[Interval, ...], losses: list[Array], share: Array
) -> list[Array]:
    """The losses of the lines, and about what each open neuron widens the intervals of the entries by."""
    reach, answer = [share], []
    for k, (block, s) in enumerate(zip(net.hidden, slopes, strict=True)):
        moved = np.asarray(sum(times(reach[source], abs(w)) for source, w in block.terms))
        reach.append(s.magnitude * moved)
        g = gradients[k + 1]
        spread = (s.hi - s.lo) * (np.maximum(g.hi, 0.0) - np.minimum(g.lo, 0.0))
        lost = losses[k] + moved * spread
        answer.append(np.where(s.hi > s.lo, np.nan_to_num(lost, nan=1e300, posinf=1e300), 0.0))
    return answer


def _known(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, x)
