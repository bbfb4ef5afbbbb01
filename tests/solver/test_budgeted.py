"""Solvers within a budget: counted work gives the same answer bit for bit, more of it never a worse one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks._highs import solve_mixed_integer
from benchmarks._mixed_integer_program import formulate
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Box, Everywhere
from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.problem import Problem
from lipcert.proof.multipliers import prove
from lipcert.relaxation.model import Relaxation, is_sign
from lipcert.rounding import Array
from lipcert.solver import Progress, RankTwoResult, choose_solver
from lipcert.solver import Status as SolverStatus
from lipcert.solver.choice import HOPELESS_AT
from lipcert.solver.conic.conic import ConicStatus, solve_conic
from lipcert.solver.costs import ITERATIONS, affordable_rows, iteration_operations, solve_operations
from lipcert.solver.first_order import FirstOrderOptions, FirstOrderRun
from lipcert.solver.low_rank import solve_low_rank
from lipcert.solver.rank_two import solve_rank_two
from lipcert.solver.unit_vectors import solve_two_sided, two_sides
from lipcert.steps import DENSE
from tests.conic_problems import LINEAR, random_sdp
from tests.lift_tools import built
from tests.one_layer_tools import random_net

Watch = Callable[[Progress], None]
Solve = Callable[[Relaxation, Budget, Watch | None], RankTwoResult]
LOCAL = built(Problem.of(random_net(0, 12, 12), Box(np.zeros(12), 0.3)), "hr2")
GLOBAL = built(Problem.of(random_net(1, 12, 12), Everywhere()), "shor")


def interior(relaxation: Relaxation, budget: Budget, watch: Watch | None = None) -> RankTwoResult:
    return solve_rank_two(relaxation.problem, callback=watch, budget=budget)


def low_rank(relaxation: Relaxation, budget: Budget, watch: Watch | None = None) -> RankTwoResult:
    return solve_low_rank(relaxation.problem, callback=watch, budget=budget)


def alternating(_: Relaxation, budget: Budget, watch: Watch | None = None) -> RankTwoResult:
    sides = two_sides(GLOBAL.problem)
    assert sides is not None
    return solve_two_sided(GLOBAL.problem, sides, budget, watch)


def chosen(relaxation: Relaxation, budget: Budget, watch: Watch | None = None) -> RankTwoResult:
    return choose_solver("auto", relaxation.problem, budget)(watch or (lambda _: None))


SOLVERS = pytest.mark.parametrize("solve", [interior, low_rank, alternating, chosen])


def busy(_: Progress) -> None:
    np.linalg.eigvalsh(np.eye(60))  # a callback that takes its time


@SOLVERS
@pytest.mark.parametrize("work", [0.03, 0.2, 1.0])
def test_the_same_work_gives_the_same_bits(solve: Solve, work: float) -> None:
    quiet, beside = solve(LOCAL, Budget.of_work(work), None), solve(LOCAL, Budget.of_work(work), busy)
    assert np.array_equal(quiet.y, beside.y)
    assert (quiet.dual, quiet.primal, quiet.status, quiet.iterations, quiet.seconds) == (
        beside.dual,
        beside.primal,
        beside.status,
        beside.iterations,
        beside.seconds,
    )
    assert quiet.history == beside.history


@SOLVERS
def test_a_budget_that_is_over_returns_zeros_at_once(solve: Solve) -> None:
    budget = Budget.of_work(0.0)
    result = solve(LOCAL, budget, None)
    assert result.status is SolverStatus.TIME_LIMIT
    assert not result.y.any()
    assert budget.spent().counted == 0.0
    assert not solve(LOCAL, Budget.of_seconds(-1.0), None).y.any()


@pytest.mark.parametrize("solve", [interior, low_rank, alternating])
@given(works=st.lists(st.floats(0.0, 0.4), min_size=2, max_size=2))
@settings(max_examples=12)
def test_more_work_never_gives_a_worse_bound(solve: Solve, works: list[float]) -> None:
    less, more = sorted(works)
    assert solve(LOCAL, Budget.of_work(more), None).dual <= solve(LOCAL, Budget.of_work(less), None).dual


@SOLVERS
def test_work_is_kept(solve: Solve) -> None:
    """What is spent beyond the budget is one step at most: the set-up, or a round's bound."""
    for work in (0.01, 0.1, 0.3):
        budget = Budget.of_work(work)
        solve(LOCAL, budget, None)
        assert budget.spent().counted < work + 0.1


def test_a_stopped_interior_point_has_a_bound_before_its_first_iteration() -> None:
    best = solve_rank_two(LOCAL.problem).dual
    seen: list[Progress] = []
    first = solve_rank_two(LOCAL.problem, callback=seen.append, budget=Budget.of_work(1e-9))
    assert first.status is SolverStatus.TIME_LIMIT
    assert prove(LOCAL, first.y).upper == pytest.approx(first.dual, rel=1e-6)
    assert first.dual < 4 * best
    assert seen[0].dual == first.dual < first.history[0].dual  # the start itself lies far inside


def test_a_slow_machine_leaves_the_interior_point_for_the_low_rank_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations that take far longer than expected: what follows is the low-rank method, not nothing."""
    real = Budget.expected
    late = [False]

    def slow(self: Budget, operations: float, kind: str = DENSE) -> float:
        return real(self, operations, kind) * (1e6 if late[0] and kind == DENSE else 1.0)

    monkeypatch.setattr(Budget, "expected", slow)
    numbers: list[int] = []

    def watch(progress: Progress) -> None:
        numbers.append(progress.iteration)
        late[0] = late[0] or numbers == list(range(HOPELESS_AT + 1))

    result = choose_solver("auto", LOCAL.problem, Budget.of_work(5.0))(watch)
    assert numbers[HOPELESS_AT + 1] == 0  # the low-rank method begins
    assert result.dual <= 1.1 * solve_rank_two(LOCAL.problem).dual


def test_expected_operations_grow_and_rows_are_their_inverse() -> None:
    assert iteration_operations(10, 100) < iteration_operations(20, 100) < iteration_operations(20, 200)
    for rows in (500, 3000):
        whole = ITERATIONS * iteration_operations(400, 0.8 * rows)
        assert affordable_rows(400, whole) == pytest.approx(rows, rel=0.01)
    assert affordable_rows(400, 1.0) == 0
    assert solve_operations(LOCAL.problem) > 0


def first_order(relaxation: Relaxation, budget: Budget) -> Array:
    signs = np.zeros(relaxation.space.size, dtype=bool)
    for name, where in relaxation.space.slices.items():
        signs[where] = is_sign(name)
    run = FirstOrderRun(relaxation.problem, signs, budget, FirstOrderOptions(inner=20, rounds=12))
    while run.advance(budget):
        pass
    dual = run.dual(50)
    return np.concatenate([dual.g, dual.y, [dual.value]])


@pytest.mark.parametrize("relaxation", [LOCAL, GLOBAL], ids=["local", "global"])
@pytest.mark.parametrize("work", [0.0, 0.02, 1.0])
def test_first_order_repeats(relaxation: Relaxation, work: float) -> None:
    first, second = first_order(relaxation, Budget.of_work(work)), first_order(relaxation, Budget.of_work(work))
    assert np.array_equal(first, second)
    assert np.all(np.isfinite(first))


@pytest.mark.parametrize("solver", ["clarabel", "scs", "highs", "highs-simplex", "highs-pdlp"])
def test_foreign_solvers_count_iterations(solver: str) -> None:
    problem = LINEAR[0].problem if solver.startswith("highs") else random_sdp(3, columns=20, orders=(8, 5))
    budget = Budget.of_work(1e-9)
    short = solve_conic(problem, solver, budget=budget)
    assert short.iterations <= 1
    assert budget.spent().counted > 0
    full, again = (solve_conic(problem, solver, budget=Budget.of_work(100.0)) for _ in range(2))
    assert np.array_equal(full.z, again.z)
    assert full.status is ConicStatus.OPTIMAL
    over = solve_conic(problem, solver, budget=Budget.of_work(0.0))
    assert (over.status, over.iterations) == (ConicStatus.TIME_LIMIT, 0)


def test_the_mixed_integer_solver_repeats() -> None:
    asked = Problem.of(paper_network(20, 20, 0), paper_region(20, 0, "local"))
    program = formulate(asked).problem
    answers = [solve_mixed_integer(program, Budget.of_work(0.1)) for _ in range(2)]
    assert answers[0].status is ConicStatus.TIME_LIMIT
    assert (answers[0].value, answers[0].bound, answers[0].nodes) == (
        answers[1].value,
        answers[1].bound,
        answers[1].nodes,
    )
    assert answers[0].bound >= solve_mixed_integer(program, Budget.of_work(30.0)).value
