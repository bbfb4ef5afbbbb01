"""Families of sign cuts that are too many to be written down: products of two signs, and triangles.

*The grid*: all products (1 + p t_i)(1 + q v_j) >= 0, p and q signs, of the inputs' signs with the neurons' signs. They
are 4 p0 p1 rows, millions for a large network, but as a family they are four matrices of multipliers L_pq >= 0:

    G*(L) = - sum L_pq (1 + p t)(1 + q v)     adds to the slack matrix

    at (t, v)   - sum_pq p q L_pq / 2             at (1, t)   - sum_pq p (row sums of L_pq) / 2
    at (1, 1)   - sum of all entries              at (1, v)   - sum_pq q (column sums of L_pq) / 2

At an optimum few of them are positive (7,000 of 1.6 million on SDP-NN), and each is a cut on a pair of variables: a
certificate names them as such (`relaxation.cuts`).

*Triangles*: (p a + q b + r c)^2 >= 1 for three signs a, b, c of y, the constant among them.

    1 + pq ab + qr bc + pr ac >= 0          N^3 of them, 4/6: few of them count

With the constant for a they are the products of the grid. The objective joins inputs with neurons only, so the other
triangles speak about it through two edges and one moment that the objective does not have: two inputs and a neuron, or
two neurons and an input. On networks trained on pictures, where neighbours agree, they close far more of the gap than
the products do (docs/experiments/triangles.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.relaxation.cuts import Cuts, pair_cuts, triple_cuts
from lipcert.relaxation.model import Index, Relaxation
from lipcert.rounding import Array

SIGNS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int64)  # (p, q) of the four matrices


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions in y of the constant, of t and of the free v."""

    one: int
    left: Index
    right: Index

    @property
    def shape(self) -> tuple[int, int, int]:
        return 4, len(self.left), len(self.right)


def grid_of(relaxation: Relaxation) -> Positions | None:
    """The grid of a relaxation of one hidden layer; None where there is no pair."""
    slices = relaxation.space.slices
    if "t" not in slices or "v" not in slices:
        return None
    t, v = (np.arange(slices[name].start, slices[name].stop) for name in ("t", "v"))
    return Positions(0, t, v) if len(t) and len(v) else None


def grid_parts(L: Array) -> tuple[Array, Array, Array]:
    """G*(L) at (t, v), (1, t) and (1, v)."""
    cross = -0.5 * (L[0] - L[1] - L[2] + L[3])
    rows = -0.5 * (L[0] + L[1] - L[2] - L[3]).sum(axis=1)
    columns = -0.5 * (L[0] - L[1] + L[2] - L[3]).sum(axis=0)
    return cross, rows, columns


def grid_matrix(grid: Positions, size: int, L: Array) -> sparse.csr_array:
    """G*(L) as a symmetric matrix of the order of y."""
    cross, rows, columns = grid_parts(L)
    i, j = np.repeat(grid.left, len(grid.right)), np.tile(grid.right, len(grid.left))
    one = np.full(len(grid.left) + len(grid.right), grid.one)
    row, column = np.concatenate([i, one]), np.concatenate([j, grid.left, grid.right])
    value = np.concatenate([cross.ravel(), rows, columns])
    upper = sparse.coo_array((value, (row, column)), (size, size))
    corner = sparse.coo_array(([-float(L.sum())], ([grid.one], [grid.one])), (size, size))
    return sparse.csr_array(upper + upper.T + corner)


def grid_cuts(relaxation: Relaxation, grid: Positions, L: Array, most: int = 300_000) -> tuple[Cuts, Array]:
    """The positive multipliers of a grid as cuts and their multipliers; the largest, if there are more than `most`."""
    flat = np.flatnonzero(L > 0)
    if len(flat) > most:
        flat = np.sort(flat[np.argpartition(L.ravel()[flat], -most)[-most:]])
    kind, i, j = np.unravel_index(flat, grid.shape)
    cuts = pair_cuts(relaxation, grid.left[i], SIGNS[kind, 0], grid.right[j], SIGNS[kind, 1])
    return cuts, np.asarray(L.ravel()[flat])


Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Triangles:
    """Places in y, increasing in each row, and their signs, the first of each row +1: one row for every triangle."""

    nodes: Nodes
    signs: Nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @staticmethod
    def of(nodes: Nodes, signs: Nodes) -> Triangles:
        """Each once, in the order of their names; any order of the three and either overall sign is welcome."""
        order = np.argsort(nodes, axis=1)
        nodes, signs = np.take_along_axis(nodes, order, axis=1), np.take_along_axis(signs, order, axis=1)
        found = Triangles(nodes, signs * signs[:, :1])
        return found[np.unique(found.names(), return_index=True)[1]]

    def __getitem__(self, which: NDArray[np.bool_] | Nodes) -> Triangles:
        return Triangles(self.nodes[which], self.signs[which])

    def names(self) -> Nodes:
        """A number for each."""
        a, b, c = self.nodes.T
        named: Nodes = (((a << 20) + b << 20) + c << 2) + (self.signs[:, 1] > 0) * 2 + (self.signs[:, 2] > 0)
        return named

    def joined(self, other: Triangles) -> Triangles:
        return Triangles(np.concatenate([self.nodes, other.nodes]), np.concatenate([self.signs, other.signs]))


NO_TRIANGLES = Triangles(np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3), dtype=np.int64))


def triangle_rows(relaxation: Relaxation, triangles: Triangles, g: Array, d: Array) -> tuple[Cuts, Array, Array]:
    """Multipliers g of the triangles and d of X_ii = 1 as cuts, their multipliers, and those of the diagonal.

    As a row of the problem a triangle is a square, which has a diagonal: 3 + 2 (pq ab + ..) >= 1 at half of g.
    """
    used = g > 0
    triangles, half = triangles[used], g[used] / 2
    diagonal = d + np.bincount(triangles.nodes.ravel(), np.repeat(half, 3), minlength=len(d))
    return triple_cuts(relaxation, triangles.nodes, triangles.signs), np.asarray(half), np.asarray(diagonal)
