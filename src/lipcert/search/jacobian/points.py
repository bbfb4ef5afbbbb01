"""Values of the entries at points of the region: the least and the largest of each, proved next to one of them."""

from __future__ import annotations

import numpy as np

from lipcert.bounds.jacobian import entries_at
from lipcert.proof.cells import Index
from lipcert.proof.jacobian import EntryQuestion
from lipcert.rounding import Array

_NUMBERS = 1 << 20  # in one array of values at points
_BETTER = 1e-13  # relative to an entry: a smaller gain is rounding, and no reason to prove it


class ValuesAtPoints:
    """Values of every entry (scores, inputs) that were seen at points of the region.

    `most` is at most the largest value of the entry next to points[most_at], `least` at least the smallest one next to
    points[least_at].
    """

    def __init__(self, question: EntryQuestion) -> None:
        self.question = question
        self.most, self.least = np.full(question.shape, -np.inf), np.full(question.shape, np.inf)
        self.most_at, self.least_at = (np.full(question.shape, -1, dtype=np.int64) for _ in range(2))
        self._points: list[Array] = []

    def offer(self, points: Array) -> None:
        """Try points of the region in plain floating point, and prove the values at the best of them."""
        net = self.question.network
        step = max(1, _NUMBERS // max(net.shape[0] * len(self.question.scores), net.neurons, 1))
        for some in (points[k : k + step] for k in range(0, len(points), step)):
            with np.errstate(all="ignore"):
                J = np.nan_to_num(self._jacobians(some), nan=0.0, posinf=0.0, neginf=0.0)
            room = _BETTER * np.abs(J).max(axis=0)
            up, down = J.argmax(axis=0), J.argmin(axis=0)
            better = np.concatenate([up[J.max(axis=0) > self.most + room], down[J.min(axis=0) < self.least - room]])
            if len(better):
                self._prove(some[np.unique(better)])

    def again(self, points: Array) -> None:
        """Prove the values at points that an earlier run found."""
        net = self.question.network
        step = max(1, _NUMBERS // max(net.shape[0] * len(self.question.scores), net.neurons, 1))
        for some in (points[k : k + step] for k in range(0, len(points), step)):
            self._prove(some)

    def _jacobians(self, points: Array) -> Array:
        net, question = self.question.network, self.question
        slopes = [f.derivative(z) for f, z in zip(net.activations, net.preactivations(points), strict=True)]
        rows = [
            np.broadcast_to(net.chain_rule(slopes, e), (len(points), net.inputs))
            for e in np.eye(net.outputs)[question.scores]
        ]
        return np.stack([row[:, question.inputs] for row in rows], axis=1)

    def _prove(self, points: Array) -> None:
        question = self.question
        found = entries_at(question.network, points, question.scores)
        low, high = found.lo[:, :, question.inputs], found.hi[:, :, question.inputs]
        first, kept = len(self._points), set[int]()
        for value, best, at, sign in ((low, self.most, self.most_at, 1.0), (high, self.least, self.least_at, -1.0)):
            k = (sign * value).argmax(axis=0)
            top = np.take_along_axis(value, k[None], axis=0)[0]
            won = np.isfinite(top) & (sign * top > sign * best)
            best[won], at[won] = top[won], first + k[won]
            kept |= set(k[won].tolist())
        if kept:
            self._points += list(points)

    def points(self) -> tuple[Array, Index, Index]:
        """The points that are the best for some entry, and of every entry the numbers of its two (-1 for none)."""
        used, place = np.unique(np.concatenate([self.most_at.ravel(), self.least_at.ravel()]), return_inverse=True)
        shift = int(used[0] < 0)
        rows = [self._points[k] for k in used[shift:]]
        most, least = (part.reshape(self.question.shape) - shift for part in np.split(place.reshape(-1), 2))
        return np.array(rows).reshape(len(rows), self.question.network.inputs), most, least
