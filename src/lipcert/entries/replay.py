"""The cells of an earlier run, proved again: of its file only where cells were split is taken over, as advice.

Cells are cut as the search would cut them, and bounded anew. A split that does not fit is chosen anew, one that nothing
needs any more is left out: a file can cost time, but it cannot make a wrong enclosure.
"""

from __future__ import annotations

from copy import copy
from typing import Protocol

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.entries.leaves import Leaves
from lipcert.proof.cells import Cells, Index
from lipcert.proof.entries import Asked, Bounded, Mask
from lipcert.proof.jacobian import JacobianCertificate, without_room
from lipcert.proof.tree import Tree
from lipcert.rounding import Array

_NONE = -1


class Searching(Protocol):
    """What is needed of a search."""

    asked: Asked
    leaves: Leaves

    def missing(self, entries: Interval) -> Array: ...
    def bounded(self, cells: Cells, known: Interval, wanted: Mask) -> tuple[Bounded, Index]: ...
    def proved(self, cells: Cells, known: Interval, wanted: Mask) -> Bounded: ...
    def report(self) -> None: ...


def prove_again(search: Searching, before: JacobianCertificate) -> None:
    """Split as the file says, down from the region, where entries are not good enough or wider than it claims.

    After every block the cells cover the region with what is proved by then.
    """
    splits, claims = before.splits, without_room(before.claims)
    same: Index = np.zeros(1, dtype=np.int64)  # of every node of the tree here: the one in the file, or none
    advise(search.leaves, splits, same)
    while True:
        leaves = copy(search.leaves)
        missing = search.missing(leaves.entries) > 0
        with np.errstate(invalid="ignore"):
            wanted = missing | (leaves.entries.lo < claims.lo) | (leaves.entries.hi > claims.hi)
        inner = _inner(splits, same[leaves.node])
        needed = inner & wanted.any(axis=(1, 2))
        stays = needed | missing.any(axis=(1, 2))
        leaves.rest(~stays)
        wanted, rows = wanted[stays], np.flatnonzero(needed[stays])
        rows = rows[-(search.asked.batch // 2 + 1) :]  # the last ones first: fewer cells are open at a time
        fits = leaves.splittable(rows)
        same = _choose_anew(search, leaves, rows[~fits], wanted, same)
        if len(rows := rows[fits]):
            same = _split(search, leaves, rows, wanted, (splits, same))
        elif np.all(fits):
            search.leaves = leaves
            return
        search.leaves = leaves
        search.report()


def advise(leaves: Leaves, splits: Tree, same: Index) -> None:
    """Where the region itself is split."""
    if _inner(splits, same)[0]:
        leaves.choice = splits.where[:1].copy()


def _inner(splits: Tree, nodes: Index) -> Mask:
    """Which nodes are there in the file, and split."""
    return (nodes >= 0) & (splits.where[nodes] >= 0)


def _split(search: Searching, leaves: Leaves, rows: Index, wanted: Mask, file: tuple[Tree, Index]) -> Index:
    """Split some cells as the file says; returns which node of the file every node is."""
    splits, same = file
    both, twice = leaves.halves(rows), np.repeat(rows, 2)
    below = splits.below[same[leaves.node[rows]]]
    nodes = np.stack([below, below + 1], axis=1).reshape(-1)
    inner = _inner(splits, nodes)
    known, choice, signs = leaves.entries.rows(twice), splits.where[nodes], both.signs.copy()
    lo, hi = known.lo.copy(), known.hi.copy()
    for own in (np.flatnonzero(inner), np.flatnonzero(~inner)):
        if not len(own):
            continue
        question = both.rows(own), known.rows(own), wanted[twice[own]]
        if inner[own[0]]:
            found = search.proved(*question)
        else:
            found, choice[own] = search.bounded(*question)
        signs[own], (lo[own], hi[own]) = found.signs, found.entries
    leaves.split(rows, Cells(both.lo, both.hi, signs), Interval(lo, hi), choice)
    return np.append(same, nodes)


def _choose_anew(search: Searching, leaves: Leaves, rows: Index, wanted: Mask, same: Index) -> Index:
    """Cells that cannot be split as the file says are split as the search wants, and what it has below is left out."""
    if not len(rows):
        return same
    choice, same = leaves.choice.copy(), same.copy()
    choice[rows] = search.bounded(leaves.cells(rows), leaves.entries.rows(rows), wanted[rows])[1]
    leaves.choice, same[leaves.node[rows]] = choice, _NONE
    return same
