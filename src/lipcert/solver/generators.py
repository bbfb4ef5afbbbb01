"""Vectors of rows as short combinations of generators: unit vectors, and few distinct dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lipcert.relaxation.rank_two import Booleans, Floats, Integers, RankTwoProblem

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
