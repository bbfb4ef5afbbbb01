"""RankTwoProblem: semidefinite programs whose rows are symmetric products of two vectors.

    max <C, X>   s.t.   f_a(k)' X f_b(k)  (= or <=)  b_k   for k = 1..m,      X >= 0  (N x N)

Every row is <A_k, X> with A_k = sym(f_a f_b'), of rank at most two; a few rows are sums of such terms, which share one
multiplier (|t|^2 <= 1).  A solver hands back multipliers y, and

    S(y) = sum_k y_k A_k - C >= 0,  y >= 0 on the inequalities   =>   <C, X> <= b'y   for every feasible X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lipcert.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RankTwoProblem:
    """max <C, X> s.t. f_a' X f_b (= or <=) b, X >= 0.

    Args:
        objective: C, symmetric, N x N, scipy-sparse or dense.
        vectors: the vectors f as columns, N x nf, sparse (unit vectors, sums of a few, or dense rows of a network).
        ia, ib: for each term the columns of `vectors` it multiplies.
        rhs: b.
        equality: True where the row is an equality, False where it is `<=`.
        diagonal: proved upper bounds of X_ii over the feasible set; they scale the problem.
        owner: the row of each term; left out, every term is a row.
    """

    objective: Any
    vectors: Any
    ia: Integers
    ib: Integers
    rhs: Floats
    equality: Booleans
    diagonal: Floats
    owner: Integers = None  # type: ignore[assignment]  # an array from __post_init__ on

    def __post_init__(self) -> None:
        dense = not sp.issparse(self.objective)
        objective = np.asarray(self.objective, dtype=float) if dense else sp.csr_matrix(self.objective, dtype=float)
        object.__setattr__(self, "objective", objective)
        object.__setattr__(self, "vectors", sp.csc_matrix(self.vectors, dtype=float))
        for name, kind in (("ia", np.int64), ("ib", np.int64), ("rhs", float), ("equality", bool), ("diagonal", float)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        owner = np.arange(self.rhs.size) if self.owner is None else np.asarray(self.owner, dtype=np.int64)
        object.__setattr__(self, "owner", owner)
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        n, m = self.objective.shape[0], self.rhs.size
        if self.objective.shape != (n, n) or n == 0:
            raise InputError(f"RankTwoProblem(objective): expected a square matrix, got shape {self.objective.shape}")
        if self.vectors.shape[0] != n:
            raise InputError(
                f"RankTwoProblem(vectors): expected {n} rows as in the objective, got {self.vectors.shape[0]}"
            )
        for name, like in (("rhs", m), ("equality", m), ("ia", self.owner.size), ("ib", self.owner.size)):
            if getattr(self, name).shape != (like,):
                raise InputError(
                    f"RankTwoProblem({name}): expected shape ({like},) as rhs, got {getattr(self, name).shape}"
                )
        if self.owner.ndim != 1 or not np.array_equal(np.unique(self.owner), np.arange(m)):
            raise InputError(f"RankTwoProblem(owner): every one of the {m} rows needs a term")
        if self.diagonal.shape != (n,):
            raise InputError(f"RankTwoProblem(diagonal): expected shape ({n},), got {self.diagonal.shape}")
        columns = self.vectors.shape[1]
        for name in ("ia", "ib"):
            index = getattr(self, name)
            if index.size and (index.min() < 0 or index.max() >= columns):
                raise InputError(f"RankTwoProblem({name}): indices must lie in 0..{columns - 1}")

    def _check_values(self) -> None:
        entries = self.objective.data if sp.issparse(self.objective) else self.objective
        for name, values in (("objective", entries), ("vectors", self.vectors.data), ("rhs", self.rhs)):
            if not np.all(np.isfinite(values)):
                raise InputError(f"RankTwoProblem({name}): entries must be finite, found NaN or infinity")
        if not np.all(np.isfinite(self.diagonal)) or np.any(self.diagonal <= 0):
            raise InputError("RankTwoProblem(diagonal): bounds on X_ii must be finite and positive")
        difference = abs(self.objective - self.objective.T).max()
        if difference > 1e-12 * max(1.0, float(np.max(np.abs(entries), initial=0.0))):
            raise InputError(f"RankTwoProblem(objective): must be symmetric, C - C' reaches {difference:.1e}")

    @property
    def size(self) -> int:
        """N, the order of X."""
        return int(self.objective.shape[0])

    @property
    def rows(self) -> int:
        """m, the number of rows."""
        return int(self.rhs.size)

    @property
    def terms(self) -> int:
        """The number of products, at least one for each row."""
        return int(self.owner.size)

    @cached_property
    def single(self) -> Booleans:
        """Which terms are alone in their row."""
        return np.asarray(np.bincount(self.owner, minlength=self.rows)[self.owner] == 1)

    @cached_property
    def _wide(self) -> Booleans:
        return np.asarray(np.diff(self.vectors.indptr) > 4)

    @cached_property
    def _split(self) -> tuple[Any, Floats, Integers]:
        """Narrow columns (sparse), wide columns (dense array), and each column's place among the wide ones."""
        wide = np.flatnonzero(self._wide)
        place = np.full(self._wide.size, -1, dtype=np.int64)
        place[wide] = np.arange(wide.size)
        narrow = self.vectors @ sp.diags((~self._wide).astype(float))
        return sp.csc_matrix(narrow), np.asarray(self.vectors[:, wide].toarray()), place

    def apply(self, X: Floats) -> Floats:
        """f_a' X f_b for every row: only wide vectors need a matrix product, the rest are a few entries of X."""
        narrow, dense, place = self._split
        X = np.ascontiguousarray(X)
        images = X @ dense
        value = np.zeros(self.terms)
        # A wide vector on either side: pair its image X f with the other vector.
        for first, second in ((self.ia, self.ib), (self.ib, self.ia)):
            rows = np.flatnonzero(self._wide[second] & (~self._wide[first] if second is self.ia else True))
            if rows.size:
                left = self.vectors[:, first[rows]].tocoo()
                terms = left.data * images[left.row, place[second[rows]][left.col]]
                value[rows] = np.bincount(left.col, terms, minlength=rows.size)
        rows = np.flatnonzero(~self._wide[self.ia] & ~self._wide[self.ib])
        if rows.size:
            row, p, q, weight = pair_entries(narrow, self.ia[rows], self.ib[rows])
            value[rows] = np.bincount(row, weight * X[p, q], minlength=rows.size)
        return np.bincount(self.owner, value, minlength=self.rows).astype(np.float64)

    def adjoint(self, y: Floats) -> Floats:
        """sum_k y_k sym(f_a f_b') as a dense matrix."""
        columns = self.vectors.shape[1]
        weights = np.asarray(y, dtype=float)[self.owner]
        core = sp.csr_matrix((weights, (self.ia, self.ib)), shape=(columns, columns))
        narrow, dense, _ = self._split
        wide = np.flatnonzero(self._wide)
        total = np.asarray((narrow @ core @ narrow.T).toarray())
        if wide.size:
            mixed = narrow @ (core[:, wide] + core[wide, :].T)
            touched = np.flatnonzero(np.diff(sp.csr_matrix(mixed).indptr))
            total[touched] += np.asarray(mixed[touched] @ dense.T)
            inner = core[wide][:, wide]
            if inner.nnz:
                total += dense @ np.asarray(inner @ dense.T)
        return np.asarray((total + total.T) / 2)


def pair_entries(F: Any, ia: Integers, ib: Integers) -> tuple[Integers, Integers, Integers, Floats]:
    """The products f_a[p] f_b[q] of every row as coordinates (row, p, q, weight), for columns of few entries."""
    start, count = F.indptr[:-1], np.diff(F.indptr)
    na, nb = count[ia].astype(np.int64), count[ib].astype(np.int64)
    row = np.repeat(np.arange(ia.size), na * nb)
    within = np.arange(row.size) - np.repeat(np.cumsum(na * nb) - na * nb, na * nb)
    left = start[ia][row] + within // nb[row]
    right = start[ib][row] + within % nb[row]
    return row, F.indices[left].astype(np.int64), F.indices[right].astype(np.int64), F.data[left] * F.data[right]
