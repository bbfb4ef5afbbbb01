"""Rows that every input satisfies, in balls: nogoods of sign patterns, and sharper pre-activation bounds.

The rows are those of `proof.nogoods`; the maximum of their sum over the boxes of x, v and w is taken in balls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.region import Region, ball_of, hull, sides_of
from lipcert.proof.balls.cells import Hint, proved_slopes
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.numbers import Balls, balls, lengths, product, smaller, total, zeros
from lipcert.rounding import Array

Signs = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class BallSystem:
    """The rows of a network on a bounded region; neurons of all hidden blocks stand side by side."""

    net: Network
    region: Region
    slope: Array
    open: NDArray[np.bool_]
    values: Interval
    away: Array
    p: Balls
    q: Balls

    @classmethod
    def over(cls, net: Network, region: Region, pre: Hint) -> BallSystem:
        """With pre-activation bounds that are proved; open neurons must be ReLU."""
        slopes = proved_slopes(net, pre)
        values = [value_bounds(f, z) for f, z in zip(net.activations, pre, strict=True)]
        lo, hi, least, most = (
            np.concatenate([block[k] for block in blocks]) for blocks in (pre, slopes) for k in (0, 1)
        )
        v = Interval(*(np.concatenate([block[k] for block in values]) for k in (0, 1)))
        still = least < most
        away = np.where(still, np.maximum(-lo, 0.0), 0.0)
        triangle = _inverse(hi, still), _inverse(-lo, still)
        return cls(net, region, np.where(still, 1.0, least), still, v, away, *triangle)

    @property
    def neurons(self) -> int:
        return len(self.slope)

    @property
    def cuts(self) -> int:
        """How many half-spaces the region has."""
        cut = sides_of(self.region)
        return 0 if cut is None else cut.count

    def largest(self, y: Array, t: Array, literals: Signs, scores: Array | None = None) -> Balls:
        """At least the maximum of every sum under its literals, shapes (sums, neurons), t >= 0."""
        net, count = self.net, len(y)
        mine, own, cut = balls(y), balls(t[:, : self.neurons]), sides_of(self.region)
        scaled = mine * balls(self.slope)
        of = [zeros(count, width) for width in net.shape[:-1]]
        constant, start = total(own), 0
        for block in net.blocks:
            if block is net.scores:
                if scores is None:
                    continue
                rows = balls(scores)
            else:
                rows = scaled[:, start : start + block.width]
            start += block.width
            constant = constant + product(rows, balls(block.bias)) + product(abs(rows), balls(block.doubt))
            for j, weight in block.terms:
                of[j] = of[j] + product(rows, balls(dense(weight)))
        if cut is not None:
            more = balls(t[:, self.neurons :])
            of[0], constant = of[0] - product(more, balls(cut.A)), constant + product(more, balls(cut.b))
        v = np.concatenate(of[1:], axis=1) - mine - own * self.p
        w = np.where(self.open, mine - own * self.q, zeros(1)[0])
        off, on = literals < 0, literals > 0
        lo, hi = np.where(off, np.minimum(self.values.lo, 0.0), self.values.lo), np.where(off, 0.0, self.values.hi)
        rest = _most(v, lo, hi) + _most(w, np.zeros(lo.shape), np.where(on, 0.0, self.away)) + constant
        box, ball = hull(self.region), ball_of(self.region)
        assert box is not None
        top = _most(of[0], *(np.broadcast_to(end, (count, net.inputs)) for end in (box.lo, box.hi)))
        if ball is not None:
            reach = lengths(abs(of[0]), "2") * balls(ball.radius)
            top = smaller(top, product(of[0], balls(ball.center)) + reach)
        return np.asarray(top + rest)


def _most(a: Balls, lo: Array, hi: Array) -> Balls:
    """The maximum of a x, row by row, over lo <= x <= hi."""
    low, high = balls(lo), balls(hi)
    return total(a * ((low + high) / 2) + abs(a) * ((high - low) / 2))


def _inverse(h: Array, still: NDArray[np.bool_]) -> Balls:
    """1 / h where h > 0, zero elsewhere."""
    used = still & (h > 0) & np.isfinite(h)
    return np.where(used, balls(1.0) / balls(np.where(used, h, 1.0)), zeros(1)[0])
