"""From a relaxation to the best proof that a few attempts find.

1. Solve; prove what the multipliers prove.
2. Where the proof is worse than what the solver claims: refine (`solver.conic.refine`), prove again.
3. Where monomials have no known maximum, only definite Gram matrices absorb the residual: ask for Q >= epsilon I, from
   small to large epsilon.
4. Where that fails: facial reduction (`faces`), then all of it again.

The best bound counts. Everything but the proof is a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import MomentConic, is_exact
from lipcert.polynomial.hierarchy.faces import NoGramMatrixError, reduce_bases, reduce_faces, reduce_pairs
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.proof.sos import SosIdentity, SosProof, monomial_reach, prove_sos
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution
from lipcert.solver.conic.refine import refinable, refine

EPSILONS = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5)  # perturbations of programs that are refined
PERTURBATIONS = (1e-8, 1e-6, 1e-4)  # perturbations of programs that are too large to be refined
CLOSE = 1e-9  # a proof this near to the solver's claim, relative to 1 + |claim|, is good enough
MOST_FACES = 24  # rounds of facial reduction
LEAST = 1e-280  # a product below this may have lost digits

Solve = Callable[[ConicProblem], ConicSolution]


@dataclass(frozen=True, eq=False)
class Scaled:
    """A relaxation in variables of about one, x_i / scale_i, its objective times a factor: all powers of two."""

    model: MomentModel
    lower: Array
    upper: Array

    @cached_property
    def scale(self) -> Array:
        return self._units[0]

    @cached_property
    def factor(self) -> float:
        return self._units[1]

    @cached_property
    def inner(self) -> MomentModel:
        """The scaled relaxation."""
        return self.model.rescaled(self.scale, self.factor)

    @cached_property
    def conic(self) -> MomentConic:
        return self.inner.conic()

    @cached_property
    def identity(self) -> SosIdentity:
        return identity_of(self.conic, self.lower / self.scale, self.upper / self.scale, is_exact(self.inner))

    @cached_property
    def endless(self) -> tuple[bool, ...]:
        """For every Gram matrix, whether some of its shifts cannot be paid for."""
        return tuple(not np.all(np.isfinite(caps)) for caps in self.identity.caps)

    @cached_property
    def _units(self) -> tuple[Array, float]:
        return _scaling(self.model, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Attempt:
    """A proof with the relaxation that it is about and the solver's answer behind it."""

    scaled: Scaled
    solution: ConicSolution
    proof: SosProof

    @property
    def claim(self) -> float:
        """The bound that the solver claims, in units of the scaled objective; nan where it claims none."""
        known = self.solution.status.has_solution
        return float(self.scaled.conic.objective[0] + self.solution.primal) if known else np.nan

    def close(self, tolerance: float = CLOSE) -> bool:
        """Whether the proof is about as good as the claim, in the objective's own units."""
        factor = self.scaled.factor
        return bool(self.claim / factor - self.proof.bound / factor <= tolerance * (1 + abs(self.claim / factor)))


def attempt(model: MomentModel, run: Solve, budget: Budget) -> Attempt:
    """The best proof of a bound on this relaxation."""
    lower, upper = model.bounds()
    if np.all(np.isfinite(lower) & np.isfinite(upper)):
        return _improved(_first(Scaled(model, lower, upper), run), run, budget)
    first = _first(Scaled(reduce_bases(reduce_pairs(reduce_bases(model))), lower, upper), run)
    if first.close():
        return first
    scaled = first.scaled
    try:
        for _ in range(MOST_FACES):
            smaller = None if budget.over() else _smaller(scaled, run)
            if smaller is None:
                break
            scaled = Scaled(smaller, lower, upper)
    except NoGramMatrixError:
        if scaled is first.scaled:
            return first
        scaled = first.scaled  # a wrong turn
    if scaled is first.scaled:
        return _improved(first, run, budget)
    best = _improved(_first(scaled, run), run, budget)
    return best if np.isfinite(best.proof.bound) else _improved(first, run, budget)


def _smaller(scaled: Scaled, run: Solve) -> MomentModel | None:
    if not any(scaled.endless):
        return None
    smaller = reduce_faces(scaled.model, scaled.conic, scaled.endless, scaled.scale, run)
    return None if smaller is None else reduce_bases(smaller)


def _first(scaled: Scaled, run: Solve) -> Attempt:
    solution = run(scaled.conic.problem)
    return Attempt(scaled, solution, prove_sos(scaled.identity, solution.z))


def _better(first: Attempt, second: Attempt) -> Attempt:
    mine, other = (a.proof.bound / a.scaled.factor for a in (first, second))
    return second if other > mine else first


def _improved(found: Attempt, run: Solve, budget: Budget) -> Attempt:
    """The best of a proof and those of refined answers."""
    if found.close() or budget.over() or not np.all(np.isfinite(found.solution.z)):
        return found
    if any(found.scaled.endless):
        return _perturbed(found, run, budget)
    if not refinable(found.scaled.conic.problem):
        return found
    best = found
    for solution in refine(found.scaled.conic.problem, found.solution, run):
        before, best = best, _better(best, _with(found, solution))
        if best is before or best.close() or budget.over():
            break
    return best


def _with(found: Attempt, solution: ConicSolution, added: Array | float = 0.0) -> Attempt:
    """The proof from another answer; the claim stays that of the first."""
    proof = prove_sos(found.scaled.identity, solution.z + added)
    return replace(found, proof=proof)


def _perturbed(found: Attempt, run: Solve, budget: Budget) -> Attempt:
    """Gram matrices Q >= epsilon I: Q = Q' + epsilon I, Q' >= 0, with the objective c + epsilon A' svec(I)."""
    problem = found.scaled.conic.problem
    identity = np.zeros(problem.rows)
    endless = iter(found.scaled.endless)
    for cone, rows in problem.blocks():
        if cone.kind == "psd" and next(endless):
            identity[rows.start + np.cumsum(np.arange(1, cone.size + 1)) - 1] = 1.0
    best = found
    small = refinable(problem)
    for epsilon in EPSILONS if small else PERTURBATIONS:
        before = best
        moved = ConicProblem(problem.c + epsilon * (problem.A.T @ identity), problem.A, problem.b, problem.cones)
        for solution in _answers(moved, found.solution, run, small):
            best = _better(best, _with(found, solution, epsilon * identity))
            if best.close() or budget.over():
                return best
        if best is before and np.isfinite(best.proof.bound):
            break
    return best


def _answers(moved: ConicProblem, start: ConicSolution, run: Solve, small: bool) -> Iterator[ConicSolution]:
    if small:
        yield from refine(moved, start, run, 2)
    else:
        found = run(moved)
        if found.z.shape == (moved.rows,):
            yield found


def identity_of(conic: MomentConic, lower: Array, upper: Array, exact: bool = False) -> SosIdentity:
    """The part of a relaxation that a certificate needs; `exact` where `is_exact` holds."""
    if np.abs(conic.coefficients).min(initial=1.0) < LEAST:
        raise InputError("coefficients of the relaxation underflow: rescale the problem")
    return SosIdentity(
        objective=conic.objective,
        objective_error=conic.objective_error,
        slots=conic.slots,
        columns=conic.columns,
        coefficients=conic.coefficients,
        roundings=conic.roundings,
        cones=tuple((cone.kind, cone.size) for cone in conic.problem.cones),
        reach=monomial_reach(conic.rows, lower, upper),
        exact=exact and not conic.objective_error.any(),
    )


def _scaling(model: MomentModel, lower: Array, upper: Array) -> tuple[Array, float]:
    """Powers of two: bounded variables come into [-1, 1], the objective's largest coefficient into [1, 2)."""
    degree = check_range(model)
    largest = np.maximum(np.abs(lower), np.abs(upper))
    known = np.isfinite(largest) & (largest > 0)
    limit = min(20, 300 // max(1, degree))
    exponent = np.zeros(model.n)
    exponent[known] = np.clip(np.ceil(np.log2(largest[known])), -limit, limit)
    scale = 2.0**exponent
    top = float(np.abs(model.objective.rescale(scale).coefficients).max(initial=0.0))
    return scale, 2.0 ** -float(np.floor(np.log2(top))) if top else 1.0


def check_range(model: MomentModel) -> int:
    """The largest degree; refuses coefficients near the ends of the floating-point range: scaling rounds there."""
    polynomials = [model.objective, *model.equalities, *model.inequalities, *model.rules.values()]
    polynomials += [b.multiplier for b in model.blocks if b.multiplier is not None]
    polynomials += [f for p in model.products for f in p.factors]
    sizes = np.abs(np.concatenate([p.coefficients for p in polynomials]))
    if sizes.size and (sizes.max() > 1e100 or sizes.min() < 1e-100):
        worst = sizes[np.argmax(np.abs(np.log10(sizes)))]
        raise InputError(f"a coefficient of size {worst:.1e}: rescale the problem to sizes between 1e-100 and 1e100")
    mixed = [b for b in model.blocks if b.mix is not None]
    entries = np.abs(np.concatenate([np.ones(1), *(b.mix[b.mix != 0] for b in mixed if b.mix is not None)]))
    if entries.max() > 1e20 or entries.min() < 1e-20:
        raise InputError("the coefficients of a basis must be between 1e-20 and 1e20")
    return max([p.degree for p in polynomials] + [2 * len(m) for b in mixed for m in b.basis])
