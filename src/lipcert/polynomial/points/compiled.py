"""Many polynomials at once: values and derivatives by a few array operations, whatever the number of terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipcert.polynomial.monomials import stack
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import Array

CHUNK = 1 << 22  # numbers in memory at once


class Compiled:
    """Polynomials p_1, ..., p_m in x_0, ..., x_{n-1} as one table of terms."""

    def __init__(self, polynomials: Sequence[Polynomial], n: int) -> None:
        self.n, self.m = n, len(polynomials)
        rows = stack([np.zeros((0, 0), dtype=np.int32), *(p.indices for p in polynomials)])
        self.rows = np.where(rows < 0, n, rows).astype(np.int64)  # column n of a point is 1
        self.coefficients = np.concatenate([np.zeros(0), *(p.coefficients for p in polynomials)])
        self.owner = np.repeat(np.arange(self.m), [len(p.coefficients) for p in polynomials]).astype(np.int64)
        self.entries = int(self.rows.size) + len(self.coefficients)

    def values(self, points: Array) -> Array:
        """p_j at every point: (B, n) -> (B, m)."""
        x = np.concatenate([points, np.ones((len(points), 1))], axis=1)
        step = max(1, CHUNK // max(1, len(self.coefficients)))
        found = [self._values(x[k : k + step]) for k in range(0, len(x), step)]
        return np.concatenate(found) if found else np.zeros((0, self.m))

    def _values(self, x: Array) -> Array:
        terms = np.broadcast_to(self.coefficients, (len(x), len(self.coefficients))).copy()
        for column in self.rows.T:
            terms *= x[:, column]
        flat = np.arange(len(x))[:, None] * self.m + self.owner
        sums = np.bincount(flat.ravel(), weights=terms.ravel(), minlength=len(x) * self.m)
        return sums.astype(np.float64).reshape(len(x), self.m)

    def value(self, x: Array) -> Array:
        """p_j at one point: (n,) -> (m,)."""
        return np.asarray(self.values(x[None, :])[0])

    def jacobian(self, x: Array) -> Array:
        """The derivative of p_j in x_i at one point: (m, n).

        A factor that occurs twice is two columns of the table, each left out once: that is the product rule.
        """
        factors = np.append(x, 1.0)[self.rows]
        width = factors.shape[1]
        after = np.ones((width + 1, len(factors)))
        for k in range(width - 1, -1, -1):
            after[k] = after[k + 1] * factors[:, k]
        total = np.zeros(self.m * (self.n + 1))
        before = self.coefficients.copy()
        for k in range(width):
            place = self.owner * (self.n + 1) + self.rows[:, k]
            total += np.bincount(place, weights=before * after[k + 1], minlength=len(total))
            before = before * factors[:, k]
        return total.reshape(self.m, self.n + 1)[:, : self.n]
