"""Positive semidefiniteness of a matrix with a large diagonal block, by a factorisation of its Schur complement.

    B = [ D   C ]     D diagonal and positive:     B >= 0   <=>   M - C'D^-1 C >= 0
        [ C'  M ]

With V = D^-1/2 C rounded, k rows, every entry of M - V'V is off by at most gamma(k + 12) (|M| + |V|'|V|) plus
underflow; the row sums of these errors are part of the `error` given to `is_positive`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import TINY, Array, add_down, gamma, grow
from lipcert.rounding.definite import find_shift, is_positive

LEAST = 200  # least order of a matrix that is split
WORTHWHILE = 0.3  # least share of the variables in the diagonal block
APART = 3.0  # a shift leaves room for this many times the rounding error, because another BLAS adds in another order


@dataclass(frozen=True, eq=False)
class SplitMatrix:
    """A sparse symmetric matrix S and its error, as in `is_positive`; the block of `inner` is diagonal."""

    S: Any
    error: Array
    inner: NDArray[np.int64]

    def positive(self, shift: Array) -> bool:
        """Whether S + diag(shift) >= 0 is proved, with the errors of S; False proves nothing."""
        with np.errstate(over="ignore", invalid="ignore"):
            left = self._left(shift, 1.0)
            return left is not None and is_positive(left[0], shift[self.outer], left[1])

    def shift(self) -> Array | None:
        """A shift that `positive` accepts, about as small as rounding allows; None where none is found."""
        with np.errstate(over="ignore", invalid="ignore"):
            shift = grow(2.0 * self.error, 4)
            left = self._left(shift, APART)
            if left is None:
                return None
            shift[self.outer] = find_shift(*left)
            small = self._allowance(left[1])
        if not float(np.sum(shift[self.outer])) <= small or not self.positive(shift):
            return None
        return shift

    def _allowance(self, error: Array) -> float:
        """The largest sum of a shift that compensates rounding alone."""
        n = len(error)
        return 4.0 * float(np.sum(error)) + 16.0 * n * gamma(n + 4) * float(np.abs(self.S.diagonal()).sum()) + n * TINY

    @property
    def outer(self) -> NDArray[np.int64]:
        return np.setdiff1d(np.arange(self.S.shape[0]), self.inner)

    def _left(self, shift: Array, apart: float) -> tuple[Array, Array] | None:
        """The Schur complement M - C'D^-1 C and the row sums of its errors; rounding errors count `apart` times."""
        inner, outer = self.inner, self.outer
        diagonal = np.asarray(self.S.diagonal())[inner]
        D = add_down(add_down(diagonal, shift[inner]), -self.error[inner])
        if not np.all(np.isfinite(D)) or not np.all(D > 0):
            return None
        rows = self.S[inner][:, outer]
        V = np.asarray(rows.toarray()) / np.sqrt(D)[:, None]
        M = np.asarray(self.S[outer][:, outer].toarray())
        T = M - V.T @ V
        T = (T + T.T) / 2
        k = len(inner)
        size = np.abs(V)
        reach = size.T @ size.sum(axis=1) + np.abs(M).sum(axis=1)
        # An entry of V that underflows is off by TINY, and is multiplied with every other entry of its row.
        underflow = 4.0 * (k + 4) * TINY * (len(outer) * (1.0 + size.max(initial=0.0)) + size.sum())
        rounding = grow(gamma(k + 12) * reach + underflow, 2 * k + len(outer) + 16)
        error = grow(apart * rounding + self.error[outer], 4)
        return (T, error) if np.all(np.isfinite(error)) and np.all(np.isfinite(T)) else None


def split(S: Any, error: Array) -> SplitMatrix | None:
    """S with a large diagonal block; None where the block found is small, or S has an entry that is not finite."""
    n = S.shape[0]
    if n < LEAST or not np.all(np.isfinite(S.data)):
        return None
    inner = np.flatnonzero(apart(S, np.asarray(S.diagonal()) > 0))
    return SplitMatrix(S, error, inner) if len(inner) >= WORTHWHILE * n and len(inner) < n else None


def apart(S: Any, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """An independent set of candidates in the graph of a sparse symmetric matrix, greedily by least degree."""
    links = S.tocoo()
    free, meets = candidates.copy(), (links.data != 0) & (links.row != links.col)
    row, col = links.row[meets], links.col[meets]
    degree = np.bincount(row, minlength=free.size)
    rank = np.empty(free.size, dtype=np.int64)
    rank[np.lexsort((np.arange(free.size), degree))] = np.arange(free.size)
    inside = free[row] & free[col]
    row, col = row[inside], col[inside]
    chosen = np.zeros(free.size, dtype=bool)
    while np.any(free):
        first = free.copy()
        first[row[free[row] & free[col] & (rank[col] < rank[row])]] = False
        chosen |= first
        free &= ~first
        free[col[first[row]]] = False
    return chosen
