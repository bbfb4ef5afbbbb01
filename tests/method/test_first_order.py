"""Rounds of first order: valid, as tight as an interior point's rows, kept between slices, certified, never fooled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, Network
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.first_order import FirstOrder, with_triangles
from lipcert.method.planning import first_order_fits, has_parts, plan_whole, whole_step
from lipcert.method.resume import ResumeState
from lipcert.method.solving import Task
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.relaxation.cuts import Cuts, with_cuts
from lipcert.relaxation.model import Relaxation, is_sign
from lipcert.relaxation.specification import plan_specification
from lipcert.relaxation.triangles import triangle_rows
from lipcert.solver import Progress, Status
from lipcert.solver.first_order import Dual, FirstOrderOptions, FirstOrderRun
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.lift_tools import Keeping, built, task_of, true_points
from tests.one_layer_tools import all_triangles, changed, exact, proof_of, random_net, with_specification

QUICK = FirstOrderOptions(inner=40, first=2, lasts=6, rounds=120)
ONE = np.ones(1)
REGIONS: list[Region] = [Box(np.zeros(6), 0.5), Everywhere()]
each_region = pytest.mark.parametrize("region", REGIONS, ids=["box", "everywhere"])


def task(net: Network, region: Region, chords: bool = False) -> Task:
    problem = Problem.of(net, region)
    return task_of(problem, replace(plan_specification(problem, "hr2"), wide=chords))


def certificates(net: Network, region: Region, work: float = 60.0, chords: bool = False) -> list[Certificate]:
    bracket = Keeping()
    FirstOrder(QUICK).advance(task(net, region, chords), bracket, Budget.of_work(work))
    return bracket.certificates


def with_all(relaxation: Relaxation) -> Relaxation:
    """Every triangle a row of its own."""
    parts = [np.arange(p.start, p.stop) for name, p in relaxation.space.slices.items() if is_sign(name)]
    odd = np.concatenate(parts)
    triangles = all_triangles(len(odd))
    triangles = replace(triangles, nodes=odd[triangles.nodes])
    return with_cuts(relaxation, triangle_rows(relaxation, triangles, np.ones(len(triangles)), np.zeros(1000))[0])


def test_triangles_hold_at_true_points() -> None:
    net, box = random_net(0, 4, 5), Box(np.zeros(4), 50.0)
    relaxation = built(Problem.of(net, Everywhere()), "shor")
    cut = with_all(relaxation)
    Y, _ = true_points(relaxation, Problem.of(net, box), 3000)
    forms = np.asarray((cut.problem.vectors.T @ Y.T).T)
    mine = slice(relaxation.problem.rows, None)
    assert cut.problem.rows - relaxation.problem.rows == len(all_triangles(relaxation.space.size)) == 4 * 120
    assert np.all(forms[:, cut.problem.ia[mine]] * forms[:, cut.problem.ib[mine]] <= cut.problem.rhs[mine])


def test_rows_and_multipliers_say_the_same_as_the_formula() -> None:
    relaxation = built(Problem.of(random_net(1, 5, 4), Everywhere()), "shor")
    size, rng = relaxation.space.size, np.random.default_rng(0)
    triangles = all_triangles(size)
    g, d = rng.uniform(-1, 1, len(triangles)).clip(0.0), rng.uniform(size=size)
    cuts, half, diagonal = triangle_rows(relaxation, triangles, g, d)
    problem = with_cuts(relaxation, cuts).problem
    own = problem.vectors.indices[problem.vectors.indptr[problem.ia[:size]]]
    y = np.concatenate([diagonal[own], half])
    expected = np.diag(d)
    (a, b, c), (p, q, r) = triangles.nodes.T, triangles.signs.T
    for i, j, s in ((a, b, p * q), (b, c, q * r), (a, c, p * r)):
        np.add.at(expected, (i, j), -s * g / 2)
        np.add.at(expected, (j, i), -s * g / 2)
    assert np.allclose(problem.adjoint(y), expected)
    assert problem.rhs @ y == pytest.approx(d.sum() + g.sum())


@each_region
@pytest.mark.parametrize("chords", [False, True], ids=["plain", "chords"])
@pytest.mark.parametrize("seed", [0, 3])
def test_as_tight_as_rows_of_the_interior_point(region: Region, seed: int, chords: bool) -> None:
    """With chords the values of inputs are shorter than one, and have multipliers of the right sign all the same."""
    net = random_net(seed, 6, 6)
    best = min(c.upper for c in certificates(net, region, chords=chords))
    all_rows = solve_rank_two(with_all(task(net, region, chords).relaxation).problem, Options())
    assert exact(net, region, ONE) <= best * (1 + 1e-9)
    assert all_rows.dual * (1 - 1e-6) <= best <= all_rows.dual * (1 + 1e-2)


@each_region
def test_a_bound_is_what_was_promised(region: Region) -> None:
    """The multipliers are dual feasible up to rounding, from the first round on."""
    asked = task(random_net(5, 6, 6), region)
    signs = np.array(
        [is_sign(name) for name, p in asked.relaxation.space.slices.items() for _ in range(p.stop - p.start)]
    )
    run = FirstOrderRun(asked.relaxation.problem, signs, Budget.unlimited(), QUICK)
    for _ in range(12):
        dual = run.dual(20)
        cut, multipliers = with_triangles(asked, run, dual)
        assert cut.prove(multipliers).upper == pytest.approx(dual.value, rel=1e-6)
        run.advance(Budget.unlimited())


@each_region
def test_certificates_verify_and_forgeries_do_not_prove_too_much(region: Region, tmp_path: Path) -> None:
    net = random_net(2, 6, 6)
    best = min(certificates(net, region), key=lambda c: c.upper)
    best.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(best.upper, rel=1e-9)
    true, rng = exact(net, region, ONE), np.random.default_rng(0)
    assert len(proof_of(best).specification.cuts)
    for _ in range(30):
        multipliers, table = dict(proof_of(best).multipliers), proof_of(best).specification.cuts.table.copy()
        name = "cuts" if rng.uniform() < 0.7 else str(rng.choice(list(multipliers)))
        values = multipliers[name].copy()
        values[rng.integers(len(values))] *= rng.choice([-1.0, 0.0, 3.0, 1e6])
        row, sign = rng.integers(len(table)), rng.choice([2, 5, 8])
        table[row, sign] *= -1
        forged = changed(with_specification(best, cuts=Cuts(table)), multipliers={**multipliers, name: values})
        assert lipcert.verify(forged, net).upper >= true * (1 - 1e-9)


@each_region
def test_a_lying_solver_proves_nothing_false(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    net, rng = random_net(3, 6, 6), np.random.default_rng(0)
    true, honest = exact(net, region, ONE), FirstOrderRun.dual

    def lie(self: FirstOrderRun, steps: int) -> Dual:
        dual = honest(self, steps)
        g = dual.g * rng.uniform(-1, 3, size=dual.g.shape)
        return replace(dual, g=g, y=dual.y * rng.uniform(-0.5, 0.5, size=dual.y.shape), value=-rng.uniform())

    monkeypatch.setattr(FirstOrderRun, "dual", lie)
    kept = certificates(net, region)
    assert kept
    assert all(c.upper >= true * (1 - 1e-9) for c in kept)


@each_region
def test_calls_go_on_where_they_were(region: Region) -> None:
    """Many short calls prove about what one long call does, and each has a bound."""
    asked, whole, parts, solve = task(random_net(4, 6, 6), region), Keeping(), Keeping(), FirstOrder(QUICK)
    FirstOrder(QUICK).advance(asked, whole, Budget.of_work(2.0))
    assert solve.least(Budget.unlimited()) is None
    for _ in range(10):
        solve.advance(asked, parts, Budget.of_work(0.2))
        assert solve.least(Budget.unlimited()) is not None
    first = parts.certificates[0].upper
    assert parts.upper < first
    assert parts.upper == pytest.approx(whole.upper, rel=2e-2)


def test_a_budget_that_is_over_still_gives_a_bound() -> None:
    bracket = Bracket()
    status = FirstOrder(QUICK).advance(task(random_net(4, 6, 6), REGIONS[0]), bracket, Budget.of_work(0.0))
    assert status is Status.TIME_LIMIT
    assert np.isfinite(bracket.upper)


def test_when_it_is_taken() -> None:
    """A large relaxation of one hidden layer is never left out for its price."""
    budget = Budget.of_work(0.1)
    large, small = (Problem.of(random_net(0, *sizes), Box(np.zeros(sizes[0]), 0.5)) for sizes in ((300, 320), (6, 6)))
    for problem, taken in ((large, True), (small, False)):
        step = whole_step(problem)
        assert first_order_fits(problem, step.order, budget) is taken
    (step,) = plan_whole(large, budget, "tight")
    assert not has_parts(large, budget)
    assert step.whole
    assert budget.expected(step.operations) > budget.left()
    reached = Problem.of(random_net(0, 640, 300), Box(np.zeros(640), 100.0))
    assert not Tight().specification(reached, whole_step(reached)).values
    assert Tight().specification(large, whole_step(large)).values


def test_tight_keeps_its_rounds_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipcert.method.planning.FIRST_ORDER_FROM", 0)
    problem, state = Problem.of(random_net(4, 6, 6), REGIONS[0]), ResumeState()
    method, bracket = Tight(slopes=False, state=state), Keeping()
    method.run(problem, bracket, Budget.of_work(1.0))
    step = state.steps[True]
    rounds, kept = step.solves[FirstOrder], step.task
    assert isinstance(rounds, FirstOrder)
    assert rounds.run is not None
    before = rounds.run.round
    method.run(problem, bracket, Budget.of_work(1.0))
    assert state.steps[True].solves[FirstOrder] is rounds
    assert state.steps[True].task is kept
    assert rounds.run.round > before


def test_progress_and_an_early_end() -> None:
    seen: list[Progress] = []

    class Impatient(Keeping):
        def iterate(self, iteration: Progress) -> None:
            seen.append(iteration)

        def closed(self) -> bool:
            return len(seen) > 2

    bracket = Impatient()
    FirstOrder(QUICK).advance(task(random_net(5, 6, 6), Everywhere()), bracket, Budget.of_work(10.0))
    assert 3 <= len(seen) <= 4
    assert bracket.certificates
    assert all(np.isfinite(p.primal) and np.all(np.isfinite(p.y)) for p in seen)
