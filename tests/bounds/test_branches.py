"""Bounds of networks with branches: sampled and rational values lie inside, on regions and on cells; budgets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Activation, Ball, Box, Everywhere, Network
from lipcert.bounds import (
    Cell,
    Interval,
    Split,
    bounds_of,
    cut_short,
    gains,
    gradient_bounds,
    gradient_magnitudes,
    gradients,
    halves,
    interval_uppers,
    jacobian_rows,
    mixed_bound,
    mixed_gradient_bounds,
    preactivation_bounds,
    preactivations,
    slopes,
    splits_here,
    whole,
)
from lipcert.budget import Budget
from lipcert.problem.blocks import Block
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from tests.constants import set_constant
from tests.rational import exact_pass, inside
from tests.strategies import SMOOTH, branched_networks, small_cases

Case = tuple[Network, Box, Array]
KINDS = ("relu", "leaky_relu", "identity", *SMOOTH)


def holds(values: Array, bounds: Interval) -> bool:
    """Whether every row lies inside, but for the rounding of the values themselves."""
    slack = 1e-12 * (1 + np.abs(values))
    return bool(np.all(values >= bounds.lo - slack) and np.all(values <= bounds.hi + slack))


def width(bounds: tuple[Interval, ...]) -> float:
    return sum(float((z.hi - z.lo).sum()) for z in bounds)


def residual(n: int = 6, blocks: int = 3) -> Network:
    """Blocks of ReLUs, each added to what it read."""
    rng = np.random.default_rng(0)

    def weight(m: int, k: int) -> Array:
        return np.asarray(rng.normal(size=(m, k)) / np.sqrt(k))

    made = [Block(((0, weight(n, 3)),), rng.normal(size=n))]
    for k in range(blocks):
        last = 2 * k + 1
        made.append(Block(((last, weight(n, n)),), rng.normal(size=n), Activation("relu")))
        terms = ((last, np.eye(n)), (last + 1, weight(n, n)))
        made.append(Block(terms, rng.normal(size=n), Activation("identity")))
    made.append(Block(((2 * blocks + 1, weight(2, n)),), np.zeros(2)))
    return Network.from_blocks(made)


def jacobians(net: Network, x: Array) -> list[Array]:
    """Of x_0, x_1, .., x_m and the scores, (points, width, inputs) each."""
    J = [np.broadcast_to(np.eye(net.inputs), (len(x), net.inputs, net.inputs))]
    slopes_ = [f.derivative(z) for f, z in zip(net.activations, net.preactivations(x), strict=True)]
    for i, block in enumerate(net.blocks):
        total = sum(np.asarray(weight) @ J[j] for j, weight in block.terms)
        J.append(np.asarray(total) * (slopes_[i][:, :, None] if i < net.depth else 1.0))
    return J


@settings(max_examples=58)
@given(branched_networks(kinds=KINDS))
def test_sampled_values_and_gradients_lie_inside(case: Case) -> None:
    net, box, c = case
    ball = Ball(box.center, float(box.radius.max()))
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(200, box.size))
    for region, points in ((box, x), (ball, ball.project(x)), (Everywhere(), 5 * x)):
        problem = Problem.of(net, region, c)
        pre = preactivations(problem)
        assert all(holds(z, bounds) for z, bounds in zip(net.preactivations(points), pre, strict=True))
        assert holds(net.gradient(points, c), gradients(problem)[0])
        assert gradients(problem)[0].magnitude.shape == (net.inputs,)
        for f, z, s in zip(net.activations, net.preactivations(points), slopes(problem), strict=True):
            assert holds(f.derivative(z), s)


@settings(max_examples=39)
@given(branched_networks(), st.floats(-12, 12), st.integers(0, 2**32 - 1))
def test_containment_in_rational_arithmetic(case: Case, scale: float, seed: int) -> None:
    """Weights scaled block by block by powers of ten, so that cancellation and tiny terms occur."""
    net, box, c = case
    rng = np.random.default_rng(seed)
    blocks = []
    for block in net.blocks:
        terms = tuple((j, weight * 10.0 ** (scale * rng.uniform(-1, 1))) for j, weight in block.terms)
        blocks.append(Block(terms, block.bias, block.activation))
    net = Network.from_blocks(blocks)
    ball = Ball(box.center, float(box.radius.min()))
    inner = ball.project(rng.uniform(box.lo, box.hi, size=(2, box.size)))
    corners = np.concatenate([rng.uniform(box.lo, box.hi, size=(2, box.size)), [box.lo], [box.hi]])
    for region, points in ((box, corners), (ball, inner), (Everywhere(), corners)):
        pre = preactivation_bounds(net, region)
        found = gradient_bounds(net, pre, c)[0]
        for point in points:
            zs, g = exact_pass(net, point, c)
            assert all(inside(z, bounds) for z, bounds in zip(zs, pre, strict=True))
            if all(z != 0 for block in zs for z in block):
                assert inside(g, found)


def cell_around(net: Network, box: Box, x: Array, rng: np.random.Generator) -> Cell:
    """A half of a half of .. of the box that contains x."""
    cell = whole(net, box)
    z = net.preactivations(x)
    for _ in range(5):
        layer = int(rng.integers(net.depth + 1))
        index = int(rng.integers(net.shape[layer]))
        split = Split(layer, index, float(box.center[index]) if layer == 0 else 0.0)
        if splits_here(cell, split, net):
            above = x[index] > split.value if layer == 0 else z[layer - 1][0, index] > 0
            cell = halves(cell, split)[int(above)]
    return cell


@settings(max_examples=39)
@given(branched_networks(kinds=(*KINDS, "relu", "leaky_relu")), st.integers(0, 2**32 - 1))
def test_bounds_of_cells_hold_at_their_points(case: Case, seed: int) -> None:
    net, box, c = case
    rng = np.random.default_rng(seed)
    x = rng.uniform(box.lo, box.hi, size=(3000, box.size))
    cells = [cell_around(net, box, x[k], rng) for k in range(6)]
    bounds = bounds_of(net, cells)
    found, magnitudes = gradient_bounds(net, bounds.pre, c)[0], gradient_magnitudes(net, bounds.pre, c)
    uppers = interval_uppers(net, bounds, INF, c)
    zs, g = net.preactivations(x), net.gradient(x, c)
    for k, cell in enumerate(cells):
        assert isinstance(cell.region, Box)
        here = np.all((x >= cell.region.lo) & (x <= cell.region.hi), axis=1)
        here &= np.all([np.all(s * z >= 0, axis=1) for s, z in zip(cell.signs, zs, strict=True)], axis=0)
        assert here[k]
        assert not bounds.empty[k]
        assert all(holds(z[here], own) for z, own in zip(zs, bounds.of(k), strict=True))
        assert np.all(x[here] @ bounds.sides.H[k].T + bounds.sides.h[k] >= -1e-9)
        assert holds(g[here], found.rows(k))
        assert np.all(np.abs(g[here]) <= magnitudes[k] * (1 + 1e-9) + 1e-12)
        assert np.all(np.abs(g[here]).sum(axis=1) <= uppers[k] * (1 + 1e-9) + 1e-12)
        alone = bounds_of(net, [cell])
        for a, b in zip(alone.of(0), bounds.of(k), strict=True):
            np.testing.assert_allclose([*a.lo, *a.hi], [*b.lo, *b.hi], rtol=1e-9, atol=1e-9)


@settings(max_examples=39)
@given(branched_networks(kinds=KINDS), st.sampled_from(("inf", "2", "1")))
def test_gains_hold_at_sampled_points(case: Case, p: str) -> None:
    net, box, c = case
    norm = Norm(p)
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(100, box.size))
    pre = preactivation_bounds(net, box)
    known = gains(net, pre, norm)
    t = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=(200, box.size))
    t /= np.maximum(norm.of(t), 1.0)[:, None]
    J = jacobians(net, x)
    for i in range(net.depth + 1):
        assert np.all(norm.dual.of(J[i]).max(axis=0) <= known.after[i] * (1 + 1e-9) + 1e-12)
        assert np.linalg.norm(J[i] @ t.T, axis=1).max() <= known.reach[i] * (1 + 1e-9) + 1e-12
    assert np.all(np.abs(J[-1]).max(axis=0) <= jacobian_rows(net, pre, net.depth + 1) * (1 + 1e-9) + 1e-12)
    g = net.gradient(x, c)
    assert norm.dual.of(g).max() <= mixed_bound(net, pre, norm, c, known) * (1 + 1e-9) + 1e-12
    assert holds(g, mixed_gradient_bounds(net, pre, c)[0])


@settings(max_examples=26)
@given(small_cases(kinds=KINDS))
def test_a_chain_with_branches_of_zeros_has_the_bounds_of_the_chain(case: Case) -> None:
    net, box, c = case
    blocks = [
        Block(((0, np.zeros((b.width, net.inputs))), *b.terms), b.bias, b.activation) if i else b
        for i, b in enumerate(net.blocks)
    ]
    other = Network.from_blocks(blocks)
    assert net.depth == 0 or not other.is_chain
    for region in (box, Ball(box.center, float(box.radius.max()))):
        a, b = preactivation_bounds(net, region), preactivation_bounds(other, region)
        pairs = [*zip(a, b, strict=True), *zip(gradient_bounds(net, a, c), gradient_bounds(other, b, c), strict=True)]
        for one, two in pairs:
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)
    cell = [whole(net, box)]
    ours, theirs = bounds_of(net, cell), bounds_of(other, cell)
    magnitudes = gradient_magnitudes(net, ours.pre, c)
    np.testing.assert_allclose(gradient_magnitudes(other, theirs.pre, c), magnitudes, rtol=1e-9, atol=1e-9)


def test_two_ways_that_cancel_are_seen() -> None:
    """z_3 = relu(x) - relu(x) + 0.1 x: linear forms and symbols see that the ReLUs cancel, intervals do not."""
    relu, one = Activation("relu"), np.ones((1, 1))
    blocks = [
        Block(((0, one),), np.zeros(1), relu),
        Block(((0, 0.1 * one), (1, one)), np.zeros(1), Activation("identity")),
        Block(((1, -one), (2, one)), np.zeros(1), relu),
        Block(((3, one),), np.zeros(1)),
    ]
    net, box, c = Network.from_blocks(blocks), Box([0.5], 1.0), np.ones(1)
    pre, plain = preactivation_bounds(net, box), preactivation_bounds(net, box, backward=False)
    np.testing.assert_allclose([pre[2].lo[0], pre[2].hi[0]], [-0.05, 0.15], atol=1e-12)
    assert plain[2].hi[0] > 1
    bounds = bounds_of(net, [whole(net, box)])
    assert gradient_magnitudes(net, bounds.pre, c)[0, 0] == pytest.approx(0.1, abs=1e-12)
    assert gradient_bounds(net, pre, c)[0].magnitude[0] > 1
    everything = mixed_bound(net, pre, INF, c, gains(net, pre))
    assert everything >= 0.1


def test_counted_budgets_give_the_same_bounds_and_say_when_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "BOUNDS_STEP", 1e-9)  # one neuron at a time
    set_constant(monkeypatch, "FORMS_TIMES", np.inf)  # never zonotopes
    net, box = residual(), Box(np.zeros(3), 0.3)
    best, plain = preactivation_bounds(net, box), preactivation_bounds(net, box, backward=False)
    enough = Problem.of(net, box, 0)
    spent = Budget.of_work(1e9)
    for a, b in zip(preactivations(enough, spent), best, strict=True):
        assert np.array_equal(a, b)
    assert not cut_short(enough)
    total, widths = spent.spent().counted, []
    for share in (0.0, 0.2, 0.5, 0.8):
        problems = [Problem.of(net, box, 0) for _ in range(2)]
        first, second = (preactivations(p, Budget.of_work(share * total)) for p in problems)
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
        assert preactivations(problems[0]) is first
        assert cut_short(problems[0])
        assert cut_short(problems[0].case(1, None))
        assert all(np.all(a.lo <= b.lo) and np.all(a.hi >= b.hi) for a, b in zip(first, best, strict=True))
        widths.append(width(first))
    assert widths[0] == width(plain)
    assert widths == sorted(widths, reverse=True)
    assert width(plain) > widths[2] > width(best)
