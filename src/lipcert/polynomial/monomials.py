"""Monomials by the thousand: rows of variable indices.

A row holds the variables of one monomial with repetition, ascending, padded on the left with -1: in width 3 the row
(-1, 0, 0) is x0^2 and (-1, -1, -1) is 1. The lexicographic order of such rows is by degree first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import Array

Monomial = tuple[int, ...]
Rows = NDArray[np.int32]
Index = NDArray[np.int64]

ONE = np.zeros((1, 0), dtype=np.int32)


def rows_of(monomials: Iterable[Monomial]) -> Rows:
    """Monomials as rows."""
    listed = [tuple(sorted(m)) for m in monomials]
    width = max(map(len, listed), default=0)
    rows = np.full((len(listed), width), -1, dtype=np.int32)
    for k, m in enumerate(listed):
        if m:
            rows[k, width - len(m) :] = m
    return rows


def monomial_of(row: NDArray[np.int32]) -> Monomial:
    """One row as a monomial."""
    return tuple(int(i) for i in row if i >= 0)


def pad(rows: Rows, width: int) -> Rows:
    """The same monomials in wider rows."""
    if rows.shape[1] >= width:
        return rows
    filler = np.full((len(rows), width - rows.shape[1]), -1, dtype=np.int32)
    return np.concatenate([filler, rows], axis=1)


def stack(parts: Iterable[Rows]) -> Rows:
    """Rows of several widths below each other."""
    listed = list(parts)
    width = max((p.shape[1] for p in listed), default=0)
    return np.concatenate([pad(p, width) for p in listed]) if listed else ONE[:0]


def tidy(rows: Rows) -> Rows:
    """Rows sorted inside, without columns that no row needs."""
    rows = np.sort(rows, axis=1)
    used = np.flatnonzero((rows >= 0).any(axis=0)) if len(rows) else np.zeros(0, dtype=int)
    return rows[:, used[0] :] if len(used) else rows[:, rows.shape[1] :]


def unique_rows(rows: Rows) -> tuple[Rows, Index]:
    """The distinct rows in lexicographic order, and the place of each given row among them."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    base = int(rows.max(initial=-1)) + 2
    keys = np.zeros(len(rows), dtype=np.int64)
    largest = 0
    for column in rows.T:
        if (largest + 1) * base >= 2**62:  # number the prefixes afresh: the order of prefixes is kept
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64).reshape(-1)
            largest = int(keys.max())
        keys = keys * base + (column.astype(np.int64) + 1)
        largest = (largest + 1) * base
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], place.astype(np.int64).reshape(-1)


def multiply(left: Rows, right: Rows) -> Rows:
    """All products, row i * len(right) + j = left_i right_j; not sorted inside."""
    a = np.repeat(left, len(right), axis=0)
    b = np.tile(right, (len(left), 1))
    return np.concatenate([a, b], axis=1)


def all_monomials(variables: Index | Iterable[int], degree: int, simple: Iterable[int] = ()) -> list[Monomial]:
    """Every monomial of at most this degree, by degree; `simple` variables occur at most once."""
    names = sorted({int(v) for v in variables})
    once = set(simple)
    layers: list[list[Monomial]] = [[()]]
    for _ in range(degree):
        layers.append(
            [(*m, v) for m in layers[-1] for v in names if not m or v > m[-1] or (v == m[-1] and v not in once)]
        )
    return [m for layer in layers for m in layer]


def reduce_squares(rows: Rows, rules: Mapping[int, tuple[float, float]]) -> tuple[Rows, Array, Index]:
    """Replace x_i^2 by a x_i + b, for every rule i: (a, b), as long as there is such a square.

    Returns the resulting rows, the factor of each, and the row that it came from. Every factor is a product of at most
    `degree` rule coefficients, one rounding each; nothing is summed here.
    """
    rows = tidy(rows)
    factor = np.ones(len(rows))
    source = np.arange(len(rows), dtype=np.int64)
    if not rules or not len(rows) or rows.shape[1] < 2:
        return rows, factor, source
    a, b, ruled = _tables(rules, int(rows.max(initial=0)) + 1)
    while True:
        square = (rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0) & ruled[rows[:, 1:]]
        hit = np.flatnonzero(square.any(axis=1))
        if not len(hit):
            return tidy(rows), factor, source
        where = square[hit].argmax(axis=1)
        variable = rows[hit, where]
        linear, constant = rows[hit].copy(), rows[hit].copy()
        linear[np.arange(len(hit)), where] = -1
        constant[np.arange(len(hit)), where] = -1
        constant[np.arange(len(hit)), where + 1] = -1
        keep = np.ones(len(rows), dtype=bool)
        keep[hit] = False
        parts = [(rows[keep], factor[keep], source[keep])]
        parts.append((linear, factor[hit] * a[variable], source[hit]))
        parts.append((constant, factor[hit] * b[variable], source[hit]))
        rows = np.sort(np.concatenate([p[0] for p in parts]), axis=1)
        factor = np.concatenate([p[1] for p in parts])
        source = np.concatenate([p[2] for p in parts])
        alive = factor != 0
        rows, factor, source = rows[alive], factor[alive], source[alive]


def _tables(rules: Mapping[int, tuple[float, float]], size: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    a, b, ruled = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    for i, (linear, constant) in rules.items():
        if i < size:
            a[i], b[i], ruled[i] = linear, constant, True
    return a, b, ruled
