"""A tree of cells while it grows, and the smallest part of it that proves a bound.

A split cuts a cell at a coordinate or at the kink of a neuron; both halves are closed. Nodes have numbers: the roots
come first, then the halves of every split in pairs, below (or off) before above (or on). A proof lists the nodes level
by level, which `order` does.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lipcert.proof.cells import Index
from lipcert.proof.tree import LEAF
from lipcert.rounding import Array

Mask = NDArray[np.bool_]
_FIRST = 64  # nodes that there is room for at first


class GrowingTree:
    """A tree of splits as a table with a row for each node.

    The columns: `where` the node is split (as in `proof.tree`), at which `value`, the number of its half `below`, and
    `own`, the bound that a proof of this node alone gives, infinite where there is none. A search may add columns.
    A copy stays what it was when the original is split.
    """

    def __init__(self, roots: int = 1) -> None:
        self.roots = self.count = roots
        room = max(roots, _FIRST)
        self._columns: dict[str, NDArray[Any]] = {
            "where": np.full(room, LEAF, dtype=np.int64),
            "below": np.full(room, -1, dtype=np.int64),
            "value": np.zeros(room),
            "own": np.full(room, np.inf),
        }
        self._empty: dict[str, Any] = {"where": LEAF, "below": -1, "value": 0.0, "own": np.inf}

    def add_column(self, name: str, shape: tuple[int, ...], empty: Any, kind: type) -> None:
        """A further number, or a row of numbers, of every node; new nodes have `empty`."""
        room = len(self._columns["where"])
        self._columns[name], self._empty[name] = np.full((room, *shape), empty, dtype=kind), empty

    def __len__(self) -> int:
        return self.count

    def column(self, name: str) -> NDArray[Any]:
        """The numbers of all nodes, which may be written into until the next split."""
        return self._columns[name][: self.count]

    @property
    def where(self) -> Index:
        return self.column("where")

    @property
    def value(self) -> Array:
        return self.column("value")

    @property
    def below(self) -> Index:
        return self.column("below")

    @property
    def own(self) -> Array:
        return self.column("own")

    @property
    def leaves(self) -> int:
        """How many nodes are not split."""
        return (self.count + self.roots) // 2

    @property
    def is_split(self) -> Mask:
        """Which nodes have halves. (The halves of a split that was made later are behind the nodes of a copy.)"""
        return np.asarray((self.below >= 0) & (self.below < self.count))

    def copy(self) -> Self:
        """The tree as it is now."""
        other = copy(self)
        other._columns = dict(self._columns)
        return other

    def split(self, nodes: Index, where: Index, value: Array | float = 0.0, **columns: NDArray[Any]) -> Index:
        """Split some leaves; the numbers of their halves, in pairs. `columns` are further numbers of the halves."""
        halves = self.count + np.arange(2 * len(nodes))
        self._reserve(self.count + len(halves))
        new = slice(self.count, self.count + len(halves))
        for name, empty in self._empty.items():
            self._columns[name][new] = columns.get(name, empty)
        self.count += len(halves)
        self.where[nodes], self.value[nodes], self.below[nodes] = where, value, halves[::2]
        return halves

    def part(self, ends: Mask) -> tuple[Index, Mask]:
        """The nodes of the tree that is left without the halves of `ends`, level by level, and which of them are
        leaves."""
        inner = self.is_split & ~ends
        nodes = level_order(self.below, inner, self.roots)
        return nodes, ~inner[nodes]

    def smallest(self, target: float) -> tuple[Index, Mask]:
        """The nodes of the smallest tree whose leaves all prove `target`, if there is one, and which are leaves."""
        return self.part(self.own <= target)

    def order(self) -> Index:
        """All nodes level by level, as a proof lists them."""
        return level_order(self.below, self.is_split, self.roots)

    def proved(self) -> float:
        """The bound that the tree proves: of every node the better of its own proof and of its halves."""
        value, below = self.own.tolist(), self.below.tolist()
        for node in np.flatnonzero(self.is_split)[::-1].tolist():  # halves have larger numbers than the node
            half = below[node]
            value[node] = min(value[node], max(value[half], value[half + 1]))
        return float(max(value[: self.roots]))

    def _reserve(self, count: int) -> None:
        """Room for so many nodes, in new arrays where the old ones are too short."""
        room = len(self._columns["where"])
        if count <= room:
            return
        more = max(count - room, room)
        for name, old in self._columns.items():
            added = np.full((more, *old.shape[1:]), self._empty[name], dtype=old.dtype)
            self._columns[name] = np.concatenate([old, added])


def level_order(first: Index, split: NDArray[np.bool_], roots: int = 1) -> Index:
    """The nodes of a growing tree level by level; `first` is the lower half of every node that is `split`, and the
    upper half has the next number. The first nodes are the roots."""
    order: list[Index] = []
    level: Index = np.arange(roots, dtype=np.int64)
    while len(level):
        order.append(level)
        lower = first[level[split[level]]]
        level = np.stack([lower, lower + 1], axis=1).reshape(-1)
    return np.concatenate(order)
