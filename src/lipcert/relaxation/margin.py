"""The largest value of c'scores on a box or a ball: the forward pass of a ReLU network as a quadratic problem.

    max c'scores     x_0 = m + r w,  z_i = A_i x_{i-1} + b_i,  x_i = max(z_i, 0)

over y = (1, w, s_1, .., s_m) with x_i = (hi_i / 2)(1 + s_i), one s for each neuron whose sign is open; the others are
substituted. The rows are

    range    w^2 <= 1,  s^2 <= 1         (the second is x (hi - x) >= 0)
    value    x (x - z) = 0,  x >= z
    chord    x <= the line through (lo, 0) and (hi, hi)
    ball     |x_0 - centre|^2 <= radius^2

With c = e_i - e_r a bound below zero says that class r beats class i on the whole region, without the detour through a
Lipschitz constant. Neurons that count little may be left to their lines alone (`keep`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull
from lipcert.relaxation.ends import within
from lipcert.relaxation.model import (
    Family,
    Index,
    Relaxation,
    Space,
    Tracked,
    affine,
    assemble,
    constants,
    diagonal,
    exactly,
    merge,
    product,
)
from lipcert.relaxation.passes import inputs_of
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class Margin:
    """A relaxation of max c'scores + lift: bounds proved by relaxations are never negative, margins are."""

    relaxation: Relaxation
    lift: float


def applies(net: Network) -> bool:
    """Whether there is a margin relaxation of the network: a chain of ReLU layers."""
    return net.depth > 0 and net.is_chain and all(f.kind == "relu" for f in net.activations)


def margin(problem: Problem, keep: int | None = None) -> Margin:
    """The relaxation of the largest c'scores on a region, where network, region and c are those of the problem.

    `keep` leaves a variable to that many neurons of the last hidden layer, those for which it matters most. The others
    are replaced by the line above or below them, as their weight in c'scores has it: looser, and faster to solve.
    """
    net, box, ball, c = problem.network, hull(problem.region), ball_of(problem.region), problem.c
    if not applies(net) or box is None:
        raise MethodError("the margin relaxation needs ReLU in every hidden layer, and a box or a ball")
    pre = preactivations(problem)
    open_ones = [np.flatnonzero((z.lo < 0) & (z.hi > 0)) for z in pre]
    above, below = _light(net, c, pre[-1], open_ones[-1], keep)
    open_ones[-1] = np.setdiff1d(open_ones[-1], np.concatenate([above, below]))
    moving = np.flatnonzero(box.hi > box.lo)
    space = Space(w=len(moving), **{f"s{i}": len(free) for i, free in enumerate(open_ones, start=1)})
    blocks = {"w": (moving, net.inputs)}
    blocks |= {f"s{i}": (free, net.shape[i]) for i, free in enumerate(open_ones, start=1)}
    families = diagonal(space, blocks)
    x = inputs_of(space, box, moving)
    if ball is not None and len(moving):
        families += within(space, x, ball.center, ball.radius)
    for i, (map_, z, free) in enumerate(zip(net.affines, pre, open_ones, strict=False), start=1):
        width = map_.outputs
        forms = affine(space, map_.weight, x, map_.bias)
        own = _values(space, f"s{i}", z.hi[free])
        families += _rows(space, net, i, own, forms[free], Interval(z.lo[free], z.hi[free]), free)
        on = np.flatnonzero(z.lo >= 0)
        parts = [(free, own), (on, forms[on])]
        if i == net.depth:
            parts += _lines(space, net, forms, z, above, below)
        x = merge(space, parts, width)
    last = net.affines[-1]
    value = affine(space, c[None, :], affine(space, last.weight, x, last.bias))
    return _assembled(space, value, families, blocks)


def _light(net: Network, c: Array, z: Interval, free: Index, keep: int | None) -> tuple[Index, Index]:
    """Neurons that count least and whose weight has a proved sign: positive, to be bounded above; negative, below."""
    if keep is None or len(free) <= keep:
        return free[:0], free[:0]
    weight = gradient_bounds(Network(net.affines[-1:], ()), (), c)[0]
    lo, hi = z.lo[free], z.hi[free]
    chord, piece = hi * (-lo / (hi - lo)), np.minimum(hi, -lo)  # the largest distance of the line above, and below
    up, down = weight.lo[free] >= 0, weight.hi[free] <= 0
    loss = weight.magnitude[free] * np.where(up, chord, piece)
    light = np.argsort(np.where(up | down, loss, np.inf), kind="stable")[: len(free) - keep]
    return np.sort(free[light[up[light]]]), np.sort(free[light[down[light] & ~up[light]]])


def _lines(
    space: Space, net: Network, z: Tracked, bounds: Interval, above: Index, below: Index
) -> list[tuple[Index, Tracked]]:
    """The lines that stand for light neurons."""
    lines = net.activations[-1].lines(bounds.lo, bounds.hi)
    up = z[above].scaled(lines.up_slope[above]) + constants(space, lines.up_shift[above])
    low = z[below].scaled(lines.low_slope[below]) + constants(space, lines.low_shift[below])
    return [(above, up), (below, low)]


def _values(space: Space, block: str, hi: Array) -> Tracked:
    """x = half (1 + s) defines s, so it is exact."""
    half = hi / 2
    return exactly(space.constant(half) + space[block].scaled(half))


def _rows(space: Space, net: Network, i: int, x: Tracked, z: Tracked, bounds: Interval, free: Index) -> list[Family]:
    width = net.affines[i - 1].outputs
    lines = net.activations[i - 1].lines(*bounds)
    one = exactly(space.constant(np.ones(len(free))))
    above = z.scaled(lines.up_slope) + constants(space, lines.up_shift)
    return [
        product(f"{i}: x (x - z) = 0", x, x - z, free, width, equality=True),
        product(f"{i}: x >= z", one, z - x, free, width),
        product(f"{i}: x <= chord", one, x - above, free, width),
    ]


def _assembled(space: Space, value: Tracked, families: list[Family], blocks: dict[str, tuple[Index, int]]) -> Margin:
    """y'Cy = c'scores + lift, where the lift is a power of two that makes it non-negative."""
    reach = float(value.reach[0])
    lift = float(np.ldexp(1.0, int(np.frexp(reach)[1]))) if np.isfinite(reach) else 1.0
    lifted = value + constants(space, np.array([lift]))
    part = sparse.coo_array(lifted.matrix)
    half = sparse.coo_array((part.data / 2, (np.zeros(part.nnz, int), part.coords[1])), (space.size, space.size))
    objective = sparse.csr_array(half + half.T)
    relaxation = assemble(space, objective, families, float(lifted.error[0]), blocks)
    return Margin(relaxation, lift)
