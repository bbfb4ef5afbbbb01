"""Rows written over atoms, so that the Schur complement needs only entries of X and Z^-1.

A row f_a' X f_b with f_a = e_0 + e_i, f_b = r e_0 + q expands into a few *atoms* g' X h. The vectors g, h are
*generators*: unit vectors, or normalised dense vectors q, of which there are few. Rows share atoms: the four products
(1 +- t)(1 +- w) are combinations of the three atoms t, w, tw and the constant X_00, which one equality fixes and which
is substituted away here. Two gains:

  - the Schur matrix over atoms is entrywise products of slices of X and Z^-1: no row-by-row gathers;
  - four inequalities over three atoms enter the linear system as three unknowns (see `schur.py`).

The scaled problem solved inside has X_ii <= 1, rows of unit norm over their atoms, and an objective of norm one. Dense
generators that have entries in a few rows only are multiplied as short columns (`Columns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipcert.relaxation.rank_two import Booleans, Floats, Integers, RankTwoProblem, pair_entries
from lipcert.solver.bordered import Border, Bordered, choose_border

NARROW = 3  # vectors with at most this many entries beside the anchor are expanded into unit vectors
FEW = 0.4  # atoms for each root, below which the forms of roots are written over unit vectors


def widths(problem: RankTwoProblem, vectors: Any, roots: int) -> tuple[Booleans, Booleans]:
    """Columns of roots that are written over unit vectors, and those that are dense with the anchor in them.

    The forms of roots that share k entries have k (k + 1) / 2 atoms: fewer unknowns than roots where k is small.
    """
    mine = np.zeros(vectors.shape[1], dtype=bool)
    mine[problem.ia[problem.ia.size - roots :]] = mine[problem.ib[problem.ib.size - roots :]] = True
    entries = np.unique(vectors[:, mine].indices).size
    few = entries * (entries + 1) // 2 < FEW * roots
    return mine & few, mine & (not few)


def find_anchor(problem: RankTwoProblem) -> int:
    """The variable that stands for 1: fixed by an equality row e_i, e_i and present in the most vectors."""
    F = problem.vectors
    single = np.diff(F.indptr) == 1
    fixed = problem.equality[problem.owner] & problem.single & (problem.ia == problem.ib) & single[problem.ia]
    index = F.indices[F.indptr[problem.ia[fixed]]]
    if index.size == 0:
        return -1
    used = np.bincount(F.indices, minlength=problem.size)
    best = int(index[np.argmax(used[index])])
    return best if used[best] > 2 else -1


def generators(vectors: Any, anchor: int, narrow: Booleans, intact: Booleans) -> tuple[Any, Floats]:
    """Each vector as a short combination of unit vectors and distinct normalised dense vectors Q."""
    columns = vectors.shape[1]
    rest = vectors.tocoo()
    at_anchor = (rest.row == anchor) & ~intact[rest.col]
    rest = sp.csc_matrix((rest.data[~at_anchor], (rest.row[~at_anchor], rest.col[~at_anchor])), shape=vectors.shape)
    wide = np.flatnonzero(((np.diff(rest.indptr) > NARROW) & ~narrow) | intact)
    block = np.asarray(rest[:, wide].toarray())
    norm = np.linalg.norm(block, axis=0)
    peak = block[np.argmax(np.abs(block), axis=0), np.arange(wide.size)] if wide.size else np.zeros(0)
    factor = np.copysign(norm, peak)
    block = block / np.where(factor == 0, 1.0, factor)
    # Rows z, z - lo, z - hi differ in the anchor only: one dense vector serves all of them.
    keep, place = _distinct(block)
    Q = block[:, keep]
    short = np.ones(columns)
    short[wide] = 0.0
    units = sp.csc_matrix(rest @ sp.diags(short))
    if anchor >= 0:
        units = units + (vectors - rest)
    dense = sp.csc_matrix((factor, (place, wide)), shape=(Q.shape[1], columns))
    combined = sp.csc_matrix(sp.vstack([units, dense], format="csc"))
    combined.eliminate_zeros()
    return combined, Q


def _distinct(columns: Floats) -> tuple[Integers, Integers]:
    """Indices of the first of each kind of equal columns (up to rounding), and each column's place among them."""
    if columns.shape[1] == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    mark = np.random.default_rng(0).standard_normal(columns.shape[0]) @ columns
    order = np.argsort(mark, kind="stable")
    near = np.abs(columns[:, order[1:]] - columns[:, order[:-1]]).max(axis=0) < 1e-13
    group = np.empty(order.size, dtype=np.int64)
    group[order] = np.r_[0, np.cumsum(~near)]
    _, keep, place = np.unique(group, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(keep))  # in order of appearance, so that runs of rows stay runs
    return np.sort(keep), rank[place]


@dataclass(frozen=True, eq=False)
class Columns:
    """Q, N x d; the columns `thin` have entries in `support` only."""

    Q: Floats
    thin: Integers
    support: Integers

    @staticmethod
    def of(Q: Floats, thin: Integers) -> Columns:
        """Columns of Q, with the support of the thin ones."""
        return Columns(np.asfortranarray(Q), thin, np.flatnonzero(np.any(Q[:, thin] != 0, axis=1)))

    @cached_property
    def wide(self) -> Integers:
        return np.setdiff1d(np.arange(self.Q.shape[1]), self.thin)

    @cached_property
    def _places(self) -> tuple[Any, Any]:
        """The wide and the thin columns, as slices where they lie side by side."""
        return _run(self.wide), _run(self.thin)

    @cached_property
    def short(self) -> Floats:
        """The entries of the thin columns."""
        return np.ascontiguousarray(self.Q[np.ix_(self.support, self.thin)])

    @cached_property
    def rest(self) -> Floats:
        return np.asfortranarray(self.Q[:, self.wide])

    def images(self, M: Floats) -> Floats:
        """M Q."""
        if not self.thin.size:
            return np.asarray(M @ self.Q)
        result, (wide, thin) = np.empty((len(M), self.Q.shape[1])), self._places
        result[:, wide] = M @ self.rest
        result[:, thin] = M[:, self.support] @ self.short
        return result

    def gram(self, M: Floats, images: Floats, memory: Floats | None = None) -> Floats:
        """[I, Q]' M [I, Q] for a symmetric M with these images, in an array of the right shape where one is given."""
        n, d = self.Q.shape
        if d == 0:
            return M
        G = np.empty((n + d, n + d)) if memory is None else memory
        G[:n, :n] = M
        G[:n, n:] = images
        G[n:, :n] = images.T
        wide, thin = self._places
        corner = G[n:, n:]
        corner[wide] = self.rest.T @ images
        if self.thin.size:
            corner[thin] = self.short.T @ images[self.support]
        return G


def _run(index: Integers) -> Any:
    """The indices as a slice where they are consecutive."""
    if index.size and index[-1] - index[0] == index.size - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Roots:
    """The last rows, -g'X g + slack = 0, belong to terms 2 gain sqrt(slack) of the objective (see `roots.py`)."""

    rows: Integers
    gain: Floats
    forms: Any  # g as columns, sparse N x roots

    def paired(self, y: Floats, mu: float = 0.0) -> Floats:
        """The slack that belongs to a multiplier z: slack * z + mu = gain^2 / z."""
        return np.asarray((self.gain / y[self.rows]) ** 2 - mu / y[self.rows])

    def price(self, y: Floats) -> float:
        """The part of the dual value that the multipliers of roots add."""
        return float(np.sum(self.gain**2 / y[self.rows]))


@dataclass(frozen=True, eq=False)
class AtomForm:
    """max <C, X> s.t. P a(X) (= or <=) b with atoms a_j(X) = g_p(j)' X g_q(j), generators g = columns of [I, Q]."""

    border: Border
    permutation: Integers  # variable i of the form is variable permutation[i] of the given problem
    objective: Bordered  # C, scaled
    first: Integers  # generator p(j) of each atom
    second: Integers  # generator q(j)
    rows: Any  # P, sparse m x atoms
    rhs: Floats
    equality: Any
    anchor_row: int  # row fixing X_00, or -1
    row_scale: Floats  # scaled row = row_scale * (row - anchor_weight * anchor row)
    anchor_weight: Floats
    value_scale: float  # value of the given problem = value_scale * value of the scaled one
    variable_scale: Floats  # X_given = D X D with D = diag(variable_scale)
    roots: Roots
    columns: Columns  # Q, of which those are thin that are multiplied with each other

    def multipliers(self, y: Floats) -> Floats:
        """Multipliers of the given problem from those of the scaled one."""
        given = self.value_scale * self.row_scale * y
        if self.anchor_row >= 0:
            given[self.anchor_row] -= self.anchor_weight @ given
        return given

    def scaled_multipliers(self, given: Floats) -> Floats:
        """Inverse of `multipliers`, for warm starts."""
        moved = np.array(given, dtype=float)
        if self.anchor_row >= 0:
            moved[self.anchor_row] += self.anchor_weight @ moved
        return np.asarray(moved / (self.value_scale * self.row_scale))

    @property
    def dense(self) -> Floats:
        """Q."""
        return self.columns.Q

    @property
    def size(self) -> int:
        return self.border.inner + self.border.outer

    def values(self, X: Floats, images: Floats | None = None) -> Floats:
        """All atoms of a symmetric X; `images` is X Q when it is known already."""
        n, dense = self.size, self.dense
        if images is None and dense.size:
            images = self.columns.images(X)
        value = np.empty(self.first.size)
        plain = self.second < n
        value[plain] = X[self.first[plain], self.second[plain]]
        mixed = np.flatnonzero(~plain & (self.first < n))
        if mixed.size and images is not None:
            value[mixed] = images[self.first[mixed], self.second[mixed] - n]
        both = np.flatnonzero(self.first >= n)
        if both.size and images is not None:
            at = self.columns.support
            left, right = (side[both] - n for side in (self.first, self.second))
            value[both] = np.einsum("ij,ij->j", dense[np.ix_(at, left)], images[np.ix_(at, right)])
        return value

    def combine(self, weights: Floats) -> Bordered:
        """sum_j weights_j sym(g_p g_q')."""
        n, r, d = self.size, self.border.inner, self.dense.shape[1]
        plain = self.second < n
        p, q, value = self.first[plain], self.second[plain], weights[plain] / 2
        result = scatter(self.border, np.r_[p, q], np.r_[q, p], np.r_[value, value])
        if d:
            mixed = (self.first < n) & ~plain
            at = (self.first[mixed] - r, self.second[mixed] - n)
            core = sp.csr_matrix((weights[mixed] / 2, at), shape=(n - r, d))
            product = np.asarray(core @ np.ascontiguousarray(self.dense.T))
            result.B += product[:, :r].T
            result.F += product[:, r:] + product[:, r:].T
            both = self.first >= n
            if np.any(both):
                inner = sp.csr_matrix((weights[both], (self.first[both] - n, self.second[both] - n)), shape=(d, d))
                thin, support = self.columns.thin, self.columns.support
                square = self.columns.short @ np.asarray(inner[thin][:, thin] @ self.columns.short.T)
                result.F[np.ix_(support - r, support - r)] += (square + square.T) / 2
        return result


def scatter(border: Border, row: Integers, col: Integers, value: Floats) -> Bordered:
    """A bordered matrix from coordinates (both triangles given, repeated entries add up)."""
    r, k = border.inner, border.outer
    inside = (row < r) & (col < r)
    place = border.start[row[inside]] + border.within[col[inside]]
    flat = np.bincount(place, value[inside], minlength=border.order.size).astype(float)
    side = (row < r) & (col >= r)
    B = np.bincount(row[side] * k + col[side] - r, value[side], minlength=r * k).astype(float).reshape(r, k)
    corner = (row >= r) & (col >= r)
    F = np.bincount((row[corner] - r) * k + col[corner] - r, value[corner], minlength=k * k).astype(float).reshape(k, k)
    return Bordered(border, flat, B, F)


def atom_form(problem: RankTwoProblem, outside: Integers | None = None, bounds: Floats = NONE) -> AtomForm:
    """Scale the problem, expand its rows into atoms, substitute the anchor X_00 away.

    `outside` are variables that must lie in the border, whatever the rows ask for. `bounds` are d of the last rows,
    those of roots.
    """
    n = problem.size
    scale = np.sqrt(problem.diagonal)
    objective = sp.csr_matrix(sp.diags(scale) @ sp.csr_matrix(problem.objective) @ sp.diags(scale))
    objective.eliminate_zeros()
    vectors = sp.csc_matrix(sp.diags(scale) @ problem.vectors)
    forms = vectors[:, problem.ib[problem.ib.size - bounds.size :]]
    lengths = np.sqrt(np.asarray(forms.multiply(forms).sum(axis=0)).ravel() * bounds)
    value_scale = float(np.hypot(np.linalg.norm(objective.data), np.sqrt(2.0) * np.linalg.norm(lengths))) or 1.0
    anchor = find_anchor(problem)
    narrow, intact = widths(problem, vectors, bounds.size)
    combined, Q = generators(vectors, anchor, narrow, intact)
    row, p, q, weight = _products(problem, combined, forms if np.any(narrow) else None)
    generator_count = n + Q.shape[1]
    code, atom = np.unique(np.minimum(p, q) * generator_count + np.maximum(p, q), return_inverse=True)
    p, q = code // generator_count, code % generator_count
    permutation, inner = _permutation(objective, p, q, Q, outside)
    place = np.r_[np.argsort(permutation), n + np.arange(Q.shape[1])]
    first, second = np.minimum(place[p], place[q]), np.maximum(place[p], place[q])
    rows = sp.csr_matrix((weight, (row, atom)), shape=(problem.rows, code.size))
    rhs, anchor_row, moved = problem.rhs.copy(), -1, np.zeros(problem.rows)
    if anchor >= 0:
        rows, rhs, anchor_row, moved = _substitute(problem, rows, first, second, int(place[anchor]))
    norm = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    row_scale = 1.0 / np.where(norm > 0, norm, 1.0)
    rows = sp.csr_matrix(sp.diags(row_scale) @ rows)
    rows.eliminate_zeros()
    used = np.flatnonzero(np.bincount(rows.indices, minlength=code.size))
    order = used[_family_order(first[used], second[used], n)]
    C = sp.coo_matrix(objective[permutation][:, permutation])
    plain = second < n
    pattern = abs(C) + sp.coo_matrix((np.ones(plain.sum()), (first[plain], second[plain])), shape=(n, n))
    border = Border.of(pattern, inner)
    return AtomForm(
        border=border, permutation=permutation,
        objective=scatter(border, C.row.astype(np.int64), C.col.astype(np.int64), C.data / value_scale),
        first=first[order], second=second[order],
        rows=sp.csr_matrix(rows[:, order]), rhs=rhs * row_scale, equality=problem.equality, anchor_row=anchor_row,
        row_scale=row_scale, anchor_weight=moved, value_scale=value_scale, variable_scale=scale,
        columns=Columns.of(Q[permutation], np.unique(np.r_[first, second][np.tile(first >= n, 2)]) - n),
        roots=_roots(forms[permutation], row_scale, bounds, value_scale),
    )  # fmt: skip


def _roots(forms: Any, row_scale: Floats, bounds: Floats, value_scale: float) -> Roots:
    rows = np.arange(row_scale.size - bounds.size, row_scale.size)
    own = row_scale[rows]
    return Roots(rows, np.sqrt(bounds / own) / value_scale, sp.csr_matrix(forms @ sp.diags(np.sqrt(own))))


def _products(problem: RankTwoProblem, combined: Any, forms: Any) -> tuple[Integers, Integers, Integers, Floats]:
    """The rows as sums of products of generators (row, p, q, weight); those of roots, where their forms are given
    here, from one triangle of -c c'."""
    count = 0 if forms is None else forms.shape[1]
    own = problem.terms - count
    term, p, q, weight = pair_entries(combined, problem.ia[:own], problem.ib[:own])
    row = problem.owner[term]
    if not count:
        return row, p, q, weight
    entries = np.unique(forms.indices)
    c = np.asarray(forms[entries].toarray())
    i, j = np.triu_indices(entries.size)
    value = -c[i] * c[j] * np.where(i == j, 1.0, 2.0)[:, None]
    at = np.repeat(np.arange(i.size), count)
    roots = np.tile(np.arange(problem.rows - count, problem.rows), i.size)
    return np.r_[row, roots], np.r_[p, entries[i][at]], np.r_[q, entries[j][at]], np.r_[weight, value.ravel()]


def _permutation(objective: Any, p: Integers, q: Integers, Q: Floats, outside: Integers | None) -> tuple[Integers, int]:
    """Variables outside the border first; and how many they are."""
    n, low, high = len(Q), np.minimum(p, q), np.maximum(p, q)
    forced = np.zeros(n, dtype=bool)
    for side in (low, high):  # a product of two dense vectors fills the matrix where they have entries
        forced |= np.any(Q[:, np.unique(side[low >= n]) - n] != 0, axis=1)
    forced[low[(low < n) & (high >= n)]] = True
    if outside is not None:
        forced[outside] = True
    plain = high < n
    pairs = sp.csr_matrix((np.ones(plain.sum()), (low[plain], high[plain])), shape=(n, n))
    pattern = abs(objective) + pairs + pairs.T
    pattern.setdiag(0)
    pattern.eliminate_zeros()
    border = choose_border(pattern, forced)
    return np.argsort(border, kind="stable"), int(n - border.sum())


def _substitute(
    problem: RankTwoProblem, rows: Any, first: Integers, second: Integers, anchor: int
) -> tuple[Any, Floats, int, Floats]:
    """Subtract the anchor's own row from every other row that contains X_00."""
    atom = int(np.flatnonzero((first == anchor) & (second == anchor))[0])
    column = np.asarray(rows[:, atom].toarray()).ravel()
    alone = problem.equality & (np.diff(rows.indptr) == 1) & (column != 0)
    anchor_row = int(np.flatnonzero(alone)[0])
    moved = column / column[anchor_row]
    moved[anchor_row] = 0.0
    moved[alone] = 0.0  # a repeated anchor row stays a row of its own
    entries = rows.tocoo()
    drop = (entries.col == atom) & (moved[entries.row] != 0)
    kept = (entries.data[~drop], (entries.row[~drop], entries.col[~drop]))
    return sp.csr_matrix(kept, shape=rows.shape), problem.rhs - moved * problem.rhs[anchor_row], anchor_row, moved


def _family_order(first: Integers, second: Integers, n: int) -> Integers:
    """Atoms of one kind side by side: products with one generator, diagonal, unit-unit by offset, unit-dense."""
    count = np.bincount(np.r_[first, second], minlength=1)
    hub = int(np.argmax(count)) if count.size else -1
    kind = np.select(
        [(first == hub) | (second == hub), first == second, second < n, first < n], [0, 1, 2, 3], default=4
    )
    offset = np.where(kind == 2, second - first, 0)
    return np.lexsort((second, first, offset, kind))
