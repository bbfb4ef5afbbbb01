"""The form of a program as a linear function of its multipliers, with products that use its blocks.

    M(y) = Lambda + sum_k t_k (p_k q_k' + q_k p_k') - H'H,      p = e - a w,  q = e - b w

in coordinates in which the starting multipliers are all one, y = (t, lambda): lambda is one number in norm 2, and one
for every input coordinate where they are weighted. Minimised is cost'y, the square of the bound relative to the start.

Its Cholesky factors are made block by block along a chain, and densely for other graphs (`factor`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import lapack

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
        self.terms: list[tuple[slice, slice, Array, bool]] = []  # rows, columns, matrix, whether the first of its block
        for i, block in enumerate(program.blocks, start=1):
            rows = slice(int(self.ends[i]) - self.inputs, int(self.ends[i + 1]) - self.inputs)
            for number, (j, matrix) in enumerate(block.terms):
                scaled = matrix * self.units[j] / self.units[i][:, None]
                self.terms.append((rows, slice(int(self.ends[j]), int(self.ends[j + 1])), scaled, number == 0))
        self.head = np.zeros((len(program.head[0][1]), self.n))
        for j, matrix in program.head:
            self.head[:, self.ends[j] : self.ends[j + 1]] += matrix * self.units[j] * np.sqrt(tau)
        self.used = np.flatnonzero(np.any(self.head != 0, axis=0))
        self.used_head = self.head[:, self.used]

    def rows(self, R: Array) -> Array:
        """W R, one row for every neuron."""
        found = np.zeros((self.m, *R.shape[1:]))
        for rows, columns, matrix, _ in self.terms:
            found[rows] += matrix @ R[columns]
        return found

    def right(self, V: Array) -> Array:
        """V W' for a V with a column for every coordinate."""
        found = np.zeros((len(V), self.m))
        for rows, columns, matrix, _ in self.terms:
            found[:, rows] += V[:, columns] @ matrix.T
        return found

    def pairs(self, R: Array, V: Array) -> Array:
        """p_k' R q_k for all k, and what belongs to lambda, of a symmetric R with V = W R."""
        k = self.inputs
        inner = np.zeros(self.m)
        for rows, columns, matrix, _ in self.terms:
            inner[rows] += np.einsum("kj,kj->k", V[rows, columns], matrix)
        cross = np.diagonal(V[:, k:])
        own = np.diagonal(R)[k:] - (self.a + self.b) * cross + self.a * self.b * inner
        first = np.diagonal(R)[:k]
        return np.concatenate([2 * own, [first.sum()] if len(self.cost) == self.m + 1 else first])

    def derivative(self, y: Array, R: Array, V: Array | None = None) -> Array:
        """The linear part of M at y times R, V being W R; block by block, so that what is needed stays in the cache."""
        k, shape = self.inputs, (-1,) + (1,) * (R.ndim - 1)
        V = self.rows(R) if V is None else V
        found = np.zeros_like(R)
        found[:k] = y[self.m :].reshape(shape) * R[:k]
        for rows, columns, matrix, first in self.terms:
            t, a, b = (x[rows].reshape(shape) for x in (y, self.a, self.b))
            own, image = R[k:][rows], V[rows]
            back = (-t * (a + b)) * own
            if not self.plain:
                back += (2 * t * a * b) * image
            found[columns] += matrix.T @ back
            if first:
                found[k:][rows] += (2 * t) * own
                found[k:][rows] -= (t * (a + b)) * image
        return found

    def times(self, y: Array, R: Array) -> Array:
        """M(y) R."""
        found = self.derivative(y, R)
        found[self.used] -= self.used_head.T @ (self.used_head @ R[self.used])
        return found

    def sides(self, R: Array, V: Array, inner: Array, rows: slice) -> tuple[Array, Array, Array, Array]:
        """Rows of P R P', P R Q', Q R P' and Q R Q', up to the diagonal, with V = W R and inner = W R W'."""
        upto, k = rows.stop, self.inputs
        own, left, right = R[k:, k:][rows, :upto], V[rows, k : k + upto], V[:upto, k:][:, rows].T
        a, b, inside = self.a[rows, None], self.b[rows, None], inner[rows, :upto]
        ahead, behind = self.a[:upto], self.b[:upto]
        q = own - b * left
        pq = own - right * behind
        qq = q + (b * inside - right) * behind
        if self.plain:
            return own, pq, q, qq
        p = a * inside - right
        return own - a * left + p * ahead, own - a * left + p * behind, q + (b * inside - right) * ahead, qq

    def ends_of(self, R: Array, V: Array) -> tuple[Array, Array]:
        """P R and Q R on the inputs."""
        first, image = R[self.inputs :, : self.inputs], V[:, : self.inputs]
        return first - self.a[:, None] * image, first - self.b[:, None] * image


class Factor(Protocol):
    """A factorisation of a positive definite M."""

    def solve(self, R: Array) -> Array:
        """M^-1 R."""

    def inverse(self) -> Array:
        """M^-1, dense and symmetric."""


def factor(pencil: Pencil, y: Array) -> Factor:
    """Raises LinAlgError where M(y) is not positive."""
    return ChainFactor(pencil, y) if pencil.program.is_chain else DenseFactor(pencil, y)


def factor_operations(pencil: Pencil) -> tuple[float, float]:
    """Operations of the inverse, and of solving for as many columns as there are coordinates."""
    n = float(pencil.n)
    if not pencil.program.is_chain:
        return n**3 + 2 * n**2 * max(pencil.widths), 2 * n**3
    squares = float(sum(w * w for w in pencil.widths))
    return 3 * n * squares, 6 * n * squares


def _cholesky(D: Array) -> Array:
    found, info = lapack.dpotrf(D, lower=1, clean=1)
    if info != 0 or not np.all(np.isfinite(np.diagonal(found))):
        raise np.linalg.LinAlgError("not positive definite")
    return np.asarray(found)


class DenseFactor:
    """A dense factor, for graphs with branches."""

    def __init__(self, pencil: Pencil, y: Array) -> None:
        M = pencil.times(y, np.eye(pencil.n))
        self.lower = _cholesky((M + M.T) / 2)

    def solve(self, R: Array) -> Array:
        return np.asarray(lapack.dpotrs(self.lower, R, lower=1)[0])

    def inverse(self) -> Array:
        found = lapack.dpotri(self.lower, lower=1)[0]
        return np.asarray(np.tril(found) + np.tril(found, -1).T)


class ChainFactor:
    """A factor for chains: M is block tridiagonal, with blocks D on the diagonal and O below it."""

    def __init__(self, pencil: Pencil, y: Array) -> None:
        self.ends, k = pencil.ends, pencil.inputs
        lam = y[pencil.m :]
        D = np.diag(np.broadcast_to(lam, (k,)).astype(float))
        self.lowers: list[Array] = []
        self.gains: list[Array] = []
        for i, (rows, _, W, _) in enumerate(pencil.terms):
            t, a, b = y[: pencil.m][rows], pencil.a[rows], pencil.b[rows]
            if not pencil.plain:
                D += W.T @ ((2 * t * a * b)[:, None] * W)
            below = -(t * (a + b))[:, None] * W
            self._eliminate(D, below)
            own = -self.gains[i] @ below.T
            D = (own + own.T) / 2
            D.flat[:: len(D) + 1] += 2 * t
        last = pencil.head[:, self.ends[-2] :]
        self.lowers.append(_cholesky(D - last.T @ last))

    def _eliminate(self, D: Array, below: Array) -> None:
        lower = _cholesky(D)
        self.lowers.append(lower)
        self.gains.append(np.ascontiguousarray(lapack.dpotrs(lower, below.T, lower=1)[0].T))

    def solve(self, R: Array) -> Array:
        found = np.array(R)
        parts = [found[a:b] for a, b in zip(self.ends[:-1], self.ends[1:], strict=True)]
        for i, gain in enumerate(self.gains):
            parts[i + 1] -= gain @ parts[i]
        for i, lower in enumerate(self.lowers):
            parts[i][:] = lapack.dpotrs(lower, parts[i], lower=1)[0].reshape(parts[i].shape)
        for i in range(len(self.gains) - 1, -1, -1):
            parts[i] -= self.gains[i].T @ parts[i + 1]
        return found

    def inverse(self) -> Array:
        ends, S = self.ends, np.empty((self.ends[-1],) * 2)
        S[ends[-2] :, ends[-2] :] = self._own(-1)
        for i in range(len(self.gains) - 1, -1, -1):
            a, b, c = ends[i : i + 3]
            S[a:b, b:] = -self.gains[i].T @ S[b:c, b:]
            S[b:, a:b] = S[a:b, b:].T
            own = self._own(i) - S[a:b, b:c] @ self.gains[i]
            S[a:b, a:b] = (own + own.T) / 2
        return S

    def _own(self, i: int) -> Array:
        found = lapack.dpotri(self.lowers[i], lower=1)[0]
        return np.asarray(np.tril(found) + np.tril(found, -1).T)
