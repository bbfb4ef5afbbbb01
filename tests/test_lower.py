"""Lower bounds: every witness lies in the region, has the value it claims, and never exceeds the true constant."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert.errors import InputError
from lipcert.problem.activations import Activation
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.region import Box, Everywhere, Region
from lipcert.rounding import Array
from lipcert.witness import Witness, ascent, evaluate, sample_points, sampling, search
from lipcert.witness import screen as screens
from lipcert.witness.patterns import applies
from lipcert.witness.program import Program
from lipcert.witness.screen import Chart, Screen

SMOOTH_AND_KINKED: tuple[Activation, ...] = (
    Activation("identity"),
    Activation("relu"),
    Activation("leaky_relu", 0.1),
    Activation("leaky_relu", 1.5),
    Activation("elu", 1.0),
    Activation("elu", 2.0),
    Activation("softplus"),
    Activation("sigmoid"),
    Activation("tanh"),
)


def random_network(seed: int, shape: tuple[int, ...], activation: Activation | str = "relu") -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(shape)]
    return Network.from_weights(weights, [rng.normal(size=m) * 0.5 for m in shape[1:]], activation)


def check(witness: Witness, net: Network, region: Region, c: Array, norm: Norm = INF) -> None:
    assert region.contains(witness.point)
    assert witness.value == evaluate(net, witness.point, c, norm)
    with np.errstate(over="ignore", invalid="ignore"):
        formal = float(norm.dual.of(net.gradient(witness.point, c))[0])
    assert 0 <= witness.value < np.inf
    assert witness.value <= formal * (1 + 1e-9) + 1e-12 or not np.isfinite(formal)


def constant_by_enumeration(net: Network, box: Box, c: Array) -> float:
    """The largest gradient norm of all patterns that some open part of the box has: 2^neurons linear programs."""
    program = Program.of(net, Chart.of(net, box), c)
    best = 0.0
    for bits in itertools.product((False, True), repeat=net.neurons):
        u = np.array(bits)
        if np.any((u != program.fixed) & ~program.free):
            continue
        value = float(INF.dual.of(net.chain_rule(program.layers(u[None, :]), c))[0])
        if value > best and (answer := program.solve(u, 10.0)) is not None and answer[1] > 1e-9:
            best = value
    return best


@pytest.mark.parametrize("activation", SMOOTH_AND_KINKED, ids=str)
@pytest.mark.parametrize("shape", [(3, 2), (4, 6, 2), (3, 5, 4, 2), (2, 3, 3, 3, 1)], ids=str)
def test_witness_of_every_activation_and_depth(activation: Activation, shape: tuple[int, ...]) -> None:
    net = random_network(1, shape, activation)
    c = np.arange(1.0, 1.0 + shape[-1])
    for region in (Box(np.full(shape[0], 0.3), 0.7), Everywhere()):
        check(search(net, region, c, INF, seconds=0.25, samples=500), net, region, c)


@pytest.mark.parametrize("p", ["1", "2", "inf"])
def test_other_norms(p: str) -> None:
    net, c, box = random_network(2, (5, 8, 1)), np.ones(1), Box(np.zeros(5), 1.0)
    w = search(net, box, c, Norm(p), seconds=2.0, samples=2000)
    check(w, net, box, c, Norm(p))
    plain = sampling(net, box, c, Norm(p), samples=2000, rng=np.random.default_rng(0))
    assert w.value >= plain.value * (1 - 1e-9)


def test_a_formal_gradient_at_a_kink_is_no_witness() -> None:
    """f(x) = x - relu(x) + relu(-x) = 0, with a formal gradient of 1 at 0."""
    net = Network.from_weights([[[1.0], [-1.0], [1.0], [-1.0]], [[1.0, -1.0, -1.0, 1.0]]])
    assert evaluate(net, np.zeros(1), np.ones(1), INF) == 0
    zero = Network.from_weights([[[1.0], [-1.0]], [[-1.0, 1.0]]])  # -relu(x) + relu(-x) = -x; formally 0 at the kink
    skip = Network.from_weights(
        [[[1.0], [1.0], [-1.0]], [[1.0, -1.0, 1.0]]], [[5.0, 0.0, 0.0], [-5.0]]
    )  # x - relu(x) + relu(-x), which is 0 on [-5, 5]
    assert np.abs(skip.gradient(np.zeros((1, 1)), np.ones(1))).item() == 1.0
    assert evaluate(skip, np.zeros(1), np.ones(1), INF) == 0
    for region in (Box([0.0], 1.0), Box([0.0], 0.0)):
        assert search(skip, region, np.ones(1), INF, seconds=0.5, samples=200).value == 0
    assert sample_points(skip, np.zeros((3, 1)), np.ones(1), INF).value <= 0
    assert search(zero, Box([0.0], 1.0), np.ones(1), INF, seconds=0.5, samples=200).value == pytest.approx(1)


def test_points_on_kinks_are_moved_off_them() -> None:
    """relu(x + 9) - relu(x) is 9 + x to the left of its kink at 0, where nothing can be said."""
    net = Network.from_weights([[[1.0], [1.0]], [[1.0, -1.0]]], [[9.0, 0.0], [0.0]])
    box = Box([0.0], 1e-6)
    assert evaluate(net, np.zeros(1), np.ones(1), INF) == 0
    w = sample_points(net, np.zeros((1, 1)), np.ones(1), INF, region=box)
    assert w.value == pytest.approx(1)
    assert w.point[0] < 0
    assert box.contains(w.point)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 5), st.floats(0.0, 3.0), st.booleans())
def test_search_never_exceeds_the_constant_of_small_networks(
    seed: int, inputs: int, width: int, radius: float, leaky: bool
) -> None:
    activation = Activation("leaky_relu", 0.2) if leaky else Activation("relu")
    net = random_network(seed, (inputs, width, 1), activation)
    box, c = Box(np.random.default_rng(seed).normal(size=inputs), radius), np.ones(1)
    w = search(net, box, c, INF, seconds=2.0, samples=200)
    check(w, net, box, c)
    if radius > 1e-3:
        exact = constant_by_enumeration(net, box, c)
        assert w.value <= exact * (1 + 1e-9) + 1e-12
        assert w.value >= exact * (1 - 1e-6)


def test_exact_constants_of_two_hidden_layers() -> None:
    found = []
    for seed in range(4):
        net, box, c = random_network(seed, (3, 4, 3, 1)), Box(np.zeros(3), 0.8), np.ones(1)
        exact = constant_by_enumeration(net, box, c)
        w = search(net, box, c, INF, seconds=3.0, samples=2000)
        assert w.value <= exact * (1 + 1e-9)
        found.append(w.value / exact)
    assert min(found) > 1 - 1e-6


@settings(max_examples=20, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2), st.floats(0.01, 3))
def test_one_neuron_in_closed_form(w: float, b: float, out: float, center: float, radius: float) -> None:
    """out relu(w x + b): |out w| where the neuron can be active in the box, 0 otherwise."""
    net = Network.from_weights([[[w]], [[out]]], [[b], [0.0]])
    box = Box([center], radius)
    highest = max(w * box.lo[0] + b, w * box.hi[0] + b)
    value = search(net, box, np.ones(1), INF, seconds=0.5, samples=100).value
    assert value <= abs(out * w) * (1 + 1e-12)
    if highest <= 0:
        assert value == 0
    elif highest > 1e-2:
        assert value == pytest.approx(abs(out * w), rel=1e-12)


@pytest.mark.parametrize("activation", SMOOTH_AND_KINKED, ids=str)
@pytest.mark.parametrize("p", ["1", "2", "inf"])
def test_derivative_of_the_smoothed_objective(activation: Activation, p: str) -> None:
    net = random_network(5, (4, 6, 5, 3, 2), activation)
    box, c = Box(np.full(4, 0.2), 0.5), np.array([1.0, -2.0])
    screen = Screen(net, Chart.of(net, box), c, Norm(p), dtype=np.float64)
    rng = np.random.default_rng(0)
    v, d = rng.uniform(-1, 1, (20, 4)), rng.normal(size=(20, 4))
    sharpness: list[Array | float] = [3.0, np.full((20, 5), 2.0), 4.0]
    h = 1e-6
    up, down = (screen.smoothed(screen.forward(v + s * h * d), sharpness)[0] for s in (1, -1))
    slope = np.einsum("ij,ij->i", screen.smoothed(screen.forward(v), sharpness)[1], d)
    assert np.median(np.abs((up - down) / (2 * h) - slope)) < 1e-7
    assert np.mean(np.abs((up - down) / (2 * h) - slope) < 1e-5) >= 0.9  # the others sit next to a kink


def test_the_screen_agrees_with_the_network() -> None:
    net = random_network(6, (7, 9, 8, 2), Activation("leaky_relu", 0.3))
    box, c = Box(np.linspace(50, 60, 7), 0.01), np.array([1.0, 1.0])
    chart = Chart.of(net, box)
    screen = Screen(net, chart, c, INF)
    v = chart.draw(np.random.default_rng(0), 100, np.float32)
    exact = INF.dual.of(net.gradient(chart.points(v), c))
    assert screen.norms(screen.forward(v)) == pytest.approx(exact, rel=1e-5)
    assert chart.coordinates(chart.points(v)) == pytest.approx(v, abs=1e-6)


def test_sampling_does_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box, c = random_network(7, (6, 10, 1)), Box(np.zeros(6), 2.0), np.ones(1)
    whole = sampling(net, box, c, INF, samples=3001, rng=np.random.default_rng(3))
    monkeypatch.setattr(screens, "CHUNK_BYTES", 10_000)
    pieces = sampling(net, box, c, INF, samples=3001, rng=np.random.default_rng(3))
    assert pieces.value == whole.value


def test_given_points() -> None:
    net, c = random_network(8, (4, 6, 1)), np.ones(1)
    points = np.random.default_rng(0).normal(size=(9000, 4))
    w = sample_points(net, points, c, INF)
    assert w.value == pytest.approx(float(INF.dual.of(net.gradient(points, c)).max()), rel=1e-12)
    assert sample_points(net, iter([points[:4000], points[4000:]]), c, INF).value == w.value
    with pytest.raises(InputError, match="outside"):
        sample_points(net, points, c, INF, region=Box(np.zeros(4), 0.1))
    with pytest.raises(InputError, match="no point"):
        sample_points(net, np.zeros((0, 4)), c, INF)


def test_same_seed_same_witness_and_progress_improves() -> None:
    net, box, c = random_network(9, (8, 12, 6, 1)), Box(np.zeros(8), 0.5), np.ones(1)
    seen: list[Witness] = []
    first = search(net, box, c, INF, seconds=30.0, seed=4, samples=1000, on_progress=seen.append)
    second = search(net, box, c, INF, seconds=30.0, seed=4, samples=1000)
    assert np.array_equal(first.point, second.point)
    values = [w.value for w in seen]
    assert values == sorted(set(values))
    assert seen[-1].value == first.value
    with pytest.raises(ValueError, match="read-only"):
        first.point[0] = 1.0


def test_interrupts_reach_the_caller() -> None:
    def stop(_: Witness) -> None:
        raise KeyboardInterrupt

    net = random_network(9, (8, 12, 1))
    with pytest.raises(KeyboardInterrupt):
        search(net, Box(np.zeros(8), 1.0), np.ones(1), INF, seconds=5.0, on_progress=stop)


def test_time_limit_is_kept() -> None:
    net = random_network(10, (300, 300, 200, 10))
    region, c = Box(np.zeros(300), 1.0), np.eye(10)[0]
    for seconds in (0.0, 0.5):
        start = time.monotonic()
        check(search(net, region, c, INF, seconds=seconds), net, region, c)
        assert time.monotonic() - start < seconds + 2.5


@pytest.mark.parametrize("shape", [(5, 4, 1), (5, 4, 3, 1)], ids=str)
def test_degenerate_problems(shape: tuple[int, ...]) -> None:
    net, c = random_network(11, shape), np.ones(1)
    for radius in (np.zeros(5), np.array([0.0, 0.5, 0.0, 0.5, 0.0])):
        box = Box(np.full(5, 0.4), radius)
        check(search(net, box, c, INF, seconds=0.5, samples=200), net, box, c)
    unit = Box(np.zeros(5), 1.0)
    assert search(net, unit, np.zeros(1), INF, seconds=0.5, samples=200).value == 0
    clipped = Box(np.full(5, 0.9), 0.5, clip=(0.0, 1.0))
    check(search(net, clipped, c, INF, seconds=0.5, samples=200), net, clipped, c)


def test_dead_neurons_zero_rows_and_unused_outputs() -> None:
    rng = np.random.default_rng(0)
    A, w = rng.normal(size=(6, 4)), rng.normal(size=(1, 6))
    A[1] = 0.0
    w[0, 2] = 0.0
    b = np.array([0.0, 0.0, 0.1, -100.0, 100.0, 0.2])
    net, box = Network.from_weights([A, w], [b, [0.0]]), Box(np.zeros(4), 1.0)
    c = np.ones(1)
    result = search(net, box, c, INF, seconds=2.0, samples=500)
    assert result.value == pytest.approx(constant_by_enumeration(net, box, c), rel=1e-9)
    dead = Network.from_weights([np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 2))], [[-9.0, -9.0], [0.0, 0.0], [0.0]])
    assert search(dead, Box(np.zeros(3), 1.0), c, INF, seconds=0.5, samples=100).value == 0


def test_sparse_weights_and_huge_weights() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 30)) * (rng.random((20, 30)) < 0.2)
    w, b, c = rng.normal(size=(1, 20)), rng.normal(size=20), np.ones(1)
    dense, thin = (Network.from_weights([m, w], [b, [0.0]]) for m in (A, sparse.csr_array(A)))
    box = Box(np.zeros(30), 1.0)
    values = [search(n, box, c, INF, seconds=5.0, samples=500).value for n in (dense, thin)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    for factor in (1e20, 1e200):
        huge = Network.from_weights([A * factor, w * factor], [b, [0.0]])
        check(search(huge, box, c, INF, seconds=0.5, samples=200), huge, box, c)


def test_ascent_from_given_starts_beats_them() -> None:
    net, box, c = random_network(12, (10, 20, 10, 1)), Box(np.zeros(10), 0.5), np.ones(1)
    rng = np.random.default_rng(0)
    start = sampling(net, box, c, INF, samples=100, rng=rng)
    found = ascent(net, box, c, INF, rng=rng, starts=start.point, seconds=5.0)
    check(found, net, box, c)
    assert found.value >= start.value * (1 - 1e-9)
    assert not applies(net)
