"""solve_problem: one relaxation of a polynomial problem, its proved bound, and a point where its moments give one.

The relaxation is solved in scaled variables (by powers of two, so that scaling is exact); what the solver says is a
hint, and `proof.sos` makes the bound from its dual variables: rigorous or infinite.

`extract` reads a minimiser off moment matrices of rank one. When every moment matrix has rank one, L is evaluation at
the point x_i = L(x_i) [Las01]. The point is polished no further: it is returned only if it is feasible and attains the
bound, both up to tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.polynomial.certificates.certificate import About
from lipcert.polynomial.certificates.stored import store
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.attempts import Attempt, Solve, attempt
from lipcert.polynomial.hierarchy.cuts import VariableBounds, solve_with_cuts
from lipcert.polynomial.hierarchy.hierarchies import dense, krivine, least_order, nearly_sparse, sparse
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.result import GAP, PolynomialResult, decompose
from lipcert.polynomial.hierarchy.terms import exploit
from lipcert.polynomial.monomials import monomial_of
from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.search import FAR, search
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, variable_bounds, without_trivial
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, choose_conic, smat, solve_conic

RANK = 1e-4  # second eigenvalue over the first
FEASIBLE = 1e-6
ATTAINED = 1e-4


def extract(
    model: MomentModel, conic: MomentConic, solution: ConicSolution, known: tuple[Array, Array, Array], bound: float
) -> tuple[Array, float] | None:
    """The point and its value, or None; `known` are the scale and the bounds of the variables."""
    x = solution.x
    if not solution.status.has_solution or not np.all(np.isfinite(x)) or not np.isfinite(bound):
        return None
    if not _rank_one(model, conic, solution):
        return None
    degree = (conic.rows >= 0).sum(axis=1)
    single = np.flatnonzero(degree == 1)
    point = np.zeros(model.n)
    if len(single):  # without any moment rows have no columns
        point[conic.rows[single, -1]] = conic.moments(x)[single]
    scale, lower, upper = known
    point = np.clip(point * scale, lower, upper)
    if violation(model, point) > FEASIBLE:
        return None
    value = float(model.objective.evaluate(point)[0])
    return (point, value) if abs(value - bound) <= ATTAINED * (1 + abs(bound)) else None


def violation(model: MomentModel, point: Array) -> float:
    """The largest violation of a constraint, relative to the size of the constraint's coefficients."""
    worst = [0.0]
    inequalities = [*model.inequalities, *(b.multiplier for b in model.blocks if b.multiplier is not None)]
    worst += [-_value(g, point) for g in inequalities]
    equalities = [*model.equalities]
    equalities += [Polynomial.from_terms({(i, i): 1.0}) - rule for i, rule in model.rules.items()]
    worst += [abs(_value(h, point)) for h in equalities]
    for family in model.products:
        values = np.array([*(_value(f, point) for f in family.factors), 1.0])
        products = np.prod(values[family.rows], axis=1)
        worst.append(float((np.abs(products) if family.equality else -products).max(initial=0.0)))
    return max(worst)


def _value(p: Polynomial, point: Array) -> float:
    return float(p.evaluate(point)[0]) / max(1.0, float(np.abs(p.coefficients).max(initial=0.0)))


def _rank_one(model: MomentModel, conic: MomentConic, solution: ConicSolution) -> bool:
    """No moment matrix without multiplier has two large eigenvalues; there must be such a matrix."""
    matrices = [b for b in model.blocks if b.order > 1]
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    for block, rows in zip(matrices, psd, strict=True):
        if block.multiplier is None:
            M = smat(solution.s[rows])
            if not np.all(np.isfinite(M)):
                return False
            values = np.linalg.eigvalsh(M)
            if values[-2] > RANK * max(values[-1], RANK):  # blocks that split off may be zero
                return False
    return any(block.multiplier is None for block in model.blocks)


AUTO = "auto"  # as an order: rise until the gap is closed
RELAXATIONS = ("dense", "sparse", "nearly-sparse", "krivine")
MARGINS = (0.5, 0.02)  # margins of a cut above a known value, relative to 1 + |value|
STARTS = 6  # descents to a value worth a cut
CLOSE = 1e-6  # a bound this near to a known value, relative to 1 + |value|, needs no second try


@dataclass(frozen=True)
class PolynomialProgress:
    """How far the work is: seconds, the bracket so far, and the work that comes next."""

    seconds: float
    bound: float
    value: float | None
    stage: str


@dataclass(frozen=True)
class Splitting:
    """How moment matrices are split, and the rounds of cuts; see `minimize`."""

    sparsity: str | None = None
    sparse_order: int | None = None
    cuts: int = 0


@dataclass(frozen=True, eq=False)
class PolynomialOptions:
    """How to bound a problem; names and defaults are those of `minimize`. `start` is a point to search from."""

    relaxation: str = "dense"
    order: int | str | None = None
    cliques: Iterable[Sequence[int]] | None = None
    bad: Iterable[Polynomial] | None = None
    splitting: Splitting = Splitting()
    solver: str = "auto"
    time_limit: float = inf
    gap: float = GAP
    search: bool = True
    seed: int = 0
    start: Array | None = None
    on_progress: Callable[[PolynomialProgress], None] | None = field(default=None, repr=False)

    @property
    def number(self) -> int | None:
        """The order, where it is one."""
        return self.order if isinstance(self.order, int) else None

    def solving(self, order: int, seconds: float) -> PolynomialOptions:
        """The options of one relaxation: this order, within so many seconds."""
        return replace(self, order=order, time_limit=seconds)

    def check(self) -> None:
        """Refuse values that have no meaning."""
        if not self.time_limit > 0:
            raise InputError.about("time_limit", f"must be a positive number of seconds, not {self.time_limit!r}")
        if self.splitting.cuts < 0:
            raise InputError(f"cuts must be a number of rounds >= 0, not {self.splitting.cuts!r}")
        if not self.gap >= 0:
            raise InputError.about("gap", f"must be a number >= 0, not {self.gap!r}")
        if isinstance(self.order, str) and self.order != AUTO:
            raise InputError(
                f"order {self.order!r}: give a whole number, or 'auto' to raise it until the gap is closed"
            )


def solve_problem(problem: PolynomialProblem, options: PolynomialOptions | None = None) -> PolynomialResult:
    """A proved bound on a polynomial problem by one relaxation: one order, no search for points."""
    options = options or PolynomialOptions()
    options.check()
    budget = Budget.of_seconds(options.time_limit)
    start = budget.now()
    given = replace(
        options,
        cliques=None if options.cliques is None else list(options.cliques),
        bad=None if options.bad is None else list(options.bad),
    )

    def bounded(about: About) -> PolynomialResult:
        model = relaxation_of(about.extended, given)
        if not given.splitting.cuts:
            return solve_model(model, given.solver, budget, about=about)
        known = VariableBounds(*variable_bounds(about.extended))
        result = solve_with_cuts(
            model,
            known,
            given.splitting.cuts,
            lambda m: solve_model(m, given.solver, budget, about=about),
            lambda: not budget.over(),
        )
        return replace(result, seconds=budget.now() - start)

    if np.all(np.isfinite(np.array(variable_bounds(problem)))):
        return bounded(About(problem))
    return _cut(problem, bounded(About(problem)), bounded, budget)


def _cut(
    problem: PolynomialProblem,
    result: PolynomialResult,
    again: Callable[[About], PolynomialResult],
    budget: Budget,
) -> PolynomialResult:
    """The better of a result and one on the points whose value is no worse than a known one, where that bounds them.

    See `extended` for why that is a bound on all points.
    """
    sign = 1.0 if problem.sense == "min" else -1.0
    value = None if budget.over() else _good_value(problem, result, budget)
    for margin in MARGINS:
        if value is None or sign * (value - result.bound) <= CLOSE * (1 + abs(value)) or budget.over():
            break
        about = About(problem, value + sign * margin * (1 + abs(value)))
        if not np.all(np.isfinite(np.array([about.extended.lower, about.extended.upper]))):
            break
        try:
            found = again(about)
        except InputError:  # cliques that have no room for the cut
            break
        bound = min(found.bound, about.level) if sign > 0 else max(found.bound, about.level)
        if sign * (bound - result.bound) > 0:
            side = "at most" if sign > 0 else "at least"
            words = f"proved where the objective is {side} {about.level:.6g}, which bounds all variables"
            seconds = result.seconds + found.seconds
            result = replace(found, bound=bound, notes=(*found.notes, words), seconds=seconds)
    return result


def _good_value(problem: PolynomialProblem, result: PolynomialResult, budget: Budget) -> float | None:
    """The value of a point that a few descents find: a hint where to cut."""
    moments = (result.monomial_rows, result.moment_values)
    found = search(LocalProblem.of(problem), moments=moments, budget=budget.share(0.2), most=STARTS)
    return None if found is None or not abs(found.value) < FAR else found.value


def relax(
    problem: PolynomialProblem,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
) -> MomentModel:
    """The relaxation of this name and order, not yet solved; constraints that hold everywhere are left out."""
    problem, bad = without_trivial(problem), None if bad is None else [p for p in bad if p.degree]
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


def relaxation_of(problem: PolynomialProblem, options: PolynomialOptions) -> MomentModel:
    """`relax` with the relaxation, order, cliques and splitting of the options."""
    by = options.splitting
    shape = (options.relaxation, options.number, options.cliques, options.bad)
    return relax(problem, *shape, by.sparsity, by.sparse_order)


def solve_model(
    model: MomentModel,
    solver: str = "auto",
    budget: Budget | None = None,
    *,
    solve: Solve | None = None,
    about: About | None = None,
    tolerance: float | None = None,
) -> PolynomialResult:
    """Solve any relaxation and prove its bound; `solve` replaces the conic solver (for tests).

    `about` is the problem behind the relaxation, which a certificate needs; `tolerance` as for `solve_conic`.
    """
    budget = budget or Budget.unlimited()
    start = budget.now()
    run = solve or _runner(solver, budget, tolerance)
    found = attempt(model, run, budget)
    scaled, solution, proof = found.scaled, found.solution, found.proof
    sign = 1.0 if model.sense == "min" else -1.0
    bound = sign * proof.bound / scaled.factor
    minimizer = extract(scaled.model, scaled.conic, solution, (scaled.scale, scaled.lower, scaled.upper), bound)
    return PolynomialResult(
        bound=bound,
        sense=model.sense,
        status=_status(found),
        minimizer=None if minimizer is None else minimizer[0],
        value=None if minimizer is None else minimizer[1],
        proof=proof,
        seconds=budget.now() - start,
        solver=solution.solver,
        solver_status=solution.status.value,
        monomial_rows=scaled.conic.rows,
        moment_values=scaled.conic.moments(solution.x) * _scales(scaled.conic, scaled.scale),
        notes=model.notes,
        decompose=lambda: decompose(scaled.inner, scaled.conic, proof, scaled.scale, scaled.factor),
        keep=lambda problem: store(scaled.model, problem, scaled.scale, scaled.factor, proof.weights),
        about=about,
    )


def _runner(solver: str, budget: Budget, tolerance: float | None) -> Solve:
    """The solver asked for; `auto` has a second opinion of a failure on the first program alone, not on refinements."""
    seen: list[bool] = []

    def run(problem: ConicProblem) -> ConicSolution:
        again, name = bool(seen), solver
        seen.append(True)
        if again and solver == "auto":
            name = choose_conic(problem, budget)
        return solve_conic(problem, name, budget=budget, tolerance=tolerance)

    return run


def _scales(conic: MomentConic, scale: Array) -> Array:
    return np.asarray(np.prod(np.concatenate([scale, [1.0]])[conic.rows], axis=1))


def _status(found: Attempt) -> str:
    proof, scaled = found.proof, found.scaled
    if np.isfinite(proof.bound):
        return "certified"
    if proof.blocker is None:
        return "not certified: the solver's answer proves no finite bound"
    largest = np.maximum(np.abs(scaled.lower), np.abs(scaled.upper))
    free = [i for i in monomial_of(scaled.conic.rows[proof.blocker]) if not np.isfinite(largest[i])]
    return f"not certified: variable {scaled.model.label()[free[0]]} is unbounded"
