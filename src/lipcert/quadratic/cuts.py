"""Cuts: valid inequalities on pairs and triples of variables, found where a moment matrix violates them.

    pairs     (1 + p a)(1 + q b) >= 0           for |a|, |b| <= 1: all entries of y, p and q signs
    triples   (p a + q b + r c)^2 >= 1          for signs a, b, c: the sum of three odd numbers is odd

Pairs are the triangle inequalities of max-cut that use the constant; triples are the others. Both are rank-two rows and
hold at every true point whatever the network, so a certificate can name any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.quadratic.model import Family, Forms, Index, Relaxation, Space, with_families
from lipcert.rounding import Array

FAMILY = "cuts"
_COLUMNS = 9  # block, place, sign of a, of b, of c; block -1 where there is no c
_TRIPLES_UP_TO = 300  # signs, for the search over all triples


@dataclass(frozen=True, eq=False)
class Cuts:
    """A table of cuts, one row each: (block, place, sign) of two or three entries of y.

    Blocks are numbered in the order of the relaxation's space, places are those of `Relaxation.spread`: they do not
    depend on which neurons happen to be stable.
    """

    table: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.table)

    def joined(self, other: Cuts) -> Cuts:
        return Cuts(np.concatenate([self.table, other.table]))

    def kept(self, which: NDArray[np.bool_]) -> Cuts:
        return Cuts(self.table[which])


NO_CUTS = Cuts(np.zeros((0, _COLUMNS), dtype=np.int64))


def valid_table(table: NDArray[np.int64]) -> bool:
    """Whether a table read from a file has the form of cuts; which entries it names is up to it."""
    if table.ndim != 2 or table.shape[1] != _COLUMNS:
        return False
    signs = table[:, 2::3]
    alone = table[:, 6] == -1
    return bool(np.all(np.abs(signs[:, :2]) == 1) and np.all(np.where(alone, 0, 1) == np.abs(signs[:, 2])))


def with_cuts(relaxation: Relaxation, cuts: Cuts) -> Relaxation:
    """The relaxation with these rows besides its own; cuts on entries that are not there are left out."""
    if not len(cuts):
        return relaxation
    space = relaxation.space
    where = np.stack([_entries(relaxation, cuts.table[:, k], cuts.table[:, k + 1]) for k in (0, 3, 6)], axis=1)
    three = cuts.table[:, 6] >= 0
    binary = _signs_only(space)
    possible = np.all(where[:, :2] >= 0, axis=1)
    odd = three & possible & (where[:, 2] >= 0) & np.all(binary[np.maximum(where, 0)], axis=1)
    members = np.flatnonzero(np.where(three, odd, possible))
    signs = cuts.table[:, 2::3].astype(np.float64)
    first = _forms(space, where, signs, three, members, True)
    second = _forms(space, where, signs, three, members, False)
    rhs = np.where(three[members], -1.0, 0.0)
    family = Family(FAMILY, -first, second, rhs, False, members, len(cuts))
    return with_families(relaxation, [family])


def _forms(space: Space, where: Index, signs: Array, three: NDArray[np.bool_], members: Index, left: bool) -> Forms:
    """1 + p a (left) and 1 + q b (right) of pairs; p a + q b + r c on both sides of triples."""
    k = len(members)
    rows, columns, values = [], [], []
    pair, triple = np.flatnonzero(~three[members]), np.flatnonzero(three[members])
    side = 0 if left else 1
    rows += [pair, pair]
    columns += [np.zeros(len(pair), dtype=np.int64), where[members[pair], side]]
    values += [np.ones(len(pair)), signs[members[pair], side]]
    for j in range(3):
        rows.append(triple)
        columns.append(where[members[triple], j])
        values.append(signs[members[triple], j])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return Forms(sparse.csr_array(sparse.coo_array(entries, (k, space.size))))


def _entries(relaxation: Relaxation, blocks: NDArray[np.int64], places: NDArray[np.int64]) -> Index:
    """Positions in y of (block, place), -1 where there is none."""
    answer = np.full(len(blocks), -1, dtype=np.int64)
    for number, (name, part) in enumerate(relaxation.space.slices.items()):
        width = part.stop - part.start
        members, total = relaxation.blocks.get(name, (np.arange(width), width))
        lookup = np.full(total + 1, -1, dtype=np.int64)
        lookup[members] = np.arange(part.start, part.stop)
        mine = (blocks == number) & (places >= 0) & (places < total)
        answer[mine] = lookup[places[mine]]
    return answer


def _signs_only(space: Space) -> NDArray[np.bool_]:
    """Which entries of y are signs: the constant, t and the blocks of u."""
    binary = np.zeros(space.size, dtype=bool)
    for name, part in space.slices.items():
        binary[part] = name in ("one", "t") or name.startswith("v")
    return binary


def separate(relaxation: Relaxation, X: Array, known: Cuts, budget: int, tolerance: float = 1e-3) -> Cuts:
    """The most violated cuts at the moment matrix X that are not known yet, at most `budget`."""
    names = _names(relaxation)
    pairs = _violated_pairs(X, budget, tolerance)
    triples = _violated_triples(relaxation.space, X, budget // 2, tolerance)
    found = np.concatenate([_table(names, pairs), _table(names, triples)])
    if len(known):
        old = {row.tobytes() for row in known.table}
        found = found[np.array([row.tobytes() not in old for row in found], dtype=bool)] if len(found) else found
    return Cuts(found[:budget])


def pair_cuts(relaxation: Relaxation, a: Index, p: Index, b: Index, q: Index) -> Cuts:
    """The cuts (1 + p y_a)(1 + q y_b) >= 0 on given entries of y."""
    none = np.full(len(a), -1, dtype=np.int64)
    return Cuts(_table(_names(relaxation), np.stack([a, p, b, q, none, 0 * none], axis=1)))


def _names(relaxation: Relaxation) -> NDArray[np.int64]:
    """(block, place) of every entry of y."""
    names = np.zeros((relaxation.space.size, 2), dtype=np.int64)
    for number, (name, part) in enumerate(relaxation.space.slices.items()):
        width = part.stop - part.start
        names[part, 0] = number
        names[part, 1] = relaxation.blocks.get(name, (np.arange(width), width))[0]
    return names


def _table(names: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows (a, p, b, q, c, r) with positions in y, -1 for no c, as rows of a table of cuts."""
    table = np.zeros((len(found), _COLUMNS), dtype=np.int64)
    for j in range(3):
        entry, sign = found[:, 2 * j], found[:, 2 * j + 1]
        table[:, 3 * j : 3 * j + 2] = np.where((entry >= 0)[:, None], names[np.maximum(entry, 0)], -1)
        table[:, 3 * j + 2] = sign
    return table


def _violated_pairs(X: Array, budget: int, tolerance: float) -> NDArray[np.int64]:
    """1 + p m_a + q m_b + p q X_ab < 0, over all pairs and signs at once."""
    m = X[0]
    n = len(m)
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    upper[0] = False
    answers, sizes = [], []
    for p in (1, -1):
        for q in (1, -1):
            violation = -(1.0 + p * m[:, None] + q * m[None, :] + p * q * X)
            flat = np.flatnonzero(upper & (violation > tolerance))
            if len(flat) > budget:
                flat = flat[np.argpartition(violation.ravel()[flat], -budget)[-budget:]]
            a, b = np.divmod(flat, n)
            fixed = np.ones(len(a), dtype=np.int64)
            answers.append(np.stack([a, p * fixed, b, q * fixed, -fixed, 0 * fixed], axis=1))
            sizes.append(violation.ravel()[flat])
    return _worst(answers, sizes, budget)


def _violated_triples(space: Space, X: Array, budget: int, tolerance: float) -> NDArray[np.int64]:
    """1 + pq X_ab + qr X_bc + pr X_ac < 0 over all triples of signs, one plane of the cube at a time."""
    signs = np.flatnonzero(_signs_only(space))[1:]
    if len(signs) > _TRIPLES_UP_TO or len(signs) < 3 or budget <= 0:
        return np.zeros((0, 6), dtype=np.int64)
    M = X[np.ix_(signs, signs)]
    answers, sizes = [], []
    for k in range(len(signs) - 2):
        row, rest = M[k, k + 1 :], M[k + 1 :, k + 1 :]
        for q in (1, -1):
            for r in (1, -1):
                violation = -(1.0 + q * row[:, None] + r * row[None, :] + q * r * rest)
                b, c = np.nonzero(np.triu(violation > tolerance, 1))
                if len(b) > 64:  # of one plane; the next round sees the others
                    most = np.argpartition(violation[b, c], -64)[-64:]
                    b, c = b[most], c[most]
                fixed = np.ones(len(b), dtype=np.int64)
                entries = [signs[k] * fixed, fixed, signs[k + 1 + b], q * fixed, signs[k + 1 + c], r * fixed]
                answers.append(np.stack(entries, axis=1))
                sizes.append(violation[b, c])
    return _worst(answers, sizes, budget)


def _worst(answers: list[NDArray[np.int64]], sizes: list[Array], budget: int) -> NDArray[np.int64]:
    rows, size = np.concatenate(answers), np.concatenate(sizes)
    order = np.argsort(-size, kind="stable")[:budget]
    return rows[order]
