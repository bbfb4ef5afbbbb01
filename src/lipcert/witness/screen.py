"""Gradient norms of batches of points, true and smoothed, in single precision: a screen, never a proof.

Points are written in the coordinates v of a chart, x = origin + scale v: the box becomes [-1, 1]^n whatever its size,
so that single precision resolves a tiny box around a large center.

The smoothed objective replaces the slopes f_i'(z_i) by s_i = s(k z_i), the step by a sigmoid:

    r_m = c A_{m+1},   v_i = r_i * s_i,   r_{i-1} = v_i A_i,   g = r_0,   phi = |g|_dual

Its derivative at t = dphi/dg runs the chain forward, y_0 = t, y_i = s_i * (A_i y_{i-1}), so that
dphi/ds_i = r_i * (A_i y_{i-1}), and then back through the network itself:
q_i = dphi/ds_i * s_i'(z_i) + f_i'(z_i) * (q_{i+1} A_{i+1}),   dphi/dx = q_1 A_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.problem.activations import Activation
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.rounding import Array

Batch = NDArray[Any]  # rows of float32 or float64

CHUNK_BYTES = 64 << 20
_SINGLE_LIMIT = 1e30


@dataclass(frozen=True, eq=False)
class Chart:
    """x = origin + scale v, with v in [-1, 1]^n for a box and |v|_2 <= 1 for a ball; everywhere, v is unbounded and
    scale a typical length. A clipped ball has the chart of the whole ball; `points` come from its own part."""

    region: Region
    origin: Array
    scale: Array

    @classmethod
    def of(cls, net: Network, region: Region) -> Chart:
        if isinstance(region, Box):
            return cls(region, region.lo / 2 + region.hi / 2, region.hi / 2 - region.lo / 2)
        if isinstance(region, Ball):
            return cls(region, region.center, np.full(net.inputs, region.radius))
        return cls(region, np.zeros(net.inputs), np.full(net.inputs, _typical_length(net)))

    @property
    def bounded(self) -> bool:
        return not isinstance(self.region, Everywhere)

    @property
    def round(self) -> bool:
        return isinstance(self.region, Ball)

    def points(self, v: Batch) -> Array:
        """The points of the region in float64."""
        return self.region.project(self.origin + self.scale * v.astype(np.float64))

    def coordinates(self, x: Array) -> Array:
        """The inverse of `points`; zero where the box has no width."""
        width = np.where(self.scale > 0, self.scale, 1.0)
        return np.where(self.scale > 0, (x - self.origin) / width, 0.0)

    def confine(self, v: Batch) -> Batch:
        """Coordinates of the region's nearest points."""
        if isinstance(self.region, Ball):
            if self.region.clip is not None:
                lo, hi = (self.coordinates(end).astype(v.dtype) for end in (self.region.box.lo, self.region.box.hi))
                v = np.clip(v, lo, hi)
            return np.asarray(v / np.maximum(Norm("2").of(v)[..., None], 1))
        return np.clip(v, -1, 1) if self.bounded else v

    def uphill(self, d: Batch) -> Batch:
        """The direction of a step along the derivative d: its signs in a box, its own in a ball."""
        if not self.round:
            return np.sign(d)
        length = Norm("2").of(d)[..., None]
        return np.asarray(d / np.where(length > 0, length, 1))

    def reach(self, v: Batch) -> Batch:
        """The length of a full step, row by row: half the box, or the row's own distance from the origin."""
        if self.bounded:
            return np.ones((len(v), 1), dtype=v.dtype)
        return np.asarray(np.abs(v).mean(axis=1, keepdims=True) + 1e-3, dtype=v.dtype)

    def draw(self, rng: np.random.Generator, rows: int, dtype: Any) -> Batch:
        """Uniform in a box or ball; everywhere, normal at lengths of 1, 10, 100 and 1000 times the typical one."""
        n = self.origin.size
        if self.round:
            v = rng.standard_normal((rows, n), dtype=dtype)
            lengths = rng.random((rows, 1), dtype=dtype) ** (1.0 / n) / np.maximum(Norm("2").of(v)[:, None], 1e-30)
            return self.confine(np.asarray(v * lengths, dtype=dtype))
        if self.bounded:
            v = rng.random((rows, n), dtype=dtype)
            v *= 2
            v -= 1
            return v
        lengths = (10.0 ** (np.arange(rows) % 4)).astype(dtype)
        return np.asarray(rng.standard_normal((rows, n), dtype=dtype) * lengths[:, None])


class Screen:
    """The network on a chart, with weights in float32 unless they might overflow there (or dtype says otherwise)."""

    def __init__(self, net: Network, chart: Chart, c: Array, norm: Norm, dtype: Any = None) -> None:
        self.chart, self.dual, self.activations = chart, norm.dual, net.activations
        self.dtype = np.dtype(dtype or _precision(net, chart, c))
        self.weights = [a.weight.astype(self.dtype) for a in net.affines[:-1]]
        self.biases = [a.bias.astype(self.dtype) for a in net.affines[:-1]]
        self.scale = chart.scale.astype(self.dtype)
        with np.errstate(all="ignore"):
            self.c = net.affines[-1].pull_back(c[None, :]).astype(self.dtype)
        if self.biases:
            self.biases[0] = net.affines[0](chart.origin[None, :])[0].astype(self.dtype)

    @property
    def chunk(self) -> int:
        """Rows that keep a pass within CHUNK_BYTES."""
        width = 4 * self.scale.size + sum(3 * w.shape[0] for w in self.weights)
        return int(max(1, CHUNK_BYTES // (self.dtype.itemsize * width)))

    def forward(self, v: Batch) -> list[Batch]:
        """The pre-activations z_1 .. z_m."""
        zs: list[Batch] = []
        x = v * self.scale
        for w, b, f in zip(self.weights, self.biases, self.activations, strict=True):
            z = apply(w, x)
            z += b
            zs.append(z)
            x = np.asarray(f(z), dtype=self.dtype)
        return zs

    def gradients(self, zs: list[Batch]) -> Batch:
        """The gradients (with respect to x) where the pre-activations are known."""
        g = self.c
        for z, w, f in zip(reversed(zs), reversed(self.weights), reversed(self.activations), strict=True):
            g = (g * _slope(f, z)) @ w
        return g

    def norms(self, zs: list[Batch]) -> Batch:
        """Dual norms of the gradients; 0 where they overflow."""
        norms = self.dual.of(self.gradients(zs))
        return np.where(np.isfinite(norms), norms, 0.0)

    def smoothed(self, zs: list[Batch], sharpness: list[Batch | float]) -> tuple[Batch, Batch]:
        """phi and dphi/dv; `sharpness` holds the slopes k of the sigmoids, one number or vector for each layer."""
        slopes = [_smooth_slope(f, z, k) for f, z, k in zip(self.activations, zs, sharpness, strict=True)]
        r, rs = self.c, []
        for (s, _), w in zip(reversed(slopes), reversed(self.weights), strict=True):
            rs.append(r)
            r = (r * s) @ w
        phi, y = self.dual.of(r), direction(self.dual, r)
        at_slopes = []  # dphi/ds_i * s_i'(z_i)
        for (s, ds), w, r in zip(slopes, self.weights, reversed(rs), strict=True):
            y = apply(w, y)
            at_slopes.append(r * y * ds)
            y *= s
        q: Batch | None = None
        for z, w, f, d in zip(
            reversed(zs), reversed(self.weights), reversed(self.activations), reversed(at_slopes), strict=True
        ):
            q = (d if q is None else d + _slope(f, z) * q) @ w
        return phi, np.zeros_like(y) if q is None else q * self.scale


def direction(dual: Norm, g: Batch) -> Batch:
    """t of unit norm with t'g = |g|_dual, row by row: where the dual norm is attained."""
    match dual.p:
        case "1":
            return np.sign(g)
        case "2":
            length = dual.of(g)[:, None]
            return g / np.where(length > 0, length, 1)
        case _:
            largest = np.abs(g).argmax(axis=1)[:, None]
            t = np.zeros_like(g)
            np.put_along_axis(t, largest, np.sign(np.take_along_axis(g, largest, axis=1)), axis=1)
            return t


def apply(w: Any, x: Batch) -> Batch:
    return np.ascontiguousarray((w @ x.T).T) if sparse.issparse(w) else x @ w.T


def _slope(f: Activation, z: Batch) -> Batch:
    return z > 0 if f.kind == "relu" else f.derivative(z).astype(z.dtype, copy=False)


def _smooth_slope(f: Activation, z: Batch, k: Batch | float) -> tuple[Batch, Batch]:
    """The slope, with the step of a kink replaced by a sigmoid, and its derivative in z."""
    match f.kind:
        case "relu" | "leaky_relu":
            e = np.exp(-np.abs(k * z))
            sigmoid = np.where(z >= 0, 1, e) / (1 + e)
            return f.alpha + (1 - f.alpha) * sigmoid, (1 - f.alpha) * k * e / ((1 + e) * (1 + e))
        case "identity":
            return np.ones_like(z), np.zeros_like(z)
        case "elu":
            s = f.derivative(z).astype(z.dtype, copy=False)
            return s, np.where(z > 0, 0, s)
        case "softplus":
            s = f.derivative(z).astype(z.dtype, copy=False)
            return s, s * (1 - s)
        case _:
            s = f.derivative(z).astype(z.dtype, copy=False)
            value = np.asarray(f(z), dtype=z.dtype)
            return s, s * (1 - 2 * value if f.kind == "sigmoid" else -2 * value)


def _precision(net: Network, chart: Chart, c: Array) -> Any:
    """float32, unless a value or gradient on the chart, or beyond its typical length, might leave its range."""
    with np.errstate(all="ignore"):
        reach = np.abs(chart.origin).max() + 1e4 * chart.scale.max() + 1.0
        gain = max(1.0, float(np.abs(c).sum()))
        for affine in net.affines:
            rows = np.asarray(abs(affine.weight).sum(axis=1)).max()
            reach = reach * max(1.0, float(rows)) + np.abs(affine.bias).max()
            gain *= max(1.0, float(rows), float(np.asarray(abs(affine.weight).sum(axis=0)).max()))
        return np.float32 if max(reach, gain) < _SINGLE_LIMIT else np.float64


def _typical_length(net: Network) -> float:
    """The median distance of the origin from the first layer's kinks; 1 where it has none or they meet there."""
    first = net.affines[0]
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.asarray((first.weight * first.weight).sum(axis=1), dtype=np.float64))
        distances = np.abs(first.bias) / lengths
        kept = distances[np.isfinite(distances) & (distances > 0)]
        length = float(np.median(kept)) if kept.size else 1.0
    return length if 1e-100 < length < 1e100 else 1.0
