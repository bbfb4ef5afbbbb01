"""A tree of cells: every inner node is split in two, every leaf has a proof.

The cells are not stored but rebuilt from the region along the splits, so that the leaves cover it by construction:
whatever the file says, it is a cover, and the bound is the largest of its leaves. (Of a ball they cover the box around
it; what lies beside the ball needs no proof.) Bounds of pre-activations pass from a
cell to its halves. Nodes stand in preorder, below before above; cheap leaves cost one row of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, Split, halves, root_bounds, splits_here, tree_bounds
from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within, word
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.encoding import (
    Numbers,
    decode_numbers,
    decode_specifications,
    encode_numbers,
    encode_specifications,
)
from lipcert.proof.leaves import BASIS, BY_INTERVALS, BY_LINES, COEFFICIENTS, ROWS, SIDES, Empty, Leaf, check_leaves
from lipcert.proof.relaxed import Multipliers
from lipcert.relaxation.specification import Specification
from lipcert.rounding import Array, worst
from lipcert.steps import step

METHOD = "tree"
NAMES = "tree|tree_values|tree_digest|leaf_kinds"
TEXTS = frozenset({"tree_digest"})
MOST_NODES = 1 << 22
MOST_DEPTH = 1 << 12  # splits above a leaf: each level is bounded by itself
_LEAF = -1  # in place of a layer
_AT_ONCE = 4096  # nodes of a level
_WAITING = 16  # groups of nodes, whose bounds are in memory; with every so many more, groups are half as large
_INTERVALS, _EMPTY, _RELAXED, _LINES = range(4)  # kinds of leaves


@dataclass(frozen=True, eq=False)
class Tree:
    """Splits in preorder, None for a leaf, and the leaves' proofs in the same order."""

    splits: tuple[Split | None, ...]
    leaves: tuple[Leaf, ...]
    method: ClassVar[str] = METHOD

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it; the digest shows when it was changed by accident."""
        table = [(_LEAF, 0) if s is None else (s.layer, s.index) for s in self.splits]
        kinds = [_kind(leaf) for leaf in self.leaves]
        stored = [Empty({}) if isinstance(leaf, Arithmetic) else leaf for leaf in self.leaves]
        arrays: dict[str, NDArray[np.generic]] = {
            "tree": np.array(table, dtype=np.int64).reshape(-1, 2),
            "tree_values": np.array([0.0 if s is None else s.value for s in self.splits]),
            "leaf_kinds": np.array(kinds, dtype=np.int64),
        }
        arrays |= encode_specifications([k.specification if isinstance(k, Multipliers) else None for k in self.leaves])
        arrays |= encode_numbers(stored)
        return arrays | {"proof": np.array("tree"), "tree_digest": np.array(digest(arrays), dtype="U64")}

    def check(self, problem: Problem) -> float:
        """The bound that the tree proves, infinite when it is none: level by level, many nodes at once."""
        net, below = problem.network, children(self.splits)
        if net.depth == 0 or problem.coordinate is not None:
            return np.inf  # there is no such tree
        if below is None or self.splits.count(None) != len(self.leaves):
            return np.inf
        rank = np.cumsum([s is None for s in self.splits]) - 1  # of a leaf among the leaves
        upper = 0.0
        root, known = root_bounds(net, problem.region)
        todo = [_Level([0], [root], known)]
        while todo:
            step()
            level = todo.pop()
            ends = [k for k, node in enumerate(level.nodes) if self.splits[node] is None]
            if ends:
                proofs = [self.leaves[rank[level.nodes[k]]] for k in ends]
                cells, bounds = [level.cells[k] for k in ends], level.bounds.rows(np.array(ends))
                upper = worst(upper, float(np.max(check_leaves(problem, cells, bounds, proofs))))
                if not np.isfinite(upper):
                    return np.inf
            inner = [k for k in range(len(level.nodes)) if self.splits[level.nodes[k]] is not None]
            most = max(1, _AT_ONCE >> len(todo) // _WAITING)
            for some in (inner[k : k + most] for k in range(0, len(inner), most)):
                lower = _down(problem, self.splits, below, level, some)
                if lower is None:
                    return np.inf
                todo.append(lower)
        return upper


NO_TREE = Tree((), ())


@dataclass(frozen=True, eq=False)
class _Level:
    """Some nodes with their cells and bounds."""

    nodes: list[int]
    cells: list[Cell]
    bounds: Bounds


def digest(arrays: Mapping[str, Any]) -> str:
    """A hash of the table and the proofs: a tree that was changed by accident is not the one that was proved."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape};".encode())
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def read_tree(arrays: Mapping[str, Any], own: Mapping[str, Any]) -> Tree:
    """The tree of a file, `own` being its arrays but for the digest; without its digest it is none, proving nothing."""
    if word(arrays, "tree_digest") != digest(own):
        return NO_TREE
    kinds = read_kinds(arrays)
    specifications = decode_specifications(arrays, "tight")
    return assembled(arrays, kinds, specifications, decode_numbers(arrays, len(kinds)))


def read_kinds(arrays: Mapping[str, Any]) -> NDArray[np.int64]:
    """The kinds of the leaves of a file."""
    return whole(arrays, "leaf_kinds", (None,), _INTERVALS, _LINES)


def assembled(
    arrays: Mapping[str, Any],
    kinds: NDArray[np.int64],
    specifications: Sequence[Specification | None],
    numbers: Sequence[Numbers],
) -> Tree:
    """The tree of its table and of the kinds, specifications and numbers of its leaves."""
    table = whole(arrays, "tree", (None, 2), _LEAF, LARGEST_WHOLE)
    values = real(arrays, "tree_values", (len(table),))
    if not within(table, [_LEAF, 0], [LARGEST_WHOLE, LARGEST_WHOLE]) or len(specifications) != len(kinds):
        raise FileFormatError("the table of the tree and its leaves do not fit together")
    splits = _splits(table, values)
    leaves: list[Leaf] = []
    for kind, specification, both in zip(kinds, specifications, numbers, strict=True):
        _check_leaf(int(kind), specification, both[0])
        if kind == _RELAXED and specification is not None:
            leaves.append(Multipliers(specification, *both))
        else:
            leaves.append(Empty(*both) if kind == _EMPTY else BY_LINES if kind == _LINES else BY_INTERVALS)
    return Tree(splits, tuple(leaves))


def _check_leaf(kind: int, specification: Specification | None, multipliers: Mapping[str, Array]) -> None:
    """Refuse a leaf without what its kind needs: a small file could have thousands of them, each slow to build."""
    if kind == _RELAXED and (specification is None or not any(np.any(y) for y in multipliers.values())):
        raise FileFormatError("a leaf of the tree is said to be proved by a relaxation, but has no multipliers")
    if kind == _EMPTY and not (multipliers.keys() & {SIDES, ROWS} or {COEFFICIENTS, BASIS} <= multipliers.keys()):
        raise FileFormatError("a leaf of the tree is said to be empty, but has no multipliers that show it")


def _splits(table: NDArray[np.int64], values: Array) -> tuple[Split | None, ...]:
    """The splits of a table, one object for rows that are equal: a small file may hold millions of them."""
    if len(table) > MOST_NODES:
        raise FileFormatError(f"a tree of {len(table):,} nodes is larger than the limit of {MOST_NODES:,}")
    rows = np.column_stack([table, values.view(np.int64)])
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    made = [
        None if layer == _LEAF else Split(int(layer), int(index), float(bits.view(np.float64)))
        for layer, index, bits in unique
    ]
    splits = tuple(made[k] for k in place.reshape(-1).tolist())
    if _depth(splits) > MOST_DEPTH:
        raise FileFormatError(f"the tree is deeper than the limit of {MOST_DEPTH:,} splits")
    return splits


def _depth(splits: Sequence[Split | None]) -> int:
    """The most splits above a node in preorder, of what need not be a tree."""
    deepest, above, waiting = 0, 0, list[int]()  # of each upper half that is to come, the splits above it
    for split in splits:
        deepest = max(deepest, above)
        if split is not None:
            above += 1
            waiting.append(above)
        elif waiting:
            above = waiting.pop()
    return deepest


def _kind(leaf: Leaf) -> int:
    if isinstance(leaf, Arithmetic):
        return _LINES if leaf == BY_LINES else _INTERVALS
    return _EMPTY if isinstance(leaf, Empty) else _RELAXED


def _down(
    problem: Problem, splits: tuple[Split | None, ...], below: NDArray[np.int64], level: _Level, rows: list[int]
) -> _Level | None:
    """The halves of some inner nodes of a level with their bounds; None when a split does not fit its cell."""
    net, children = problem.network, list[Cell]()
    for k in rows:
        split = splits[level.nodes[k]]
        assert split is not None
        if not splits_here(level.cells[k], split, net):
            return None
        children += halves(level.cells[k], split)
    twice = np.repeat(rows, 2)
    known = tuple(Interval(z.lo[twice], z.hi[twice]) for z in level.bounds.pre)
    numbers = [int(n) for k in rows for n in below[level.nodes[k]]]
    return _Level(numbers, children, tree_bounds(net, problem.region, children, known))


def children(splits: tuple[Split | None, ...]) -> NDArray[np.int64] | None:
    """The two children of every inner node in preorder; None when the list is not one tree."""
    below = np.full((len(splits), 2), -1, dtype=np.int64)
    waiting: list[int] = []  # nodes that still need children
    for node, split in enumerate(splits):
        if node:
            if not waiting:
                return None
            parent = waiting[-1]
            side = 0 if below[parent, 0] < 0 else 1
            below[parent, side] = node
            if side:
                waiting.pop()
        if split is not None:
            waiting.append(node)
    return None if waiting or not splits else below
