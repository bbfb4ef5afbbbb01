"""Pre-activation bounds of one cell, proved in balls from the input upward.

The ordinary engine says which floats it found; they are hints. Here every block is bounded again from the floats of the
blocks before it, by intervals, by linear forms where the hint is better than these, and by half-spaces where signs are
fixed. The next block gets bounds that are never narrower than those the balls prove: the hint if it is wider, else
the balls' own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.cell import Cell, whole
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import MOST_SIDES
from lipcert.problem.blocks import Block
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Everywhere, Region, ball_of, hull, sides_of
from lipcert.proof.balls.curves import slope_bounds, value_bounds
from lipcert.proof.balls.forms import Forms, Index, Sides, Stage, forms_above, no_sides
from lipcert.proof.balls.numbers import Balls, above, balls, below, lengths, product, zeros

Hint = tuple[Interval, ...]
# Improves the bounds of z of a block, given those of the blocks before it.
Better = Callable[[int, Hint, Interval], Interval]


@dataclass(frozen=True, eq=False)
class BallBounds:
    """Floats around z_1 .. z_m, the stages, half-spaces that contain the cell, and whether it is proved to be empty."""

    pre: Hint
    stages: tuple[Stage, ...]
    sides: Sides
    empty: bool


def region_bounds(problem: Problem, hint: Hint, known: Hint | None = None, better: Better | None = None) -> BallBounds:
    """Proved pre-activation bounds on the whole region."""
    return cell_bounds(problem.network, whole(problem.network, problem.region), hint, known, better)


def cell_bounds(
    net: Network, cell: Cell, hint: Hint, known: Hint | None = None, better: Better | None = None
) -> BallBounds:
    """Proved pre-activation bounds on a cell; `known` bounds are proved already, `better` may narrow each block."""
    region, stages, sides, empty = cell.region, list[Stage](), _of_region(net, cell.region), False
    box = hull(region)
    values = [_everywhere(net) if box is None else Interval(box.lo, box.hi)]
    for k, block in enumerate(net.hidden):
        z = intervals(block, values, region)
        if known is not None:
            z = z.meet(known[k])
        signs, wished = cell.signs[k], hint[k]
        own = np.flatnonzero((z.lo < wished.lo) | (z.hi > wished.hi) | (signs != 0))
        if len(own) and not isinstance(region, Everywhere):
            z, sides = _by_forms(block, own, stages, cell, z, sides)
        if better is not None:
            z = better(k, tuple(s.z for s in stages), z)
        z = Interval(np.where(signs > 0, np.maximum(z.lo, 0.0), z.lo), np.where(signs < 0, np.minimum(z.hi, 0.0), z.hi))
        if block.twins is not None:
            z = Interval(*(end[0] for end in block.twins.meet(z.lo[None], z.hi[None])))
        empty = empty or bool(np.any(z.lo > z.hi))
        z = Interval(np.fmin(z.lo, wished.lo), np.fmax(z.hi, wished.hi))
        stages.append(Stage(block, z, value_bounds(block.activation, z)))
        values.append(stages[-1].x)
    return BallBounds(tuple(s.z for s in stages), tuple(stages), sides, empty)


def _by_forms(
    block: Block, own: Index, stages: list[Stage], cell: Cell, z: Interval, sides: Sides
) -> tuple[Interval, Sides]:
    """By forms of some neurons, and by the half-spaces known so far, own ones included."""
    region, signs = cell.region, cell.signs[len(stages)][own]
    assert not isinstance(region, Everywhere)
    forms = forms_above(block, own, stages)
    fixed = np.flatnonzero(signs)
    if len(fixed):
        places = np.where(signs[fixed] > 0, fixed, fixed + len(own))
        before = sum(s.block.width for s in stages)
        sides = sides.with_more(Forms(forms.rows[places], forms.constant[places]), before + own[fixed])
    top = above(forms.largest(region))
    box = hull(region)
    if len(sides.h) and box is not None:
        top = np.fmin(top, above(sides.pushed(forms, box).largest(region)))
    lo, hi = z.lo.copy(), z.hi.copy()
    hi[own], lo[own] = np.fmin(hi[own], top[: len(own)]), np.fmax(lo[own], -top[len(own) :])
    return Interval(lo, hi), sides


def _of_region(net: Network, region: Region) -> Sides:
    """The half-spaces of the region, numbered after all neurons."""
    cut = sides_of(region)
    if cut is None:
        return no_sides(net.inputs)
    A, b = cut.A[:MOST_SIDES], cut.b[:MOST_SIDES]  # as many as the ordinary engine takes
    return Sides(-balls(A), balls(b), net.neurons + np.arange(len(b)))


def _everywhere(net: Network) -> Interval:
    return Interval(np.full(net.inputs, -np.inf), np.full(net.inputs, np.inf))


def intervals(block: Block, values: list[Interval], region: Region) -> Interval:
    """Floats around z = bias + sum of weight x + slack; infinite ends of x are allowed."""
    low, high = zeros(block.width), zeros(block.width)
    infinite = np.zeros((2, block.width), dtype=bool)
    for j, weight in block.terms:
        A, x = dense(weight), values[j]
        down, up = np.isinf(x.lo), np.isinf(x.hi)
        infinite[0] |= np.any((A > 0) & down | (A < 0) & up, axis=1)
        infinite[1] |= np.any((A > 0) & up | (A < 0) & down, axis=1)
        lo, hi = np.where(down, 0.0, x.lo), np.where(up, 0.0, x.hi)
        ends = weighted(balls(A), Interval(np.minimum(lo, hi), np.maximum(lo, hi)))
        low, high = low + ends[0], high + ends[1]
    shift, doubt = balls(block.bias), balls(block.doubt)
    low, high = low + shift - doubt, high + shift + doubt
    ball = ball_of(region)
    if ball is not None and all(j == 0 for j, _ in block.terms):
        A = balls(dense(block.terms[0][1]))
        middle, reach = product(A, balls(ball.center)) + shift, lengths(abs(A), "2") * balls(ball.radius) + doubt
        lo, hi = np.fmax(below(low), below(middle - reach)), np.fmin(above(high), above(middle + reach))
    else:
        lo, hi = below(low), above(high)
    return Interval(np.where(infinite[0], -np.inf, lo), np.where(infinite[1], np.inf, hi))


def weighted(A: Balls, x: Interval) -> tuple[Balls, Balls]:
    """A x at least and at most, for finite x."""
    lo, hi = balls(x.lo), balls(x.hi)
    m, r = product(A, (lo + hi) / 2), product(abs(A), (hi - lo) / 2)
    return m - r, m + r


def proved_slopes(net: Network, pre: Hint) -> Hint:
    """Floats around the derivatives under these bounds."""
    return tuple(slope_bounds(f, z) for f, z in zip(net.activations, pre, strict=True))


def box_is_proved(region: Region) -> bool:
    """Whether no point of the region is outside of its box."""
    cut = sides_of(region)
    if cut is None or cut.multipliers is None:
        return True
    base, n = cut.base, cut.size
    around = base.box if isinstance(base, Ball) else base
    own, before = (np.concatenate([box.hi, -box.lo]) for box in (cut.box, around))
    used = np.flatnonzero(own < before)
    y, signs = balls(cut.multipliers[used]), np.concatenate([np.eye(n), -np.eye(n)])[used]
    forms = Forms(balls(signs) - product(y, balls(cut.A)), product(y, balls(cut.b)))
    return bool(np.all(above(forms.largest(base)) <= own[used]))
