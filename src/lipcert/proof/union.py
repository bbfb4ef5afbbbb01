"""Certificates about several regions: one for each, in one file. Together they bound the largest constant."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError
from lipcert.files import MAX_WEIGHTS, check_readable, write_npz
from lipcert.files.archive import Archive, members_of
from lipcert.files.boundary import located
from lipcert.files.numbers import LARGEST_WHOLE, whole
from lipcert.problem import question
from lipcert.problem.network import Network
from lipcert.problem.question import Question
from lipcert.proof.certificate import Certificate
from lipcert.proof.cost import seconds
from lipcert.proof.verification import Exact, Verification
from lipcert.proof.verify import read_certificate
from lipcert.readers.given import TorchModule, network_of
from lipcert.rounding import worst
from lipcert.steps import expect

MOST_PARTS = 1000  # regions
_VERSION = 1
_SHOWN = 5  # regions that a person reads first
_NAMES = re.compile(rf"union|part_\d{{1,4}}|{question.WORDS}")


@dataclass(frozen=True, eq=False)
class UnionCertificate:
    """One certificate for each of several regions: the constant on each of them is at most `upper`."""

    parts: tuple[Certificate, ...]

    @property
    def upper(self) -> float:
        """The largest."""
        return max(part.upper for part in self.parts)

    @property
    def claim(self) -> float:
        """The largest of what the parts state."""
        return max(part.claim for part in self.parts)

    @property
    def statement(self) -> Question:
        """What it is about, in full: the question of its first part, on the regions of all."""
        first = self.parts[0]
        regions = [part.region for part in self.parts]
        return replace(first.statement, regions=tuple(regions))

    def verify(self, net: Network, exact: bool = False) -> UnionVerification:
        """What it proves about this network just now; all parts must be about one question."""
        expect(sum(seconds(net, part.proof) for part in self.parts), f"{len(self.parts):,} regions")
        answers = tuple(part.verify(net, exact) for part in self.parts)
        failed = [k for k, answer in enumerate(answers) if not answer.proved]
        reason = f"region {failed[0]}: {answers[failed[0]].reason}" if failed else "proved"
        upper = worst(*(answer.upper for answer in answers))
        if not all(_same_question(part, self.parts[0]) for part in self.parts):
            upper, reason = np.inf, "the parts are about different questions"
        looked = Exact(worst(*(a.exact.upper for a in answers if a.exact)), "every region") if exact else None
        return UnionVerification(
            reason == "proved", upper, self.claim, reason, self.statement, None, looked, parts=answers
        )

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What `save` writes, by name: the file of every part as bytes."""
        found: dict[str, NDArray[np.generic]] = {"union": np.array([_VERSION, len(self.parts)])}
        found |= self.statement.words()
        for k, part in enumerate(self.parts):
            file = io.BytesIO()
            np.savez(file, allow_pickle=False, **part.arrays())
            found[f"part_{k}"] = np.frombuffer(file.getvalue(), dtype=np.uint8)
        return found

    def __repr__(self) -> str:
        return f"UnionCertificate(upper {rounded_up(self.upper, 9)} on {len(self.parts):,} regions)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())


@dataclass(frozen=True, repr=False)
class UnionVerification(Verification):
    """`upper` is the largest of what was proved of the regions just now, `parts` what each of them proves."""

    parts: tuple[Verification, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        parts = [
            (f"region {k}", f"{rounded_up(part.upper, 9)}   {part.reason}")
            for k, part in enumerate(self.parts[:_SHOWN])
        ]
        return [*super().rows(), *parts]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        return super().to_dict() | {"regions": [part.to_dict() for part in self.parts]}


def verify_union(
    certificate: UnionCertificate | str | os.PathLike[str], net: Network | str | os.PathLike[str] | TorchModule
) -> UnionVerification:
    """Check the certificates of several regions without any solver; all of them must be about one question.

    certificate: as in `UnionResult.certificate`, or the path of a file that its `save` wrote.
    net: the network that it is about, or the path of its file, or a torch module.

    The same as `verify`, which takes every kind of certificate.
    """
    kept = certificate if isinstance(certificate, UnionCertificate) else load_union(certificate)
    return kept.verify(network_of(net, None))


def load_union(path: str | os.PathLike[str]) -> UnionCertificate:
    """Read the certificates of several regions; nothing in them is believed before `verify_union`."""
    file = check_readable(path)
    with located(file):
        arrays = Archive(file, _NAMES, content="certificates of several regions")
        version, parts = (int(n) for n in whole(arrays, "union", (2,), 0, LARGEST_WHOLE))
        if version != _VERSION:
            raise FileFormatError("the certificates have another version; upgrade lipcert")
        if not 1 <= parts <= MOST_PARTS or sum(name.startswith("part_") for name in arrays) != parts:
            raise FileFormatError(f"the file must hold one certificate for each of 1 to {MOST_PARTS:,} regions")
        files = [_file(arrays[f"part_{k}"], k) for k in range(parts)]
        if sum(_declared(file, k) for k, file in enumerate(files)) > 8 * MAX_WEIGHTS:
            raise FileFormatError(f"the parts declare more than {MAX_WEIGHTS:,} numbers together")
        found = UnionCertificate(tuple(_part(file, k) for k, file in enumerate(files)))
        found.statement.compare(arrays)
        return found


def _file(data: NDArray[np.generic], k: int) -> io.BytesIO:
    if data.ndim != 1 or data.dtype != np.uint8:
        raise FileFormatError(f"part {k} is not the bytes of a certificate")
    return io.BytesIO(data.tobytes())


def _declared(file: io.BytesIO, k: int) -> int:
    """Bytes of the arrays of a part; reading it checks that they are as many."""
    return sum(member.file_size for member in members_of(file, f"write part {k} again"))


def _part(file: io.BytesIO, k: int) -> Certificate:
    try:
        return read_certificate(file)
    except InputError as error:
        raise FileFormatError(f"part {k}: {error}") from None


def _same_question(one: Certificate, other: Certificate) -> bool:
    """Whether both are about the same network, norms, output and weights."""
    if one.network_sha256 != other.network_sha256 or one.norm != other.norm or one.coordinate != other.coordinate:
        return False
    return np.array_equal(one.c, other.c) and _weights(one) == _weights(other)


def _weights(certificate: Certificate) -> dict[str, object] | None:
    return None if certificate.frame is None else certificate.frame.to_dict(certificate.norm)
