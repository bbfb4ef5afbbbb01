"""Entries of the Jacobian: enclosed on many cells by linear forms and at the ends of few open slopes, and at points.

A question is a row: a cell, and one score. Its entries are those of the gradient of that score, by all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.adjoint import Adjoint
from lipcert.bounds.engine import Pass
from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval, sign_matrix, times
from lipcert.bounds.linear import Linear, joined, spread_losses
from lipcert.bounds.tangents import Tangent
from lipcert.bounds.vertices import vertex_entries
from lipcert.problem.network import Network
from lipcert.rounding import Array

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Worth = Callable[[slice, Interval], Array]  # of rows and their entries: about how much each entry matters, with a sign

_NUMBERS = 1 << 21  # in one array of the coefficients of all forms of a batch of rows


def entry_bounds(
    net: Network,
    slopes: Sequence[Interval],
    rows: tuple[Index, Index, Mask],
    values: Sequence[Tangent] | None = None,
    worth: Worth | None = None,
) -> tuple[Interval, Linear | None]:
    """Bounds of the entries that the rows ask for, (rows, inputs), on cells with these slopes; others are looser.

    `rows` are the cells, the scores and which entries are wanted. `worth` asks for hints besides: what the open slopes
    cost the entries that matter.
    """
    cell, score, wanted = rows
    c = np.eye(net.outputs)[score]
    step = max(1, _NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    found: list[Interval] = []
    hints: list[Linear] = []
    with np.errstate(all="ignore"):
        for own in (slice(k, k + step) for k in range(0, len(cell), step)):
            stages = None if values is None else [stage.rows(cell[own]) for stage in values]
            adjoint = Adjoint(net, tuple(s.rows(cell[own]) for s in slopes), c[own], stages)
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
        pre = Pass(net, Interval(points, points), forms=False).run().pre if net.depth else ()
        slopes = [Interval(*(np.repeat(end, len(scores), axis=0) for end in s)) for s in slope_bounds(net, pre)]
        weights = np.tile(c, (count, 1))
        gradients = gradient_bounds(net, (), weights, slopes) if slopes else Adjoint(net, (), weights).run()
        g = signed(net, slopes, weights, gradients)
    shape = (count, len(scores), net.inputs)
    low, high = np.where(np.isnan(g.lo), -np.inf, g.lo), np.where(np.isnan(g.hi), np.inf, g.hi)
    return Interval(low.reshape(shape), high.reshape(shape))


def signed(net: Network, slopes: Sequence[Interval], c: Array, gradients: Sequence[Interval]) -> Interval:
    """The gradient by the input, cut at zero where no path of the network can make it negative, or positive.

    Whether a sum of terms can be negative is asked of the signs of its terms alone. That needs no rounding: an entry
    that is zero is found to be zero, and one that no weight can make negative is not said to be -1e-17 or more.
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
    """What lies in both; both are proved, so that only rounding could make it empty."""
    lo, hi = np.where(np.isnan(a.lo), -np.inf, a.lo), np.where(np.isnan(a.hi), np.inf, a.hi)
    return Interval(np.maximum(lo, b.lo), np.minimum(hi, b.hi))


def _hints(adjoint: Adjoint, gradients: tuple[Interval, ...], worth: Array) -> Linear:
    """What every open slope costs the sum of the entries as they matter."""
    top, losses = adjoint.largest(worth[:, None, :])
    if not losses:
        return Linear(top[:, 0], gradients, ())
    loss = spread_losses(adjoint.net, adjoint.slopes, gradients, losses, np.abs(worth))
    return Linear(top[:, 0], gradients, tuple(loss))
