"""Null vectors that forced Gram entries show, and exact corrections for many monomials without bounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.hierarchy.assembly import MomentConic, is_exact
from lipcert.polynomial.hierarchy.attempts import identity_of
from lipcert.polynomial.hierarchy.faces import reduce_bases, reduce_pairs
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.solve import relax, solve_model
from lipcert.polynomial.polynomial import total
from lipcert.proof.sos.absorb import MOST_FRACTIONS, SosIdentity, absorb_in_both, absorb_in_entries
from lipcert.proof.sos.prove import prove_weights, weights_of
from lipcert.rounding import Array
from lipcert.solver.conic.conic import solve_conic
from tests.polynomial_problems import solved

x = [Polynomial.variable(i) for i in range(45)]


def chain(n: int, last: float = 100.0) -> Polynomial:
    """Rosenbrock's chain; with another `last` coefficient of x_(n-1)^4 the last square is not one."""
    f = total(100.0 * (x[i] - x[i - 1] ** 2) ** 2 + (1.0 - x[i - 1]) ** 2 for i in range(1, n))
    return f + (last - 100.0) * x[n - 2] ** 4


def reduced(f: Polynomial, sparsity: str = "term") -> MomentModel:
    return reduce_bases(reduce_pairs(reduce_bases(relax(PolynomialProblem(f), "sparse", 2, sparsity=sparsity))))


def test_the_last_square_of_a_chain_is_forced() -> None:
    """x_n - x_(n-1)^2 takes the place of x_n and x_(n-1)^2, which leaves the other clique."""
    model = reduced(chain(4))
    (mixed,) = [b for b in model.blocks if b.mix is not None]
    assert mixed.mix is not None
    polynomials = [{m: float(v) for m, v in zip(mixed.basis, row, strict=True) if v} for row in mixed.mix]
    assert sorted(map(len, polynomials)) == [1, 1, 2]
    assert {(2, 2): -1.0, (3,): 1.0} in polynomials
    assert all((2, 2) not in b.basis for b in model.blocks if b.mix is None)


@pytest.mark.parametrize("last", [101.0, np.nextafter(100.0, 200.0)])
def test_what_is_not_tight_exactly_stays(last: float) -> None:
    assert all(b.mix is None for b in reduced(chain(4, last)).blocks)


def test_nothing_is_lost() -> None:
    f = chain(3) + 0.5 * x[0]
    whole, part = (relax(PolynomialProblem(f), "dense", 2), reduced(f))
    values = [solve_conic(m.conic().problem).dual + f.coefficient(()) for m in (whole, part)]
    assert values[0] == pytest.approx(values[1], abs=1e-4)


def test_constrained_problems_and_rules_are_left_alone() -> None:
    bounded = relax(PolynomialProblem(chain(3), (4.0 - x[2] ** 2,)), "dense", 2)
    assert all(b.mix is None for b in reduce_pairs(bounded).blocks)
    ruled = relax(PolynomialProblem(chain(3), equalities=(x[0] ** 2 - 1.0,)), "dense", 2)
    assert reduce_pairs(ruled) is ruled


def test_long_chains_are_proved_on_the_whole_space() -> None:
    """With 45 variables there are too many monomials for one exact correction of all."""
    result = solved(PolynomialProblem(chain(45)), "sparse", 2)
    assert len(result.monomial_rows) > MOST_FRACTIONS
    assert -1e-2 <= result.bound <= 0.0


def at_infinity(n: int) -> tuple[MomentConic, SosIdentity, Array]:
    """The program of the reduced chain, its identity, and a solver's weights for Gram matrices that are definite."""
    model = reduced(chain(n))
    conic = model.conic()
    identity = identity_of(conic, np.full(n, -np.inf), np.full(n, np.inf), is_exact(model))
    return conic, identity, weights_of(identity, solve_conic(conic.problem).z)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
def test_some_weights_within_the_doubt_fit_exactly(noise: float) -> None:
    """Residuals in rational arithmetic; a linear program, in units of the doubt, finds the correction."""
    _, identity, weights = at_infinity(5)
    rng = np.random.default_rng(0)
    absorbed = absorb_in_both(identity, weights + noise * rng.standard_normal(len(weights)))
    assert absorbed is not None
    infinite = np.flatnonzero(~np.isfinite(identity.reach))
    left = [Fraction(float(v)) for v in identity.objective]
    terms = zip(identity.slots.tolist(), identity.columns.tolist(), identity.coefficients.tolist(), strict=True)
    for slot, column, value in terms:
        left[column] -= Fraction(float(absorbed.weights[slot])) * Fraction(value)
    place = {int(c): k for k, c in enumerate(infinite)}
    unit = Fraction(float(absorbed.doubt.max()))
    A = np.zeros((len(infinite), identity.size))
    for slot, column, value in zip(identity.slots, identity.columns, identity.coefficients, strict=True):
        if int(column) in place:
            A[place[int(column)], slot] += value
    target = np.array([float(left[c] / unit) for c in infinite])
    room = absorbed.doubt / float(unit)
    found = linprog(np.zeros(len(room)), A_eq=A, b_eq=target, bounds=np.column_stack([-room, room]))
    assert found.status == 0
    assert np.all(absorbed.residual[infinite] == 0)


@pytest.mark.parametrize("seed", range(8))
def test_lies_about_chains_loosen_and_never_break(seed: int) -> None:
    """The minimum is zero at ones: whatever the weights are, no bound is above."""
    _, identity, weights = at_infinity(6)
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-12, 1)
    for lie in (weights + size * rng.standard_normal(len(weights)), weights * (1 + size), rng.permutation(weights)):
        assert prove_weights(identity, lie).bound <= 0.0


def test_entries_alone_prove_nothing() -> None:
    """x_n occurs in no entry by itself."""
    conic, identity, weights = at_infinity(8)
    infinite = ~np.isfinite(identity.reach)
    assert not np.all(absorb_in_entries(identity, weights, infinite).residual[infinite] == 0)
    assert solve_model(reduced(chain(8))).bound >= -1e-4
    assert conic.problem.columns == len(identity.reach) - 1
