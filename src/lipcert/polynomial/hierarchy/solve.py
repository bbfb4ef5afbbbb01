"""minimize, maximize: a polynomial problem in, a proved bound out.

The relaxation is solved in scaled variables (by powers of two, so that scaling is exact); what the solver says is a
hint, and `proof.sos` makes the bound from its dual variables: rigorous or infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.cuts import Bounds, solve_with_cuts
from lipcert.polynomial.hierarchy.decomposition import decompose
from lipcert.polynomial.hierarchy.extraction import extract
from lipcert.polynomial.hierarchy.facial import reduce_bases
from lipcert.polynomial.hierarchy.hierarchies import dense, least_order, nearly_sparse, sparse
from lipcert.polynomial.hierarchy.krivine import krivine
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.hierarchy.terms import exploit
from lipcert.polynomial.monomials import monomial_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, variable_bounds
from lipcert.proof.sos import Identity, SosProof, monomial_reach, prove_sos
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, solve_conic

RELAXATIONS = ("dense", "sparse", "nearly-sparse", "krivine")
PERTURBATIONS = (1e-8, 1e-6, 1e-4)

Solve = Callable[[ConicProblem], ConicSolution]


def minimize(
    objective: Polynomial,
    inequalities: Iterable[Polynomial] = (),
    equalities: Iterable[Polynomial] = (),
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
    solver: str = "auto",
    time_limit: float = inf,
) -> PolynomialResult:
    """A proved lower bound on  min { f(x) : g_i(x) >= 0, h_j(x) = 0, lower <= x <= upper }.

    Args:
        objective, inequalities, equalities: f, the g_i and the h_j.
        lower, upper: bounds of the variables, constraints like the others.
        relaxation: dense, sparse, nearly-sparse or krivine.
        order: of the hierarchy (for krivine: the degree of the products); the least possible when left out.
        cliques: sets of variables for all but the dense relaxation; found when left out.
        bad: for nearly-sparse, the constraints kept out of the cliques; found when left out.
        sparsity: how moment matrices are split: none, sign, term (unless said otherwise) or term-chordal.
        sparse_order: steps of term sparsity; few are cheaper and may lower the bound. Left out, as many as change
            something: then "term" has the bound of "none".
        cuts: rounds in which violated triangle inequalities between bounded variables are added.
        solver, time_limit: of the conic solver.

    The result's `bound` is rigorous for the coefficients as given, or -inf with the reason in `status`.
    """
    problem = _problem(objective, inequalities, equalities, "min", lower, upper)
    return solve_problem(
        problem,
        relaxation,
        order,
        cliques,
        bad,
        sparsity=sparsity,
        sparse_order=sparse_order,
        cuts=cuts,
        solver=solver,
        time_limit=time_limit,
    )


def maximize(
    objective: Polynomial,
    inequalities: Iterable[Polynomial] = (),
    equalities: Iterable[Polynomial] = (),
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
    solver: str = "auto",
    time_limit: float = inf,
) -> PolynomialResult:
    """A proved upper bound on  max { f(x) : g_i(x) >= 0, h_j(x) = 0, lower <= x <= upper }; see `minimize`."""
    problem = _problem(objective, inequalities, equalities, "max", lower, upper)
    return solve_problem(
        problem,
        relaxation,
        order,
        cliques,
        bad,
        sparsity=sparsity,
        sparse_order=sparse_order,
        cuts=cuts,
        solver=solver,
        time_limit=time_limit,
    )


def solve_problem(
    problem: PolynomialProblem,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    *,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
    solver: str = "auto",
    time_limit: float = inf,
) -> PolynomialResult:
    """A proved bound on a polynomial problem by one relaxation; the arguments are those of `minimize`."""
    if not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, not {time_limit!r}")
    if cuts < 0:
        raise InputError(f"cuts must be a number of rounds >= 0, not {cuts!r}")
    budget = Budget.of_seconds(time_limit)
    start = budget.now()
    model = relax(problem, relaxation, order, cliques, bad, sparsity, sparse_order)
    if not cuts:
        return solve_model(model, solver, budget)
    known = Bounds(*variable_bounds(problem))
    result = solve_with_cuts(model, known, cuts, lambda m: solve_model(m, solver, budget), lambda: not budget.over())
    return replace(result, seconds=budget.now() - start)


def relax(
    problem: PolynomialProblem,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
) -> MomentModel:
    """The relaxation of this name and order, not yet solved."""
    if relaxation not in RELAXATIONS:
        raise InputError(f"relaxation {relaxation!r}: must be one of {', '.join(RELAXATIONS)}")
    if bad is not None and relaxation != "nearly-sparse":
        raise InputError(f"bad constraints belong to the nearly-sparse relaxation, not to {relaxation}")
    if relaxation == "krivine":
        if sparsity not in (None, "none") or sparse_order is not None:
            raise InputError("sparsity splits moment matrices, which the krivine relaxation does not have")
        return krivine(problem, max(2, problem.objective.degree) if order is None else order, cliques)
    d = least_order(problem) if order is None else order
    if relaxation == "dense" and cliques is not None:
        raise InputError("cliques are for the sparse, nearly-sparse and krivine relaxations, not for the dense one")
    if relaxation == "sparse":
        model = sparse(problem, d, cliques)
    elif relaxation == "nearly-sparse":
        model = nearly_sparse(problem, d, cliques, bad)
    else:
        model = dense(problem, d)
    return exploit(model, "term" if sparsity is None else sparsity, sparse_order)


def solve_model(
    model: MomentModel, solver: str = "auto", budget: Budget | None = None, *, solve: Solve | None = None
) -> PolynomialResult:
    """Solve any relaxation and prove its bound; `solve` replaces the conic solver (for tests)."""
    budget = budget or Budget.unlimited()
    start = budget.now()
    run = solve or (lambda problem: solve_conic(problem, solver, budget=budget))
    lower, upper = model.bounds()
    if not np.all(np.isfinite(lower) & np.isfinite(upper)):
        model = reduce_bases(model)
    scale, factor = _scaling(model, lower, upper)
    scaled = model.rescaled(scale, factor)
    conic = scaled.conic()
    identity = identity_of(conic, lower / scale, upper / scale)
    solution = run(conic.problem)
    proof = prove_sos(identity, solution.z)
    if not np.isfinite(proof.bound) and not np.all(np.isfinite(identity.reach)):
        proof = _perturbed(conic, identity, run, lambda: not budget.over()) or proof
    sign = 1.0 if model.sense == "min" else -1.0
    bound = sign * proof.bound / factor
    found = extract(model, conic, solution, (scale, lower, upper), bound)
    return PolynomialResult(
        bound=bound,
        sense=model.sense,
        status=_status(model, conic, proof, np.maximum(np.abs(lower), np.abs(upper))),
        minimizer=None if found is None else found[0],
        value=None if found is None else found[1],
        certificate=proof,
        seconds=budget.now() - start,
        solver=solution.solver,
        solver_status=solution.status.value,
        monomial_rows=conic.rows,
        moment_values=conic.moments(solution.x) * _scales(conic, scale),
        notes=model.notes,
        decompose=lambda: decompose(scaled, conic, proof, scale, factor),
    )


def identity_of(conic: MomentConic, lower: Array, upper: Array) -> Identity:
    """What the certificate needs of a relaxation."""
    return Identity(
        objective=conic.objective,
        objective_error=conic.objective_error,
        slots=conic.slots,
        columns=conic.columns,
        coefficients=conic.coefficients,
        roundings=conic.roundings,
        cones=tuple((cone.kind, cone.size) for cone in conic.problem.cones),
        reach=monomial_reach(conic.rows, lower, upper),
    )


def _perturbed(conic: MomentConic, identity: Identity, run: Solve, go_on: Callable[[], bool]) -> SosProof | None:
    """With unbounded variables only definite Gram matrices absorb the residual: ask for Q >= epsilon I.

    Q = Q' + epsilon I with Q' >= 0 is the same conic program with the objective c + epsilon A' svec(I).
    """
    identity_rows = np.zeros(conic.problem.rows)
    for cone, rows in conic.problem.blocks():
        if cone.kind == "psd":
            identity_rows[rows.start + np.cumsum(np.arange(1, cone.size + 1)) - 1] = 1.0
    best: SosProof | None = None
    for epsilon in PERTURBATIONS:
        if best is not None or not go_on():
            break
        moved = conic.problem.c + epsilon * (conic.problem.A.T @ identity_rows)
        shifted = ConicProblem(moved, conic.problem.A, conic.problem.b, conic.problem.cones)
        z = run(shifted).z
        proof = prove_sos(identity, z + epsilon * identity_rows if z.shape == identity_rows.shape else z)
        best = proof if np.isfinite(proof.bound) else None
    return best


def _scaling(model: MomentModel, lower: Array, upper: Array) -> tuple[Array, float]:
    """Powers of two: bounded variables come into [-1, 1], the objective's largest coefficient into [1, 2).

    They are exact only away from the ends of the floating-point range: coefficients near those are refused.
    """
    polynomials = [model.objective, *model.equalities, *model.inequalities, *model.rules.values()]
    polynomials += [b.multiplier for b in model.blocks if b.multiplier is not None]
    polynomials += [f for p in model.products for f in p.factors]
    sizes = np.abs(np.concatenate([p.coefficients for p in polynomials]))
    if sizes.size and (sizes.max() > 1e100 or sizes.min() < 1e-100):
        worst = sizes[np.argmax(np.abs(np.log10(sizes)))]
        raise InputError(f"a coefficient of size {worst:.1e}: rescale the problem to sizes between 1e-100 and 1e100")
    largest = np.maximum(np.abs(lower), np.abs(upper))
    known = np.isfinite(largest) & (largest > 0)
    limit = min(20, 300 // max(1, *(p.degree for p in polynomials)))
    exponent = np.zeros(model.n)
    exponent[known] = np.clip(np.ceil(np.log2(largest[known])), -limit, limit)
    scale = 2.0**exponent
    top = float(np.abs(model.objective.rescale(scale).coefficients).max(initial=0.0))
    return scale, 2.0 ** -float(np.floor(np.log2(top))) if top else 1.0


def _scales(conic: MomentConic, scale: Array) -> Array:
    return np.asarray(np.prod(np.concatenate([scale, [1.0]])[conic.rows], axis=1))


def _status(model: MomentModel, conic: MomentConic, proof: SosProof, largest: Array) -> str:
    if np.isfinite(proof.bound):
        return "certified"
    if proof.blocker is None:
        return "not certified: the solver's answer proves no finite bound"
    free = [i for i in monomial_of(conic.rows[proof.blocker]) if not np.isfinite(largest[i])]
    return f"not certified: variable {model.label()[free[0]]} is unbounded"


def _problem(
    objective: Polynomial,
    inequalities: Iterable[Polynomial],
    equalities: Iterable[Polynomial],
    sense: str,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
) -> PolynomialProblem:
    low = None if lower is None else np.asarray(lower, dtype=np.float64)
    high = None if upper is None else np.asarray(upper, dtype=np.float64)
    problem = PolynomialProblem(objective, tuple(inequalities), tuple(equalities), sense, lower=low, upper=high)
    return problem.boxed()
