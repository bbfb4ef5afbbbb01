"""Gradients at a point are proved on every network: deep and wide, smooth, and with neurons on their kinks."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert import bound
from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.problem.activations import BOUNDED, IDENTITY, Activation
from lipcert.problem.blocks import Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.frame import Frame
from lipcert.problem.maps import dense, summed
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Everywhere
from lipcert.rounding import Array
from lipcert.witness import evaluate
from lipcert.witness.directional import derivative_below, preactivations
from lipcert.witness.directions import steepness
from lipcert.witness.record import WitnessSearch
from lipcert.witness.witness import evaluate_framed
from tests.strategies import branched_networks
from tests.witness.test_deep import deep_network, exact_gradient

SMOOTH = tuple(kind for kind in BOUNDED if kind not in ("identity", "relu", "leaky_relu"))
PAIRS = [(0, "inf", None), (0, "2", None), (0, "1", None), ("all", "2", "2"), ("all", "inf", "inf"), ("all", "1", "1")]


def convolution(rng: np.random.Generator, size: int, into: int, out: int, scale: float = 2.0) -> Convolution:
    kernel = rng.normal(size=(out, into, 3, 3)) * np.sqrt(scale / (9 * into))
    return Convolution(kernel, (size, size), Window((3, 3), (1, 1), (1, 1), (1, 1), (1, 1)))


def residual_chain(size: int, channels: int, depth: int, kind: str = "relu") -> Network:
    """Convolutions with padding, every second block reads the one before the last besides, and one dense layer."""
    rng, f = np.random.default_rng(0), Activation(kind)
    width = channels * size * size
    blocks = [Block(((0, convolution(rng, size, 1, channels)),), rng.normal(size=width) / 10, f)]
    for i in range(1, depth):
        own = (i, convolution(rng, size, channels, channels))
        terms = ((i - 1, sparse.eye_array(width, format="csr")), own) if i > 1 and i % 2 == 0 else (own,)
        blocks.append(Block(terms, rng.normal(size=width) / 10, f))
    last = rng.normal(size=(3, width)) / np.sqrt(width)
    return Network.from_blocks([*blocks, Block(((depth, last),), np.zeros(3), IDENTITY)])


def formal(problem: Problem, point: Array) -> float:
    return float(steepness(problem, point[None, :])[0])


def test_a_block_of_40000_neurons_has_a_witness() -> None:
    """Rows of a convolution are short however wide it is: long numbers add up 81 products here, not 40,000."""
    net = residual_chain(67, 9, 16)
    assert max(net.shape) > 40_000
    problem = Problem.of(net, Box(np.full(net.inputs, 0.5), 0.01), 0)
    point = np.random.default_rng(1).uniform(0.45, 0.55, net.inputs)
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    assert any(np.any((z.lo < 0) & (z.hi > 0)) for z in pre)
    value, true = evaluate(problem, point), formal(problem, point)
    assert (1 - 1e-6) * true <= value <= (1 + 1e-9) * true


@pytest.mark.parametrize(("output", "norm", "out"), PAIRS)
def test_one_hundred_layers_of_sixteen(output: int | str, norm: str, out: str | None) -> None:
    net, point = deep_network(100, 16), np.random.default_rng(3).normal(size=16)
    problem = Problem.of(net, Everywhere(), output, norm, out)
    value, true = evaluate(problem, point), formal(problem, point)
    assert (1 - 1e-6) * true <= value <= (1 + 1e-6) * true  # floats have lost some digits there


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize(("output", "norm", "out"), [PAIRS[0], PAIRS[3]])
def test_smooth_networks_of_thirty_layers(kind: str, output: int | str, norm: str, out: str | None) -> None:
    net, point = deep_network(30, 24, 1, kind=kind), np.random.default_rng(3).normal(size=24)
    problem = Problem.of(net, Box(point, 0.1), output, norm, out)
    value, true = evaluate(problem, point), formal(problem, point)
    assert (1 - 1e-5) * true <= value <= (1 + 1e-6) * true


def decimal_tanh_gradient(net: Network, point: Array, d: Array) -> tuple[list[list[Decimal]], list[Decimal]]:
    """Pre-activations and the gradient of d'scores of a chain of tanh, with eighty decimals."""
    x, zs = [Decimal(float(v)) for v in point], []
    weights = [[[Decimal(float(a)) for a in row] for row in b.terms[0][1]] for b in net.blocks]
    for A in weights[:-1]:
        zs.append([sum((a * v for a, v in zip(row, x, strict=True)), Decimal(0)) for row in A])
        x = [1 - 2 / ((2 * z).exp() + 1) for z in zs[-1]]
    g = [Decimal(float(v)) for v in d]
    for k in range(len(weights) - 1, -1, -1):
        g = [
            sum((row[j] * v for row, v in zip(weights[k], g, strict=True)), Decimal(0))
            for j in range(len(weights[k][0]))
        ]
        if k:
            g = [v * (1 - (1 - 2 / ((2 * z).exp() + 1)) ** 2) for v, z in zip(g, zs[k - 1], strict=True)]
    return zs, g


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(6, 24))
def test_errors_of_smooth_networks_hold_with_eighty_decimals(seed: int, width: int, depth: int) -> None:
    net, rng = deep_network(depth, width, seed, outputs=2, kind="tanh"), np.random.default_rng(seed)
    point, d = rng.normal(size=width), rng.normal(size=2)
    with localcontext() as context:
        context.prec = 80
        zs, g = decimal_tanh_gradient(net, point, d)
        for rows in (False, True):
            for z, exact in zip(preactivations(net, point, rows=rows), zs, strict=True):
                for low, true, high in zip(z.lo.tolist(), exact, z.hi.tolist(), strict=True):
                    assert Decimal(low) <= true <= Decimal(high)
        slopes = slope_bounds(net, preactivations(net, point, rows=True))
        near = [f.derivative(z[0]) for f, z in zip(net.activations, net.preactivations(point), strict=True)]
        for rows in (False, True):
            least, v = derivative_below(net, slopes, near, d, np.sign, rows=rows)
            true = abs(sum((a * Decimal(float(b)) for a, b in zip(g, v, strict=True)), Decimal(0)))
            assert Decimal(least) <= true
        assert least >= (1 - 1e-6) * float(true)


@settings(max_examples=25, deadline=None)
@given(branched_networks(), st.integers(0, 10**6))
def test_a_derivative_is_no_less_than_what_is_proved(case: tuple[Network, Box, Array], seed: int) -> None:
    """In rational numbers, with all slopes known and with slopes of some neurons in doubt."""
    net, _, c = case
    rng = np.random.default_rng(seed)
    point = rng.normal(size=net.inputs)
    exact = exact_gradient(net, point, c)
    if exact is None:
        return
    pre = preactivation_bounds(net, Box.from_bounds(point, point), backward=False)
    near = [f.derivative(z[0]) for f, z in zip(net.activations, net.preactivations(point), strict=True)]
    slopes = slope_bounds(net, pre)
    doubtful = [
        type(s)(np.where(k, np.minimum(s.lo, 0.5), s.lo), np.where(k, np.maximum(s.hi, 0.75), s.hi))
        for s in slopes
        for k in [rng.random(s.lo.size) < 0.2]
    ]
    for some in (slopes, doubtful):
        least, v = derivative_below(net, some, near, c, lambda g: rng.normal(size=g.size) if seed % 2 else np.sign(g))
        assert least <= abs(float(sum(a * float(b) for a, b in zip(exact, v, strict=True)))) * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(branched_networks(kinds=("relu", "leaky_relu", "identity")), st.integers(0, 10**6))
def test_no_gradient_next_to_a_point_on_kinks_is_below_its_value(case: tuple[Network, Box, Array], seed: int) -> None:
    net, rng = _whole_numbers(case[0]), np.random.default_rng(seed)
    point = rng.integers(-1, 2, net.inputs).astype(float)
    problem = Problem.of(net, Everywhere(), np.rint(case[2]))
    near = point + 1e-9 * rng.normal(size=(20, net.inputs))
    assert evaluate(problem, point) <= steepness(problem, near).min() * (1 + 1e-9)


def _whole_numbers(net: Network) -> Network:
    """So many neurons are on their kinks at whole points."""
    blocks = [
        Block(tuple((j, np.rint(dense(w))) for j, w in b.terms), np.rint(b.bias), b.activation) for b in net.blocks
    ]
    return Network.from_blocks(blocks)


def test_equal_numbers_that_are_compared_do_no_harm() -> None:
    """max(a, b) = b + relu(a - b) with a = b everywhere: the neuron never leaves its kink, and no slope matters."""
    first = np.array([[0.3, -0.7], [0.3, -0.7]])
    maximum = Block(((1, np.array([[1.0, -1.0], [0.0, 1.0]])),), np.zeros(2), Activation("relu"))
    hidden = Block(((0, first),), np.array([2.0, 2.0]), Activation("relu"))
    net = Network.from_blocks([hidden, maximum, Block(((2, np.array([[1.0, 1.0]])),), np.zeros(1))])
    assert evaluate(Problem.of(net, Everywhere(), 0), np.array([0.1, 0.2])) == pytest.approx(1.0, rel=1e-9)
    three = evaluate(Problem.of(net, Everywhere(), 0, "1").case(None, 1), np.array([0.1, 0.2]))
    assert three == pytest.approx(0.7, rel=1e-9)


def test_equal_numbers_do_no_harm_in_deep_networks_nor_in_weighted_norms() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 6)) / 2
    doubled, difference = np.vstack([rows, rows]), np.hstack([np.eye(4), -np.eye(4)])
    pair = np.vstack([difference, np.hstack([np.zeros((4, 4)), np.eye(4)])])  # relu(a - a), relu(a)
    joined = rng.normal(size=(4, 8)) / 2
    weights, biases = [doubled, pair, joined], [np.ones(8), np.zeros(8), np.ones(4)]
    for _ in range(8):
        weights, biases = [*weights, rng.normal(size=(4, 4)) / 2], [*biases, np.ones(4)]
    net = Network.from_weights([*weights, np.ones((1, 4))], [*biases, np.zeros(1)])
    problem, point = Problem.of(net, Box(np.zeros(6), 1.0), 0, "2"), rng.normal(size=6) / 4
    true = formal(problem, point)
    assert true > 0
    assert evaluate(problem, point) == pytest.approx(true, rel=1e-6)
    frame = Frame.of(net, problem.norm, input_weights=np.full(6, 2.0))
    assert frame is not None
    assert evaluate_framed(frame, problem, point) == pytest.approx(true / 2, rel=1e-6)


def test_a_middle_on_kinks_is_left() -> None:
    """Differences of equal inputs, behind eight more blocks: little is proved at the middle, all right beside it."""
    first = Block(
        ((0, np.array([[1.0, -1.0, 0, 0], [0, 0, 1.0, -1.0], [0, 1.0, 0, 1.0]])),),
        np.ones(3) * [0, 0, 9],
        Activation("relu"),
    )
    same = [Block(((i, np.eye(3)),), np.zeros(3), Activation("relu")) for i in range(1, 9)]
    net = Network.from_blocks([first, *same, Block(((9, np.array([[1.0, 1.0, 1.0]])),), np.zeros(1))])
    problem = Problem.of(net, Box(np.full(4, 0.5), 0.1), 0)
    assert evaluate(problem, np.full(4, 0.5)) < 0.5 * 4
    record = WitnessSearch(problem, Budget.of_work(1.0), rng=np.random.default_rng(0))
    record.begin()
    assert problem.region.contains(record.best.point)
    assert np.abs(record.best.point - 0.5).max() < 1e-5
    assert record.best.value == pytest.approx(formal(problem, record.best.point), rel=1e-6)
    assert record.best.value >= 2.0 - 1e-9


@pytest.mark.parametrize(
    "weight",
    [
        np.ones((3, 5)),
        sparse.csr_array(np.array([[1.0, 0, 2], [0, 0, 3], [1, 1, 1], [0, 0, 1]])),
        sparse.csr_array(np.array([[1.0, 0, 2], [0, 0, 3], [1, 1, 1], [0, 0, 1]])).T,
        convolution(np.random.default_rng(0), 5, 2, 3),
        convolution(np.random.default_rng(0), 5, 2, 3).T,
        convolution(np.random.default_rng(0), 5, 2, 3)[np.array([1, 7, 30])],
        Convolution(np.ones((4, 1, 3, 3)), (6, 6), Window((3, 3), (2, 2), (1, 1), (0, 0), (1, 1)), groups=2),
    ],
)
def test_sums_have_no_more_terms_than_said(weight: sparse.csr_array) -> None:
    full = weight if isinstance(weight, np.ndarray) else weight.toarray()
    for axis in (0, 1):
        assert summed(weight, axis) >= np.count_nonzero(full, axis=axis).max()


def random_network(shape: tuple[int, ...], kind: str) -> Network:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(shape)]
    return Network.from_weights(weights, [rng.normal(size=m) * 0.3 for m in shape[1:]], kind)


@pytest.mark.parametrize(
    ("shape", "kind", "output"),
    [
        ((10, 20, 10, 1), "relu", 0),
        ((20, 40, 40, 5), "relu", "all"),
        ((10, *(12,) * 8, 2), "relu", 0),
    ],
)
def test_auto_has_hardly_a_worse_witness_than_linear_for_the_same_work(
    shape: tuple[int, ...], kind: str, output: int | str
) -> None:
    """Within a hundredth: `linear` spends all of its work on witnesses, `auto` most on a bound that is much smaller."""
    net, box = random_network(shape, kind), Box(np.zeros(shape[0]), 1.0)
    cheap, best = (bound(net, box, output=output, norm="2", method=m, work=2.3) for m in ("linear", "auto"))
    assert cheap.lower is not None
    assert best.lower is not None
    assert best.lower >= 0.99 * cheap.lower
    assert best.upper <= 0.5 * cheap.upper
