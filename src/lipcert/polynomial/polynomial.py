"""Sparse polynomials: vectorised arithmetic on rows of monomials.

    f = sum_k coefficients_k  prod_j x[indices_kj]          (index -1 stands for 1)

Coefficients are floats and exact by definition: f *is* the polynomial with these coefficients. Sums and products round
each coefficient as floating point does.

A short line of text can ask for any degree and any number of terms. The readers of files run inside `limited`, and the
arithmetic calls `charge` before it writes terms. Outside `limited` there is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import InputError
from lipcert.polynomial.monomials import Monomial, Rows, monomial_of, multiply, rows_of, stack, tidy, unique_rows
from lipcert.rounding import Array

MAX_DEGREE = 256  # degree of any intermediate product
MAX_EXPANDED = 1 << 25  # numbers written while all of a file is expanded: terms times (1 + degree), before collecting
_LEAST = 64  # numbers that every operation is charged in addition, for its overhead

_spent: ContextVar[list[int] | None] = ContextVar("spent", default=None)


@contextmanager
def limited() -> Iterator[None]:
    """Limit the sum of all expansions in this context; a nested context shares the limit of the outer one."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set([0])
    try:
        yield
    finally:
        _spent.reset(token)


def charge(terms: int, degree: int) -> None:
    """Count terms that are about to be written, and refuse them beyond the limits of the context."""
    spent = _spent.get()
    if spent is None:
        return
    if degree > MAX_DEGREE:
        raise InputError(f"a term of degree {degree:,} is beyond the limit of {MAX_DEGREE}")
    spent[0] += _LEAST + terms * (1 + degree)
    if spent[0] > MAX_EXPANDED:
        limit = f"{MAX_EXPANDED:,} numbers (terms times degree, in all operations)"
        raise InputError(f"expanding the products and sums takes more than the limit of {limit}; write it shorter")


__all__ = ["Monomial", "Polynomial"]

MAX_ENTRIES = 1 << 28  # terms times degree of a product before it is collected


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial; made from `Polynomial.variable(i)` with +, -, *, / (by numbers) and **.

    In canonical form: `indices` has one row of variables for every monomial, distinct and in lexicographic order, -1
    where there is none; `coefficients` are not zero.
    """

    indices: Rows
    coefficients: Array

    def __post_init__(self) -> None:
        rows = np.asarray(self.indices, dtype=np.int32)
        values = np.asarray(self.coefficients, dtype=np.float64)
        if rows.ndim != 2 or values.shape != (len(rows),):
            raise InputError(f"one coefficient per row is needed; got rows {rows.shape}, values {values.shape}")
        if len(rows) and int(rows.min(initial=-1)) < -1:
            raise InputError("a polynomial's variables are numbered from 0")
        if not np.all(np.isfinite(values)):
            raise InputError("a polynomial's coefficients must be finite numbers")
        unique, place = unique_rows(tidy(rows))
        total = np.bincount(place, weights=values, minlength=len(unique)) if len(values) else values
        alive = total != 0
        rows, values = tidy(unique[alive]), total[alive]
        rows.flags.writeable = False
        values.flags.writeable = False
        object.__setattr__(self, "indices", rows)
        object.__setattr__(self, "coefficients", values)

    @staticmethod
    def constant(value: float) -> Polynomial:
        """The polynomial without variables."""
        return Polynomial(np.zeros((1, 0), dtype=np.int32), np.array([float(value)]))

    @staticmethod
    def variable(i: int) -> Polynomial:
        """x_i."""
        if i < 0:
            raise InputError(f"variable({i}): variables are numbered from 0")
        return Polynomial(np.array([[i]], dtype=np.int32), np.ones(1))

    @staticmethod
    def affine(constant: float, variables: ArrayLike, coefficients: ArrayLike) -> Polynomial:
        """constant + sum_k coefficients_k x[variables_k]."""
        where = np.concatenate([[-1], np.asarray(variables, dtype=np.int32).reshape(-1)]).astype(np.int32)
        values = np.concatenate([[float(constant)], np.asarray(coefficients, dtype=np.float64).reshape(-1)])
        return Polynomial(where[:, None], values)

    @staticmethod
    def from_terms(terms: Mapping[Monomial, float]) -> Polynomial:
        """The polynomial with these coefficients, by monomial."""
        return Polynomial(rows_of(terms), np.array([float(v) for v in terms.values()]))

    @property
    def degree(self) -> int:
        """The total degree; 0 for constants and for zero."""
        return int(self.indices.shape[1])

    @property
    def variables(self) -> NDArray[np.int64]:
        """The variables that occur, ascending."""
        found = np.unique(self.indices).astype(np.int64)
        return found[found >= 0]

    def terms(self) -> dict[Monomial, float]:
        """Coefficients by monomial."""
        return {monomial_of(r): float(v) for r, v in zip(self.indices, self.coefficients, strict=True)}

    def coefficient(self, monomial: Monomial) -> float:
        """The coefficient of one monomial, zero where it does not occur."""
        return self.terms().get(tuple(sorted(monomial)), 0.0)

    def __add__(self, other: Polynomial | float) -> Polynomial:
        right = _polynomial(other)
        charge(len(self.coefficients) + len(right.coefficients), max(self.degree, right.degree))
        rows = stack([self.indices, right.indices])
        return Polynomial(rows, np.concatenate([self.coefficients, right.coefficients]))

    def __radd__(self, other: float) -> Polynomial:
        return self + other

    def __neg__(self) -> Polynomial:
        return self._with(-self.coefficients)

    def __sub__(self, other: Polynomial | float) -> Polynomial:
        return self + (-_polynomial(other))

    def __rsub__(self, other: float) -> Polynomial:
        return (-self) + other

    def __mul__(self, other: Polynomial | float) -> Polynomial:
        if not isinstance(other, Polynomial):
            return self._with(self.coefficients * float(other))
        right = other
        charge(len(self.coefficients) * len(right.coefficients), self.degree + right.degree)
        if len(self.coefficients) * len(right.coefficients) * (1 + self.degree + right.degree) > MAX_ENTRIES:
            raise InputError(f"a product of {len(self.coefficients)} and {len(right.coefficients)} terms is too large")
        rows = multiply(self.indices, right.indices)
        return Polynomial(rows, np.outer(self.coefficients, right.coefficients).reshape(-1))

    def __rmul__(self, other: float) -> Polynomial:
        return self * other

    def __truediv__(self, number: float) -> Polynomial:
        return self._with(self.coefficients / float(number))

    def __pow__(self, exponent: int) -> Polynomial:
        if not isinstance(exponent, int | np.integer) or exponent < 0:
            raise InputError(f"power {exponent}: exponents are integers >= 0")
        result, square, rest = Polynomial.constant(1.0), self, int(exponent)
        while rest:
            result = result * square if rest & 1 else result
            rest >>= 1
            square = square * square if rest else square
        return result

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float):
            other = Polynomial.constant(other)
        if not isinstance(other, Polynomial):
            return NotImplemented
        return np.array_equal(self.indices, other.indices) and np.array_equal(self.coefficients, other.coefficients)

    def __hash__(self) -> int:
        return hash((self.indices.tobytes(), self.coefficients.tobytes()))

    def __repr__(self) -> str:
        from lipcert.polynomial.text import show

        return f"Polynomial({show(self) if len(self.coefficients) <= 20 else f'{len(self.coefficients)} terms'})"

    def evaluate(self, points: ArrayLike) -> Array:
        """Values at points (B, n), or at one point, as an array (B,), in floating point."""
        x = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if self.degree and int(self.indices.max()) >= x.shape[1]:
            raise InputError(f"a point with {x.shape[1]} coordinates; variable {int(self.indices.max())} is needed")
        extended = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        values = np.ones((len(x), len(self.coefficients)))
        for column in self.indices.T:
            values *= extended[:, column]
        return np.asarray(values @ self.coefficients)

    def substitute(self, images: Mapping[int, Polynomial | float]) -> Polynomial:
        """x_i replaced by images[i], all at once."""
        polynomials = {i: _polynomial(p) for i, p in images.items()}
        touched = np.isin(self.indices, list(polynomials)).any(axis=1) if polynomials else np.zeros(0, dtype=bool)
        if not touched.any():
            return self
        parts = [Polynomial(self.indices[~touched], self.coefficients[~touched])]
        for row, value in zip(self.indices[touched], self.coefficients[touched], strict=True):
            term = Polynomial.from_terms({tuple(i for i in monomial_of(row) if i not in polynomials): float(value)})
            for i in monomial_of(row):
                term = term * polynomials[i] if i in polynomials else term
            parts.append(term)
        return total(parts)

    def rescale(self, scale: Array) -> Polynomial:
        """x_i replaced by scale_i x_i; exact where every scale is a power of two."""
        extended = np.concatenate([scale, [1.0]])
        return self._with(self.coefficients * np.prod(extended[self.indices], axis=1))

    def _with(self, coefficients: Array) -> Polynomial:
        """The same monomials with other coefficients."""
        return _canonical(self.indices, coefficients)

    def multiples(self, monomials: Rows) -> list[Polynomial]:
        """The products with monomials, exact; their terms keep their order, which is that of exponents."""
        count, terms = len(monomials), len(self.indices)
        if not terms:
            return [self] * count
        left = np.broadcast_to(self.indices, (count, *self.indices.shape))
        right = np.broadcast_to(monomials[:, None, :], (count, terms, monomials.shape[1]))
        products = np.sort(np.concatenate([left, right], axis=2), axis=2)
        unused = products.shape[2] - self.degree - (monomials >= 0).sum(axis=1)
        return [_canonical(rows[:, skip:], self.coefficients) for rows, skip in zip(products, unused, strict=True)]

    def derivative(self, i: int) -> Polynomial:
        """The partial derivative in x_i."""
        powers = (self.indices == i).sum(axis=1)
        hit = powers > 0
        rows = self.indices[hit].copy()
        if len(rows):
            rows[np.arange(len(rows)), (rows == i).argmax(axis=1)] = -1
        return Polynomial(rows, self.coefficients[hit] * powers[hit])


def total(parts: Iterable[Polynomial]) -> Polynomial:
    """The sum of many polynomials at once."""
    listed = list(parts)
    if not listed:
        return Polynomial.constant(0.0)
    charge(sum(len(p.coefficients) for p in listed), max(p.degree for p in listed))
    return Polynomial(stack(p.indices for p in listed), np.concatenate([p.coefficients for p in listed]))


def _canonical(indices: Rows, coefficients: Array) -> Polynomial:
    """A polynomial whose rows are in canonical form already; coefficients that vanished or overflowed are looked at."""
    if not (np.all(np.isfinite(coefficients)) and np.all(coefficients)):
        return Polynomial(indices, coefficients)
    indices.flags.writeable = False
    coefficients.flags.writeable = False
    made = object.__new__(Polynomial)
    object.__setattr__(made, "indices", indices)
    object.__setattr__(made, "coefficients", coefficients)
    return made


def _polynomial(value: Polynomial | float) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial.constant(float(value))
