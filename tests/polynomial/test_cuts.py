"""Triangle inequalities between bounded variables, and rounds of them."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert.cli.pop import pop_command
from lipcert.errors import FileFormatError, InputError
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.certificates.certificate import verify_polynomial
from lipcert.polynomial.hierarchy.cuts import (
    VariableBounds,
    cut_of,
    scaled_moments,
    solve_with_cuts,
    triangle_inequality,
    violated,
)
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.optimise import maximize
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.hierarchy.solve import Splitting, relax, solve_model
from tests.polynomial_problems import boxed, max_cut, solved

COMPLETE = list(combinations(range(5), 2))


def value(p: Polynomial, point: tuple[Fraction, ...]) -> Fraction:
    """p at a point in rational arithmetic."""
    total = Fraction(0)
    for monomial, coefficient in p.terms().items():
        term = Fraction(coefficient)
        for i in monomial:
            term *= point[i]
        total += term
    return total


numbers = st.floats(-1e3, 1e3, allow_subnormal=False).filter(lambda v: v == 0 or abs(v) > 1e-3)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(numbers, st.floats(1e-2, 1e2)), min_size=3, max_size=3),
    st.sampled_from([(0, 1, 2), (0, 1, 3), (1, 2, 3)]),
    st.tuples(st.sampled_from([-1, 1]), st.sampled_from([-1, 1])),
)
def test_cuts_hold_between_the_bounds_exactly(
    sides: list[tuple[float, float]], places: tuple[int, int, int], signs: tuple[int, int]
) -> None:
    """Multiaffine, so the corners decide; at four of them it is tight up to rounding."""
    lower = np.array([low for low, _ in sides])
    upper = np.array([low + width for low, width in sides])
    cut = triangle_inequality((*places, *signs), VariableBounds(lower, upper))
    assert cut_of(cut, VariableBounds(lower, upper)) == (*places, *signs)
    assert cut_of(cut * 2.0, VariableBounds(lower, upper)) is None
    assert cut_of(Polynomial.variable(0), VariableBounds(lower, upper)) is None
    corners = product(*([Fraction(lo), Fraction(hi)] for lo, hi in zip(lower.tolist(), upper.tolist(), strict=True)))
    values = [value(cut, corner) for corner in corners]
    assert min(values) >= 0
    assert min(values) <= 1e-4 * max(values)


def test_cuts_close_the_gap_of_complete_graphs() -> None:
    """Five vertices, all edges: the largest cut is 6, the relaxation says 6.25; of a ring of three 2 and 9/4."""
    alone, cut = (solved(max_cut(5, COMPLETE), "dense", 1, splitting=Splitting(cuts=rounds)).bound for rounds in (0, 3))
    assert alone == pytest.approx(6.25, abs=1e-4)
    assert 6.0 <= cut <= alone + 1e-6
    ring = [(i, (i + 1) % 3) for i in range(3)]
    result = solved(max_cut(3, ring), "dense", 1, splitting=Splitting(cuts=1))
    assert 2.0 <= result.bound <= 2.0 + 1e-5  # 9/4 without
    assert "1 triangle inequality after 1 round" in result.notes[-1]


@pytest.mark.parametrize("seed", range(3))
def test_cuts_bound_quadratics_on_boxes(seed: int) -> None:
    """All values at the corners of the box, where functions without squares have their minimum."""
    rng = np.random.default_rng(seed)
    n = 6
    terms: dict[tuple[int, ...], float] = {(i, j): float(rng.integers(-9, 10)) for i, j in combinations(range(n), 2)}
    terms |= {(i,): float(rng.integers(-9, 10)) for i in range(n)}
    f = Polynomial.from_terms(terms)
    corners = np.array(list(product([-1.0, 3.0], repeat=n)))
    least = float(f.evaluate(corners).min())
    problem = PolynomialProblem(f, lower=np.full(n, -1.0), upper=np.full(n, 3.0)).boxed()
    alone, cut = (solved(problem, "dense", 1, splitting=Splitting(cuts=rounds)).bound for rounds in (0, 5))
    assert alone - 1e-6 <= cut <= least
    assert cut >= least - 1e-3 * abs(least)


def test_a_lying_solver_gains_nothing() -> None:
    """Moments that violate every triangle: the rows are true all the same."""
    model = relax(max_cut(5, COMPLETE), "dense", 1)

    def lying(m: MomentModel) -> PolynomialResult:
        result = solve_model(m)
        object.__setattr__(result, "moment_values", np.where(np.arange(len(result.moment_values)) > 0, -1.0, 1.0))
        return result

    assert solve_with_cuts(model, VariableBounds(-np.ones(5), np.ones(5)), 3, lying).bound >= 6.0


def test_without_moments_there_are_no_cuts() -> None:
    result = solved(boxed("x1", [(-1, 1)]), "dense", 1, splitting=Splitting(cuts=2))
    assert -1.0 - 1e-6 <= result.bound <= -1.0
    object.__setattr__(result, "moment_values", np.full(len(result.moment_values), np.nan))
    assert scaled_moments(result, VariableBounds(-np.ones(1), np.ones(1))) is None
    assert violated(np.full((4, 4), np.nan), 10) == []


def test_unbounded_variables_are_left_alone() -> None:
    x = [Polynomial.variable(i) for i in range(3)]
    f = x[0] * x[1] + x[1] * x[2] + x[0] * x[2] + (x[2] - 1.0) ** 2
    problem = PolynomialProblem(
        f + x[2] ** 2, lower=np.array([-1, -1, -np.inf]), upper=np.array([1, 1, np.inf])
    ).boxed()
    assert solved(problem, "dense", 1, splitting=Splitting(cuts=2)).bound <= float(
        (f + x[2] ** 2).evaluate([1.0, -1.0, 0.5])[0]
    )


def test_options(tmp_path: Path) -> None:
    x = [Polynomial.variable(i) for i in range(3)]
    with pytest.raises(InputError, match="rounds >= 0"):
        maximize(x[0], lower=[-1.0], upper=[1.0], cuts=-1)
    path = tmp_path / "ring.pop"
    path.write_text("variables x y z\nmaximize -x*y - y*z - x*z\nx^2 = 1\ny^2 = 1\nz^2 = 1\n")
    run = CliRunner().invoke(pop_command, [str(path), "--json", "--cuts", "2"], standalone_mode=False)
    assert json.loads(run.output)["bound"] == pytest.approx(1.0, abs=1e-5)


def test_a_file_names_cuts_and_the_problem_makes_them(tmp_path: Path) -> None:
    """The bound with cuts is proved again from the problem; cuts that its bounds do not make are refused."""
    problem = max_cut(3, [(i, (i + 1) % 3) for i in range(3)])
    result = solved(problem, order=1, splitting=Splitting(cuts=3))
    assert result.certificate is not None
    result.certificate.save(tmp_path / "proof.npz")
    answer = verify_polynomial(tmp_path / "proof.npz", problem)
    assert answer.proved
    assert answer.bound == pytest.approx(result.bound, rel=1e-6)
    with np.load(tmp_path / "proof.npz") as stored:
        arrays = dict(stored)
    assert len(arrays["sos_cuts"]) > 0
    for change in ([0, 0, 1, 1, 1], [0, 1, 9, 1, 1], [-1, 1, 2, 1, 1], [0, 1, 2, 2, 1], [2, 1, 3, 1, 1]):
        forged = arrays["sos_cuts"].copy()
        forged[0] = change
        np.savez(tmp_path / "forged.npz", **(arrays | {"sos_cuts": forged}))
        with pytest.raises(FileFormatError, match="triangle inequalities"):
            verify_polynomial(tmp_path / "forged.npz", problem)
    np.savez(tmp_path / "fewer.npz", **(arrays | {"sos_cuts": arrays["sos_cuts"][:-1]}))
    with pytest.raises(FileFormatError):
        verify_polynomial(tmp_path / "fewer.npz", problem)
    swapped = arrays["sos_cuts"] * np.array([1, 1, 1, -1, 1])
    np.savez(tmp_path / "swapped.npz", **(arrays | {"sos_cuts": swapped}))
    assert not verify_polynomial(tmp_path / "swapped.npz", problem).proved
