"""All products of inputs' and neurons' signs: valid, as tight as rows of an interior point, certified, never fooled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, Network
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.one_layer import AllProducts, products_fit, without_x_if_idle
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.proof.file import load_certificate
from lipcert.proof.multipliers import prove
from lipcert.relaxation.cuts import with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import plan_specification
from lipcert.relaxation.triangles import grid_cuts, grid_matrix, grid_of
from lipcert.solver import Progress
from lipcert.solver.grid import GridOptions, GridRun, GridStart, GridState
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.lift_tools import Keeping, built, task_of, true_points
from tests.one_layer_tools import changed, exact, proof_of, random_net, solved

QUICK = GridOptions(rounds=30, inner=50, rank=10, tolerance=1e-5)
ONE = np.ones(1)
REGIONS = [Box(np.zeros(6), 0.5), Everywhere()]


def task(net: Network, region: Region) -> Task:
    problem = Problem.of(net, region)
    return task_of(problem, replace(plan_specification(problem, "hr2"), wide=False))


def with_products(net: Network, region: Region, work: float = 20.0) -> list[Certificate]:
    bracket = Keeping()
    AllProducts(QUICK).advance(task(net, region), bracket, Budget.of_work(work))
    return bracket.certificates


def with_all_rows(relaxation: Relaxation) -> Relaxation:
    """Every product a row of its own."""
    grid = grid_of(relaxation)
    assert grid is not None
    return with_cuts(relaxation, grid_cuts(relaxation, grid, np.ones(grid.shape))[0])


def test_products_hold_at_true_points() -> None:
    net, box = random_net(0, 5, 7), Box(np.zeros(5), 0.5)
    problem = Problem.of(net, box)
    relaxation = built(problem, "hr2")
    grid = grid_of(relaxation)
    assert grid is not None
    L = np.random.default_rng(0).uniform(size=grid.shape)
    G = grid_matrix(grid, relaxation.space.size, L)
    cut = with_all_rows(relaxation)
    Y, _ = true_points(relaxation, problem, 2000)
    assert np.all(np.einsum("ki,ki->k", Y @ G.toarray(), Y) <= 1e-9)
    forms = np.asarray((cut.problem.vectors.T @ Y.T).T)
    mine = slice(relaxation.problem.rows, None)
    assert np.all(forms[:, cut.problem.ia[mine]] * forms[:, cut.problem.ib[mine]] <= cut.problem.rhs[mine])


@pytest.mark.parametrize("region", REGIONS, ids=["box", "everywhere"])
def test_the_matrix_is_the_sum_of_its_rows(region: Region) -> None:
    relaxation = built(Problem.of(random_net(1, 6, 5), region), "hr2")
    grid = grid_of(relaxation)
    assert grid is not None
    L = np.random.default_rng(0).uniform(-1, 1, size=grid.shape).clip(0.0)
    cuts, values = grid_cuts(relaxation, grid, L)
    assert len(cuts) == np.count_nonzero(L)
    cut = with_cuts(relaxation, cuts)
    y = np.concatenate([np.zeros(relaxation.problem.rows), values])
    assert np.allclose(cut.problem.adjoint(y), grid_matrix(grid, relaxation.space.size, L).toarray())
    few, largest = grid_cuts(relaxation, grid, L, most=5)
    assert len(few) == 5
    assert largest.min() >= np.sort(values)[-5]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("region", REGIONS, ids=["box", "everywhere"])
def test_as_tight_as_rows_of_the_interior_point(region: Region, seed: int) -> None:
    net = random_net(seed, 6, 6)
    best = min(c.upper for c in with_products(net, region))
    relaxation = task(net, region).relaxation
    all_rows = solve_rank_two(with_all_rows(relaxation).problem, Options())
    hr2 = solved(net, region, ONE, "hr2", chords=False).upper
    assert exact(net, region, ONE) <= best * (1 + 1e-9)
    assert best <= hr2 + 1e-6
    assert all_rows.dual * (1 - 1e-6) <= best <= all_rows.dual * (1 + 1e-3)


def test_certificates_verify_and_forgeries_do_not_prove_too_much(tmp_path: Path) -> None:
    net, box = random_net(2, 6, 6), Box(np.zeros(6), 0.5)
    best = min(with_products(net, box), key=lambda c: c.upper)
    assert len(proof_of(best).specification.cuts)
    best.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(best.upper, rel=1e-9)
    true, rng = exact(net, box, ONE), np.random.default_rng(0)
    read = load_certificate(tmp_path / "proof.npz")
    for _ in range(40):
        forged = dict(proof_of(read).multipliers)
        name = "cuts" if rng.uniform() < 0.7 else str(rng.choice(list(forged)))
        values = forged[name].copy()
        values[rng.integers(len(values))] *= rng.choice([-1.0, 0.0, 3.0, 1e6])
        forged[name] = values
        assert lipcert.verify(changed(read, multipliers=forged), net).upper >= true * (1 - 1e-9)


def test_a_lying_solver_proves_nothing_false(monkeypatch: pytest.MonkeyPatch) -> None:
    net, region = random_net(3, 6, 6), Everywhere()
    true, rng = exact(net, region, ONE), np.random.default_rng(0)
    honest = GridRun.state

    def lie(self: GridRun) -> GridState:
        state = honest(self)
        return replace(state, L=np.abs(state.L + rng.normal(size=state.L.shape)), primal=-1.0)

    monkeypatch.setattr(GridRun, "state", lie)
    certificates = with_products(net, region, 3.0)
    assert certificates
    assert all(c.upper >= true * (1 - 1e-9) for c in certificates)
    relaxation = with_all_rows(task(net, region).relaxation)
    for scale in (0.0, 0.1, 10.0):
        assert prove(relaxation, scale * rng.normal(size=relaxation.problem.rows)).upper >= true * (1 - 1e-9)


def test_a_run_starts_from_another() -> None:
    net, region = random_net(4, 6, 6), Everywhere()
    solve = AllProducts(QUICK)
    solve.advance(task(net, region), Bracket(), Budget.of_work(10.0))
    assert isinstance(solve.start, GridStart)
    few = replace(QUICK, rounds=2)
    warm, cold = Bracket(), Bracket()
    solve.options = few
    solve.advance(task(net, region), warm, Budget.of_work(10.0))
    AllProducts(few).advance(task(net, region), cold, Budget.of_work(10.0))
    assert warm.upper <= cold.upper < np.inf


def test_when_it_is_taken() -> None:
    large, small = random_net(0, 300, 320), random_net(0, 6, 6)
    assert products_fit(task(large, Everywhere()), "auto", Budget.of_work(60.0))
    assert not products_fit(task(large, Everywhere()), "auto", Budget.of_work(0.1))
    assert not products_fit(task(large, Everywhere()), "rank-two", Budget.of_work(60.0))
    assert not products_fit(task(small, Everywhere()), "auto", Budget.of_work(60.0))
    box = Box(np.zeros(6), 100.0)
    assert "w" in task(random_net(0, 6, 4), box).relaxation.space.slices
    assert "w" not in without_x_if_idle(task(random_net(0, 6, 4), box)).relaxation.space.slices


def test_progress_and_an_early_end() -> None:
    seen: list[Progress] = []

    class Impatient(Keeping):
        def iterate(self, iteration: Progress) -> None:
            seen.append(iteration)

        def closed(self) -> bool:
            return len(seen) > 2

    bracket = Impatient()
    AllProducts(QUICK).advance(task(random_net(5, 6, 6), Everywhere()), bracket, Budget.of_work(10.0))
    assert 3 <= len(seen) <= 4
    assert bracket.certificates
    assert all(np.isfinite(p.primal) and np.all(np.isfinite(p.y)) for p in seen)
