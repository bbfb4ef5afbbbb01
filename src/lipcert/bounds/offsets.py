"""Linear bounds of ReLU layers on balls: any slopes, and one number for each layer [SDP-CROWN].

Let z be the pre-activations of a layer, l <= z <= u, |z - c| <= radius, and r any coefficients of x = relu(z). For any
slopes s and any weight >= 0, with g = r s,

    r'x  <=  g'z + weight/2 radius^2 + sum_i max_(l_i <= z_i <= u_i) (r_i relu(z_i) - g_i z_i - weight/2 (z_i - c_i)^2)

because the weight multiplies radius^2 - |z - c|^2 >= 0. Each maximum is one of two concave parabolas, left and right of
the kink. With weight 0 these are linear bounds by lines through the kink; a weight says that not all neurons can be at
their worst at once, and what was n errors becomes about sqrt(n) of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from lipcert.bounds.interval import Interval, affine_interval
from lipcert.bounds.operator_norms import spectral_norm
from lipcert.bounds.substitution import BoundedBlock
from lipcert.problem.activations import Lines
from lipcert.problem.network import Network
from lipcert.problem.region import Ball
from lipcert.rounding import TINY, Array, add_up, gamma, grow


@dataclass(frozen=True, eq=False)
class Reach:
    """The pre-activations of a layer are within `radius` of `center` for every input of a ball."""

    center: Array
    radius: float


def reaches(net: Network, ball: Ball, pre: Sequence[Interval]) -> list[Reach]:
    """The balls of all layers of a chain of ReLUs, by the spectral norms of its weights and by the bounds `pre`."""
    found, x, moved = list[Reach](), Interval(ball.center, ball.center), ball.radius
    for affine, f, norm, known in zip(net.affines, net.activations, _norms(net), pre, strict=False):
        z = affine_interval(affine.weight, affine.bias, x)
        center = z.lo / 2 + z.hi / 2
        off = np.maximum(add_up(z.hi, -center), add_up(center, -z.lo))
        moved = float(grow(np.asarray(norm * moved), 2))
        box = np.maximum(add_up(known.hi, -center), add_up(center, -known.lo))
        found.append(Reach(center, min(float(grow(np.asarray(moved + _length(off)), 2)), _length(box))))
        x = Interval(*f.value_bounds(*z))
    return found


@lru_cache(maxsize=4)
def _norms(net: Network) -> tuple[float, ...]:
    return tuple(spectral_norm(affine.weight) for affine in net.affines[:-1])


def _length(v: Array) -> float:
    with np.errstate(over="ignore"):
        return float(grow(np.sqrt(np.square(v).sum()), len(v) + 8)) + TINY


@dataclass(frozen=True, eq=False)
class BallBlock(BoundedBlock):
    """A ReLU block of one cell with its ball, a slope for every neuron, and the weight of the ball."""

    ball: Reach
    slopes: Array
    weight: float

    @cached_property
    def lines(self) -> Lines:
        """Lines through the kink; `carried` adds what they are off by."""
        nothing = np.zeros(self.z.lo.shape)
        slopes = np.broadcast_to(self.slopes, nothing.shape)
        return Lines(slopes, nothing, slopes, nothing)

    def carried(self, rows: Array) -> tuple[Array, Array, Array]:
        """As in `BoundedBlock`."""
        g = rows * self.slopes
        return g, offsets(rows, g, self.z, self.ball, self.weight), np.abs(rows)


def offsets(rows: Array, g: Array, z: Interval, reach: Reach, weight: float) -> Array:
    """Upper bounds of rows relu(z) - g z for every row of coefficients, rounded up."""
    lo, hi = z.lo[:, None, :], z.hi[:, None, :]
    right = _top(rows - g, np.maximum(lo, 0.0), np.maximum(hi, 0.0), reach.center, weight)
    left = _top(-g, np.minimum(lo, 0.0), np.minimum(hi, 0.0), reach.center, weight)
    each = np.maximum(np.where(hi >= 0, right, -np.inf), np.where(lo <= 0, left, -np.inf))
    n = each.shape[2]
    total = each.sum(axis=2) + grow(gamma(n + 8) * np.abs(each).sum(axis=2), n)
    return add_up(total, np.asarray(grow(np.asarray(weight / 2 * reach.radius * reach.radius), 8) + TINY))


def _top(a: Array, low: Array, high: Array, c: Array, weight: float) -> Array:
    """At least the maximum of a z - weight/2 (z - c)^2 over low <= z <= high: the tangent at a point near it."""
    v = best_point(a, low, high, c, weight)
    far = v - c
    slope = a - weight * far
    value = a * v - weight / 2 * far * far
    rise = np.maximum(np.maximum(slope * (low - v), slope * (high - v)), 0.0)
    size = np.abs(a * v) + weight * far * far + (np.abs(a) + weight * np.abs(far)) * (high - low)
    return value + rise + grow(gamma(24) * size + 16 * TINY * (1.0 + high - low), 4)


def best_point(a: Array, low: Array, high: Array, c: Array, weight: float | Array) -> Array:
    """Where that maximum is, but for rounding."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.where(weight > 0, a / np.where(weight > 0, weight, 1.0), np.where(a > 0, np.inf, -np.inf))
        return np.clip(c + steps, low, high)
