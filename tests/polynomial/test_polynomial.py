"""Polynomials: arithmetic against evaluation, text both ways, bounds in exact arithmetic, files of strangers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import minimize
from lipcert.errors import FileFormatError, InputError
from lipcert.polynomial import Polynomial, PolynomialProblem, box_constraint, variable_bounds
from lipcert.polynomial.files import load_problem, read_json
from lipcert.polynomial.language import read_pop
from lipcert.polynomial.monomials import all_monomials, reduce_squares, rows_of, unique_rows
from lipcert.polynomial.text import parse, show
from tests.counting import calls

NAMES = ["x", "y", "z", "w[3]"]
monomials = st.lists(st.integers(0, 3), max_size=4).map(lambda m: tuple(sorted(m)))
polynomials = st.dictionaries(monomials, st.integers(-8, 8).map(float), max_size=6).map(Polynomial.from_terms)
points = st.lists(st.integers(-3, 3).map(float), min_size=4, max_size=4).map(np.array)


@given(polynomials, polynomials, points)
@settings(max_examples=60, deadline=None)
def test_arithmetic_is_that_of_values(
    p: Polynomial, q: Polynomial, x: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> None:
    a, b = float(p.evaluate(x)[0]), float(q.evaluate(x)[0])
    assert (p + q).evaluate(x)[0] == a + b
    assert (p - q).evaluate(x)[0] == a - b
    assert (p * q).evaluate(x)[0] == a * b
    assert (p**3).evaluate(x)[0] == a**3
    assert (2.0 - p).evaluate(x)[0] == 2.0 - a
    assert (3.0 * p + 1.0).evaluate(x)[0] == 3.0 * a + 1.0
    y = x.copy()
    y[1] = b
    assert p.substitute({1: q}).evaluate(x)[0] == p.evaluate(y)[0]


@given(polynomials)
@settings(max_examples=60, deadline=None)
def test_text_and_terms_round_trip(p: Polynomial) -> None:
    assert parse(show(p, NAMES), NAMES) == p
    assert Polynomial.from_terms(p.terms()) == p
    assert p - p == Polynomial.constant(0.0)
    assert hash(Polynomial.from_terms(p.terms())) == hash(p)


@given(polynomials, st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_multiples_are_products(p: Polynomial, monomials: list[list[int]]) -> None:
    listed = [tuple(sorted(m)) for m in monomials]
    expected = [p * Polynomial.from_terms({m: 1.0}) for m in listed]
    found = p.multiples(rows_of(listed))
    assert found == expected
    assert all(np.array_equal(Polynomial(q.indices, q.coefficients).indices, q.indices) for q in found)


def test_vanished_coefficients_leave() -> None:
    tiny = Polynomial.from_terms({(0,): 1e-200, (1,): 1.0})
    assert tiny * 1e-200 == Polynomial.from_terms({(1,): 1e-200})
    assert tiny * 0.0 == Polynomial.constant(0.0)
    with pytest.raises(InputError, match="finite"):
        tiny * float("inf")


def test_canonical_form() -> None:
    p = Polynomial.from_terms({(2, 0): 1.0, (0, 2): 2.0, (1,): 0.0, (): 5.0})
    assert p.terms() == {(): 5.0, (0, 2): 3.0}
    assert p.degree == 2
    assert p.variables.tolist() == [0, 2]
    assert p.indices.tolist() == [[-1, -1], [0, 2]]
    assert Polynomial.constant(0.0).degree == 0
    assert Polynomial.affine(1.0, [3, 1], [2.0, -1.0]).terms() == {(): 1.0, (1,): -1.0, (3,): 2.0}
    assert Polynomial.from_terms({(0, 0, 0): 2.0, (0, 1): 1.0}).derivative(0).terms() == {(0, 0): 6.0, (1,): 1.0}
    assert "terms" in repr(Polynomial.affine(0.0, range(50), np.ones(50)))


def test_affine_form_in_500_variables_squared() -> None:
    """In as many steps as one in 50 variables: no loop over terms."""
    small, a = (Polynomial.affine(1.0, range(n), np.random.default_rng(0).normal(size=n)) for n in (50, 500))
    square, steps = calls(lambda: a * a)
    assert steps < 2 * calls(lambda: small * small)[1]
    assert len(square.coefficients) == 501 * 502 // 2


def test_unique_rows_of_large_numbers() -> None:
    rng = np.random.default_rng(1)
    rows = np.sort(rng.integers(-1, 10**8, size=(200, 6)).astype(np.int32), axis=1)
    doubled = np.concatenate([rows, rows])
    unique, place = unique_rows(doubled)
    assert np.array_equal(unique[place], doubled)
    assert [tuple(r) for r in unique.tolist()] == sorted({tuple(r) for r in rows.tolist()})


def test_squares_are_reduced() -> None:
    rows, factor, source = reduce_squares(rows_of([(0, 0, 0, 1), (1, 1), (2, 2)]), {0: (1.0, 0.0), 1: (0.0, 1.0)})
    got = sorted(
        (tuple(int(i) for i in r if i >= 0), float(f), int(s)) for r, f, s in zip(rows, factor, source, strict=True)
    )
    assert got == [((), 1.0, 1), ((0, 1), 1.0, 0), ((2, 2), 1.0, 2)]
    rows, factor, _ = reduce_squares(rows_of([(0, 0, 0)]), {0: (3.0, 2.0)})  # x^3 = 3x^2 + 2x = 11x + 6
    total: dict[tuple[int, ...], float] = {}
    for r, f in zip(rows, factor, strict=True):
        key = tuple(int(i) for i in r if i >= 0)
        total[key] = total.get(key, 0.0) + float(f)
    assert total == {(0,): 11.0, (): 6.0}
    assert len(all_monomials(range(4), 3)) == 35
    assert len(all_monomials(range(4), 3, simple=range(4))) == 1 + 4 + 6 + 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x +",
        "x ^ y",
        "x^-1",
        "x^2.5",
        "x^999",
        "q",
        "(x",
        "x)",
        "x 2",
        "1/x",
        "1/0",
        "x $ y",
        "(" * 200,
        "-" * 300 + "x",
        "1e999",
    ],
)
def test_bad_expressions_are_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, NAMES)
    assert "\n" not in str(caught.value)


def test_expressions() -> None:
    assert parse("-(x - 2*y)**2/4 + .5e1", NAMES).terms() == {(): 5.0, (0, 0): -0.25, (0, 1): 1.0, (1, 1): -1.0}
    assert parse("--w[3]", NAMES) == Polynomial.variable(3)


@pytest.mark.parametrize(("lower", "upper"), [(0.1, 0.7), (-0.3, 1e-17), (1 / 3, 2 / 3), (-1e10, 0.1), (-1.0, 1.0)])
def test_box_constraint_holds_on_the_box(lower: float, upper: float) -> None:
    terms = box_constraint(0, lower, upper).terms()
    for x in (Fraction(lower), Fraction(upper), (Fraction(lower) + Fraction(upper)) / 2):
        assert sum(Fraction(v) * x ** len(m) for m, v in terms.items()) >= 0


def test_variable_bounds() -> None:
    x = [Polynomial.variable(i) for i in range(6)]
    problem = PolynomialProblem(
        x[0],
        (0.1 - x[0] * x[0] - 3.0 * x[1] * x[1] + 0.2 * x[1], x[2] - 2.0 * x[0], 7.0 - 3.0 * x[2], 1.0 - x[5] * x[4]),
        (x[3] * x[3] - x[3], x[4] - x[0] - x[3] + 0.5),
    )
    lower, upper = variable_bounds(problem)
    radius = np.sqrt(0.1 + 0.04 / 12)
    assert np.allclose(upper[0], radius)
    assert Fraction(float(upper[0])) ** 2 >= Fraction(0.1) + Fraction(0.2) ** 2 / 12
    assert np.allclose([lower[1], upper[1]], [0.2 / 6 - radius / np.sqrt(3), 0.2 / 6 + radius / np.sqrt(3)])
    assert np.allclose([lower[2], upper[2]], [-2 * radius, 7 / 3])
    assert (lower[3], upper[3]) == (0.0, 1.0)
    assert np.allclose([lower[4], upper[4]], [-radius - 0.5, radius + 0.5])
    assert lower[5] == -np.inf


def test_bounds_from_long_affine_constraints() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, lower = rng.normal(size=12), -rng.uniform(size=12)
        upper = lower + rng.uniform(size=12)
        z = Polynomial.affine(0.3, [*range(12), 12], [*a, -1.0])
        problem = PolynomialProblem(z, equalities=(z,), lower=np.append(lower, -np.inf), upper=np.append(upper, np.inf))
        low, high = (float(v[12]) for v in variable_bounds(problem))
        pairs = [(Fraction(c), Fraction(lo), Fraction(hi)) for c, lo, hi in zip(a, lower, upper, strict=True)]
        least = Fraction(0.3) + sum((min(c * lo, c * hi) for c, lo, hi in pairs), Fraction(0))
        most = Fraction(0.3) + sum((max(c * lo, c * hi) for c, lo, hi in pairs), Fraction(0))
        assert least - Fraction(1, 10**12) <= Fraction(low) <= least
        assert most <= Fraction(high) <= most + Fraction(1, 10**12)


def test_problem_is_validated() -> None:
    x = Polynomial.variable(2)
    with pytest.raises(InputError, match="sense"):
        PolynomialProblem(x, sense="up")
    with pytest.raises(InputError, match="3 variables occur"):
        PolynomialProblem(x, names=("a", "b"))
    with pytest.raises(InputError, match="numbers"):
        PolynomialProblem(x, lower=np.array([0.0, np.nan, 0.0]))
    with pytest.raises(InputError, match="polynomials"):
        PolynomialProblem(x, inequalities=(1.0,))  # type: ignore[arg-type]
    for bad in ("x*y", None, np.zeros((9, 9))):
        with pytest.raises(InputError, match=r"^objective=.*: give a Polynomial, made of Polynomial") as caught:
            minimize(bad)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"inequalities=3: give a list of polynomials"):
        minimize(x, 3)  # type: ignore[arg-type]
    assert PolynomialProblem(x).n == 3
    with pytest.raises(InputError, match="finite"):
        Polynomial.constant(float("nan"))
    with pytest.raises(InputError, match="coordinates"):
        x.evaluate([[1.0]])
    with pytest.raises(InputError, match="does not hold"):
        box_constraint(0, 1.0, 0.0)


POP = """
variables x y z   # three of them
maximize x*y + y*z
x^2 + y^2 <= 1
x*z >= 2*y
-1 <= z <= 0.5
clique x y
bad x + y + z = 1
"""


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.pop"
    path.write_text(POP)
    read = load_problem(path)
    assert read.problem.sense == "max"
    assert read.problem.upper is not None
    assert read.problem.upper.tolist() == [np.inf, np.inf, 0.5]
    assert len(read.problem.inequalities) == 3
    assert read.cliques == ((0, 1),)
    assert read.bad == read.problem.equalities
    same = read_json(
        '{"variables": ["x", "y", "z"], "maximize": "x*y + y*z", "constraints": ["x^2 + y^2 <= 1", "x*z >= 2*y"],'
        ' "bounds": {"z": [-1, 0.5]}, "cliques": [["x", "y"]], "bad": ["x + y + z = 1"]}'
    )
    assert same.problem.polynomials == read.problem.polynomials
    half = read_json('{"variables": ["x"], "minimize": "x", "bounds": {"x": [0, null]}}')
    assert half.problem.inequalities == (Polynomial.variable(0),)


@pytest.mark.parametrize(
    "text",
    [
        "variables x\nminimize x + q",
        "variables x x\nminimize x",
        "variables x\nx >= 0",
        "variables x\nminimize x\nminimize x",
        "variables x\nminimize x\nx",
        "variables x\nminimize x\nx >= 0 >= 1",
        "variables 1x\nminimize 1",
        "variables x\nminimize x\n1 <= x <= 0",
        "variables x\nminimize x\nclique y",
    ],
)
def test_bad_text_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.pop"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"bad\.pop(: |, line \d, column \d+: )") as caught:
        load_problem(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        read_pop(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"minimize": "1"}',
        '{"variables": ["x"], "minimize": 3}',
        '{"variables": ["x"], "minimize": "x", "bounds": []}',
        '{"variables": ["x"], "minimize": "x", "bounds": {"x": [0]}}',
        '{"variables": ["x"], "minimize": "x", "bounds": {"x": [true, 1]}}',
        '{"variables": ["x"], "minimize": "x", "bounds": {"x": [NaN, 1]}}',
        '{"variables": ["x"], "minimize": "x", "cliques": 3}',
        '{"variables": ["x"], "minimize": "x", "extra": 3}',
    ],
)
def test_bad_json(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"bad\.json: "):
        load_problem(path)


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.pop"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="UTF-8"):
        load_problem(path)


def test_one_sided_bounds_are_completed_by_what_the_constraints_imply() -> None:
    """On a simplex x >= 0 becomes x (1 - x) >= 0; without the sum it stays what it was."""
    read = read_pop("min x - y\nx, y >= 0\nx + y = 1").problem
    assert read.inequalities == (box_constraint(0, 0.0, 1.0), box_constraint(1, 0.0, 1.0))
    assert read_pop("min x - y\nx, y >= 0\nx - y = 1").problem.inequalities == (
        box_constraint(0, 0.0, np.inf),
        box_constraint(1, 0.0, np.inf),
    )
