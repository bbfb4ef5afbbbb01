"""A tree of cells while it grows, and the smallest part of it that proves a bound.

A split cuts a cell at a coordinate or at the kink of a neuron; both halves are closed. Nodes have numbers: the roots
come first, then the halves of every split in pairs, below (or off) before above (or on). A proof lists the nodes level
by level, which `order` does.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from lipcert.proof.cells import Index
from lipcert.proof.tree import LEAF
from lipcert.rounding import Array

Mask = NDArray[np.bool_]
_FIRST = 64  # nodes that there is room for at first


class GrowingTree:
    """Of every node: `where` it is split (as in `proof.tree`), at which `value`, the number of its half `below`, and
    `own`, the bound that a proof of this node alone gives, infinite where there is none.

    A copy stays what it was when the original is split.
    """

    def __init__(self, roots: int = 1) -> None:
        self.roots = self.count = roots
        room = max(roots, _FIRST)
        self._where, self._below = np.full(room, LEAF, dtype=np.int64), np.full(room, -1, dtype=np.int64)
        self._value, self._own = np.zeros(room), np.full(room, np.inf)

    def __len__(self) -> int:
        return self.count

    @property
    def where(self) -> Index:
        return self._where[: self.count]

    @property
    def value(self) -> Array:
        return self._value[: self.count]

    @property
    def below(self) -> Index:
        return self._below[: self.count]

    @property
    def own(self) -> Array:
        return self._own[: self.count]

    @property
    def leaves(self) -> int:
        """How many nodes are not split."""
        return (self.count + self.roots) // 2

    @property
    def is_split(self) -> Mask:
        """Which nodes have halves. (Those of a split that was made later are behind the nodes of a copy.)"""
        return (self.below >= 0) & (self.below < self.count)

    def copy(self) -> GrowingTree:
        """The tree as it is now."""
        return copy(self)

    def split(self, nodes: Index, where: Index, value: Array | float = 0.0) -> Index:
        """Split some leaves; the numbers of their halves, in pairs."""
        halves = self.count + np.arange(2 * len(nodes))
        self._reserve(self.count + len(halves))
        new = slice(self.count, self.count + len(halves))
        self._where[new], self._below[new], self._value[new], self._own[new] = LEAF, -1, 0.0, np.inf
        self.count += len(halves)
        self._where[nodes], self._value[nodes], self._below[nodes] = where, value, halves[::2]
        return halves

    def order(self, ends: Mask | None = None) -> Index:
        """The nodes level by level, as `proof.tree` has them; what is below `ends` is left out."""
        inner = self.is_split if ends is None else self.is_split & ~ends
        return np.concatenate(list(self._levels(inner)))

    def smallest(self, target: float) -> Index:
        """The nodes of the smallest tree whose leaves all prove `target`, as far as there is one, level by level."""
        return self.order(self.own <= target)

    def proved(self) -> float:
        """The bound that the tree proves: of every node the better of its own proof and of its halves."""
        value, inner = self.own.copy(), self.is_split
        for level in reversed(self._levels(inner)):
            split = level[inner[level]]
            below = self.below[split]
            value[split] = np.minimum(value[split], np.maximum(value[below], value[below + 1]))
        return float(value[: self.roots].max())

    def _levels(self, inner: Mask) -> list[Index]:
        levels, level = [], np.arange(self.roots)
        while len(level):
            levels.append(level)
            first = self.below[level[inner[level]]]
            level = np.stack([first, first + 1], axis=1).reshape(-1)
        return levels

    def _reserve(self, count: int) -> None:
        """Room for so many nodes, in new arrays where the old ones are too short."""
        more = max(count - len(self._where), 0)
        if not more:
            return
        more = max(more, len(self._where))
        self._where = np.concatenate([self._where, np.full(more, LEAF, dtype=np.int64)])
        self._below = np.concatenate([self._below, np.full(more, -1, dtype=np.int64)])
        self._value = np.concatenate([self._value, np.zeros(more)])
        self._own = np.concatenate([self._own, np.full(more, np.inf)])
