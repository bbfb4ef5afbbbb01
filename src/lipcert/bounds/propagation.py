"""Sound intervals, rounded outward: pre-activations from the region forward, gradients from the output backward.

Forward: plain interval arithmetic, and on a bounded region also backward substitution of linear bounds [CROWN18];
each neuron keeps the better of both. Backward: the interval form of the chain rule [FastLip18].
Every function returns bounds that hold for the exact real arithmetic of the given weights.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from lipcert.problem.activations import Activation
from lipcert.problem.network import Affine, Network
from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.problem import PREACTIVATIONS, Problem
from lipcert.problem.region import Ball, Region, check_region, hull
from lipcert.rounding import TINY, UNIT, Array, add_down, add_up, down, gamma, grow, up

_SMALL = 2.0**-100
_EUCLIDEAN = Norm("2")
_CHUNK = 1 << 22  # numbers in one block of rows of a backward substitution


class Interval(NamedTuple):
    """lo <= value <= hi, entry by entry."""

    lo: Array
    hi: Array

    @property
    def magnitude(self) -> Array:
        """The largest |value|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def mignitude(self) -> Array:
        """The smallest |value|."""
        return np.maximum(np.maximum(self.lo, -self.hi), 0.0)


def preactivations(problem: Problem) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m on the region of a problem, computed once and kept with it."""
    return problem.kept(PREACTIVATIONS, lambda: preactivation_bounds(problem.network, problem.region))


def preactivation_bounds(
    net: Network, region: Region, *, backward: bool = True, deadline: float | None = None
) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m for every input of the region.

    `backward=False` leaves it at plain intervals; past `deadline` (time.monotonic) the remaining layers do too.
    """
    check_region(region, net.inputs)
    box = hull(region)
    ball = region if isinstance(region, Ball) else None
    x = _everywhere(net.inputs) if box is None else Interval(box.lo, box.hi)
    inputs: list[Interval] = [x]  # of every layer's affine map
    bounds: list[Interval] = []
    for k, f in enumerate(net.activations):
        z = affine_interval(net.affines[k].weight, net.affines[k].bias, inputs[k])
        in_time = deadline is None or time.monotonic() < deadline
        if k == 0 and ball is not None:
            z = _meet(z, _affine_of_ball(net.affines[0].weight, net.affines[0].bias, ball))
        if k and box is not None and backward and in_time:
            z = _meet(z, _backward_substitution(net, k, bounds, inputs, ball))
        bounds.append(z)
        inputs.append(Interval(*f.value_bounds(*z)))
    return tuple(bounds)


def slope_bounds(net: Network, pre: Sequence[Interval]) -> tuple[Interval, ...]:
    """Bounds of the activations' derivatives under given pre-activation bounds."""
    return tuple(Interval(*f.derivative_bounds(*z)) for f, z in zip(net.activations, pre, strict=True))


def gradient_bounds(
    net: Network, pre: Sequence[Interval], c: Array, slopes: Sequence[Interval] | None = None
) -> tuple[Interval, ...]:
    """Bounds of the gradient of c'scores with respect to x_0, x_1, .., x_m (the derivative passes down through A').

    `slopes` instead of those that `pre` allows.
    """
    slopes = slope_bounds(net, pre) if slopes is None else slopes
    g = _linear_interval(net.affines[-1].weight.T, Interval(c, c))
    gradients = [g]
    for s, affine in zip(reversed(slopes), reversed(net.affines[:-1]), strict=True):
        g = _linear_interval(affine.weight.T, scaled(s, g))
        gradients.append(g)
    return tuple(reversed(gradients))


def affine_interval(weight: Matrix, bias: Array, x: Interval) -> Interval:
    """Bounds of weight x + bias; infinite ends of x are allowed."""
    infinite = np.isinf(x.lo) | np.isinf(x.hi)
    if not infinite.any():
        return _affine_of_finite(weight, bias, x)
    below, above = np.isneginf(x.lo), np.isposinf(x.hi)
    finite = Interval(np.where(below, 0.0, x.lo), np.where(above, 0.0, x.hi))
    finite = Interval(np.minimum(finite.lo, finite.hi), np.maximum(finite.lo, finite.hi))
    z = _affine_of_finite(weight, bias, finite)
    rises, falls = _sign(weight, 1), _sign(weight, -1)
    to_minus = (rises @ below.astype(float) + falls @ above.astype(float)) > 0
    to_plus = (rises @ above.astype(float) + falls @ below.astype(float)) > 0
    return Interval(np.where(to_minus, -np.inf, z.lo), np.where(to_plus, np.inf, z.hi))


def _affine_of_finite(weight: Matrix, bias: Array, x: Interval) -> Interval:
    """z = W m + b up to |W| r and the rounding errors gamma (|W||m| + |b|), in two matrix-vector products.

    `least` pays for underflow. It is a part of the largest entry that changes no digit, because the smallest floats
    make a processor crawl where x is mostly zero.
    """
    n = weight.shape[1]
    g = gamma(n + 4)
    with np.errstate(over="ignore", invalid="ignore"):
        m, r = middle_and_radius(x)
        z = weight @ m + bias
        reach = r + g * np.abs(m)
        least = max(TINY, _SMALL * float(reach.max(initial=0.0)))
        spread = grow(abs(weight) @ (reach + least) + g * np.abs(bias), n + 8)
        return outward(z, spread)


def _affine_of_ball(weight: Matrix, bias: Array, ball: Ball) -> Interval:
    """z = W c + b up to the radius times the Euclidean norm of each row, and rounding as for a box."""
    n = weight.shape[1]
    g = gamma(n + 4)
    with np.errstate(over="ignore", invalid="ignore"):
        z = weight @ ball.center + bias
        rounding = abs(weight) @ (g * np.abs(ball.center) + TINY) + g * np.abs(bias)
        return outward(z, grow(_EUCLIDEAN.rows_above(weight) * ball.radius + rounding, n + 8))


def _linear_interval(weight: Matrix, x: Interval) -> Interval:
    return _affine_of_finite(weight, np.zeros(weight.shape[0]), x)


def middle_and_radius(x: Interval) -> tuple[Array, Array]:
    m = x.lo / 2 + x.hi / 2
    return m, np.maximum(add_up(x.hi, -m), add_up(m, -x.lo))


def outward(value: Array, spread: Array) -> Interval:
    """[value - spread, value + spread]; where a sum overflowed, nothing is known."""
    lo, hi = add_down(value, -spread), add_up(value, spread)
    unknown = ~(np.isfinite(lo) & np.isfinite(hi))
    return Interval(np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi))


def scaled(s: Interval, g: Interval) -> Interval:
    """Bounds of s g with s >= 0, entry by entry."""
    with np.errstate(over="ignore", invalid="ignore"):
        lo = np.where(g.lo >= 0, s.lo, s.hi) * g.lo
        hi = np.where(g.hi <= 0, s.lo, s.hi) * g.hi
    exact = (s.lo == s.hi) & ((s.lo == 1.0) | (s.lo == 0.0))
    zero = s.hi == 0
    lo, hi = np.where(zero, 0.0, np.where(exact, lo, down(lo))), np.where(zero, 0.0, np.where(exact, hi, up(hi)))
    return Interval(np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi))


def _backward_substitution(
    net: Network, k: int, bounds: Sequence[Interval], inputs: Sequence[Interval], ball: Ball | None = None
) -> Interval:
    """Bounds of A x_k + b: x_k, x_{k-1}, .. give way to linear bounds down to the input, in blocks of rows."""
    affine = net.affines[k]
    widest = max(max(a.weight.shape) for a in net.affines[: k + 1])
    step = max(1, _CHUNK // widest)
    lo, hi = np.empty(affine.outputs), np.empty(affine.outputs)
    for start in range(0, affine.outputs, step):
        rows = slice(start, min(start + step, affine.outputs))
        block = affine.weight[rows]
        block = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
        hi[rows] = _upper_form(net, k, block, affine.bias[rows], bounds, inputs, ball)
        lo[rows] = -_upper_form(net, k, -block, -affine.bias[rows], bounds, inputs, ball)
    return Interval(lo, hi)


def _upper_form(
    net: Network,
    k: int,
    rows: Array,
    shift: Array,
    bounds: Sequence[Interval],
    inputs: Sequence[Interval],
    ball: Ball | None,
) -> Array:
    """An upper bound of rows x_k + shift over the region.

    The linear form in hand is exact by definition: what rounding changes in its coefficients is paid for at once, as
    |change| times the largest |x|, in `error`. `size` bounds the constants added, for the errors of adding them.
    """
    constant, size, error = shift.copy(), np.abs(shift), np.zeros(len(shift))
    longest = max(max(a.weight.shape) for a in net.affines[: k + 1]) + 8 * (k + 2)
    g = gamma(longest)
    with np.errstate(over="ignore", invalid="ignore"):
        for affine, f, z, x in _downwards(net, k, bounds, inputs):
            lines = f.lines(z.lo, z.hi)
            positive, negative = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
            constant += positive @ lines.up_shift + negative @ lines.low_shift
            size += np.abs(rows) @ np.maximum(np.abs(lines.up_shift), np.abs(lines.low_shift))
            rows = positive * lines.up_slope + negative * lines.low_slope
            weights = np.abs(rows)
            constant += rows @ affine.bias
            size += weights @ np.abs(affine.bias)
            paid = 4 * UNIT * z.magnitude + g * (abs(affine.weight) @ x.magnitude)
            error += weights @ paid + longest * TINY * (1.0 + z.magnitude.sum() + x.magnitude.sum())
            rows = np.asarray(rows @ affine.weight, dtype=np.float64)
        m, r = middle_and_radius(inputs[0])
        weights = np.abs(rows)
        value = constant + rows @ m
        top = outward(value, grow(weights @ r + g * (size + weights @ np.abs(m)) + error, 2 * longest)).hi
        if ball is not None:
            value, reach = constant + rows @ ball.center, _EUCLIDEAN.rows_above(rows) * ball.radius
            spread = grow(reach + g * (size + weights @ np.abs(ball.center)) + error, 2 * longest)
            top = np.fmin(top, outward(value, spread).hi)
    return np.where(np.isnan(top), np.inf, top)


def _downwards(
    net: Network, k: int, bounds: Sequence[Interval], inputs: Sequence[Interval]
) -> list[tuple[Affine, Activation, Interval, Interval]]:
    """Layers k, k-1, .., 1 with their activation, pre-activation bounds and input bounds."""
    layers = zip(net.affines[:k], net.activations[:k], bounds[:k], inputs[:k], strict=True)
    return list(layers)[::-1]


def _meet(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi))


def _everywhere(n: int) -> Interval:
    return Interval(np.full(n, -np.inf), np.full(n, np.inf))


def _sign(weight: Matrix, sign: int) -> Matrix:
    return (weight * sign > 0).astype(np.float64)
