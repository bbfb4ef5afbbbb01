"""Sign symmetry: changes of sign of some variables that leave a problem as it is [Loef09].

They are the vectors r over the field of two elements with r . (a mod 2) = 0 for the exponents a of every monomial of
the problem. Two basis elements share a block when every such r changes both signs or neither.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lipcert.polynomial.hierarchy.entries import Entries
from lipcert.polynomial.monomials import Index, Rows

Bits = NDArray[np.uint8]


def sign_labels(entries: Entries) -> tuple[Index, NDArray[np.bool_]]:
    """A label of every vertex, equal where all sign symmetries agree; and which equalities no symmetry changes.

    An equality may change its sign as a whole under a symmetry: its terms must only agree with each other.
    """
    n = 1 + max(int(entries.rows.max(initial=-1)), int(entries.bases.max(initial=-1)))
    support = [_word(row) for row in entries.rows[entries.fixed].tolist()]
    slots, columns = entries.equality_slots, entries.equality_columns
    order = np.argsort(slots, kind="stable")
    head = order[np.searchsorted(slots[order], slots)] if len(slots) else order
    words = [_word(row) for row in entries.rows.tolist()] if len(slots) else []
    support += [words[c] ^ words[h] for c, h in zip(columns.tolist(), columns[head].tolist(), strict=True)]
    symmetries = _orthogonal(set(support), n)
    classes = _signs(entries.bases, symmetries)
    labels = np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    even = np.ones(entries.equalities, dtype=bool)
    even[slots] = ~_signs(entries.rows[columns], symmetries).any(axis=1)
    return labels, even


def _word(row: Iterable[int]) -> int:
    """The parities of a monomial's exponents as the bits of a number."""
    word = 0
    for i in row:
        word ^= 1 << i if i >= 0 else 0
    return word


def _orthogonal(words: set[int], n: int) -> Bits:
    """A basis of the vectors orthogonal to all words, packed by variable: row i has the i-th bit of each."""
    pivots: dict[int, int] = {}  # leading bit to a word, fully reduced
    for word in words:
        rest = word
        for bit, known in pivots.items():
            rest = rest ^ known if rest >> bit & 1 else rest
        if rest:
            lead = rest.bit_length() - 1
            pivots = {bit: known ^ rest if known >> lead & 1 else known for bit, known in pivots.items()}
            pivots[lead] = rest
    free = [i for i in range(n) if i not in pivots]
    basis = np.zeros((n, max(len(free), 1)), dtype=np.uint8)
    for k, i in enumerate(free):
        basis[i, k] = 1
        for bit, known in pivots.items():
            basis[bit, k] = known >> i & 1
    return np.packbits(basis, axis=1)


def _signs(rows: Rows, symmetries: Bits) -> Bits:
    """Which symmetries change the sign of each monomial, packed."""
    extended = np.concatenate([symmetries, np.zeros((1, symmetries.shape[1]), dtype=np.uint8)])
    signs = np.zeros((len(rows), symmetries.shape[1]), dtype=np.uint8)
    for column in rows.T:
        signs ^= extended[column]
    return signs
