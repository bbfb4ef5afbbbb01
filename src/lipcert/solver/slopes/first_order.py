"""A first-order method on the logarithms of the multipliers: products of matrices and one factorisation per block.

The multipliers of a block are v = exp(phi) times the trace of what it receives, so that they follow a change of the
blocks before it. The logarithm of the bound, with the largest eigenvalue of several outputs replaced by a norm of high
order of all eigenvalues, is minimised by L-BFGS; its gradient is one sweep back through the recursion. A point that
is not feasible has the value infinity: every iterate is a bound. Its cost is linear in depth. Where an interior point
follows, a barrier keeps the iterates away from the ends of what is feasible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.relaxation.slopes import SlopeProgram
from lipcert.rounding import Array
from lipcert.solver.slopes.recursion import BlockStage, BlockStep, advance, retreat, stages, start

MEMORY = 12  # pairs of L-BFGS
LONGEST = 0.7  # change of a logarithm in one step
CALLS = 2.5e7  # operations in the time of the calls for one block, there and back
FIRST = 0.1  # change of a logarithm in the first step


@dataclass(frozen=True, eq=False)
class Point:
    """A feasible point: multipliers in the units of the program, its bound, and the smooth value with its gradient."""

    x: Array
    t: tuple[Array, ...]
    weights: Array | None
    bound: float
    value: float
    gradient: Array


class FirstOrder:
    """L-BFGS from given multipliers, which must be feasible. `points` may be asked again, and goes on."""

    def __init__(self, program: SlopeProgram, budget: Budget, barrier: float = 0.0, power: float = 6.0) -> None:
        self.barrier, self.power = barrier, power
        self.program, self.budget = program, budget
        *self.stages, self.head = stages(program)
        self.operations = evaluation_operations(program)
        self.last: Point | None = None
        self.pairs: list[tuple[Array, Array]] = []
        self.values: list[float] = []  # of all iterates

    def points(self, t: tuple[Array, ...], weights: Array | None) -> Iterator[Point]:
        """Every iterate, each better than the one before, until no step is expected to end within the budget.

        The first one is that of the given multipliers, or the last one of the call before.
        """
        at, pairs = self.last or self._evaluate(self._start(t, weights)), self.pairs
        while at is not None:
            self.last = at
            self.values.append(at.value)
            yield at
            following = self._step(at, pairs)
            if following is None and pairs:
                pairs.clear()
                following = self._step(at, pairs)
            if following is not None:
                moved, turned = following.x - at.x, following.gradient - at.gradient
                if moved @ turned > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(turned):
                    pairs.append((moved, turned))
                    del pairs[:-MEMORY]
            at = following

    def _step(self, at: Point, pairs: list[tuple[Array, Array]]) -> Point | None:
        """Along the direction, shortened until the value falls; None where that does not happen or time is over."""
        direction = -_two_loops(at.gradient, pairs)
        slope = float(direction @ at.gradient)
        if not slope < 0:
            return None
        top = float(np.max(np.abs(direction)))
        length = min(1.0, LONGEST / top) if pairs else FIRST / top
        for _ in range(8):
            if self.budget.expected(self.operations) > self.budget.left():
                return None
            found = self._evaluate(at.x + length * direction)
            if found is not None and found.value < at.value + 1e-4 * length * slope:
                return found
            length *= 0.3
        return None

    def _start(self, t: tuple[Array, ...], weights: Array | None) -> Array:
        """The point of these multipliers."""
        K, parts = start(self.program, weights), []
        for stage, own in zip(self.stages, t, strict=True):
            WK = stage.times(K)
            Z = stage.gram(WK)
            v = 2.0 / (own * (stage.b - stage.a) ** 2)
            parts.append(np.log(v / np.trace(Z)))
            K, _ = advance(stage, K, WK, Z, v)
        self.budget.charge(self.operations / 3)
        return np.concatenate([*parts, *([] if weights is None else [np.log(weights)])])

    def _evaluate(self, x: Array) -> Point | None:
        """Value and gradient; None if the point is not feasible."""
        with self.budget.measured(self.operations) as count:
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    return self._whole(x)
            except np.linalg.LinAlgError:
                count.operations = self.operations / 3
                return None

    def _whole(self, x: Array) -> Point:
        widths = self.program.widths[1:]
        *parts, rest = np.split(x, np.cumsum(widths)) if widths else (x,)
        weights = np.exp(rest - np.max(rest)) if rest.size else None
        weights = None if weights is None else weights / weights.sum()
        first = K = start(self.program, weights)
        passed: list[tuple[BlockStage, BlockStep]] = []
        t = []
        for stage, phi in zip(self.stages, parts, strict=True):
            WK = stage.times(K)
            Z = stage.gram(WK)
            v = np.exp(phi) * np.trace(Z)
            K, step = advance(stage, K, WK, Z, v)
            passed.append((stage, step))
            t.append(2.0 / (v * (stage.b - stage.a) ** 2))
        bound, value, G = self._outcome(K)
        value -= self.barrier * sum(step.room for _, step in passed)
        slopes: list[Array] = []
        for stage, step in reversed(passed):
            own, G = retreat(stage, step, G, self.barrier)
            slopes.insert(0, own)
        if weights is not None:
            terms = np.diagonal(G) * np.diagonal(first)
            slopes.append(weights * terms.sum() - terms)
        return Point(x, tuple(t), weights, bound, value, np.concatenate(slopes))

    def _outcome(self, K: Array) -> tuple[float, float, Array]:
        """The bound, the logarithm of the norm of the eigenvalues of H K H', and its derivative in K."""
        E = self.head.gram(self.head.times(K))
        if not np.all(np.isfinite(E)):
            raise np.linalg.LinAlgError("not finite")
        eigenvalues, vectors = np.linalg.eigh(E)
        top = float(eigenvalues[-1])
        if not top > 0:
            raise np.linalg.LinAlgError("nothing is left")
        ratios = np.maximum(eigenvalues, 0.0) / top
        total = float(np.sum(ratios**self.power))
        inner = (vectors * (ratios ** (self.power - 1) / (total * top))) @ vectors.T
        half = self.head.back(inner)
        G = np.zeros((self.head.order, self.head.order))
        for place, matrix in self.head.reads:
            G[:, place] = half @ matrix
        return float(np.sqrt(top)), float(np.log(top) + np.log(total) / self.power), G


def _two_loops(gradient: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The inverse second derivative of L-BFGS times the gradient."""
    q, kept = gradient.copy(), []
    for s, y in reversed(pairs):
        share = float(s @ q) / float(y @ s)
        q -= share * y
        kept.append(share)
    if pairs:
        s, y = pairs[-1]
        q *= float(s @ y) / float(y @ y)
    for (s, y), share in zip(pairs, reversed(kept), strict=True):
        q += s * (share - float(y @ q) / float(y @ s))
    return q


def evaluation_operations(program: SlopeProgram) -> float:
    """Operations of one value with its gradient: the sweep there and back, and the calls around it."""
    orders = np.array([sum(program.widths[j] for j in state) for state in program.states[:-1]], dtype=float)
    widths = np.array(program.widths[1:], dtype=float)
    return float(np.sum(4 * orders**2 * widths + 4 * orders * widths**2 + 5 * widths**3) + CALLS * len(widths))
