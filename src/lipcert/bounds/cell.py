"""A cell, a piece of a region, and its two halves.

A cell is the set of x of a box, perhaps cut by half-spaces, or of the whole space, with z_j >= 0 or z_j <= 0 for the
neurons whose sign is fixed.
A split cuts the box at a value of a coordinate, or the cell at the kink of a neuron; both halves are closed, so that
together they are the cell. Hence the leaves of any tree of splits that starts with the whole region cover the region.
For a ball the first cell is the box around it. Points outside the ball are no part of the region, so cells that do not
meet the ball count as empty.

The gradient: almost every x has no z_j = 0 but where z_j vanishes in a neighbourhood, and there either slope gives the
same gradient. The slopes that a half allows therefore contain those of the true gradient of almost all of its points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.problem.region import Region, ball_of, hull, restricted
from lipcert.rounding import TINY, gamma

Signs = tuple[NDArray[np.int8], ...]  # by hidden block: 1 where z >= 0, -1 where z <= 0, 0 where nothing is fixed


@dataclass(frozen=True)
class Split:
    """Layer 0: the box at x_index = value. Layer i >= 1: the kink of neuron `index` of hidden block i."""

    layer: int
    index: int
    value: float = 0.0


@dataclass(frozen=True, eq=False)
class Cell:
    """The points of a region with these signs."""

    region: Region
    signs: Signs

    @property
    def fixed(self) -> int:
        """How many signs are fixed."""
        return sum(int(np.count_nonzero(s)) for s in self.signs)


def with_signs(cells: Sequence[Cell]) -> NDArray[np.bool_]:
    """Which of the cells have a fixed sign; parts of a box have the very signs of the box."""
    seen = {id(cell.signs): cell for cell in cells}
    known = {key: any(bool(s.any()) for s in cell.signs) for key, cell in seen.items()}
    return np.array([known[id(cell.signs)] for cell in cells], dtype=bool)


def whole(net: Network, region: Region) -> Cell:
    """The region itself."""
    return Cell(region, tuple(np.zeros(b.width, dtype=np.int8) for b in net.hidden))


def first_cell(net: Network, region: Region) -> Cell:
    """The root of a tree of cells: the region itself, or the box around a ball."""
    box = hull(region)
    return whole(net, region if box is None or ball_of(region) is None else restricted(region, box))


def beside(region: Region, cells: Sequence[Cell]) -> NDArray[np.bool_]:
    """Which of the cells, all of them boxes, are proved not to meet the ball that the region is part of.

    No cell is, where there is no ball.
    """
    ball = ball_of(region)
    if ball is None:
        return np.zeros(len(cells), dtype=bool)
    boxes = [box for box in (hull(cell.region) for cell in cells) if box is not None]
    lo, hi = (np.stack([getattr(box, end) for box in boxes]) for end in ("lo", "hi"))
    n = ball.size + 8
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.maximum(np.maximum(lo - ball.center, ball.center - hi), 0.0)
        square = (away * away).sum(axis=1) * (1.0 - gamma(n)) - n * TINY
        return np.asarray(np.isfinite(square) & (square > ball.radius * ball.radius * (1.0 + gamma(8))))


def splits_here(cell: Cell, split: Split, net: Network) -> bool:
    """Whether the split means something for this cell: at an end of it one half would be the whole cell again."""
    if split.layer == 0:
        box = None if ball_of(cell.region) is not None else hull(cell.region)
        if box is None or not 0 <= split.index < box.size:
            return False
        return bool(box.lo[split.index] < split.value < box.hi[split.index])
    if not 1 <= split.layer <= net.depth or not 0 <= split.index < net.shape[split.layer]:
        return False
    return net.activations[split.layer - 1].kinked and cell.signs[split.layer - 1][split.index] == 0


def halves(cell: Cell, split: Split) -> tuple[Cell, Cell]:
    """Below and above; the split must be one that `splits_here` accepts."""
    if split.layer == 0:
        box = hull(cell.region)
        assert box is not None
        below, above = (restricted(cell.region, half) for half in box.halves(split.index, split.value))
        return Cell(below, cell.signs), Cell(above, cell.signs)
    return _with_sign(cell, split, -1), _with_sign(cell, split, 1)


def _with_sign(cell: Cell, split: Split, sign: int) -> Cell:
    signs = list(cell.signs)
    own = signs[split.layer - 1].copy()
    own[split.index] = sign
    signs[split.layer - 1] = own
    return Cell(cell.region, tuple(signs))
