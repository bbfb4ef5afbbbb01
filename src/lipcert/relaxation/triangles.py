"""Triangles: (p a + q b + r c)^2 >= 1 for three signs a, b, c of y, the constant among them.

    1 + pq ab + qr bc + pr ac >= 0          N^3 of them, 4/6: too many to be written down, and few of them count

With the constant for a they are the products (1 + q b)(1 + r c) >= 0 of two signs. The objective joins inputs with
neurons only, so the other triangles speak about it through two edges and one moment that the objective does not have:
two inputs and a neuron, or two neurons and an input. On networks trained on pictures, where neighbours agree, they
close far more of the gap than the products do (docs/experiments/triangles.md). A certificate names those with a
positive multiplier as cuts (`relaxation.cuts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.relaxation.cuts import Cuts, triple_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array

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
