"""Sum-of-squares proofs without bounds on variables, refinement, facial reduction, cuts, and bounds of variables."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.polynomial_attack import KINDS, attack, exact, random_polynomial
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Polynomial, PolynomialProblem, minimize
from lipcert.budget import Budget
from lipcert.polynomial.certificates.certificate import About
from lipcert.polynomial.hierarchy.assembly import is_exact
from lipcert.polynomial.hierarchy.attempts import Scaled, attempt, identity_of
from lipcert.polynomial.hierarchy.faces import NoGramMatrixError, reduce_bases, reduce_faces
from lipcert.polynomial.hierarchy.hierarchies import dense
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel
from lipcert.polynomial.hierarchy.solve import relax, solve_model
from lipcert.polynomial.problem import extended, propagated_bounds
from lipcert.polynomial.text import parse
from lipcert.proof.sos import SosIdentity
from lipcert.proof.sos.absorb import absorb_exactly
from lipcert.proof.sos.prove import prove_sos, prove_weights
from lipcert.solver.conic.conic import solve_conic
from lipcert.solver.conic.refine import refine
from tests.polynomial_problems import GOLDSTEIN_PRICE

x = [Polynomial.variable(i) for i in range(10)]
ROSENBROCK = 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2
CHAIN = sum((100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2 for i in range(9)), Polynomial.constant(0.0))
HIMMELBLAU = (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2
CAMEL = (4.0 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3.0) * x[0] ** 2 + x[0] * x[1] + (-4.0 + 4.0 * x[1] ** 2) * x[1] ** 2
MOTZKIN = x[0] ** 4 * x[1] ** 2 + x[0] ** 2 * x[1] ** 4 - 3.0 * x[0] ** 2 * x[1] ** 2 + 1.0
GOLDSTEIN = parse(GOLDSTEIN_PRICE, ["x1", "x2"])
BOX = {"lower": [-2.0, -2.0], "upper": [2.0, 2.0]}

# Optima: sums of squares with a zero; Goldstein-Price 3 at (0, -1); the six-hump camel's value by Newton's method on
# its gradient; x + y >= 2 sqrt(xy) >= 2.
NAMED = {
    "Rosenbrock": (ROSENBROCK, (), {}, 0.0, 1e-6),
    "Rosenbrock of ten variables": (CHAIN, (), {"relaxation": "sparse"}, 0.0, 1e-6),
    "Himmelblau": (HIMMELBLAU, (), {}, 0.0, 1e-6),
    "Himmelblau on a box": (HIMMELBLAU, (), {"lower": [-5.0, -5.0], "upper": [5.0, 5.0]}, 0.0, 1e-6),
    "Goldstein-Price": (GOLDSTEIN, (), {}, 3.0, 1e-5),
    "Goldstein-Price on a box": (GOLDSTEIN, (), BOX, 3.0, 1e-5),
    "Motzkin on a box": (MOTZKIN, (), BOX, 0.0, 1e-6),
    "camel": (CAMEL, (), {}, -1.0316284534898774, 1e-6),
    "camel on a box": (CAMEL, (), BOX, -1.0316284534898774, 1e-6),
    "hyperbola": (x[0] + x[1], (x[0] * x[1] - 1.0, x[0], x[1]), {"order": 2}, 2.0, 1e-6),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_problems_lose_little(name: str) -> None:
    objective, inequalities, options, optimum, gap = NAMED[name]
    result = minimize(objective, inequalities, **options)  # type: ignore[arg-type]
    assert optimum - gap <= result.bound <= optimum + 1e-14 * (optimum != round(optimum))


def test_quadratic_on_a_simplex() -> None:
    """min x'x on the simplex of four is 1/4, at its middle."""
    four = x[:4]
    square = sum((v * v for v in four), Polynomial.constant(0.0))
    result = minimize(square, four, [sum(four, Polynomial.constant(0.0)) - 1.0])
    assert 0.25 - 1e-9 <= result.bound <= 0.25


def test_rosenbrock_needs_the_basis_of_its_parabola() -> None:
    model = reduce_bases(dense(PolynomialProblem(ROSENBROCK), 2))
    scaled = Scaled(model, *model.bounds())
    smaller = reduce_faces(model, scaled.conic, scaled.endless, scaled.scale, solve_conic)
    assert smaller is not None
    block = smaller.blocks[0]
    assert block.mix is not None
    polynomials = {Polynomial.from_terms(dict(zip(block.basis, row, strict=True))) for row in block.mix.tolist()}
    assert {Polynomial.constant(1.0), x[0]} < polynomials
    assert (x[0] ** 2 - x[1]) in polynomials or (x[1] - x[0] ** 2) in polynomials
    again = Scaled(smaller, *smaller.bounds())
    assert reduce_faces(smaller, again.conic, again.endless, again.scale, solve_conic) is None


def test_no_gram_matrix_is_noticed() -> None:
    model = reduce_bases(dense(PolynomialProblem(x[0] ** 4 + x[1] ** 4 - 3.0 * x[0] ** 2 * x[1] ** 2), 2))
    scaled = Scaled(model, *model.bounds())
    with pytest.raises(NoGramMatrixError):
        reduce_faces(model, scaled.conic, scaled.endless, scaled.scale, solve_conic)


NEARLY = Polynomial.from_terms({(0, 0): 1.0, (0, 1): -2.0, (1, 1): float(np.nextafter(1.0, 0.0))})  # < 0 at (1, 1)


@pytest.mark.parametrize("mix", [None, [[1.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, -1.0]]])
def test_a_form_that_is_negative_by_one_digit_has_no_bound(mix: list[list[float]] | None) -> None:
    """(x - y)^2 - u y^2 is unbounded below, while all that a solver sees is (x - y)^2."""
    basis = ((0,), (1,))
    block = MomentBlock(basis, None, None if mix is None else np.array(mix))
    model = MomentModel(NEARLY, blocks=(block, MomentBlock(((),))), n=2)
    conic = model.conic()
    identity = identity_of(conic, np.full(2, -np.inf), np.full(2, np.inf), is_exact(model))
    rng = np.random.default_rng(0)
    true = solve_conic(conic.problem).z
    for scale in (0.0, 1e-16, 1e-12, 1e-8):
        assert prove_sos(identity, true + scale * rng.normal(size=len(true))).bound == -np.inf
    assert minimize(NEARLY).bound == -np.inf


def test_the_correction_is_exact() -> None:
    """Solve in fractions for the correction that is claimed to exist: it does, and is within the doubt."""
    model = reduce_bases(dense(PolynomialProblem(ROSENBROCK), 2))
    found = attempt(model, solve_conic, Budget.unlimited())
    identity, weights = found.scaled.identity, found.proof.weights
    absorbed = absorb_exactly(identity, weights)
    assert absorbed is not None
    infinite = np.flatnonzero(~np.isfinite(identity.reach))
    rows = [[Fraction(0)] * identity.size + [Fraction(v)] for v in identity.objective[infinite].tolist()]
    place = {int(c): k for k, c in enumerate(infinite)}
    terms = zip(identity.slots.tolist(), identity.columns.tolist(), identity.coefficients.tolist(), strict=True)
    for slot, column, value in terms:
        if column in place:
            rows[place[column]][slot] += Fraction(value)
            rows[place[column]][-1] -= Fraction(value) * Fraction(float(absorbed.weights[slot]))
    pivots = _solved(rows)
    delta = [Fraction(0)] * identity.size
    for row, column in pivots:
        delta[column] = row[-1]
    assert all(row[-1] == 0 for row in rows if not any(row[:-1]))  # consistent: the correction exists
    assert max(map(abs, delta)) <= Fraction(float(absorbed.doubt.max())) * 100
    assert absorbed.doubt.max() < 1e-12


def _solved(rows: list[list[Fraction]]) -> list[tuple[list[Fraction], int]]:
    """Reduced row echelon form in place; rows with their pivots."""
    pivots: list[tuple[list[Fraction], int]] = []
    used: set[int] = set()
    for column in range(len(rows[0]) - 1):
        chosen = next((k for k in range(len(rows)) if k not in used and rows[k][column]), None)
        if chosen is None:
            continue
        used.add(chosen)
        lead = rows[chosen][column]
        rows[chosen][:] = [v / lead for v in rows[chosen]]
        for k, row in enumerate(rows):
            if k != chosen and row[column]:
                factor = row[column]
                row[:] = [a - factor * b for a, b in zip(row, rows[chosen], strict=True)]
        pivots.append((rows[chosen], column))
    return pivots


def test_refinement_gains_digits_and_a_liar_none() -> None:
    model = dense(PolynomialProblem(HIMMELBLAU, lower=np.full(2, -5.0), upper=np.full(2, 5.0)).boxed(), 2)
    scaled = Scaled(model, *model.bounds())
    first = solve_conic(scaled.conic.problem)
    better = next(refine(scaled.conic.problem, first, solve_conic))
    loss = [-prove_sos(scaled.identity, s.z).bound / scaled.factor for s in (first, better)]
    assert 0.0 <= loss[1] < 1e-3 * loss[0]
    broken = replace(first, z=np.full_like(first.z, np.nan))
    assert next(refine(scaled.conic.problem, broken, solve_conic), None) is None
    nonsense = replace(first, z=np.random.default_rng(0).normal(size=len(first.z)))
    for answer in refine(scaled.conic.problem, nonsense, solve_conic, 1):
        assert prove_sos(scaled.identity, answer.z).bound <= 0.0


def test_weights_prove_what_the_dual_vector_does() -> None:
    model = reduce_bases(dense(PolynomialProblem(HIMMELBLAU), 2))
    found = attempt(model, solve_conic, Budget.unlimited())
    again = prove_weights(found.scaled.identity, found.proof.weights)
    assert again.bound == pytest.approx(found.proof.bound, abs=1e-12)
    assert prove_weights(found.scaled.identity, -found.proof.weights).bound == -np.inf
    assert prove_weights(found.scaled.identity, found.proof.weights[:-1]).bound == -np.inf


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_feasible_points_lie_within_propagated_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    g = random_polynomial(rng, n, int(rng.integers(1, 5)))
    for v in x[:n]:
        if rng.random() < 0.8:
            g = g - float(rng.integers(1, 4)) * v ** (2 * int(rng.integers(1, 4)))
    anchor = rng.normal(size=n) * 3
    g = g + (abs(float(g.evaluate(anchor)[0])) + 1.0)
    sides = tuple(v for v in x[:n] if rng.random() < 0.3)
    names = tuple("abc"[:n])
    problem = PolynomialProblem(g, (g, *sides), names=names)
    lower, upper = propagated_bounds(problem)
    points = np.concatenate([rng.normal(size=(400, n)) * 10.0 ** rng.uniform(-1, 2, (400, 1)), anchor[None]])
    for point in points[np.all([p.evaluate(points) >= 0 for p in problem.inequalities], axis=0)]:
        if all(exact(p, [Fraction(float(v)) for v in point]) >= 0 for p in problem.inequalities):
            assert np.all((lower <= point) & (point <= upper))


def test_bounds_through_constraints_of_high_degree() -> None:
    lower, upper = propagated_bounds(PolynomialProblem(x[0], (4.0 - x[0] ** 4 - x[1] ** 4 + x[0] * x[1],)))
    assert np.all(upper <= 2.0)
    assert np.all(lower == -upper)
    lower, upper = propagated_bounds(PolynomialProblem(x[0], (1.0 - x[0] ** 2 + x[1],)))
    assert not np.isfinite(upper).any()  # y lets x go


@pytest.mark.parametrize("sense", ["min", "max"])
def test_a_cut_is_stated_to_the_safe_side(sense: str) -> None:
    sign = 1.0 if sense == "min" else -1.0
    objective = sign * (x[0] ** 2 + 0.1)
    for cut in (0.3, 1.0 / 3.0, 1e-17):
        changed, level = extended(PolynomialProblem(objective, sense=sense), sign * cut)
        g = changed.inequalities[0]
        stated = Fraction(g.coefficient(())) + Fraction(0.1)  # g = stated - x^2 - 0.1, whatever the sign
        assert Fraction(level) * int(sign) <= stated
        assert abs(level - sign * cut) < 1e-15


def test_the_value_of_the_cut_limits_the_bound() -> None:
    """Below the cut there is nothing, so that anything is true there; the bound is the cut, not more."""
    problem = PolynomialProblem(x[0] ** 2 + 5.0)
    changed, level = extended(problem, 2.0)
    assert level == 2.0
    found = minimize(problem.objective)
    assert 5.0 - 1e-9 <= found.bound <= 5.0
    about = About(problem, 2.0)
    empty = solve_model(relax(changed, "dense", 1), about=about)
    assert empty.certificate is None or empty.certificate.check(problem) <= 2.0


def test_random_problems_liars_and_forgeries() -> None:
    for seed in range(2 * len(KINDS)):
        assert attack(seed)[2] == [], seed


@pytest.mark.parametrize("coefficient", [1.0, 2.0])
def test_doubt_about_an_entry_must_be_covered(coefficient: float) -> None:
    """f = c x^2 with c = 1e-12 up to 1e-10, over (1, x): definite as written, yet perhaps negative."""
    slots, columns = np.array([0, 1, 2]), np.array([0, 1, 2])
    coefficients = np.array([1.0, 1.0, coefficient])  # 2.0: no entry of one monomial, so that the exact way is taken
    reach = np.array([1.0, np.inf, np.inf])
    for error, proved in ((0.0, True), (1e-10, False)):
        identity = SosIdentity(
            np.array([0.0, 0.0, 1e-12]),
            np.array([0.0, 0.0, error]),
            slots,
            columns,
            coefficients,
            1,
            (("psd", 2),),
            reach,
        )
        proof = prove_weights(identity, np.array([0.0, 0.0, 1e-12 / coefficient]))
        assert np.isfinite(proof.bound) == proved
        assert proof.bound <= 0.0


def test_exactness_is_counted_in_digits() -> None:
    """2^27 - 1 has 27 digits, its square 54: one too many. Powers of two cost nothing."""
    for entry, multiplier, whole in (
        (2.0**27 - 1, 1.0, False),
        (2.0**26 - 1, 1.0, True),
        (2.0**26 - 1, 3.0, False),
        (2.0**40, 0.1, True),
        (3.0, 0.1, False),
    ):
        block = MomentBlock(((), (0,)), Polynomial.constant(multiplier), np.array([[entry, 1.0], [1.0, 0.0]]))
        product = Fraction(entry) * Fraction(entry) * Fraction(multiplier)
        assert is_exact(MomentModel(x[0], blocks=(block,), n=1)) == whole
        assert whole == (Fraction(entry * entry * multiplier) == product)


def test_a_block_of_a_constant_alone() -> None:
    """The basis 1 with a multiplier that is a number: rows without any column."""
    for multiplier in (None, Polynomial.constant(2.0)):
        model = MomentModel(x[0] ** 2, blocks=(MomentBlock(((), (0,))), MomentBlock(((),), multiplier)), n=1)
        assert solve_model(model).bound <= 0.0
        assert model.conic().coefficients[-1] == 1.0
