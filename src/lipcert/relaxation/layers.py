"""The hidden blocks as the lifts need them: the open slopes, and proved bounds of every quantity in a lift.

    u = base + delta u',     u' in {0, 1} for ReLU and leaky ReLU (u' = 1 where z > 0), u' in [0, 1] for the others

(the base may be negative), so that every row of ReLU serves all activations: the part that u' switches is a variable,
and the part that the base lets through is linear. Neurons through which no derivative passes are pruned: the lift is
about the network without them, and `lost` pays for the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.problem.activations import Activation
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.problem import Fact, Problem
from lipcert.relaxation.ends import pull, reach
from lipcert.relaxation.model import Index
from lipcert.rounding import UNIT, Array, add_up, grow, sum_up

NOTHING = 1e-200  # a derivative this small is pruned
NARROW = 1e-14  # an interval of slopes this narrow is a number with an error


@dataclass(frozen=True, eq=False)
class LiftedLayer:
    """Hidden block i. |u - base - delta u'| <= doubt; `delta` is zero but for the free neurons, which have a u'."""

    index: int
    width: int
    binary: bool  # u' is 0 or 1, by the sign of z
    tied: bool  # z is a form in x_0 and the x of blocks before: all activations up to here are piecewise linear
    followed: bool  # a tied block reads it: x is a variable
    lifted: bool  # s and y are variables; else only the scores read it, with given weights, and s is linear in u
    free: Index
    pruned: Index
    base: Array
    delta: Array
    doubt: Array
    z: Interval
    x: Interval  # values of the activation
    g: Interval  # bounds of the derivative of the output by x_i
    q: Interval  # bounds of the derivative of z_i along t
    constant: Array | None = None  # s of the neurons that left the matrix, zero for the others: see partial.py

    def name(self, letter: str) -> str:
        return f"{letter}{self.index}"

    @property
    def switch(self) -> str:
        """The block of 2 u' - 1: signs are v, slopes of smooth activations d."""
        return self.name("v" if self.binary else "d")


@dataclass(frozen=True, eq=False)
class LiftedLayers:
    """All hidden blocks, the first one first, and a bound of the derivative that pruning left out."""

    hidden: tuple[LiftedLayer, ...]
    lost: float

    @property
    def tied(self) -> tuple[LiftedLayer, ...]:
        """The blocks whose z is tied to x."""
        return tuple(layer for layer in self.hidden if layer.tied)


@Fact
def layers_of(problem: Problem) -> LiftedLayers:
    """The blocks under the problem's pre-activation bounds."""
    net, pre = problem.network, preactivations(problem)
    slopes = slope_bounds(net, pre)
    g_size, q_size = _sizes(problem, slopes)
    pruned = [(g <= NOTHING) | (q <= NOTHING) for g, q in zip(g_size, q_size, strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        lost = sum_up(
            np.concatenate(
                [
                    np.where(p, grow(g * q * s.magnitude, 2), 0.0)
                    for p, g, q, s in zip(pruned, g_size, q_size, slopes, strict=True)
                ]
            )
        )
    if problem.whole_map:  # d and -d are alike: nothing but magnitudes is known
        gradients = [Interval(-g, g) for g in g_size]
    else:
        kept = [Interval(np.where(p, 0.0, s.lo), np.where(p, 0.0, s.hi)) for p, s in zip(pruned, slopes, strict=True)]
        gradients = list(gradient_bounds(net, pre, problem.c, kept)[1:])
    tied = _tied(net)
    hidden = []
    for i, (f, z) in enumerate(zip(net.activations, pre, strict=True), start=1):
        behind = [reader for reader, _ in net.readers[i] if reader <= net.depth]
        hidden.append(
            LiftedLayer(
                i,
                len(z.lo),
                f.kinked,
                i in tied,
                i in tied and any(reader in tied for reader in behind),
                problem.whole_map or bool(behind),
                *_slopes(f, slopes[i - 1], pruned[i - 1]),
                z,
                Interval(*f.value_bounds(*z)),
                gradients[i - 1],
                Interval(-q_size[i - 1], q_size[i - 1]),
            )
        )
    return LiftedLayers(tuple(hidden), lost)


def _tied(net: Network) -> set[int]:
    """The hidden blocks that are piecewise linear in x_0, like all blocks that lead to them."""
    tied = {0}
    for i, block in enumerate(net.hidden, start=1):
        if block.activation.piecewise_linear and all(source in tied for source, _ in block.terms):
            tied.add(i)
    return tied - {0}


def _slopes(f: Activation, slope: Interval, pruned: NDArray[np.bool_]) -> tuple[Index, Index, Array, Array, Array]:
    """The free neurons, the pruned ones, and base, delta and doubt of all."""
    free = (slope.hi > slope.lo) & ~pruned
    if f.kinked:
        below = f.alpha
        base, delta = np.full(len(free), below), np.full(len(free), 1.0 - below)
        doubt = np.full(len(free), 0.0 if below in (0.0, 1.0) else UNIT * (1.0 + below))
    else:
        free &= slope.hi - slope.lo > NARROW
        base, delta = slope.lo.copy(), add_up(slope.hi, -slope.lo)  # u' = (u - lo) / delta is what delta defines
        doubt = np.zeros(len(free))
    middle = slope.lo / 2 + slope.hi / 2
    radius = np.maximum(add_up(slope.hi, -middle), add_up(middle, -slope.lo))
    base = np.where(pruned, 0.0, np.where(free, base, middle))
    doubt = np.where(pruned, 0.0, np.where(free, doubt, radius))
    return np.flatnonzero(free), np.flatnonzero(pruned), base, np.where(free, delta, 0.0), doubt


def _sizes(problem: Problem, slopes: tuple[Interval, ...]) -> tuple[list[Array], list[Array]]:
    """Bounds of |g_i| and of |q_i| by absolute values alone, which hold in every network with neurons left out."""
    net = problem.network
    g: dict[int, Array] = {}
    q: dict[int, Array] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(net.depth, 0, -1):
            parts = [
                pull(problem, weight)
                if reader > net.depth
                else _times(weight.T, slopes[reader - 1].magnitude * g[reader])
                for reader, weight in net.readers[i]
            ]
            g[i] = _added(parts, net.shape[i])
        for i, block in enumerate(net.hidden, start=1):
            parts = [
                reach(problem, weight) if j == 0 else _times(weight, slopes[j - 1].magnitude * q[j])
                for j, weight in block.terms
            ]
            q[i] = _added(parts, block.width)
    return [g[i] for i in range(1, net.depth + 1)], [q[i] for i in range(1, net.depth + 1)]


def _added(parts: list[Array], width: int) -> Array:
    """An upper bound of the sum; a block that nobody reads has none."""
    if len(parts) == 1:
        return parts[0]
    return grow(np.sum(parts, axis=0), len(parts)) if parts else np.zeros(width)


def _times(weight: Matrix, size: Array) -> Array:
    product = grow(np.asarray(abs(weight) @ size, dtype=np.float64), len(size) + 4)
    return np.where(np.isnan(product), np.inf, product)
