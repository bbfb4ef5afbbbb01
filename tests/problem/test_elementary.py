"""Elementary functions: bounds of values, slopes, curvature and lines on intervals, against balls and at edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lipcert import Ball, Box, Everywhere, Network, bound, verify
from lipcert.errors import InputError, MethodError
from lipcert.problem.activations import Activation
from lipcert.problem.activations.elementary import Elementary
from lipcert.problem.activations.parallel import parallel
from lipcert.problem.blocks import Block

POWERS = (2.0, 3.0, 4.0, 17.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, 0.1, -0.3, 1 / 3)
ALL = [Activation("power", p) for p in POWERS]
ALL += [Activation(kind) for kind in ("exp", "log", "sin", "cos", "atan", "sinh", "cosh")]


def intervals(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of every size; some touch zero, some contain it."""
    size = 10.0 ** rng.uniform(-8, 3, count)
    middle = np.where(rng.uniform(size=count) < 0.3, rng.normal(size=count), rng.choice((-1, 1), count) * size)
    radius = 10.0 ** rng.uniform(-9, 2, count)
    lo, hi = middle - radius, middle + radius
    lo, hi = np.where(rng.uniform(size=count) < 0.1, 0.0, lo), np.where(rng.uniform(size=count) < 0.1, 0.0, hi)
    return np.minimum(lo, hi), np.maximum(lo, hi)


def exact(f: Activation, z: float, order: int) -> Any:
    """A derivative in balls, by other formulas than the package's."""
    arb = pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'").arb
    x = arb(z)
    if f.kind == "power":
        factor, left = arb(1), arb(f.alpha) - order
        for k in range(order):
            factor *= arb(f.alpha) - k
        size = abs(x) ** left if z else arb(int(f.alpha == order))
        odd = z < 0 and (f.alpha - order) % 2 == 1
        return factor * (-size if odd else size)
    grows = x.exp(), (-x).exp()
    first, second = ((grows[0] + s * grows[1]) / 2 for s in (-1, 1))
    match f.kind:
        case "exp":
            return grows[0]
        case "log":
            return (x.log(), 1 / x, -1 / (x * x))[order]
        case "sin" | "cos":
            return (x + (order + (f.kind == "cos")) * arb.pi() / 2).sin()
        case "atan":
            return (x.atan(), 1 / (1 + x**2), -2 * x / (1 + x**2) ** 2)[order]
        case _:
            return first if (order + (f.kind == "cosh")) % 2 == 0 else second


def ball(x: float) -> Any:
    from flint import arb

    return arb(x) if np.isfinite(x) else arb("inf" if x > 0 else "-inf")


@pytest.mark.parametrize("f", ALL, ids=str)
def test_bounds_and_lines_hold_in_balls(f: Elementary) -> None:
    flint = pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    rng = np.random.default_rng(0)
    lo, hi = intervals(rng, 150)
    inside = f.defined(lo, hi)
    lo, hi = lo[inside], hi[inside]
    share = rng.choice((0.0, 1.0, 0.5, 0.3), len(lo)) + rng.uniform(-0.2, 0.2, len(lo))
    z = np.clip(lo + share * (hi - lo), lo, hi)
    bounds, pairs = [f.bounds(order, lo, hi) for order in range(3)], (f.lines(lo, hi), parallel(f, lo, hi))
    assert len(z) > 20
    with flint.ctx.workprec(160):
        for k, at in enumerate(z.tolist()):
            if at == 0.0 and f.kind == "power" and f.alpha != round(f.alpha):
                continue
            true = [exact(f, at, order) for order in range(3)]
            for (low, high), value in zip(bounds, true, strict=True):
                assert not value < ball(low[k]), (lo[k], hi[k], at)
                assert not value > ball(high[k]), (lo[k], hi[k], at)
            for lines in pairs:
                if np.isfinite(lines.low_shift[k]):
                    assert not true[0] < ball(lines.low_slope[k]) * ball(at) + ball(lines.low_shift[k])
                if np.isfinite(lines.up_shift[k]):
                    assert not true[0] > ball(lines.up_slope[k]) * ball(at) + ball(lines.up_shift[k])


@pytest.mark.parametrize("f", ALL, ids=str)
def test_lines_are_chord_and_tangent(f: Elementary) -> None:
    """Where the curve bends one way, one line meets it at both ends and the other one in the middle."""
    lo, hi = np.array([0.3, 1.0, 2.0]), np.array([0.4, 1.4, 2.1])
    lines, middle = f.lines(lo, hi), (lo + hi) / 2
    rising = f.bounds(2, lo, hi)[0] >= 0
    gaps = [
        (f(z) - lines.low_slope * z - lines.low_shift, lines.up_slope * z + lines.up_shift - f(z)) for z in (lo, hi)
    ]
    gap = f(middle) - lines.low_slope * middle - lines.low_shift, lines.up_slope * middle + lines.up_shift - f(middle)
    size = 2e-12 * (1 + np.abs(f(hi)) + np.abs(f(lo)))
    assert np.all(np.where(rising, gap[0], gap[1]) <= size)
    for low, high in gaps:
        assert np.all(np.where(rising, high, low) <= size)


@pytest.mark.parametrize("f", ALL, ids=str)
def test_derivatives_are_those_of_the_values(f: Elementary) -> None:
    z = np.random.default_rng(1).uniform(0.3, 3, 200)
    z = np.concatenate([z, -z]) if f.defined(-z, -z).all() else z
    for order in range(3):
        numeric = (f.at(z + 1e-6, order) - f.at(z - 1e-6, order)) / 2e-6
        np.testing.assert_allclose(f.at(z, order + 1), numeric, rtol=1e-5, atol=1e-6)
    slope, curve = f.smoothed(z.astype(np.float32), 1.0)
    assert slope.dtype == curve.dtype == np.float32
    np.testing.assert_allclose(slope, f.derivative(z), rtol=1e-3, atol=1e-4)


def test_bounds_outside_of_the_domain_are_infinite() -> None:
    cases = {"log": [-1, 0, 0], "power -1": [-1, 0, -1], "power 0.5": [-1e-300, -2, -1], "power -0.5": [-1, 0, 0]}
    for name, lows in cases.items():
        kind, _, alpha = name.partition(" ")
        f = Activation(kind, float(alpha or 0))
        lo, hi = np.array(lows, dtype=float), np.array([1.0, 1.0, 0.0])
        for low, high in (f.value_bounds(lo, hi), f.derivative_bounds(lo, hi), f.second_bounds(lo, hi)):
            assert np.all(np.isneginf(low))
            assert np.all(np.isposinf(high))
        lines = f.lines(lo, hi)
        assert np.all(np.isneginf(lines.low_shift) & np.isposinf(lines.up_shift))


def test_the_edge_of_a_closed_domain() -> None:
    root = Activation("power", 0.5)
    zero, four = np.zeros(1), np.full(1, 4.0)
    assert root.value_bounds(zero, four)[0] == 0.0
    assert root.value_bounds(zero, four)[1] == pytest.approx(2.0)
    assert np.isposinf(root.derivative_bounds(zero, four)[1][0])
    assert root.lines(zero, four).low_slope == pytest.approx(0.5)


def test_overflow_is_paid_on_the_side_where_it_happens() -> None:
    big = np.array([800.0])
    low, high = Activation("exp").value_bounds(big, big)
    assert np.isposinf(high[0])
    assert 1.79e308 < low[0] < np.inf
    huge = np.array([1e200])
    low, high = Activation("power", 3.0).value_bounds(-huge, -huge)
    assert np.isneginf(low[0])
    assert -np.inf < high[0] < -1.79e308
    low, high = Activation("exp").value_bounds(-big, -big)
    assert low[0] == 0.0
    assert 0.0 < high[0] < 1e-300


def test_squares_across_zero() -> None:
    low, high = Activation("power", 2.0).value_bounds(np.array([-1.0, -1e-9]), np.array([2.0, 1e-9]))
    assert low.tolist() == [0.0, 0.0]
    assert high[0] == pytest.approx(4.0)


def test_waves_contain_their_turning_points() -> None:
    lo, hi = np.array([1.5, 7.8, 4.7, 0.0, 1e9]), np.array([1.6, 7.9, 4.72, 1.0, 1e9 + 0.1])
    low, high = Activation("sin").value_bounds(lo, hi)
    assert high[[0, 1, 4]].tolist() == [1.0, 1.0, 1.0]
    assert low[[2, 4]].tolist() == [-1.0, -1.0]
    assert high[3] < 0.85


def test_construction() -> None:
    assert Activation("power", 1.0).kind == "identity"
    assert str(Activation("power", -0.5)) == "power(-0.5)"
    for alpha in (0.0, np.nan, 65.0, -np.inf):
        with pytest.raises(InputError, match="between -64 and 64"):
            Activation("power", alpha)


def network(kind: str, alpha: float, shift: float) -> Network:
    rng = np.random.default_rng(0)
    first = Block(((0, rng.normal(size=(4, 2)) / 2),), np.full(4, shift), Activation(kind, alpha))
    second = Block(((1, rng.normal(size=(3, 4)) / 3),), np.zeros(3), Activation("tanh"))
    return Network.from_blocks([first, second, Block(((2, rng.normal(size=(1, 3))),), np.zeros(1))])


@pytest.mark.parametrize("f", [f for f in ALL if abs(f.alpha) < 5], ids=str)
def test_both_checkers_prove_bounds_of_networks(f: Activation) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    net, box = network(f.kind, f.alpha, 2.0), Box(np.zeros(2), 0.02)
    found = bound(net, box, output=0, method="linear")
    rng = np.random.default_rng(1)
    sampled = max(np.abs(net.gradient(x, np.ones(1))).sum() for x in rng.uniform(-0.02, 0.02, (50, 2)))
    assert sampled * (1 - 1e-12) <= found.upper <= 1.2 * sampled
    assert verify(found.certificate, net).proved
    assert verify(found.certificate, net, exact=True).proved


def test_a_region_that_leaves_the_domain_has_no_bound_and_says_where() -> None:
    found = bound(network("log", 0.0, 0.05), Box(np.zeros(2), 0.1), output=0, method="linear")
    assert np.isinf(found.upper)
    assert any("applies log on [-" in note for note in found.notes)
    assert not verify(found.certificate, network("log", 0.0, 0.05)).proved


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("output", [0, "all"])
def test_no_method_breaks_where_there_is_no_bound(output: int | str) -> None:
    """On a ball in norm 2 the greedy pass of slopes comes first."""
    net, ball = network("log", 0.0, 0.05), Ball(np.zeros(2), 0.5)
    for method in ("auto", "slopes", "tight", "mixed"):
        found = bound(net, ball, output=output, norm="2", method=method, time_limit=0.3)
        assert np.isinf(found.upper)
        assert not verify(found.certificate, net).proved


def test_unbounded_slopes_on_the_whole_space_are_refused() -> None:
    with pytest.raises(MethodError, match=r"block 1 applies exp on \[-inf, inf\].*give a bounded region"):
        bound(network("exp", 0.0, 0.0), Everywhere(), output=0)
    assert np.isfinite(bound(network("atan", 0.0, 0.0), Everywhere(), output=0, method="interval").upper)
