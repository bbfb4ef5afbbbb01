"""Lower bounds: every witness lies in the region, has the value it claims, and never exceeds the true constant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.blocks import Block
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Everywhere
from lipcert.rounding import Array
from lipcert.witness import Witness, evaluate, sample_points, sampling, search
from lipcert.witness.patterns import patterns_apply
from lipcert.witness.program import PatternProgram
from lipcert.witness.screen import PASS_SECONDS, Screen
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.strategies import branched_networks

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
OTHERS = tuple(Activation(kind) for kind in ("softsign", "erf", "gelu", "gelu_tanh", "silu", "mish", "hardswish"))


def random_network(seed: int, shape: tuple[int, ...], activation: Activation | str = "relu") -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(shape)]
    return Network.from_weights(weights, [rng.normal(size=m) * 0.5 for m in shape[1:]], activation)


def check(witness: Witness, problem: Problem) -> None:
    assert problem.region.contains(witness.point)
    assert witness.value == evaluate(problem, witness.point)
    with np.errstate(over="ignore", invalid="ignore"):
        formal = float(problem.norm.dual.of(problem.network.gradient(witness.point, problem.c))[0])
    assert 0 <= witness.value < np.inf
    assert witness.value <= formal * (1 + 1e-9) + 1e-12 or not np.isfinite(formal)


def constant_by_enumeration(problem: Problem) -> float:
    """The largest gradient norm of all patterns that some open part of the box has: 2^neurons linear programs."""
    budget, net, dual = Budget.of_work(np.inf), problem.network, problem.norm.dual
    program = PatternProgram.of(problem, budget)
    best = 0.0
    for bits in itertools.product((False, True), repeat=net.neurons):
        u = np.array(bits)
        if np.any((u != program.fixed) & ~program.free):
            continue
        value = float(dual.of(net.chain_rule(program.slopes(u[None, :]), problem.c))[0])
        if value > best and (answer := program.solve(u, budget)) is not None and answer[1] > 1e-9:
            best = value
    return best


@pytest.mark.parametrize("activation", SMOOTH_AND_KINKED, ids=str)
@pytest.mark.parametrize("shape", [(3, 2), (4, 6, 2), (3, 5, 4, 2), (2, 3, 3, 3, 1)], ids=str)
def test_witness_of_every_activation_and_depth(activation: Activation, shape: tuple[int, ...]) -> None:
    net = random_network(1, shape, activation)
    c = np.arange(1.0, 1.0 + shape[-1])
    for region in (Box(np.full(shape[0], 0.3), 0.7), Everywhere()):
        problem = Problem.of(net, region, c)
        check(search(problem, Budget.of_work(0.25), samples=500), problem)


@pytest.mark.parametrize("p", ["1", "2", "inf"])
def test_other_norms(p: str) -> None:
    problem = Problem.of(random_network(2, (5, 8, 1)), Box(np.zeros(5), 1.0), norm=p)
    w = search(problem, Budget.of_work(2.0), samples=2000)
    check(w, problem)
    plain = sampling(problem, Budget.unlimited(), samples=2000)
    assert w.value >= plain.value * (1 - 1e-9)


def test_a_formal_gradient_at_a_kink_is_no_witness() -> None:
    """f(x) = x - relu(x) + relu(-x) = 0, with a formal gradient of 1 at 0."""
    net = Network.from_weights([[[1.0], [-1.0], [1.0], [-1.0]], [[1.0, -1.0, -1.0, 1.0]]])
    assert evaluate(Problem.of(net, Everywhere()), np.zeros(1)) == 0
    zero = Network.from_weights([[[1.0], [-1.0]], [[-1.0, 1.0]]])  # -relu(x) + relu(-x) = -x; formally 0 at the kink
    skip = Network.from_weights(
        [[[1.0], [1.0], [-1.0]], [[1.0, -1.0, 1.0]]], [[5.0, 0.0, 0.0], [-5.0]]
    )  # x - relu(x) + relu(-x), which is 0 on [-5, 5]
    assert np.abs(skip.gradient(np.zeros((1, 1)), np.ones(1))).item() == 1.0
    assert evaluate(Problem.of(skip, Everywhere()), np.zeros(1)) == 0
    for region in (Box([0.0], 1.0), Box([0.0], 0.0)):
        assert search(Problem.of(skip, region), Budget.of_work(0.5), samples=200).value == 0
    assert sample_points(Problem.of(skip, Everywhere()), np.zeros((3, 1))).value <= 0
    assert search(Problem.of(zero, Box([0.0], 1.0)), Budget.of_work(0.5), samples=200).value == pytest.approx(1)


def test_points_on_kinks_are_moved_off_them() -> None:
    """relu(x + 9) - relu(x) is 9 + x to the left of its kink at 0, where nothing can be said."""
    net = Network.from_weights([[[1.0], [1.0]], [[1.0, -1.0]]], [[9.0, 0.0], [0.0]])
    box = Box([0.0], 1e-6)
    assert evaluate(Problem.of(net, Everywhere()), np.zeros(1)) == 0
    w = sample_points(Problem.of(net, box), np.zeros((1, 1)))
    assert w.value == pytest.approx(1)
    assert w.point[0] < 0
    assert box.contains(w.point)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 5), st.floats(0.0, 3.0), st.booleans())
def test_search_never_exceeds_the_constant_of_small_networks(
    seed: int, inputs: int, width: int, radius: float, leaky: bool
) -> None:
    activation = Activation("leaky_relu", 0.2) if leaky else Activation("relu")
    net = random_network(seed, (inputs, width, 1), activation)
    problem = Problem.of(net, Box(np.random.default_rng(seed).normal(size=inputs), radius))
    w = search(problem, Budget.of_work(2.0), samples=200)
    check(w, problem)
    if radius > 1e-3:
        exact = constant_by_enumeration(problem)
        assert w.value <= exact * (1 + 1e-9) + 1e-12
        assert w.value >= exact * (1 - 1e-6)


def test_exact_constants_of_two_hidden_layers() -> None:
    found = []
    for seed in range(4):
        problem = Problem.of(random_network(seed, (3, 4, 3, 1)), Box(np.zeros(3), 0.8))
        exact = constant_by_enumeration(problem)
        w = search(problem, Budget.of_work(3.0), samples=2000)
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
    value = search(Problem.of(net, box), Budget.of_work(0.5), samples=100).value
    assert value <= abs(out * w) * (1 + 1e-12)
    if highest <= 0:
        assert value == 0
    elif highest > 1e-2:
        assert value == pytest.approx(abs(out * w), rel=1e-12)


@pytest.mark.parametrize("activation", [*SMOOTH_AND_KINKED, *OTHERS], ids=str)
@pytest.mark.parametrize("p", ["1", "2", "inf"])
def test_derivative_of_the_smoothed_objective(activation: Activation, p: str) -> None:
    net = random_network(5, (4, 6, 5, 3, 2), activation)
    problem = Problem.of(net, Box(np.full(4, 0.2), 0.5), np.array([1.0, -2.0]), p)
    screen = Screen(problem, Budget.unlimited(), dtype=np.float64)
    differences(screen, [3.0, np.full((20, 5), 2.0), 4.0])


def differences(screen: Screen, sharpness: list[Array | float]) -> None:
    """The derivative of the smoothed objective against its finite differences, at points with four coordinates."""
    rng = np.random.default_rng(0)
    v, d = rng.uniform(-1, 1, (20, 4)), rng.normal(size=(20, 4))
    h = 1e-6
    up, down = (screen.smoothed(screen.forward(v + s * h * d), sharpness)[0] for s in (1, -1))
    slope = np.einsum("ij,ij->i", screen.smoothed(screen.forward(v), sharpness)[1], d)
    assert np.median(np.abs((up - down) / (2 * h) - slope)) < 1e-7
    assert np.mean(np.abs((up - down) / (2 * h) - slope) < 1e-5) >= 0.9  # the others sit next to a kink


def test_the_screen_agrees_with_the_network() -> None:
    net = random_network(6, (7, 9, 8, 2), Activation("leaky_relu", 0.3))
    box, c = Box(np.linspace(50, 60, 7), 0.01), np.array([1.0, 1.0])
    screen = Screen(Problem.of(net, box, c), Budget.unlimited())
    chart = screen.chart
    v = chart.draw(np.random.default_rng(0), 100, np.float32)
    exact = INF.dual.of(net.gradient(chart.points(v), c))
    assert screen.norms(screen.forward(v)) == pytest.approx(exact, rel=1e-5)
    assert chart.coordinates(chart.points(v)) == pytest.approx(v, abs=1e-6)


def test_sampling_does_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.of(random_network(7, (6, 10, 1)), Box(np.zeros(6), 2.0))
    whole = sampling(problem, Budget.unlimited(), samples=3001, seed=3)
    set_constant(monkeypatch, "CHUNK_BYTES", 10_000)
    pieces = sampling(problem, Budget.unlimited(), samples=3001, seed=3)
    assert pieces.value == whole.value


def test_given_points() -> None:
    net, c = random_network(8, (4, 6, 1)), np.ones(1)
    points = np.random.default_rng(0).normal(size=(9000, 4))
    problem = Problem.of(net, Everywhere())
    w = sample_points(problem, points)
    assert w.value == pytest.approx(float(INF.dual.of(net.gradient(points, c)).max()), rel=1e-12)
    assert sample_points(problem, iter([points[:4000], points[4000:]])).value == w.value
    with pytest.raises(InputError, match="outside"):
        sample_points(problem.on(Box(np.zeros(4), 0.1)), points)
    with pytest.raises(InputError, match="no point"):
        sample_points(problem, np.zeros((0, 4)))


def test_same_seed_same_witness_and_progress_improves() -> None:
    problem = Problem.of(random_network(9, (8, 12, 6, 1)), Box(np.zeros(8), 0.5))
    seen: list[Witness] = []
    first = search(problem, Budget.of_work(30.0), seed=4, samples=1000, on_witness=seen.append)
    second = search(problem, Budget.of_work(30.0), seed=4, samples=1000)
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
        search(Problem.of(net, Box(np.zeros(8), 1.0)), Budget.of_work(5.0), on_witness=stop)


def spent(problem: Problem, work: float, seed: int = 0) -> tuple[Witness, float]:
    budget = Budget.of_work(work)
    return search(problem, budget, seed=seed), budget.spent().counted


def test_a_search_ends_with_its_budget() -> None:
    problem = Problem.of(random_network(10, (300, 300, 200, 10)), Box(np.zeros(300), 1.0), 0)
    for work in (0.0, 0.05, 0.5):
        witness, counted = spent(problem, work)
        check(witness, problem)
        assert counted < work + 3 * PASS_SECONDS


@pytest.mark.parametrize("shape", [(3072, 32_768, 12_288, 10), (784, 45_000, 10)], ids=str)
def test_a_search_ends_with_its_budget_on_a_network_of_45000_neurons(shape: tuple[int, ...]) -> None:
    """Sparse like a convolution: no pass of a batch may take long, nor any matrix of neurons by inputs be made."""
    rng = np.random.default_rng(0)
    weights = [sparse.random_array((m, n), density=27 / n, rng=rng, format="csr") for n, m in itertools.pairwise(shape)]
    net, box = Network.from_weights(weights, [rng.normal(size=m) for m in shape[1:]]), Box(np.zeros(shape[0]), 0.1)
    known = preactivation_bounds(net, box, backward=False)
    for work in (0.0, 1.0):
        problem = Problem.of(net, box, 0).on(box, known)
        witness, counted = spent(problem, work)
        check(witness, problem)
        assert counted < work + 5 * PASS_SECONDS


@pytest.mark.parametrize("shape", [(4, 6, 1), (8, 12, 6, 1), (70, 20, 15, 1)], ids=str)
@pytest.mark.parametrize("work", [0.02, 0.1, 0.4])
def test_same_seed_and_work_same_bits(shape: tuple[int, ...], work: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the clocks run wild, as they seem to on a busy machine."""
    problem = Problem.of(random_network(3, shape), Box(np.zeros(shape[0]), 0.5))
    first = spent(problem, work, 7)
    rng = np.random.default_rng(0)
    for clock in ("monotonic", "process_time", "perf_counter"):
        monkeypatch.setattr(f"time.{clock}", lambda: 1e6 * rng.random())
    again = spent(Problem.of(problem.network, problem.region), work, 7)
    assert first[0].point.tobytes() == again[0].point.tobytes()
    assert (first[0].value, first[0].method, first[1]) == (again[0].value, again[0].method, again[1])


@pytest.mark.parametrize("shape", [(5, 4, 1), (5, 4, 3, 1)], ids=str)
def test_degenerate_problems(shape: tuple[int, ...]) -> None:
    net = random_network(11, shape)
    for radius in (np.zeros(5), np.array([0.0, 0.5, 0.0, 0.5, 0.0])):
        problem = Problem.of(net, Box(np.full(5, 0.4), radius))
        check(search(problem, Budget.of_work(0.5), samples=200), problem)
    unit = Box(np.zeros(5), 1.0)
    assert search(Problem.of(net, unit, np.zeros(1)), Budget.of_work(0.5), samples=200).value == 0
    clipped = Problem.of(net, Box(np.full(5, 0.9), 0.5, clip=(0.0, 1.0)))
    check(search(clipped, Budget.of_work(0.5), samples=200), clipped)


def test_dead_neurons_zero_rows_and_unused_outputs() -> None:
    rng = np.random.default_rng(0)
    A, w = rng.normal(size=(6, 4)), rng.normal(size=(1, 6))
    A[1] = 0.0
    w[0, 2] = 0.0
    b = np.array([0.0, 0.0, 0.1, -100.0, 100.0, 0.2])
    problem = Problem.of(Network.from_weights([A, w], [b, [0.0]]), Box(np.zeros(4), 1.0))
    result = search(problem, Budget.of_work(2.0), samples=500)
    assert result.value == pytest.approx(constant_by_enumeration(problem), rel=1e-9)
    dead = Network.from_weights([np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 2))], [[-9.0, -9.0], [0.0, 0.0], [0.0]])
    assert search(Problem.of(dead, Box(np.zeros(3), 1.0)), Budget.of_work(0.5), samples=100).value == 0


def test_sparse_weights_and_huge_weights() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 30)) * (rng.random((20, 30)) < 0.2)
    w, b = rng.normal(size=(1, 20)), rng.normal(size=20)
    dense, thin = (Network.from_weights([m, w], [b, [0.0]]) for m in (A, sparse.csr_array(A)))
    box = Box(np.zeros(30), 1.0)
    values = [search(Problem.of(n, box), Budget.of_work(5.0), samples=500).value for n in (dense, thin)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    for factor in (1e20, 1e200):
        huge = Problem.of(Network.from_weights([A * factor, w * factor], [b, [0.0]]), box)
        check(search(huge, Budget.of_work(0.5), samples=200), huge)


def test_search_from_given_starts_beats_them() -> None:
    problem = Problem.of(random_network(12, (10, 20, 10, 1)), Box(np.zeros(10), 0.5))
    start = sampling(problem, Budget.unlimited(), samples=100)
    found = search(problem, Budget.of_work(5.0), samples=0, starts=start.point)
    check(found, problem)
    assert found.value >= start.value * (1 - 1e-9)
    assert not patterns_apply(problem.network)


def residual(seed: int, activation: Activation | str = "relu", inputs: int = 4) -> Network:
    """Two residual blocks, a block that reads the input again, and one that nobody reads."""
    rng = np.random.default_rng(seed)
    f = activation if isinstance(activation, Activation) else Activation(activation)

    def block(width: int, *sources: tuple[int, int], f: Activation = f) -> Block:
        terms = tuple((j, rng.normal(size=(width, n)) / np.sqrt(n)) for j, n in sources)
        return Block(terms, rng.normal(size=width) / 2, f)

    add = Block(((1, np.eye(4)), (2, rng.normal(size=(4, 3)))), rng.normal(size=4) / 2, f)
    unread = block(2, (3, 4))
    last = block(3, (0, inputs), (3, 4))
    blocks = [
        block(4, (0, inputs)),
        block(3, (1, 4)),
        add,
        unread,
        last,
        block(2, (0, inputs), (1, 4), (5, 3), f=IDENTITY),
    ]
    return Network.from_blocks(blocks)


@settings(max_examples=40, deadline=None)
@given(branched_networks())
def test_search_never_exceeds_the_constant_of_networks_with_branches(case: tuple[Network, Box, Array]) -> None:
    problem = Problem.of(*case)
    w = search(problem, Budget.of_work(0.3), samples=200)
    check(w, problem)
    assert w.value <= exact_constant(*case) * (1 + 1e-9) + 1e-12


def test_search_finds_the_constant_of_residual_networks() -> None:
    for seed in range(2):
        net, box, c = residual(seed), Box(np.zeros(4), 0.7), np.array([1.0, -1.0])
        exact = exact_constant(net, box, c)
        w = search(Problem.of(net, box, c), Budget.of_work(1.0), samples=1000)
        assert w.value == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("activation", [*SMOOTH_AND_KINKED, *OTHERS], ids=str)
@pytest.mark.parametrize("p", ["1", "2", "inf"])
def test_derivative_of_the_smoothed_objective_with_branches(activation: Activation, p: str) -> None:
    net = residual(1, activation)
    problem = Problem.of(net, Box(np.full(4, 0.2), 0.5), np.array([1.0, -2.0]), p)
    differences(Screen(problem, Budget.unlimited(), dtype=np.float64), [3.0, 2.0, 4.0, 1.0, 2.5])


@settings(max_examples=30, deadline=None)
@given(branched_networks(kinds=("relu", "leaky_relu", "identity", "tanh")))
def test_the_screen_agrees_with_networks_with_branches(case: tuple[Network, Box, Array]) -> None:
    net, _, c = case
    screen = Screen(Problem.of(*case), Budget.unlimited(), dtype=np.float64)
    v = screen.chart.draw(np.random.default_rng(0), 50, np.float64)
    points = screen.chart.points(v)
    assert screen.norms(screen.forward(v)) == pytest.approx(INF.dual.of(net.gradient(points, c)), rel=1e-9, abs=1e-12)
    for z, exact in zip(screen.forward(v), net.preactivations(points), strict=True):
        assert z == pytest.approx(exact, rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(branched_networks())
def test_affine_forms_of_a_pattern_with_branches(case: tuple[Network, Box, Array]) -> None:
    """On the pattern of a point they are the pre-activations there."""
    problem, budget = Problem.of(*case), Budget.unlimited()
    program = PatternProgram.of(problem, budget)
    v = program.chart.draw(np.random.default_rng(0), 1, np.float64)
    zs = np.concatenate(problem.network.preactivations(program.chart.points(v)), axis=1)[0]
    rows, shifts = program.forms(zs > 0, budget)
    assert rows @ v[0] + shifts == pytest.approx(zs, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("p", "q"), [("inf", "inf"), ("2", "2"), ("1", "2"), ("inf", "1")])
def test_whole_maps_with_branches(p: str, q: str) -> None:
    net, box = residual(2), Box(np.zeros(4), 0.5)
    problem = Problem.of(net, box, "all", p, q)
    budgets = [Budget.of_work(0.5) for _ in range(2)]
    w, again = (search(problem, budget) for budget in budgets)
    assert problem.region.contains(w.point)
    assert w.value == evaluate(problem, w.point) == again.value
    assert w.point.tobytes() == again.point.tobytes()
    exact = exact_constant(net, box, problem.c, problem.norm)
    assert exact * 0.8 <= w.value <= exact * (1 + 1e-9)


def test_one_partial_derivative() -> None:
    """A case of norm 1 asks for one coordinate; the largest of them is the constant."""
    net, box, c = residual(3), Box(np.zeros(4), 0.5), np.array([1.0, 0.5])
    whole = Problem.of(net, box, c, "1")
    values = []
    for k in range(4):
        case = whole.case(None, k)
        w = search(case, Budget.of_work(0.3), samples=500)
        assert w.value == evaluate(case, w.point)
        assert w.value == pytest.approx(abs(net.gradient(w.point, c)[0, k]), rel=1e-9)
        values.append(w.value)
    assert max(values) == pytest.approx(exact_constant(net, box, c, Norm("1")), rel=1e-6)
