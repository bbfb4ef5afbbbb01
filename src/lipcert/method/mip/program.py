"""A mixed-integer program put together block by block: variables first, rows over some of the blocks, the objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from lipcert.problem.norms import Matrix
from lipcert.rounding import Array
from lipcert.solver.mixed_integer import MixedIntegerProblem

Term = tuple[slice, Matrix]  # a block of variables and the matrix in front of it


@dataclass
class Assembly:
    """Mutable while the program grows; `problem()` is the frozen result."""

    lo: list[Array] = field(default_factory=list)
    hi: list[Array] = field(default_factory=list)
    integer: list[Any] = field(default_factory=list)
    rows: list[tuple[list[Term], Array, Array]] = field(default_factory=list)
    columns: int = 0

    def variables(self, lo: Array, hi: Array, integer: bool = False) -> slice:
        block = slice(self.columns, self.columns + len(lo))
        self.columns = block.stop
        self.lo.append(lo)
        self.hi.append(hi)
        self.integer.append(np.full(len(lo), integer))
        return block

    def binaries(self, count: int) -> slice:
        return self.variables(np.zeros(count), np.ones(count), integer=True)

    def between(self, lo: Array | None, terms: list[Term], hi: Array | None) -> None:
        """lo <= sum of matrix @ block <= hi; None leaves a side out."""
        count = terms[0][1].shape[0]
        low = np.full(count, -np.inf) if lo is None else lo
        high = np.full(count, np.inf) if hi is None else hi
        if count:
            self.rows.append((terms, low, high))

    def problem(self, cost: list[tuple[slice, Array]]) -> MixedIntegerProblem:
        """Maximise the sum of cost'block."""
        weights = np.zeros(self.columns)
        for block, values in cost:
            weights[block] = values
        groups = [self._group(terms) for terms, _, _ in self.rows]
        A = sparse.vstack(groups, format="csr") if groups else sparse.csr_array((0, self.columns))
        A = sparse.csr_array(A)
        A.eliminate_zeros()
        low = np.concatenate([np.zeros(0), *(lo for _, lo, _ in self.rows)])
        high = np.concatenate([np.zeros(0), *(hi for _, _, hi in self.rows)])
        ends = np.concatenate(self.lo), np.concatenate(self.hi)
        return MixedIntegerProblem(weights, A, low, high, *ends, np.concatenate(self.integer).astype(bool))

    def _group(self, terms: list[Term]) -> Any:
        parts = [(block, sparse.coo_array(matrix)) for block, matrix in terms]
        row = np.concatenate([m.coords[0] for _, m in parts])
        column = np.concatenate([m.coords[1] + block.start for block, m in parts])
        data = np.concatenate([m.data for _, m in parts])
        return sparse.coo_array((data, (row, column)), shape=(parts[0][1].shape[0], self.columns))


def identity(count: int) -> Matrix:
    return sparse.eye_array(count, format="csr")


def diagonal(values: Array) -> Matrix:
    return sparse.diags_array(values, format="csr")


def chosen(mask: Any) -> Matrix:
    """Picks the entries of a vector where `mask` holds."""
    return sparse.eye_array(len(mask), format="csr")[np.flatnonzero(mask)]
