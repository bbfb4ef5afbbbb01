"""Witnesses of deep networks: long numbers against fractions, proofs where intervals give up, and the annealing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.problem.activations import Activation
from lipcert.problem.blocks import Block
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.rounding import Array
from lipcert.rounding.digits import Long, OutOfRangeError, sliced
from lipcert.witness import evaluate, precise, search
from lipcert.witness.chart import Chart


def deep_network(depth: int, width: int, seed: int = 0, outputs: int = 10, kind: str = "relu") -> Network:
    rng = np.random.RandomState(seed)
    weights = [rng.randn(width, width) / np.sqrt(width) for _ in range(depth)]
    return Network.from_weights([*weights, rng.randn(outputs, width) / np.sqrt(width)], activation=kind)


def exact_gradient(net: Network, point: Array, d: Array) -> list[Fraction] | None:
    """In rational numbers, any graph of blocks; None where a neuron is at its kink."""
    dense = [[(j, w.toarray() if sparse.issparse(w) else w) for j, w in b.terms] for b in net.blocks]
    xs, slopes = [[Fraction(float(v)) for v in point]], []
    for block, terms, f in zip(net.hidden, dense, net.activations, strict=False):
        z = [Fraction(float(b)) for b in block.bias]
        for j, w in terms:
            products = [sum(Fraction(float(a)) * x for a, x in zip(row, xs[j], strict=True)) for row in w]
            z = [s + product for s, product in zip(z, products, strict=True)]
        if f.kinked and not all(z):
            return None
        slopes.append([Fraction(1) if v > 0 or not f.kinked else Fraction(float(f.alpha)) for v in z])
        xs.append([s * v for s, v in zip(slopes[-1], z, strict=True)])
    behind = [[Fraction(0)] * width for width in (net.inputs, *(b.width for b in net.blocks))]
    behind[-1] = [Fraction(float(v)) for v in d]
    for i in range(len(net.blocks), 0, -1):
        r = behind[i] if i == len(net.blocks) else [a * s for a, s in zip(behind[i], slopes[i - 1], strict=True)]
        for j, w in dense[i - 1]:
            for row, a in zip(w, r, strict=True):
                behind[j] = [b + a * Fraction(float(v)) for b, v in zip(behind[j], row, strict=True)]
    return behind[0]


def branched(seed: int, alpha: float) -> Network:
    rng = np.random.default_rng(seed)
    kind = Activation("leaky_relu", alpha) if alpha else Activation("relu")
    blocks = [Block(((0, rng.normal(size=(4, 3))),), rng.normal(size=4), kind)]
    for i in range(1, 9):
        skip = sparse.csr_array(rng.normal(size=(4, 4)) * (rng.random((4, 4)) < 0.5))
        terms = ((i - 1, rng.normal(size=(4, 3 if i == 1 else 4)) * 1e-7), (i, skip))
        blocks.append(Block(terms, rng.normal(size=4) * 1e-3, kind))
    return Network.from_blocks([*blocks, Block(((9, rng.normal(size=(2, 4))),), np.zeros(2))])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.5]), st.integers(2, 9))
def test_long_numbers_agree_with_fractions(seed: int, alpha: float, count: int) -> None:
    net, rng = branched(seed, alpha), np.random.default_rng(seed)
    point, d = rng.normal(size=3), rng.normal(size=2)
    pre, exact = precise.preactivations(net, point, count), exact_gradient(net, point, d)
    assert pre is not None
    certain = all(bool(np.all((z.lo > 0) | (z.hi < 0))) for z in pre)
    least = precise.gradient(net, [z.lo > 0 for z in pre], d, count) if certain else None
    if least is None or exact is None:
        assert count < 8 or exact is None or not any(exact)
        return
    largest = max(abs(v) for v in exact)
    for low, true in zip(least, exact, strict=True):
        assert Fraction(float(low)) <= abs(true)
        assert float(abs(true) - Fraction(float(low))) <= 1e-8 * float(largest)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=5))
def test_slices_add_up(values: list[float]) -> None:
    x = np.array(values)
    slices, top, left = sliced(x)
    for k, value in enumerate(values):
        total = sum(Fraction(int(part[k])) * Fraction(2) ** (18 * (top - i)) for i, part in enumerate(slices))
        assert abs(total - Fraction(value)) <= Fraction(left)
        assert all(abs(part[k]) <= 2**17 for part in slices)
    long = Long.of(x)
    assert np.allclose(long.floats, x, rtol=1e-12, atol=2 * left)
    assert np.all(long.least <= np.abs(x))


def test_numbers_out_of_range_are_left_to_intervals() -> None:
    with pytest.raises(OutOfRangeError):
        sliced(np.array([1e300]))
    net = Network.from_weights([np.eye(2) * 1e280] * 9)
    assert precise.preactivations(net, np.ones(2), 8) is None
    assert precise.gradient(net, [np.ones(2, dtype=bool)] * 8, np.ones(2), 8) is None
    assert evaluate(Problem.of(net, Everywhere(), 0), np.ones(2)) >= 0


def test_deep_points_are_proved_where_intervals_say_nothing() -> None:
    net, point = deep_network(64, 16), np.random.default_rng(0).normal(size=16)
    problem = Problem.of(net, Everywhere(), 0, "2")
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    assert not gradient_bounds(net, pre, problem.c)[0].mignitude.any()
    exact = exact_gradient(net, point, problem.c)
    assert exact is not None
    true = float(sum(v * v for v in exact)) ** 0.5
    value = evaluate(problem, point)
    assert true * (1 - 1e-9) <= value <= true * (1 + 1e-15)


def test_a_kink_of_a_deep_network_is_no_witness() -> None:
    """x - relu(x) + relu(-x) = 0 behind ten layers that change nothing."""
    kink = [np.array([[1.0], [1.0], [-1.0]]), *[np.eye(3)] * 10, np.array([[1.0, -1.0, 1.0]])]
    net = Network.from_weights(kink, [np.array([5.0, 0.0, 0.0]), *[np.zeros(3)] * 10, np.array([-5.0])])
    assert evaluate(Problem.of(net, Everywhere()), np.zeros(1)) == 0
    assert search(Problem.of(net, Box([0.0], 1.0)), Budget.of_work(0.3)).value <= 1e-12


@pytest.mark.parametrize(
    ("output", "norm", "out"), [("all", "2", None), ("all", "inf", "1"), ("all", "1", "inf"), (0, "1", None)]
)
@pytest.mark.parametrize("region", [Everywhere(), Box(np.zeros(6), 1.0), Ball(np.full(6, 0.5), 0.5)], ids=str)
def test_deep_witnesses_in_every_norm_and_region(output: str | int, norm: str, out: str | None, region: Region) -> None:
    problem = Problem.of(deep_network(12, 6, 4), region, output, norm, out)
    found = search(problem, Budget.of_work(0.3))
    assert region.contains(found.point)
    assert found.value == evaluate(problem, found.point) > 0


@pytest.mark.parametrize(("seed", "exact"), [(0, 2.00344), (2, 0.274922)])
def test_the_constant_of_eight_layers_of_four(seed: int, exact: float) -> None:
    """By enumeration of all patterns, which takes a minute."""
    found = search(Problem.of(deep_network(8, 4, seed), Everywhere(), "all", "2"), Budget.of_work(1.0))
    assert found.value == pytest.approx(exact, rel=1e-5)


def test_deep_witnesses_repeat() -> None:
    problem = Problem.of(deep_network(10, 5, 1), Everywhere(), "all", "2")
    one, two = (search(problem, Budget.of_work(0.3), seed=3) for _ in range(2))
    assert one.value == two.value
    assert np.array_equal(one.point, two.point)


def test_sixty_four_layers_have_a_witness() -> None:
    """Samples of 200 points have 1.5e-10; intervals proved nothing of any of them."""
    problem = Problem.of(deep_network(64, 16), Everywhere(), "all", "2")
    found = search(problem, Budget.of_work(1.0))
    assert found.value > 1e-10
    assert found.value == evaluate(problem, found.point)


def test_directions_are_all_that_matters_without_biases() -> None:
    net = deep_network(9, 5)
    chart = Chart.of(Problem.of(net, Everywhere(), 0))
    v = chart.draw(np.random.default_rng(0), 7, np.float64)
    assert chart.sphere
    assert np.allclose(np.linalg.norm(v, axis=1), 5**0.5)
    assert np.allclose(chart.confine(3 * v), v)
    assert not Chart.of(Problem.of(net, Box(np.zeros(5), 1.0), 0)).sphere
    assert not Chart.of(Problem.of(deep_network(9, 5, kind="tanh"), Everywhere(), 0)).sphere
    biased = Network.from_weights([np.eye(5), np.eye(5)], [np.ones(5), np.zeros(5)])
    assert not Chart.of(Problem.of(biased, Everywhere(), 0)).sphere
