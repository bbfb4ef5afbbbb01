"""Activations: values, derivatives, and bounds that contain them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipcert.errors import InputError
from lipcert.problem.activations import ACTIVATIONS, BOUNDED, RELU, Activation
from lipcert.problem.activations.bumped import Bumped
from lipcert.problem.activations.versions import lines_of_1_0_0

ALL = [
    Activation(f.kind, alpha)
    for f in ACTIVATIONS
    if f.kind in BOUNDED
    for alpha in ((0.3, 1.7) if f.takes_alpha else (0.0,))
]
CURVED = [f for f in ALL if isinstance(f, Bumped) and f.kind != "hardswish"]
FLAT_OUT = {"gelu", "gelu_tanh", "silu", "mish", "erf"}  # what is next to nothing far out has an absolute error
ends = st.floats(-40, 40)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_derivative_is_the_derivative(f: Activation) -> None:
    z = np.random.default_rng(0).normal(size=500) * 3
    z = z[(np.abs(z) > 1e-3) & (np.abs(np.abs(z) - 3) > 1e-3)]
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
    off = room * (abs(value) + (f.kind in FLAT_OUT))
    low, high = f.value_bounds(lo, hi)
    assert low - off <= value <= high + off
    dlow, dhigh = f.derivative_bounds(lo, hi)
    if not (f.piecewise_linear and z[0] in (lo[0], hi[0])):
        off = room * (abs(slope) + (f.kind in FLAT_OUT))
        assert dlow - off <= slope <= dhigh + off
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
        case "tanh":
            return np.tanh(w), 1 / np.cosh(w) ** 2
        case "softsign":
            return w / (1 + abs(w)), 1 / (1 + abs(w)) ** 2
        case "hardswish":
            three = np.longdouble(3)
            return w * np.clip(w / 6 + 0.5, 0, 1), np.select([w <= -3, w <= 3], [0 * w, w / three + 0.5], 1 + 0 * w)
        case "erf":
            root = np.sqrt(np.longdouble(2))
            return 2 * _above_half(w * root), 2 * root * _density(w * root)
        case "gelu":
            normal = 0.5 + _above_half(w)
            return w * normal, normal + w * _density(w)
        case "silu":
            return w / (1 + np.exp(-w)), (1 + np.exp(-w) * (1 + w)) / (1 + np.exp(-w)) ** 2
        case "gelu_tanh":
            factor, cube = np.sqrt(2 / np.longdouble("3.14159265358979323846")), np.longdouble("0.044715")
            t = np.tanh(factor * (w + cube * w**3))
            return w * (1 + t) / 2, (1 + t) / 2 + w * (1 - t * t) / 2 * factor * (1 + 3 * cube * w * w)
        case _:
            t = np.tanh(np.maximum(w, 0) + np.log1p(np.exp(-np.abs(w))))
            return w * t, t + w * (1 - t * t) / (1 + np.exp(-w))


def _density(w: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-w * w / 2) / np.sqrt(2 * np.longdouble("3.14159265358979323846")))


def _above_half(w: np.ndarray) -> np.ndarray:
    """The normal distribution without its half: the density times x + x^3/3 + x^5/15 + .."""
    x = np.minimum(np.abs(w), 10)  # beyond, it is 1 to all digits
    term = total = x
    for k in range(3, 500, 2):
        term = term * x * x / k
        total = total + term
    return np.asarray(np.sign(w) * np.minimum(total * _density(x), np.longdouble(0.5)))


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


@pytest.mark.parametrize("f", ALL, ids=str)
def test_bounds_contain_many_points_of_many_intervals(f: Activation) -> None:
    """In plain floating point: the slack of the bounds is larger than what that is off."""
    rng = np.random.default_rng(0)
    middle, radius = rng.normal(size=600) * 3, 10.0 ** rng.uniform(-9, 1.5, size=600)
    lo, hi = middle - radius, middle + radius
    z = np.clip(lo + np.linspace(0, 1, 41)[:, None] * (hi - lo), lo, hi)
    low, high = f.value_bounds(lo, hi)
    assert np.all((low <= f(z)) & (f(z) <= high))
    dlow, dhigh = f.derivative_bounds(lo, hi)
    assert np.all((dlow <= f.derivative(z)) & (f.derivative(z) <= dhigh))
    if not f.piecewise_linear:
        second, (slow, shigh) = f.smoothed(z, 1.0)[1], f.second_bounds(lo, hi)
        assert np.all((slow - 1e-15 <= second) & (second <= shigh + 1e-15))  # s (1 - s) cancels
    lines = f.lines(lo, hi)
    room = 1e-15 * (np.abs(z) + np.abs(f(z)))  # of evaluating the lines
    assert np.all(lines.low_slope * z + lines.low_shift <= f(z) + room)
    assert np.all(f(z) <= lines.up_slope * z + lines.up_shift + room)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_bounds_are_close(f: Activation) -> None:
    """On narrow intervals without a kink; and lines are better than constants."""
    z = np.random.default_rng(1).uniform(-6, 6, size=200)
    z = z[(np.abs(z) > 0.01) & (np.abs(np.abs(z) - 3) > 0.01)]
    for bounds, value in ((f.value_bounds, f(z)), (f.derivative_bounds, f.derivative(z))):
        low, high = bounds(z - 1e-9, z + 1e-9)
        np.testing.assert_allclose(low, value, atol=1e-8)
        np.testing.assert_allclose(high, value, atol=1e-8)
    lines = f.lines(z - 0.005, z + 0.005)
    gap = (lines.up_slope - lines.low_slope) * z + lines.up_shift - lines.low_shift
    assert gap.max() < 1e-3


@pytest.mark.parametrize("f", [f for f in ALL if not f.piecewise_linear], ids=str)
def test_lines_are_nearly_the_best_in_the_middle(f: Activation) -> None:
    """The best value in the middle is that of the hull of the graph: the largest of all chords across the middle."""
    rng = np.random.default_rng(2)
    middle, radius = rng.normal(size=80) * 2, rng.uniform(0.1, 4, size=80)
    lo, hi, lines = middle - radius, middle + radius, f.lines(middle - radius, middle + radius)
    left, right = np.linspace(0, 0.5, 40), np.linspace(0.5, 1, 40)[1:]
    i, j = (np.meshgrid(left, right)[k].reshape(-1, 1) for k in (0, 1))
    a, b = f(lo + i * (hi - lo)), f(lo + j * (hi - lo))
    chords = a + (b - a) * (0.5 - i) / (j - i)
    spread = f.derivative_bounds(lo, hi)[1] - f.derivative_bounds(lo, hi)[0]
    room = 1e-9 + 0.06 * spread * (hi - lo)  # of rounding, and of the pieces between which shifts are proved
    assert np.all(lines.up_slope * middle + lines.up_shift <= chords.max(axis=0) + room)
    assert np.all(lines.low_slope * middle + lines.low_shift >= chords.min(axis=0) - room)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_lines_of_version_1_0_0_are_bounds(f: Activation) -> None:
    lo = np.random.default_rng(3).normal(size=200) * 3
    hi = lo + 10.0 ** np.random.default_rng(4).uniform(-6, 1, size=200)
    with lines_of_1_0_0():
        lines = f.lines(lo, hi)
    z = np.clip(lo + np.linspace(0, 1, 41)[:, None] * (hi - lo), lo, hi)
    room = 1e-15 * (np.abs(z) + np.abs(f(z)))
    assert np.all(lines.low_slope * z + lines.low_shift <= f(z) + room)
    assert np.all(f(z) <= lines.up_slope * z + lines.up_shift + room)


@pytest.mark.parametrize("f", CURVED, ids=str)
def test_turning_points_are_where_they_are_said_to_be(f: Bumped) -> None:
    """The derivative changes its sign within 5e-7 of each (they count as inside within 1e-6), and nowhere else."""
    grid, step = np.linspace(-12, 12, 4001), 1e-4

    def third(z: np.ndarray) -> np.ndarray:
        return (f.second(z + step) - f.second(z - step)) / (2 * step)

    for derivative, points in ((f.derivative, f.turns), (f.second, f.bends), (third, f.waves)):
        p = np.array(points)
        assert np.all(np.sign(derivative(p - 5e-7)) * np.sign(derivative(p + 5e-7)) == -1)
        values = derivative(grid)
        signs = np.sign(values[np.abs(values) > 1e-9])
        assert np.count_nonzero(signs[1:] != signs[:-1]) == len(points)


@pytest.mark.parametrize("f", CURVED, ids=str)
def test_turning_points_have_all_digits(f: Bumped) -> None:
    """In extended precision the slope at the minimum is that of a point half a unit in the last place away."""
    assert abs(_precise(f, np.array(f.turns))[1]) < 1e-16


@pytest.mark.parametrize("f", ALL, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_far_out_nothing_is_lost(f: Activation, kind: type) -> None:
    z: np.ndarray = np.array([-1e30, -1e4, -50.0, 50.0, 1e4, 1e30], dtype=kind)
    values, slopes, (smooth, curve) = f(z), f.derivative(z), f.smoothed(z, 2.0)
    for found in (values, slopes, smooth, curve):
        assert np.all(np.isfinite(found))
    assert smooth.dtype == curve.dtype == kind
    if isinstance(f, Bumped):
        np.testing.assert_allclose(values, np.maximum(z, 0), atol=1e-15)
        np.testing.assert_allclose(slopes, z > 0, atol=1e-15)
        far = np.array([-1e200, 1e200])
        assert f(far).tolist() == pytest.approx([0, 1e200])
        low, high = f.derivative_bounds(far, far)
        assert np.all(high - low < 1e-13)


def test_slopes_may_be_negative() -> None:
    assert [str(f) for f in ALL if f.slopes[0] < 0] == ["gelu", "gelu_tanh", "silu", "mish", "hardswish"]
    assert all(f.steepest == f.slopes[1] for f in ALL)


def test_the_slope_of_hard_swish_jumps() -> None:
    f = Activation("hardswish")
    lo, hi = np.array([-4.0, -3.0, -4.0, 2.0, -1.0]), np.array([-3.5, -3.0, -2.0, 4.0, 1.0])
    low, high = f.derivative_bounds(lo, hi)
    np.testing.assert_allclose(low, [0, -0.5, -0.5, 1.0, 1 / 6], atol=1e-14)
    np.testing.assert_allclose(high, [0, 0, 0, 1.5, 5 / 6], atol=1e-14)
    second = f.second_bounds(lo, hi)
    assert np.isinf(second[0]).tolist() == np.isinf(second[1]).tolist() == [False, True, True, True, False]


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
