"""The job folder of `jacobian`, and how a run goes on from it.

certificate.npz    written from time to time and at the end; at any time `lipcert verify` proves it
entries.csv        at the end
result.json        last: it says that the others are there

Only the splits of a certificate found in a folder are taken over, as advice: cells are cut as the search would
cut them, and bounded anew. A split that does not fit is chosen anew, one that nothing needs any more is left out: a
file can cost time, but it cannot make a wrong enclosure.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.errors import FileFormatError
from lipcert.jobs import JobFolder
from lipcert.problem.question import region_arrays
from lipcert.proof.cells import Cells, Index
from lipcert.proof.certificate import Mask
from lipcert.proof.file import load_certificate
from lipcert.proof.jacobian import Bounded, EntryQuestion, JacobianCertificate, without_room
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.jacobian.leaves import EntryLeaves

CERTIFICATE = "certificate.npz"
_NONE = -1  # in place of the node of a file


def job_question(question: EntryQuestion, gap: float | None) -> dict[str, Any]:
    """Everything that is asked, but for time, work and cells: more of them is a reason to resume."""
    return {
        "network": question.network.sha256,
        "region": {name: array.tolist() for name, array in region_arrays(question.region).items()},
        "outputs": question.scores.tolist(),
        "inputs": question.inputs.tolist(),
        "gap": gap,
    }


def found_before(job: JobFolder, question: EntryQuestion) -> JacobianCertificate | None:
    """The certificate in a folder where it is about this question; with a note None where it is of no use.

    Whether it proves anything is not asked: its splits are advice, and its cells are bounded again.
    """
    path = job.path / CERTIFICATE
    if not job.resumed or not path.exists():
        return None
    try:
        found = load_certificate(path, JacobianCertificate)
    except (FileFormatError, OSError, MemoryError):
        found = None
    if found is not None and found.refused(question.network) is None:
        here = (question.region, question.scores.tolist(), question.inputs.tolist())
        if (found.region, found.scores.tolist(), found.inputs.tolist()) == here:
            return found
    job.notes.append(f"{path}: damaged or about another question, all of it is done again")
    return None


class Searching(Protocol):
    """The part of a search that the cells of an earlier run need."""

    question: EntryQuestion
    leaves: EntryLeaves

    def missing(self, entries: Interval) -> Array: ...
    def bounded(self, cells: Cells, known: Interval, wanted: Mask) -> tuple[Bounded, Index]: ...
    def proved(self, cells: Cells, known: Interval, wanted: Mask) -> Bounded: ...
    def report(self) -> None: ...


def prove_again(search: Searching, before: JacobianCertificate) -> None:
    """Split as the file says, down from the region, where entries are not good enough or wider than it claims.

    After every block the cells cover the region with what is proved by then.
    """
    splits, claims = before.splits, without_room(before.claims)
    same: Index = np.zeros(1, dtype=np.int64)  # for every node of this tree, the node in the file, or none
    advise(search.leaves, splits, same)
    while True:
        leaves = search.leaves.copy()
        missing = search.missing(leaves.entries) > 0
        with np.errstate(invalid="ignore"):
            wanted = missing | (leaves.entries.lo < claims.lo) | (leaves.entries.hi > claims.hi)
        inner = _inner(splits, same[leaves.node])
        needed = inner & wanted.any(axis=(1, 2))
        stays = needed | missing.any(axis=(1, 2))
        leaves.put_away(~stays)
        wanted, rows = wanted[stays], np.flatnonzero(needed[stays])
        rows = rows[-(search.question.batch // 2 + 1) :]  # the last ones first: fewer cells are open at a time
        fits = leaves.splittable(rows)
        same = _choose_anew(search, leaves, rows[~fits], wanted, same)
        if len(rows := rows[fits]):
            same = _split(search, leaves, rows, wanted, (splits, same))
        elif np.all(fits):
            search.leaves = leaves
            return
        search.leaves = leaves
        search.report()


def advise(leaves: EntryLeaves, splits: Tree, same: Index) -> None:
    """Split the region where the file does, if the file splits it."""
    if _inner(splits, same)[0]:
        leaves.choice = splits.where[:1].copy()


def _inner(splits: Tree, nodes: Index) -> Mask:
    """Which nodes are there in the file, and split."""
    return (nodes >= 0) & (splits.where[nodes] >= 0)


def _split(search: Searching, leaves: EntryLeaves, rows: Index, wanted: Mask, file: tuple[Tree, Index]) -> Index:
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
        block = both.rows(own), known.rows(own), wanted[twice[own]]
        if inner[own[0]]:
            found = search.proved(*block)
        else:
            found, choice[own] = search.bounded(*block)
        signs[own], (lo[own], hi[own]) = found.signs, found.entries
    leaves.divide(rows, Cells(both.lo, both.hi, signs), Interval(lo, hi), choice)
    return np.append(same, nodes)


def _choose_anew(search: Searching, leaves: EntryLeaves, rows: Index, wanted: Mask, same: Index) -> Index:
    """Cells that cannot be split as the file says are split as the search wants, and what it has below is left out."""
    if not len(rows):
        return same
    choice, same = leaves.choice.copy(), same.copy()
    choice[rows] = search.bounded(leaves.cells(rows), leaves.entries.rows(rows), wanted[rows])[1]
    leaves.choice, same[leaves.node[rows]] = choice, _NONE
    return same
