"""Certificates of relaxations solved as the paper states them; the proofs are those of `sos` and `krivine`."""

from __future__ import annotations

import math

from lipcert.errors import MethodError
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Region
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.certificate import Certificate


def check_stated(method: str, region: Region, norm: Norm) -> None:
    """Refuse what the paper's estimators do not cover."""
    if norm != INF:
        raise MethodError(f"method {method} works for one output in the infinity norm only, not in norm {norm.words}")
    if isinstance(region, Ball):
        raise MethodError(f"method {method}, as the paper states it, works on boxes, not on balls; use tight")


def with_error(bound: float, error: float) -> float:
    """A proved bound of the polynomial in hand, plus how far that polynomial may be from the gradient, rounded up."""
    return math.nextafter(bound + error, math.inf)


def prove_stated(problem: Problem, method: str, upper: float) -> Certificate:
    """The certificate of a bound from `literal_bound`; its multipliers are not kept, so that no file can be checked."""
    return Certificate.of(problem, Arithmetic(f"{method}-literal"), upper)
