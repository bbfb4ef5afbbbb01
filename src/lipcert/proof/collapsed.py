"""Proofs about the network of the open neurons, which are proofs about the network itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.collapse import collapse
from lipcert.problem.problem import Problem
from lipcert.proof.certificate import Certificate, Proof

NAME = "collapsed"


@dataclass(frozen=True, eq=False)
class Within:
    """A proof about the collapsed problem. A file keeps that proof and a flag: the checker collapses again."""

    inner: Proof

    @property
    def method(self) -> str:
        """The name of the method that proved it of the collapsed problem."""
        return self.inner.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return self.inner.arrays() | {NAME: np.array(1)}

    def check(self, problem: Problem) -> float:
        """The bound of the inner proof on the collapsed problem plus its price; infinite where nothing collapses."""
        small = collapse(problem)
        return np.inf if small is None else small.above(self.inner.check(small.problem))


def prove_within(problem: Problem, certificate: Certificate) -> Certificate:
    """The certificate about a problem from one about its collapsed problem, which must exist."""
    small = collapse(problem)
    assert small is not None
    return Certificate.of(problem, Within(certificate.proof), small.above(certificate.upper))
