"""Activations: values, derivatives, and bounds that contain them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipcert.errors import InputError
from lipcert.problem.activations import KINDS, RELU, Activation

ALL = [Activation(kind, alpha) for kind in KINDS for alpha in (0.3, 1.7)]
ends = st.floats(-40, 40)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_derivative_is_the_derivative(f: Activation) -> None:
    z = np.random.default_rng(0).normal(size=500) * 3
    z = z[np.abs(z) > 1e-3]
    numeric = (f(z + 1e-6) - f(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(f.derivative(z), numeric, rtol=1e-5, atol=1e-8)
    a, b = f.slopes
    assert np.all(f.derivative(z) >= a)
    assert np.all(f.derivative(z) <= b)


@pytest.mark.parametrize("f", ALL, ids=str)
@given(a=ends, b=ends, where=st.floats(0, 1))
def test_bounds_contain_values_slopes_and_lines(f: Activation, a: float, b: float, where: float) -> None:
    lo, hi = np.array([min(a, b)]), np.array([max(a, b)])
    z = np.clip(lo + where * (hi - lo), lo, hi)
    value, slope = _precise(f, z)
    room = np.longdouble(1e-17)  # the extended precision's own rounding
    low, high = f.value_bounds(lo, hi)
    assert low - room * abs(value) <= value <= high + room * abs(value)
    dlow, dhigh = f.derivative_bounds(lo, hi)
    if not (f.piecewise_linear and z[0] in (lo[0], hi[0])):
        assert dlow * (1 - room) <= slope <= dhigh * (1 + room)
    assert f.slopes[0] <= dlow
    assert dhigh <= f.slopes[1]
    lines = f.lines(lo, hi)
    z80 = z.astype(np.longdouble)
    room = room * (abs(value) + abs(z80))
    assert lines.low_slope * z80 + lines.low_shift <= value + room
    assert value - room <= lines.up_slope * z80 + lines.up_shift


def _precise(f: Activation, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and derivative in extended precision, by other formulas than the package's."""
    w = z.astype(np.longdouble)
    alpha = np.longdouble(f.alpha)
    match f.kind:
        case "identity":
            return w, w * 0 + 1
        case "relu" | "leaky_relu":
            return np.where(w > 0, w, alpha * w), np.where(w > 0, 1, alpha)
        case "elu":
            return np.where(w > 0, w, alpha * np.expm1(w)), np.where(w > 0, 1, alpha * np.exp(w))
        case "softplus":
            return np.maximum(w, 0) + np.log1p(np.exp(-np.abs(w))), 1 / (1 + np.exp(-w))
        case "sigmoid":
            return 1 / (1 + np.exp(-w)), np.exp(-w) / (1 + np.exp(-w)) ** 2
        case _:
            return np.tanh(w), 1 / np.cosh(w) ** 2


@pytest.mark.parametrize("f", ALL, ids=str)
def test_infinite_ends(f: Activation) -> None:
    lo, hi = np.array([-np.inf]), np.array([np.inf])
    with np.errstate(all="raise"):
        low, high = f.value_bounds(lo, hi)
        assert low <= f(np.array([-5.0])) <= f(np.array([5.0])) <= high
        assert not np.isnan(low)
        assert not np.isnan(high)
    dlow, dhigh = f.derivative_bounds(lo, hi)
    np.testing.assert_allclose([dlow[0], dhigh[0]], f.slopes, atol=1e-12)


def test_a_neuron_that_only_touches_its_kink_is_stable() -> None:
    lo, hi = np.array([0.0, -1.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    dlow, dhigh = RELU.derivative_bounds(lo, hi)
    assert dlow.tolist() == [1, 0, 0, 0]
    assert dhigh.tolist() == [1, 0, 1, 1]


def test_construction() -> None:
    assert Activation("leaky_relu", 0.0) == RELU
    assert Activation("leaky_relu", 1.0).kind == "identity"
    assert Activation("relu", 0.7) == RELU
    assert str(Activation("elu", 0.5)) == "elu(0.5)"
    for alpha in (-0.1, np.nan, np.inf):
        with pytest.raises(InputError, match="alpha"):
            Activation("leaky_relu", alpha)
    with pytest.raises(InputError, match="unknown kind"):
        Activation("swish")
