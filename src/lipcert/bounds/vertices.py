"""The norm of the gradient where few slopes are open: the largest over their ends.

The gradient is affine in the slope of each neuron when the others are fixed: a path through the network meets a neuron
once. A norm of it is then convex in each slope, and over a box of slopes it is largest where every slope is at one of
its ends, whether an input has these slopes or not. With k open slopes these are 2^k gradients without anything open,
which cost a little each; linear bounds are exact for one open slope, and lose where several meet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval, middle_and_radius
from lipcert.bounds.stacks import matrix_norms, vector_norms
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import Array

OPEN_UP_TO = 7  # slopes, for norms;
ENTRIES_UP_TO = 4  # for entries, which are split where they are not good enough: more costs more than it saves
_NUMBERS = 1 << 20  # in one array of the slopes of some patterns


def vertex_bounds(net: Network, slopes: Sequence[Interval], norm: Norm, c: Array) -> Array:
    """The largest norm over the ends of the open slopes of every cell; infinite where these are none, one or many."""
    lo, hi = (np.concatenate([getattr(s, end) for s in slopes], axis=1) for end in ("lo", "hi"))
    is_open = lo < hi
    count = is_open.sum(axis=1)
    upper = np.full(len(lo), np.inf)
    for k in range(2, OPEN_UP_TO + 1):
        cells = np.flatnonzero(count == k)
        step = max(1, _NUMBERS // (lo.shape[1] << k))
        for own in (cells[j : j + step] for j in range(0, len(cells), step)):
            ends = _ends(lo[own], hi[own], is_open[own], k)
            upper[own] = _norms(net, ends.reshape(-1, lo.shape[1]), norm, c).reshape(len(own), -1).max(axis=1)
    return upper


def vertex_entries(net: Network, slopes: Sequence[Interval], c: Array) -> Interval:
    """The least and the largest of every entry of the gradient of c'scores over the ends of the open slopes, a row of c
    for each cell; infinite where these are one or many, and the gradient itself where there are none."""
    lo, hi = (np.concatenate([getattr(s, end) for s in slopes], axis=1) for end in ("lo", "hi"))
    is_open = lo < hi
    count = is_open.sum(axis=1)
    low, high = np.full((len(lo), net.inputs), -np.inf), np.full((len(lo), net.inputs), np.inf)
    widths = np.cumsum([b.width for b in net.hidden])[:-1]
    for k in (0, *range(2, ENTRIES_UP_TO + 1)):
        rows = np.flatnonzero(count == k)
        step = max(1, _NUMBERS // (lo.shape[1] << k))
        for own in (rows[j : j + step] for j in range(0, len(rows), step)):
            ends = _ends(lo[own], hi[own], is_open[own], k).reshape(-1, lo.shape[1])
            with np.errstate(all="ignore"):
                parts = [Interval(s, s) for s in np.split(ends, widths, axis=1)]
                g = gradient_bounds(net, (), np.repeat(c[own], 1 << k, axis=0), parts)[0]
            shape = (len(own), 1 << k, net.inputs)
            low[own], high[own] = g.lo.reshape(shape).min(axis=1), g.hi.reshape(shape).max(axis=1)
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def _ends(lo: Array, hi: Array, is_open: NDArray[np.bool_], k: int) -> Array:
    """All choices of ends of the k open slopes of every cell: (cells, choices, neurons)."""
    choices = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1  # (choices, k)
    if not k:
        return lo[:, None, :]
    place = np.clip(np.cumsum(is_open, axis=1) - 1, 0, k - 1)  # which of the open ones a neuron is
    up = np.take(choices.T, place, axis=0)  # (cells, neurons, choices)
    chosen = np.where((up > 0) & is_open[:, :, None], hi[:, :, None], lo[:, :, None])
    return np.swapaxes(chosen, 1, 2)


def _norms(net: Network, slopes: Array, norm: Norm, c: Array) -> Array:
    """At least the norms for known slopes, a row for each."""
    parts = np.split(slopes, np.cumsum([b.width for b in net.hidden])[:-1], axis=1)
    with np.errstate(all="ignore"):
        if norm.out is None:
            g = gradient_bounds(net, (), c, [Interval(s, s) for s in parts])[0]
            found = vector_norms(g.magnitude, norm.dual.p)
        else:
            every = [Interval(*2 * (np.repeat(s, net.outputs, axis=0),)) for s in parts]
            rows = gradient_bounds(net, (), np.tile(np.eye(net.outputs), (len(slopes), 1)), every)[0]
            M, R = middle_and_radius(rows)
            shape = (len(slopes), net.outputs, net.inputs)
            found = matrix_norms(M.reshape(shape), R.reshape(shape), norm.p, norm.out)
    return np.where(np.isnan(found), np.inf, found)
