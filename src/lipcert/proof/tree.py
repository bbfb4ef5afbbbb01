"""Tree: splits of a region, written down level by level, and how each leaf is closed.

    where    for every node the input coordinate that is cut, or the number of inputs plus that of the neuron whose kink
             is cut (all hidden blocks one after the other), or LEAF
    value    where a coordinate is cut
    grid     the cells that the tree begins with; without a grid it begins with the region itself
    leaves   how each leaf is closed (`leaves`); a tree without this table only says which cells there are

Nodes stand level by level: the roots, both halves of every root that is split (below before above), the halves of these
that are split, and so on. Both halves of a split are closed. So the leaves cover the region by construction, whatever
numbers a file has, and a bound that holds on every leaf holds on the region. (For a ball the tree begins with the box
around it; cells beside the ball need no proof.) `walk` is the only way through a tree: the caller says what a group of
cells is, how a cell is halved, and what is looked at in a node.

The same encoding serves a bound of one constant, cells with a constant each (`partition`) and Jacobians (`jacobian`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, word
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Region, hull
from lipcert.proof import encoding
from lipcert.proof.cells import Cells, Grid, Index, Signs, halves, kinked, read_grid
from lipcert.proof.leaves import NAMES as LEAF_NAMES
from lipcert.proof.leaves import (
    Group,
    Kind,
    Leaves,
    check_leaves,
    halved,
    leaf_bounds,
    proved_nogoods,
    read_leaves,
)
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.nogoods import refusal
from lipcert.rounding import Array, worst
from lipcert.steps import step

LEAF = -1
MOST_NODES = 1 << 24  # nodes of a tree whose cells are boxes alone,
MOST_SIGNED_NODES = 1 << 22  # and of a tree whose cells carry the signs of neurons, or whose leaves have proofs
MOST_DEPTH = 1 << 12  # splits above a cell: each level is bounded by itself

NAMES = f"splits|values|edges|edge_counts|tree_digest|{LEAF_NAMES}|{encoding.NAMES}"
TEXTS = encoding.TEXTS | {"tree_digest"}

_AT_ONCE = 4096  # cells of a tree with proofs that are halved together
_BOXES_AT_ONCE = 1 << 13  # cells that are halved together where nothing is computed on them
_PATHS_AT_ONCE = 256  # leaves over signs that are bounded in one call
_WAITING = 16  # groups of cells; with every so many more that wait in memory, groups are half as large
_UNFIT = "splits and cells do not fit together"


@dataclass(frozen=True, eq=False)
class Tree:
    """Splits level by level, the grid whose cells are the roots, and the table of leaves."""

    where: Index
    value: Array
    grid: Grid | None = None
    leaves: Leaves | None = None

    @classmethod
    def none(cls, grid: Grid | None = None) -> Tree:
        """The region, or the cells of a grid, without any split."""
        count = 1 if grid is None else grid.count
        return cls(np.full(count, LEAF, dtype=np.int64), np.zeros(count), grid)

    @property
    def method(self) -> str:
        """The name of the method that makes such trees."""
        return "signs" if self.leaves is not None and self.leaves.over_signs.any() else "tree"

    @property
    def roots(self) -> int:
        """How many nodes are no half of another node."""
        return 1 if self.grid is None else self.grid.count

    @cached_property
    def count(self) -> int:
        """How many leaves there are."""
        return int(np.sum(self.where < 0))

    @cached_property
    def below(self) -> Index:
        """The lower half of every node that is split; the upper half comes next."""
        return np.asarray(self.roots + 2 * (np.cumsum(self.where >= 0) - 1), dtype=np.int64)

    @cached_property
    def above(self) -> Index:
        """The node that every node is a half of, -1 for roots."""
        return np.concatenate([np.full(self.roots, -1), np.repeat(np.flatnonzero(self.where >= 0), 2)])

    @cached_property
    def leaf_numbers(self) -> Index:
        """The number among the leaves of every node that is a leaf."""
        return np.asarray(np.cumsum(self.where < 0) - 1, dtype=np.int64)

    @cached_property
    def root(self) -> Index:
        """The root that every node is a part of."""
        found = np.arange(len(self.where))
        for start, stop in self._levels():
            if start:
                found[start:stop] = found[self.above[start:stop]]
        return found

    @cached_property
    def left_to_right(self) -> Index:
        """The nodes that are leaves, those in the lower half of a split before those in its upper half."""
        leaf = self.where < 0
        count, before, levels = leaf.astype(np.int64), np.zeros(len(self.where), dtype=np.int64), list(self._levels())
        for start, stop in reversed(levels[1:]):
            np.add.at(count, self.above[start:stop], count[start:stop])
        before[: self.roots] = np.cumsum(count[: self.roots]) - count[: self.roots]
        for start, stop in levels[1:]:  # halves stand in pairs, both roots of a pair next to each other
            lower = np.arange(start, stop, 2)
            before[lower] = before[self.above[lower]]
            before[lower + 1] = before[lower] + count[lower]
        nodes = np.flatnonzero(leaf)
        found = np.empty_like(nodes)
        found[before[nodes]] = nodes
        return found

    @property
    def cells(self) -> int:
        """About how many cells a check bounds: all nodes, where leaves are bounded on their cells; else the leaves."""
        over_signs = 0 if self.leaves is None else int(self.leaves.over_signs.sum())
        return 1 + self.count if over_signs == self.count else len(self.where)

    @property
    def relaxed(self) -> tuple[Multipliers, ...]:
        """The leaves that are closed by multipliers."""
        return tuple(p for p in self.leaves.proofs if isinstance(p, Multipliers)) if self.leaves is not None else ()

    def unfit(self) -> str | None:
        """Why the nodes are no tree level by level, in words; None where they are."""
        inner = self.where >= 0
        if len(self.where) != self.roots + 2 * int(inner.sum()) or len(self.value) != len(self.where):
            return _UNFIT
        if not np.all(self.below[inner] > np.flatnonzero(inner)) or np.any(self.where < LEAF):
            return _UNFIT
        deep = any(depth > MOST_DEPTH for depth, _ in enumerate(self._levels()))
        return f"cells are split more than {MOST_DEPTH:,} times inside each other" if deep else None

    def fault(self, net: Network, region: Region) -> str | None:
        """Why these are no splits of the region, in words; None where they are. Whether a value lies inside its cell is
        checked by the walk, except for a grid, which is walked here."""
        if self.grid is not None:
            return self._grid_fault(region)
        unfit = self.unfit()
        if unfit is not None:
            return unfit
        if np.any(self.where >= net.inputs + net.neurons):
            return "a split of something that the network does not have"
        if hull(region) is None and np.any((self.where >= 0) & (self.where < net.inputs)):
            return "a split of a coordinate, but the region is no box"
        neurons = self.where[self.where >= net.inputs] - net.inputs
        return None if np.all(kinked(net)[neurons]) else "a split of a neuron without a kink"

    def _grid_fault(self, region: Region) -> str | None:
        """Cells of a grid are boxes: coordinates alone are cut."""
        assert self.grid is not None
        if not isinstance(region, Box):
            return "a grid of cells, but the region is no box"
        fault = self.grid.fault(region)
        if fault is not None:
            return fault
        if len(self.where) < self.roots:
            return "there are fewer cells than the grid has"
        if np.any(self.where >= region.size):
            return "a split of a coordinate that there is not"
        unfit = self.unfit()
        if unfit is not None:
            return unfit
        inside = walk(self, self.grid.groups(_BOXES_AT_ONCE), lambda _, cells: cells, halves, _BOXES_AT_ONCE)
        return None if inside else "a split that is not inside its cell"

    def boxes(self) -> tuple[Array, Array, Index]:
        """The leaves of a grid's tree as boxes, in the order of the nodes, and the cells of the grid they belong to."""
        assert self.grid is not None
        leaf, dimension = self.where < 0, len(self.grid.edges)
        lo, hi = np.empty((self.count, dimension)), np.empty((self.count, dimension))

        def keep(nodes: Index, cells: Cells) -> Cells:
            own = leaf[nodes]
            place = self.leaf_numbers[nodes[own]]
            lo[place], hi[place] = cells.lo[own], cells.hi[own]
            return cells

        walk(self, self.grid.groups(_BOXES_AT_ONCE), keep, halves, _BOXES_AT_ONCE)
        return lo, hi, self.root[leaf]

    def locate(self, points: Array) -> tuple[Index, Index]:
        """The cell of the grid and the leaf (number among the leaves) of every point, -1 outside.

        A point of several cells is given to the last of them.
        """
        assert self.grid is not None
        root, inside = self.grid.locate(points)
        node = root.copy()
        while np.any(split := self.where[node] >= 0):
            k = np.flatnonzero(split)
            own = node[k]
            node[k] = self.below[own] + (points[k, self.where[own]] >= self.value[own])
        return np.where(inside, root, -1), np.where(inside, self.leaf_numbers[node], -1)

    def _levels(self) -> Iterator[tuple[int, int]]:
        """The first node of every level, and the first one behind it."""
        split = np.concatenate([[0], np.cumsum(self.where >= 0)])
        start, stop = 0, self.roots
        while start < stop:
            yield start, stop
            start, stop = stop, stop + 2 * int(split[stop] - split[start])

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of a file. The digest of a tree with proofs shows when it was changed by accident."""
        small = np.int16 if self.where.max(initial=0) < 1 << 15 else np.int64
        found: dict[str, NDArray[np.generic]] = {
            "splits": self.where.astype(small),
            "values": self.value[self.where >= 0],
        }
        if self.grid is not None:
            found |= self.grid.arrays()
        if self.leaves is None:
            return found
        found |= self.leaves.arrays()
        return found | {"proof": np.array("tree"), "tree_digest": np.array(digest(found), dtype="U64")}

    def check(self, problem: Problem) -> float:
        """The bound that the tree proves, infinite when it proves none."""
        net, leaves = problem.network, self.leaves
        if leaves is None or self.grid is not None or net.depth == 0 or problem.coordinate is not None:
            return np.inf
        if self.fault(net, problem.region) is not None or not leaves.fits(problem, self.count):
            return np.inf
        upper = self._under_signs(problem, leaves)
        return worst(upper, self._on_cells(problem, leaves)) if np.isfinite(upper) else np.inf

    def _under_signs(self, problem: Problem, leaves: Leaves) -> float:
        """The largest bound of the leaves that need the signs of their path alone."""
        if not leaves.over_signs.any():
            return 0.0
        if refusal(problem) is not None or not self.cuts_relus_alone(problem.network):
            return np.inf
        if not self.all_refused(problem.network, leaves, lambda wanted: proved_nogoods(problem, leaves, wanted)):
            return np.inf
        upper = 0.0
        for path in self.paths(problem.network, leaves.kinds == Kind.SIGNS):
            step()
            if path is None:
                return np.inf
            upper = worst(upper, float(np.max(leaf_bounds(problem, path.neurons, path.signs))))
        return upper

    def cuts_relus_alone(self, net: Network) -> bool:
        """Whether every neuron that is split is a ReLU: a sign is a slope of 1 or 0 then."""
        neurons = self.where[self.where >= net.inputs] - net.inputs
        relu = np.repeat(np.array([f.kind == "relu" for f in net.activations]), [b.width for b in net.hidden])
        return bool(np.all(relu[neurons]))

    def all_refused(self, net: Network, leaves: Leaves, proved: Callable[[Index], NDArray[np.bool_]]) -> bool:
        """Whether no leaf that a nogood closes has an input: the path has all signs of the nogood, and each nogood is
        proved. `proved` says so of all nogoods, of which only some are asked for."""
        wanted = np.unique(leaves.refused)
        if len(wanted) and not np.all(proved(wanted)[wanted]):
            return False
        nogood = np.full(len(leaves), -1)
        nogood[leaves.kinds == Kind.NOGOOD] = leaves.refused
        holds = leaves.nogoods.containment(net.neurons)
        paths = self.paths(net, leaves.kinds == Kind.NOGOOD)
        return all(p is not None and holds(nogood[p.leaves], p.neurons, p.signs) for p in paths)

    def paths(self, net: Network, wanted: NDArray[np.bool_]) -> Iterator[Paths | None]:
        """The paths of the leaves that are wanted, a few at a time from left to right. None where a path fixes a sign
        twice: nobody writes such a tree, and a small file could have very long paths."""
        nodes = self.left_to_right
        nodes = nodes[wanted[self.leaf_numbers[nodes]]]
        neuron = self.where >= net.inputs
        neurons, place = np.unique(self.where[neuron] - net.inputs, return_inverse=True)
        column = np.full(len(self.where), -1)
        column[neuron] = place
        for start in range(0, len(nodes), _PATHS_AT_ONCE):
            leaf = node = nodes[start : start + _PATHS_AT_ONCE]
            signs, rows = np.zeros((len(leaf), len(neurons)), dtype=np.int8), np.arange(len(leaf))
            while len(rows):
                up = self.above[node]
                k = np.flatnonzero((up >= 0) & (column[up] >= 0))
                own = rows[k], column[up[k]]
                if signs[own].any():
                    yield None
                    return
                signs[own] = 2 * ((node[k] - self.roots) % 2) - 1
                rows, node = rows[up >= 0], up[up >= 0]
            yield Paths(self.leaf_numbers[leaf], neurons, signs)

    def _on_cells(self, problem: Problem, leaves: Leaves) -> float:
        """The largest bound of the leaves that are bounded on their cell; other branches of the tree are not walked."""
        wanted = np.zeros(len(self.where), dtype=bool)
        wanted[self.where < 0] = ~leaves.over_signs
        if not wanted.any():
            return 0.0
        upper = 0.0

        def visit(nodes: Index, group: Group) -> Group | None:
            nonlocal upper
            ends = np.flatnonzero(wanted[nodes])
            if len(ends):
                closed = [leaves.leaf(int(k)) for k in self.leaf_numbers[nodes[ends]]]
                own = [group.cells[int(k)] for k in ends]
                upper = worst(upper, float(np.max(check_leaves(problem, own, group.bounds.rows(ends), closed))))
            return group if np.isfinite(upper) else None

        roots = [(np.zeros(1, dtype=np.int64), Group.first(problem))]
        fits = walk(self, roots, visit, halved(problem), _AT_ONCE, self.leading_to(wanted))
        return upper if fits else np.inf

    def leading_to(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which nodes are split and have a node below them that is wanted."""
        found = wanted.copy()
        for start, stop in reversed(list(self._levels())[1:]):
            found[self.above[start:stop][found[start:stop]]] = True
        return found & (self.where >= 0)


@dataclass(frozen=True, eq=False)
class Paths:
    """Some leaves by their numbers, the neurons that are split anywhere in the tree, and their signs on every path."""

    leaves: Index
    neurons: Index
    signs: Signs


class Batch(Protocol):
    """Some cells of a walk, with all that is known of them."""

    def rows(self, k: Index) -> Self:
        """Some of the cells."""


B = TypeVar("B", bound=Batch)
Visit = Callable[[Index, B], B | None]  # nodes and their cells; the cells with what their halves inherit
Halve = Callable[[B, Index, Array], B | None]  # cells, where each is split, at which value; both halves of each


def walk(
    tree: Tree,
    roots: Iterable[tuple[Index, B]],
    visit: Visit[B],
    halve: Halve[B],
    most: int,
    enter: NDArray[np.bool_] | None = None,
) -> bool:
    """Visit the nodes in groups, a node before its halves; `most` cells are halved at once. False as soon as a visit or
    a split says that the tree proves nothing. With `enter` only the halves of these nodes are visited."""
    split = tree.where >= 0 if enter is None else enter
    for group in roots:
        todo = [group]
        while todo:
            step()
            nodes, cells = todo.pop()
            known = visit(nodes, cells)
            if known is None:
                return False
            inner = np.flatnonzero(split[nodes])
            room = max(1, most >> len(todo) // _WAITING)
            for some in (inner[k : k + room] for k in range(0, len(inner), room)):
                own = nodes[some]
                both = halve(known.rows(some), tree.where[own], tree.value[own])
                if both is None:
                    return False
                todo.append((np.stack([tree.below[own], tree.below[own] + 1], axis=1).reshape(-1), both))
    return True


def digest(arrays: Mapping[str, Any]) -> str:
    """A hash of some arrays: a tree that was changed by accident is not the one that was proved."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape};".encode())
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


NO_TREE = Tree(np.zeros(0, dtype=np.int64), np.zeros(0), None, Leaves.of(()))  # it proves nothing


def read_tree(arrays: Mapping[str, Any]) -> Tree:
    """The tree of a file; nothing in it is believed before `fault` and `check`. With proofs of its leaves it needs the
    digest of its arrays: without it there is no tree."""
    where, values = whole(arrays, "splits", (None,), LEAF, LARGEST_WHOLE), real(arrays, "values", (None,))
    grid = read_grid(arrays) if "edges" in arrays or "edge_counts" in arrays else None
    check_size(len(where), MOST_SIGNED_NODES if grid is None else MOST_NODES)
    if int(np.sum(where >= 0)) != len(values):
        raise FileFormatError("'splits' and 'values' do not fit together")
    value = np.zeros(len(where))
    value[where >= 0] = values
    if "leaf_kinds" not in arrays:
        return Tree(where, value, grid)
    own = frozenset(NAMES.split("|")) - {"tree_digest"}
    # Nogoods are read before the digest is compared, so that the message names the array that is damaged.
    leaves = read_leaves(arrays) if "leaf_nogoods" in arrays else None
    if word(arrays, "tree_digest") != digest({name: arrays[name] for name in arrays if name in own}):
        return NO_TREE
    return Tree(where, value, grid, read_leaves(arrays) if leaves is None else leaves)


def check_size(nodes: int, most: int = MOST_SIGNED_NODES) -> None:
    """Refuse a file with more nodes than anybody writes."""
    if nodes > most:
        raise FileFormatError(f"a tree of {nodes:,} nodes is larger than the limit of {most:,}")
