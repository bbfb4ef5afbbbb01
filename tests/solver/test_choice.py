"""Which solver runs: recognised two-sided problems, time that does not suffice, phases in turn."""

from __future__ import annotations

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, Network, Status
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.engines import RelaxationEngine
from lipcert.method.relaxed import Relaxed
from lipcert.method.resume import ResumeState
from lipcert.method.solving import CutRounds, OneSolve
from lipcert.method.table import named
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.proof.multipliers import prove
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build
from lipcert.solver import Progress, choose_solver
from lipcert.solver import Status as SolverStatus
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.solver.unit_vectors import solve_two_sided, two_sides
from lipcert.steps import DENSE, RATES
from tests.constants import set_constant
from tests.lift_tools import built


def network(n: int = 12, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(n, n)) / np.sqrt(n), rng.normal(size=(1, n))]
    return Network.from_weights(weights, [rng.normal(size=n) / 4, np.zeros(1)])


@pytest.fixture
def local() -> Relaxation:
    return built(Problem.of(network(), Box(np.zeros(12), 0.2)), "hr2")


def ignore(_: Progress) -> None:
    return None


def test_two_sided_problems_are_recognised_and_solved(local: Relaxation) -> None:
    relaxation = built(Problem.of(network(), Everywhere()), "shor")
    sides = two_sides(relaxation.problem)
    assert sides is not None
    assert sorted(np.concatenate(sides).tolist()) == list(range(relaxation.problem.size))
    alternating = solve_two_sided(relaxation.problem, sides, Budget.of_work(10.0))
    interior = solve_rank_two(relaxation.problem, Options())
    assert alternating.dual == pytest.approx(interior.dual, rel=1e-5)
    assert prove(relaxation, alternating.y).upper == pytest.approx(alternating.dual, rel=1e-9)
    assert two_sides(local.problem) is None


def test_a_zero_objective_has_nothing_to_alternate() -> None:
    relaxation = built(Problem.of(network(), Everywhere(), np.zeros(1)), "shor")
    sides = two_sides(relaxation.problem)
    assert sides is not None
    result = solve_two_sided(relaxation.problem, sides, Budget.of_work(1.0))
    assert prove(relaxation, result.y).upper < 1e-9


def test_odd_cycles_have_no_two_sides() -> None:
    from lipcert.relaxation.rank_two import RankTwoProblem

    n = 3
    problem = RankTwoProblem(
        np.ones((n, n)) - np.eye(n), np.eye(n), np.arange(n), np.arange(n), np.ones(n), np.ones(n, bool), np.ones(n)
    )
    assert two_sides(problem) is None


def test_every_name_gives_a_valid_bound(local: Relaxation) -> None:
    best = solve_rank_two(local.problem, Options()).dual
    for name in ("auto", "rank-two", "low-rank"):
        result = choose_solver(name, local.problem, Budget.of_work(5.0))(ignore)
        assert best * (1 - 1e-6) <= prove(local, result.y).upper <= 1.2 * best


def test_the_low_rank_method_alone_when_time_is_short(local: Relaxation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RATES, DENSE, 1.0)  # a very slow machine
    seen: list[Progress] = []
    choose_solver("auto", local.problem, Budget.of_work(2.0))(seen.append)
    assert max(p.gap for p in seen) > 0
    assert len(seen) >= 1


def test_phases_in_turn_keep_the_better_multipliers(local: Relaxation, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "LONG", 0.0)
    numbers: list[int] = []
    result = choose_solver("auto", local.problem, Budget.of_work(20.0))(lambda p: numbers.append(p.iteration))
    assert result.status is SolverStatus.OPTIMAL
    assert numbers.count(0) == 2  # both solvers reported from their start
    assert prove(local, result.y).upper == pytest.approx(solve_rank_two(local.problem, Options()).dual, rel=1e-6)


def interior_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the time."""
    for name in ("LONG", "SURE_SHARE"):
        set_constant(monkeypatch, name, np.inf)
    set_constant(monkeypatch, "HOPELESS_FROM", -2)


def test_an_interior_point_goes_on_where_its_budget_ended(local: Relaxation, monkeypatch: pytest.MonkeyPatch) -> None:
    interior_alone(monkeypatch)
    all_of_it, seen = Budget.of_work(20.0), list[int]()
    whole = choose_solver("auto", local.problem, all_of_it)(ignore)
    assert (whole.status, whole.paused) == (SolverStatus.OPTIMAL, None)
    half = choose_solver("auto", local.problem, Budget.of_work(all_of_it.now() / 2))(ignore)
    assert half.status is SolverStatus.TIME_LIMIT
    assert half.paused is not None
    assert 0 < half.paused.least(Budget.of_work(1.0)) < all_of_it.now()
    rest = Budget.of_work(20.0)
    ended = half.paused.advance(rest, lambda p: seen.append(p.iteration))
    assert ended.status is SolverStatus.OPTIMAL
    assert seen[0] > half.iterations > 2
    assert rest.now() < all_of_it.now()
    assert prove(local, ended.y).upper == pytest.approx(prove(local, whole.y).upper, rel=1e-6)


def test_a_second_turn_of_tight_goes_on_with_the_same_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rounds of cuts do not fit, an interior point that was stopped is not begun anew."""
    interior_alone(monkeypatch)
    set_constant(monkeypatch, "ROUNDS_LEAST", 1e9)
    problem, state, bracket = Problem.of(network(), Box(np.zeros(12), 0.2)), ResumeState(), Bracket()
    method, whole = Tight(slopes=False, state=state), Bracket()
    all_of_it = Budget.of_work(20.0)
    Tight(slopes=False).run(problem, whole, all_of_it)
    method.run(problem, bracket, Budget.of_work(0.75 * all_of_it.now()))
    (kept,) = state.steps.values()
    solve = kept.solves[OneSolve]
    assert isinstance(solve, OneSolve)
    assert solve.paused is not None
    least = state.least(Budget.of_work(1.0))
    assert least is not None
    assert least > solve.paused.least(Budget.of_work(1.0))
    before = bracket.upper
    rest = Budget.of_work(20.0)
    method.run(problem, bracket, rest)
    assert solve.least(rest) is None, "it came to its end"
    assert bracket.upper < before
    assert bracket.upper == pytest.approx(whole.upper, rel=1e-6)
    assert rest.now() < all_of_it.now()


def test_slices_of_a_relaxation_go_on_with_what_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is as short as the engine says; together they build once, and prove what one long run proves."""
    problem = Problem.of(network(), Box(np.zeros(12), 0.2))
    whole, bracket, builds = Bracket(), Bracket(), list[int]()

    def counted(problem: Problem, specification: Specification) -> Relaxation:
        builds.append(1)
        return build(problem, specification)

    monkeypatch.setattr("lipcert.method.relaxed.build", counted)
    named("hr2").run(problem, whole, Budget.of_work(20.0))
    builds.clear()
    engine = RelaxationEngine(problem, bracket, Relaxed("hr2", "", state=ResumeState()))
    budget, slices = Budget.of_work(60.0), 0
    while not engine.ended:
        bracket.clear_limit()
        engine.advance(budget.upto(max(engine.least(budget), 0.01)))
        slices += 1
    assert slices > 3
    assert len(builds) == 1
    assert engine.promised == pytest.approx(whole.upper, rel=1e-5)
    assert bracket.upper == pytest.approx(whole.upper, rel=1e-5)


def test_slices_of_tight_go_on_with_cuts_after_the_first_solve() -> None:
    """The solve without cuts comes to its end in short slices; the rounds that need a longer one still follow."""
    problem = Problem.of(network(), Box(np.zeros(12), 0.2))
    whole, bracket = Bracket(), Bracket()
    Tight(slopes=False).run(problem, whole, Budget.of_work(20.0))
    state, budget = ResumeState(), Budget.of_work(60.0)
    engine = RelaxationEngine(problem, bracket, Tight(slopes=False, state=state))
    while not engine.ended:
        bracket.clear_limit()
        engine.advance(budget.upto(max(engine.least(budget), 0.01)))
    (kept,) = state.steps.values()
    assert CutRounds in kept.solves
    assert bracket.upper == pytest.approx(whole.upper, rel=1e-4)


def test_an_interrupt_in_the_solver_keeps_what_is_proved() -> None:
    def stop(progress: lipcert.Progress) -> None:
        if progress.iteration is not None and progress.iteration.iteration == 6:
            raise KeyboardInterrupt

    result = lipcert.bound(network(), Box(np.zeros(12), 0.2), method="hr2", work=5.0, on_progress=stop)
    assert result.status is Status.INTERRUPTED
    assert result.lower is not None
    assert result.lower <= result.upper


def test_a_failing_solver_is_reported_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr("lipcert.solver.rank_two.RankTwoRun.run", broken)
    result = lipcert.bound(network(), Box(np.zeros(12), 0.2), method="hr2", work=5.0, lower=False)
    assert result.method == "linear"
    assert any("solver failed" in note for note in result.notes)


def test_a_time_limit_too_short_for_the_solver_returns_the_cheap_bound() -> None:
    net, box = network(40), Box(np.zeros(40), 0.2)
    timed = lipcert.bound(net, box, method="hr2", time_limit=1e-9, lower=False)  # over before it begins
    counted = lipcert.bound(net, box, method="hr2", work=1e-4, lower=False)
    assert timed.certified
    assert counted.certified
    assert timed.status is Status.TIME_LIMIT
    assert counted.status is Status.WORK_LIMIT
