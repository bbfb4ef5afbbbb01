"""Cells of a region while a tree is walked: boxes with signs of neurons, their halves, and the grid of the first cells.

A half inherits the signs that are known on its cell: a neuron whose sign is known on a box has that sign on every part
of it. A sign is 1 where z >= 0 was found and 2 where a split says so, -1 and -2 for z <= 0, and 0 where nothing is
known. Linear forms are then made of the open neurons alone. A search and a check walk in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import real, whole
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.rounding import Array

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # (cells, neurons of all hidden blocks)

SIGNS_UP_TO = 4096  # neurons: cells of larger networks carry no signs, memory would be full of them
_NUMBERS = 1 << 22  # in one array of what is known of the neurons of a batch of cells


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells: the ends of their boxes (those of the region's hull where it is no box), and their signs."""

    lo: Array
    hi: Array
    signs: Signs

    def __len__(self) -> int:
        return len(self.lo)

    def rows(self, k: slice | Index) -> Cells:
        """Some of the cells."""
        return Cells(self.lo[k], self.hi[k], self.signs[k])


def halves(cells: Cells, where: Index, value: Array) -> Cells | None:
    """Both halves of every cell, below first; None where a split does not lie inside its cell.

    `where` and `value` are those of a tree: the number of a coordinate with the value that cuts it, or behind all
    coordinates the number of a neuron.
    """
    n = cells.lo.shape[1]
    lo, hi, signs = np.repeat(cells.lo, 2, axis=0), np.repeat(cells.hi, 2, axis=0), np.repeat(cells.signs, 2, axis=0)
    box, neuron = np.flatnonzero(where < n), np.flatnonzero(where >= n)
    i, v = where[box], value[box]
    if not np.all((cells.lo[box, i] < v) & (v < cells.hi[box, i])):
        return None
    hi[2 * box, i] = v
    lo[2 * box + 1, i] = v
    j = where[neuron] - n
    # A sign that was found meanwhile is no reason to refuse: whether it shows can depend on the order of additions.
    if np.any(j >= signs.shape[1]) or not np.all(np.abs(cells.signs[neuron, j]) < 2):
        return None
    signs[2 * neuron, j], signs[2 * neuron + 1, j] = -2, 2
    return Cells(lo, hi, signs)


def batch_size(net: Network, numbers: int = 0, most: int = 4096) -> int:
    """How many cells are bounded at once: what is known of their neurons, and as many `numbers` of each, fit into one
    array of ordinary size."""
    return max(1, min(most, _NUMBERS // max(net.neurons, net.inputs, numbers, 1)))


def sign_columns(net: Network) -> int:
    """How many signs a cell carries."""
    return net.neurons if net.neurons <= SIGNS_UP_TO else 0


def kinked(net: Network) -> NDArray[np.bool_]:
    """Which neurons have a kink, all blocks one after the other."""
    return np.repeat(np.array([f.kinked for f in net.activations], dtype=bool), [b.width for b in net.hidden])


def known_values(net: Network, signs: Signs, count: int) -> tuple[Interval, ...]:
    """Pre-activation bounds that follow from the signs of `count` cells, block by block."""
    if not signs.shape[1]:
        signs = np.zeros((count, net.neurons), dtype=np.int8)
    parts = np.split(signs, np.cumsum([b.width for b in net.hidden])[:-1], axis=1)
    return tuple(Interval(np.where(s > 0, 0.0, -np.inf), np.where(s < 0, 0.0, np.inf)) for s in parts)


def found_signs(net: Network, pre: tuple[Interval, ...], before: Signs) -> Signs:
    """The signs that pre-activation bounds show for neurons with a kink; signs that a split fixed `before` stay."""
    if not before.shape[1]:
        return before
    found = [
        ((z.lo >= 0).astype(np.int8) - (z.hi <= 0).astype(np.int8)) * np.int8(f.kinked)
        for z, f in zip(pre, net.activations, strict=True)
    ]
    return np.where(np.abs(before) == 2, before, np.concatenate(found, axis=1)).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Grid:
    """A box as a grid of cells, written down as the edges along every coordinate.

    Neighbours share the same float, and the first and the last edge are those of the region. So the cells cover the
    region and no two of them have an inner point in common. The last coordinate runs fastest.
    """

    edges: tuple[Array, ...]

    @classmethod
    def equal(cls, region: Box, cells: Sequence[int], most: int) -> Grid:
        """Equal cells, so many along every coordinate; one along those in which the region has no width."""
        counts = [1 if lo == hi else n for n, lo, hi in zip(cells, region.lo, region.hi, strict=True)]
        total = math.prod(counts)
        if total > most:
            many = f"{total:,} cells are more than the limit of {most:,}; ask for fewer or raise"
            raise InputError(f"{many} max_cells", f"{many} --max-cells")
        return cls(tuple(_edges(i, n, float(region.lo[i]), float(region.hi[i])) for i, n in enumerate(counts)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along every coordinate."""
        return tuple(len(e) - 1 for e in self.edges)

    @cached_property
    def count(self) -> int:
        """All cells."""
        return math.prod(self.shape)

    def fault(self, region: Box) -> str | None:
        """Why this is no grid of the region, in words; None where it is one."""
        if len(self.edges) != region.size:
            return f"the cells have {len(self.edges)} coordinates, the region {region.size}"
        for i, e in enumerate(self.edges):
            if len(e) < 2 or e[0] != region.lo[i] or e[-1] != region.hi[i]:
                return f"the cells do not reach from end to end of coordinate {i}"
            flat = len(e) == 2 and e[0] == e[1]
            if not (np.all(e[:-1] < e[1:]) or flat):
                return f"the edges of coordinate {i} do not increase"
        return None

    def cells(self, numbers: Index, columns: int = 0) -> Cells:
        """Some cells; nothing is known of the signs of their neurons, of which there are so many columns."""
        at = np.unravel_index(numbers, self.shape)
        lo = np.stack([e[:-1][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        hi = np.stack([e[1:][k] for e, k in zip(self.edges, at, strict=True)], axis=1)
        return Cells(lo, hi, np.zeros((len(numbers), columns), dtype=np.int8))

    def groups(self, most: int, columns: int = 0) -> Iterator[tuple[Index, Cells]]:
        """All cells with their numbers, at most so many at once: where a walk begins."""
        for start in range(0, self.count, most):
            numbers = np.arange(start, min(start + most, self.count))
            yield numbers, self.cells(numbers, columns)

    def locate(self, points: Array) -> tuple[Index, NDArray[np.bool_]]:
        """The cell of every point (the last one where it lies in several), and whether it is in the region."""
        places = [np.searchsorted(e[1:-1], points[:, i], side="right") for i, e in enumerate(self.edges)]
        inside = np.all([(x >= e[0]) & (x <= e[-1]) for x, e in zip(points.T, self.edges, strict=True)], axis=0)
        return np.ravel_multi_index(places, self.shape).astype(np.int64), np.asarray(inside)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of a file: the edges of all coordinates one after the other, and how many each has."""
        return {"edges": np.concatenate(self.edges), "edge_counts": np.array([len(e) for e in self.edges])}


def read_grid(arrays: Mapping[str, Any]) -> Grid:
    """The grid of a file; whether it is one of the region is checked with it (`Grid.fault`)."""
    edges = real(arrays, "edges", (None,))
    counts = whole(arrays, "edge_counts", (None,), 2, len(edges))
    if not len(counts) or counts.sum() != len(edges):
        raise FileFormatError("'edge_counts' does not say whose edges there are")
    return Grid(tuple(np.split(edges, np.cumsum(counts)[:-1])))


def _edges(i: int, count: int, lo: float, hi: float) -> Array:
    share = np.arange(count + 1) / count
    edges = lo * (1.0 - share) + hi * share
    edges[0], edges[-1] = lo, hi
    if count > 1 and not np.all(edges[:-1] < edges[1:]):
        raise InputError(f"coordinate {i}: {count:,} cells between {lo!r} and {hi!r} have no width; ask for fewer")
    return edges
