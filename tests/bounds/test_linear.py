"""The linear road: no gradient and no norm above it, on regions and cells, in every norm; never above the intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Activation, Box, Everywhere, Network, bound, verify
from lipcert.bounds import Interval, gradient_bounds, linear_bounds, preactivation_bounds, slope_bounds
from lipcert.bounds.linear import product_lines
from lipcert.bounds.substitution import tangents
from lipcert.problem.convolution import Convolution
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import prove_linear
from lipcert.rounding import Array
from tests.enumeration import exact_constant, operator
from tests.problems import net_of
from tests.strategies import SMOOTH, branched_networks, convolutional_networks, small_cases

Case = tuple[Network, Box, Array]
KINDS = ("relu", "leaky_relu", "identity", *SMOOTH)
NORMS = tuple(Norm(p) for p in ("inf", "2", "1"))


def one_cell(slopes: tuple[Interval, ...]) -> tuple[Interval, ...]:
    return tuple(Interval(s.lo[None, :], s.hi[None, :]) for s in slopes)


def gradients_at(net: Network, slopes: list[Array], c: Array) -> list[Array]:
    """g_0 .. g_m for a batch of slopes."""
    behind = [np.zeros((len(slopes[0]) if slopes else 1, width)) for width in net.shape]
    behind[-1] = np.broadcast_to(c, behind[-1].shape)
    for i in range(len(net.blocks), 0, -1):
        g = behind[i] * slopes[i - 1] if i <= net.depth else behind[i]
        for source, weight in net.blocks[i - 1].terms:
            behind[source] = behind[source] + g @ weight
    return behind[:-1]


@given(branched_networks(kinds=KINDS), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_slopes_of_any_kind_give_no_larger_gradient(case: Case, norm: Norm, seed: int) -> None:
    """Not only those of points: any slopes within their bounds, their ends above all."""
    net, box, c = case
    slopes = slope_bounds(net, preactivation_bounds(net, box))
    found = linear_bounds(net, one_cell(slopes), norm, c)
    rng = np.random.default_rng(seed)
    picked = []
    for s in slopes:
        mix = np.clip(rng.uniform(-0.5, 1.5, size=(64, len(s.lo))), 0.0, 1.0)
        picked.append(s.lo + mix * (s.hi - s.lo))
    gradients = gradients_at(net, picked, c)
    plain = gradient_bounds(net, (), c, slopes)
    for g, inside, wide in zip(gradients, found.gradients, plain, strict=True):
        slack = 1e-12 * (1 + np.abs(g))
        assert np.all(g >= inside.lo - slack)
        assert np.all(g <= inside.hi + slack)
        assert np.all(inside.hi[0] - inside.lo[0] <= (wide.hi - wide.lo) * (1 + 1e-9) + 1e-140)
    assert np.all(norm.dual.of(gradients[0]) <= found.upper[0] * (1 + 1e-12))
    assert found.upper[0] <= norm.dual.above(found.gradients[0].magnitude[0]) * (1 + 1e-9) + 1e-140
    assert [lost.shape for lost in found.loss] == [s.lo[None].shape for s in slopes]


@given(branched_networks(kinds=("relu", *SMOOTH)), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_slopes_that_are_tied_to_the_input(case: Case, norm: Norm, seed: int) -> None:
    """Tangents know more than slopes: gradients of points of the box, whatever their sign, stay below."""
    net, box, c = case
    points = box.lo + np.random.default_rng(seed).uniform(size=(300, net.inputs)) * (box.hi - box.lo)
    for weights in (c, -c):
        seen = norm.dual.of(net.gradient(points, weights)).max()
        assert prove_linear(Problem.of(net, box, weights, norm)).upper >= seen * (1 - 1e-9)
    pre = tuple(Interval(z.lo[None], z.hi[None]) for z in preactivation_bounds(net, box))
    stages = tangents(net, Interval(box.lo[None], box.hi[None]), pre)
    found = linear_bounds(net, slope_bounds(net, pre), norm, c, None, stages).gradients[0]
    gradients = net.gradient(points, c)
    slack = 1e-11 * (1 + np.abs(gradients))
    assert np.all(gradients <= found.hi + slack)
    assert np.all(gradients >= found.lo - slack)


@given(small_cases(), st.sampled_from(NORMS))
@settings(max_examples=25, deadline=None)
def test_never_below_enumeration(case: Case, norm: Norm) -> None:
    net, box, c = case
    exact = exact_constant(net, box, c, norm)
    assert prove_linear(Problem.of(net, box, c, norm)).upper >= exact * (1 - 1e-12)


@given(small_cases(max_depth=2), st.sampled_from(("inf", "2", "1")), st.sampled_from(("inf", "2", "1")))
@settings(max_examples=25, deadline=None)
def test_whole_maps(case: Case, p: str, q: str) -> None:
    net, box, _ = case
    norm = Norm(p, q)
    points = box.lo + np.random.default_rng(0).uniform(size=(40, net.inputs)) * (box.hi - box.lo)
    rows = np.stack([net.gradient(points, row) for row in np.eye(net.outputs)], axis=1)
    upper = prove_linear(Problem.of(net, box, "all", p, q)).upper
    assert upper >= max(operator(J, norm) for J in rows) * (1 - 1e-9)


@given(branched_networks(), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_a_cell_does_not_depend_on_its_company(case: Case, seed: int) -> None:
    net, box, c = case
    slopes = slope_bounds(net, preactivation_bounds(net, box))
    rng = np.random.default_rng(seed)
    cells = []
    for s in slopes:
        fixed = rng.integers(-1, 2, size=(5, len(s.lo)))
        lo, hi = np.tile(s.lo, (5, 1)), np.tile(s.hi, (5, 1))
        cells.append(Interval(np.where(fixed > 0, hi, lo), np.where(fixed < 0, lo, hi)))
    together = linear_bounds(net, cells, NORMS[0], c)
    for k in range(5):
        alone = linear_bounds(net, [s.rows(slice(k, k + 1)) for s in cells], NORMS[0], c)
        assert alone.upper[0] == pytest.approx(together.upper[k], rel=1e-12, abs=1e-300)
    assert np.all(together.upper <= linear_bounds(net, one_cell(slopes), NORMS[0], c).upper[0] * 10 + 1e-300)


def test_one_pattern_leaves_nothing_to_bound() -> None:
    """All slopes known: the norm of that gradient, up to rounding."""
    net, c = net_of(5, 7, 6, 1, seed=3), np.ones(1)
    rng = np.random.default_rng(0)
    slopes = [rng.integers(0, 2, size=(20, width)).astype(float) for width in net.shape[1:-1]]
    for norm in NORMS:
        found = linear_bounds(net, [Interval(s, s) for s in slopes], norm, c)
        assert found.upper == pytest.approx(norm.dual.of(net.chain_rule(slopes, c)), rel=1e-12)


@given(convolutional_networks())
@settings(max_examples=10, deadline=None)
def test_convolutions_as_kernels_and_as_matrices(pair: tuple[Network, Network]) -> None:
    kernels, matrices = pair
    assert any(isinstance(w, Convolution) for b in kernels.blocks for _, w in b.terms)
    box, c = Box(np.zeros(kernels.inputs), 0.5), np.ones(kernels.outputs)
    uppers = [prove_linear(Problem.of(net, box, c)).upper for net in (kernels, matrices)]
    assert uppers[0] == pytest.approx(uppers[1], rel=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), st.lists(st.floats(0, 2), min_size=2, max_size=2))
@settings(max_examples=200, deadline=None)
def test_products_lie_between_their_lines(ends: list[float], slopes: list[float]) -> None:
    (low, high), (a, b) = sorted(ends), sorted(slopes)
    lines = product_lines(Interval(np.array([[a]]), np.array([[b]])), Interval(np.array([[low]]), np.array([[high]])))
    g, u = np.meshgrid(np.linspace(low, high, 9), np.linspace(a, b, 9))
    tiny = 1e-9 * (1 + abs(low) + abs(high))
    assert np.all(u * g <= lines.up_slope * g + lines.shift + tiny)
    assert np.all(u * g >= lines.low_slope * g - lines.shift - tiny)


@pytest.mark.parametrize("kind", ["relu", "leaky_relu", "tanh"])
def test_the_method_and_its_certificate(kind: str) -> None:
    net = net_of(4, 9, 8, 2, kind=kind)
    for region in (Box(np.zeros(4), 0.3), Everywhere()):
        result = bound(net, region, output=(0, 1), method="linear", work=0.3)
        assert result.method in ("linear", "interval")
        assert result.lower is not None
        assert result.lower <= result.upper
        assert verify(result.certificate, net).proved
    whole = bound(net, Box(np.zeros(4), 0.3), output="all", norm="2", method="linear", work=0.3)
    assert verify(whole.certificate, net).proved


def test_an_affine_network_and_numbers_that_overflow() -> None:
    affine = Network.from_weights([np.array([[3.0, -4.0]])])
    assert bound(affine, Everywhere(), method="linear").upper == pytest.approx(7.0)
    huge = Network.from_weights([np.full((3, 2), 1e200), np.full((3, 3), 1e200), np.ones((1, 3))])
    assert prove_linear(Problem.of(huge, Everywhere())).upper == np.inf
    tiny = Network.from_weights([np.full((3, 2), 1e-200), np.full((3, 3), 1e-200), np.ones((1, 3))])
    assert 0 <= prove_linear(Problem.of(tiny, Everywhere())).upper < 1e-290
    assert Activation("relu").kinked
