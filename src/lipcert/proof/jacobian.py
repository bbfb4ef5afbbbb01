"""Certificates of the entries of a Jacobian: one file for all of them, no multipliers, everything is computed again.

jacobian     the version            scores, inputs   which entries
splits       of every cell where it is split, or -1 (`splits`)        values   of those that are split at a coordinate
lower, upper                        what is claimed of every entry on the region
points       inputs of the region   seen_least, seen_most    what is claimed to be seen at one of them,
least_at, most_at                   which one, of every entry; -1 for none

The cells follow from the splits, so that none can be missing or lie elsewhere.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import entries_at
from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable, write_npz
from lipcert.files.archive import Archive
from lipcert.files.boundary import located
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real, whole
from lipcert.problem import question
from lipcert.problem.network import Network
from lipcert.problem.question import Question, read_entries
from lipcert.problem.region import Box, Everywhere, Region
from lipcert.proof.cells import Index
from lipcert.proof.cost import cell_seconds
from lipcert.proof.entries import Asked, enclosure
from lipcert.proof.tree import Tree, read_tree
from lipcert.proof.verification import Verification
from lipcert.rounding import Array
from lipcert.steps import expect, step

VERSION = 1
_OF_ENTRIES = ("lower", "upper", "seen_least", "seen_most")
_NUMBERS_AT = ("least_at", "most_at")
_NAMES = re.compile(
    "|".join(("jacobian|splits|values|points", *_OF_ENTRIES, *_NUMBERS_AT, question.NAMES, question.WORDS))
)
_ROOM = 1e-9  # of the larger end of a claim, for the order in which another BLAS adds
_POINTS = 256  # that are evaluated together


@dataclass(frozen=True, eq=False)
class JacobianCertificate:
    """Every entry d score / d input lies in [lower, upper] on the region, for the network with this hash; next to
    points[least_at] it is at most seen_least, next to points[most_at] at least seen_most."""

    network_sha256: str
    region: Region
    scores: Index
    inputs: Index
    splits: Tree
    claims: Interval
    points: Array
    seen: Interval
    at: tuple[Index, Index]

    def __repr__(self) -> str:
        return f"JacobianCertificate({self.scores.size:,} by {self.inputs.size:,} entries, {self.region!r})"

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return Question.of_entries(self.network_sha256, self.region, self.scores, self.inputs)

    def verify(self, net: Network, exact: bool = False) -> JacobianVerification:
        """What it proves about this network just now; ball arithmetic does not know Jacobians."""
        if exact:
            raise InputError("--exact is for proofs of one constant and of margins, not for a Jacobian; leave it out")
        return verify_jacobian(self, net)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `save` writes, by name."""
        return {
            "jacobian": np.array(VERSION),
            **self.splits.arrays(),
            "lower": self.claims.lo,
            "upper": self.claims.hi,
            "points": self.points,
            "seen_least": self.seen.lo,
            "seen_most": self.seen.hi,
            "least_at": self.at[0],
            "most_at": self.at[1],
            **self.statement.arrays,
            **self.statement.hints,
            **self.statement.words(),
        }


@dataclass(frozen=True, eq=False, repr=False)
class JacobianVerification(Verification):
    """`entries` are what was proved of the entries just now, `claims` what the file says of them, `failed` how many
    have a claim that is not proved; `upper` and `claim` are the largest magnitudes of each."""

    entries: Interval = field(default_factory=lambda: Interval(np.zeros((0, 0)), np.zeros((0, 0))))
    claims: Interval = field(default_factory=lambda: Interval(np.zeros((0, 0)), np.zeros((0, 0))))
    seen: Interval = field(default_factory=lambda: Interval(np.zeros((0, 0)), np.zeros((0, 0))))
    failed: int = 0
    cells: int = 0
    points: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many entries are claimed to have each sign."""
        low, high = self.claims
        return {
            "increasing": int(np.sum((low >= 0) & (high > 0))),
            "decreasing": int(np.sum((high <= 0) & (low < 0))),
            "zero": int(np.sum((low == 0) & (high == 0))),
            "both": int(np.sum((self.seen.lo < 0) & (self.seen.hi > 0))),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        rows, columns = self.claims.lo.shape
        words = ", ".join(f"{count:,} {word}" for word, count in self.counts.items() if count)
        return [
            ("entries", f"{rows} x {columns}{f': {words}' if self.proved and words else ''}"),
            ("cells", f"{self.cells:,}, which cover the region" if self.proved else ""),
            ("points", f"{self.points:,}"),
            *self.about(),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        return super().to_dict() | {
            "entries": int(self.claims.lo.size),
            "failed": self.failed,
            "counts": self.counts if self.proved else None,
            "cells": self.cells,
            "points": self.points,
        }


def with_room(entries: Interval) -> Interval:
    """What a file claims of these; a sign stays what it is."""
    size = _ROOM * np.where(np.isfinite(entries.magnitude), entries.magnitude, 0.0)
    low, high = np.nextafter(entries.lo - size, -np.inf), np.nextafter(entries.hi + size, np.inf)
    return Interval(_signed(low, entries.lo), _signed(high, entries.hi))


def without_room(claims: Interval) -> Interval:
    """About the entries that a file was made of, a little narrower."""
    size = 2 * _ROOM * np.where(np.isfinite(claims.magnitude), claims.magnitude, 0.0)
    return Interval(claims.lo + size, claims.hi - size)


def seen_with_room(seen: Interval) -> Interval:
    """What a file claims to be seen: a little less than was."""
    size = _ROOM * np.where(np.isfinite(seen.magnitude), seen.magnitude, 0.0)
    return Interval(_signed(seen.lo + size, seen.lo), _signed(seen.hi - size, seen.hi))


def _signed(moved: Array, value: Array) -> Array:
    """Where a number would change its sign, or is zero, it is left where the sign is."""
    return np.where(np.sign(moved) == np.sign(value), moved, np.where(value == 0, 0.0, value / 2))


def verify_jacobian(certificate: JacobianCertificate, net: Network) -> JacobianVerification:
    """What is proved of every entry, computed again; nothing that the file says is believed."""
    claims = certificate.claims
    reason, found, failed = refused(certificate, net), None, int(claims.lo.size)
    if reason is None:
        nodes = len(certificate.splits.where) * len(certificate.scores)
        expect(nodes * cell_seconds(net), f"{certificate.splits.count:,} cells, {len(certificate.scores):,} scores")
        asked = Asked(net, certificate.region, certificate.scores, certificate.inputs)
        found = enclosure(asked, certificate.splits, claims)
        reason, failed = _unproved(certificate, net, found)
    entries = Interval(np.full(claims.lo.shape, -np.inf), np.full(claims.hi.shape, np.inf)) if found is None else found
    return JacobianVerification(
        reason is None,
        float(entries.magnitude.max(initial=0.0)),
        float(claims.magnitude.max(initial=0.0)),
        reason or "proved",
        certificate.statement,
        entries=entries,
        claims=claims,
        seen=certificate.seen,
        failed=failed,
        cells=certificate.splits.count,
        points=len(certificate.points),
    )


def _unproved(certificate: JacobianCertificate, net: Network, found: Interval | None) -> tuple[str | None, int]:
    """Why some claims do not follow from these enclosures, None where all do; and how many entries have such claims."""
    claims = certificate.claims
    if found is None:
        return "a split that is not inside its cell", int(claims.lo.size)
    wrong = ~((claims.lo <= found.lo) & (found.hi <= claims.hi) & np.isfinite(claims.lo) & np.isfinite(claims.hi))
    unseen = ~_seen(certificate, net)
    for bad, words in ((wrong, "the claimed bounds are not proved"), (unseen, "the claimed values are not seen there")):
        if bad.any():
            return f"{int(bad.sum()):,} of {bad.size:,} entries: {words}", int((wrong | unseen).sum())
    return None, 0


def refused(certificate: JacobianCertificate, net: Network) -> str | None:
    """Why a certificate cannot be about this network, in words; None where it can."""
    region = certificate.region
    if certificate.network_sha256 != net.sha256:
        return "the certificate is about another network (the hashes differ)"
    if not isinstance(region, Everywhere) and region.size != net.inputs:
        return "the certificate is about another number of inputs"
    for chosen, count in ((certificate.scores, net.outputs), (certificate.inputs, net.inputs)):
        if np.any((chosen < 0) | (chosen >= count)):
            return "the certificate is about scores or inputs that the network does not have"
        if len(np.unique(chosen)) < len(chosen):  # a small file could ask for one of them a million times
            return "the certificate is about a score or an input twice"
    if len(certificate.points) > 2 * certificate.claims.lo.size:
        return "the certificate has more points than its entries name"
    if certificate.points.shape[1] != net.inputs or not (
        len(certificate.points) == 0 or region.contains(certificate.points)
    ):
        return "a point of the certificate is not in the region"
    tree = certificate.splits
    if tree.grid is not None or tree.leaves is not None:
        return "the splits are those of another kind of certificate"
    if not isinstance(region, Box) and np.any((tree.where >= 0) & (tree.where < net.inputs)):
        return "a split of a coordinate, but the region is no box"
    return tree.fault(net, region)


def _seen(certificate: JacobianCertificate, net: Network) -> NDArray[np.bool_]:
    """Of which entries what is claimed to be seen at a point is there. No point, no claim."""
    points, shape = certificate.points, certificate.claims.lo.shape
    fine = np.ones(shape, dtype=bool)
    ends = ((certificate.at[0], certificate.seen.lo, np.inf), (certificate.at[1], certificate.seen.hi, -np.inf))
    for at, value, none in ends:
        fine &= (at >= 0) | (value == none)
    for start in range(0, len(points), _POINTS):
        step()
        g = entries_at(net, points[start : start + _POINTS], certificate.scores)
        for (at, value, _), end, sign in zip(ends, (g.hi, g.lo), (-1.0, 1.0), strict=True):
            row, column = np.nonzero((at >= start) & (at < start + _POINTS))
            own = end[at[row, column] - start, row, certificate.inputs[column]]
            fine[row, column] &= sign * own >= sign * value[row, column]
    return fine


def load_jacobian(path: str | os.PathLike[str]) -> JacobianCertificate:
    """Read a certificate; nothing in it is believed before `verify_jacobian`."""
    file = check_readable(path)
    with located(file):
        advice = "write it again with lipcert jacobian --certificate"
        return _parse(Archive(file, _NAMES, content="a certificate of a Jacobian", texts=question.TEXTS, advice=advice))


def _parse(arrays: Archive) -> JacobianCertificate:
    if one_whole(arrays, "jacobian", 0, LARGEST_WHOLE) != VERSION:
        raise FileFormatError(f"not a Jacobian of version {VERSION}, which this lipcert reads")
    every = read_entries(arrays)
    shape, points = (len(every.scores), len(every.inputs)), real(arrays, "points", (None, None))
    lower, upper, least, most = (real(arrays, name, shape, -np.inf, np.inf) for name in _OF_ENTRIES)
    at = tuple(whole(arrays, name, shape, -1, len(points) - 1) for name in _NUMBERS_AT)  # -1: at no point
    asked = Question.read(arrays, every)
    splits, about = read_tree(arrays), (asked.network_sha256, asked.region, every.scores, every.inputs)
    ends = (Interval(lower, upper), points, Interval(least, most))
    found = JacobianCertificate(*about, splits, *ends, (at[0], at[1]))
    found.statement.compare(arrays)
    return found
