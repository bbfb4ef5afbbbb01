"""Dense vectors as columns, some of which have entries in a few rows only: products with them cost what they must."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipcert.relaxation.rank_two import Floats, Integers


@dataclass(frozen=True, eq=False)
class Columns:
    """Q, N x d; the columns `thin` have entries in `support` only."""

    Q: Floats
    thin: Integers
    support: Integers

    @staticmethod
    def of(Q: Floats, thin: Integers) -> Columns:
        """With the support of these columns."""
        return Columns(np.asfortranarray(Q), thin, np.flatnonzero(np.any(Q[:, thin] != 0, axis=1)))

    @cached_property
    def wide(self) -> Integers:
        return np.setdiff1d(np.arange(self.Q.shape[1]), self.thin)

    @cached_property
    def short(self) -> Floats:
        """The entries of the thin columns."""
        return np.ascontiguousarray(self.Q[np.ix_(self.support, self.thin)])

    @cached_property
    def rest(self) -> Floats:
        return np.asfortranarray(self.Q[:, self.wide])

    def images(self, M: Floats) -> Floats:
        """M Q."""
        if not self.thin.size:
            return np.asarray(M @ self.Q)
        result = np.empty((len(M), self.Q.shape[1]))
        result[:, self.wide] = M @ self.rest
        result[:, self.thin] = M[:, self.support] @ self.short
        return result

    def gram(self, M: Floats, images: Floats) -> Floats:
        """[I, Q]' M [I, Q] for a symmetric M with these images."""
        n, d = self.Q.shape
        if d == 0:
            return M
        G = np.empty((n + d, n + d))
        G[:n, :n] = M
        G[:n, n:] = images
        G[n:, :n] = images.T
        G[n + self.wide, n:] = self.rest.T @ images
        if self.thin.size:
            G[n + self.thin, n:] = self.short.T @ images[self.support]
        return G
