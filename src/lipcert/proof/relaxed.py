"""Proofs by the multipliers of a relaxation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.problem import Problem
from lipcert.proof.certificate import Certificate
from lipcert.proof.encoding import encode
from lipcert.proof.multipliers import check, prove
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class Multipliers:
    """The relaxation that was built, multipliers by family of rows, and a diagonal shift by block of variables."""

    specification: Specification
    multipliers: Mapping[str, Array]
    shift: Mapping[str, Array]

    @property
    def method(self) -> str:
        """The name that the relaxation was asked for by."""
        return self.specification.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return {"proof": np.array("multipliers")} | encode([self])

    def check(self, problem: Problem) -> float:
        """The bound that the multipliers and the shift prove, infinite when none; the rows are built again."""
        if problem.has_cases or self.specification.signs is not None:
            return np.inf  # it is about one of several cases, or a cell, and only `Cases` and `Tree` know which
        return self.check_rows(problem, self.specification)

    def check_rows(self, problem: Problem, specification: Specification) -> float:
        """The same with the rows of another specification: that of a cell, with its half-spaces."""
        relaxation = build(problem, specification)
        found = self.fitted(relaxation)
        return np.inf if found is None else check(relaxation, *found).upper

    def fitted(self, relaxation: Relaxation) -> tuple[Array, Array] | None:
        """Multipliers and shift in the order of a relaxation; None when they are not of this relaxation."""
        if not relaxation.fits(self.multipliers, self.shift):
            return None
        return relaxation.unpack(self.multipliers), relaxation.gather(self.shift)


def prove_multipliers(
    specification: Specification, relaxation: Relaxation, multipliers: Array
) -> tuple[Multipliers, float]:
    """The proof from any multipliers, good or bad, and its bound; the relaxation is what the specification says."""
    found = prove(relaxation, multipliers)
    rows, shift = relaxation.pack(found.multipliers), relaxation.spread(found.shift)
    return Multipliers(specification, rows, shift), found.upper


def prove_relaxed(
    problem: Problem, specification: Specification, relaxation: Relaxation, multipliers: Array
) -> Certificate:
    """The certificate from any multipliers, good or bad; the relaxation is `build(problem, specification)`."""
    return Certificate.of(problem, *prove_multipliers(specification, relaxation, multipliers))
