"""Lower limits of a constant in plain numpy: gradients at many points, and all patterns where they are few.

Nothing here calls the code that is tested: weights are laid out entry by entry and the derivatives of activations are
written once more, as textbooks have them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit, ndtr
from tests.enumeration import exact_constant

from benchmarks.fuzz._cuts import moved_inside
from benchmarks.fuzz._problems import Case, Random
from lipcert import Ball, Box, Network, Polytope
from lipcert.problem.blocks import Block
from lipcert.problem.maps import matrix
from lipcert.problem.norms import INF, Norm
from lipcert.problem.region import Region
from lipcert.rounding import Array

POINTS = 64
ALL_CORNERS = 6  # coordinates up to which all corners of a cube are looked at
ENUMERATED = 8  # neurons, at most
SLACK, ROUNDING = 1e-9, 1e-13  # relative to what is seen, and to all terms of its sums: the oracle's own rounding
NEAR = 1e-9  # a pre-activation that is nearer to zero, relative to its terms, has no sign
JUMPS = frozenset({"relu", "leaky_relu", "elu"})  # whose slope jumps at zero
Pair = tuple[Array, Array]  # values and derivatives


def _tanh_gelu(z: Array, _: float) -> Pair:
    k = math.sqrt(2 / math.pi)
    t = np.tanh(k * (z + 0.044715 * z**3))
    slope = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * k * (1 + 3 * 0.044715 * z * z)
    return np.asarray(0.5 * z * (1 + t)), np.asarray(slope)


def _power(z: Array, a: float) -> Pair:
    return np.asarray(np.power(z, a)), np.asarray(a * np.power(z, a - 1))


def _mish(z: Array, _: float) -> Pair:
    t, s = np.tanh(np.logaddexp(0, z)), expit(z)
    return z * t, t + z * (1 - t * t) * s


FUNCTIONS: dict[str, Callable[[Array, float], Pair]] = {
    "identity": lambda z, _: (z, np.ones_like(z)),
    "relu": lambda z, _: (np.maximum(z, 0), np.where(z > 0, 1.0, 0.0)),
    "leaky_relu": lambda z, a: (np.where(z > 0, z, a * z), np.where(z > 0, 1.0, a)),
    "elu": lambda z, a: (
        np.where(z > 0, z, a * np.expm1(np.minimum(z, 0))),
        np.where(z > 0, 1.0, a * np.exp(np.minimum(z, 0))),
    ),
    "softplus": lambda z, _: (np.logaddexp(0, z), expit(z)),
    "sigmoid": lambda z, _: (expit(z), expit(z) * expit(-z)),
    "tanh": lambda z, _: (np.tanh(z), 1 / np.cosh(np.minimum(np.abs(z), 350)) ** 2),
    "softsign": lambda z, _: (z / (1 + np.abs(z)), 1 / (1 + np.abs(z)) ** 2),
    "erf": lambda z, _: (erf(z), 2 / np.sqrt(np.pi) * np.exp(-z * z)),
    "gelu": lambda z, _: (z * ndtr(z), ndtr(z) + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh": _tanh_gelu,
    "silu": lambda z, _: (z * expit(z), expit(z) + z * expit(z) * expit(-z)),
    "mish": _mish,
    "hardswish": lambda z, _: (
        z * np.clip(z + 3, 0, 6) / 6,
        np.where(z <= -3, 0.0, np.where(z >= 3, 1.0, (2 * z + 3) / 6)),
    ),
    "power": _power,
    "exp": lambda z, _: (np.exp(z), np.exp(z)),
    "log": lambda z, _: (np.log(z), np.where(z > 0, 1 / z, np.nan)),
    "sin": lambda z, _: (np.sin(z), np.cos(z)),
    "cos": lambda z, _: (np.cos(z), -np.sin(z)),
    "atan": lambda z, _: (np.arctan(z), 1 / (1 + z * z)),
    "sinh": lambda z, _: (np.sinh(z), np.cosh(z)),
    "cosh": lambda z, _: (np.cosh(z), np.sinh(z)),
}


def points_of(rng: Random, region: Region, inputs: int, count: int = POINTS) -> Array:
    """Corners, and points within; fewer, or none, where half-spaces leave little."""
    if isinstance(region, Polytope):
        return moved_inside(region, points_of(rng, region.base, inputs, count))
    draws = rng.uniform(-1, 1, size=(count, inputs))
    draws[: count // 4] = np.sign(draws[: count // 4])
    if isinstance(region, Box):
        inside: Array = region.lo + (draws + 1) / 2 * (region.hi - region.lo)
        return np.clip(inside, region.lo, region.hi)
    if isinstance(region, Ball):
        lengths = np.maximum(np.linalg.norm(draws, axis=1, keepdims=True), 1.0)
        return np.asarray(region.center + region.radius * (1 - 1e-12) * draws / lengths)
    return np.asarray(draws * 10.0 ** rng.uniform(-1, 3, size=(count, 1)))


def jacobians(case: Case, points: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """(points, outputs, inputs), forward through the blocks; which points are off all kinks; and how large all terms
    are together, which is what rounding is relative to."""
    net = case.network
    values, slopes = [points], [np.broadcast_to(np.eye(net.inputs), (len(points), net.inputs, net.inputs))]
    sizes, off = [np.eye(net.inputs)], np.ones(len(points), dtype=bool)
    for block in net.blocks:
        z, G, S = np.broadcast_to(block.bias, (len(points), block.width)), np.zeros((1, 1, 1)), np.zeros((1, 1))
        size = np.abs(block.bias)
        for source, W in _terms(block):
            z, G, S = z + values[source] @ W.T, G + W @ slopes[source], S + np.abs(W) @ sizes[source]
            size = size + np.abs(values[source]) @ np.abs(W).T
        f = block.activation
        if f.kind in JUMPS:
            off &= np.all(np.abs(z) > NEAR * size, axis=1)
        value, slope = FUNCTIONS[f.kind](z, f.alpha)
        values.append(value)
        slopes.append(slope[:, :, None] * G)
        # The slope of GELU and of others goes up to 1.13; those of powers and exponentials are as they are.
        steepest = np.max(np.abs(slope), axis=0, where=np.isfinite(slope), initial=1.2)
        sizes.append(np.minimum(steepest[:, None] * S, np.finfo(np.float64).max ** 0.25))
    return slopes[-1], off, sizes[-1]


def preactivations(net: Network, points: Array) -> list[tuple[Array, Array]]:
    """z of every block at every point, the scores last, and how large all terms of its sums are together."""
    values, sizes, found = [points], [np.abs(points)], []
    for block in net.blocks:
        z, size = block.bias + np.zeros((len(points), 1)), np.abs(block.bias) + np.zeros((len(points), 1))
        for source, W in _terms(block):
            z, size = z + values[source] @ W.T, size + sizes[source] @ np.abs(W).T
        values.append(FUNCTIONS[block.activation.kind](z, block.activation.alpha)[0])
        sizes.append(1.0 + 1.2 * size)
        found.append((z, size))
    return found


def forward(net: Network, points: Array) -> tuple[Array, Array]:
    """The scores at every point, and how large all terms of their sums are together."""
    z, size = preactivations(net, points)[-1]
    f = net.scores.activation
    return FUNCTIONS[f.kind](z, f.alpha)[0], 1.0 + 1.2 * size


def _terms(block: Block) -> list[tuple[int, Array]]:
    maps = [(source, matrix(weight)) for source, weight in block.terms]
    return [(source, W if isinstance(W, np.ndarray) else W.toarray()) for source, W in maps]


def operator_norms(J: Array, p: str, q: str | None) -> Array:
    """Norms of a stack of Jacobians from norm p to norm q; for gradients, (points, 1, inputs), the dual norm of p."""
    out = "inf" if q is None else q
    if out == "inf":
        return np.asarray(np.linalg.norm(J, ord={"inf": 1, "2": 2, "1": np.inf}[p], axis=2).max(axis=1))
    if p == "1":
        return np.asarray(np.linalg.norm(J, ord={"2": 2, "1": 1}[out], axis=1).max(axis=1))
    if p == out == "2":
        return np.asarray(np.linalg.norm(J, 2, axis=(1, 2)))
    size = J.shape[2] if p == "inf" else J.shape[1]
    corners = _corners(size)
    along = corners @ J.transpose(0, 2, 1) if p == "inf" else corners @ J
    return np.asarray(np.linalg.norm(along, ord={"2": 2, "1": 1}[out] if p == "inf" else 2, axis=2).max(axis=1))


def is_exact(case: Case) -> bool:
    """Whether `operator_norms` computes the norms exactly: it does not where there are too many corners."""
    if case.c is not None or case.q == "inf" or case.p == "1" or case.p == case.q == "2":
        return True
    return (case.network.inputs if case.p == "inf" else case.network.outputs) <= ALL_CORNERS


@lru_cache
def _corners(size: int) -> Array:
    """All of a cube, or some of them: the norm is then at least what they show."""
    if size <= ALL_CORNERS:
        return np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
    return np.asarray(np.random.default_rng(size).choice((-1.0, 1.0), size=(64, size)))


def floor(case: Case, rng: Random, enumerate_: bool = False) -> float:
    """The largest gradient or Jacobian that was seen, less what the oracle's own rounding may be."""
    points = points_of(rng, case.region, case.network.inputs, 24 if case.c is None else POINTS)
    best = float(np.max(norms_at(case, points), initial=0.0))
    if enumerate_ and enumerable(case):
        assert isinstance(case.region, Box | Polytope)
        norm = INF if case.p == "inf" and case.q is None else Norm(case.p, case.q)
        c = np.eye(case.network.outputs) if case.c is None else case.c
        best = max(best, exact_constant(case.network, case.region, c, norm, samples=100) * (1 - SLACK))
    return best


def norms_at(case: Case, points: Array, weights: Array | None = None) -> Array:
    """The norm at every point, less what the oracle's own rounding may be; 0 where it cannot say: on kinks, say.

    With weights of the inputs, in the norm |diag(weights) x|_p; an infinite weight is that of an input that stays.
    """
    with np.errstate(all="ignore"):
        J, off, size = jacobians(case, points)
        J, size = (J, size) if case.c is None else ((case.c @ J)[:, None, :], (np.abs(case.c) @ size)[None, :])
        J, size = (J, size) if weights is None else (J / weights, size / weights)
        sure = off & np.all(np.isfinite(J), axis=(1, 2))
        seen = operator_norms(np.where(sure[:, None, None], J, 0.0), case.p, case.q)
        price = operator_norms(size[None], case.p, case.q)[0]
        found = seen * (1 - SLACK) - ROUNDING * price
    return np.where(sure & np.isfinite(found), np.maximum(found, 0.0), 0.0)


def enumerable(case: Case) -> bool:
    """Whether all patterns can be enumerated: few neurons, all with kinks, a box that is not flat, tame numbers."""
    net, r = case.network, case.region
    if isinstance(r, Polytope):
        if np.max(np.abs(r.A), initial=0.0) > 1e3:  # margins of the enumeration are absolute
            return False
        r = r.base
    if not (case.kinked and isinstance(r, Box) and net.neurons <= ENUMERATED and bool(np.all(r.hi > r.lo))):
        return False
    dense = all(isinstance(w, np.ndarray) for b in net.blocks for _, w in b.terms)
    return dense and all(np.max(np.abs(w), initial=0.0) < 1e6 for b in net.blocks for _, w in b.terms)
