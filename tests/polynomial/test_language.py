"""The .pop language and the formats of others: what is plain is read, what is not is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert.errors import FileFormatError, InputError
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.content import ProblemFile
from lipcert.polynomial.files import load_problem, read_boxqp, read_json
from lipcert.polynomial.gams import read_gams
from lipcert.polynomial.language import read_pop, show_problem
from lipcert.polynomial.text import parse, show
from tests.counting import calls

NAMES = ["x", "y", "long_name", "w[3]", "v[1,2]"]
numbers = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-6)
monomials = st.lists(st.integers(0, 4), max_size=5).map(lambda m: tuple(sorted(m)))
polynomials = st.dictionaries(monomials, numbers, max_size=6).map(Polynomial.from_terms)
constraints = polynomials.filter(lambda p: p.degree > 0)


@given(polynomials)
@settings(max_examples=80, deadline=None)
def test_what_is_shown_is_read_back(p: Polynomial) -> None:
    text = show(p, NAMES)
    assert parse(text, NAMES) == p
    assert parse(text.replace("*", " "), NAMES) == p
    assert parse(text.replace("^", "**"), NAMES) == p


@given(
    polynomials, st.lists(constraints, max_size=4), st.lists(constraints, max_size=2), st.sampled_from(["min", "max"])
)
@settings(max_examples=60, deadline=None)
def test_problems_are_read_back(
    f: Polynomial, inequalities: list[Polynomial], equalities: list[Polynomial], sense: str
) -> None:
    problem = PolynomialProblem(f, tuple(inequalities), tuple(equalities), sense, tuple(NAMES))
    read = read_pop(show_problem(problem)).problem
    assert (read.objective, read.sense, read.names) == (f, sense, tuple(NAMES))
    assert read.equalities == problem.equalities
    assert set(read.boxed().inequalities) >= {g for g in inequalities if len(g.variables) > 1}
    x = np.random.default_rng(0).normal(size=(50, 5)) * 3
    assert _feasible(read, x) == _feasible(problem, x)


def _feasible(problem: PolynomialProblem, x: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[bool]:
    held = np.all([np.ones(len(x)), *(g.evaluate(x) >= 0 for g in problem.inequalities)], axis=0)
    return [bool(h) for h in held]


factors = st.one_of(
    st.sampled_from(["x", "y^2", "(x + 1)", "(x - y)^2", "long_name", "w[3]"]),
    st.integers(1, 9).map(lambda k: f"({k})"),
)


@given(st.integers(1, 99), st.lists(factors, min_size=1, max_size=5), st.sampled_from(["", " ", "  "]))
@settings(max_examples=80, deadline=None)
def test_factors_next_to_each_other_are_multiplied(number: int, parts: list[str], space: str) -> None:
    glued = " ".join(parts) if space else "".join(p if p[0] == "(" else f"({p})" for p in parts)
    assert parse(f"{number}{space}{glued}", NAMES) == parse("*".join([str(number), *parts]), NAMES)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2.1x^2", "2.1*x^2"),
        ("2 x y", "2*x*y"),
        ("3(x+1)", "3*x + 3"),
        ("(x+1)(x-1)", "x^2 - 1"),
        ("x^2y", "x^2*y"),
        ("-x^2", "0 - x^2"),
        ("2e1x", "20*x"),
        ("x**2 · 3 − y", "3*x^2 - y"),
        ("x/4*y", "0.25*x*y"),
        ("(x + y)^2/(2)", "0.5*x^2 + x*y + 0.5*y^2"),
    ],
)
def test_plain_meanings(text: str, same: str) -> None:
    assert parse(text, NAMES) == parse(same, NAMES)


BASE = "variables x y\nminimize x*y + 2*x\nx^2 + y^2 <= 1\n0 <= x <= 2\n0 <= y <= 2\n"


@pytest.mark.parametrize(
    "text",
    [
        "min x y + 2x\nst\nx^2 + y^2 <= 1\nx, y >= 0\nx, y <= 2",
        "Minimise: x*y + 2x\nsubject to: x^2 + y^2 < 1\nx y in [0, 2]",
        "variables: x, y\nminimise x*y +\n  2*x # goes on\ns.t. x^2 + y^2 =< 1\n2 >= x >= 0; 0 <= y <= 2",
        "min x*y + 2*x\nsuch that\ncircle: 1 ≥ x^2 \\\n + y^2\nx, y in [0, 4/2]\n",
        BASE.replace("\n", "\r\n"),
    ],
)
def test_ways_to_say_the_same(text: str) -> None:
    expected, read = read_pop(BASE).problem, read_pop(text).problem
    assert read.polynomials == expected.polynomials
    assert np.array_equal(read.lower, expected.lower)  # type: ignore[arg-type]
    assert np.array_equal(read.upper, expected.upper)  # type: ignore[arg-type]


def test_variables_in_order_of_appearance_and_sets_of_values() -> None:
    read = read_pop("max b[2] a\na in {0, 1}\nb[2] c_1 in [-inf, 3]\n1 <= a + c_1 <= 2")
    assert read.problem.names == ("b[2]", "a", "c_1")
    assert read.problem.equalities == (Polynomial.from_terms({(1, 1): 1.0, (1,): -1.0}),)
    assert np.array_equal(read.problem.upper, [3, np.inf, 3])  # type: ignore[arg-type]
    assert len(read.problem.inequalities) == 4
    assert read_pop("min x\nx in {-1, 0, 2}").problem.equalities[0].terms() == {
        (0,): -2.0,
        (0, 0): -1.0,
        (0, 0, 0): 1.0,
    }


def test_bounds_that_leave_nothing_are_constraints_when_they_come_apart() -> None:
    """A range with its ends exchanged is a slip of the pen; two lines that contradict are an infeasible problem."""
    assert len(read_pop("min x\nx >= 2\nx <= 1").problem.inequalities) == 2
    with pytest.raises(InputError, match="leave nothing"):
        read_pop("min x\n2 <= x <= 1")


NUMBER_IN_A_LIST = "a number in a list: write 1000 and 0.5 without a comma, and one relation per number"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variables x y\nminimize xy", "line 2, column 10: unknown variable 'xy'; did you mean x*y?"),
        ("min x + xy + y", "line 1, column 9: 'xy' next to x and y: declare variables, or write *"),
        ("var x\nmin x2", "line 2, column 5: unknown variable 'x2'; did you mean x^2 or 2*x?"),
        ("var speed\nmin sped", "line 2, column 5: unknown variable 'sped'; did you mean speed?"),
        ("var x\nmin f(x)", "line 2, column 5: unknown variable 'f'; functions are not read, only polynomials are"),
        ("min f(x) + x", "line 1, column 5: 'f' before a parenthesis looks like a function: write * between them"),
        ("min x\nx >= 1_000", "line 2, column 7: '_000' after the number '1': write digits without _, or a *"),
        ("min x\nx >= 1,000", f"line 2, column 6: {NUMBER_IN_A_LIST}"),
        ("min x\n0,5 x <= 1", f"line 2, column 1: {NUMBER_IN_A_LIST}"),
        (
            "min x\n\nx >= ",
            "line 3, column 5: expected a number, a variable or a parenthesis, found the end of the line",
        ),
        ("min x\nx + 1", "line 2, column 6: expected <=, >= or = and a second polynomial"),
        ("min (x + 1", "line 1, column 11: a closing parenthesis is missing before the end of the line"),
        ("min x 2", "line 1, column 7: a number after 'x' without a sign; did you mean x*2 or x^2?"),
        (
            "min 1/2x",
            "line 1, column 8: a division and then 'x' without a sign can mean two things: write * or parentheses",
        ),
        ("min x^2^3", "line 1, column 8: two powers in a row: use parentheses"),
        ("min x\n0 <= x >= 2", "line 2, column 8: a chain must go one way, all <= or all >="),
        ("min x\nx >= 1 >= 0", "line 2, column 1: two numbers next to each other in a chain"),
        ("min x\nmin x", "line 2, column 1: a second objective; there must be one"),
        ("min x\nx in [0, 1", "line 2, column 11: expected a comma or a ], found the end of the line"),
        ("min x\nx in [0]", "line 2, column 3: an interval has two ends, not 1"),
        ("min x\nx in {1, 1}", "line 2, column 3: up to 8 different finite values may be listed"),
        ("min x\nx ? 3", "line 2, column 3: unexpected '?'"),
        ("var max\nmin 1", "line 1, column 5: 'max' is a word of the language: give the variable another name"),
        ("var x x\nmin x", "line 1, column 7: variable 'x' is declared twice"),
        ("var x\nmin x\nclique z", "line 3, column 1: unknown variable 'z'; declare it under variables"),
        ("min " + "*".join(["x^64"] * 5), "line 1, column 24: a product of degree above the limit of 256"),
    ],
)
def test_errors_say_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.pop"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        load_problem(path)
    assert str(caught.value) == f"{path}, {message}"


@pytest.mark.parametrize(
    "text",
    ["min x " + "1" * 30000, "var x\nmin x" + "1" * 30000, f"var {'y' * 30000}\nmin x", f"min x\n{'a b' * 9000}"],
)
def test_errors_are_short(text: str, tmp_path: Path) -> None:
    """However long the words of a file are."""
    path = tmp_path / "p.pop"
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        load_problem(path)
    assert len(str(caught.value)) < len(str(path)) + 300
    assert "line " in str(caught.value)


@pytest.mark.parametrize("name", ["cos", "SIN", "Exp", "sqrt", "log", "abs", "tanh", "sqr", "power"])
@pytest.mark.parametrize("blank", ["", " "])
def test_functions_are_refused_and_not_read_as_variables(name: str, blank: str) -> None:
    """Where variables are declared, where they are not, in constraints, and in JSON, also for a declared variable."""
    call = f"{name}{blank}(x)"
    for text, place in (
        (f"min x + {call}", "line 1, column 9"),
        (f"min x\n 1 >= {call}", "line 2, column 7"),
        (f"variables x\nmin {call}", "line 2, column 5"),
        (f"variables x {name}\nmin {call}", "line 2, column 5"),
        (f"min {name} x", "line 1, column 5"),
    ):
        with pytest.raises(InputError, match=f"{place}: the function '{name}' is not read"):
            read_pop(text)
    for goal, constraint, place in ((call, "x >= 0", "column 1"), ("x", call + " <= 1", r"constraints\[0\], column 1")):
        with pytest.raises(InputError, match=rf"{place}.*: the function '{name}' is not read"):
            read_json(f'{{"variables": ["x", "{name}"], "minimize": "{goal}", "constraints": ["{constraint}"]}}')


def test_a_variable_with_the_name_of_a_function_is_declared_and_multiplied() -> None:
    read = read_pop("variables log x\nmin log*(x + 1) + log x\nlog, x in [0, 1]").problem
    assert read.objective == Polynomial.from_terms({(0,): 1.0, (0, 1): 2.0})
    assert read_pop("min x(y + 1) + x\ny >= 0").problem.objective.degree == 2


def test_json_keys_are_given_once() -> None:
    for text in ('{"variables": ["x"], "minimize": "x", "minimize": "-x"}', '{"bounds": {"x": [0, 1], "x": [2, 3]}}'):
        with pytest.raises(FileFormatError, match=r"the key '(minimize|x)' is given twice"):
            read_json(text)


def test_json_says_which_constraint(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"variables": ["x"], "minimize": "x", "constraints": ["x >= 0", "x <= q"]}')
    with pytest.raises(FileFormatError, match=r"p\.json: constraints\[1\], column 6: unknown variable 'q'"):
        load_problem(path)


GAMS = """$offlisting
*  a comment
$ontext
e1.. nothing of this
$offtext
Variables  x1,X2,x3
   ,objvar;
Positive Variables  x1;
Binary Variable x3;
Equations  e1,e2,e3;

e1..  - (sqr(x2 - 0.5) + power(x1, 3)*2 - x1**2)
   + objvar =E= 4;

e2..    x1 + x2*
    x3 =L= 2.5e1;
e3.. x1 =G= x2;

x1.up = 200; x2.lo = -3; x2.up = 4; x2.l = 1.5;
Model m / all /;
m.limrow=0; m.limcol=0;
$if NOT '%gams.u1%' == '' $include '%gams.u1%'
$if not set NLP $set NLP NLP
Solve m using %NLP% minimizing objvar;
"""


def test_gams(tmp_path: Path) -> None:
    path = tmp_path / "ex.gms"
    path.write_text(GAMS)
    read = load_problem(path)
    same = read_pop(
        "variables x1 X2 x3\nminimize (X2 - 0.5)^2 + 2x1^3 - x1^2 + 4\nx1 + X2 x3 <= 25\nx1 >= X2\nx3^2 = x3\n"
        "0 <= x1 <= 200\n-3 <= X2 <= 4\n0 <= x3 <= 1"
    ).problem
    assert read.problem.objective == same.objective
    assert set(read.problem.inequalities) == set(same.inequalities)
    assert read.problem.equalities == same.equalities
    assert read.problem.names == same.names
    assert read.start is not None
    assert read.start.tolist() == [0.0, 1.5, 0.0]
    assert read.notes == ("objvar was replaced by what e1 says it is",)


def test_gams_without_a_solve_statement_minimises_objvar() -> None:
    """As in the files of SparsePOP; and what follows a solve statement is not looked at."""
    whole, sep, _ = GAMS.partition("Solve")
    bare = read_gams(whole)
    assert sep
    assert bare.problem.polynomials == read_gams(GAMS + "Scalar s; s = m.objval;").problem.polynomials
    with pytest.raises(FileFormatError, match="no solve statement"):
        read_gams(whole.replace("objvar", "cost"))


@pytest.mark.parametrize(
    ("equation", "sense", "objective"),
    [
        ("objvar - x =E= 1", "minimizing", "1 + x"),
        ("x =L= 2*objvar", "minimizing", "0.5*x"),
        ("x =G= -objvar", "minimizing", "-x"),
        ("x =G= objvar", "maximizing", "x"),
        ("x =L= objvar", "maximizing", "objvar"),  # bounded from the wrong side: nothing may be replaced
        ("3*objvar - x =E= 1", "minimizing", "objvar"),  # a third is no float
        ("objvar*x =E= 1", "minimizing", "objvar"),
    ],
)
def test_the_variable_that_is_optimised(equation: str, sense: str, objective: str) -> None:
    text = f"Variables objvar, x;\nEquations e;\ne.. {equation};\nModel m /all/;\nSolve m using nlp {sense} objvar;"
    read = read_gams(text)
    assert show(read.problem.objective, read.problem.names) == objective
    bounded = read_gams(text.replace("Model", "objvar.lo = -7; objvar.up = 9;\nModel"))
    if objective == "1 + x":
        assert {show(g, ["x"]) for g in bounded.problem.inequalities} == {"8 + x", "8 - x"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sqr(x2", "exp(x2", r"line 12, column 10: 'exp' is not a polynomial"),
        ("power(x1, 3)", "power(x1, x2)", r"line 12, column 36: an exponent must be a whole number, not 'x2'"),
        ("=L=", "=N=", r"line 15: the equation 'e2' needs one of =E=, =L=, =G="),
        ("x2*\n    x3", "x2*\n    q3", r"line 16, column 5: unknown variable 'q3'"),
        ("x1 =G= x2", "x1 x2 =G= 2", r"line 17, column 9: expected an operator before 'x2'"),
        ("x2.lo", "x9.lo", r"line 19: unknown variable 'x9'"),
        ("x2.lo", "x2.type", r"line 19: the attribute '\.type' is not read"),
        ("= -3", "= three", r"line 19: x2\.lo: 'three' is no number"),
        ("Binary", "Integer", r"line 9: 'integer' variables are not read"),
        ("e1,e2,e3", "e1,e2,e3,e4", r"the equation 'e4' is declared and not there"),
        ("e1,e2,e3", "e1,e2", r"line 17: the equation 'e3' is not declared"),
        ("minimizing objvar", "minimizing it", r"optimises 'it', which is no variable"),
        ("Model m", "Set m", r"line 20: the statement 'Set m / all /' is not read"),
        ("$ontext", "$include x", r"line 3: the directive '\$include x' is not read"),
        ("x2.up = 4", "x2.up = -4", r"the bounds of 'X2' leave nothing"),
    ],
)
def test_gams_that_is_not_read(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GAMS
    path = tmp_path / "bad.gms"
    path.write_text(GAMS.replace(old, new))
    with pytest.raises(FileFormatError, match=message) as caught:
        load_problem(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_boxqp(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 5
    c, Q = rng.integers(-50, 50, n), rng.integers(-50, 50, (n, n))
    path = tmp_path / "spar.in"
    path.write_text(f"{n}\n{' '.join(map(str, c))} \n" + "\n".join(" ".join(map(str, row)) for row in Q) + "\n")
    problem = load_problem(path).problem
    x = rng.uniform(size=n)
    assert problem.sense == "max"
    assert problem.objective.evaluate(x)[0] == pytest.approx(0.5 * x @ Q @ x + c @ x, rel=1e-12)
    assert np.array_equal(problem.lower, np.zeros(n))  # type: ignore[arg-type]
    assert len(problem.inequalities) == n


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with the number"),
        ("x 1", "begins with the number"),
        ("2\n1 2\n3 4\n5", "need 2 linear and 4 quadratic coefficients; found 5"),
        ("1\n1 z", "'z' is no number"),
        ("1\n1 nan", "finite"),
        ("999999999", "more than the limit"),
        ("0", "begins with the number"),
    ],
)
def test_damaged_boxqp(text: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_boxqp(text)


BOXQP = "2\n1 2\n3 4\n4 -2\n"


@given(
    st.sampled_from([(read_gams, GAMS), (read_boxqp, BOXQP), (read_pop, BASE)]),
    st.integers(0, 10**6),
    st.integers(0, 12),
    st.text("()*^=<>.;,$x1e-/ \n{[in", max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_damage_is_read_or_refused_in_one_line(
    file: tuple[Callable[[str], ProblemFile], str], place: int, gone: int, new: str
) -> None:
    read, text = file
    at = place % len(text)
    said = ""
    try:
        found = read(text[:at] + new + text[at + gone :])
    except InputError as error:
        said = str(error)
    else:
        assert np.all(np.isfinite(found.problem.objective.coefficients))
    assert "\n" not in said


@pytest.mark.parametrize(
    ("module", "name", "limit", "text", "message"),
    [
        (
            "text",
            "MAX_CELLS",
            20,
            "min x^9 + y + z + w",
            "line 1, column 15: a sum of 2 terms up to degree 9 is beyond the limit of 20 numbers (terms times degree)",
        ),
        ("language", "MAX_WORDS", 9, "min x + y + z + w + u + v", "line 1, column 1: a statement of more than 9 words"),
        ("language", "MAX_TEXT", 9, "min x + y", None),
        ("language", "MAX_TEXT", 8, "min x + y", "9 characters are more than the limit of 8"),
        ("language", "MAX_VARIABLES", 1, "min a + b + c", "more variables than the limit of 1"),
        ("gams", "MAX_VARIABLES", 3, GAMS, "line 6: more than 3 variables"),
        ("files", "MAX_SIZE", 1, BOXQP, "2 variables are more than the limit of 1"),
    ],
)
def test_sizes_are_limited(
    module: str, name: str, limit: int, text: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"lipcert.polynomial.{module}.{name}", limit)
    read = {"gams": read_gams, "files": read_boxqp}.get(module, read_pop)
    if message is None:
        assert read(text).problem.n == 2
        return
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in str(caught.value)


def test_long_sums_are_read_in_steps_that_grow_with_their_length() -> None:
    """No polynomial is made for every term: a sum ten times as long takes about ten times the calls, and few each."""

    def counted(n: int) -> int:
        text = " + ".join(f"{k} x y" for k in range(1, n))
        return calls(lambda: parse(text, NAMES))[1]

    few, many = counted(200), counted(2000)
    assert many < 12 * few
    assert many < 200 * 2000
