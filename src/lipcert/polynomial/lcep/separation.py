"""Which rows of LipOpt-k a vector of moments violates, without writing all of them down.

The dual of LipOpt-k has a moment y_S for every set S of at most k variables in a clique, and asks that the moments of
all products are >= 0. The moment of a largest set is in the products of that set alone: with v_p the rest of the moment
of the product with pattern p, they say  -v_p <= y_S  for an even number of factors 1 - x and  y_S <= v_q  for an odd
one. Such a y_S exists if and only if v_p + v_q >= 0 for all p and q: the sum of two products, in which y_S cancels.
(For three variables these are the triangle inequalities, for four the triangle inequalities times x or 1 - x.) So a
program over few sets has a row for every such sum that was violated once, and no moment that nothing asks for; moments
that it does not have are put into the middle of their interval, smaller sets first. When all intervals hold, the whole
vector satisfies all of LipOpt-k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.polynomial.lcep.chain import Index, Multilinear
from lipcert.polynomial.lcep.products import (
    KrivineProgram,
    ProductFamily,
    clique_subsets,
    expansion,
    monomials_of,
    set_keys,
    set_sizes,
)
from lipcert.rounding import Array

Mask = NDArray[np.bool_]

TOLERANCE = 1e-7  # violation of a product: all products lie in [0, 1]
_BATCH = 1 << 18  # sets whose products are in memory at a time
_NO_PATTERN = -1


@dataclass(frozen=True, eq=False)
class Lattice:
    """All sets of at most k variables within a clique: `sets[j]` those of size j, `subsets[j][W]` where their subsets
    with mask W stand among the sets of their size. Entries 0 are empty.
    """

    base: int
    sets: tuple[Index, ...]
    subsets: tuple[tuple[NDArray[np.int32], ...], ...]

    @classmethod
    def of(cls, f: Multilinear, degree: int) -> Lattice:
        base = f.n + 1
        sets = [np.empty((0, 0), dtype=np.int64)]
        for size in range(1, degree + 1):
            found = clique_subsets(f.cliques, size, base)
            sets.append(next((s for s in found if s.shape[1] == size), np.empty((0, size), dtype=np.int64)))
        keys = [set_keys(s, base) for s in sets]
        subsets = []
        for size, own in enumerate(sets):
            places = [np.empty(0, dtype=np.int32)]
            for mask in range(1, 1 << size):
                columns = [q for q in range(size) if mask >> q & 1]
                at = np.searchsorted(keys[len(columns)], set_keys(own[:, columns], base))
                places.append(at.astype(np.int32))
            subsets.append(tuple(places))
        return cls(base, tuple(sets), tuple(subsets))

    @property
    def degree(self) -> int:
        return len(self.sets) - 1

    def masks(self) -> list[Mask]:
        """No set of any size."""
        return [np.zeros(len(s), dtype=bool) for s in self.sets]

    def close(self, members: list[Mask]) -> None:
        """Add all subsets."""
        for size in range(self.degree, 1, -1):
            chosen = np.flatnonzero(members[size])
            for mask in range(1, (1 << size) - 1):
                members[int(set_sizes(size)[mask])][self.subsets[size][mask][chosen]] = True


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Products `first` of sets of one size, each alone or, where `second` is not -1, added to a second product."""

    sets: Index
    first: Index
    second: Index

    @classmethod
    def none(cls) -> ProductSums:
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing)

    @classmethod
    def all_of(cls, sets: Index, size: int) -> ProductSums:
        """Every product of these sets."""
        patterns = np.tile(np.arange(1 << size), len(sets))
        return cls(np.repeat(sets, 1 << size), patterns, np.full(len(patterns), _NO_PATTERN))

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, which: Mask | Index) -> ProductSums:
        return ProductSums(self.sets[which], self.first[which], self.second[which])

    def __add__(self, other: ProductSums) -> ProductSums:
        parts = ((self.sets, other.sets), (self.first, other.first), (self.second, other.second))
        return ProductSums(*(np.concatenate(pair) for pair in parts))

    @property
    def names(self) -> Index:
        """An integer for each row: patterns have at most nine bits."""
        return (self.sets << 20) | (self.first << 10) | (self.second + 1)

    def coefficients(self, size: int) -> Array:
        """The coefficient of each subset's monomial, by mask."""
        signs = np.concatenate([expansion(size), np.zeros((1, 1 << size))])  # the last row is no pattern
        return np.asarray(signs[self.first] + signs[self.second])


@dataclass(frozen=True, eq=False)
class Selection:
    """A program of some moments: `present` by size, all products of these sets, and further rows by size."""

    lattice: Lattice
    present: list[Mask]
    rows: tuple[ProductSums, ...]  # by size: all products, then the further ones
    further: tuple[slice, ...]  # places of the further rows in the program
    columns: tuple[Index, ...]  # column of each set's moment, -1 where there is none
    program: KrivineProgram

    @classmethod
    def of(cls, lattice: Lattice, f: Multilinear, further: Sequence[ProductSums]) -> Selection:
        """The program with the moments of f's monomials and of the further rows."""
        place = _objective_places(lattice, f)
        present = lattice.masks()
        for size, at, _ in place:
            present[size][at] = True
        for size, more in enumerate(further):
            uses = more.coefficients(size) != 0
            for mask in range(1, (1 << size) - 1):
                smaller = lattice.subsets[size][mask][more.sets[uses[:, mask]]]
                present[int(set_sizes(size)[mask])][smaller] = True
        lattice.close(present)
        columns = _numbered(present)
        rows = tuple(
            ProductSums.all_of(np.flatnonzero(p), k) + more
            for k, (p, more) in enumerate(zip(present, further, strict=True))
        )
        ends = np.cumsum([len(r) for r in rows])
        slices = tuple(slice(int(e) - len(more), int(e)) for e, more in zip(ends, further, strict=True))
        matrix, constants = _matrix(lattice, rows, columns)
        objective = np.zeros(matrix.shape[1])
        for size, at, coefficients in place:
            objective[columns[size][at]] = coefficients
        program = KrivineProgram(matrix, constants, objective, f.constant, f.error)
        return cls(lattice, present, rows, slices, columns, program)

    def means(self, moments: Array) -> Array:
        """The moment of each variable, in [0, 1]; one half where it has none."""
        found = np.full(len(self.columns[1]), 0.5)
        found[self.present[1]] = np.clip(moments[self.columns[1][self.present[1]]], 0.0, 1.0)
        return found

    def violated(self, moments: Array, most: Sequence[int]) -> list[ProductSums]:
        """Sums of two products that no choice of the missing moments makes >= 0, by size: the worst, `most` of a size.

        Larger sets are looked at only where few of the smaller ones are violated.
        """
        lattice, values = self.lattice, [np.empty(0)]
        found = [ProductSums.none() for _ in lattice.sets]
        for size in range(1, lattice.degree + 1):
            own = np.full(len(lattice.sets[size]), 0.5)
            own[self.present[size]] = moments[self.columns[size][self.present[size]]]
            values.append(own)
        for size in range(2, lattice.degree + 1):
            missing = np.flatnonzero(~self.present[size])
            lo, hi, rows = _intervals(lattice, size, values, missing)
            bad = np.flatnonzero(lo - hi > TOLERANCE)
            if len(bad) > most[size]:
                bad = bad[np.argpartition(hi[bad] - lo[bad], most[size])[: most[size]]]
            found[size] = rows[bad]
            if 4 * len(bad) > most[size]:
                break
            values[size][missing] = np.clip((lo + hi) / 2, 0.0, 1.0)
        return found

    def looked_at(self) -> int:
        """Entries that `violated` goes through, at the most."""
        return sum(len(s) << 2 * size for size, s in enumerate(self.lattice.sets))

    def numbered(self, multipliers: Array, family: ProductFamily) -> tuple[Index, Array]:
        """The same multipliers for the products of the whole family: numbers, ascending, and values.

        A product of a smaller set is the sum of two products of a larger one, with x and with 1 - x.
        """
        lattice, ends = self.lattice, np.cumsum([0] + [len(r) for r in self.rows])
        at_hand = Weighted.none()
        numbers, values = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for size in range(1, lattice.degree + 1):
            own = Weighted.of(self.rows[size], multipliers[ends[size] : ends[size + 1]])
            at_hand = at_hand.and_also(own)
            above = _supersets(lattice, size) if size < lattice.degree else None
            final = np.ones(len(at_hand.sets), dtype=bool) if above is None else above[0][at_hand.sets] < 0
            done = at_hand[final]
            number = _numbers_of(family, lattice.sets[size][done.sets], done.patterns)
            numbers.append(number)
            values.append(done.weights)
            if above is not None:
                at_hand = at_hand[~final].lifted(*above)
        every, back = np.unique(np.concatenate(numbers), return_inverse=True)
        return every, np.bincount(back, weights=np.concatenate(values), minlength=len(every)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Products of sets of one size with multipliers that are > 0."""

    sets: Index
    patterns: Index
    weights: Array

    @classmethod
    def none(cls) -> Weighted:
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))

    @classmethod
    def of(cls, rows: ProductSums, weights: Array) -> Weighted:
        """A sum of two products becomes both."""
        two = rows.second >= 0
        sets, patterns = np.concatenate([rows.sets, rows.sets[two]]), np.concatenate([rows.first, rows.second[two]])
        every = cls(sets, patterns, np.concatenate([weights, weights[two]]))
        return every[np.isfinite(every.weights) & (every.weights > 0)]

    def __getitem__(self, which: Mask) -> Weighted:
        return Weighted(self.sets[which], self.patterns[which], self.weights[which])

    def and_also(self, other: Weighted) -> Weighted:
        sets, patterns = np.concatenate([self.sets, other.sets]), np.concatenate([self.patterns, other.patterns])
        return Weighted(sets, patterns, np.concatenate([self.weights, other.weights]))

    def lifted(self, above: Index, column: Index) -> Weighted:
        """The products in supersets that have one more variable in this column, as x and as 1 - x."""
        below = (1 << column[self.sets]) - 1
        spread = ((self.patterns & ~below) << 1) | (self.patterns & below)
        patterns = np.concatenate([spread, spread | (below + 1)])
        return Weighted(np.tile(above[self.sets], 2), patterns, np.tile(self.weights, 2))


def _supersets(lattice: Lattice, size: int) -> tuple[Index, Index]:
    """For each set of this size one with a further variable, -1 where there is none, and that variable's column."""
    above, column = (np.full(len(lattice.sets[size]), -1, dtype=np.int64) for _ in range(2))
    larger = np.arange(len(lattice.sets[size + 1]))
    for q in range(size + 1):
        smaller = lattice.subsets[size + 1][((1 << (size + 1)) - 1) ^ (1 << q)]
        above[smaller], column[smaller] = larger, q
    return above, column


def _numbers_of(family: ProductFamily, sets: Index, patterns: Index) -> Index:
    """The numbers of products of sets that the family has."""
    size = sets.shape[1]
    for start, own in zip(family.starts, family.sets, strict=False):
        if own.shape[1] == size:
            at = np.searchsorted(set_keys(own, family.base), set_keys(sets, family.base))
            return np.asarray(start + (at << size) + patterns)
    assert not len(sets), "every set without a superset is a whole clique"
    return np.empty(0, dtype=np.int64)


def _objective_places(lattice: Lattice, f: Multilinear) -> list[tuple[int, Index, Array]]:
    """Size by size, where the monomials of f stand, and their coefficients."""
    keys, sizes = monomials_of(f, lattice.base), (f.indices >= 0).sum(axis=1)
    found = []
    for size in np.unique(sizes).tolist():
        own = sizes == size
        at = np.searchsorted(set_keys(lattice.sets[size], lattice.base), keys[own])
        found.append((size, at, f.coefficients[own]))
    return found


def _numbered(present: list[Mask]) -> tuple[Index, ...]:
    """Columns for the sets that are present, size by size."""
    columns, start = [], 0
    for mask in present:
        column = np.full(len(mask), -1, dtype=np.int64)
        column[mask] = start + np.arange(int(mask.sum()))
        start += int(mask.sum())
        columns.append(column)
    return tuple(columns)


def _matrix(
    lattice: Lattice, rows: tuple[ProductSums, ...], columns: tuple[Index, ...]
) -> tuple[sparse.csc_array, Array]:
    """The rows in the moments that have a column."""
    places: list[tuple[Index, Index, Array]] = []
    constants, start = [], 0
    for size, own in enumerate(rows):
        coefficients = own.coefficients(size)
        constants.append(coefficients[:, 0] if size else np.empty(0))
        for mask in range(1, 1 << size):
            there = np.flatnonzero(coefficients[:, mask])
            at = columns[int(set_sizes(size)[mask])][lattice.subsets[size][mask][own.sets[there]]]
            places.append((start + there, at, coefficients[there, mask]))
        start += len(own)
    row, column, value = (np.concatenate(parts) for parts in zip(*places, strict=True))
    width = sum(int((c >= 0).sum()) for c in columns)
    return sparse.csc_array((value, (row, column)), (start, width)), np.concatenate(constants)


def _intervals(lattice: Lattice, size: int, values: list[Array], sets: Index) -> tuple[Array, Array, ProductSums]:
    """The intervals that smaller moments leave to the moments of these sets, and the two products at their ends."""
    signs, whole = expansion(size), (1 << size) - 1
    odd = (size - set_sizes(size)) % 2 == 1  # how many factors are 1 - x
    lower, upper = np.flatnonzero(~odd), np.flatnonzero(odd)
    lo, hi = np.empty(len(sets)), np.empty(len(sets))
    first, second = np.empty(len(sets), dtype=np.int64), np.empty(len(sets), dtype=np.int64)
    for begin in range(0, len(sets), _BATCH):
        part = slice(begin, min(begin + _BATCH, len(sets)))
        chosen = sets[part]
        moments = np.ones((len(chosen), whole))
        for mask in range(1, whole):
            moments[:, mask] = values[int(set_sizes(size)[mask])][lattice.subsets[size][mask][chosen]]
        rest = moments @ signs[:, :whole].T
        below, above = lower[rest[:, lower].argmin(axis=1)], upper[rest[:, upper].argmin(axis=1)]
        each = np.arange(len(chosen))
        lo[part], hi[part], first[part], second[part] = -rest[each, below], rest[each, above], below, above
    return lo, hi, ProductSums(sets, first, second)
