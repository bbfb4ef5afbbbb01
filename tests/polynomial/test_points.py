"""Feasible points: exact values, descents against grids, proofs of feasibility that a wrong point does not pass."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.language import read_pop
from lipcert.polynomial.points.local import TOLERANCE, Compiled, LocalProblem, _augmented
from lipcert.polynomial.points.search import judge, runaway, search
from lipcert.proof.polynomials import exact_value, proved_value
from lipcert.rounding import Array

monomials = st.lists(st.integers(0, 2), max_size=4).map(lambda m: tuple(sorted(m)))
numbers = st.floats(-100, 100, allow_nan=False, allow_subnormal=False)
polynomials = st.dictionaries(monomials, numbers, max_size=6).map(Polynomial.from_terms)
points = st.lists(numbers, min_size=3, max_size=3).map(np.array)


def rational(p: Polynomial, x: Array) -> Fraction:
    total = Fraction(0)
    for monomial, value in p.terms().items():
        term = Fraction(value)
        for i in monomial:
            term *= Fraction(float(x[i]))
        total += term
    return total


@given(polynomials, points, st.sampled_from(["min", "max"]))
@settings(max_examples=80, deadline=None)
def test_values_are_exact_and_rounded_outward(p: Polynomial, x: Array, sense: str) -> None:
    exact = rational(p, x)
    terms = (p.indices, p.coefficients)
    everywhere = (np.full(3, -inf), np.full(3, inf))
    assert exact_value(terms, x) == exact
    value = proved_value(terms, [], [], everywhere, x, sense)
    assert value is not None
    assert Fraction(value) >= exact if sense == "min" else Fraction(value) <= exact
    assert abs(Fraction(value) - exact) <= Fraction(1, 2**52) * abs(exact) + Fraction(1, 2**1074)
    assert (proved_value(terms, [terms], [], everywhere, x) is not None) == (exact >= 0)
    assert (proved_value(terms, [], [terms], everywhere, x) is not None) == (exact == 0)


def test_a_point_outside_by_one_rounding_is_not_proved() -> None:
    x, y = Polynomial.variable(0), Polynomial.variable(1)
    disk = 1 - x**2 - y**2
    terms = (disk.indices, disk.coefficients)
    box = np.full(2, -1.0), np.full(2, 1.0)
    goal = (x.indices, x.coefficients)
    for place, inside in (((0.6, 0.8), False), ((0.6, np.nextafter(0.8, 0)), True), ((1.0, 0.0), True)):
        found = proved_value(goal, [terms], [], box, np.array(place))
        assert (found is not None) == inside == (rational(disk, np.array(place)) >= 0)
    assert proved_value(goal, [], [], box, np.array([np.nextafter(1.0, 2), 0.0])) is None
    assert proved_value(goal, [], [], box, np.array([np.nan, 0.0])) is None


@given(st.lists(polynomials, min_size=1, max_size=4), points)
@settings(max_examples=60, deadline=None)
def test_compiled_values_and_derivatives(listed: list[Polynomial], x: Array) -> None:
    compiled = Compiled(listed, 3)
    size = 1 + max(float(np.abs(p.coefficients).sum()) for p in listed) * (1 + np.abs(x).max()) ** 4
    assert compiled.value(x) == pytest.approx([p.evaluate(x)[0] for p in listed], abs=1e-12 * size)
    slopes = [[p.derivative(i).evaluate(x)[0] for i in range(3)] for p in listed]
    assert compiled.jacobian(x).ravel() == pytest.approx(np.ravel(slopes), abs=1e-11 * size)
    assert compiled.values(np.stack([x, 2 * x])).shape == (2, len(listed))


@pytest.mark.parametrize("seed", range(4))
def test_descents_find_what_a_grid_finds(seed: int) -> None:
    """Random quartics on a disk in a box: no grid point is better, and the point is proved feasible."""
    rng = np.random.default_rng(seed)
    x = [Polynomial.variable(i) for i in range(2)]
    f = Polynomial.from_terms(
        {m: float(rng.normal()) for m in [(0,), (0, 1), (0, 0, 1), (1, 1, 1), (0, 0, 1, 1), (0,) * 4]}
    )
    sense = ["min", "max"][seed % 2]
    problem = PolynomialProblem(f, (1.5 - x[0] ** 2 - x[1] ** 2,), (), sense, lower=[-1.0, -1.0], upper=[1.0, 1.0])  # type: ignore[arg-type]
    found = search(LocalProblem.of(problem.boxed()), seed=seed)
    side = np.linspace(-1, 1, 201)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    values = f.evaluate(grid[problem.inequalities[0].evaluate(grid) >= 0])
    assert found is not None
    assert found.proved
    assert found.value <= values.min() if sense == "min" else found.value >= values.max()


def test_the_same_seed_gives_the_same_point() -> None:
    problem = read_pop("min x^4 - 3x^2 y + y^3 + x\nx, y in [-2, 2]\nx + y <= 1").problem
    one, two = (search(LocalProblem.of(problem), seed=7) for _ in range(2))
    assert one is not None
    assert two is not None
    assert one.point.tolist() == two.point.tolist()


@pytest.mark.parametrize(
    ("text", "value", "proved"),
    [
        ("max x1 x2 - x2 x3 - x1 x3\nx1 in {0, 1}\nx2 in {0, 1}\nx3 in {0, 1}", 1.0, True),  # flips alone
        ("min x + y + z\nx y z = 1\nx, y, z >= 0.1", 3.0, False),  # an equality that floats do not meet, or hardly
        ("min x^2 + y^2 + z^2 + w^2\nx + y + z + w = 1", 0.25, True),
        ("min x^2 - y\nx - y = 0.5\nx + y <= 3", 0.25, True),  # solved for y on a dyadic grid
        ("max x + y\nx^2 + y^2 <= 2\n(x - 1)^2 + y^2 <= 1", 2.0, True),  # pushed off the boundary
    ],
)
def test_known_optima(text: str, value: float, proved: bool) -> None:
    problem = read_pop(text).problem
    found = search(LocalProblem.of(problem))
    assert found is not None
    assert found.value == pytest.approx(value, abs=2e-5)
    assert found.proved or not proved
    if found.proved:
        assert all(rational(g, found.point) >= 0 for g in problem.inequalities)
        assert all(rational(h, found.point) == 0 for h in problem.equalities)
    assert found.violation <= TOLERANCE


def test_many_variables_and_constraints_by_the_augmented_lagrangian() -> None:
    """A chain of disks, where SLSQP would be slow: the same value from both."""
    n = 12
    names = [f"x{i}" for i in range(n)]
    text = "min " + " + ".join(f"{a} {b}" for a, b in pairwise(names))
    text += "\n" + "\n".join(f"{a}^2 + {b}^2 <= 1" for a, b in pairwise(names)) + "\nx0 = 0.5"
    local = LocalProblem.of(read_pop(text).problem)
    usual = search(local)
    other = judge(local, _augmented(local, np.array([0.5, -0.5] * (n // 2))))
    assert usual is not None
    assert other is not None
    assert other.value == pytest.approx(usual.value, abs=1e-4)


def test_nothing_is_feasible() -> None:
    assert search(LocalProblem.of(read_pop("min x\nx^2 + y^2 <= 1\nx y >= 2").problem)) is None
    assert LocalProblem.of(read_pop("min x\nx >= 2\nx <= 1").problem).empty_box


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        ("min x^3", True),
        ("max x y\nx - y = 1", True),
        ("min y\nx >= y^2", True),  # slower than linear in x
        ("min (x - 1000)^2 + y^4", False),
        ("min x^4 - 10x^2", False),
        ("min -x\nx <= 7", False),
    ],
)
def test_values_that_run_away(text: str, goes: bool) -> None:
    local = LocalProblem.of(read_pop(text).problem)
    assert (runaway(local, []) is not None) == goes
