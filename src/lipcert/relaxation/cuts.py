"""Cuts: valid inequalities on pairs and triples of variables, found where a moment matrix violates them.

    pairs     (1 + p a)(1 + q b) >= 0           for |a|, |b| <= 1: all entries of y, p and q signs
    triples   (p a + q b + r c)^2 >= 1          for signs a, b, c: the sum of three odd numbers is odd
    factors   (1 + p a) f >= 0                  f one of the relaxation's `factors`, such as s - l u or h u - s
    crosses   of two switched quantities, for the whole map: the only ones with more than one term

Pairs are the triangle inequalities of max-cut that use the constant; triples are the others. All are rank-two rows and
hold at every true point, so a certificate can name any of them.

A *cross* is the inequality of Clauser and Horne for two switched quantities a = u b, a' = u' b' whose slopes are 0 or
1. With r = b - a and f = 2 a - b (b with the sign of its slope), for every t > 0 and signs p, q

    2 p a b' + 2 q r f'  <=  t b^2 + b'^2 / t        and the same with a and r exchanged:

one of a and r is zero, the other is b, and f' is b' or -b'. A moment matrix knows vectors only, and between vectors the
left side can be 1.41 times as large. The cut is a sum of four products, so it is one row of several terms. It needs no
bounds of b: where the weights of outputs are variables it does the work of the triangles of signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.relaxation.model import (
    AffineForms,
    Family,
    Index,
    Relaxation,
    Space,
    Tracked,
    is_sign,
    stack,
    with_families,
)
from lipcert.rounding import UNIT, Array, grow

CROSS_CODES = 8  # exchanged or not, p, q
CROSSES_UP_TO = 400  # the order of the matrix: products of two dense forms cost the solver its sparsity
_CROSS_STEPS = 16  # steps of t between two powers of two
_CROSS_RANGE = 60 * _CROSS_STEPS
CROSS_TERMS = 4


@dataclass(frozen=True, eq=False)
class Pairs:
    """a and b of the members of all blocks with factors, in units of b, and their entries of y."""

    a: Tracked
    b: Tracked
    own: Index

    @classmethod
    def of(cls, relaxation: Relaxation) -> Pairs:
        size = relaxation.space.size
        empty = Tracked(sparse.csr_array((0, size)), np.zeros(0))
        a, b, own = [empty], [empty], [np.zeros(0, dtype=np.int64)]
        for name, factors in relaxation.factors.items():
            if factors.pair is not None:
                where = relaxation.space.slices[name]
                a.append(factors.pair[0])
                b.append(factors.pair[1])
                own.append(np.arange(where.start, where.stop))
        return cls(stack(a), stack(b), np.concatenate(own))

    def ranks(self, entries: Index, size: int) -> Index:
        """The places of entries of y among the members, -1 for entries that are no members."""
        rank = np.full(size + 1, -1, dtype=np.int64)
        rank[self.own] = np.arange(len(self.own))
        return rank[entries]


def crosses_apply(relaxation: Relaxation) -> bool:
    """Whether crosses are looked for: in whole maps of moderate size."""
    return relaxation.space.size <= CROSSES_UP_TO and any(name in relaxation.space.slices for name in ("o", "ob"))


def cross_rows(
    pairs: Pairs, i: Index, j: Index, code: NDArray[np.int64], step: NDArray[np.int64]
) -> tuple[Any, Any, Array]:
    """The forms of four terms for every cut, side by side (cut 0's four first), and the right-hand sides.

    2 p a b' + 2 q r f' - t b^2 - b'^2 / t <= 0 holds of the quantities; the forms' errors are paid for.
    """
    exchanged, (p, q), t = code > 4, _cross_signs(code), stretch(step)
    inverse = (1.0 / t) * (1.0 + 4 * UNIT)  # t * inverse >= 1 is what the inequality needs
    a, b, a2, b2 = pairs.a[i], pairs.b[i], pairs.a[j], pairs.b[j]
    r, f2 = b - a, a2.scaled(np.full(len(j), 2.0)) - b2
    chosen = exchanged.astype(np.float64)
    first = _either(chosen, a, r).scaled(2.0 * p)
    second = _either(chosen, r, a).scaled(2.0 * q)
    terms = [(first, b2), (second, f2), (b.scaled(-t), b), (b2.scaled(-inverse), b2)]
    paid = [left.reach * right.error + right.reach * left.error + left.error * right.error for left, right in terms]
    order = np.arange(CROSS_TERMS * len(i)).reshape(CROSS_TERMS, len(i)).T.ravel()
    left = sparse.csr_array(sparse.vstack([term[0].matrix for term in terms]))[order]
    right = sparse.csr_array(sparse.vstack([term[1].matrix for term in terms]))[order]
    return left, right, grow(np.sum(paid, axis=0), 16)


def most_violated_crosses(pairs: Pairs, X: Array, budget: int, tolerance: float) -> tuple[Index, Index, Index, Index]:
    """The pairs i < j with a code and a step of t, the most violated first, relative to the largest |b||b'|."""
    G = np.asarray(pairs.b.matrix @ X)
    bb = np.asarray(G @ pairs.b.matrix.T)
    ab = np.asarray(pairs.a.matrix @ G.T)
    aa = np.asarray(np.asarray(pairs.a.matrix @ X) @ pairs.a.matrix.T)
    size = np.sqrt(np.maximum(np.diag(bb), 1e-30))
    scale = np.outer(size, size)
    largest = float(scale.max(initial=0.0))
    places, amounts, codes = [], [], []
    rb = bb - ab  # r b'
    af, rf = 2 * aa - ab, 2 * (ab.T - aa) - rb  # a f', r f'
    upper = np.triu(np.ones(bb.shape, dtype=bool), 1)
    for code in range(1, CROSS_CODES + 1):
        p, q = (float(sign[0]) for sign in _cross_signs(np.array([code])))
        value = p * ab + q * rf if code <= 4 else p * rb + q * af
        excess = (value - scale) / largest if largest > 0 else np.zeros_like(value)
        flat = np.flatnonzero(upper & (excess > tolerance))
        if len(flat) > budget:
            flat = flat[np.argpartition(excess.ravel()[flat], -budget)[-budget:]]
        places.append(flat)
        amounts.append(excess.ravel()[flat])
        codes.append(np.full(len(flat), code))
    flat, amount, code_of = (np.concatenate(part) for part in (places, amounts, codes))
    best = np.argsort(-amount, kind="stable")[:budget]
    i, j = np.divmod(flat[best], max(len(bb), 1))
    steps = np.rint(_CROSS_STEPS * np.log2(size[j] / size[i])) if len(i) else np.zeros(0)
    return i, j, code_of[best].astype(np.int64), np.clip(steps, -_CROSS_RANGE, _CROSS_RANGE).astype(np.int64)


def stretch(step: NDArray[np.int64]) -> Array:
    """t = (1 + m/16) 2^e of a whole number 16 e + m: a float, exactly, near 2^(step/16)."""
    exponent, rest = np.divmod(step, _CROSS_STEPS)
    return np.asarray(np.ldexp(1.0 + rest / _CROSS_STEPS, exponent), dtype=np.float64)


def valid_crosses(code: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((code >= 1) & (code <= CROSS_CODES) & (step >= -_CROSS_RANGE) & (step <= _CROSS_RANGE))


def _cross_signs(code: NDArray[np.int64]) -> tuple[Array, Array]:
    """p and q of a code; those above 4 exchange a and r besides."""
    p, q = ((code - 1) // 2 % 2).astype(np.float64), ((code - 1) % 2).astype(np.float64)
    return 1.0 - 2.0 * p, 1.0 - 2.0 * q


def _either(chosen: Array, no: Tracked, yes: Tracked) -> Tracked:
    """Row by row one or the other, exactly."""
    take = sparse.diags_array(chosen) @ yes.matrix + sparse.diags_array(1.0 - chosen) @ no.matrix
    return Tracked(sparse.csr_array(take), np.where(chosen > 0, yes.error, no.error))


FAMILY = "cuts"
COLUMNS = 9  # block, place, sign of a, of b, of c; block -1 where there is no c
_FACTOR = -2  # in place of c's block: b is the variable of a factor, its "sign" says which of its four, from 1
_CROSS = -3  # in place of c's block: a and b are variables of switched quantities, the "signs" are code and step
# How many cuts of each kind are taken in turn, where not all cuts can be added.
_TURNS = {"pairs": 4.0, "factors": 1.0, "triples": 1.0, "crosses": 2.0}
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

    def first(self, count: int) -> Cuts:
        return Cuts(self.table[:count])

    def kept(self, which: NDArray[np.bool_]) -> Cuts:
        return Cuts(self.table[which])


NO_CUTS = Cuts(np.zeros((0, COLUMNS), dtype=np.int64))


def valid_table(table: NDArray[np.int64]) -> bool:
    """Whether a table that was read from a file has the form of cuts; the entries that it names are not checked."""
    if table.ndim != 2 or table.shape[1] != COLUMNS:
        return False
    signs = table[:, 2::3]
    two, factor, cross = table[:, 6] < 0, table[:, 6] == _FACTOR, table[:, 6] == _CROSS
    plain = (signs == 1) | (signs == -1)
    second = np.where(factor, (signs[:, 1] >= 1) & (signs[:, 1] <= 4), plain[:, 1])
    both = np.where(cross, valid_crosses(signs[:, 0], signs[:, 1]), plain[:, 0] & second)
    third = np.where(two, signs[:, 2] == 0, plain[:, 2])
    return bool(np.all(table[:, 6] >= _CROSS) and np.all(both & third))


def repeated(table: NDArray[np.int64]) -> bool:
    """Whether a cut stands in the table twice."""
    rows = np.ascontiguousarray(table).view([("", np.int64)] * COLUMNS)  # whole rows as one value: much faster
    return len(np.unique(rows)) < len(table)


def with_cuts(relaxation: Relaxation, cuts: Cuts) -> Relaxation:
    """The relaxation with these rows besides its own; cuts on entries that are not there are left out."""
    if not len(cuts):
        return relaxation
    space, table = relaxation.space, cuts.table
    where = np.stack([_entries(relaxation, table[:, k], table[:, k + 1]) for k in (0, 3, 6)], axis=1)
    three, factor, cross = table[:, 6] >= 0, table[:, 6] == _FACTOR, table[:, 6] == _CROSS
    shelf = _FactorTable.of(relaxation)
    placed = np.where(factor, shelf.rows(where[:, 1], table[:, 5]), 0)
    if np.any(cross):
        ranks = Pairs.of(relaxation).ranks(np.where(cross[:, None], where[:, :2], -1), space.size)
        placed = np.where(cross & ((ranks.min(axis=1) < 0) | (ranks[:, 0] == ranks[:, 1])), -1, placed)
    odd = np.all(where >= 0, axis=1) & np.all(_signs_only(space)[np.maximum(where, 0)], axis=1)
    members = np.flatnonzero(np.all(where[:, :2] >= 0, axis=1) & (placed >= 0) & (odd | ~three))
    kind = np.where(three, 2, np.where(cross, 3, np.where(factor, 1, 0)))[members]
    where, signs, placed = where[members], table[members, 2::3].astype(np.float64), placed[members]
    first, second = _pair(space, where, signs, 0), _pair(space, where, signs, 1)
    sums = _triple(space, where, signs)
    take = [sparse.diags_array((kind == k).astype(np.float64)) for k in range(3)]
    left = (take[0] + take[1]) @ first + take[2] @ sums
    right = take[0] @ second + take[1] @ shelf.forms[placed] + take[2] @ sums
    # (1 + p a) is at most 2, and the form of a factor is off by at most its error.
    rhs = np.where(kind == 2, -1.0, np.where(kind == 1, grow(2 * shelf.errors[placed], 4), 0.0))
    left, right, owner = -sparse.csr_array(left), sparse.csr_array(right), np.arange(len(members))
    if np.any(kind == 3):
        left, right, rhs, owner = _with_crosses(relaxation, where, signs, kind == 3, left, right, rhs)
    family = Family(FAMILY, AffineForms(left), AffineForms(right), rhs, False, members, len(cuts), None, owner)
    return with_families(relaxation, [family])


def _with_crosses(
    relaxation: Relaxation, where: Index, signs: Array, cross: NDArray[np.bool_], left: Any, right: Any, rhs: Array
) -> tuple[Any, Any, Array, Index]:
    """The rows of one term, with the four terms of each cross in place of its own."""
    pairs, at = Pairs.of(relaxation), np.flatnonzero(cross)
    i, j = (pairs.ranks(where[at, k], relaxation.space.size) for k in (0, 1))
    code, step = (signs[at, k].astype(np.int64) for k in (0, 1))
    first, second, paid = cross_rows(pairs, i, j, code, step)
    plain = np.flatnonzero(~cross)
    owner = np.concatenate([plain, np.repeat(at, CROSS_TERMS)])
    rhs = rhs.copy()
    rhs[at] = paid
    stacked = (sparse.csr_array(sparse.vstack([a[plain], b])) for a, b in ((left, first), (right, second)))
    return *stacked, rhs, owner


def _pair(space: Space, where: Index, signs: Array, side: int) -> Any:
    """1 + p a (side 0) or 1 + q b (side 1)."""
    k = np.arange(len(where))
    one = sparse.csr_array((np.ones(len(k)), (k, np.zeros_like(k))), (len(k), space.size))
    return one + sparse.csr_array((signs[:, side], (k, where[:, side])), (len(k), space.size))


def _triple(space: Space, where: Index, signs: Array) -> Any:
    """p a + q b + r c; the entry for c has no meaning in cuts without c."""
    k = np.repeat(np.arange(len(where)), 3)
    entries = (signs.ravel(), (k, np.maximum(where, 0).ravel()))
    return sparse.csr_array(sparse.coo_array(entries, (len(where), space.size)))


@dataclass(frozen=True, eq=False)
class _FactorTable:
    """All factors of a relaxation in one batch. Factor k = 1..4 of the entry `own` of y is in row 4 * rank + k - 1."""

    forms: Any
    errors: Array
    rank: Index  # rank of every entry of y among those with factors, -1 for the others

    @classmethod
    def of(cls, relaxation: Relaxation) -> _FactorTable:
        size = relaxation.space.size
        rank = np.full(size, -1, dtype=np.int64)
        forms, errors, count = [sparse.csr_array((0, size))], [np.zeros(0)], 0
        for name, factors in relaxation.factors.items():
            if not factors.forms:
                continue
            part = relaxation.space.slices[name]
            n = part.stop - part.start
            rank[part] = count + np.arange(n)
            order = np.arange(4 * n).reshape(4, n).T.ravel()  # the four of a neuron side by side
            forms.append(sparse.csr_array(sparse.vstack(factors.forms))[order])
            errors.append(np.concatenate(factors.errors)[order])
            count += n
        blank = sparse.csr_array((1, size))  # row -1, for cuts without a factor
        return cls(sparse.csr_array(sparse.vstack([*forms, blank])), np.append(np.concatenate(errors), 0.0), rank)

    def rows(self, own: Index, which: NDArray[np.int64]) -> Index:
        """-1 where the entry has no factors."""
        rank = np.where(own >= 0, self.rank[np.maximum(own, 0)], -1)
        return np.where(rank >= 0, 4 * rank + which - 1, -1)


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
    """Which entries of y are signs."""
    binary = np.zeros(space.size, dtype=bool)
    for name, part in space.slices.items():
        binary[part] = is_sign(name)
    return binary


def separate(
    relaxation: Relaxation,
    X: Array,
    known: Cuts,
    budget: int,
    tolerance: float = 1e-3,
    kinds: tuple[str, ...] = ("pairs", "triples", "factors", "crosses"),
) -> Cuts:
    """The most violated cuts at the moment matrix X that are not known yet, at most `budget` of a kind.

    The kinds take turns, the most violated of each first, so that the first few have some of every kind.
    """
    names = _names(relaxation)
    found: dict[str, Found] = {}
    if "pairs" in kinds:
        found["pairs"] = _violated_pairs(X, budget, tolerance)
    if "factors" in kinds:
        found["factors"] = _violated_factors(relaxation, X, budget, tolerance)
    if "triples" in kinds:
        found["triples"] = _violated_triples(relaxation.space, X, budget, tolerance)
    if "crosses" in kinds and crosses_apply(relaxation):
        found["crosses"] = _violated_crosses(relaxation, X, budget, tolerance)
    table = np.concatenate([_table(names, rows) for rows in found.values()])
    turns = [np.arange(len(rows)) / _TURNS[kind] for kind, rows in found.items()]
    table = table[np.argsort(np.concatenate(turns), kind="stable")]
    if len(known) and len(table):
        old = {row.tobytes() for row in known.table}
        table = table[np.array([row.tobytes() not in old for row in table], dtype=bool)]
    return Cuts(table)


Found = NDArray[np.int64]  # rows (a, p, b, q, c, r) with positions in y, the most violated first


def _violated_factors(relaxation: Relaxation, X: Array, budget: int, tolerance: float) -> Found:
    """L((1 + p a) f) < 0 over all entries a of y and all factors f: rows (a, p, own entry of f, which, -2, 0)."""
    shelf = _FactorTable.of(relaxation)
    owners = np.flatnonzero(shelf.rank >= 0)
    owners = owners[np.argsort(shelf.rank[owners])]
    answers, sizes = [np.zeros((0, 6), dtype=np.int64)], [np.zeros(0)]
    if not len(owners):
        return answers[0]
    G = np.asarray(shelf.forms[:-1] @ X)
    for p in (1, -1):
        violation = -(G[:, :1] + p * G)
        violation[:, 0] = 0.0
        flat = np.flatnonzero(violation > tolerance)
        if len(flat) > budget:
            flat = flat[np.argpartition(violation.ravel()[flat], -budget)[-budget:]]
        row, a = np.divmod(flat, G.shape[1])
        fixed = np.ones(len(a), dtype=np.int64)
        answers.append(np.stack([a, p * fixed, owners[row // 4], row % 4 + 1, _FACTOR * fixed, 0 * fixed], axis=1))
        sizes.append(violation.ravel()[flat])
    return _worst(answers, sizes, budget)


def _violated_crosses(relaxation: Relaxation, X: Array, budget: int, tolerance: float) -> Found:
    """Rows (own entry of i, code, own entry of j, step, -3, 0)."""
    pairs = Pairs.of(relaxation)
    i, j, code, step = most_violated_crosses(pairs, X, budget, tolerance)
    kind = np.full(len(i), _CROSS, dtype=np.int64)
    return np.stack([pairs.own[i], code, pairs.own[j], step, kind, 0 * kind], axis=1)


def triple_cuts(relaxation: Relaxation, nodes: NDArray[np.int64], signs: NDArray[np.int64]) -> Cuts:
    """The cuts (p y_a + q y_b + r y_c)^2 >= 1 on given entries of y, a row of three for each."""
    return Cuts(_table(_names(relaxation), np.stack([nodes, signs], axis=2).reshape(len(nodes), 6)))


def _names(relaxation: Relaxation) -> NDArray[np.int64]:
    """(block, place) of every entry of y."""
    names = np.zeros((relaxation.space.size, 2), dtype=np.int64)
    for number, (name, part) in enumerate(relaxation.space.slices.items()):
        width = part.stop - part.start
        names[part, 0] = number
        names[part, 1] = relaxation.blocks.get(name, (np.arange(width), width))[0]
    return names


def _table(names: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows (a, p, b, q, c, r) with positions in y, -1 or -2 for no c, as rows of a table of cuts."""
    table = np.zeros((len(found), COLUMNS), dtype=np.int64)
    for j in range(3):
        entry, sign = found[:, 2 * j], found[:, 2 * j + 1]
        table[:, 3 * j : 3 * j + 2] = np.where((entry >= 0)[:, None], names[np.maximum(entry, 0)], -1)
        table[:, 3 * j + 2] = sign
    table[:, 6] = np.where(found[:, 4] < -1, found[:, 4], table[:, 6])
    return table


def _violated_pairs(X: Array, budget: int, tolerance: float) -> Found:
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


def _violated_triples(space: Space, X: Array, budget: int, tolerance: float) -> Found:
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
                if len(b) > 64:  # half-planes of one plane; the next round sees the others
                    most = np.argpartition(violation[b, c], -64)[-64:]
                    b, c = b[most], c[most]
                fixed = np.ones(len(b), dtype=np.int64)
                entries = [signs[k] * fixed, fixed, signs[k + 1 + b], q * fixed, signs[k + 1 + c], r * fixed]
                answers.append(np.stack(entries, axis=1))
                sizes.append(violation[b, c])
    return _worst(answers, sizes, budget)


def _worst(answers: list[NDArray[np.int64]], sizes: list[Array], budget: int) -> Found:
    rows, size = np.concatenate(answers), np.concatenate(sizes)
    order = np.argsort(-size, kind="stable")[:budget]
    return rows[order]
