"""Cholesky factors of the form M: block by block along a chain, dense for other graphs."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from lipcert.rounding import Array
from lipcert.solver.slopes.pencil import Pencil


class Factor(Protocol):
    """Of a positive definite M."""

    def solve(self, R: Array) -> Array:
        """M^-1 R."""

    def inverse(self) -> Array:
        """M^-1, dense and symmetric."""


def factor(pencil: Pencil, y: Array) -> Factor:
    """Raises LinAlgError where M(y) is not positive."""
    return ChainFactor(pencil, y) if pencil.program.is_chain else DenseFactor(pencil, y)


def factor_operations(pencil: Pencil) -> tuple[float, float]:
    """Of the inverse, and of solving for as many columns as there are coordinates."""
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
    """For graphs with branches."""

    def __init__(self, pencil: Pencil, y: Array) -> None:
        M = pencil.times(y, np.eye(pencil.n))
        self.lower = _cholesky((M + M.T) / 2)

    def solve(self, R: Array) -> Array:
        return np.asarray(lapack.dpotrs(self.lower, R, lower=1)[0])

    def inverse(self) -> Array:
        found = lapack.dpotri(self.lower, lower=1)[0]
        return np.asarray(np.tril(found) + np.tril(found, -1).T)


class ChainFactor:
    """For chains: M is block tridiagonal, with blocks D on the diagonal and O below it."""

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
