"""Certificates of constants on all cells of a partition: one file, no multipliers, everything is computed again.

cells        the version            edges, edge_counts   the grid, coordinate after coordinate
splits       of every node of the cover the coordinate of its split, or -1        values   of those that are split
claims       of every cell: of the grid's cells where `of_grid` is 1, else of the leaves

The boxes follow from edges and splits (`tree`), so that a cell cannot be missing or lie elsewhere. A cell of the grid
has the largest of its leaves' bounds.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable, write_npz
from lipcert.files.archive import Archive
from lipcert.files.boundary import located
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real
from lipcert.problem import question
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.question import EveryCell, LargestNorm, Question
from lipcert.problem.region import Box
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.boxes import Asked, preactivations_on, uppers_on
from lipcert.proof.cells import Cells, Index, halves
from lipcert.proof.cost import cell_seconds
from lipcert.proof.tree import Tree, read_tree, walk
from lipcert.proof.verification import Verification
from lipcert.rounding import Array
from lipcert.steps import expect

VERSION = 1
_NAMES = re.compile(f"cells|edges|edge_counts|splits|values|of_grid|claims|{question.NAMES}|{question.WORDS}")
_ROOM = 1e-9  # of a claim, for the order in which another BLAS adds


@dataclass(frozen=True, eq=False)
class PartitionCertificate:
    """On every cell the constant is at most its claim, for the network with this hash. Infinite claims say nothing."""

    network_sha256: str
    region: Box
    norm: Norm
    c: Array
    frame: Frame | None
    cover: Tree
    of_grid: bool
    claims: Array

    def __repr__(self) -> str:
        return f"PartitionCertificate({self.claims.size:,} cells, {self.region!r})"

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        places = {name: value for name, value in self._places().items() if value.size}
        every = EveryCell(self.claims.size, places)
        return Question(self.network_sha256, (self.region,), self.norm, self.c, None, self.frame, every)

    def verify(self, net: Network, exact: bool = False) -> PartitionVerification:
        """What it proves about this network just now; ball arithmetic does not know cells."""
        if exact:
            raise InputError("--exact is for proofs of one constant and of margins, not for cells; leave it out")
        return verify_partition(self, net)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())

    def _places(self) -> dict[str, NDArray[Any]]:
        """The arrays that say where the cells are."""
        return {**self.cover.arrays(), "of_grid": np.array(int(self.of_grid))}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `save` writes, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "cells": np.array(VERSION),
            "claims": self.claims,
            **self._places(),
        }
        statement = self.statement
        return arrays | dict(statement.arrays) | statement.hints | statement.words()


@dataclass(frozen=True, eq=False, repr=False)
class PartitionVerification(Verification):
    """`uppers` are what was proved of the cells just now, `claims` what the file says of them; `upper` and `claim` are
    the largest of each."""

    uppers: Array = field(default_factory=lambda: np.zeros(0))
    claims: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def failed(self) -> int:
        """Cells whose claim is not proved."""
        return int(np.sum(~(np.isfinite(self.claims) & (self.uppers <= self.claims))))

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        cover = "which cover the region" if self.proved else f"{self.failed:,} of them not proved"
        return [("cells", f"{len(self.claims):,}, {cover}"), *super().rows()]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        return super().to_dict() | {"cells": len(self.claims), "failed": self.failed}


def with_room(uppers: Array) -> Array:
    """What a file claims of these."""
    return np.nextafter(uppers * (1.0 + _ROOM), np.inf)


def verify_partition(certificate: PartitionCertificate, net: Network) -> PartitionVerification:
    """What is proved of every cell, computed again; nothing that the file says is believed."""
    claims = certificate.claims
    uppers, reason = np.full(len(claims), np.inf), _refused(certificate, net)
    if reason is None:
        nodes = len(certificate.cover.where)
        expect(nodes * cell_seconds(net), f"{nodes:,} cells and their halves")
        asked = Asked(net, certificate.region, certificate.norm, certificate.c, certificate.frame)
        try:
            uppers = cover_uppers(asked, certificate.cover, certificate.of_grid)
        except InputError as error:  # rows that overflow
            reason = str(error)
    failed = int(np.sum(~(np.isfinite(claims) & (uppers <= claims))))
    if reason is None and failed:
        reason = f"{failed:,} of {len(claims):,} cells: the claim is not proved"
    largest = float(uppers.max(initial=0.0)), float(claims.max(initial=0.0))
    about = certificate.statement
    return PartitionVerification(
        reason is None, *largest, reason or "proved", about, method="linear", uppers=uppers, claims=claims
    )


def _refused(certificate: PartitionCertificate, net: Network) -> str | None:
    c, norm, cover = certificate.c, certificate.norm, certificate.cover
    if certificate.network_sha256 != net.sha256:
        return "the certificate is about another network (the hashes differ)"
    if certificate.region.size != net.inputs or c.shape[-1] != net.outputs:
        return "the certificate is about another number of inputs or scores"
    if (c.ndim == 2) != (norm.out is not None) or (c.ndim == 2 and not np.array_equal(c, np.eye(net.outputs))):
        return "the certificate is about several outputs, but not all of them"
    if cover.grid is None:
        return "there is no grid of cells"
    fault = cover.fault(net, certificate.region)
    if fault is not None:
        return fault
    if certificate.frame is not None and not certificate.frame.covers(net, norm):
        return "the weights are not those that the bounds were made with"
    expected = cover.roots if certificate.of_grid else cover.count
    return None if len(certificate.claims) == expected else "there is not one claim for every cell"


def cover_uppers(asked: Asked, cover: Tree, of_grid: bool) -> Array:
    """The proved bound of every leaf, or of every cell of the grid; signs pass from a box to its halves.

    A leaf that the walk does not reach has an infinite bound, also where the caller did not look for faults first.
    """
    grid = cover.grid
    assert grid is not None
    count = cover.roots if of_grid else cover.count
    if not asked.problem.network.depth:
        return np.full(count, prove_linear(asked.problem).upper)
    found = np.full(count, -np.inf)
    place = cover.root if of_grid else cover.leaf_numbers

    def visit(nodes: Index, cells: Cells) -> Cells:
        boxes = asked.places(cells.lo, cells.hi)
        pre, signs = preactivations_on(asked, boxes, cells.signs)
        k = np.flatnonzero(cover.where[nodes] < 0)
        if len(k):
            uppers = uppers_on(asked, boxes.rows(k), tuple(z.rows(k) for z in pre))
            np.maximum.at(found, place[nodes[k]], uppers)
        return Cells(cells.lo, cells.hi, signs)

    fits = walk(cover, grid.groups(asked.batch, asked.columns), visit, halves, asked.batch // 2)
    return np.where(found == -np.inf, np.inf, found) if fits else np.full(count, np.inf)


def load_partition(path: str | os.PathLike[str]) -> PartitionCertificate:
    """Read a certificate; nothing in it is believed before `verify_partition`."""
    file = check_readable(path)
    with located(file):
        advice = "write it again with lipcert cells --certificate"
        return _parse(Archive(file, _NAMES, content="a certificate of cells", texts=question.TEXTS, advice=advice))


def _parse(arrays: Archive) -> PartitionCertificate:
    version = one_whole(arrays, "cells", 0, LARGEST_WHOLE)
    if version != VERSION:
        raise FileFormatError(f"cells of version {version}; this lipcert reads version {VERSION}")
    q = Question.read(arrays, LargestNorm())
    claims, flag = real(arrays, "claims", (None,), 0.0, np.inf), one_whole(arrays, "of_grid", 0, 1)
    if not isinstance(q.region, Box):
        raise FileFormatError("cells are cells of a box, and the file has none")
    found = PartitionCertificate(
        q.network_sha256, q.region, q.norm, q.c, q.frame, read_tree(arrays), bool(flag), claims
    )
    found.statement.compare(arrays)
    return found
