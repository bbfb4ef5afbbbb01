"""The problem behind a relaxation: what a certificate is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lipcert.polynomial.certificates.certificate import PolynomialCertificate, certify, problem_hash
from lipcert.polynomial.certificates.stored import Stored
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.polynomial.propagation import extended
from lipcert.problem.statement import Statement, about_polynomial


@dataclass(frozen=True, eq=False)
class About:
    """A problem, and the value at which its points are cut off, if they are (see `propagation.extended`)."""

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
    def statement(self) -> Statement:
        """What a certificate of this problem is about."""
        return about_polynomial(problem_hash(self.problem), self.problem.sense)

    def certificate(self, relaxation: Stored) -> PolynomialCertificate:
        """That of a relaxation of `extended`, with its proof."""
        return certify(self.problem, relaxation, self.cut)
