"""Linear forms in the input above quantities of one cell, in balls: backward substitution through verified bounds.

Slopes of lines are hints (floats that the ordinary code would take); the shift that makes a line a bound is computed
here, in balls, as the exact maximum of the activation minus the slope (`curves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import HalfSpaces as FloatSides
from lipcert.bounds.forms import LinearForms as FloatForms
from lipcert.bounds.forms import multiples, share_of_ball
from lipcert.bounds.interval import Interval
from lipcert.bounds.substitution import slope_lines, value_lines
from lipcert.problem.blocks import Block
from lipcert.problem.maps import dense
from lipcert.problem.region import Box, Region, ball_of, hull
from lipcert.proof.balls.curves import shifts
from lipcert.proof.balls.numbers import Balls, balls, floats, lengths, product, smaller, total, zeros
from lipcert.rounding import Array

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BallLines:
    """low_slope z + low_shift <= F(z) <= up_slope z + up_shift."""

    low_slope: Balls
    low_shift: Balls
    up_slope: Balls
    up_shift: Balls


@dataclass(frozen=True, eq=False)
class Stage:
    """A block of one cell with floats around its z and x that have been proved; `close` asks for secants."""

    block: Block
    z: Interval
    x: Interval
    close: bool = False

    @cached_property
    def weights(self) -> tuple[tuple[int, Balls], ...]:
        """By source."""
        return tuple((j, balls(dense(weight))) for j, weight in self.block.terms)

    @cached_property
    def lines(self) -> BallLines:
        """Above and below the activation."""
        f, z = self.block.activation, self.z
        return self._lines(value_lines(f, *z) if self.close else f.lines(*z), 0)

    @cached_property
    def slope(self) -> BallLines:
        """Above and below the derivative."""
        return self._lines(slope_lines(self.block.activation, *self.z), 1)

    def carried(self, rows: Balls) -> tuple[Balls, Balls]:
        """Coefficients of z in a bound of rows x from above, and what is added to the constants."""
        return through(rows, self.lines, balls(self.x.magnitude))

    def _lines(self, hint: Any, order: int) -> BallLines:
        low, up = (np.where(np.isfinite(s), s, 0.0) for s in (hint.low_slope, hint.up_slope))
        f = self.block.activation
        same = np.array_equal(low, up)
        bottom, top = shifts(f, low, self.z, order)
        return BallLines(balls(low), bottom, balls(up), top if same else shifts(f, up, self.z, order)[1])


@dataclass(frozen=True, eq=False)
class Forms:
    """quantity <= rows x + constant on the cell."""

    rows: Balls
    constant: Balls

    def largest(self, region: Region) -> Balls:
        """At least the maximum over the region; its half-spaces are not looked at."""
        box, ball = hull(region), ball_of(region)
        assert box is not None
        lo, hi = balls(box.lo), balls(box.hi)
        m, r = (lo + hi) / 2, (hi - lo) / 2
        top = product(self.rows, m) + product(abs(self.rows), r) + self.constant
        if ball is None:
            return np.asarray(top)
        inside = product(self.rows, balls(ball.center)) + lengths(abs(self.rows), "2") * balls(ball.radius)
        top = smaller(top, inside + self.constant)
        if ball.clip is None:
            return np.asarray(top)
        low, high = (np.broadcast_to(end - ball.center, (1, 1, ball.size)) for end in (box.lo, box.hi))
        with np.errstate(all="ignore"):
            share = balls(share_of_ball(floats(self.rows)[None], low, high, ball.radius)[0])
        rest = self.rows - share
        both = product(rest, m) + product(abs(rest), r) + product(share, balls(ball.center))
        return smaller(top, both + lengths(abs(share), "2") * balls(ball.radius) + self.constant)


@dataclass(frozen=True, eq=False)
class Sides:
    """Half-spaces H x + h >= 0 that contain the cell, and of which neuron each is."""

    H: Balls
    h: Balls
    neuron: Index

    def with_more(self, forms: Forms, neuron: Index) -> Sides:
        """Besides these, forms that are not negative on the cell."""
        rows, shift = np.concatenate([self.H, forms.rows]), np.concatenate([self.h, forms.constant])
        return Sides(rows, shift, np.concatenate([self.neuron, neuron]))

    def combined(self, forms: Forms, weights: Array) -> Forms:
        """forms + weights (H x + h), weights >= 0."""
        w = balls(np.where(np.isfinite(weights), np.maximum(weights, 0.0), 0.0))
        return Forms(forms.rows + product(w, self.H), forms.constant + product(w, self.h))

    def pushed(self, forms: Forms, box: Box) -> Forms:
        """The forms plus multiples of half-spaces that make their maxima small; the multiples are hints."""
        nothing = np.zeros((1, len(forms.constant)))
        own = FloatForms(floats(forms.rows)[None], floats(forms.constant)[None], nothing, nothing, 1)
        sides = FloatSides(floats(self.H)[None], floats(self.h)[None], self.neuron[None])
        with np.errstate(all="ignore"):
            return self.combined(forms, multiples(own, sides, Interval(box.lo[None], box.hi[None]))[0])


def no_sides(inputs: int) -> Sides:
    """None yet."""
    return Sides(zeros(0, inputs), zeros(0), np.zeros(0, dtype=np.int64))


def forms_above(block: Block, own: Index, stages: Sequence[Stage]) -> Forms:
    """Forms above z of some neurons of a block (first half) and above -z (second half)."""
    signs = np.repeat([1.0, -1.0], len(own))
    pick = np.tile(own, 2)
    constant = balls(signs * block.bias[pick]) + balls(block.doubt[pick])
    pending = {j: balls(signs[:, None] * np.tile(dense(weight[own]), (2, 1))) for j, weight in block.terms}
    return descend(stages, pending, {}, constant)


def descend(stages: Sequence[Stage], pending: dict[int, Balls], lifted: dict[int, Balls], constant: Balls) -> Forms:
    """Forms in the input above sums of values x_j (`pending`) and pre-activations z_i (`lifted`), by coefficients."""
    for i in range(len(stages), 0, -1):
        if i not in pending and i not in lifted:
            continue
        stage, rows = stages[i - 1], lifted.get(i)
        if i in pending:
            more, shift = stage.carried(pending.pop(i))
            constant = constant + shift
            rows = more if rows is None else rows + more
        assert rows is not None
        constant = constant + product(rows, balls(stage.block.bias)) + product(abs(rows), balls(stage.block.doubt))
        for j, weight in stage.weights:
            pulled = product(rows, weight)
            pending[j] = pending[j] + pulled if j in pending else pulled
    return Forms(pending[0], constant)


def through(w: Balls, lines: BallLines, size: Balls) -> tuple[Balls, Balls]:
    """Coefficients of z above w F(z), and constants; where the sign of w is not known, w F is at most |w| size."""
    rises, falls = np.asarray(w > 0, dtype=bool), np.asarray(w <= 0, dtype=bool)
    zero = zeros(1)[0]
    slope, shift = np.where(rises, lines.up_slope, lines.low_slope), np.where(rises, lines.up_shift, lines.low_shift)
    known = rises | falls
    rows = np.where(known, w * slope, zero)
    return rows, total(np.where(known, w * shift, abs(w) * size))
