"""Where a cell is split: at the coordinate, or at the kink of the neuron, whose split gains most for what is missing.

The linear bounds tell what every open slope cost the entries that are not good enough yet. Halving boxes is best while
many slopes are open; with few of them left their signs are, since combinations that no input has show as empty cells.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.linear import LinearBounds
from lipcert.entries.leaves import NEVER
from lipcert.method.branching.choose import CELLS_INPUTS
from lipcert.method.branching.judge import coordinate_scores, neuron_scores
from lipcert.problem.region import Box
from lipcert.proof.cells import Cells, Index, kinked
from lipcert.proof.entries import Asked, Bounded
from lipcert.rounding import Array

_SIGNS_UP_TO = 8  # open signs: so few are split instead of the box (cartpole in 16 s instead of 25)
_NARROW = 1e-9  # against its numbers
_NUMBERS = 1 << 22  # in one array of how neurons depend on inputs


def choices(asked: Asked, cells: Cells, found: Bounded) -> Index:
    """For every cell the coordinate, or the number of inputs plus that of the neuron, or NEVER."""
    net = asked.network
    slopes = slope_bounds(net, found.pre)
    count, n = len(cells), net.inputs
    by_input, by_neuron = np.zeros((count, n)), np.zeros((count, net.neurons))
    boxes = isinstance(asked.region, Box)
    told = found.linear is not None and bool(found.linear.loss)
    scored = boxes and (n <= CELLS_INPUTS or not all(f.piecewise_linear for f in net.activations))
    step = max(1, _NUMBERS // (n * max(net.shape))) if scored else max(1, _NUMBERS // max(net.neurons, 1))
    for own in (slice(k, k + step) for k in range(0, len(found.place) if told else 0, step)):
        place, linear = found.place[own], _rows(found.linear, own)
        rows = tuple(s.rows(place) for s in slopes)
        with np.errstate(all="ignore"):
            gain = neuron_scores(net, rows, linear, tuple(z.rows(place) for z in found.pre))
            np.add.at(by_neuron, place, _finite(gain))
            if scored:
                gain = coordinate_scores(net, rows, linear, (cells.hi / 2 - cells.lo / 2)[place])
                np.add.at(by_input, place, _finite(gain))
    is_open = np.concatenate([s.lo < s.hi for s in slopes], axis=1) if slopes else np.zeros((count, 0), dtype=bool)
    # A box without open slopes has one gradient. What signs were split for may have no points, though.
    settled = ~is_open.any(axis=1) & ~np.any(np.abs(cells.signs) == 2, axis=1)
    coordinate = _coordinates(cells, by_input) if boxes else np.full(count, NEVER)
    coordinate = np.where(settled, NEVER, coordinate)
    if not found.signs.shape[1]:
        return coordinate
    is_open &= kinked(net) & (found.signs == 0)
    many = is_open.sum(axis=1)
    signs = (many > 0) & ((many <= _SIGNS_UP_TO) | (n > CELLS_INPUTS) | (coordinate == NEVER))
    if not signs.any():
        return coordinate
    return np.where(signs, n + np.where(is_open, by_neuron, -1.0).argmax(axis=1), coordinate)


def _rows(linear: LinearBounds | None, own: slice) -> LinearBounds:
    """The hints of some of the rows."""
    assert linear is not None
    return LinearBounds(
        linear.upper[own], tuple(g.rows(own) for g in linear.gradients), tuple(x[own] for x in linear.loss)
    )


def _coordinates(cells: Cells, score: Array) -> Index:
    """The coordinate whose split gains most by the scores; the widest where they say nothing."""
    with np.errstate(over="ignore"):
        width, middle = cells.hi - cells.lo, cells.lo / 2 + cells.hi / 2
    wide = width > _NARROW * np.maximum(np.abs(cells.lo), np.abs(cells.hi))
    wide &= (cells.lo < middle) & (middle < cells.hi)
    told = np.where(wide, score, -1.0).max(axis=1, keepdims=True) > 0
    best = np.where(wide, np.where(told, score, width), -1.0).argmax(axis=1)
    return np.where(wide.any(axis=1), best, NEVER)


def _finite(x: Array) -> Array:
    return np.nan_to_num(x, nan=0.0, posinf=1e300, neginf=0.0)
