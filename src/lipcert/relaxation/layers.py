"""The hidden layers as the lifts see them: which slopes are open, and proved bounds of everything a lift names.

    u = base + delta u',     u' in {0, 1} for ReLU and leaky ReLU (u' = 1 where z > 0), u' in [0, 1] for the others

so that every row of ReLU serves all: what is switched by u' is a variable, what the base lets through is linear.
Neurons through which no derivative passes are pruned: the lift speaks of the network without them, and `lost` pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.propagation import Interval, gradient_bounds, slope_bounds
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.relaxation.ends import Ends
from lipcert.relaxation.model import Index
from lipcert.rounding import UNIT, Array, add_up, grow, sum_up

NOTHING = 1e-200  # a derivative this small is pruned
NARROW = 1e-14  # an interval of slopes this narrow is a number with an error


@dataclass(frozen=True, eq=False)
class Layer:
    """Hidden layer i. |u - base - delta u'| <= doubt; `delta` is zero but for the free neurons, which have a u'."""

    index: int
    width: int
    binary: bool  # u' is 0 or 1, by the sign of z
    homogeneous: bool  # f(z) = u z
    free: Index
    pruned: Index
    base: Array
    delta: Array
    doubt: Array
    z: Interval
    x: Interval  # values of the activation
    g: Interval  # of the derivative of the output by x_i
    q: Interval  # of the derivative of z_i along t
    constant: Array | None = None  # s of the neurons that left the matrix, zero for the others: see partial.py

    def name(self, letter: str) -> str:
        return f"{letter}{self.index}"

    @property
    def switch(self) -> str:
        """The block of 2 u' - 1: signs are v, slopes of smooth activations d."""
        return self.name("v" if self.binary else "d")


@dataclass(frozen=True, eq=False)
class Layers:
    """All of them, first layer first, and what pruning may have taken from the derivative."""

    hidden: tuple[Layer, ...]
    lost: float

    @property
    def open(self) -> bool:
        return any(len(layer.free) for layer in self.hidden)


def layers_of(net: Network, pre: tuple[Interval, ...], c: Array, ends: Ends = Ends()) -> Layers:  # noqa: B008 - frozen
    """The layers under these pre-activation bounds; `c` is not looked at where the outputs' weights are variables."""
    slopes = slope_bounds(net, pre)
    g_size, q_size = _sizes(net, slopes, c, ends)
    pruned = [(g <= NOTHING) | (q <= NOTHING) for g, q in zip(g_size, q_size, strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        lost = sum_up(
            np.concatenate(
                [
                    np.where(p, grow(g * q * s.hi, 2), 0.0)
                    for p, g, q, s in zip(pruned, g_size, q_size, slopes, strict=True)
                ]
            )
        )
    kept = tuple(Interval(np.where(p, 0.0, s.lo), np.where(p, 0.0, s.hi)) for p, s in zip(pruned, slopes, strict=True))
    if ends.whole:  # d and -d are alike: nothing but magnitudes is known
        gradients = (Interval(-g_size[0], g_size[0]), *(Interval(-g, g) for g in g_size))
    else:
        gradients = gradient_bounds(net, pre, c, kept)
    hidden = tuple(
        _layer(net, i, pre[i], slopes[i], pruned[i], gradients[i + 1], Interval(-q_size[i], q_size[i]))
        for i in range(net.depth)
    )
    return Layers(hidden, lost)


def _layer(
    net: Network, i: int, z: Interval, slope: Interval, pruned: NDArray[np.bool_], g: Interval, q: Interval
) -> Layer:
    f = net.activations[i]
    binary = f.kind in ("relu", "leaky_relu")
    free = (slope.hi > slope.lo) & ~pruned
    if binary:
        below = f.alpha
        base, delta = np.full(len(z.lo), below), np.full(len(z.lo), 1.0 - below)
        doubt = np.full(len(z.lo), 0.0 if below in (0.0, 1.0) else UNIT * (1.0 + below))
    else:
        free &= slope.hi - slope.lo > NARROW
        base, delta = slope.lo.copy(), add_up(slope.hi, -slope.lo)  # u' = (u - lo) / delta is what delta defines
        doubt = np.zeros(len(z.lo))
    middle = slope.lo / 2 + slope.hi / 2
    radius = np.maximum(add_up(slope.hi, -middle), add_up(middle, -slope.lo))
    base = np.where(pruned, 0.0, np.where(free, base, middle))
    doubt = np.where(pruned, 0.0, np.where(free, doubt, radius))
    return Layer(
        i + 1,
        len(z.lo),
        binary,
        f.piecewise_linear,
        np.flatnonzero(free),
        np.flatnonzero(pruned),
        base,
        np.where(free, delta, 0.0),
        doubt,
        z,
        Interval(*f.value_bounds(*z)),
        g,
        q,
    )


def _sizes(net: Network, slopes: tuple[Interval, ...], c: Array, ends: Ends) -> tuple[list[Array], list[Array]]:
    """Bounds of |g_i| and of |q_i| by absolute values alone: they hold in every network with neurons taken out."""
    with np.errstate(over="ignore", invalid="ignore"):
        g = [ends.pull(net) if ends.whole else _times(net.affines[-1].weight.T, np.abs(c))]
        for s, affine in zip(slopes[:0:-1], net.affines[-2:0:-1], strict=True):
            g.append(_times(affine.weight.T, s.hi * g[-1]))
        q = [ends.reach(net)]
        for s, affine in zip(slopes[:-1], net.affines[1:-1], strict=True):
            q.append(_times(affine.weight, s.hi * q[-1]))
    return g[::-1], q


def _times(weight: Matrix, size: Array) -> Array:
    product = grow(np.asarray(abs(weight) @ size, dtype=np.float64), len(size) + 4)
    return np.where(np.isnan(product), np.inf, product)
