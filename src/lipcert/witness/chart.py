"""Coordinates of a region: x = origin + scale v.

A box becomes [-1, 1]^n whatever its size, so that single precision resolves a tiny box around a large center.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.maps import entrywise
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere, Region, ball_of, hull, sides_of
from lipcert.rounding import Array

Batch = NDArray[Any]  # rows of float32 or float64


@dataclass(frozen=True, eq=False)
class Chart:
    """x = origin + scale v, with v in [-1, 1]^n for a box and |v|_2 <= 1 for a ball; everywhere, v is unbounded and
    scale a typical length. A clipped ball has the chart of the whole ball; `points` come from its own part.

    Where the length of x changes no slope (everywhere, ReLUs or leaky ReLUs without biases), `sphere` is set, and all v
    have the length of n numbers of about 1."""

    region: Region
    origin: Array
    scale: Array
    sphere: bool = False

    @classmethod
    def of(cls, problem: Problem) -> Chart:
        region, n = problem.region, problem.network.inputs
        ball, box = ball_of(region), hull(region)
        if ball is not None:
            return cls(region, ball.center, np.full(n, ball.radius))
        if box is not None:
            return cls(region, box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2)
        net = problem.network
        return cls(region, np.zeros(n), np.full(n, _typical_length(net)), _homogeneous(net))

    @property
    def bounded(self) -> bool:
        return not isinstance(self.region, Everywhere)

    @property
    def round(self) -> bool:
        return ball_of(self.region) is not None

    def points(self, v: Batch) -> Array:
        """The points of the region in float64."""
        return self.region.project(self.origin + self.scale * v.astype(np.float64))

    def coordinates(self, x: Array) -> Array:
        """The inverse of `points`; zero where the box has no width."""
        width = np.where(self.scale > 0, self.scale, 1.0)
        return np.where(self.scale > 0, (x - self.origin) / width, 0.0)

    def confine(self, v: Batch) -> Batch:
        """Coordinates of the region's nearest points; beyond half-spaces, towards its inner point."""
        found = self._in_base(v)
        share = self._room(found)
        if share is None:
            return found
        assert self.inner is not None
        inner = self.inner.astype(v.dtype)
        return np.asarray(inner + share.astype(v.dtype)[..., None] * (found - inner), dtype=v.dtype)

    @cached_property
    def inner(self) -> Array | None:
        """Coordinates of the inner point of a region with half-spaces."""
        cut = sides_of(self.region)
        return None if cut is None or cut.inside is None else self.coordinates(cut.inside)

    def _room(self, v: Batch) -> Array | None:
        """The share of the way from the inner point to v on which all half-spaces hold; None without half-spaces."""
        cut, inner = sides_of(self.region), self.inner
        if cut is None or cut.inside is None or inner is None:
            return None
        rows = cut.A * self.scale
        room, step = np.maximum(cut.b - cut.A @ cut.inside, 0.0), (v - inner) @ rows.T
        with np.errstate(all="ignore"):
            share = np.where(step > 0, room / np.where(step > 0, step, 1.0), 1.0)
        return np.asarray(np.minimum(share, 1.0).min(axis=-1))

    def _in_base(self, v: Batch) -> Batch:
        ball = ball_of(self.region)
        if ball is not None:
            if ball.clip is not None:
                lo, hi = (self.coordinates(end).astype(v.dtype) for end in (ball.box.lo, ball.box.hi))
                v = np.clip(v, lo, hi)
            return np.asarray(v / np.maximum(Norm("2").of(v)[..., None], 1))
        if self.sphere:
            return np.asarray(v * (v.shape[-1] ** 0.5 / np.maximum(Norm("2").of(v)[..., None], 1e-30)), dtype=v.dtype)
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
        """Uniform in a box or ball; everywhere, normal at lengths of 1, 10, 100 and 1000 times the typical one, or
        on the sphere. Points that half-spaces cut off are moved in, by a random part of the way."""
        v = self._draw(rng, rows, dtype)
        share = self._room(v)
        if share is None:
            return v
        assert self.inner is not None
        inner, part = self.inner.astype(dtype), np.where(share < 1, share * rng.random(rows), 1.0)
        return np.asarray(inner + part.astype(dtype)[:, None] * (v - inner), dtype=dtype)

    def _draw(self, rng: np.random.Generator, rows: int, dtype: Any) -> Batch:
        n = self.origin.size
        if self.round:
            v = rng.standard_normal((rows, n), dtype=dtype)
            lengths = rng.random((rows, 1), dtype=dtype) ** (1.0 / n) / np.maximum(Norm("2").of(v)[:, None], 1e-30)
            return self._in_base(np.asarray(v * lengths, dtype=dtype))
        if self.bounded:
            v = rng.random((rows, n), dtype=dtype)
            v *= 2
            v -= 1
            return v
        if self.sphere:
            return self.confine(rng.standard_normal((rows, n), dtype=dtype))
        lengths = (10.0 ** (np.arange(rows) % 4)).astype(dtype)
        return np.asarray(rng.standard_normal((rows, n), dtype=dtype) * lengths[:, None])


def _homogeneous(net: Network) -> bool:
    """Whether the slopes at x and at 2 x are the same for every x."""
    return all(f.kinked or f.kind == "identity" for f in net.activations) and not any(b.bias.any() for b in net.hidden)


def _typical_length(net: Network) -> float:
    """The median distance of the origin from the first block's kinks; 1 where it has none or they meet there."""
    weight, bias = net.blocks[0].terms[0][1], net.blocks[0].bias
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.asarray(entrywise(weight, np.square).sum(axis=1), dtype=np.float64))
        distances = np.abs(bias) / lengths
        kept = distances[np.isfinite(distances) & (distances > 0)]
        length = float(np.median(kept)) if kept.size else 1.0
    return length if 1e-100 < length < 1e100 else 1.0
