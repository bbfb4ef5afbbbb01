"""Pre-activation and gradient bounds: containment in exact rational arithmetic, tightness, odd inputs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert import Box, Everywhere, Network
from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval, affine_interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.rounding import Array
from tests.rational import exact_pass, inside
from tests.strategies import SMOOTH, small_cases


@settings(max_examples=60)
@given(small_cases(kinds=("relu",)), st.floats(-12, 12), st.integers(0, 2**32 - 1))
def test_containment_in_rational_arithmetic(case: tuple[Network, Box, Array], scale: float, seed: int) -> None:
    """Weights scaled layer by layer by powers of ten, so that cancellation and tiny terms occur."""
    net, box, c = case
    rng = np.random.default_rng(seed)
    factors = 10.0 ** (scale * rng.uniform(-1, 1, size=len(net.affines)))
    net = Network.from_weights(
        [a.weight * f for a, f in zip(net.affines, factors, strict=True)], [a.bias for a in net.affines]
    )
    for region in (box, Everywhere()):
        pre = preactivation_bounds(net, region)
        gradients = gradient_bounds(net, pre, c)
        for point in (*rng.uniform(box.lo, box.hi, size=(4, box.size)), box.lo, box.hi):
            layers, g = exact_pass(net, point, c)
            assert all(inside(z, bounds) for z, bounds in zip(layers, pre, strict=True))
            if all(z != 0 for layer in layers for z in layer):
                assert inside(g, gradients[0])


@settings(max_examples=60)
@given(small_cases(kinds=("relu", "leaky_relu", *SMOOTH)))
def test_containment_for_every_activation(case: tuple[Network, Box, Array]) -> None:
    net, box, c = case
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(200, box.size))
    for region in (box, Everywhere()):
        pre = preactivation_bounds(net, region)
        tolerance = 1e-12
        for z, bounds in zip(net.preactivations(x), pre, strict=True):
            assert np.all(z >= bounds.lo - tolerance * (1 + np.abs(z)))
            assert np.all(z <= bounds.hi + tolerance * (1 + np.abs(z)))
        g, bounds = net.gradient(x, c), gradient_bounds(net, pre, c)[0]
        assert np.all(g >= bounds.lo - 1e-12)
        assert np.all(g <= bounds.hi + 1e-12)


def test_one_layer_bounds_are_exact_up_to_rounding() -> None:
    W, b = np.array([[1.0, -2.0], [0.5, 0.25]]), np.array([0.1, -3.0])
    bounds = affine_interval(W, b, Interval(np.array([-1.0, 0.0]), np.array([1.0, 2.0])))
    np.testing.assert_allclose(bounds.lo, [-4.9, -3.5], rtol=1e-14)
    np.testing.assert_allclose(bounds.hi, [1.1, -2.0], rtol=1e-14)
    sparse_bounds = affine_interval(sparse.csr_array(W), b, Interval(np.array([-1.0, 0.0]), np.array([1.0, 2.0])))
    np.testing.assert_allclose(sparse_bounds, bounds, rtol=1e-14)


def test_backward_substitution_improves_on_intervals_and_respects_a_budget() -> None:
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(20, 20)) / 4 for _ in range(5)])
    box = Box(rng.normal(size=20), 0.05)
    plain, best = preactivation_bounds(net, box, backward=False), preactivation_bounds(net, box)
    late = preactivation_bounds(net, box, budget=Budget.of_work(0.0))
    widths = [(b.hi - b.lo).sum() for b in (plain[-1], best[-1], late[-1])]
    assert widths[1] < 0.5 * widths[0]
    assert widths[2] == widths[0]
    assert all(np.all(b.lo >= p.lo) and np.all(b.hi <= p.hi) for p, b in zip(plain, best, strict=True))


def test_infinite_inputs_meet_signs() -> None:
    x = Interval(np.array([0.0, -np.inf]), np.array([np.inf, -5.0]))
    bounds = affine_interval(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [0.0, 0.0]]), np.ones(4), x)
    assert bounds.lo.tolist()[1] == -np.inf
    np.testing.assert_allclose(bounds.lo[[0, 2, 3]], [1.0, 1.0, 1.0], atol=5.1)
    assert bounds.hi[0] == np.inf
    assert bounds.hi[1] <= 1.0 + 1e-12
    assert bounds.hi[2] == np.inf
    assert bounds.lo[3] <= 1.0 <= bounds.hi[3]


def test_bounded_activations_bound_deeper_layers_everywhere() -> None:
    net = Network.from_weights([np.ones((2, 2)), np.array([[1.0, 2.0]]), np.ones((1, 1))], None, "tanh")
    pre = preactivation_bounds(net, Everywhere())
    assert np.isinf(pre[0].lo).all()
    np.testing.assert_allclose([pre[1].lo[0], pre[1].hi[0]], [-3.0, 3.0], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_overflow_and_underflow_lose_precision_not_soundness(scale: float) -> None:
    net = Network.from_weights([np.full((2, 2), scale), np.full((2, 2), scale), np.full((1, 2), 1 / scale)])
    pre = preactivation_bounds(net, Box([1.0, 1.0], 0.5))
    gradient = gradient_bounds(net, pre, np.ones(1))[0]
    assert not any(np.isnan(end).any() for interval in (*pre, gradient) for end in interval)
    if scale < 1:
        exact = Fraction(scale) ** 2 * 4 * Fraction(1 / scale)
        assert Fraction(float(gradient.hi[0])) >= exact


def test_dimension_is_checked() -> None:
    net = Network.from_weights([np.ones((2, 2)), np.ones((1, 2))])
    with pytest.raises(InputError, match="2 inputs"):
        preactivation_bounds(net, Box([0.0], 1.0))
