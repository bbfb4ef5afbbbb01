"""The same small problem in every format: one polynomial problem comes of it, with bounds that hold at every point.

The oracle of this file evaluates terms in whole numbers on a grid and knows nothing of the polynomials of lipcert.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import maximize, minimize
from lipcert.cli.pop import pop_command
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.certificates.certificate import verify_polynomial
from lipcert.polynomial.content import ProblemFile
from lipcert.polynomial.files import load_problem, read_boxqp, read_json
from lipcert.polynomial.gams import read_gams
from lipcert.polynomial.hierarchy.bracket import solve_bracket
from lipcert.polynomial.hierarchy.result import PolynomialOutcome
from lipcert.polynomial.language import read_pop, show_problem
from lipcert.rounding import Array

Terms = tuple[tuple[int, tuple[int, ...]], ...]  # coefficient and exponents


@dataclass(frozen=True)
class Case:
    """min or max of the objective over terms (sign) 0 and whole bounds of the variables x1, x2, ..."""

    sense: str
    objective: Terms
    constraints: tuple[tuple[Terms, str], ...]
    box: tuple[tuple[int, int], ...]

    @property
    def n(self) -> int:
        return len(self.box)

    def feasible(self) -> list[tuple[int, ...]]:
        """The points of the grid of whole numbers that satisfy every constraint."""
        points = itertools.product(*(range(a, b + 1) for a, b in self.box))
        return [x for x in points if all(_holds(_value(terms, x), sign) for terms, sign in self.constraints)]


def _value(terms: Terms, x: tuple[int, ...]) -> int:
    return sum(c * prod(v**e for v, e in zip(x, powers, strict=True)) for c, powers in terms)


def _holds(value: int, sign: str) -> bool:
    return value == 0 if sign == "=" else value >= 0 if sign == ">=" else value <= 0


def _exponents(n: int, degree: int) -> list[tuple[int, ...]]:
    return [e for e in itertools.product(range(degree + 1), repeat=n) if sum(e) <= degree]


@st.composite
def cases(draw: st.DrawFn, most: int = 3, degree: int = 3) -> Case:
    n = draw(st.integers(1, most))
    terms = st.lists(st.tuples(st.integers(-4, 4), st.sampled_from(_exponents(n, degree))), min_size=1, max_size=5).map(
        tuple
    )
    box = tuple(
        (a, a + d) for a, d in draw(st.lists(st.tuples(st.integers(-2, 1), st.integers(0, 2)), min_size=n, max_size=n))
    )
    every = tuple((1, tuple(int(i == k) for k in range(n))) for i in range(n))  # so that all variables occur
    wide = ((100, (0,) * n), *every), ">="
    some = draw(st.lists(st.tuples(terms, st.sampled_from(["<=", ">=", "="])), max_size=3))
    return Case(draw(st.sampled_from(["min", "max"])), draw(terms), (wide, *some), box)


def _sum(terms: Terms, factor: Callable[[int, int], str], times: Callable[[], str]) -> str:
    """The terms with factors written by `factor`, products by `times`."""
    pieces: list[str] = []
    for c, powers in terms:
        names = [factor(i, e) for i, e in enumerate(powers) if e]
        sign = "-" if c < 0 else "+" if pieces else ""
        pieces.append(sign + " " + times().join([str(abs(c)), *names]))
    return " ".join(pieces)


def as_pop(case: Case, rng: Random) -> str:
    def text(terms: Terms) -> str:
        return _sum(
            terms,
            lambda i, e: f"x{i + 1}" + (f"{rng.choice(['^', '**'])}{e}" if e > 1 else ""),
            lambda: rng.choice([" ", "*"]),
        )

    lines = [f"variables {' '.join(f'x{i + 1}' for i in range(case.n))}", f"{case.sense}imize {text(case.objective)}"]
    lines += [f"{text(terms)} {sign} 0" for terms, sign in case.constraints]
    for i, (a, b) in enumerate(case.box):
        lines += rng.choice(
            [[f"{a} <= x{i + 1} <= {b}"], [f"x{i + 1} in [{a}, {b}]"], [f"x{i + 1} >= {a}", f"x{i + 1} <= {b}"]]
        )
    return "\n".join(lines)


def as_json(case: Case, rng: Random) -> str:
    def text(terms: Terms) -> str:
        return _sum(terms, lambda i, e: f"x{i + 1}^{e}", lambda: "*")

    data = {
        "variables": [f"x{i + 1}" for i in range(case.n)],
        f"{case.sense}imize": text(case.objective),
        "constraints": [f"{text(terms)} {sign} 0" for terms, sign in case.constraints],
        "bounds": {f"x{i + 1}": pair for i, pair in enumerate(case.box)},
    }
    return json.dumps(dict(rng.sample(list(data.items()), len(data))))


def as_gams(case: Case, rng: Random) -> str:
    def factor(i: int, e: int) -> str:
        name = rng.choice("xX") + str(i + 1)
        forms = [f"{name}**{e}", f"power({name}, {e})", "*".join([name] * e)]
        return rng.choice([*forms, f"SQR({name})"] if e == 2 else forms)

    names = [f"x{i + 1}" for i in range(case.n)]
    equations = [f"e{k + 1}" for k in range(len(case.constraints))]
    lines = [f"Variables {', '.join(names)}, z 'the goal';", f"Equations goal, {', '.join(equations)}, unused;"]
    kinds = [rng.choice(["", "Positive", "Negative", "Free"]) for _ in names]
    lines += [f"{kind} Variable {name};" for kind, name in zip(kinds, names, strict=True) if kind]
    goal = _sum(case.objective, factor, lambda: "*")
    lines.append(rng.choice([f"goal.. z =E= {goal};", f"goal.. {goal} - z =E= 0;", f"goal..\n 2*z =e= 2*({goal});"]))
    lines.append("unused.. x1 =G= 50;")
    for name, (terms, sign) in zip(equations, case.constraints, strict=True):
        letter = {"=": "E", "<=": "L", ">=": "G"}[sign]
        lines.append(f"{name}.. {_sum(terms, factor, lambda: '*')} ={letter}= 0;")
    for name, (a, b) in zip(names, case.box, strict=True):
        lines += rng.choice([[], [f"{name}.fx = 7;"], [f"{name}.up = -9;", f"{name}.lo = 9;"]])
        lines += rng.sample([f"{name}.lo = {a};", f"{name}.up = {b};"], 2)
    lines.append(f"Model m / goal, {', '.join(equations)} /;")
    lines.append(f"Solve m using NLP {case.sense}imizing z;")
    return "\n".join(lines)


WRITERS: dict[str, tuple[Callable[[Case, Random], str], Callable[[str], ProblemFile]]] = {
    "pop": (as_pop, read_pop),
    "json": (as_json, read_json),
    "gams": (as_gams, read_gams),
}


def _says(problem: PolynomialProblem, x: Array) -> tuple[list[bool], list[float]]:
    """Feasibility and value at every point, by the constraints and the bounds of the problem that was read."""
    held = np.all((x >= np.asarray(problem.lower)) & (x <= np.asarray(problem.upper)), axis=1)
    for g in problem.inequalities:
        held &= g.evaluate(x) >= 0
    for h in problem.equalities:
        held &= h.evaluate(x) == 0
    return held.tolist(), problem.objective.evaluate(x).tolist()


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_format_says_the_same(case: Case, seed: int) -> None:
    rng = Random(seed)
    wider = [range(a - 1, b + 2) for a, b in case.box]
    points = list(itertools.product(*wider))
    inside = set(case.feasible())
    expected = [p in inside for p in points], [float(_value(case.objective, p)) for p in points]
    found = {name: read(write(case, rng)).problem for name, (write, read) in WRITERS.items()}
    for name, problem in found.items():
        assert problem.sense == case.sense
        assert problem.names == tuple(f"x{i + 1}" for i in range(case.n))
        assert _says(problem, np.array(points, dtype=float)) == expected, name
    kept = found["pop"]
    assert read_pop(show_problem(kept)).problem.objective == kept.objective
    assert _says(read_pop(show_problem(kept)).problem, np.array(points, dtype=float)) == expected


@given(cases(most=2, degree=2), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_bounds_hold_at_every_feasible_point(case: Case, seed: int) -> None:
    values = [_value(case.objective, x) for x in case.feasible()]
    best = (min if case.sense == "min" else max)(values, default=None)
    for write, read in WRITERS.values():
        result = solve_bracket(read(write(case, Random(seed))).problem)
        if best is not None:
            assert result.outcome is not PolynomialOutcome.INFEASIBLE
            assert result.bound <= best if case.sense == "min" else result.bound >= best
        if result.proved and result.value is not None:
            assert result.bound <= result.value if case.sense == "min" else result.bound >= result.value


def _box_maximum(c: Array, Q: Array) -> float:
    """max 1/2 x'Qx + c'x over the unit box, by stationary points: each variable is at 0, at 1 or free."""
    best = -inf
    S = (Q + Q.T) / 2
    for face in itertools.product((0.0, 1.0, None), repeat=len(c)):
        free = [i for i, v in enumerate(face) if v is None]
        x = np.array([0.0 if v is None else v for v in face])
        if free:
            x[free] = np.linalg.lstsq(S[np.ix_(free, free)], -(c + S @ x)[free], rcond=None)[0]
        if np.all((x >= 0) & (x <= 1)):
            best = max(best, float(0.5 * x @ S @ x + c @ x))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_box_problems_have_the_optimum_of_their_faces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2 + seed % 3
    c, Q = rng.integers(-20, 20, n), rng.integers(-20, 20, (n, n))
    rows = "\n".join(" ".join(map(str, row)) for row in Q.tolist())
    result = solve_bracket(read_boxqp(f"{n}\n{' '.join(map(str, c.tolist()))}\n{rows}\n").problem)
    assert result.outcome is PolynomialOutcome.CLOSED
    assert result.bound == pytest.approx(_box_maximum(c.astype(float), Q.astype(float)), abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_json_problems_have_the_optimum_of_their_values(seed: int, tmp_path: Path) -> None:
    """Quadratics of variables that are 0 or 1, with a knapsack; the optimum is the best of all 2^n points."""
    rng = np.random.default_rng(seed)
    n = 3
    c, Q, w = rng.integers(-9, 9, n), rng.integers(-9, 9, (n, n)), rng.integers(1, 6, n)
    word = ("minimize", "maximize")[seed % 2]
    goal = " + ".join(
        [*(f"({c[i]})*x{i}" for i in range(n)), *(f"({Q[i, j]}) x{i} x{j}" for i in range(n) for j in range(n))]
    )
    limit = int(w.sum()) - 2
    data = {
        "variables": [f"x{i}" for i in range(n)],
        word: goal,
        "constraints": [
            *(f"x{i}^2 = x{i}" for i in range(n)),
            " + ".join(f"{w[i]} x{i}" for i in range(n)) + f" <= {limit}",
        ],
        "bounds": {f"x{i}": [0, 1] for i in range(n)},
    }
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    points = [np.array(p) for p in itertools.product((0, 1), repeat=n)]
    values = [int(p @ Q @ p + c @ p) for p in points if w @ p <= limit]
    result = solve_bracket(load_problem(path).problem)
    assert result.outcome is PolynomialOutcome.CLOSED
    assert result.value == (min(values) if word == "minimize" else max(values))


HOLD = {"pop": "1 <= 2", "json": '"0 = 0"', "gams": "x - x =L= 1"}
FAIL = {"pop": "x - x >= 3", "json": '"2 = 0"', "gams": "1 =L= 0"}
TEXTS = {
    "pop": "variables x\nminimize x\n-1 <= x <= 1\n{}\n",
    "json": '{{"variables": ["x"], "minimize": "x", "bounds": {{"x": [-1, 1]}}, "constraints": [{}]}}',
    "gams": "Variables x, z; Equations e, f; e.. z =E= x; f.. {}; x.lo = -1; x.up = 1; Model m / all /;"
    "Solve m using NLP minimizing z;",
}


@pytest.mark.parametrize("ending", TEXTS)
def test_constraints_without_variables_in_files(ending: str, tmp_path: Path) -> None:
    """They are left out where they hold, with a note, and else nothing is feasible."""
    path = tmp_path / f"p.{'gms' if ending == 'gams' else ending}"
    path.write_text(TEXTS[ending].format(HOLD[ending]))
    read = load_problem(path)
    assert read.notes[-1] == "1 constraint without a variable, true at every point, left out"
    assert solve_bracket(read.problem).outcome is PolynomialOutcome.CLOSED
    path.write_text(TEXTS[ending].format(FAIL[ending]))
    answer = CliRunner().invoke(pop_command, [str(path)], standalone_mode=False)
    assert "The feasible set is empty: proved" in answer.output
    assert "a constraint without variables says" in answer.output
    assert answer.return_value == 0


@pytest.mark.parametrize("relaxation", ["dense", "sparse", "nearly-sparse", "krivine"])
@pytest.mark.parametrize("solve", [minimize, maximize])
def test_constraints_without_variables_in_python(relaxation: str, solve: Callable[..., object]) -> None:
    x, constant = Polynomial.variable(0), Polynomial.constant
    run = minimize if solve is minimize else maximize
    for value in (0.0, 1e-300, 2.0):
        result = run(x, [1 - x**2, constant(value)], [constant(0.0)], relaxation=relaxation)
        assert result.outcome is PolynomialOutcome.CLOSED
        assert result.value == (-1.0 if run is minimize else 1.0)
        assert result.certificate is not None
        problem = PolynomialProblem(x, (1 - x**2, constant(value)), (constant(0.0),), result.sense).boxed()
        assert verify_polynomial(result.certificate, problem).proved
    for wrong in ({"inequalities": [1 - x**2, constant(-1e-300)]}, {"equalities": [constant(1e-300), x - 1]}):
        result = run(x, **wrong, relaxation=relaxation)  # type: ignore[arg-type]
        assert result.outcome is PolynomialOutcome.INFEASIBLE
        assert result.bound == (inf if run is minimize else -inf)


def test_problems_of_constants_alone() -> None:
    assert minimize(Polynomial.constant(3.0), [Polynomial.constant(1.0)]).bound == pytest.approx(3.0)
    assert minimize(Polynomial.constant(3.0), [Polynomial.constant(-1.0)]).outcome is PolynomialOutcome.INFEASIBLE
    assert Fraction(minimize(Polynomial.constant(3.0)).bound) <= 3


def test_bad_constraints_without_variables() -> None:
    read = read_pop("min x y\nx y in [0, 1]\nbad 1 >= 0\nbad x + y >= 1")
    assert read.bad is not None
    assert len(read.bad) == 1
    x, constant = Polynomial.variable(0), Polynomial.constant(1.0)
    result = minimize(x, [1 - x**2, constant], relaxation="nearly-sparse", bad=[constant])
    assert result.outcome is PolynomialOutcome.CLOSED
