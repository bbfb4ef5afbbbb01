"""Certificates of relaxations solved as the paper states them; the proofs are those of `sos` and `krivine`."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

from lipcert.errors import MethodError
from lipcert.problem.norms import INF
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Polytope
from lipcert.proof.certificate import Certificate, Proof

NAMES = (
    "literal_form|krivine_(degree|index|numbers)|"
    "sos_(basis|blocks|cuts|mix|equalities|inequalities|rules|factors|products|families|scale|factor|index|numbers)"
)
TEXTS = frozenset({"literal_form"})


def refusal(problem: Problem, method: str) -> str | None:
    """Why the paper's estimators do not cover the problem, in one line; None when they do."""
    if problem.norm != INF:
        return f"method {method} works for one output in the infinity norm only, not in norm {problem.norm.words}"
    if isinstance(problem.region, Ball):
        return f"method {method}, as the paper states it, works on boxes, not on balls; use tight"
    if isinstance(problem.region, Polytope):
        return f"method {method}, as the paper states it, works on boxes without half-spaces; use tight"
    if not problem.network.is_chain:
        return f"method {method} is for chains of layers, and this network has branches; use tight"
    return None


def check_literal(problem: Problem, method: str) -> None:
    """Refuse what the paper's estimators do not cover."""
    refused = refusal(problem, method)
    if refused is not None:
        raise MethodError(refused)


def with_error(bound: float, error: float) -> float:
    """A proved bound of the polynomial in hand, plus how far that polynomial may be from the gradient, rounded up."""
    return math.nextafter(bound + error, math.inf)


def prove_literal(problem: Problem, proof: Proof, upper: float) -> Certificate:
    """The certificate of a bound that `polynomial.lcep.methods.literal_bound` found, with the proof that it returned.

    It stands here because a number becomes an upper bound in this package only.
    """
    return Certificate.of(problem, proof, upper)


def read_literal(kind: str, arrays: Mapping[str, Any], method: str) -> Proof:
    """A proof from a file. The package `polynomial` comes after this one, so it is imported by name on demand."""
    later = importlib.import_module("lipcert.polynomial.lcep.literal")
    found: Proof = later.read_literal(kind, arrays, method)
    return found
