"""PolynomialCertificate: a bound on a polynomial problem with its proof, in memory and in files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import one_real, word
from lipcert.polynomial.certificates import stored
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.polynomial.problem import PolynomialProblem, extended
from lipcert.problem.question import Arrays, Statement, text_array
from lipcert.proof.certificate import Envelope
from lipcert.proof.file import load_certificate
from lipcert.proof.verification import Verification


@dataclass(frozen=True)
class PolynomialQuestion(Statement):
    """The optimum of the polynomial problem with this hash; `sense` is min or max."""

    problem_sha256: str
    sense: str
    network: None = field(default=None, init=False)

    @property
    def sentence(self) -> str:
        """The question for a person."""
        end = "Least" if self.sense == "min" else "Largest"
        return f"{end} value of the polynomial problem {self.problem_sha256[:16]}"

    @property
    def defining_arrays(self) -> Arrays:
        """The hash of the problem and its sense, by the names of a file."""
        return {"problem": text_array(self.problem_sha256), "sense": text_array(self.sense)}

    @property
    def plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"sense": self.sense}


@dataclass(frozen=True, eq=False)
class About:
    """A problem, and the value at which its points are cut off, if they are (see `polynomial.problem.extended`)."""

    problem: PolynomialProblem
    cut: float | None = None

    @cached_property
    def _extended(self) -> tuple[PolynomialProblem, float]:
        return extended(self.problem, self.cut)

    @property
    def extended(self) -> PolynomialProblem:
        """The problem that is relaxed."""
        return self._extended[0]

    @property
    def level(self) -> float:
        """The cut as it is stated, to the safe side."""
        return self._extended[1]

    @property
    def statement(self) -> PolynomialQuestion:
        """The question that a certificate of this problem answers."""
        return PolynomialQuestion(problem_hash(self.problem), self.problem.sense)

    def certificate(self, relaxation: StoredRelaxation) -> PolynomialCertificate:
        """The certificate of a relaxation of `extended`, with its proof."""
        return certify(self.problem, relaxation, self.cut)


def _outward(bound: float, sense: str) -> str:
    """A bound in nine digits, rounded to its safe side: down where it is one from below."""
    return rounded_down(bound, 9) if sense == "min" else rounded_up(bound, 9)


@dataclass(frozen=True, eq=False)
class PolynomialCertificate(Envelope):
    """`bound` <= f (or >= f, for a maximum) on all feasible points of the problem with this hash.

    With a `cut` v the relaxation is that of the points with f <= v (>= v), see `polynomial.problem.extended`.
    """

    kind: ClassVar[str] = "polynomial"

    problem_sha256: str
    sense: str
    relaxation: StoredRelaxation
    bound: float
    cut: float | None = None

    def __repr__(self) -> str:
        side = "lower" if self.sense == "min" else "upper"
        return f"PolynomialCertificate({side} bound {_outward(self.bound, self.sense)})"

    @property
    def statement(self) -> PolynomialQuestion:
        """The question that it answers."""
        return PolynomialQuestion(self.problem_sha256, self.sense)

    def verify(self, subject: Any, exact: bool = False) -> PolynomialVerification:
        """Check the proof about this problem; ball arithmetic does not know polynomial problems."""
        if exact:
            raise InputError(
                "the exact check knows proofs about networks, not about polynomial problems; leave exact out"
            )
        problem = subject
        if not isinstance(problem, PolynomialProblem):
            raise InputError("this certificate is about a polynomial problem; give the problem, not a network")
        nothing = -np.inf if problem.sense == "min" else np.inf
        if self.problem_sha256 != problem_hash(problem):
            return self._found(False, nothing, "the certificate is about another problem (the hashes differ)")
        with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
            bound = self.check(problem)
        supported = bound >= self.bound if problem.sense == "min" else bound <= self.bound
        if not np.isfinite(bound):
            return self._found(False, nothing, "it proves no bound here")
        if not supported or not np.isfinite(self.bound) or self.sense != problem.sense:
            return self._found(False, bound, f"it proves {_outward(bound, problem.sense)} only")
        return self._found(True, bound, "proved")

    def _found(self, proved: bool, bound: float, reason: str) -> PolynomialVerification:
        return PolynomialVerification(proved, bound, self.bound, reason, self.statement, sense=self.sense)

    def content(self) -> Arrays:
        """The proof and the claim, by the names of a file."""
        cut = {} if self.cut is None else {"cut": np.array(self.cut)}
        return {"bound": np.array(self.bound), **cut, **self.relaxation.arrays}

    def check(self, problem: PolynomialProblem) -> float:
        """The bound that it proves of this problem, infinite when none; nothing that it says is believed."""
        changed, level = extended(problem, self.cut)
        bound = self.relaxation.bound(changed)
        return min(bound, level) if problem.sense == "min" else max(bound, level)


@dataclass(frozen=True, repr=False)
class PolynomialVerification(Verification):
    """The answer of `verify_polynomial`: `bound` is the one proved just now, infinite when none was.

    The bound is one from below where a minimum is asked for, and one from above for a maximum (`sense`).
    """

    sense: str = "min"

    @property
    def bound(self) -> float:
        """The proved bound of the optimum, on the side that the sense says."""
        return self.upper

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        side = "lower bound" if self.sense == "min" else "upper bound"
        found = f"{_outward(self.bound, self.sense)}   recomputed now" if np.isfinite(self.bound) else "none"
        return [(side, found), ("claim", f"{_outward(self.claim, self.sense)}   as stored"), *self.about()]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        found = super().to_dict()
        return {"bound": found.pop("upper"), "sense": self.sense} | found


def certify(
    problem: PolynomialProblem, relaxation: StoredRelaxation, cut: float | None = None
) -> PolynomialCertificate:
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
    rounding. The page docs/trust.md lists the code that has to be trusted.
    """
    if not isinstance(certificate, PolynomialCertificate):
        certificate = load_certificate(certificate, PolynomialCertificate)
    return certificate.verify(problem)


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


def read_polynomial(arrays: Mapping[str, Any]) -> PolynomialCertificate:
    """The certificate of a file."""
    sense = word(arrays, "sense")
    if sense not in ("min", "max"):
        raise FileFormatError("the sense of the certificate must be min or max")
    cut = one_real(arrays, "cut") if "cut" in arrays else None
    bound = one_real(arrays, "bound", -np.inf, np.inf)
    return PolynomialCertificate(word(arrays, "problem"), sense, stored.only(arrays), bound, cut)
