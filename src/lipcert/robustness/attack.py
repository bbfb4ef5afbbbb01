"""Attacks: projected gradient steps on the exact network, from the other side of the question.

Every input of a batch descends its lead over a rival by sign steps inside its own ball; the gradients are matrix
products over the batch. A point counts only when the enclosed scores prove that another class wins there, and when it
lies in the ball in real arithmetic; it is then pulled towards its input as far as the proof still holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.robustness.data import Labels
from lipcert.robustness.decision import class_scores, rounding_allowance
from lipcert.rounding import Array, add_down, add_up

Places = NDArray[np.intp]
Domain = tuple[float, float] | None

STEPS = 24
RESTARTS = 2
_BATCH = 2048
_HALVINGS = 12  # steps of bisection on the segment between an input and its counterexample


@dataclass(frozen=True, eq=False)
class Counterexamples:
    """`radius` is the distance of the counterexample, rounded up, and infinite where none is known."""

    radius: Array
    places: Places  # the inputs that have one
    points: Array
    classes: Labels | None = None  # which other class is proved to be above the label there; None where it is not known

    def merged(self, other: Counterexamples) -> Counterexamples:
        """The nearer one of both for every input."""
        nearer = other.radius < self.radius
        kept = ~nearer[self.places]
        gained = nearer[other.places]
        places = np.concatenate([self.places[kept], other.places[gained]])
        points = np.concatenate([self.points[kept], other.points[gained]])
        order = np.argsort(places)
        return Counterexamples(np.minimum(self.radius, other.radius), places[order], points[order])

    def named(self, net: Network, labels: Labels) -> Counterexamples:
        """With the class that leads at every point."""
        return replace(self, classes=leading_classes(net, self.points, labels[self.places]))


def no_counterexamples(count: int, inputs: int) -> Counterexamples:
    return Counterexamples(np.full(count, np.inf), np.zeros(0, dtype=np.intp), np.zeros((0, inputs)))


@dataclass(frozen=True)
class Perturbation:
    """The allowed changes of inputs: at most `radius` in a norm, and within the limits where there are any."""

    radius: float
    limits: Domain = None
    norm: Norm = INF


def attack(
    net: Network,
    inputs: Array,
    labels: Labels,
    allowed: Perturbation,
    where: Places | None = None,
    seed: int = 0,
) -> Counterexamples:
    """Look for a counterexample near every input, or near the inputs with the numbers `where`."""
    rng = np.random.default_rng(seed)
    found = no_counterexamples(len(inputs), net.inputs)
    places = np.arange(len(inputs)) if where is None else where
    radii, kept, points = found.radius, [found.places], [found.points]
    for start in range(0, len(places), _BATCH):
        chosen = places[start : start + _BATCH]
        search = _Search(net, inputs[chosen], labels[chosen], allowed, rng)
        for k in range(RESTARTS):
            search.descend(k)
        radii[chosen] = search.distance
        hit = np.flatnonzero(np.isfinite(search.distance))
        kept.append(chosen[hit])
        points.append(search.best[hit])
    return Counterexamples(radii, np.concatenate(kept), np.concatenate(points))


class _Search:
    """One batch: the balls, and the nearest proved counterexample of each input so far."""

    def __init__(self, net: Network, x: Array, labels: Labels, allowed: Perturbation, rng: np.random.Generator) -> None:
        self.net, self.x, self.labels, self.rng = net, x, labels, rng
        self.radius, self.norm, limits = allowed.radius, allowed.norm, allowed.limits
        ends = np.full(x.shape, self.radius)
        # Rounded inward: every float between lo and hi is in the ball of real numbers.
        self.lo, self.hi = add_up(x, -ends), add_down(x, ends)
        if limits is not None:
            self.lo, self.hi = np.maximum(self.lo, limits[0]), np.minimum(self.hi, limits[1])
        self.distance = np.full(len(x), np.inf)
        self.best = x.copy()

    def descend(self, restart: int) -> None:
        """The first run starts at the input and follows the nearest rival; the others start at random points and
        keep the rival that is second, third, ... there."""
        rows = np.flatnonzero(np.isinf(self.distance))
        if not rows.size:
            return
        lo, hi = self.lo[rows], self.hi[rows]
        point = self.x[rows] if restart == 0 else self.rng.uniform(lo, np.maximum(lo, hi))
        point = self._inside(np.clip(point, lo, hi), rows)
        rivals = None if restart == 0 else self._rivals(rows, restart)
        for k in range(STEPS):
            gradient, done = self._gradient(point, self.labels[rows], rivals)
            if done.any():
                self._offer(rows[done], point[done])
                if done.all():
                    return
                rows, gradient = rows[~done], gradient[~done]
                point, lo, hi = point[~done], lo[~done], hi[~done]
                rivals = None if rivals is None else rivals[~done]
            length = 2.0 * self.radius * 0.5 ** (5.0 * k / STEPS)
            point = self._inside(np.clip(point - length * self._step(gradient), lo, hi), rows)
        leads = _leads(self.net, point, self.labels[rows])
        self._offer(rows[leads.min(axis=1) < 0], point[leads.min(axis=1) < 0])

    def _step(self, gradient: Array) -> Array:
        """The steepest direction of length 1: signs, the gradient, or in norm 1 its largest entries (80 % and more)."""
        if self.norm.p == "inf":
            return np.sign(gradient)
        if self.norm.p == "1":
            largest = np.abs(gradient).max(axis=1, keepdims=True)
            gradient = np.where(np.abs(gradient) >= 0.8 * largest, gradient, 0.0)
        size = self.norm.of(gradient)[:, None]
        return np.asarray(gradient / np.where(size > 0, size, 1.0))

    def _inside(self, point: Array, rows: Places) -> Array:
        """Moved towards the inputs until within the radius, with a little to spare for rounding."""
        if self.norm.p == "inf":
            return point
        change = point - self.x[rows]
        size = self.norm.of(change)[:, None]
        factor = np.minimum(1.0, self.radius * (1.0 - 1e-9) / np.where(size > 0, size, 1.0))
        moved = self.x[rows] + factor * change  # x + (point - x) can round past a point on the edge of the domain
        return np.asarray(np.clip(moved, self.lo[rows], self.hi[rows]))

    def _rivals(self, rows: Places, rank: int) -> Labels:
        leads = _leads(self.net, self.x[rows], self.labels[rows])
        return np.argsort(leads, axis=1)[:, min(rank, leads.shape[1] - 2)].astype(np.int64)

    def _gradient(self, point: Array, labels: Labels, rivals: Labels | None) -> tuple[Array, NDArray[np.bool_]]:
        """The gradient of score_label - score_rival, and whether a rival leads already."""
        zs, scores = self.net.run(point)
        leads = _leads_of(scores, labels)
        rivals = np.argmin(leads, axis=1).astype(np.int64) if rivals is None else rivals
        rows = np.arange(len(point))
        c = np.zeros((len(point), leads.shape[1]))
        c[rows, labels], c[rows, rivals] = 1.0, -1.0
        g = self.net.gradient_from(zs, c[:, 1:] if self.net.outputs == 1 else c)
        return g, leads.min(axis=1) < 0

    def _offer(self, rows: Places, points: Array) -> None:
        """Keep what is proved, moved along the segment to the input by bisection."""
        if not rows.size:
            return
        good = self._proved(rows, points)
        rows, points = rows[good], points[good]
        near = np.zeros(len(rows))  # the fraction of the segment that is too near, and one that is far enough
        far = np.ones(len(rows))
        best = points.copy()
        for _ in range(_HALVINGS):
            middle = near / 2 + far / 2
            tried = np.clip(self.x[rows] + middle[:, None] * (points - self.x[rows]), self.lo[rows], self.hi[rows])
            wins = self._proved(rows, tried)
            far, near = np.where(wins, middle, far), np.where(wins, near, middle)
            best[wins] = tried[wins]
        far_off = distance(best, self.x[rows], self.norm)
        nearer = (far_off < self.distance[rows]) & (far_off <= self.radius)
        self.distance[rows[nearer]], self.best[rows[nearer]] = far_off[nearer], best[nearer]

    def _proved(self, rows: Places, points: Array) -> NDArray[np.bool_]:
        return another_class_wins(self.net, points, self.labels[rows], portable=True)


def another_class_wins(net: Network, points: Array, labels: Labels, portable: bool = False) -> NDArray[np.bool_]:
    """For every point, whether the exact scores prove that another class wins.

    With `portable`, a machine that adds in another order proves it as well.
    """
    if not len(points):
        return np.zeros(0, dtype=bool)
    scores = class_scores(net, points)
    rows = np.arange(len(labels))
    others = scores.lo - rounding_allowance(scores, labels) if portable else scores.lo.copy()
    others[rows, labels] = -np.inf
    return np.asarray(others.max(axis=1) > scores.hi[rows, labels])


def leading_classes(net: Network, points: Array, labels: Labels) -> Labels:
    """At every point the class other than the label that is furthest above the label for sure."""
    if not len(points):
        return np.zeros(0, dtype=np.int64)
    scores = class_scores(net, points)
    others = scores.lo - rounding_allowance(scores, labels)
    others[np.arange(len(labels)), labels] = -np.inf
    return np.asarray(np.argmax(others, axis=1), dtype=np.int64)


def class_wins(net: Network, points: Array, labels: Labels, classes: Labels) -> NDArray[np.bool_]:
    """Whether the exact scores prove, at every point, that this class is above the label."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    scores, rows = class_scores(net, points), np.arange(len(labels))
    known = (classes >= 0) & (classes < scores.lo.shape[1])
    return np.asarray(known & (scores.lo[rows, np.where(known, classes, labels)] > scores.hi[rows, labels]))


def _leads(net: Network, points: Array, labels: Labels) -> Array:
    return _leads_of(net.forward(points), labels)


def _leads_of(scores: Array, labels: Labels) -> Array:
    """score_label - score_i in plain floating point, infinite for the label itself."""
    if scores.shape[1] == 1:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    rows = np.arange(len(labels))
    leads = scores[rows, labels][:, None] - scores
    leads[rows, labels] = np.inf
    return leads


def distance(points: Array, x: Array, norm: Norm = INF) -> Array:
    """The norm of the change, rounded up."""
    change = np.maximum(add_up(points, -x), add_up(x, -points))
    return norm.rows_above(change) if len(change) else np.zeros(0)
