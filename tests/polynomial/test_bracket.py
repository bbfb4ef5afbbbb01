"""Brackets of polynomial problems: how they close, what is said when they do not, and what no solver can make true."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lipcert import Polynomial, PolynomialProblem, maximize, minimize
from lipcert.cli.app import run
from lipcert.cli.pop import pop_command
from lipcert.errors import InputError, SoundnessError
from lipcert.polynomial.hierarchy import bracket as bracketing
from lipcert.polynomial.hierarchy.bracket import solve_bracket
from lipcert.polynomial.hierarchy.plan import forecast
from lipcert.polynomial.hierarchy.result import PolynomialOutcome
from lipcert.polynomial.hierarchy.solve import PolynomialOptions, PolynomialProgress, relax, solve_model
from lipcert.polynomial.language import read_pop
from lipcert.polynomial.points.search import FoundPoint
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, solve_conic

SIMPLEX = "max x^2 + 3x y - 2 y z + w^2 - 5 z w\nx + y + z + w = 1\nx, y, z, w >= 0"  # 9/8 at (3/4, 1/4, 0, 0)
DISK = "min x y\nx^2 + y^2 <= 1"
EMPTY = [
    "min x\nx >= 2\nx <= 1",  # bounds that contradict
    "max x\nx^2 + y^2 <= 1\nx + y >= 3",
    "min x\nx^2 + y^2 <= 1\nx y >= 2",  # an identity of order one
    "max x y\nx^2 + y^2 + 1 <= 0",
    "min x\nx y = 1\nx + y = 0",  # of order two
]


def problem_of(text: str) -> PolynomialProblem:
    return read_pop(text).problem


def test_a_gap_is_closed_by_the_next_order() -> None:
    result = solve_bracket(problem_of(SIMPLEX))
    assert result.outcome is PolynomialOutcome.CLOSED
    assert [s.order for s in result.steps] == [1, 2]
    assert result.steps[0].bound > 1.2
    assert result.steps[1].blocks[0] == 15
    assert 1.125 <= result.bound <= 1.125 + 1e-5
    assert result.value == pytest.approx(1.125, abs=1e-6)
    assert result.proved
    assert result.minimizer == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-3)


def test_a_gap_that_stays_names_the_next_order_and_its_cost() -> None:
    result = solve_bracket(problem_of(SIMPLEX), PolynomialOptions(order=1))
    assert result.outcome is PolynomialOutcome.GAP
    assert result.order == 1
    assert len(result.steps) == 1
    assert "--order 2 (5 matrices of order up to 15, about 1 s)" in result.advice[0]
    assert "leaves a gap" in repr(result)
    wide = solve_bracket(problem_of(SIMPLEX), PolynomialOptions(order=1, gap=10.0))
    assert wide.outcome is PolynomialOutcome.CLOSED
    assert wide.advice == ()


@pytest.mark.parametrize(("relaxation", "text"), [("dense", SIMPLEX), ("sparse", "min x y + y z\nx, y, z in [-1, 1]")])
def test_forecasts_are_the_sizes_of_the_next_model(relaxation: str, text: str) -> None:
    problem = problem_of(text + "\nu in {0, 1}\nu x <= 1")
    sizes = Counter(len(b.basis) for b in relax(problem, relaxation, 2).blocks if len(b.basis) > 1)
    assert dict(forecast(problem, PolynomialOptions(relaxation, 2)).stage.blocks) == sizes


@pytest.mark.parametrize("text", EMPTY)
def test_nothing_is_feasible_and_that_is_said_first(text: str, tmp_path: Path) -> None:
    result = solve_bracket(problem_of(text))
    assert result.outcome is PolynomialOutcome.INFEASIBLE
    assert result.certified
    assert result.bound == (inf if text.startswith("min") else -inf)
    assert result.value is None
    assert repr(result).startswith("The feasible set is empty: proved")
    assert "bound " not in repr(result).split("outcome")[0]
    path = tmp_path / "empty.pop"
    path.write_text(text)
    told = CliRunner().invoke(pop_command, [str(path), "--json"], standalone_mode=False)
    assert told.return_value == 0
    answer = json.loads(told.stdout)
    assert answer["outcome"] == "infeasible"
    assert answer["bound"] is None
    assert answer["infeasible"]


def test_a_lying_solver_proves_no_feasible_set_empty() -> None:
    """Whatever duals it gives for the minimum of zero, the bound stays at or below zero."""
    model = replace(relax(problem_of(DISK), "dense", 2), objective=Polynomial.constant(0.0))
    rng = np.random.default_rng(0)
    bounds = []
    for scale in (1e-3, 1.0, 1e6):

        def lie(conic: ConicProblem, scale: float = scale) -> ConicSolution:
            true = solve_conic(conic)
            return replace(true, z=true.z + scale * rng.normal(size=len(true.z)))

        bounds.append(solve_model(model, solve=lie).bound)
    assert max(bounds) <= 0


@pytest.mark.parametrize("seed", range(6))
def test_brackets_of_random_problems_hold_on_a_grid(seed: int) -> None:
    """bound <= every feasible grid value, bound <= value (a proved one that did not obey would raise), and not far."""
    rng = np.random.default_rng(seed)
    x = [Polynomial.variable(i) for i in range(2)]
    monomials = [(0,), (1,), (0, 0), (0, 1), (1, 1), (0, 0, 1), (0, 1, 1, 1)]
    f = Polynomial.from_terms({m: float(rng.normal()) for m in monomials})
    g = [float(rng.normal()) * x[0] * x[1] + float(rng.normal()) * x[0] + 0.5, 1.2 - x[0] ** 2 - x[1] ** 2]
    sense = (minimize, maximize)[seed % 2]
    result = sense(f, g, lower=[-1, -1], upper=[1, 1], seed=seed)
    side = np.linspace(-1, 1, 101)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    values = f.evaluate(grid[np.all([p.evaluate(grid) >= 0 for p in g], axis=0)])
    sign = 1 if seed % 2 == 0 else -1
    assert result.value is not None
    assert result.proved
    assert sign * result.bound <= sign * result.value <= (sign * values).min() + 1e-12
    assert result.outcome is PolynomialOutcome.CLOSED


def test_the_next_order_is_out_of_reach() -> None:
    names = " ".join(f"x{i}" for i in range(101))
    text = f"variables {names}\nmax x0 x1 - x2 x3\n{names} in [0, 1]"
    result = solve_bracket(problem_of(text), PolynomialOptions(order=1, search=False, time_limit=1e-9))
    assert "order 2 is out of reach (at most 102 matrices of order up to 5253" in " ".join(result.advice)


def test_a_search_that_finds_nothing_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the objective, a feasible set is not called empty because nobody found a point of it."""
    monkeypatch.setattr(bracketing, "search", lambda *_, **__: None)
    monkeypatch.setattr(bracketing, "judge", lambda *_: None)
    for text in (DISK, "max x\nx^2 + y^2 <= 0", "min x\nx + y = 1\nx, y in [0, 1]"):
        result = solve_bracket(problem_of(text))
        assert not result.empty
        assert result.outcome in (PolynomialOutcome.BOUND, PolynomialOutcome.CLOSED)


def test_a_relaxation_without_solution_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bracketing._Bracket, "prove_empty", lambda *_: None)
    result = solve_bracket(problem_of(EMPTY[2]))
    assert result.outcome is PolynomialOutcome.SEEMS_INFEASIBLE
    assert "not proved" in repr(result)
    assert not result.empty


def test_a_proved_point_below_the_bound_is_a_bug_that_is_raised() -> None:
    result = solve_bracket(problem_of(DISK))
    point = np.zeros(2)
    with pytest.raises(SoundnessError, match="please report"):
        replace(result, found=FoundPoint(point, -0.6, 0.0, True))
    with pytest.raises(SoundnessError, match="empty"):
        replace(result, empty="a wrong identity")
    unproved = replace(result, found=FoundPoint(point, -0.6, 1e-7, False), value=-0.6)
    assert unproved.gap == 0.0
    assert "evidence" in repr(unproved)


def test_equalities_that_floats_do_not_meet_give_evidence_only() -> None:
    result = solve_bracket(problem_of("min x + 2y + 3z\nx^2 + y^2 + z^2 = 1"))
    assert result.value == pytest.approx(-np.sqrt(14), abs=1e-6)
    assert result.outcome is PolynomialOutcome.CLOSED
    assert not result.proved
    assert "evidence: the point is feasible up to 1e-06" in repr(result)
    assert result.to_dict()["value_proved"] is False


def test_unbounded_and_not_certified_say_what_to_add() -> None:
    far = solve_bracket(problem_of("min x^3 + y^2"))
    assert far.outcome is PolynomialOutcome.UNBOUNDED
    assert not far.certified
    assert far.value is not None
    assert far.value < -1e10
    motzkin = solve_bracket(problem_of("min x^4 y^2 + x^2 y^4 - 3x^2 y^2 + 1"))  # not a sum of squares
    assert motzkin.outcome is PolynomialOutcome.NOT_CERTIFIED
    assert motzkin.value == pytest.approx(0.0, abs=1e-8)
    assert motzkin.advice[0].startswith("bounds on x, y")
    assert len(motzkin.steps) == 1  # without constraints no order helps


def test_interrupted_work_keeps_what_is_proved() -> None:
    def stop(at: str) -> Callable[[PolynomialProgress], None]:
        def hear(standing: PolynomialProgress) -> None:
            if standing.stage.startswith(at):
                raise KeyboardInterrupt

        return hear

    with pytest.raises(KeyboardInterrupt):
        solve_bracket(problem_of(SIMPLEX), PolynomialOptions(on_progress=stop("order 1")))
    result = solve_bracket(problem_of(SIMPLEX), PolynomialOptions(on_progress=stop("order 2")))
    assert [s.order for s in result.steps] == [1]
    assert result.certified
    assert "interrupted" in repr(result)
    assert result.value == pytest.approx(1.125, abs=1e-6)


def test_auto_goes_on_and_stops_by_itself() -> None:
    """Orders end where they gain nothing, though a gap of zero is out of reach; Krivine's way is not taken further."""
    heard: list[PolynomialProgress] = []
    result = solve_bracket(problem_of(SIMPLEX), PolynomialOptions(order="auto", gap=0.0, on_progress=heard.append))
    assert result.order == 3
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert all(a.seconds <= b.seconds for a, b in pairwise(heard))
    assert {"order 1", "order 2", "looking for points"} <= {h.stage for h in heard}
    linear = solve_bracket(problem_of("max x y\nx, y in [0, 1]"), PolynomialOptions(relaxation="krivine", order="auto"))
    assert len(linear.steps) == 1
    assert linear.bound >= 1.0


def test_little_time_is_no_crash() -> None:
    result = solve_bracket(problem_of(SIMPLEX), PolynomialOptions(time_limit=1e-9))
    assert result.bound >= 1.125
    assert result.value is None
    assert any("time limit" in a for a in result.advice)


def test_wishes_are_checked() -> None:
    with pytest.raises(InputError, match="time_limit"):
        solve_bracket(problem_of(DISK), PolynomialOptions(time_limit=0))
    with pytest.raises(InputError, match="gap"):
        solve_bracket(problem_of(DISK), PolynomialOptions(gap=-1))
    with pytest.raises(InputError, match="order 'high'"):
        solve_bracket(problem_of(DISK), PolynomialOptions(order="high"))


def test_minimize_and_maximize_return_brackets(tmp_path: Path) -> None:
    x, y = Polynomial.variable(0), Polynomial.variable(1)
    low = minimize(x * y, [1 - x**2 - y**2])
    high = maximize(x * y, [1 - x**2 - y**2], seed=3)
    for result, value in ((low, -0.5), (high, 0.5)):
        assert result.outcome is PolynomialOutcome.CLOSED
        assert result.proved
        assert result.value == pytest.approx(value, abs=1e-7)
    assert low.bound <= -0.5
    assert high.bound >= 0.5
    assert low.value is not None
    assert low.value >= -0.5
    assert minimize(x * y, [1 - x**2 - y**2], search=False).found is None
    low.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == low.to_dict()
    with pytest.raises(InputError, match="json"):
        low.save(tmp_path / "r.txt")
    assert "<table>" in low._repr_html_()


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "simplex.pop"
    path.write_text(SIMPLEX)
    told = CliRunner().invoke(pop_command, [str(path)], standalone_mode=False)
    assert told.return_value == 0
    for words in ("upper bound", "1.125", "value", "gap", "x = 0.75", "order 2 with 5 matrices", "1 equality"):
        assert words in told.output
    told = CliRunner().invoke(pop_command, [str(path), "--order", "1", "--no-point", "--json"], standalone_mode=False)
    answer = json.loads(told.stdout)
    assert answer["outcome"] == "bound"
    assert answer["value"] is None
    target = tmp_path / "again.pop"
    told = CliRunner().invoke(pop_command, [str(path), "--to", str(target)], standalone_mode=False)
    assert told.return_value == 0
    again = read_pop(target.read_text()).problem
    assert again.objective == problem_of(SIMPLEX).objective
    assert set(again.inequalities) == set(problem_of(SIMPLEX).inequalities)


def test_the_proof_of_the_best_order_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of order two here; a proof that nothing is feasible has no file, which is said."""
    monkeypatch.chdir(tmp_path)
    Path("simplex.pop").write_text(SIMPLEX)
    Path("empty.pop").write_text(EMPTY[2])
    told = CliRunner().invoke(pop_command, ["simplex.pop", "--certificate", "proof.npz"], standalone_mode=False)
    assert told.return_value == 0
    assert run(["verify", "proof.npz", "--problem", "simplex.pop"]) == 0
    told = CliRunner().invoke(pop_command, ["empty.pop", "--certificate", "none.npz"], standalone_mode=False)
    assert told.return_value == 0
    assert "none.npz: not written, the proof that nothing is feasible has no file" in told.output
    assert not Path("none.npz").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--order", "two"], "--order two: give a whole number, or auto"),
        (["--order", "-1"], "order -1 is too low"),
        (["--gap", "-1"], "gap must be"),
        (["--seed", "-1"], "--seed -1"),
        (["--time-limit", "0"], "--time-limit must be"),
        (["--order", "auto", "--to", "x.dat-s"], "--to writes one relaxation"),
    ],
)
def test_bad_options_are_one_line(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.pop").write_text(DISK)
    assert run(["pop", "p.pop", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["var x\nmin 3", "var x y\nmax 3\nx in [0, 1]", "var x\nmin 0 x\nx^2 <= 4"])
def test_nothing_to_choose(text: str) -> None:
    """A constant is its own bound, also where no moment is left."""
    result = solve_bracket(problem_of(text))
    assert result.bound == pytest.approx(0 if "0 x" in text else 3, abs=1e-6)
    assert result.outcome is PolynomialOutcome.CLOSED
    assert result.proved
