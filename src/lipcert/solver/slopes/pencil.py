"""The form of a program as a linear function of its multipliers, with products that use its blocks.

    M(y) = Lambda + sum_k t_k (p_k q_k' + q_k p_k') - H'H,      p = e - a w,  q = e - b w

in coordinates in which the starting multipliers are all one, y = (t, lambda): lambda is one number in norm 2, and one
for every input coordinate where they are weighted. Minimised is cost'y, the square of the bound relative to the start.
"""

from __future__ import annotations

import numpy as np

from lipcert.relaxation.slopes import SlopeProgram
from lipcert.rounding import Array


class Pencil:
    """M, its derivatives and their products with matrices on all coordinates."""

    def __init__(self, program: SlopeProgram, t: tuple[Array, ...], weights: Array | None, tau: float) -> None:
        self.program = program
        self.inputs, self.widths = program.inputs, program.widths
        self.ends = np.cumsum([0, *self.widths])
        self.n, self.m = int(self.ends[-1]), int(self.ends[-1]) - program.inputs
        self.t = np.concatenate(t)
        first = np.ones(program.inputs) if weights is None else weights**-0.5
        self.units = [first, *(own**-0.5 for own in t)]
        self.a = np.concatenate([block.a for block in program.blocks])
        self.b = np.concatenate([block.b for block in program.blocks])
        self.plain = not np.any(self.a)
        self.signed = bool(np.any(self.a * self.b > 0))  # then t > 0 does not follow from M > 0
        self.cost = np.concatenate([np.zeros(self.m), np.ones(1) if weights is None else weights])
        self.terms = []
        for i, block in enumerate(program.blocks, start=1):
            for j, matrix in block.terms:
                scaled = matrix * self.units[j] / self.units[i][:, None]
                self.terms.append((slice(*(self.ends[i : i + 2] - self.inputs)), slice(*self.ends[j : j + 2]), scaled))
        self.head = np.zeros((len(program.head[0][1]), self.n))
        for j, matrix in program.head:
            self.head[:, self.ends[j] : self.ends[j + 1]] += matrix * self.units[j] * np.sqrt(tau)
        self.used = np.flatnonzero(np.any(self.head != 0, axis=0))
        self.used_head = self.head[:, self.used]

    def rows(self, R: Array) -> Array:
        """W R, one row for every neuron."""
        found = np.zeros((self.m, *R.shape[1:]))
        for rows, columns, matrix in self.terms:
            found[rows] += matrix @ R[columns]
        return found

    def rows_back(self, R: Array) -> Array:
        """W' R, one row for every coordinate."""
        found = np.zeros((self.n, *R.shape[1:]))
        for rows, columns, matrix in self.terms:
            found[columns] += matrix.T @ R[rows]
        return found

    def right(self, V: Array) -> Array:
        """V W' for a V with a column for every coordinate."""
        found = np.zeros((len(V), self.m))
        for rows, columns, matrix in self.terms:
            found[:, rows] += V[:, columns] @ matrix.T
        return found

    def pairs(self, R: Array, V: Array) -> Array:
        """p_k' R q_k for all k, and what belongs to lambda, of a symmetric R with V = W R."""
        k = self.inputs
        inner = np.zeros(self.m)
        for rows, columns, matrix in self.terms:
            inner[rows] += np.einsum("kj,kj->k", V[rows, columns], matrix)
        cross = np.diagonal(V[:, k:])
        own = np.diagonal(R)[k:] - (self.a + self.b) * cross + self.a * self.b * inner
        first = np.diagonal(R)[:k]
        return np.concatenate([2 * own, [first.sum()] if len(self.cost) == self.m + 1 else first])

    def derivative(self, y: Array, R: Array, V: Array | None = None) -> Array:
        """The linear part of M at y times R, V being W R."""
        k, shape = self.inputs, (-1,) + (1,) * (R.ndim - 1)
        V = self.rows(R) if V is None else V
        t, a, b = (x.reshape(shape) for x in (y[: self.m], self.a, self.b))
        own = R[k:]
        found = self.rows_back(t * (2 * a * b * V - (a + b) * own))
        found[k:] += t * (2 * own - (a + b) * V)
        found[:k] += y[self.m :].reshape(shape) * R[:k]
        return found

    def times(self, y: Array, R: Array) -> Array:
        """M(y) R."""
        found = self.derivative(y, R)
        found[self.used] -= self.used_head.T @ (self.used_head @ R[self.used])
        return found

    def tables(self, R: Array, V: Array) -> tuple[Array, Array, Array, Array, Array]:
        """P R P', P R Q', Q R Q', and P R, Q R on the inputs, with V = W R."""
        k, a, b = self.inputs, self.a[:, None], self.b[:, None]
        own, cross, inner = R[k:, k:], V[:, k:], self.right(V)
        pq = own - cross.T * self.b
        qq = pq - b * cross + b * inner * self.b
        first = R[k:, :k]
        if self.plain:
            return own, pq, qq, first, first - b * V[:, :k]
        pp = own - a * cross - cross.T * self.a + a * inner * self.a
        pq = pq - a * cross + a * inner * self.b
        return pp, pq, qq, first - a * V[:, :k], first - b * V[:, :k]
