"""GAMS models: their optima by the semantics of GAMS, and the files that are refused because they could be misread."""

from __future__ import annotations

import itertools
import re
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lipcert.errors import FileFormatError, InputError
from lipcert.polynomial.files import load_problem
from lipcert.polynomial.gams import read_gams
from lipcert.polynomial.hierarchy.bracket import solve_bracket
from lipcert.polynomial.hierarchy.result import PolynomialOutcome

EMPTY = "empty"

# Each model with its optimum, and one line on how GAMS comes to it.
MODELS: dict[str, tuple[str, float | str]] = {
    # min max(x - 3, 0) over [0, 1]: the bound of z is not one of x - 3.
    "the lower bound of an objective variable above an expression": (
        "Variables z, x; Positive Variable z; Equation e; e.. z =G= x - 3; x.lo = 0; x.up = 1;"
        "Model m / all /; Solve m using NLP minimizing z;",
        0.0,
    ),
    # max min(x + 5, 2) over [0, 1], by the upper bound of z.
    "the upper bound of an objective variable below an expression": (
        "Variables z, x; Equation e; e.. z =L= x + 5; x.lo = 0; x.up = 1; z.up = 2;"
        "Model m / all /; Solve m using NLP maximizing z;",
        2.0,
    ),
    # z >= x + 1 and z <= 2 allow x <= 1 only, and x^2 >= 9/4 does not.
    "an objective bound that cuts off every point": (
        "Variables z, x; Equations e, f; e.. z =G= x + 1; f.. sqr(x) =G= 2.25; x.lo = 0; x.up = 4; z.up = 2;"
        "Model m / all /; Solve m using NLP minimizing z;",
        EMPTY,
    ),
    # z = x^2 - 2 and z >= -1 leave |x| >= 1, where the least z is -1.
    "a bound of an objective variable that is defined by an equality": (
        "Variables z, x; Equation e; e.. z =E= x*x - 2; z.lo = -1; x.lo = -3; x.up = 3;"
        "Model m / all /; Solve m using NLP minimizing z;",
        -1.0,
    ),
    # z = x + 1 with x in [0, 1] never reaches 3.
    "an objective bound that leaves nothing": (
        "Variables z, x; Equation e; e.. z =E= x + 1; z.lo = 3; x.lo = 0; x.up = 1;"
        "Model m / all /; Solve m using NLP minimizing z;",
        EMPTY,
    ),
    # The equation cap is not in the model: x may reach 2.
    "a model with some of the equations": (
        "Variables z, x; Equations obj, cap; obj.. z =E= x; cap.. x =L= 1; x.lo = 0; x.up = 2;"
        "Model m / obj /; Solve m using NLP maximizing z;",
        2.0,
    ),
    # Model b has the equations of a and cap; model a is not solved.
    "a model that contains another one": (
        "Variables z, x; Equations obj, cap, never; obj.. z =E= x; cap.. x =L= 1; never.. x =G= 7; x.lo = 0; x.up = 2;"
        "Models a 'without cap' / obj /, b / a, cap /; Solve b maximizing z using nlp;",
        1.0,
    ),
    # After .fx = 3 the later .lo and .up count: x in [-1, 2].
    "bounds that are assigned after a variable was fixed": (
        "Variables z, x; Equation e; e.. z =E= x; x.fx = 3; x.lo = -1; x.up = 2;"
        "Model m / all /; Solve m using NLP minimizing z;",
        -1.0,
    ),
    # x is fixed last.
    "a variable that is fixed after its bounds": (
        "Variables z, x; Equation e; e.. z =E= sqr(x - 1); x.lo = -1; x.up = 2; x.lo = 0; X.FX = 4;"
        "Model m / all /; Solve m using NLP minimizing z;",
        9.0,
    ),
    # The bound replaces the zero of the kind.
    "a positive variable whose lower bound is assigned": (
        "Positive Variable x; Variable z; Equation e; e.. z =E= x; x.lo = -5; x.up = 5;"
        "Model m / all /; Solve m using NLP minimizing z;",
        -5.0,
    ),
    "a negative variable": (
        "Variables z, x; Negative Variables x; Equation e; e.. z =E= -x**2 - 2*x;"
        "Model m / all /; Solve m using NLP maximizing z;",
        1.0,
    ),
    # (b - 1/2)^2 is 1/4 at both values of b, and 0 in the relaxation.
    "a binary variable": (
        "Variables z; Binary Variable b; Equation e; e.. z =E= sqr(b - 0.5);"
        "Model m / all /; Solve m using MINLP minimizing z;",
        0.25,
    ),
    "a binary variable in a relaxed model": (
        "Variables z; Binary Variable b; Equation e; e.. z =E= sqr(b - 0.5);"
        "Model m / all /; Solve m using RMINLP minimizing z;",
        0.0,
    ),
    # z is 0 or 1 and equals 2 x with x in [1/4, 1]: it is 1.
    "a binary objective variable": (
        "Binary Variable z; Variable x; Equation e; e.. z =E= 2*x; x.lo = 0.25; x.up = 1;"
        "Model m / all /; Solve m using MINLP minimizing z;",
        1.0,
    ),
    # -x**2 is -(x**2), and a/b*c is (a/b)*c: -4 + 6 with x = 2 and y = 3 fixed.
    "precedence": (
        "Variables z, x, y; Equation e; e.. z =E= -x**2 + 8/4*y; x.fx = 2; y.fx = 3;"
        "Model m / all /; Solve m using NLP minimizing z;",
        2.0,
    ),
    "forms of numbers": (
        "Variables z, x; Equation e; e.. z =E= 1.D2*x + .5 - 5d-1*x + 1e-1 + 2.E0; x.lo = 1.D0; x.up = +1.5d+1;"
        "Model m / all /; Solve m using NLP minimizing z;",
        102.1,
    ),
    # 3 z + x^2 = 1: a third is no float, so z stays a variable.
    "a coefficient of the objective variable other than one": (
        "Variables z, x; Equation e; e.. 3*z + sqr(x) =E= 1; x.lo = -2; x.up = 1; z.lo = -9; z.up = 9;"
        "Model m / all /; Solve m using NLP minimizing z;",
        -1.0,
    ),
    # z = x and z <= 1 - x in two equations: x <= 1/2.
    "an objective variable in two equations": (
        "Variables z, x; Equations e, f; e.. z =E= x; f.. z =L= 1 - x; x.lo = 0; x.up = 1; z.lo = -9; z.up = 9;"
        "Model m / all /; Solve m using NLP maximizing z;",
        0.5,
    ),
    # z^2 = x with x in [1, 4] and z in [-3, 3].
    "an objective variable that is not linear": (
        "Variables z, x; Equation e; e.. sqr(z) =E= x; x.lo = 1; x.up = 4; z.lo = -3; z.up = 3;"
        "Model m / all /; Solve m using NLP minimizing z;",
        -2.0,
    ),
    # y has bounds that contradict, and is in no equation of the model: GAMS does not generate it.
    "a variable outside the model": (
        "Variables z, x, y; Equations e, f; e.. z =E= x; f.. y =G= x; y.lo = 3; y.up = 2; x.lo = 0; x.up = 1;"
        "Model m / e /; Solve m using NLP minimizing z;",
        0.0,
    ),
    "an equation without variables that holds": (
        "Variables z, x; Equations e, f; e.. z =E= x; f.. 2*x - 2*x =L= 3; x.lo = 0; x.up = 1;"
        "Model m / all /; Solve m using NLP minimizing z;",
        0.0,
    ),
    "an equation without variables that does not hold": (
        "Variables z, x; Equations e, f; e.. z =E= x; f.. x - x =E= 3; x.lo = 0; x.up = 1;"
        "Model m / all /; Solve m using NLP minimizing z;",
        EMPTY,
    ),
    # Only the first column makes a comment of *; everything else is as it looks.
    "comments, texts and case": (
        "$ONTEXT\nx.up = 9;\n$OFFTEXT\n* x.up = 8;\n$eolcom //\nVARIABLES z 'the goal, positive' // x2\n"
        '  X the first one\n  y "second";\nEQUATIONS Def its definition;\n'
        "def.. Z =e= x // + 100\n  *Y;\nx.LO = 1; X.up = 2; y.lo = 3; Y.Up = 4;\noption nlp = solver;\n"
        "MODEL M text here / ALL /;\nm.optfile = 1;\nSOLVE m USING nlp MAXIMISING z;\ndisplay z.l;",
        8.0,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_optima_of_small_models(name: str) -> None:
    text, optimum = MODELS[name]
    result = solve_bracket(read_gams(text).problem)
    if optimum == EMPTY:
        assert result.outcome is PolynomialOutcome.INFEASIBLE
        return
    assert isinstance(optimum, float)
    assert result.outcome is PolynomialOutcome.CLOSED
    assert result.value == pytest.approx(optimum, abs=1e-5)
    sign = 1.0 if result.sense == "min" else -1.0
    assert sign * result.bound <= sign * optimum + 1e-12
    assert result.bound == pytest.approx(optimum, abs=1e-5)


@st.composite
def goals(draw: st.DrawFn) -> tuple[str, str, list[float]]:
    """A model of two binary variables, its sense, and the best value of z at each feasible point, by enumeration."""
    kind = draw(st.sampled_from(["Free", "Positive", "Negative"]))
    lower, upper = {"Free": (-inf, inf), "Positive": (0.0, inf), "Negative": (-inf, 0.0)}[kind]
    assigned = draw(st.lists(st.tuples(st.sampled_from(["lo", "up", "fx"]), st.integers(-3, 3)), max_size=3))
    for attribute, value in assigned:
        lower = value if attribute in ("lo", "fx") else lower
        upper = value if attribute in ("up", "fx") else upper
    assume(lower <= upper)
    lead, sign = draw(st.sampled_from([1, -1, 2, -2, 3, -3])), draw(st.sampled_from("EGL"))
    c, a, b, d = draw(st.tuples(*[st.integers(-3, 3)] * 4))
    goal = f"{c} + ({a})*x + ({b})*y + ({d})*x*y"
    sense = draw(st.sampled_from(["min", "max"]))
    best: list[float] = []
    for x, y in itertools.product((0, 1), repeat=2):
        image = (c + a * x + b * y + d * x * y) / lead
        above, below = sign == "E" or (sign == "G") == (lead > 0), sign == "E" or (sign == "L") == (lead > 0)
        low, high = max(lower, image) if above else lower, min(upper, image) if below else upper
        best += [low if sense == "min" else high] if low <= high else []
    bounds = " ".join(f"z.{attribute} = {value};" for attribute, value in assigned)
    text = (
        f"{kind} Variable z; Binary Variables x, y; Equation e; e.. {lead}*z ={sign}= {goal}; {bounds}"
        f"Model m / all /; Solve m using MINLP {sense}imizing z;"
    )
    return text, sense, best


@given(goals())
@settings(max_examples=30, deadline=None)
def test_objective_variables_take_their_bounds_and_their_equation(
    case: tuple[str, str, list[float]],
) -> None:
    text, sense, best = case
    result = solve_bracket(read_gams(text).problem)
    if not best:
        assert result.outcome is PolynomialOutcome.INFEASIBLE
        return
    assert result.outcome is not PolynomialOutcome.INFEASIBLE
    optimum = min(best) if sense == "min" else max(best)
    assert result.bound <= optimum + 1e-12 if sense == "min" else result.bound >= optimum - 1e-12
    if abs(optimum) < inf:
        assert result.value == pytest.approx(optimum, abs=1e-5)


BASE = """Variables z, x, y;
Equations e, f;
e.. z =E= x + y;
f.. x =L= y;
x.lo = 0; x.up = 1; y.lo = 0; y.up = 1;
Model m / all /;
Solve m using NLP minimizing z;
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x + y;", "cos(x) + y;", r"line 3, column 11: 'cos' is not a polynomial"),
        ("x + y;", "SQRT(x) + y;", r"line 3, column 11: 'SQRT' is not a polynomial"),
        ("x + y;", "x(1) + y;", r"line 3, column 11: 'x' is not a polynomial"),
        ("x + y;", "x**y;", r"line 3, column 14: an exponent must be a whole number"),
        ("x + y;", "x/y;", r"line 3, column 12: division is only by numbers"),
        ("=L=", "=X=", r"line 4: the equation 'f' needs one of =E=, =L=, =G="),
        ("=L=", "=N=", r"line 4: the equation 'f' needs one of =E=, =L=, =G="),
        ("f.. x", "e.. x", r"line 4: the equation 'e' is defined twice"),
        ("Equations e, f", "Equations e, f, x", r"line 2: the name 'x' is declared twice"),
        ("Variables z, x, y;", "Variables z, x, y;Integer Variable x;", r"line 1: 'integer' variables are not read"),
        ("Variables z, x, y;", "Variables z, x, y\nPositive Variables x;", r"line 1: a semicolon is missing before"),
        ("Variables z, x, y;", "Variables z x y;", r"line 3, column 11: unknown variable 'x'"),
        (
            "Variables z, x, y;",
            "Variables z, x 'one' y 'two';",
            r"line 1: a comma is missing between the quoted text of 'x'",
        ),
        ("Variables z, x, y;", "Variables z, x(i), y;", r"line 1: 'x\(i\)' is no name; scalar models are read"),
        ("Variables z, x, y;", "Set i / 1*3 /;", r"line 1: the statement 'Set i / 1\*3 /' is not read; scalar models"),
        ("Variables z, x, y;", "Scalar a / 3 /;", r"line 1: the statement 'Scalar a / 3 /' is not read"),
        ("Variables z, x, y;", "Variables z, x, y 'a;b';", r"line 1: a quotation mark without its partner"),
        ("x.lo = 0", "x.lo = 1; Positive Variable x", r"line 5: 'x' is declared again after its bounds were assigned"),
        ("x.lo = 0", "x.lo = 2*3", r"line 5: x\.lo: '2\*3' is no number"),
        ("x.lo = 0", "x.lo = +inf", r"line 5: x\.lo: '\+inf' is not a number that can stand here"),
        ("x.lo = 0", "x.fx = -inf", r"line 5: x\.fx: '-inf' is not a number that can stand here"),
        ("x.up = 1", "x.up = 1e400", r"line 5: x\.up: '1e400' is not a number that can stand here"),
        ("x.lo = 0", "f.lo = 0", r"line 5: f\.lo: bounds are read for variables only"),
        ("x.lo = 0", "other.optcr = 0", r"line 5: unknown variable 'other'"),
        ("x.lo = 0", "option clear = x", r"line 5: the statement 'option clear = x' is not read"),
        ("x.up = 1", "x.up = -1", r"the bounds of 'x' leave nothing: 0.0 > -1.0"),
        ("/ all /", "/ all - f /", r"line 6: '-' in the model 'm' is no equation"),
        ("/ all /", "/ e, g /", r"line 6: 'g' in the model 'm' is no equation"),
        ("/ all /", "", r"line 6: a model statement is read as"),
        ("/ all /;", "/ all /;Equation g; g.. x =G= 0;", r"line 6: an equation is declared after the model 'm'"),
        ("/ all /", "/ f /", r"the variable 'z' is optimised, and no equation contains it"),
        ("Solve m", "Solve k", r"line 7: the solve statement names 'k', which is no model before it"),
        ("using NLP", "using MCP", r"line 7: models of type 'mcp' are not read"),
        ("minimizing z;", "minimizing z; Solve m using NLP maximizing z;", r"line 7: a second solve statement"),
        ("Equations e, f;", "Equations e, f;Binary Variable y;", r"line 7: a model with binary variables \('y'\)"),
        (
            "Variables z",
            "$if set a x.up = 7;\nVariables z",
            r"line 1: the directive '\$if set a x\.up = 7;' is not read",
        ),
        ("Variables z", "$offlisting ontext\nVariables z", r"line 1: the directive '\$offlisting ontext' is not read"),
        ("Variables z", "$ontext\nVariables z", r"line 1: \$ontext has no \$offtext"),
    ],
)
def test_models_that_could_be_misread_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in BASE
    path = tmp_path / "m.gms"
    path.write_text(BASE.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=message) as caught:
        load_problem(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_binary_variables_have_the_bounds_zero_and_one() -> None:
    binary = BASE.replace("Equations", "Binary Variable y; Equations").replace("NLP", "MINLP")
    assert read_gams(binary).problem.equalities
    fixed = read_gams(binary.replace("y.lo = 0", "y.fx = 1")).problem
    assert np.array_equal(fixed.lower, [0, 1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"line 5: y\.up = 2: a binary variable has the bounds 0 and 1"):
        read_gams(binary.replace("y.up = 1", "y.up = 2"))


def test_equations_outside_the_model_are_named_and_need_no_definition() -> None:
    text = BASE.replace("Equations e, f;", "Equations e, f, g;").replace("/ all /", "/ e /")
    assert "equations outside the model m were left out: f" in read_gams(text).notes
    with pytest.raises(FileFormatError, match="the equation 'g' is declared and not there"):
        read_gams(BASE.replace("Equations e, f;", "Equations e, f, g;"))


def test_the_lines_of_published_files_are_skipped() -> None:
    lines = "$offdigit\n$title a model\n$if NOT '%gams.u1%' == '' $include '%gams.u1%'\n$if not set NLP $set NLP NLP\n"
    plain = read_gams(BASE).problem
    text = re.sub("NLP minimizing", "%NLP% minimizing", lines + BASE)
    assert read_gams(text).problem.polynomials == plain.polynomials
    around = BASE.replace("Solve m using NLP minimizing z", "options limrow = 0, optcr = 0.0; Solve m min z using NLP")
    assert read_gams(around + "display 'after the solve', z.l;").problem.polynomials == plain.polynomials
