"""Forward zonotopes: exact and sampled values lie inside; symbols that cancel; rounding; parallel lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert import Activation, Ball, Box, Network
from lipcert.bounds import Interval, preactivation_bounds, whole
from lipcert.bounds.propagation import ForwardPass
from lipcert.bounds.zonotope import ZonotopePass, affine, scaled
from lipcert.problem.activations import BOUNDED
from lipcert.problem.activations.parallel import parallel
from lipcert.problem.blocks import Block
from lipcert.problem.region import Region
from lipcert.rounding import UNIT, Array
from tests.rational import exact_pass, inside
from tests.strategies import SMOOTH, branched_networks, convolutional_networks, small_cases

Case = tuple[Network, Box, Array]
MANY = 1000


def alone(net: Network, region: Box | Ball, most: int = MANY) -> list[Interval]:
    """Bounds by zonotopes and by nothing else."""
    box = region.box if isinstance(region, Ball) else region
    ball = region if isinstance(region, Ball) else None
    forward = ZonotopePass(net, Interval(box.lo[None], box.hi[None]), ball, most)
    found = []
    for i, block in enumerate(net.hidden, start=1):
        z = forward.preactivation(i, block)
        forward.activate(i, block, z)
        found.append(z.rows(0))
    return found


def beside(net: Network, regions: Sequence[Region], *, forms: bool, most: int = MANY) -> list[Interval]:
    """Bounds by intervals, zonotopes and, where asked for, linear forms: cells on the first axis."""
    return list(ForwardPass(net, [whole(net, r) for r in regions], forms=forms, symbols=most).run().pre)


def holds(values: Array, bounds: Interval) -> bool:
    slack = 1e-12 * (1 + np.abs(values))
    return bool(np.all(values >= bounds.lo - slack) and np.all(values <= bounds.hi + slack))


def samples(box: Box, count: int = 200) -> Array:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(box.lo, box.hi, size=(count, box.size)), [box.lo, box.hi]])


def ball_samples(ball: Ball, count: int = 200) -> Array:
    rows = np.random.default_rng(0).normal(size=(count, ball.size))
    return np.asarray(ball.center + ball.radius * (1 - 1e-12) * rows / np.linalg.norm(rows, axis=1, keepdims=True))


@settings(max_examples=100)
@given(branched_networks(), st.floats(-12, 12), st.sampled_from((0, 1, 3, MANY)), st.integers(0, 2**32 - 1))
def test_exact_values_lie_inside(case: Case, scale: float, most: int, seed: int) -> None:
    """Weights are scaled block by block by powers of ten, so that cancellation and tiny terms occur."""
    net, box, c = case
    rng = np.random.default_rng(seed)
    factors = 10.0 ** (scale * rng.uniform(-1, 1, size=len(net.blocks)))
    net = Network.from_blocks(
        Block(tuple((j, w * f) for j, w in b.terms), b.bias, b.activation)
        for b, f in zip(net.blocks, factors, strict=True)
    )
    for region in (box, Ball(box.center, float(box.radius.min()))):
        pre = alone(net, region, most)
        for point in region.project(samples(box, 4)):
            assert all(inside(z, bounds) for z, bounds in zip(exact_pass(net, point, c)[0], pre, strict=True))


@settings(max_examples=60)
@given(branched_networks(), st.integers(0, 2**32 - 1))
def test_points_have_exact_values_inside(case: Case, seed: int) -> None:
    """In boxes without width all that keeps the bounds apart is the rounding that is paid for."""
    net, box, c = case
    point = np.random.default_rng(seed).uniform(box.lo, box.hi)
    pre = alone(net, Box(point, 0.0))
    assert all(inside(z, bounds) for z, bounds in zip(exact_pass(net, point, c)[0], pre, strict=True))
    assert all(np.all(z.hi - z.lo <= 1e-9 * (1 + z.magnitude)) for z in pre)


@pytest.mark.parametrize("width", [3, 300])
def test_long_sums_that_cancel_are_paid_for(width: int) -> None:
    """Large terms cancel in every neuron, so that the computed values are nothing but rounding errors."""
    rng = np.random.default_rng(width)
    W = rng.normal(size=(width, 2)) * 1e8
    A = rng.normal(size=(4, width))
    A = np.concatenate([A, -A], axis=1) * 1e8
    biases = [np.full(2 * width, 1e9), np.zeros(4), np.zeros(4)]
    net = Network.from_weights([np.concatenate([W, W * (1 + 2.0**-50)]), A, np.eye(4)], biases)
    for radius in (0.0, 1e-9, 1e-3):
        box = Box([0.3, -0.7], radius)
        pre = alone(net, box)
        for point in samples(box, 3):
            assert all(inside(z, own) for z, own in zip(exact_pass(net, point, np.ones(4))[0], pre, strict=True))


@settings(max_examples=60)
@given(branched_networks(kinds=("relu", "leaky_relu", "identity", *SMOOTH)), st.sampled_from((2, MANY)))
def test_sampled_values_lie_inside_for_every_activation(case: Case, most: int) -> None:
    net, box, _ = case
    ball = Ball(box.center, float(box.radius.max()))
    for region, x in ((box, samples(box)), (ball, ball_samples(ball))):
        values = net.preactivations(x)
        for pre in (alone(net, region, most), *(beside(net, [region], forms=f, most=most) for f in (False, True))):
            assert all(holds(z, bounds) for z, bounds in zip(values, pre, strict=True))


@settings(max_examples=40)
@given(convolutional_networks(kinds=("relu", "leaky_relu", "sigmoid", "gelu")))
def test_convolutions_have_the_bounds_of_their_matrices(both: tuple[Network, Network]) -> None:
    kept, written = both
    rng = np.random.default_rng(1)
    box = Box(rng.normal(size=kept.inputs), 0.3)
    found, expected = alone(kept, box), alone(written, box)
    for z, own, other in zip(kept.preactivations(samples(box)), found, expected, strict=True):
        assert holds(z, own)
        np.testing.assert_allclose(own.lo, other.lo, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(own.hi, other.hi, rtol=1e-9, atol=1e-11)


@settings(max_examples=40)
@given(small_cases(kinds=("relu", "leaky_relu", "tanh")))
def test_bounds_of_both_ways_meet_and_gain(case: Case) -> None:
    """Zonotopes beside linear forms are no wider than intervals, and hold every sample."""
    net, box, _ = case
    plain = preactivation_bounds(net, box, backward=False)
    pre = [z.rows(0) for z in beside(net, [box], forms=True)]
    for z, own, wide in zip(net.preactivations(samples(box)), pre, plain, strict=True):
        assert holds(z, own)
        assert np.all(own.lo >= wide.lo)
        assert np.all(own.hi <= wide.hi)


@settings(max_examples=30)
@given(small_cases(kinds=("relu", "sigmoid")), st.integers(0, 2**32 - 1))
def test_cells_of_a_batch_are_bounded_like_one(case: Case, seed: int) -> None:
    """A batch shares its symbols, and no cell loses by that; samples of each lie inside."""
    net, box, _ = case
    rng = np.random.default_rng(seed)
    cells = []
    for _ in range(3):
        ends = np.sort(rng.uniform(box.lo, box.hi, size=(2, box.size)), axis=0)
        cells.append(Box.from_bounds(*ends))
    together = beside(net, cells, forms=False)
    for k, cell in enumerate(cells):
        values = net.preactivations(samples(cell))
        for z, both, own in zip(values, together, beside(net, [cell], forms=False), strict=True):
            assert holds(z, both.rows(k))
            np.testing.assert_allclose(both.lo[k], own.lo[0], rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(both.hi[k], own.hi[0], rtol=1e-9, atol=1e-11)


def test_symbols_cancel_where_intervals_add_up() -> None:
    """x + relu(x) - x - relu(x) is zero; a second block sees it through two ways."""
    n, one = 5, np.eye(5)
    blocks = [
        Block(((0, one),), np.zeros(n), Activation("relu")),
        Block(((0, one), (1, one)), np.zeros(n), Activation("identity")),
        Block(((0, -one), (1, -one), (2, one)), np.zeros(n), Activation("relu")),
        Block(((3, np.ones((1, n))),), np.zeros(1)),
    ]
    net, box = Network.from_blocks(blocks), Box(np.zeros(n), 1.0)
    last = alone(net, box)[-1]
    assert np.all(last.hi - last.lo < 1e-13)
    assert np.all(preactivation_bounds(net, box, backward=False)[-1].hi >= 3.0)


def test_a_ball_has_the_euclidean_reach_of_its_columns() -> None:
    rng = np.random.default_rng(3)
    W = rng.normal(size=(4, 30))
    net, center = Network.from_weights([W, np.ones((1, 4))]), rng.normal(size=30)
    z = alone(net, Ball(center, 0.5))[0]
    np.testing.assert_allclose((z.hi - z.lo) / 2, 0.5 * np.linalg.norm(W, axis=1), rtol=1e-12)
    few = alone(net, Ball(center, 0.5), most=10)[0]
    assert np.all(few.hi > z.hi)


def test_fewer_symbols_are_wider_and_still_hold() -> None:
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(20, 20)) / 3 for _ in range(5)])
    box = Box(rng.normal(size=20), 0.2)
    x = samples(box, 2000)
    widths = []
    for most in (MANY, 40, 20, 5, 0):
        pre = alone(net, box, most)
        widths.append(float((pre[-1].hi - pre[-1].lo).sum()))
        assert all(holds(z, own) for z, own in zip(net.preactivations(x), pre, strict=True))
    assert widths == sorted(widths)
    assert widths[0] < 0.7 * widths[-1]


def test_deep_smooth_networks_are_tighter_than_intervals() -> None:
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(30, 30)) * 0.8 for _ in range(6)], None, "sigmoid")
    box = Box(rng.normal(size=30), 0.02)
    plain, forward = preactivation_bounds(net, box, backward=False)[-1], alone(net, box)[-1]
    assert np.mean(forward.hi - forward.lo) < 0.2 * np.mean(plain.hi - plain.lo)


def test_rounding_is_paid_with_all_that_is_multiplied() -> None:
    """The worst case of a product is seldom met: what is paid is compared with its formula here."""
    rng = np.random.default_rng(2)
    W, bias = rng.normal(size=(4, 9)), rng.normal(size=4)
    first = ZonotopePass(Network.from_weights([np.eye(9)]), Interval(-np.ones((1, 9)), np.ones((1, 9))), None, 9)
    x = replace(
        first.values[0],
        center=rng.normal(size=(1, 9)),
        columns=rng.normal(size=(1, 5, 9)),
        start=5,
        rest=rng.uniform(size=(1, 9)) * UNIT,
    )
    x = replace(x, size=np.abs(x.center) + np.abs(x.columns).sum(axis=1) + x.gaps, length=np.array([np.inf]))
    z = affine([(W, x)], Block(((0, W),), bias))
    least = 9 * UNIT * (np.abs(W) @ x.size[0]) + UNIT * np.abs(bias) + np.abs(W) @ x.rest[0]
    assert np.all(z.rest[0] >= least)
    assert np.all(z.size[0] >= np.abs(z.center[0]) + np.abs(z.columns[0]).sum(axis=0))
    slope, middle = rng.uniform(-1, 1, size=(1, 4)), rng.normal(size=(1, 4))
    size, rest = z.size.copy(), z.rest.copy()
    y = scaled(z, slope, middle)
    assert np.all(y.rest >= np.abs(slope) * rest + UNIT * (np.abs(slope) * size + np.abs(middle)))
    assert np.all(y.size >= np.abs(y.center) + np.abs(y.columns).sum(axis=1))


def test_the_length_of_the_rest_is_carried_with_what_attains_it() -> None:
    """The longest d that there may be along a row, and along the direction in which a weight stretches most."""
    rng = np.random.default_rng(3)
    W = rng.normal(size=(6, 9))
    first = ZonotopePass(Network.from_weights([np.eye(9)]), Interval(-np.ones((1, 9)), np.ones((1, 9))), None, 9)
    x = replace(first.values[0], rest=np.ones((1, 9)), length=np.array([0.5]))
    z = affine([(0.1 * W, x)], Block(((0, 0.1 * W),), np.zeros(6)))
    assert np.all(z.rest[0] >= 0.05 * np.linalg.norm(W, axis=1))
    assert np.all(z.rest[0] <= 0.051 * np.linalg.norm(W, axis=1))
    assert 0.05 * np.linalg.norm(W, 2) <= z.length[0] <= 0.051 * np.linalg.norm(W, 2)
    twice = affine([(0.1 * W, x), (0.1 * W, x)], Block(((0, 0.1 * W), (1, 0.1 * W)), np.zeros(6)))
    assert np.all(twice.rest >= 2 * z.rest * (1 - 1e-12))
    assert twice.length[0] >= 2 * z.length[0] * (1 - 1e-12)
    before = z.length[0]
    assert 2 * before <= scaled(z, np.full((1, 6), -2.0), np.ones((1, 6))).length[0] <= 2.001 * before
    fewer = x.without(np.arange(9) < 4)
    assert fewer.length[0] >= 0.5 + np.linalg.norm(x.gaps[0, :4])
    assert np.all(fewer.rest[0] >= 1 + np.where(np.arange(9) < 4, x.gaps[0], 0.0))
    assert first.values[0].length[0] == pytest.approx(0.0, abs=1e-100)
    none = ZonotopePass(Network.from_weights([np.eye(9)]), Interval(-np.ones((1, 9)), np.ones((1, 9))), None, 5)
    assert none.values[0].length[0] >= 2.0


def test_rounding_stays_small_on_many_layers() -> None:
    """Sums of the rows of |W| multiply to 1e14 here; the Euclidean length of the rest grows by the spectral norms."""
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(40, 40)) * np.sqrt(2 / 40) for _ in range(17)])
    point = rng.normal(size=40)
    pre = alone(net, Box(point, 0.0))
    assert np.all(pre[-1].hi - pre[-1].lo < 1e-6)
    exact = exact_pass(net, point, np.ones(40))[0]
    assert all(inside(z, own) for z, own in zip(exact, pre, strict=True))


def test_the_slack_of_a_block_is_a_part_of_its_rest() -> None:
    """The true z of a block with rounded weights lie anywhere within its slack, and later blocks carry that on."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    slack = rng.uniform(size=5)
    blocks = [Block(((0, first),), np.zeros(5), Activation("identity"), slack), Block(((1, second),), np.zeros(4))]
    net, box = Network.from_blocks([*blocks, Block(((2, np.ones((1, 4))),), np.zeros(1))]), Box(np.zeros(3), 0.1)
    one, two = alone(net, box)
    np.testing.assert_allclose(one.hi, 0.1 * np.abs(first).sum(axis=1) + slack, rtol=1e-12)
    np.testing.assert_allclose(two.hi, 0.1 * np.abs(second @ first).sum(axis=1) + np.abs(second) @ slack, rtol=1e-12)


def test_sparse_weights_have_the_bounds_of_dense_ones() -> None:
    rng = np.random.default_rng(7)
    weights = [rng.normal(size=(12, 12)) * (rng.uniform(size=(12, 12)) < 0.4) for _ in range(3)]
    box = Box(rng.normal(size=12), 0.3)
    dense = alone(Network.from_weights(weights), box)
    thin = alone(Network.from_weights([sparse.csr_array(w) for w in weights]), box)
    for own, other in zip(thin, dense, strict=True):
        np.testing.assert_allclose(own.lo, other.lo, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(own.hi, other.hi, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_overflow_and_underflow_lose_precision_not_soundness(scale: float) -> None:
    net = Network.from_weights([np.full((2, 2), scale), np.full((2, 2), scale), np.full((1, 2), 1 / scale)])
    box = Box([1.0, 1.0], 0.5)
    pre = alone(net, box)
    assert not any(np.isnan(end).any() for z in pre for end in z)
    for point in samples(box, 3):
        assert all(inside(z, own) for z, own in zip(exact_pass(net, point, np.ones(1))[0], pre, strict=True))


@pytest.mark.parametrize("kind", BOUNDED)
def test_parallel_lines_hold_and_are_close(kind: str) -> None:
    """The lines hold at samples, and leave no more than a little over what the best slope of a fine grid leaves."""
    f, rng = Activation(kind, 0.1), np.random.default_rng(0)
    middle, radius = rng.normal(size=300) * 4, 10.0 ** rng.uniform(-6, 1, size=300)
    lo, hi = middle - radius, middle + radius
    lines = parallel(f, lo, hi)
    assert np.array_equal(lines.low_slope, lines.up_slope)
    z = lo + np.linspace(0, 1, 2001)[:, None] * (hi - lo)
    z[-1] = hi
    rest, slack = f(z) - lines.up_slope * z, 1e-12 * (1 + np.abs(f(z)) + np.abs(z))
    assert np.all(rest <= lines.up_shift + slack)
    assert np.all(rest >= lines.low_shift - slack)
    grid = np.linspace(-1.6, 1.6, 129)
    best = np.min([np.ptp(f(z) - s * z, axis=0) for s in (*grid, f.derivative(lo), f.derivative(hi))], axis=0)
    gap = lines.up_shift - lines.low_shift
    assert np.all(gap <= 2.2 * best + 1e-9)


def test_parallel_lines_of_infinite_intervals_are_flat() -> None:
    lo, hi = np.array([-np.inf, 0.0, -np.inf]), np.array([0.0, np.inf, np.inf])
    lines = parallel(Activation("sigmoid"), lo, hi)
    assert np.all(lines.up_slope == 0)
    assert np.all((lines.low_shift <= [0.0, 0.5, 0.0]) & (lines.up_shift >= [0.5, 1.0, 1.0]))
