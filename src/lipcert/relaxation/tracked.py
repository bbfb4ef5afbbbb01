"""Affine forms that know how far they are from the truth.

A `Tracked` batch of forms f_k(y) stands for exact quantities a_k with |a_k - f_k(y)| <= error_k at every true point y,
|y_i| <= 1. Coefficients are floats and exact by definition; whatever rounds on the way is added to the error. A product
of two such quantities that is known to be <= 0 (or = 0) becomes a row of the forms with a right-hand side that pays for
both errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.problem.maps import matrix
from lipcert.relaxation.model import Family, Forms, Index, Space
from lipcert.rounding import TINY, UNIT, Array, gamma, grow


@dataclass(frozen=True, eq=False)
class Tracked:
    """k forms (k x N, sparse) and the error of each."""

    matrix: Any
    error: Array

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def magnitude(self) -> Array:
        """At least |f_k(y)| for all |y_i| <= 1."""
        counts = np.diff(self.matrix.indptr)
        total = np.bincount(np.repeat(np.arange(len(self)), counts), np.abs(self.matrix.data), minlength=len(self))
        return grow(total.astype(np.float64), self.matrix.shape[1])

    @property
    def reach(self) -> Array:
        """At least |a_k| at every true point."""
        return grow(self.magnitude + self.error, 2)

    def __getitem__(self, rows: Index) -> Tracked:
        return Tracked(sparse.csr_array(self.matrix[rows]), self.error[rows])

    def __neg__(self) -> Tracked:
        return Tracked(-self.matrix, self.error)

    def __add__(self, other: Tracked) -> Tracked:
        rounding = 2 * UNIT * (self.magnitude + other.magnitude) + TINY
        return Tracked(sparse.csr_array(self.matrix + other.matrix), grow(self.error + other.error + rounding, 4))

    def __sub__(self, other: Tracked) -> Tracked:
        return self + (-other)

    def scaled(self, factors: Array) -> Tracked:
        """Every quantity times its factor."""
        rounding = 2 * UNIT * np.abs(factors) * self.magnitude + self.matrix.shape[1] * TINY
        return Tracked(self._times(factors), grow(np.abs(factors) * self.error + rounding, 4))

    def unit(self) -> Tracked:
        """The same quantities over powers of two, exactly, so that the largest coefficient is about one."""
        return self.over(self.powers)

    def over(self, powers: NDArray[np.int64]) -> Tracked:
        """Exactly, times powers of two."""
        factors = np.ldexp(1.0, powers)
        return Tracked(self._times(factors), self.error * factors + TINY)

    def _times(self, factors: Array) -> Any:
        """Every row times its factor."""
        m = self.matrix
        return sparse.csr_array((m.data * np.repeat(factors, np.diff(m.indptr)), m.indices, m.indptr), m.shape)

    @property
    def powers(self) -> NDArray[np.int64]:
        """Exponents that bring the largest coefficients to about one."""
        largest, filled = np.zeros(len(self)), np.diff(self.matrix.indptr) > 0
        if filled.any():
            largest[filled] = np.maximum.reduceat(np.abs(self.matrix.data), self.matrix.indptr[:-1][filled])
        return np.clip(-np.frexp(np.where(largest > 0, largest, 1.0))[1], -900, 900).astype(np.int64)


def in_common_units(a: Tracked, b: Tracked) -> tuple[Tracked, Tracked]:
    """Both over the powers of two of the second."""
    return a.over(b.powers), b.unit()


def exactly(forms: Forms) -> Tracked:
    """Forms that are the quantities themselves."""
    return Tracked(sparse.csr_array(forms.matrix), np.zeros(len(forms)))


def constants(space: Space, values: Array, error: Array | float = 0.0) -> Tracked:
    """Quantities without variables."""
    return Tracked(
        space.constant(values).matrix, np.broadcast_to(np.asarray(error, dtype=np.float64), values.shape).copy()
    )


def affine(space: Space, A: Any, x: Tracked, b: Array | None = None) -> Tracked:
    """A x + b with its rounding: gamma (|A| |x| + |b|) beside what x already carries."""
    A = sparse.csr_array(matrix(A))
    forms = sparse.csr_array(A @ x.matrix)
    shift = np.zeros(A.shape[0]) if b is None else b
    g = gamma(A.shape[1] + 8)
    carried = abs(A) @ x.error + g * (abs(A) @ x.magnitude + np.abs(shift)) + A.shape[1] * x.matrix.shape[1] * TINY
    error = grow(np.asarray(carried, dtype=np.float64), A.shape[1] + 8)
    return Tracked(sparse.csr_array(forms + space.constant(shift).matrix), error)


def merge(space: Space, parts: list[tuple[Index, Tracked]], count: int) -> Tracked:
    """Forms put at their places among `count`; the places left out are exactly zero."""
    error = np.zeros(count)
    total = sparse.csr_array((count, space.size))
    for places, part in parts:
        if len(places):
            into = sparse.csr_array((np.ones(len(places)), (places, np.arange(len(places)))), (count, len(places)))
            total = sparse.csr_array(total + into @ part.matrix)
            error[places] = part.error
    return Tracked(total, error)


def stack(parts: list[Tracked]) -> Tracked:
    """All forms one after the other."""
    if len(parts) == 1:
        return parts[0]
    matrix = sparse.csr_array(sparse.vstack([part.matrix for part in parts]))
    return Tracked(matrix, np.concatenate([part.error for part in parts]))


def product(name: str, a: Tracked, b: Tracked, members: Index, total: int, *, equality: bool = False) -> Family:
    """The rows a_k b_k <= 0 (or = 0), known to hold of the quantities.

    (a + e)(b + d) with |e| <= E, |d| <= D is at most a b + |a| D + |b| E + E D.
    """
    a, b = a.unit(), b.unit()
    slack = grow(a.reach * b.error + b.reach * a.error + a.error * b.error, 8)
    zero = np.zeros(len(members))
    forms = (Forms(a.matrix), Forms(b.matrix))
    if equality:
        return Family(name, *forms, zero, True, members, total, slack)
    return Family(name, *forms, slack, False, members, total)
