"""The literal estimators by name: `lipcert bound --literal`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lipcert.bounds.propagation import preactivations
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.polynomial.hierarchy.solve import solve_model
from lipcert.polynomial.lcep.lipopt import lipopt
from lipcert.polynomial.lcep.literal import SUBMOMENTS, MomentProof, ProductProof, hr, lifted, shor
from lipcert.problem.problem import Problem
from lipcert.proof.certificate import Proof
from lipcert.proof.polynomials import refusal, with_error

LITERAL_METHODS = ("shor", "hr1", "hr2", "hr3", "lipopt3", "lipopt4", "lifting")
_NUMBERED = re.compile(r"(hr|lipopt)([1-9])")


@dataclass(frozen=True, eq=False)
class LiteralInfo:
    """How a bound came about; `status` is the solver's, in a sentence."""

    method: str
    status: str
    solver: str
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)
    proof: Proof | None = None  # the proof as a file keeps it


def literal_bound(
    problem: Problem,
    method: str,
    *,
    order: int | None = None,
    submoments: str = "large",
    solver: str = "auto",
    budget: Budget | None = None,
    tolerance: float | None = None,
) -> tuple[float, LiteralInfo]:
    """Bound the Lipschitz constant of c'scores by one of the paper's relaxations, as it is written.

    Args:
        method: one of LITERAL_METHODS; `order` replaces the number in its name (the order of hr and lifting, the degree
            of lipopt).
        submoments: "large" or "small", how the cubic terms of two hidden layers are relaxed by hr.
        solver: one of CONIC_SOLVERS.
        budget: for building and solving; as long as it takes when left out.
        tolerance: of SCS, where that is the solver.

    Returns the upper bound and how it came about. The bound is proved from the solver's multipliers, whatever they
    are; it is inf when they prove nothing.
    """
    refused = refusal(problem, method)
    if refused is not None:
        raise MethodError(refused)
    if submoments not in SUBMOMENTS:
        raise MethodError(f"submoments {submoments!r}: expected one of {', '.join(SUBMOMENTS)}")
    family, number = _parse(method, order)
    budget = budget or Budget.unlimited()
    start = budget.now()
    preactivations(problem, budget)  # within the budget, for all that follows
    if family == "lipopt":
        found = lipopt(problem, number, solver=solver, budget=budget)
        details: dict[str, Any] = {"degree": number, "products": found.products}
        details |= {"rows": found.rows, "monomials": found.monomials, "rounds": found.rounds}
        proof = ProductProof(method, number, found.numbers, found.values)
        return found.upper, LiteralInfo(method, found.status.value, found.solver, budget.now() - start, details, proof)
    if family == "shor":
        model, question = shor(problem)
    elif family == "hr":
        model, question = hr(problem, number, submoments)
    else:
        model, question = lifted(problem, number)
    result = solve_model(model, solver, budget, tolerance=tolerance)
    upper = with_error(result.bound, question.error)
    form = {"shor": "plain", "hr": "bounds"}.get(family, "lifted")
    details = {"order": number, "variables": model.n, "blocks": len(model.blocks), "proof": result.status}
    seconds = budget.now() - start
    relaxed = MomentProof(method, form, partial(result.keep, question.problem)) if result.keep is not None else None
    return upper, LiteralInfo(method, result.solver_status, result.solver, seconds, details, relaxed)


def _parse(method: str, order: int | None) -> tuple[str, int]:
    """The family of a method and its number."""
    if order is not None and order < 1:
        raise MethodError(f"order {order}: must be at least 1")
    if method == "shor":
        return "shor", 1
    if method == "lifting":
        return "lifting", order or 1
    match = _NUMBERED.fullmatch(method)
    if match is None or method not in LITERAL_METHODS:
        raise MethodError(f"method {method!r} has no literal form; expected one of {', '.join(LITERAL_METHODS)}")
    return match[1], order or int(match[2])
