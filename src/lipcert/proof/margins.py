"""Margins on a box as certificates: c'scores <= upper, proved by linear bounds or by a relaxation's multipliers."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable
from lipcert.files.archive import Archive
from lipcert.files.boundary import located
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real, whole, word
from lipcert.problem import question
from lipcert.problem.activations import IDENTITY
from lipcert.problem.blocks import Block
from lipcert.problem.network import Network
from lipcert.problem.output import Output, output_of
from lipcert.problem.problem import Problem
from lipcert.problem.question import Question
from lipcert.problem.region import Box
from lipcert.proof.encoding import decode_numbers, encode_numbers
from lipcert.proof.multipliers import check, prove
from lipcert.proof.verification import Exact, Verification, ball_checker, finite
from lipcert.relaxation.margin import Margin, applies, margin
from lipcert.rounding import Array, worst
from lipcert.steps import step

MARGINS_VERSION = 2
MAX_ROWS = 1000
_NAMES = re.compile(rf"margins|network|lo|hi|c|keep|claim|names|segments|index|numbers|{question.WORDS}")


_TEXTS = frozenset({"network", "names"})


@dataclass(frozen=True, eq=False)
class MarginProof:
    """c'scores <= upper on the box; without multipliers by linear bounds, with them by `margin(.., keep)`."""

    c: Array
    upper: float
    keep: int = -1
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    shift: Mapping[str, Array] = field(default_factory=dict)

    @property
    def claim(self) -> float:
        """What a file states: room for another BLAS, but a margin below zero stays below zero."""
        room = self.upper + 1e-9 * (1.0 + abs(self.upper))
        return min(room, self.upper / 2) if self.upper < 0 else room


@dataclass(frozen=True, eq=False)
class MarginCertificate:
    """Margins of one network on one box."""

    network_sha256: str
    box: Box
    proofs: tuple[MarginProof, ...]
    claims: tuple[float, ...]

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return Question.of_scores(self.network_sha256, self.box, np.array([proof.c for proof in self.proofs]))

    def verify(self, net: Network, exact: bool = False) -> MarginVerification:
        """What every row proves just now; with `exact` the larger of what both checkers prove."""
        balls = ball_checker() if exact else None
        uppers = verify_margins(self, net)
        if balls is not None:
            uppers = [worst(*pair) for pair in zip(uppers, balls.margins_with_balls(self, net), strict=True)]
        return MarginVerification.of(self, tuple(uppers), exact)

    def to_bytes(self) -> bytes:
        """An .npz that `lipcert verify` checks without any solver."""
        arrays: dict[str, Any] = {
            "margins": np.array(MARGINS_VERSION),
            "keep": np.array([p.keep for p in self.proofs], dtype=np.int64),
            "claim": np.array(self.claims),
        }
        arrays |= encode_numbers(self.proofs) | dict(self.statement.arrays) | self.statement.words()
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **arrays)
        return stream.getvalue()


@dataclass(frozen=True, repr=False)
class MarginVerification(Verification):
    """`uppers` are what was proved of the combinations of scores just now, `claims` what the file says of them; `upper`
    and `claim` are the largest of each."""

    outputs: tuple[Output, ...] = ()
    uppers: tuple[float, ...] = ()
    claims: tuple[float, ...] = ()

    @classmethod
    def of(cls, kept: MarginCertificate, uppers: tuple[float, ...], exact: bool) -> MarginVerification:
        """The verdict, from what every row proves."""
        failed = sum(not upper <= claim < np.inf for upper, claim in zip(uppers, kept.claims, strict=True))
        reason = f"{failed} of {len(uppers)} claims are not proved" if failed else "proved"
        largest, outputs = worst(*uppers), tuple(output_of(proof.c) for proof in kept.proofs)
        looked = Exact(largest, "every row, linear forms or semidefiniteness") if exact else None
        numbers = (largest, max(kept.claims))
        return cls(not failed, *numbers, reason, kept.statement, None, looked, outputs, uppers, kept.claims)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        pairs = zip(self.outputs, self.uppers, self.claims, strict=True)
        how = "recomputed now, also in balls" if self.exact is not None else "recomputed now"
        found = [
            (str(output), f"<= {rounded_up(upper, 6)}   {how}; {rounded_up(claim, 6)} as stored")
            for output, upper, claim in pairs
        ]
        return [*found, *self.about()]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        pairs = zip(self.outputs, self.uppers, self.claims, strict=True)
        margins = [
            {"output": output.description, "upper": finite(upper), "claim": finite(claim)}
            for output, upper, claim in pairs
        ]
        return super().to_dict() | {"margins": margins, "exact": self.exact is not None}


def certificate_of(net: Network, box: Box, proofs: tuple[MarginProof, ...]) -> MarginCertificate:
    return MarginCertificate(net.sha256, box, proofs, tuple(p.claim for p in proofs))


def linear_margins(net: Network, box: Box, rows: Array) -> tuple[tuple[Interval, ...], Array]:
    """Pre-activation bounds on the box, and upper bounds of rows @ scores: the rows as one more layer."""
    bounds = preactivation_bounds(with_margins(net, rows), box)
    return bounds[: net.depth], bounds[-1].hi


def with_margins(net: Network, rows: Array) -> Network:
    """The network whose last hidden block is rows @ scores."""
    count, behind = len(rows), len(net.blocks)
    margins = Block(((behind, rows),), np.zeros(count), IDENTITY)
    return Network.from_blocks((*net.blocks, margins, Block(((behind + 1, np.eye(count)),), np.zeros(count))))


def prove_margin(problem: Margin, c: Array, keep: int, multipliers: Array) -> MarginProof:
    """The bound from any multipliers of `margin(.., keep)` for these weights c, good or bad."""
    proof = prove(problem.relaxation, multipliers)
    relaxation = problem.relaxation
    rows, shift = relaxation.pack(proof.multipliers), relaxation.spread(proof.shift)
    return MarginProof(c, _unlifted(proof.upper, problem.lift), keep, rows, shift)


def verify_margins(certificate: MarginCertificate, net: Network) -> list[float]:
    """What each row proves just now, infinite where it proves nothing; everything but the multipliers is rebuilt."""
    box = certificate.box
    if certificate.network_sha256 != net.sha256 or box.size != net.inputs:
        return [np.inf] * len(certificate.proofs)
    if any(proof.c.shape != (net.outputs,) for proof in certificate.proofs):
        return [np.inf] * len(certificate.proofs)
    with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
        try:  # all rows at once: bounds of the layers before them are the same for all
            pre, linear = linear_margins(net, box, np.array([proof.c for proof in certificate.proofs]))
        except InputError:  # rows that overflow
            return [np.inf] * len(certificate.proofs)
        pairs = zip(certificate.proofs, linear, strict=True)
        return [_rechecked(proof, net, box, pre, float(upper)) for proof, upper in pairs]


def _rechecked(proof: MarginProof, net: Network, box: Box, pre: tuple[Interval, ...], linear: float) -> float:
    step()
    try:
        return _recheck(proof, net, box, pre, linear)
    except InputError:
        return np.inf


def _recheck(proof: MarginProof, net: Network, box: Box, pre: tuple[Interval, ...], linear: float) -> float:
    if not proof.multipliers:
        return worst(linear)
    if not applies(net) or proof.keep < 0:
        return np.inf
    problem = margin(Problem.of(net, box, proof.c).on(box, preactivations=pre), proof.keep)
    relaxation = problem.relaxation
    if not relaxation.fits(proof.multipliers, proof.shift):
        return np.inf
    multipliers, shift = relaxation.unpack(proof.multipliers), relaxation.gather(proof.shift)
    return _unlifted(check(relaxation, multipliers, shift).upper, problem.lift)


def _unlifted(upper: float, lift: float) -> float:
    return worst(float(np.nextafter(upper - lift, np.inf)))


def load_margins(path: str | os.PathLike[str]) -> MarginCertificate:
    """Read a certificate; nothing in it is believed before `verify_margins`."""
    file = check_readable(path)
    with located(file):
        return _parse(Archive(file, _NAMES, content="a certificate of margins", texts=_TEXTS))


def _parse(arrays: Archive) -> MarginCertificate:
    version = one_whole(arrays, "margins", 0, LARGEST_WHOLE)
    if version != MARGINS_VERSION:
        raise FileFormatError(f"margins of version {version}; this lipcert reads version {MARGINS_VERSION}")
    c = real(arrays, "c", (None, None))
    if not 1 <= len(c) <= MAX_ROWS:  # of none at all "proved" would be true, and say nothing
        raise FileFormatError(f"{len(c) or 'no'} margins; a file has 1 to {MAX_ROWS:,}")
    keep = whole(arrays, "keep", (len(c),), -1, LARGEST_WHOLE)
    claim = real(arrays, "claim", (len(c),), -np.inf, np.inf)
    box = Box.from_bounds(real(arrays, "lo", (None,)), real(arrays, "hi", (None,)))
    numbers = decode_numbers(arrays, len(c))
    proofs = tuple(MarginProof(row, np.inf, int(size), *both) for row, size, both in zip(c, keep, numbers, strict=True))
    found = MarginCertificate(word(arrays, "network"), box, proofs, tuple(float(e) for e in claim))
    found.statement.compare(arrays)
    return found
