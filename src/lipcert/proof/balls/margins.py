"""Margins on balls by slopes and weights (`bounds.offsets`), in balls.

The balls of the layers are those of the ordinary checker; the offsets are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.offsets import Reach, best_point, reaches
from lipcert.problem.network import Network
from lipcert.problem.region import Ball
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.forms import Stage, forms_above
from lipcert.proof.balls.numbers import Balls, above, balls, floats, total
from lipcert.proof.margins import Place, fitting, with_margins
from lipcert.rounding import Array

_NOWHERE = Reach(np.zeros(0), 0.0)


@dataclass(frozen=True, eq=False)
class BallStage(Stage):
    """A ReLU block with its ball, a slope for every neuron, and the weight of the ball."""

    ball: Reach = _NOWHERE
    slopes: tuple[float, ...] = ()
    weight: float = 0.0

    def carried(self, rows: Balls) -> tuple[Balls, Balls]:
        """As in `Stage`; what is added are floats above the offsets."""
        g, z = rows * balls(self.slopes), self.z
        right = self._top(rows - g, np.maximum(z.lo, 0.0), np.maximum(z.hi, 0.0))
        left = self._top(-g, np.minimum(z.lo, 0.0), np.minimum(z.hi, 0.0))
        each = np.maximum(np.where(z.hi >= 0, right, -np.inf), np.where(z.lo <= 0, left, -np.inf))
        return g, total(balls(each)) + balls(self.weight) / 2 * balls(self.ball.radius) ** 2

    def _top(self, a: Balls, low: Array, high: Array) -> Array:
        """At least the maxima of the parabolas, by the tangent at a point near each."""
        v = best_point(floats(a), low, high, self.ball.center, self.weight)
        point, weight = balls(v), balls(self.weight)
        far = point - balls(self.ball.center)
        value, slope = a * point - weight / 2 * far * far, a - weight * far
        rise = np.maximum(above(slope * (balls(low) - point)), above(slope * (balls(high) - point)))
        return above(value + balls(np.maximum(rise, 0.0)))


def offset_margin(
    net: Network, region: Place, c: Array, pre: tuple[Interval, ...], numbers: Mapping[str, Array]
) -> float:
    """An upper bound of c'scores; `pre` are bounds of the hidden blocks and of the scores."""
    longer = with_margins(net, c[None])
    found = fitting(net, region, pre[: net.depth], numbers)
    if found is None or not isinstance(region, Ball):
        return math.inf
    stages = list[Stage]()
    for block, z, ball, s, weight in zip(net.hidden, pre, reaches(net, region, pre), *found, strict=False):
        stages.append(BallStage(block, z, value_bounds(block.activation, z), False, ball, tuple(s.tolist()), weight))
    stages.append(Stage(longer.hidden[net.depth], pre[net.depth], pre[net.depth]))
    forms = forms_above(longer.hidden[-1], np.zeros(1, dtype=np.int64), stages)
    return float(above(forms.largest(region))[0])
