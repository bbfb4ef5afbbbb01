"""Values of the entries at points of the region: the least and the largest of each, proved next to one of them."""

from __future__ import annotations

import numpy as np

from lipcert.bounds.jacobian import entries_at
from lipcert.proof.cells import Index
from lipcert.proof.jacobian import EntryQuestion
from lipcert.rounding import Array

_NUMBERS = 1 << 20  # in one array of values at points
_BETTER = 1e-13  # of an entry: less than that is rounding, and no reason to prove it


class ValuesAtPoints:
    """Of every entry (scores, inputs): `most` is at most its largest value next to a point of the region, namely
    points[most_at]; `least` is at least its smallest one."""

    def __init__(self, asked: EntryQuestion) -> None:
        self.asked = asked
        self.most, self.least = np.full(asked.shape, -np.inf), np.full(asked.shape, np.inf)
        self.most_at, self.least_at = (np.full(asked.shape, -1, dtype=np.int64) for _ in range(2))
        self._points: list[Array] = []

    def offer(self, points: Array) -> None:
        """Try points of the region in plain floating point, and prove the values at the best of them."""
        net = self.asked.network
        step = max(1, _NUMBERS // max(net.shape[0] * len(self.asked.scores), net.neurons, 1))
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
        net = self.asked.network
        step = max(1, _NUMBERS // max(net.shape[0] * len(self.asked.scores), net.neurons, 1))
        for some in (points[k : k + step] for k in range(0, len(points), step)):
            self._prove(some)

    def _jacobians(self, points: Array) -> Array:
        net, asked = self.asked.network, self.asked
        slopes = [f.derivative(z) for f, z in zip(net.activations, net.preactivations(points), strict=True)]
        rows = [
            np.broadcast_to(net.chain_rule(slopes, e), (len(points), net.inputs))
            for e in np.eye(net.outputs)[asked.scores]
        ]
        return np.stack([row[:, asked.inputs] for row in rows], axis=1)

    def _prove(self, points: Array) -> None:
        asked = self.asked
        found = entries_at(asked.network, points, asked.scores)
        low, high = found.lo[:, :, asked.inputs], found.hi[:, :, asked.inputs]
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
        most, least = (part.reshape(self.asked.shape) - shift for part in np.split(place.reshape(-1), 2))
        return np.array(rows).reshape(len(rows), self.asked.network.inputs), most, least
