"""Moment matrices to witnesses, chases and walks: points of the region, never more than the constant."""

from __future__ import annotations

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, Network, Progress
from lipcert.budget import Budget
from lipcert.method import lower
from lipcert.method.bracket import Bracket
from lipcert.method.solving import OneSolve, Task
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.search.settings import Settings
from lipcert.witness import Witness, evaluate, improve, search
from lipcert.witness.chart import Chart
from lipcert.witness.moments import candidates
from lipcert.witness.program import PatternProgram, chase, row_lengths
from lipcert.witness.screen import Screen
from tests.enumeration import exact_constant
from tests.lift_tools import built
from tests.witness.test_witness import check, random_network

Case = tuple[Network, Box, Array]
SHAPES = ((3, 6, 1), (2, 4, 3, 1), (3, 4, 3, 2))


def case(seed: int) -> Case:
    net = random_network(seed, SHAPES[seed % len(SHAPES)])
    return net, Box(np.full(net.inputs, 0.1), 1.0), np.ones(net.outputs)


def middle(problem: Problem) -> Witness:
    point = Chart.of(problem).points(np.zeros(problem.network.inputs))
    return Witness(point, evaluate(problem, point), "middle")


def moments(net: Network, region: Region, c: Array, name: str) -> tuple[Relaxation, Array]:
    """A relaxation and its moment matrix, as the solver hands them over."""
    found: list[tuple[Relaxation, Array]] = []
    task = Task.of(Problem.of(net, region, c), name)
    OneSolve().advance(
        task, Bracket(Settings(solver="rank-two")), Budget.of_work(10.0), lambda r, X: found.append((r, X))
    )
    return found[-1]


def test_moments_of_one_point_give_it_back() -> None:
    for seed in range(6):
        net, box, c = case(seed)
        relaxation = built(Problem.of(net, box, c), "tight")
        rng = np.random.default_rng(seed)
        w = rng.uniform(-1.0, 1.0, net.inputs)
        zs = net.preactivations(Chart.of(Problem.of(net, box, c)).points(w)[None, :])
        names = ["v"] if net.depth == 1 else [f"v{i}" for i in range(1, net.depth + 1)]
        full = {"one": np.ones(1), "w": w} | {n: np.where(z[0] > 0, 1.0, -1.0) for n, z in zip(names, zs, strict=True)}
        y = relaxation.gather({k: v for k, v in full.items() if k in relaxation.space.slices})
        found = candidates(net, relaxation, np.outer(y, y), rng, Budget.unlimited())
        if not found.known.any():
            continue
        assert np.allclose(found.points[0], w)
        pattern = np.concatenate([z[0] > 0 for z in zs])
        assert np.array_equal(found.patterns[0][found.known], pattern[found.known])


def test_rounding_finds_the_constant_and_no_more() -> None:
    reached, seeds = 0, range(6)
    for seed in seeds:
        net, box, c = case(seed)
        exact = exact_constant(net, box, c)
        problem = Problem.of(net, box, c)
        known = middle(problem)
        relaxation, X = moments(net, box, c, "backward")
        found = candidates(net, relaxation, X, np.random.default_rng(0), Budget.unlimited())
        assert np.all(np.abs(found.points) <= 1.0)
        assert found.patterns.shape == (len(found.points), net.neurons)
        better = improve(problem, known, relaxation, X, Budget.of_work(0.2))
        check(better, problem)
        assert known.value <= better.value <= exact * (1 + 1e-9)
        reached += better.value >= exact * (1 - 1e-7)
    assert reached >= len(seeds) - 1


def test_same_seed_and_work_same_bits() -> None:
    net, box, c = case(4)
    relaxation, X = moments(net, box, c, "backward")
    found = []
    for _ in range(2):
        problem = Problem.of(net, box, c)
        found.append(improve(problem, middle(problem), relaxation, X, Budget.of_work(0.05), seed=3))
    assert found[0].point.tobytes() == found[1].point.tobytes()
    assert found[0].value == found[1].value


def test_rounding_on_the_whole_space_uses_signs_alone() -> None:
    net, c = random_network(3, (3, 6, 1)), np.ones(1)
    relaxation, X = moments(net, Everywhere(), c, "hr2")
    problem = Problem.of(net, Everywhere())
    better = improve(problem, middle(problem), relaxation, X, Budget.of_work(0.5))
    check(better, problem)
    assert better.value >= search(problem, Budget.of_work(2.0)).value * (1 - 1e-9)


def test_a_matrix_that_means_nothing_is_harmless() -> None:
    net, box, c = case(1)
    exact = exact_constant(net, box, c)
    problem = Problem.of(net, box, c)
    known = middle(problem)
    relaxation = built(problem, "tight")
    n = relaxation.space.size
    noise = np.random.default_rng(0).normal(size=(n, n))
    bad = [
        np.full((n, n), np.nan),
        np.full((n, n), np.inf),
        np.zeros((n, n)),
        np.eye(2),
        -np.eye(n),
        noise,
        1e300 * noise,
    ]
    for X in bad:
        better = improve(problem, known, relaxation, X, Budget.of_work(0.1))
        check(better, problem)
        assert known.value <= better.value <= exact * (1 + 1e-9)


def test_a_relaxation_of_another_network_is_harmless() -> None:
    net, box, c = case(1)
    other = built(Problem.of(random_network(5, (5, 7, 6, 1)), Box(np.zeros(5), 1.0)), "tight")
    problem = Problem.of(net, box, c)
    better = improve(problem, middle(problem), other, np.eye(other.space.size), Budget.of_work(0.1))
    check(better, problem)


def test_chase_reaches_patterns_that_points_have() -> None:
    net, box, c = random_network(4, (6, 8, 7, 2)), Box(np.zeros(6), 1.0), np.array([1.0, -1.0])
    problem, budget = Problem.of(net, box, c), Budget.of_work(np.inf)
    program, screen = PatternProgram.of(problem, budget), Screen(problem, budget)
    points = screen.chart.draw(np.random.default_rng(0), 40, screen.dtype)
    u = np.where(program.free, np.concatenate(screen.forward(points), axis=1) > 0, program.fixed)
    start = np.zeros_like(points)
    caught = chase(screen, program, start, u, row_lengths(program, u[0], budget), 200, budget)
    assert np.all(np.abs(caught.points) <= 1.0)
    assert np.allclose(caught.values, screen.norms(screen.forward(caught.points)))
    own = screen.norms(screen.forward(points))
    assert np.mean(caught.values >= own * (1 - 1e-4)) > 0.7


def test_search_equals_enumeration_on_random_networks() -> None:
    reached, seeds = 0, range(20, 25)
    for seed in seeds:
        net, box, c = case(seed)
        exact = exact_constant(net, box, c)
        value = search(Problem.of(net, box, c), Budget.of_work(0.3), samples=200).value
        assert value <= exact * (1 + 1e-9)
        reached += value >= exact * (1 - 1e-7)
    assert reached >= len(seeds) - 1


def test_bound_rounds_while_it_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stays in the middle: the moment matrix alone leads to the constant, and the gap is told."""
    net, box, c = case(3)

    def lazy(problem: Problem, *_: object, **__: object) -> Witness:
        return middle(problem)

    monkeypatch.setattr(lower, "search", lazy)
    seen: list[Progress] = []
    result = lipcert.bound(net, box, output=c, method="tight", work=5.0, on_progress=seen.append)
    assert result.lower is not None
    assert result.lower >= exact_constant(net, box, c) * (1 - 1e-7)
    assert result.lower > middle(Problem.of(net, box, c)).value
    assert result.gap == pytest.approx(seen[-1].gap)
    assert seen[0].gap is None
    assert lipcert.bound(net, box, output=c, method="tight", work=5.0, lower=False).lower is None
