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
        """What a file keeps of it."""
        return self.inner.arrays() | {NAME: np.array(1)}

    def check(self, problem: Problem) -> float:
        """What the inner proof proves of the collapsed problem, and the price; infinite where there is none."""
        small = collapse(problem)
        return np.inf if small is None else small.above(self.inner.check(small.problem))


def prove_within(problem: Problem, certificate: Certificate) -> Certificate:
    """The certificate about a problem from one about its collapsed problem, which must exist."""
    small = collapse(problem)
    assert small is not None
    return Certificate.of(problem, Within(certificate.proof), small.above(certificate.upper))
