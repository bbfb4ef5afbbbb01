"""The products of a grid that a method watches: those with a multiplier, and those near their bound.

Of the four products of a pair at most two can be near their bound, and most pairs have none: a list of the ones that
count makes a step several times cheaper than four full matrices. It is drawn anew between the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.relaxation.triangles import SIGNS

Moments = tuple[Floats, Floats, Floats]  # of (a_i, b_j), (1, a_i), (1, b_j)


def excess(moments: Moments, kind: int) -> Floats:
    """-(1 + p a)(1 + q b) for all pairs, with the signs of one kind; positive where violated."""
    cross, rows, columns = moments
    p, q = (float(sign) for sign in SIGNS[kind])
    value = (-p * q) * cross
    value -= (1.0 + p * rows)[:, None]
    value -= q * columns
    return np.asarray(value)


@dataclass(frozen=True, eq=False)
class Watched:
    """Products (kind, i, j) as flat places in the four matrices, with what their signs need."""

    flat: Integers  # place in 4 x p x q
    pair: Integers  # place in p x q
    i: Integers
    j: Integers
    p: Floats
    q: Floats
    shape: tuple[int, int]

    @staticmethod
    def near(moments: Moments, L: Floats, margin: float) -> tuple[Watched, float]:
        """Those with a positive multiplier or within `margin` of their bound; and the largest violation of all."""
        p, q = moments[0].shape
        found, worst = [], 0.0
        for kind in range(4):
            value = excess(moments, kind)
            worst = max(worst, float(value.max(initial=0.0)))
            found.append(kind * p * q + np.flatnonzero((L[kind] > 0) | (value > -margin)))
        flat = np.concatenate(found)
        kind_of, pair = np.divmod(flat, p * q)
        i, j = np.divmod(pair, q)
        signs = SIGNS[kind_of].astype(float)
        return Watched(flat, pair, i, j, signs[:, 0].copy(), signs[:, 1].copy(), (p, q)), worst

    def excess(self, moments: Moments) -> Floats:
        """-(1 + p a)(1 + q b) of the products in the list."""
        cross, rows, columns = moments
        value = (-self.p * self.q) * cross.ravel()[self.pair]
        value -= self.p * rows[self.i]
        value -= self.q * columns[self.j]
        value -= 1.0
        return np.asarray(value)

    def parts(self, m: Floats) -> Moments:
        """G*(m) at (a_i, b_j), (1, a_i), (1, b_j)."""
        p, q = self.shape
        left, right = -0.5 * self.p * m, -0.5 * self.q * m
        kinds = ((self.pair, self.p * right, p * q), (self.i, left, p), (self.j, right, q))
        cross, rows, columns = (np.bincount(at, value, minlength=n).astype(float) for at, value, n in kinds)
        return cross.reshape(p, q), rows, columns
