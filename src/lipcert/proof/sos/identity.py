"""The coefficients of Gram matrices and multipliers in a sum-of-squares identity, as arrays of terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import TINY, Array, grow

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Identity:
    """The coefficients of Q and lambda in the identity, as terms.

    Slot s is a row of the cones in order: "zero" and "nonnegative" of `size` rows, "psd" of order `size` with its upper
    triangle by columns. A term adds coefficient times monomial to the slot's polynomial; monomial 0 is the constant 1.
    Each coefficient is within `roundings` relative roundings of the exact one, the objective within `objective_error`.
    `reach` >= |x^a| on K, or infinite. `exact` says that coefficients and objective are not rounded at all.
    """

    objective: Array
    objective_error: Array
    slots: Index
    columns: Index
    coefficients: Array
    roundings: int
    cones: tuple[tuple[str, int], ...]
    reach: Array
    exact: bool = False

    @cached_property
    def parts(self) -> tuple[tuple[str, int, slice], ...]:
        """Kind, size and slots of every cone."""
        found: list[tuple[str, int, slice]] = []
        start = 0
        for kind, size in self.cones:
            stop = start + (size * (size + 1) // 2 if kind == "psd" else size)
            found.append((kind, size, slice(start, stop)))
            start = stop
        return tuple(found)

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.parts[-1][2].stop if self.parts else 0

    def matrices(self) -> Iterator[tuple[int, slice]]:
        """Order and slots of every Gram matrix."""
        return ((size, rows) for kind, size, rows in self.parts if kind == "psd")

    @cached_property
    def diagonal(self) -> NDArray[np.bool_]:
        """Which slots are on the diagonal of a Gram matrix."""
        marks = np.zeros(self.size, dtype=bool)
        for order, rows in self.matrices():
            marks[rows.start + np.cumsum(np.arange(1, order + 1)) - 1] = True
        return marks

    @cached_property
    def caps(self) -> tuple[Array, ...]:
        """Upper bounds on the diagonal entries of every M_k over K."""
        sizes = np.abs(self.coefficients) * self.reach[self.columns]
        count = int(np.bincount(self.slots, minlength=1).max(initial=0))
        by_slot = np.bincount(self.slots, weights=sizes, minlength=self.size).astype(np.float64)
        by_slot = grow(by_slot, count + self.roundings)
        return tuple(by_slot[rows][self.diagonal[rows]] for _, rows in self.matrices())

    def residual(self, weights: Array) -> tuple[Array, Array]:
        """r = f - sum of weighted terms, monomial by monomial, and a bound on its rounding error."""
        size = len(self.objective)
        terms = weights[self.slots] * self.coefficients
        total = np.bincount(self.columns, weights=terms, minlength=size)
        mass = np.bincount(self.columns, weights=np.abs(terms), minlength=size) + np.abs(self.objective)
        count = np.bincount(self.columns, minlength=size)
        n = int(count.max(initial=0)) + self.roundings + 8
        relative = 1.01 * (count + self.roundings + 8) * 2.0**-53
        used = np.bincount(self.columns, weights=weights[self.slots] != 0, minlength=size) > 0
        error = grow(relative * mass + (count + 8) * 4 * TINY, n)
        error = np.where(used, grow(error + self.objective_error, 2), self.objective_error)
        return self.objective - total, error


def monomial_reach(rows: NDArray[np.int32], lower: Array, upper: Array) -> Array:
    """An upper bound on |x^a| for every row a of variable indices (-1 stands for 1), for x between the bounds."""
    largest = np.concatenate([np.maximum(np.abs(lower), np.abs(upper)), [1.0]])
    with np.errstate(invalid="ignore", over="ignore"):
        factors = largest[rows]
        product = grow(np.prod(factors, axis=1), rows.shape[1])
    exact = np.all((factors == 1.0) | (factors == 0.0), axis=1)
    plain = np.prod(np.where(np.isfinite(factors), factors, 1.0), axis=1)
    product = np.where((factors == 0).any(axis=1), 0.0, np.where(exact, plain, product))
    return np.where(np.isnan(product), np.inf, product)
