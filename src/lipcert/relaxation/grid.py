"""The grid: all products (1 + p t_i)(1 + q v_j) >= 0, p and q signs, of the inputs' signs with the neurons' signs.

They are 4 p0 p1 rows, millions for a large network, but as a family they are four matrices of multipliers L_pq >= 0:

    G*(L) = - sum L_pq (1 + p t)(1 + q v)     adds to the slack matrix

    at (t, v)   - sum_pq p q L_pq / 2             at (1, t)   - sum_pq p (row sums of L_pq) / 2
    at (1, 1)   - sum of all entries              at (1, v)   - sum_pq q (column sums of L_pq) / 2

At an optimum few of them are positive (7,000 of 1.6 million on SDP-NN), and each is a cut on a pair of variables:
that is how a certificate names them (`relaxation.cuts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.relaxation.cuts import Cuts, pair_cuts
from lipcert.relaxation.model import Index, Relaxation
from lipcert.rounding import Array

SIGNS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int64)  # (p, q) of the four matrices


@dataclass(frozen=True, eq=False)
class Grid:
    """Positions in y of the constant, of t and of the free v."""

    one: int
    left: Index
    right: Index

    @property
    def shape(self) -> tuple[int, int, int]:
        return 4, len(self.left), len(self.right)


def grid_of(relaxation: Relaxation) -> Grid | None:
    """The grid of a relaxation of one hidden layer; None where there is no pair."""
    slices = relaxation.space.slices
    if "t" not in slices or "v" not in slices:
        return None
    t, v = (np.arange(slices[name].start, slices[name].stop) for name in ("t", "v"))
    return Grid(0, t, v) if len(t) and len(v) else None


def grid_parts(L: Array) -> tuple[Array, Array, Array]:
    """G*(L) at (t, v), (1, t) and (1, v)."""
    cross = -0.5 * (L[0] - L[1] - L[2] + L[3])
    rows = -0.5 * (L[0] + L[1] - L[2] - L[3]).sum(axis=1)
    columns = -0.5 * (L[0] - L[1] + L[2] - L[3]).sum(axis=0)
    return cross, rows, columns


def grid_matrix(grid: Grid, size: int, L: Array) -> sparse.csr_array:
    """G*(L) as a symmetric matrix of the order of y."""
    cross, rows, columns = grid_parts(L)
    i, j = np.repeat(grid.left, len(grid.right)), np.tile(grid.right, len(grid.left))
    one = np.full(len(grid.left) + len(grid.right), grid.one)
    row, column = np.concatenate([i, one]), np.concatenate([j, grid.left, grid.right])
    value = np.concatenate([cross.ravel(), rows, columns])
    upper = sparse.coo_array((value, (row, column)), (size, size))
    corner = sparse.coo_array(([-float(L.sum())], ([grid.one], [grid.one])), (size, size))
    return sparse.csr_array(upper + upper.T + corner)


def grid_cuts(relaxation: Relaxation, grid: Grid, L: Array, most: int = 300_000) -> tuple[Cuts, Array]:
    """The positive multipliers of a grid as cuts and their multipliers; the largest, if there are more than `most`."""
    flat = np.flatnonzero(L > 0)
    if len(flat) > most:
        flat = np.sort(flat[np.argpartition(L.ravel()[flat], -most)[-most:]])
    kind, i, j = np.unravel_index(flat, grid.shape)
    cuts = pair_cuts(relaxation, grid.left[i], SIGNS[kind, 0], grid.right[j], SIGNS[kind, 1])
    return cuts, np.asarray(L.ravel()[flat])
