"""Forward zonotopes of one region in balls: the values of all blocks, with a symbol for every neuron that is in doubt.

The slopes of the lines around an activation are hints, and their shifts are computed here. No symbol is dropped,
whatever the ordinary engine did, so these bounds are no wider than those that they are to prove but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.problem.activations.parallel import parallel
from lipcert.problem.blocks import Block
from lipcert.problem.maps import dense
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull
from lipcert.proof.balls.curves import shifts
from lipcert.proof.balls.numbers import Balls, above, balls, below, lengths, product, total, zeros


@dataclass(frozen=True, eq=False)
class BallZonotope:
    """center + sum_k columns_k e_k, |e_k| <= 1: columns are (symbols, width)."""

    center: Balls
    columns: Balls

    def of_symbols(self, count: int) -> Balls:
        """The columns, with zeros for symbols that have none."""
        more = count - len(self.columns)
        return np.concatenate([self.columns, zeros(more, len(self.center))]) if more else self.columns


def zonotope_bounds(problem: Problem) -> tuple[Interval, ...] | None:
    """Floats around z of all blocks on the region; None where it has no box, or where they overflow."""
    net, box, ball = problem.network, hull(problem.region), ball_of(problem.region)
    if box is None:
        return None
    lo, hi = balls(box.lo), balls(box.hi)
    center, radius = (lo + hi) / 2, (hi - lo) / 2
    if ball is not None:
        center, radius = balls(ball.center), balls(np.full(ball.size, ball.radius))
    values, found = [BallZonotope(center, np.diag(radius) + zeros(net.inputs, net.inputs))], list[Interval]()
    symbols = net.inputs
    for block in net.hidden:
        z = _affine(block, values, symbols)
        together = net.inputs if ball is not None else 0
        reach = lengths(abs(z.columns[:together].T), "2") if together else zeros(block.width)
        reach = reach + total(abs(z.columns[together:].T)) + balls(block.doubt)
        found.append(Interval(below(z.center - reach), above(z.center + reach)))
        if not all(np.all(np.isfinite(end)) for end in found[-1]):
            return None
        values.append(_activated(block, z, found[-1]))
        symbols = len(values[-1].columns)
    return tuple(found)


def _affine(block: Block, values: list[BallZonotope], symbols: int) -> BallZonotope:
    """z of a block; its slack is added to the reach, and has no symbol."""
    center, columns = balls(block.bias), zeros(symbols, block.width)
    for j, weight in block.terms:
        A = balls(dense(weight))
        center = center + product(A, values[j].center)
        columns = columns + product(values[j].of_symbols(symbols), A.T)
    return BallZonotope(center, columns)


def _activated(block: Block, z: BallZonotope, ends: Interval) -> BallZonotope:
    """The values s z + middle + gap e with a new symbol for every neuron that has a gap."""
    slope = parallel(block.activation, *ends).up_slope
    low, high = shifts(block.activation, slope, ends)
    bottom, top = below(low), above(high)
    s, middle = balls(slope), (balls(bottom) + balls(top)) / 2
    gap = (balls(top) - balls(bottom)) / 2 + abs(s) * balls(block.doubt)
    own = np.flatnonzero(above(gap) > 0)
    fresh = zeros(len(own), block.width)
    fresh[np.arange(len(own)), own] = gap[own]
    return BallZonotope(s * z.center + middle, np.concatenate([z.columns * s, fresh]))
