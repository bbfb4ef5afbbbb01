"""Certificates about several regions: one for each, in one file. Together they bound the largest constant."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files import MAX_WEIGHTS, check_readable, write_json, write_npz
from lipcert.files.archive import Archive, holds, members_of
from lipcert.files.boundary import located
from lipcert.files.numbers import MOST_WHOLE, whole
from lipcert.problem.network import Network
from lipcert.proof.certificate import Certificate
from lipcert.proof.cost import seconds
from lipcert.proof.verify import Verification, read_certificate, verify
from lipcert.readers.given import TorchModule, network_of
from lipcert.steps import expect

if TYPE_CHECKING:
    from lipcert.chart.facts import Facts

MOST_PARTS = 1000  # regions
_VERSION = 1
_SHOWN = 5  # regions that a person reads first
_NAMES = re.compile(r"union|part_\d{1,4}")


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

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What `save` writes, by name: the file of every part as bytes."""
        found: dict[str, NDArray[np.generic]] = {"union": np.array([_VERSION, len(self.parts)])}
        for k, part in enumerate(self.parts):
            file = io.BytesIO()
            np.savez(file, allow_pickle=False, **part.arrays())
            found[f"part_{k}"] = np.frombuffer(file.getvalue(), dtype=np.uint8)
        return found

    def __repr__(self) -> str:
        return f"UnionCertificate(upper {self.upper:.9g} on {len(self.parts):,} regions)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())


@dataclass(frozen=True)
class UnionVerification:
    """What `verify_union` found: `upper` is the largest of what was proved just now, infinite when some part was not.

    `proved` says whether every part supports its claim, `reason` in words why or why not, `parts` what each proves.
    """

    proved: bool
    upper: float
    claim: float
    reason: str
    parts: tuple[Verification, ...]

    def facts(self) -> Facts:
        """What a person wants to read first."""
        from lipcert.chart.facts import Facts  # here, so that a check loads nothing that it does not need

        upper = f"{self.upper:.9g}   recomputed now" if np.isfinite(self.upper) else "none"
        rows = [("upper", upper), ("claim", f"{self.claim:.9g}   as stored"), ("reason", self.reason)]
        rows += [(f"region {k}", f"{part.upper:.9g}   {part.reason}") for k, part in enumerate(self.parts[:_SHOWN])]
        return Facts(f"Certificates of {len(self.parts)} regions {'' if self.proved else 'not '}proved", rows)

    def __repr__(self) -> str:
        return self.facts().text()

    def _repr_html_(self) -> str:
        return self.facts().html()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        return {
            "proved": self.proved,
            "upper": self.upper if np.isfinite(self.upper) else None,
            "claim": self.claim if np.isfinite(self.claim) else None,
            "reason": self.reason,
            "regions": [part.to_dict() for part in self.parts],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .json."""
        write_json(path, self.to_dict(), "a verification")


def verify_union(
    certificate: UnionCertificate | str | os.PathLike[str], net: Network | str | os.PathLike[str] | TorchModule
) -> UnionVerification:
    """Check the certificates of several regions without any solver; all of them must be about one question.

    certificate: as in `UnionResult.certificate`, or the path of a file that its `save` wrote.
    net: the network that it is about, or the path of its file, or a torch module.
    """
    kept = certificate if isinstance(certificate, UnionCertificate) else load_union(certificate)
    network = network_of(net, None)
    expect(sum(seconds(network, part.proof) for part in kept.parts), f"{len(kept.parts):,} regions")
    answers = tuple(verify(part, network) for part in kept.parts)
    upper = max(answer.upper for answer in answers)
    if not all(_same_question(part, kept.parts[0]) for part in kept.parts):
        return UnionVerification(False, np.inf, kept.claim, "the parts are about different questions", answers)
    failed = [k for k, answer in enumerate(answers) if not answer.proved]
    reason = f"region {failed[0]}: {answers[failed[0]].reason}" if failed else "proved"
    return UnionVerification(not failed, upper, kept.claim, reason, answers)


def holds_union(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like certificates of several regions."""
    return holds(path, "union")


def load_union(path: str | os.PathLike[str]) -> UnionCertificate:
    """Read the certificates of several regions; nothing in them is believed before `verify_union`."""
    file = check_readable(path)
    with located(file):
        arrays = Archive(file, _NAMES, content="certificates of several regions")
        version, parts = (int(n) for n in whole(arrays, "union", (2,), 0, MOST_WHOLE))
        if version != _VERSION:
            raise FileFormatError("the certificates have another version; upgrade lipcert")
        if not 1 <= parts <= MOST_PARTS or len(arrays) != parts + 1:
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
