"""Multipliers of slope programs: optimal on small ones, better and better, feasible whatever the network."""

from __future__ import annotations

import numpy as np
import pytest

from lipcert.budget import Budget
from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram
from lipcert.rounding import Array
from lipcert.solver.slopes import choice
from lipcert.solver.slopes.choice import SlopeSolver
from lipcert.solver.slopes.first_order import FirstOrder
from lipcert.solver.slopes.greedy import greedy
from lipcert.solver.slopes.settle import settle
from lipcert.solver.slopes.walk import Walk, estimate, in_units
from tests.constants import set_constant
from tests.slope_programs import branched, chain, form, optimum, random_weights, recipe


def solved(program: SlopeProgram, budget: Budget | None = None) -> tuple[SlopeMultipliers, list[float]]:
    seen: list[float] = []

    def better(multipliers: SlopeMultipliers, value: float) -> bool:
        assert multipliers.fits(program)
        assert estimate(program, multipliers) == pytest.approx(value, rel=1e-6, abs=1e-6)
        seen.append(value)
        return False

    return SlopeSolver(program).run(budget or Budget.of_work(20.0), better), seen


def check_feasible(program: SlopeProgram, multipliers: SlopeMultipliers, value: float, least: float = 1e-12) -> None:
    """The whole form is positive, and by more than rounding, at a tau that loses less than 1e-6."""
    M = form(program, multipliers, (1 - 1e-6) / value**2)
    scale = 1 / np.sqrt(np.diagonal(M))
    assert np.linalg.eigvalsh(M * scale[:, None] * scale)[0] > least


PROGRAMS = {
    "chain": lambda rng: chain(random_weights(rng, (3, 5, 4, 6, 2))),
    "one output": lambda rng: chain(random_weights(rng, (3, 5, 4, 1))),
    "one layer": lambda rng: chain(random_weights(rng, (3, 7, 2))),
    "wide input": lambda rng: chain(random_weights(rng, (20, 4, 5, 3))),
    "wide output": lambda rng: chain(random_weights(rng, (2, 4, 4, 15))),
    "weighted": lambda rng: chain(random_weights(rng, (4, 5, 4, 2)), weighted=True),
    "weighted, wide": lambda rng: chain(random_weights(rng, (9, 3, 4, 1)), weighted=True),
    "one input, weighted": lambda rng: chain(random_weights(rng, (1, 4, 4, 2)), weighted=True),
    "leaky": lambda rng: chain(random_weights(rng, (3, 5, 4, 4, 2)), (0.1, 1.0)),
    "nearly linear": lambda rng: chain(random_weights(rng, (3, 5, 4, 4, 2)), (0.8, 1.0)),
    "symmetric": lambda rng: chain(random_weights(rng, (3, 5, 4, 4, 2)), (-1.0, 1.0)),
    "swish": lambda rng: chain(random_weights(rng, (3, 5, 4, 4, 2)), (-0.1, 1.1)),
    "falling": lambda rng: chain(random_weights(rng, (3, 5, 4, 2)), (-2.0, 0.0)),
    "branches": lambda rng: branched(rng),
    "branches, weighted": lambda rng: branched(rng, weighted=True),
    "branches, leaky": lambda rng: branched(rng, slopes=(0.2, 1.0)),
    "branches, swish, weighted": lambda rng: branched(rng, weighted=True, slopes=(-0.2, 1.0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_optimum_of_small_programs(name: str, seed: int) -> None:
    program = PROGRAMS[name](np.random.default_rng(seed))
    best = optimum(program)
    multipliers, seen = solved(program)
    assert seen[-1] == pytest.approx(best, rel=2e-6)
    check_feasible(program, multipliers, seen[-1])
    assert seen == sorted(seen, reverse=True)
    assert estimate(program, multipliers) == pytest.approx(seen[-1], rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_optimum_where_every_neuron_has_its_own_slopes(seed: int) -> None:
    """Also single slopes, among them zero, which are substituted."""
    rng = np.random.default_rng(seed)
    program = branched(rng, weighted=seed % 2 == 1) if seed < 4 else chain(random_weights(rng, (3, 5, 4, 4, 2)))
    blocks = []
    for block in program.blocks:
        a, b = np.sort(rng.uniform(-0.3, 1.0, size=(2, block.width)), axis=0)
        single = rng.uniform(size=block.width) < 0.3
        b[single] = a[single]
        blocks.append(SlopeBlock(block.terms, a, b))
    program = SlopeProgram(program.inputs, tuple(blocks), program.head, program.weighted)
    multipliers, seen = solved(program)
    best = optimum(program)  # from above: best multipliers of single slopes are infinite, and the solver stops before
    assert best * (1 - 1e-3) < seen[-1] < best * (1 + 1e-6)
    check_feasible(program, multipliers, seen[-1] * (1 + 1e-6), 2e-15)


def test_depth_sixteen_to_its_optimum() -> None:
    """The first multipliers are those of the greedy pass, far below what one number for each layer proves."""
    program = chain(recipe(16, 16))
    multipliers, seen = solved(program)
    assert greedy(program, 0)[0].bound == pytest.approx(595.353, rel=1e-5)
    assert seen[0] < 97
    assert seen[-1] == pytest.approx(52.459485, rel=1e-6)
    check_feasible(program, multipliers, seen[-1])


def test_first_order_alone_comes_close(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "SLOPES_ORDER", 0)
    program = chain(recipe(6, 6))
    multipliers, seen = solved(program, Budget.of_work(0.6))
    assert seen[-1] < 1.01 * optimum(program)
    check_feasible(program, multipliers, seen[-1])


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_against_differences(weighted: bool) -> None:
    program = settle(branched(np.random.default_rng(3), weighted, (-0.1, 0.9))).program
    walked, weights = greedy(program, 3)
    method = FirstOrder(in_units(program, walked.exponents, walked.last), Budget.unlimited(), 0.05)
    at = next(method.points(walked.t, weights))
    for k in range(len(at.x)):
        step = 1e-5 * np.eye(len(at.x))[k]
        ahead, behind = method._evaluate(at.x + step), method._evaluate(at.x - step)
        assert ahead is not None
        assert behind is not None
        assert (ahead.value - behind.value) / 2e-5 == pytest.approx(at.gradient[k], abs=1e-7)


def test_stops_when_told_and_when_the_budget_is_over() -> None:
    program = chain(recipe(8, 8))
    seen: list[float] = []

    def third(_: SlopeMultipliers, value: float) -> bool:
        seen.append(value)
        return len(seen) == 3

    SlopeSolver(program).run(Budget.of_work(20.0), third)
    assert len(seen) == 3
    for work in (0.0, 0.003, 0.03):
        budget = Budget.of_work(work)
        multipliers, seen = solved(program, budget)
        assert np.isfinite(estimate(program, multipliers))
        assert budget.spent().counted < work + 0.01
    assert len(solved(program, Budget.of_work(0.0))[1]) == 1


@pytest.mark.parametrize("shares", [(0.02, 0.2, 20.0), (0.3, 20.0), (0.1,) * 6 + (20.0,)])
def test_goes_on_where_the_last_budget_ended(shares: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several budgets end where one does, with one greedy start and less work in the last; then nothing is left."""
    program = chain(recipe(8, 8))
    calls: list[int] = []
    seen: list[float] = []

    def counted(program: SlopeProgram, rounds: int, room: float) -> tuple[Walk, Array | None]:
        calls.append(rounds)
        return greedy(program, rounds, room)

    def better(_: SlopeMultipliers, value: float) -> bool:
        seen.append(value)
        return False

    monkeypatch.setattr(choice, "greedy", counted)
    whole = Budget.of_work(20.0)
    value = estimate(program, SlopeSolver(program).run(whole, lambda *_: False))
    passes = len(calls)
    solver = SlopeSolver(program)
    for share in shares:
        budget = Budget.of_work(share)
        multipliers = solver.run(budget, better)
        assert estimate(program, multipliers) == pytest.approx(min(seen), rel=1e-6)
    assert seen == sorted(seen, reverse=True)
    assert estimate(program, multipliers) == pytest.approx(value, rel=1e-5)
    assert len(calls) - passes <= passes
    assert budget.spent().counted < whole.spent().counted
    assert solver.ended
    budget, before = Budget.of_work(1.0), len(seen)
    assert solver.run(budget, better) is multipliers
    assert (budget.spent().counted, len(seen)) == (0.0, before)


def degenerate(kind: str, rng: np.random.Generator) -> list[Array]:
    weights = random_weights(rng, (4, 5, 5, 4, 2))
    if kind == "zero rows":
        weights[1][[0, 3]] = 0.0
    if kind == "dead":
        weights[2][:, 2] = 0.0
        weights[3][:, 0] = 0.0
    if kind == "dead after dead":
        weights[3][:, [0, 1]] = 0.0
        weights[2][2:, 3] = 0.0
    if kind == "zero input":
        weights[0][:, 1] = 0.0
    if kind == "equal rows":
        weights[1][:] = weights[1][0]
    return weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["zero rows", "dead", "dead after dead", "zero input", "equal rows"])
def test_degenerate_networks(kind: str, weighted: bool) -> None:
    program = chain(degenerate(kind, np.random.default_rng(7)), weighted=weighted)
    multipliers, _ = solved(program)
    best = optimum(program)
    assert best * (1 - 1e-4) < estimate(program, multipliers) < best * (1 + 1e-5)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_layer_of_zeros(layer: int) -> None:
    weights = random_weights(np.random.default_rng(8), (3, 4, 4, 2))
    weights[layer][:] = 0.0
    multipliers, seen = solved(chain(weights))
    assert seen[-1] == 0.0
    assert multipliers.fits(chain(weights))
    assert estimate(chain(weights), multipliers) < 1e-6


@pytest.mark.parametrize("exponents", [(-498, 498, 0, 0), (498, -498, 3, 0), (0, -240, -240, 400), (240, 240, -300, 7)])
@pytest.mark.parametrize("weighted", [False, True])
def test_units_of_layers_do_not_matter(exponents: tuple[int, ...], weighted: bool) -> None:
    weights = random_weights(np.random.default_rng(9), (3, 5, 4, 4, 2))
    _, seen = solved(chain(weights, weighted=weighted))
    scaled = chain([np.ldexp(w, e) for w, e in zip(weights, exponents, strict=True)], weighted=weighted)
    multipliers, others = solved(scaled)
    assert others[-1] == pytest.approx(np.ldexp(seen[-1], sum(exponents)), rel=1e-7)
    assert estimate(scaled, multipliers) == pytest.approx(others[-1], rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_sparse_networks_that_are_zero_or_nearly(seed: int) -> None:
    """Few entries: most neurons read nothing or are read by nobody, in chains of their own."""
    rng = np.random.default_rng(seed)
    weights = [100 * w * (rng.uniform(size=w.shape) < 0.12) for w in random_weights(rng, (5,) * 9)]
    program = chain(weights)
    multipliers, seen = solved(program)
    assert multipliers.fits(program)
    assert estimate(program, multipliers) <= max(seen[-1] * (1 + 1e-5), 1e-6)


def test_units_of_neurons_do_not_matter() -> None:
    rng = np.random.default_rng(10)
    weights = random_weights(rng, (3, 5, 4, 4, 2))
    d = [np.exp(rng.normal(size=len(w)) * 4) for w in weights[:-1]]
    scaled = [weights[0] * d[0][:, None], weights[1] * d[1][:, None] / d[0], weights[2] * d[2][:, None] / d[1]]
    scaled.append(weights[3] / d[2])
    assert solved(chain(scaled))[1][-1] == pytest.approx(solved(chain(weights))[1][-1], rel=1e-6)


def test_multipliers_that_are_not_feasible_promise_nothing() -> None:
    program = chain(random_weights(np.random.default_rng(11), (3, 5, 4, 2)))
    multipliers, _ = solved(program)
    large = SlopeMultipliers(tuple(100 * t for t in multipliers.neurons))
    assert estimate(program, large) == float("inf")
    missing = SlopeMultipliers(multipliers.neurons[:1])
    assert estimate(program, missing) == float("inf")
    negative = SlopeMultipliers(tuple(-t for t in multipliers.neurons))
    assert estimate(program, negative) == float("inf")


def test_a_linear_map_needs_no_multipliers() -> None:
    rng = np.random.default_rng(12)
    W = rng.normal(size=(3, 4))
    multipliers, seen = solved(SlopeProgram(4, (), ((0, W),), False))
    assert multipliers.neurons == ()
    assert seen == [pytest.approx(np.linalg.norm(W, 2), rel=1e-12)]
