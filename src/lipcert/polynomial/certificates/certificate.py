"""PolynomialCertificate: a bound on a polynomial problem with its proof, in memory and in files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable, write_npz
from lipcert.files.archive import Archive, holds
from lipcert.files.numbers import MOST_WHOLE, one_real, one_whole, word
from lipcert.polynomial.certificates import stored
from lipcert.polynomial.certificates.stored import Stored
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.polynomial.propagation import extended

VERSION = 1
_NAMES = re.compile(f"polynomial|problem|sense|bound|cut|{stored.NAMES}")
_TEXTS = frozenset({"problem", "sense"})
_ADVICE = "write it again with lipcert pop --certificate"


@dataclass(frozen=True, eq=False)
class PolynomialCertificate:
    """`bound` <= f (or >= f, for a maximum) on all feasible points of the problem with this hash.

    With a `cut` v the relaxation is that of the points with f <= v (>= v), see `polynomial.propagation.extended`.
    """

    problem_sha256: str
    sense: str
    relaxation: Stored
    bound: float
    cut: float | None = None

    def __repr__(self) -> str:
        return f"PolynomialCertificate({'lower' if self.sense == 'min' else 'upper'} bound {self.bound:.9g})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify --problem` checks without any solver."""
        write_npz(path, self.arrays())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `save` writes, by name."""
        about: dict[str, NDArray[Any]] = {
            "polynomial": np.array(VERSION),
            "problem": np.array(self.problem_sha256, dtype="U64"),
            "sense": np.array(self.sense, dtype="U3"),
            "bound": np.array(self.bound),
        }
        cut = {} if self.cut is None else {"cut": np.array(self.cut)}
        return about | cut | self.relaxation.arrays

    def check(self, problem: PolynomialProblem) -> float:
        """The bound that it proves of this problem, infinite when none; nothing that it says is believed."""
        changed, level = extended(problem, self.cut)
        bound = self.relaxation.bound(changed)
        return min(bound, level) if problem.sense == "min" else max(bound, level)


@dataclass(frozen=True)
class PolynomialVerification:
    """What `verify_polynomial` found: `bound` is what was proved just now, infinite when nothing was.

    `proved` says whether that supports the `claim` of the certificate, `reason` in words why or why not.
    """

    proved: bool
    bound: float
    claim: float
    sense: str
    reason: str


def certify(problem: PolynomialProblem, relaxation: Stored, cut: float | None = None) -> PolynomialCertificate:
    """The certificate of a proof; its claim leaves room for the order in which another machine adds."""
    sign = 1.0 if problem.sense == "min" else -1.0
    certificate = PolynomialCertificate(problem_hash(problem), problem.sense, relaxation, -sign * np.inf, cut)
    bound = certificate.check(problem)
    top = float(np.abs(problem.objective.coefficients).max(initial=0.0))
    claim = bound - sign * (1e-12 * top + 1e-12 * abs(bound)) if np.isfinite(bound) else bound
    return PolynomialCertificate(certificate.problem_sha256, problem.sense, relaxation, claim, cut)


def verify_polynomial(
    certificate: PolynomialCertificate | str | os.PathLike[str], problem: PolynomialProblem
) -> PolynomialVerification:
    """Check a proof without any solver: what does it prove about this problem?

    The identity is rebuilt from the problem that is given, so nothing that a file says about it is believed: the hash
    is compared, the signs of multipliers and the Gram matrices are checked, and the bound is computed with outward
    rounding. What has to be trusted for that is listed in docs/trust.md.
    """
    if not isinstance(certificate, PolynomialCertificate):
        certificate = load_polynomial(certificate)
    claim, sense = certificate.bound, problem.sense
    nothing = -np.inf if sense == "min" else np.inf
    if certificate.problem_sha256 != problem_hash(problem):
        reason = "the certificate is about another problem (the hashes differ)"
        return PolynomialVerification(False, nothing, claim, sense, reason)
    with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
        bound = certificate.check(problem)
    supported = bound >= claim if sense == "min" else bound <= claim
    if not np.isfinite(bound):
        return PolynomialVerification(False, nothing, claim, sense, "it proves no bound here")
    if not supported or not np.isfinite(claim) or certificate.sense != sense:
        return PolynomialVerification(False, bound, claim, sense, f"it proves {bound:.9g} only")
    return PolynomialVerification(True, bound, claim, sense, "proved")


def problem_hash(problem: PolynomialProblem) -> str:
    """A hash of the problem: sense, objective, constraints in order, bounds of the variables; not their names."""
    counts = (problem.n, len(problem.inequalities), len(problem.equalities))
    digest = hashlib.sha256(f"{problem.sense} {counts}".encode())
    for p in problem.polynomials:
        digest.update(f"{p.indices.shape}".encode())
        digest.update(np.ascontiguousarray(p.indices, dtype="<i4").tobytes())
        digest.update(np.ascontiguousarray(p.coefficients, dtype="<f8").tobytes())
    for side in (problem.lower, problem.upper):
        digest.update(np.ascontiguousarray(np.asarray(side) + 0.0, dtype="<f8").tobytes())
    return digest.hexdigest()


def holds_polynomial(path: str | os.PathLike[str]) -> bool:
    """Whether a file is such a certificate, by the names of its arrays alone."""
    return holds(path, "polynomial")


def load_polynomial(path: str | os.PathLike[str]) -> PolynomialCertificate:
    """Read a certificate; nothing in it is believed before `verify_polynomial`."""
    file = check_readable(path)
    try:
        return _parse(Archive(file, _NAMES, content="a polynomial certificate", texts=_TEXTS, advice=_ADVICE))
    except InputError as error:
        raise FileFormatError(f"{file}: {error}") from None


def _parse(arrays: Mapping[str, Any]) -> PolynomialCertificate:
    if "polynomial" not in arrays:
        raise FileFormatError(f"not a certificate of a polynomial problem; {_ADVICE}")
    version = one_whole(arrays, "polynomial", 0, MOST_WHOLE)
    if version != VERSION:
        raise FileFormatError(f"polynomial certificate version {version}; this lipcert reads version {VERSION}")
    sense = word(arrays, "sense")
    if sense not in ("min", "max"):
        raise FileFormatError("the sense of the certificate must be min or max")
    cut = one_real(arrays, "cut") if "cut" in arrays else None
    bound = one_real(arrays, "bound", -np.inf, np.inf)
    return PolynomialCertificate(word(arrays, "problem"), sense, stored.only(arrays), bound, cut)
