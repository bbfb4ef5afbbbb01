"""The products of LipOpt-k: sets of variables within a clique, numbered, and the linear program over their products.

A product of a set S takes each of its variables x once, as x or as 1 - x. Expanded in monomials,

    prod_{ones} x prod_{others} (1 - x)  =  sum over W, ones <= W <= S, of (-1)^|W - ones| prod_W x.

Sets are rows of ascending variables; subsets of their columns and patterns of their factors are bit masks: bit q of a
pattern is set when factor q is x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from scipy import sparse

from lipcert.errors import MethodError
from lipcert.polynomial.lcep.chain import Index, Multilinear
from lipcert.rounding import Array

MAX_PRODUCTS = 40_000_000


@dataclass(frozen=True, eq=False)
class KrivineProgram:
    """Row h of `products` expands a sum of products of factors in the monomials; `constants` are the parts without any.

    The first monomial is not 1: f = constant + objective'm. All monomials lie in [0, 1] on the box, and all rows in
    [0, infinity).
    """

    products: sparse.csc_array  # (number of rows, number of monomials)
    constants: Array
    objective: Array
    constant: float
    error: float

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.products.shape[0]), int(self.products.shape[1])

    @property
    def unit(self) -> float:
        """The power of two that the solver counts the objective in."""
        top = float(np.abs(self.objective).max(initial=0.0))
        return 2.0 ** float(np.clip(np.floor(np.log2(top)), -900, 900)) if top else 1.0


@dataclass(frozen=True, eq=False)
class ProductFamily:
    """The sets of LipOpt-k on a polynomial: those of `degree` variables in a clique, and smaller cliques whole.

    One array for each size, ascending. Product number `starts[g] + 2^size e + pattern` is that of set e in `sets[g]`.
    """

    sets: tuple[Index, ...]
    base: int

    @property
    def starts(self) -> tuple[int, ...]:
        """The first number of each size, and how many products there are."""
        counts = [len(s) << s.shape[1] for s in self.sets]
        return tuple(int(n) for n in np.concatenate([[0], np.cumsum(counts)]))

    def program(self, f: Multilinear, numbers: Index | None = None) -> KrivineProgram:
        """The products with these numbers (ascending), all of them when left out, and every monomial of f."""
        starts, chosen = self.starts, []
        for g, sets in enumerate(self.sets):
            if numbers is None:
                local = np.arange(starts[g + 1] - starts[g])
            else:
                local = numbers[(numbers >= starts[g]) & (numbers < starts[g + 1])] - starts[g]
            k = sets.shape[1]
            chosen.append(Chosen(sets[local >> k], local & ((1 << k) - 1)))
        wanted = monomials_of(f, self.base)
        keys = np.unique(np.concatenate([wanted, *(key for c in chosen for key in c.monomials(self.base))]))
        objective = np.zeros(len(keys))
        objective[np.searchsorted(keys, wanted)] = f.coefficients
        matrix, constants = _expanded(chosen, keys, self.base)
        return KrivineProgram(matrix, constants, objective, f.constant, f.error)


def product_family(f: Multilinear, degree: int) -> ProductFamily:
    """The sets over the cliques of f; refused when their products do not reach a monomial of f."""
    if degree < 1:
        raise MethodError(f"LipOpt-{degree}: the degree must be at least 1")
    base = f.n + 1
    if base**degree >= 2**62:
        raise MethodError(f"LipOpt-{degree} on {f.n} variables is too large")
    count = sum(comb(len(clique) - 1, degree - 1) for clique in f.cliques) << degree
    if count > MAX_PRODUCTS:
        raise MethodError(f"LipOpt-{degree} has more than {count:,} products here; the limit is {MAX_PRODUCTS:,}")
    family = ProductFamily(tuple(clique_subsets(f.cliques, degree, base)), base)
    _check_covered(f, family)
    return family


@dataclass(frozen=True, eq=False)
class Chosen:
    """One product of each of these sets, all of one size."""

    sets: Index
    patterns: Index

    def monomials(self, base: int) -> list[Index]:
        """The keys of all that the sets have, some of them more than once."""
        distinct = self.sets[np.unique(set_keys(self.sets, base), return_index=True)[1]]
        return [set_keys(distinct[:, columns], base) for columns in _columns(self.sets.shape[1])]


def _expanded(chosen: list[Chosen], keys: Index, base: int) -> tuple[sparse.csc_array, Array]:
    """The coefficients of products by monomial, and their constants."""
    rows: list[Index] = [np.empty(0, dtype=np.int64)]
    columns: list[Index] = [np.empty(0, dtype=np.int64)]
    values: list[Array] = [np.empty(0)]
    constants: list[Array] = [np.empty(0)]
    start = 0
    for part in chosen:
        k = part.sets.shape[1]
        signs = expansion(k)
        for w, at in zip(range(1, 1 << k), _columns(k), strict=True):
            value = signs[part.patterns, w]
            there = np.flatnonzero(value)
            rows.append(start + there)
            columns.append(np.searchsorted(keys, set_keys(part.sets[there][:, at], base)))
            values.append(value[there])
        constants.append(signs[part.patterns, 0])
        start += len(part.sets)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csc_array(entries, (start, len(keys))), np.concatenate(constants)


@cache
def expansion(k: int) -> Array:
    """Row p, column W: the coefficient of the monomial of W in the product with pattern p, for sets of size k."""
    p, w = np.arange(1 << k)[:, None], np.arange(1 << k)
    sign = 1.0 - 2.0 * ((set_sizes(k) - set_sizes(k)[:, None]) % 2)
    return np.where((p & ~w) == 0, sign, 0.0)


@cache
def set_sizes(k: int) -> Index:
    """How many bits each mask of k bits has."""
    return np.array([mask.bit_count() for mask in range(1 << k)], dtype=np.int64)


def _columns(k: int) -> list[list[int]]:
    """The columns in each mask from 1 on."""
    return [[q for q in range(k) if mask >> q & 1] for mask in range(1, 1 << k)]


def set_keys(rows: Index, base: int) -> Index:
    """One integer per row of distinct ascending variables, the same for every length that holds the same set."""
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        key = key * base + (column + 1)
    return key


def monomials_of(f: Multilinear, base: int) -> Index:
    """The keys of f's monomials: the padding -1 counts as the digit 0."""
    return set_keys(f.indices, base)


def clique_subsets(cliques: tuple[Index, ...], size: int, base: int) -> list[Index]:
    """Sets of `size` variables within a clique, each once, in the order of their keys; before them smaller cliques."""
    found: dict[int, list[Index]] = {}  # keys, of which cliques that overlap have many in common
    rest: dict[bytes, Index] = {}
    for clique in cliques:
        k = min(size, len(clique))
        others = clique[1:][_table(len(clique) - 1, k - 1)] if k > 1 else np.empty((1, 0), dtype=np.int64)
        own = np.full((len(others), 1), clique[0])
        found.setdefault(k, []).append(set_keys(np.concatenate([own, others], axis=1), base))
        rest[clique[1:].tobytes()] = clique[1:]
    for others in rest.values():
        if len(others) >= size:
            found.setdefault(size, []).append(set_keys(others[_table(len(others), size)], base))
    return [_sets_of(np.unique(np.concatenate(keys)), k, base) for k, keys in sorted(found.items())]


def _sets_of(keys: Index, size: int, base: int) -> Index:
    """The sets that have these keys: their digits, less one."""
    sets = np.empty((len(keys), size), dtype=np.int64)
    for column in reversed(range(size)):
        keys, digit = np.divmod(keys, base)
        sets[:, column] = digit - 1
    return sets


def _table(n: int, k: int) -> Index:
    """All k-subsets of range(n), one per row."""
    flat = np.fromiter((i for row in combinations(range(n), k) for i in row), dtype=np.int64, count=comb(n, k) * k)
    return flat.reshape(-1, k)


def _check_covered(f: Multilinear, family: ProductFamily) -> None:
    """A monomial outside all products is an error, never dropped."""
    wanted = monomials_of(f, family.base)
    covered = np.zeros(len(wanted), dtype=bool)
    for sets in family.sets:
        for columns in _columns(sets.shape[1]):
            covered |= np.isin(wanted, set_keys(sets[:, columns], family.base))
    if not covered.all():
        row = f.indices[int(np.argmin(covered))]
        raise MethodError(
            f"LipOpt: {int((~covered).sum())} monomials of the objective are in no product, the first is "
            f"{tuple(int(i) for i in row[row >= 0])}; raise the degree"
        )
