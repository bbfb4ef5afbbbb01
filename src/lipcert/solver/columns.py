"""Dense vectors as columns, some of which have entries in a few rows only: products with them cost what they must."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
    def _places(self) -> tuple[Any, Any]:
        """The wide and the thin columns, as slices where they lie side by side."""
        return _run(self.wide), _run(self.thin)

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
        result, (wide, thin) = np.empty((len(M), self.Q.shape[1])), self._places
        result[:, wide] = M @ self.rest
        result[:, thin] = M[:, self.support] @ self.short
        return result

    def gram(self, M: Floats, images: Floats, memory: Floats | None = None) -> Floats:
        """[I, Q]' M [I, Q] for a symmetric M with these images, in an array of the right shape where one is given."""
        n, d = self.Q.shape
        if d == 0:
            return M
        G = np.empty((n + d, n + d)) if memory is None else memory
        G[:n, :n] = M
        G[:n, n:] = images
        G[n:, :n] = images.T
        wide, thin = self._places
        corner = G[n:, n:]
        corner[wide] = self.rest.T @ images
        if self.thin.size:
            corner[thin] = self.short.T @ images[self.support]
        return G


def _run(index: Integers) -> Any:
    """The indices as a slice where they are consecutive."""
    if index.size and index[-1] - index[0] == index.size - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
