"""Certificates about several regions: one for each, in one file. Together they bound the largest constant."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError
from lipcert.files import MAX_WEIGHTS
from lipcert.files.archive import members_of
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, whole
from lipcert.problem.network import Network
from lipcert.problem.question import Arrays, Question, text_array
from lipcert.proof.certificate import VERSION, Certificate, Envelope
from lipcert.proof.file import load_certificate, read_certificate
from lipcert.proof.verification import ExactBound, Verification
from lipcert.readers.given import TorchModule, network_of
from lipcert.rounding import worst
from lipcert.steps import expect

MOST_PARTS = 1000  # regions


@dataclass(frozen=True, eq=False)
class UnionCertificate(Envelope):
    """One certificate for each of several regions: the constant on each of them is at most `upper`."""

    kind: ClassVar[str] = "union"

    parts: tuple[Certificate, ...]

    def __repr__(self) -> str:
        return f"UnionCertificate(upper {rounded_up(self.upper, 9)} on {len(self.parts):,} regions)"

    @property
    def upper(self) -> float:
        """The largest."""
        return max(part.upper for part in self.parts)

    @property
    def claim(self) -> float:
        """The largest claim of the parts."""
        return max(part.claim for part in self.parts)

    @property
    def statement(self) -> Question:
        """The question of its first part, on the regions of all."""
        return replace(self.parts[0].statement, regions=tuple(part.region for part in self.parts))

    def arrays(self) -> Arrays:
        """The arrays that `save` writes, by name: the file of every part as bytes, with its part of the question."""
        own = {"certificate": np.array(VERSION), "kind": text_array(self.kind), **self.content()}
        return {**own, **self.statement.words()}

    def content(self) -> Arrays:
        """The file of every part as bytes."""
        files = {f"part_{k}": np.frombuffer(part.to_bytes(), dtype=np.uint8) for k, part in enumerate(self.parts)}
        return {"regions": np.array(len(self.parts)), **files}

    def verify(self, subject: Network, exact: bool = False) -> Verification:
        """Check every part about this network; all parts must be about one question."""
        expect(sum(part.cost(subject)[0] for part in self.parts), f"{len(self.parts):,} regions")
        answers = tuple(part.verify(subject, exact) for part in self.parts)
        failed = [k for k, answer in enumerate(answers) if not answer.proved]
        reason = f"region {failed[0]}: {answers[failed[0]].reason}" if failed else "proved"
        upper = worst(*(answer.upper for answer in answers))
        if not all(_same_question(part, self.parts[0]) for part in self.parts):
            upper, reason = np.inf, "the parts are about different questions"
        looked = ExactBound(worst(*(a.exact.upper for a in answers if a.exact)), "every region") if exact else None
        proved = reason == "proved"
        return Verification(proved, upper, self.claim, reason, self.statement, exact=looked, parts=answers)


UnionVerification = Verification  # the name that several regions had for the answer


def verify_union(
    certificate: UnionCertificate | str | os.PathLike[str], net: Network | str | os.PathLike[str] | TorchModule
) -> Verification:
    """Check the certificates of several regions without any solver; all of them must be about one question.

    certificate: as in `UnionResult.certificate`, or the path of a file that its `save` wrote.
    net: the network that it is about, or the path of its file, or a torch module.

    The same as `verify`, which takes every kind of certificate.
    """
    kept = certificate if isinstance(certificate, UnionCertificate) else load_certificate(certificate, UnionCertificate)
    return kept.verify(network_of(net, None))


def read_union(arrays: Mapping[str, Any]) -> UnionCertificate:
    """The certificates of a file, one for each region."""
    old = "union" in arrays  # in version 1.0.0 it had the version and the count
    parts = (
        int(whole(arrays, "union", (2,), 0, LARGEST_WHOLE)[1]) if old else one_whole(arrays, "regions", 0, MOST_PARTS)
    )
    if not 1 <= parts <= MOST_PARTS or sum(name.startswith("part_") for name in arrays) != parts:
        raise FileFormatError(f"the file must hold one certificate for each of 1 to {MOST_PARTS:,} regions")
    files = [_file(arrays[f"part_{k}"], k) for k in range(parts)]
    if sum(_declared(file, k) for k, file in enumerate(files)) > 8 * MAX_WEIGHTS:
        raise FileFormatError(f"the parts declare more than {MAX_WEIGHTS:,} numbers together")
    return UnionCertificate(tuple(_part(file, k) for k, file in enumerate(files)))


def _file(data: NDArray[np.generic], k: int) -> io.BytesIO:
    if data.ndim != 1 or data.dtype != np.uint8:
        raise FileFormatError(f"part {k} is not the bytes of a certificate")
    return io.BytesIO(data.tobytes())


def _declared(file: io.BytesIO, k: int) -> int:
    """Bytes of the arrays of a part; reading it checks that they are as many."""
    return sum(member.file_size for member in members_of(file, f"write part {k} again"))


def _part(file: io.BytesIO, k: int) -> Certificate:
    try:
        found: Certificate = read_certificate(file, Certificate)
        return found
    except InputError as error:
        raise FileFormatError(f"part {k}: {error}") from None


def _same_question(one: Certificate, other: Certificate) -> bool:
    """Whether both are about the same network, norms, output and weights, whatever their regions are."""
    return replace(one.statement, regions=()).sha256 == replace(other.statement, regions=()).sha256
