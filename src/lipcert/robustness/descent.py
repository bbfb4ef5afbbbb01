"""Slopes and weights of balls that make linear bounds of margins small (`bounds.offsets`): hints by gradient descent.

A bound is a maximum over inputs and over the pre-activations of every layer, so its derivatives are values at the
points where these maxima are attained: one pass back gives the coefficients and the points, one pass forward the
derivatives. All rivals of an input are rows of the same products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.forms import share_of_ball
from lipcert.bounds.interval import Interval, times
from lipcert.bounds.offsets import Reach, best_point, reaches
from lipcert.problem.network import Network
from lipcert.problem.region import Ball
from lipcert.proof.margins import WEIGHTS, MarginProof, offset_margin, slopes_name
from lipcert.rounding import Array
from lipcert.steps import step

_STEPS = 120  # of gradient descent, at most
_LOOK = 20  # steps without a gain of the tenth of what is missing, after which a row is given up
_RATE, _SLOWER = 0.2, 0.97  # the first step, and its factor from one to the next
_FIRST, _SECOND = 0.9, 0.99  # decay of the moments


def prove_by_descent(
    net: Network, ball: Ball, rows: Array, pre: tuple[Interval, ...]
) -> tuple[Array, dict[int, MarginProof]]:
    """The bounds of all rows (weights of the scores), and a proof of each row that the descent brings below zero."""
    search = _Descent(net, ball, rows, pre)
    with np.errstate(all="ignore"):  # what is no number proves nothing
        search.run()
    proofs: dict[int, MarginProof] = {}
    for k in np.flatnonzero(search.value < 0).tolist():
        numbers = {slopes_name(i): s[k] for i, s in enumerate(search.best_slopes, start=1)}
        numbers[WEIGHTS] = search.best_weights[k]
        upper = offset_margin(net, ball, rows[k], pre, numbers)
        if upper < 0:
            proofs[k] = MarginProof(rows[k], upper, -1, numbers)
    return search.value, proofs


@dataclass(eq=False)
class _Adam:
    """Adam for one array of parameters."""

    first: Array
    second: Array
    count: int = 0

    def step(self, gradient: Array, rate: float) -> Array:
        """The change of the parameters."""
        self.count += 1
        self.first = _FIRST * self.first + (1 - _FIRST) * gradient
        self.second = _SECOND * self.second + (1 - _SECOND) * gradient * gradient
        size = np.sqrt(self.second / (1 - _SECOND**self.count)) + 1e-30
        return -rate * self.first / (1 - _FIRST**self.count) / size


class _Descent:
    """The slopes (rows, neurons) and logarithms of weights (rows) of every layer, and the best bound of every row."""

    def __init__(self, net: Network, ball: Ball, rows: Array, pre: tuple[Interval, ...]) -> None:
        self.net, self.ball, self.rows, self.pre = net, ball, rows, pre
        self.reaches: list[Reach] = reaches(net, ball, pre)
        self.low, self.high = (end - ball.center for end in (ball.box.lo, ball.box.hi))
        count = len(rows)
        self.slopes = [np.tile(_chords(z), (count, 1)) for z in pre]
        self.logs = [np.full(count, -np.inf) for _ in pre]
        self.value = np.full(count, np.inf)
        self.best_slopes = [s.copy() for s in self.slopes]
        self.best_weights = np.zeros((count, len(pre)))

    def run(self) -> None:
        """Until every row is below zero, or nothing falls any more."""
        self._pass()
        self.logs = [np.log(np.maximum(w, 1e-30)) for w in self._first_weights()]
        movers = [(_Adam(np.zeros(s.shape), np.zeros(s.shape))) for s in self.slopes]
        scalers = [_Adam(np.zeros(len(g)), np.zeros(len(g))) for g in self.logs]
        rate, seen = _RATE, self.value.copy()
        for k in range(_STEPS):
            step()
            if np.all(self.value < 0):
                return
            slopes, weights = self._pass()
            for i in range(len(self.pre)):
                self.slopes[i] = np.clip(self.slopes[i] + movers[i].step(slopes[i], rate), 0.0, 1.0)
                self.logs[i] = self.logs[i] + scalers[i].step(weights[i] * np.exp(self.logs[i]), 2 * rate)
            rate *= _SLOWER
            if k % _LOOK == _LOOK - 1:
                if not np.any((self.value >= 0) & (self.value < seen - 0.1 * np.maximum(self.value, 0.0))):
                    return
                seen = self.value.copy()

    def _first_weights(self) -> list[Array]:
        """Weights at which the two terms of a layer's offset are about as large."""
        return [
            np.sqrt(np.square(r).sum(axis=1)) / (4 * max(e.radius, 1e-30))
            for r, e in zip(self.carried, self.reaches, strict=True)
        ]

    def _pass(self) -> tuple[list[Array], list[Array]]:
        """The bounds of all rows, kept where they are the best, and the derivatives by slopes and weights."""
        net = self.net
        last = net.affines[-1]
        r, value = np.asarray(self.rows @ last.weight), self.rows @ last.bias
        points, self.carried = list[tuple[Array, Array, Array]](), list[Array]()
        for k in range(net.depth - 1, -1, -1):
            weight = np.exp(self.logs[k])[:, None]
            z, off = self._offset(k, r, weight)
            points.append((r, z, np.where(z > 0, z, 0.0)))
            self.carried.append(r)
            g = r * self.slopes[k]
            value = value + off + g @ net.affines[k].bias
            r = np.asarray(g @ net.affines[k].weight)
        self.carried.reverse()
        x, top = self._input(r)
        value = value + top
        self._keep(value)
        slopes, weights = list[Array](), list[Array]()
        for k, (own, z, after) in enumerate(reversed(points)):
            reach = self.reaches[k]
            far = times(x, net.affines[k].weight) + net.affines[k].bias - z
            slopes.append(own * far)
            weights.append((reach.radius**2 - np.square(z - reach.center).sum(axis=1)) / 2)
            x = self.slopes[k] * far + after
        return slopes, weights

    def _offset(self, k: int, r: Array, weight: Array) -> tuple[Array, Array]:
        """Where the offset of a layer is attained, and the offset."""
        reach, z = self.reaches[k], self.pre[k]
        g = r * self.slopes[k]
        best, at = np.full(r.shape, -np.inf), np.zeros(r.shape)
        for a, low, high in (
            (r - g, np.maximum(z.lo, 0), np.maximum(z.hi, 0)),
            (-g, np.minimum(z.lo, 0), np.minimum(z.hi, 0)),
        ):
            v = best_point(a, low, high, reach.center, weight)
            top = np.where((v < z.lo) | (v > z.hi), -np.inf, a * v - weight / 2 * np.square(v - reach.center))
            best, at = np.where(top > best, top, best), np.where(top > best, v, at)
        return at, best.sum(axis=1) + weight[:, 0] / 2 * reach.radius**2

    def _input(self, g: Array) -> tuple[Array, Array]:
        """Where rows of coefficients are largest on the region, and the maxima."""
        c, radius = self.ball.center, self.ball.radius
        h = (
            g
            if self.ball.clip is None
            else share_of_ball(g[None], self.low[None, None], self.high[None, None], radius)[0]
        )
        t = np.sqrt(np.square(h).sum(axis=1, keepdims=True)) / radius
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(t > 0, g / t, np.sign(g) * np.inf)
        moved = np.clip(np.where(np.isnan(moved), 0.0, moved), self.low, self.high)
        return c + moved, g @ c + np.einsum("ij,ij->i", g, moved)

    def _keep(self, value: Array) -> None:
        better = value < self.value
        self.value = np.where(better, value, self.value)
        for best, own in zip(self.best_slopes, self.slopes, strict=True):
            best[better] = own[better]
        self.best_weights[better] = np.exp(np.stack(self.logs, axis=1))[better]


def _chords(z: Interval) -> Array:
    """Slopes of the chords; 0 or 1 where the sign is known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = z.hi / (z.hi - z.lo)
    return np.where(z.lo >= 0, 1.0, np.where(z.hi <= 0, 0.0, chord))
