"""Multipliers of channels by a first-order method, at a few frequencies: what it finds is settled at all of them.

The recursion is that of `solver.slopes.recursion` at every frequency, slopes in [0, 1]:

    Z = mean over aliases of W K W*,     K <- C V (V - Z)^-1 V C,     C = 1/2,     v = 2 / t.

Behind the last convolution stands a layer H of all values, or the scores, which are a convolution. For H the diagonal
G = q / (largest eigenvalue of root q K root q) is chosen with q: the bound is that of root q as a convolution times the
norm of H / root q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.budget import Budget
from lipcert.relaxation.channels import ChannelProgram, ChannelStage, Complex, places
from lipcert.rounding import Array
from lipcert.solver.slopes.first_order import FirstOrder, Point

_LEAST_ROOM = 0.02  # relative: a block of which less is left at some frequency gets more
_START = 2.0  # times the largest eigenvalue of Z: the first multipliers, those of the product of norms


@dataclass(frozen=True, eq=False)
class _Step:
    """One block at the frequencies of the solver."""

    stage: ChannelStage
    size: tuple[int, ...]
    symbol: Complex
    v: Array
    inverse: Any
    trace: float


class ChannelOrder(FirstOrder):
    """L-BFGS on the logarithms of the multipliers, and of q; `tail` has a matrix H_c H_c' for every channel of x_d."""

    def __init__(self, program: ChannelProgram, tail: Array | None, budget: Budget, barrier: float, power: float):
        self.chain, self.tail, self.budget = program, tail, budget
        self.barrier, self.power = barrier, power
        self.operations = program.operations
        self.last: Point | None = None
        self.pairs: list[tuple[Array, Array]] = []
        self.values: list[float] = []
        self.symbols = [
            (stage, size, _symbol(stage, size, program.half))
            for stage, size in zip(program.layers, program.sizes, strict=False)
        ]

    def begin(self) -> Array:
        """The point of one multiplier for each block, no worse than the product of norms."""
        K, found = self.first(), []
        for stage, size, W in self.symbols[: len(self.chain.stages)]:
            Z = _received(stage, size, W, K)
            v = np.full(len(stage.kernel), _START * float(np.linalg.eigvalsh(Z).max()))
            found.append(np.log(v / _trace(Z)))
            K = _passed(Z, v)
        if self.tail is not None:
            found.append(np.log(np.maximum(np.einsum("cii->c", self.tail), 1e-300)) / 2)
        return np.concatenate(found)

    def point(self, x: Array) -> Point | None:
        """Value and gradient there; None where it is not feasible."""
        return self._evaluate(x)

    def first(self) -> Complex:
        """K of the input."""
        inputs = self.chain.stages[0].kernel.shape[1]
        count = len(places(self.chain.sizes[0], self.chain.half))
        return np.broadcast_to(np.eye(inputs, dtype=np.complex128), (count, inputs, inputs))

    def _start(self, t: tuple[Array, ...], weights: Array | None) -> Array:  # noqa: ARG002
        return t[0]  # the point itself, which has the logarithm of q too

    def _whole(self, x: Array) -> Point:
        *parts, psi = np.split(x, np.cumsum(self.chain.counts))
        K: Any = self.first()
        passed, t, room = list[_Step](), [], 0.0
        for (stage, size, W), phi in zip(self.symbols, parts, strict=False):
            Z = _received(stage, size, W, K)
            trace = _trace(Z)
            v = np.exp(phi) * trace
            rho = v**-0.5
            N = np.eye(len(v)) - rho[:, None] * Z * rho
            factor = np.linalg.cholesky(N)
            room += 2 * float(np.log(np.einsum("pii->pi", factor).real).sum()) / len(N)
            inverse = np.linalg.inv(N)
            out = np.sqrt(v) / 2
            K = np.asarray(out[:, None] * inverse * out)
            passed.append(_Step(stage, size, W, v, np.asarray(inverse), trace))
            t.append(2.0 / v)
        bound, value, G, last = self._end(K, psi)
        value -= self.barrier * room
        slopes = [] if self.tail is None else [last]
        for step in reversed(passed):
            own, G = self._back(step, G)
            slopes.insert(0, own)
        floor = None if self.tail is None else np.exp(psi)
        return Point(x, tuple(t), floor, bound, value, np.concatenate(slopes))

    def _end(self, K: Complex, psi: Array) -> tuple[float, float, Complex, Array]:
        """The bound, the smooth value, its derivative in K at every frequency, and that in log q."""
        if self.tail is None:
            stage, size, W = self.symbols[-1]
            E = _received(stage, size, W, K)
            top, value, inner = _smooth(E, self.power)
            return math.sqrt(top), value, _spread(stage, size, W, inner), np.zeros(0)
        root = np.exp(psi / 2)
        top, value, inner = _smooth(root[:, None] * K * root, self.power)
        G = root[:, None] * inner * root
        largest, more, own = _smooth(np.einsum("c,cij->ij", np.exp(-psi), self.tail)[None], self.power)
        slope = np.einsum("pij,pji->i", G, K).real - np.exp(-psi) * np.einsum("ij,cji->c", own[0], self.tail).real
        return math.sqrt(top * largest), value + more, G, slope

    def _back(self, step: _Step, G: Complex) -> tuple[Array, Complex]:
        """The derivative in log v, and that in K before the block."""
        rho, out, barrier = step.v**-0.5, np.sqrt(step.v) / 2, self.barrier / len(step.inverse)
        columns = step.inverse * out
        image = columns @ G
        A = image @ columns.conj().swapaxes(1, 2) + barrier * step.inverse
        own = 2 * np.einsum("pii->i", image).real * out - np.einsum("pii->i", A).real + self.barrier
        inner = rho[:, None] * A * rho
        inner += np.eye(len(rho)) * (own.sum() / (step.trace * len(inner)))
        return own, _spread(step.stage, step.size, step.symbol, inner)


def _symbol(stage: ChannelStage, size: tuple[int, ...], half: bool) -> Complex:
    real, imaginary = stage.symbol(size, half)
    return np.asarray(stage.steep * (real + 1j * imaginary))


def _received(stage: ChannelStage, size: tuple[int, ...], W: Complex, K: Complex) -> Complex:
    """Z at the frequencies of the outputs."""
    Z = stage.by_alias(W @ K @ W.conj().swapaxes(1, 2), size).mean(axis=1)
    return np.asarray((Z + Z.conj().swapaxes(1, 2)) / 2)


def _spread(stage: ChannelStage, size: tuple[int, ...], W: Complex, inner: Complex) -> Complex:
    """The derivative in K of the input, from that in Z."""
    if stage.aliases > 1:  # every alias has the derivative of its frequency
        index = stage.by_alias(np.arange(len(W)), size)
        wide = np.empty((len(W), *inner.shape[1:]), dtype=inner.dtype)
        wide[index] = inner[:, None] / stage.aliases
        inner = wide
    return np.asarray(W.conj().swapaxes(1, 2) @ inner @ W)


def _trace(Z: Complex) -> float:
    return float(np.einsum("pii->", Z).real) / len(Z)


def _passed(Z: Complex, v: Array) -> Complex:
    rho, out = v**-0.5, np.sqrt(v) / 2
    return np.asarray(out[:, None] * np.linalg.inv(np.eye(len(v)) - rho[:, None] * Z * rho) * out)


def _smooth(E: Complex, power: float) -> tuple[float, float, Complex]:
    """The largest eigenvalue of all, the logarithm of a norm of high order of all of them, and its derivative."""
    values, vectors = np.linalg.eigh(E)
    top = float(values.max())
    if not (top > 0 and math.isfinite(top)):
        raise np.linalg.LinAlgError("nothing is left")
    ratios = np.maximum(values, 0.0) / top
    total = float(np.sum(ratios**power))
    inner = (vectors * (ratios ** (power - 1) / (total * top))[:, None, :]) @ vectors.conj().swapaxes(1, 2)
    return top, math.log(top) + math.log(total) / power, inner


def settled(program: ChannelProgram, t: tuple[Array, ...], q: Array | None) -> tuple[tuple[Array, ...], Array]:
    """Multipliers with room at all frequencies of the program, and the diagonal G; no numbers where q is None."""
    order = ChannelOrder(program, None, Budget.of_work(1.0), 0.0, 1.0)
    K, found = order.first(), []
    for (stage, size, W), own in zip(order.symbols, t, strict=False):
        Z = _received(stage, size, W, K)
        v = 2.0 / own
        rho = v**-0.5
        most = float(np.linalg.eigvalsh(rho[:, None] * Z * rho).max())
        v = v * max(1.0, most / (1 - _LEAST_ROOM))
        K = _passed(Z, v)
        found.append(2.0 / v)
    if q is None:
        return tuple(found), np.zeros(0)
    root = np.sqrt(q)
    top = float(np.linalg.eigvalsh(root[:, None] * K * root).max())
    return tuple(found), np.asarray(q / top)
