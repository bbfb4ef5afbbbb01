"""Triangles of signs: valid, as tight as rows of an interior point, found where violated, certified, never fooled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, Network
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.one_layer import AllTriangles, triangles_fit
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate
from lipcert.relaxation.cuts import Cuts, with_cuts
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.triangles import Triangles, triangle_rows
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.solver.triangles import Dual, TriangleOptions, TriangleRun, climb, unit, violated
from tests.lift_tools import Keeping, built, true_points
from tests.one_layer_tools import changed, exact, proof_of, random_net, with_specification

QUICK = TriangleOptions(inner=40, rank=8, often=8, seldom=8, tolerance=0.0, rounds=80)
ONE = np.ones(1)


def task(net: Network, region: Region = Everywhere()) -> Task:  # noqa: B008 - frozen
    return Task.of(Problem.of(net, region), "shor")


def certificates(net: Network, work: float = 60.0) -> list[Certificate]:
    bracket = Keeping()
    AllTriangles(QUICK).advance(task(net), bracket, Budget.of_work(work))
    return bracket.certificates


def all_triangles(size: int) -> Triangles:
    a, b, c = (part.ravel() for part in np.meshgrid(*3 * [np.arange(size)], indexing="ij"))
    nodes = np.stack([a, b, c], axis=1)[(a < b) & (b < c)]
    signs = np.array([[1, q, r] for q in (1, -1) for r in (1, -1)])
    return Triangles.of(np.repeat(nodes, 4, axis=0), np.tile(signs, (len(nodes), 1)))


def with_all(relaxation: Relaxation) -> Relaxation:
    size = relaxation.space.size
    triangles = all_triangles(size)
    return with_cuts(relaxation, triangle_rows(relaxation, triangles, np.ones(len(triangles)), np.zeros(size))[0])


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


def test_the_search_finds_what_is_violated_most() -> None:
    V = unit(np.random.default_rng(3).standard_normal((16, 3)).astype(np.float32))
    X = V @ V.T
    triangles = all_triangles(16)
    (a, b, c), (p, q, r) = triangles.nodes.T, triangles.signs.T
    size = -(1.0 + p * q * X[a, b] + q * r * X[b, c] + p * r * X[a, c])
    strong = np.max(np.abs([X[a, b], X[b, c], X[a, c]]), axis=0) > 0.4
    found, sizes, _ = violated(X, 0.1, 10**6, 0)
    assert set(found.names()) == set(triangles[(size > 0.1) & strong].names())
    few, largest, following = violated(X, 0.1, 50, 0)
    assert len(few) <= 50
    assert largest.min() == pytest.approx(following)
    assert sizes.max() == pytest.approx(size.max(), abs=1e-5)


def test_the_climb_reaches_a_fixed_point() -> None:
    rng = np.random.default_rng(0)
    C = rng.standard_normal((20, 20)).astype(np.float32)
    C = C + C.T
    first = unit(rng.standard_normal((20, 8)).astype(np.float32))
    V = climb(lambda U: (float(np.vdot(C @ U, U)), 2 * C @ U), first, 200)
    image = C @ V
    assert np.allclose(np.linalg.norm(V, axis=1), 1.0, atol=1e-5)
    assert np.linalg.norm(image - np.einsum("ij,ij->i", image, V)[:, None] * V) < 1e-2 * np.linalg.norm(image)


@pytest.mark.parametrize("seed", [0, 3])
def test_as_tight_as_rows_of_the_interior_point(seed: int) -> None:
    net = random_net(seed, 6, 6)
    best = min(c.upper for c in certificates(net))
    all_rows = solve_rank_two(with_all(task(net).relaxation).problem, Options())
    assert exact(net, Everywhere(), ONE) <= best * (1 + 1e-9)
    assert all_rows.dual * (1 - 1e-6) <= best <= all_rows.dual * (1 + 1e-2)


def test_certificates_verify_and_forgeries_do_not_prove_too_much(tmp_path: Path) -> None:
    net = random_net(2, 6, 6)
    best = min(certificates(net), key=lambda c: c.upper)
    best.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(best.upper, rel=1e-9)
    true, rng = exact(net, Everywhere(), ONE), np.random.default_rng(0)
    assert len(proof_of(best).specification.cuts)
    for _ in range(30):
        multipliers, table = dict(proof_of(best).multipliers), proof_of(best).specification.cuts.table.copy()
        values = multipliers["cuts"].copy()
        values[rng.integers(len(values))] *= rng.choice([-1.0, 0.0, 3.0, 1e6])
        row, sign = rng.integers(len(table)), rng.choice([2, 5, 8])
        table[row, sign] *= -1
        forged = changed(with_specification(best, cuts=Cuts(table)), multipliers={**multipliers, "cuts": values})
        assert lipcert.verify(forged, net).upper >= true * (1 - 1e-9)


def test_a_lying_solver_proves_nothing_false(monkeypatch: pytest.MonkeyPatch) -> None:
    net, rng = random_net(3, 6, 6), np.random.default_rng(0)
    true, honest = exact(net, Everywhere(), ONE), TriangleRun.dual

    def lie(self: TriangleRun, steps: int) -> Dual:
        dual = honest(self, steps)
        g = dual.g * rng.uniform(-1, 3, size=dual.g.shape)
        return replace(dual, g=g, d=dual.d * rng.uniform(0, 0.5), value=-rng.uniform())

    monkeypatch.setattr(TriangleRun, "dual", lie)
    kept = certificates(net)
    assert kept
    assert all(c.upper >= true * (1 - 1e-9) for c in kept)


def test_a_run_starts_from_another_and_refuses_what_does_not_fit() -> None:
    net = random_net(6, 6, 6)
    solve = AllTriangles(QUICK)
    solve.advance(task(net), Bracket(), Budget.of_work(60.0))
    start = solve.start
    assert start is not None
    C = task(net).relaxation.problem.objective.toarray()
    budget = Budget.unlimited()
    warm, cold = TriangleRun(C, budget, QUICK, start), TriangleRun(C, budget, QUICK)
    assert warm.dual(100).value <= cold.dual(100).value
    smaller = task(random_net(4, 4, 3)).relaxation.problem.objective.toarray()
    assert not len(TriangleRun(smaller, budget, QUICK, start).triangles)


def test_when_it_is_taken() -> None:
    large = random_net(0, 300, 320)
    assert triangles_fit(task(large), "auto", Budget.of_work(60.0))
    assert not triangles_fit(task(large), "auto", Budget.of_work(0.1))
    assert not triangles_fit(task(large), "rank-two", Budget.of_work(60.0))
    assert not triangles_fit(task(random_net(0, 6, 6)), "auto", Budget.of_work(60.0))
    box = Box(np.zeros(300), 0.5)
    assert not triangles_fit(Task.of(Problem.of(large, box), "hr2"), "auto", Budget.of_work(1e6))
