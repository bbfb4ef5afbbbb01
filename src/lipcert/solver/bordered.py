"""Bordered matrices: small diagonal blocks, and a dense border.

The dual matrix Z = A*(y) - C of a network's relaxation couples inputs only with the few variables of a *border*
(the anchor and the neurons) and with their own partner:

    Z = [ E   B ]     E block diagonal with blocks of at most BLOCK variables  (R x R)
        [ B'  F ]     border of K variables

so Z^-1 and products with Z cost O(N R K) instead of O(N^3).  With R = 0 this is an ordinary dense matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lipcert.relaxation.rank_two import Booleans, Floats, Integers
from lipcert.solver.dense import invert_definite

BLOCK = 12
WORTHWHILE = 0.35  # a border is used when at least this share of the variables lies outside it


def choose_border(pattern: Any, forced: Booleans) -> Booleans:
    """Which variables form the border: greedily those of highest degree, until only small blocks remain."""
    n = pattern.shape[0]
    border = forced.copy()
    pattern = sp.csr_matrix(pattern)
    while True:
        rest = np.flatnonzero(~border)
        if rest.size < WORTHWHILE * n:
            return np.ones(n, dtype=bool)
        inner = pattern[rest][:, rest]
        _, label = connected_components(inner, directed=False)
        if np.bincount(label).max() <= BLOCK:
            return border
        degree = np.diff(inner.indptr)
        border[rest[degree >= max(2.0, 0.9 * degree.max())]] = True


@dataclass(frozen=True, eq=False)
class Border:
    """The pattern: variables 0..inner-1 in diagonal blocks, the others in the border."""

    inner: int
    outer: int
    groups: tuple[Integers, ...]  # per block size s: variables, shape (blocks, s)
    indptr: Any
    indices: Any
    order: Integers  # position of each stored entry of E in the flattened blocks
    start: Integers  # entry (i, j) of E lies at start[i] + within[j] of the flattened blocks
    within: Integers

    @staticmethod
    def of(pattern: Any, inner: int) -> Border:
        size = pattern.shape[0]
        _, label = connected_components(sp.csr_matrix(pattern)[:inner][:, :inner], directed=False)
        member = np.argsort(label, kind="stable")
        count = np.bincount(label, minlength=0)
        start = np.cumsum(count) - count
        groups = tuple(
            member[start[count == s][:, None] + np.arange(s)].astype(np.int64) for s in np.unique(count) if inner
        )
        row = np.concatenate([np.repeat(g, g.shape[1], axis=1).ravel() for g in groups] or [np.zeros(0, np.int64)])
        col = np.concatenate([np.tile(g, (1, g.shape[1])).ravel() for g in groups] or [np.zeros(0, np.int64)])
        place = sp.csr_matrix((np.arange(1.0, row.size + 1), (row, col)), shape=(inner, inner))
        place.sort_indices()
        order = place.data.astype(np.int64) - 1
        begin, within, at = np.zeros(inner, dtype=np.int64), np.zeros(inner, dtype=np.int64), 0
        for g in groups:
            s = g.shape[1]
            begin[g] = at + np.arange(g.size).reshape(g.shape) * s
            within[g] = np.arange(s)
            at += g.size * s
        return Border(inner, size - inner, groups, place.indptr, place.indices, order, begin, within)

    def sparse(self, flat: Floats) -> Any:
        """E as a sparse matrix from its flattened blocks."""
        return sp.csr_matrix((flat[self.order], self.indices, self.indptr), shape=(self.inner, self.inner))

    @cached_property
    def diagonal(self) -> bool:
        """Whether every block is a number: then E needs no sparse matrix."""
        return all(g.shape[1] == 1 for g in self.groups)

    def times(self, flat: Floats, Y: Floats) -> Floats:
        """E Y."""
        if self.diagonal:
            return np.asarray(flat[self.start][:, None] * Y)
        return np.asarray(self.sparse(flat) @ Y)

    def dot(self, flat: Floats, X: Floats) -> float:
        """<E, X>."""
        if self.diagonal:
            return float(flat[self.start] @ np.diagonal(X))
        return float(self.sparse(flat).multiply(X).sum())

    def invert_blocks(self, flat: Floats) -> Floats:
        """E^-1; raises LinAlgError unless every block is positive definite."""
        result, at = np.empty_like(flat), 0
        for g in self.groups:
            blocks = flat[at : at + g.size * g.shape[1]].reshape(len(g), g.shape[1], g.shape[1])
            np.linalg.cholesky(blocks)
            result[at : at + blocks.size] = np.linalg.inv(blocks).ravel()
            at += blocks.size
        return result


@dataclass(eq=False)
class Bordered:
    """A symmetric matrix [E, B; B', F] of a given Border."""

    border: Border
    flat: Floats
    B: Floats
    F: Floats

    @property
    def size(self) -> int:
        return self.border.inner + self.border.outer

    def plus(self, step: float, other: Bordered) -> Bordered:
        return Bordered(
            self.border, self.flat + step * other.flat, self.B + step * other.B, self.F + step * other.F
        )  # fmt: skip

    def times(self, Y: Floats) -> Floats:
        """This matrix times a dense N x anything one."""
        r = self.border.inner
        if r == 0:
            return np.asarray(self.F @ Y)
        result = np.empty_like(Y)
        np.matmul(self.B, Y[r:], out=result[:r])
        result[:r] += self.border.times(self.flat, Y[:r])
        np.matmul(self.F, Y[r:], out=result[r:])
        result[r:] += self.B.T @ Y[:r]
        return result

    def dot(self, X: Floats) -> float:
        """<this, X> for a dense symmetric X."""
        r = self.border.inner
        inside = self.border.dot(self.flat, X[:r, :r]) if r else 0.0
        return inside + 2.0 * float(np.vdot(self.B, X[:r, r:])) + float(np.vdot(self.F, X[r:, r:]))

    def norm(self) -> float:
        return float(np.sqrt(self.flat @ self.flat + 2.0 * np.vdot(self.B, self.B) + np.vdot(self.F, self.F)))

    def toarray(self) -> Floats:
        r = self.border.inner
        full = np.empty((r + self.border.outer,) * 2)
        full[:r, :r] = self.border.sparse(self.flat).toarray()
        full[:r, r:] = self.B
        full[r:, :r] = self.B.T
        full[r:, r:] = self.F
        return full


class Inverse:
    """Z^-1 of a positive definite bordered matrix; raises LinAlgError when Z is not positive definite."""

    def __init__(self, Z: Bordered) -> None:
        self.border = Z.border
        r = self.border.inner
        self.flat = self.border.invert_blocks(Z.flat)
        self.U = self.border.times(self.flat, Z.B) if r else Z.B  # E^-1 B
        core = Z.F - Z.B.T @ self.U if r else Z.F
        self.core = invert_definite(core)  # S^-1, S the Schur complement of E

    def times(self, Y: Floats) -> Floats:
        """Z^-1 Y."""
        r = self.border.inner
        if r == 0:
            return np.asarray(self.core @ Y)
        result = np.empty_like(Y)
        np.matmul(self.core, Y[r:] - self.U.T @ Y[:r], out=result[r:])
        np.matmul(self.U, result[r:], out=result[:r])
        np.subtract(self.border.times(self.flat, Y[:r]), result[:r], out=result[:r])
        return result

    def toarray(self) -> Floats:
        r = self.border.inner
        if r == 0:
            return self.core
        full = np.empty((r + self.border.outer,) * 2)
        full[r:, r:] = self.core
        cross = self.U @ self.core
        np.matmul(cross, self.U.T, out=full[:r, :r])
        inner = self.border.sparse(self.flat).tocoo()
        full[inner.row, inner.col] += inner.data
        np.negative(cross, out=full[:r, r:])
        full[r:, :r] = full[:r, r:].T
        return full
