"""A tree of parts: every inner node is split in two, every leaf has a proof.

The parts are not stored but rebuilt from the region along the splits, so that the leaves cover it by construction:
whatever the file says, it is a cover, and the bound is the largest of its leaves. Bounds of pre-activations pass from a
part to its halves. Nodes stand in preorder, below before above; cheap leaves cost one row of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Interval, Split, bounds_of, halves, splits_here, whole
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Ball, Region
from lipcert.proof.leaves import KINDS, Leaf, check_leaves
from lipcert.relaxation.cuts import NO_CUTS
from lipcert.rounding import Array

METHOD = "tree"
TREE_NAMES = r"tree|tree_values|tree_digest|leaf_(?:kinds|names|segments|index|numbers|cuts|cut_rows)"
TREE_TEXTS = frozenset({"leaf_names", "tree_digest"})
_LEAF = -1  # in place of a layer
_AT_ONCE = 4096  # nodes of a level
_NUMBERS_UP_TO = 1 << 27  # of all leaves together, zeros included: what a file may ask to be laid out in memory


@dataclass(frozen=True, eq=False)
class Tree:
    """Splits in preorder, None for a leaf, and the leaves' proofs in the same order."""

    splits: tuple[Split | None, ...]
    leaves: tuple[Leaf, ...]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it."""
        table = [(_LEAF, 0) if s is None else (s.layer, s.index) for s in self.splits]
        arrays: dict[str, NDArray[np.generic]] = {
            "tree": np.array(table, dtype=np.int64).reshape(-1, 2),
            "tree_values": np.array([0.0 if s is None else s.value for s in self.splits]),
            "leaf_kinds": np.array([KINDS.index(leaf.kind) for leaf in self.leaves], dtype=np.int64),
            "leaf_cuts": np.concatenate([NO_CUTS.table, *(leaf.cuts for leaf in self.leaves)]),
            "leaf_cut_rows": np.array([len(leaf.cuts) for leaf in self.leaves], dtype=np.int64),
        }
        arrays |= _numbers(self.leaves)
        return arrays | {"tree_digest": np.array(_digest(arrays), dtype="U64")}


NO_TREE = Tree((), ())


def _numbers(leaves: tuple[Leaf, ...]) -> dict[str, NDArray[np.generic]]:
    """All multipliers and shifts in one vector: per segment (leaf, multipliers or shift, name, length, entries)."""
    names: dict[str, int] = {}
    segments: list[tuple[int, int, int, int, int]] = []
    index, numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for number, leaf in enumerate(leaves):
        for side, parts in enumerate((leaf.multipliers, leaf.shift)):
            for name, values in parts.items():
                entries = np.flatnonzero(values)
                segments.append((number, side, names.setdefault(name, len(names)), len(values), len(entries)))
                index.append(entries)
                numbers.append(values[entries])
    return {
        "leaf_names": np.array(list(names) or [""], dtype="U64"),
        "leaf_segments": np.array(segments, dtype=np.int64).reshape(-1, 5),
        "leaf_index": np.concatenate(index).astype(np.int32),
        "leaf_numbers": np.concatenate(numbers),
    }


def _digest(arrays: Mapping[str, Any]) -> str:
    """A hash of the table and the proofs: a tree that was changed by accident is not the one that was proved."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        if name != "tree_digest":
            digest.update(f"{name} {arrays[name].shape};".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def read_tree(arrays: Mapping[str, Any]) -> Tree:
    """The tree of a file; one without its digest, or whose numbers do not add up, is no tree and proves nothing."""
    own = {name: arrays[name] for name in arrays if name.startswith(("tree", "leaf_"))}
    table, values = arrays["tree"], arrays["tree_values"]
    if str(arrays["tree_digest"]) != _digest(own) or table.shape[1:] != (2,) or values.shape != table.shape[:1]:
        return NO_TREE
    splits = tuple(
        None if layer == _LEAF else Split(int(layer), int(index), float(value))
        for (layer, index), value in zip(table, values, strict=True)
    )
    leaves = _leaves(arrays, splits.count(None))
    return NO_TREE if leaves is None else Tree(splits, leaves)


def _leaves(arrays: Mapping[str, Any], count: int) -> tuple[Leaf, ...] | None:
    kinds, names, segments = (arrays[f"leaf_{n}"] for n in ("kinds", "names", "segments"))
    rows, cuts, numbers, index = (arrays[f"leaf_{n}"] for n in ("cut_rows", "cuts", "numbers", "index"))
    shapes = kinds.shape == rows.shape == (count,) and segments.shape[1:] == (5,) and cuts.shape[1:] == (9,)
    whole_numbers = all(a.dtype.kind in "iu" for a in (kinds, segments, rows, cuts, index))
    if not (count and shapes and whole_numbers and numbers.shape == index.shape and numbers.ndim == 1):
        return None
    limits = np.array([count, 2, len(names), 1 << 24, len(numbers) + 1])
    starts = np.concatenate([[0], np.cumsum(segments[:, 4])])
    sound = bool(np.all(segments >= 0) and np.all(segments < limits) and starts[-1] == len(numbers))
    sound = sound and int(segments[:, 3].sum()) <= _NUMBERS_UP_TO
    sound = sound and bool(
        np.all(rows >= 0) and rows.sum() == len(cuts) and np.all((kinds >= 0) & (kinds < len(KINDS)))
    )
    if not (sound and np.all(index >= 0) and np.all(index < np.repeat(segments[:, 3], segments[:, 4]))):
        return None
    parts: list[tuple[dict[str, Array], dict[str, Array]]] = [({}, {}) for _ in range(count)]
    for (leaf, side, name, length, entries), start in zip(segments, starts, strict=False):
        full, some = np.zeros(length), slice(start, start + entries)
        full[index[some]] = numbers[some]
        parts[leaf][side][str(names[name])] = full
    tables = np.split(np.asarray(cuts, dtype=np.int64), np.cumsum(rows)[:-1])
    proofs = zip(kinds, parts, tables, strict=True)
    return tuple(Leaf(KINDS[kind], *both, table) for kind, both, table in proofs)


def check_tree(tree: Tree, net: Network, region: Region, norm: Norm, c: Array) -> float:
    """The bound that the tree proves on the region, infinite when it is none: level by level, many nodes at once."""
    below = _children(tree.splits)
    if norm.out is not None or isinstance(region, Ball) or net.depth == 0:
        return np.inf  # there is no such tree
    if below is None or tree.splits.count(None) != len(tree.leaves):
        return np.inf
    rank = np.cumsum([s is None for s in tree.splits]) - 1  # of a leaf among the leaves
    upper = 0.0
    todo: list[tuple[list[int], list[Cell], Bounds]] = []
    root = [whole(net, region)]
    todo.append(([0], root, bounds_of(net, root)))
    while todo:
        nodes, parts, bounds = todo.pop()
        ends = [k for k, node in enumerate(nodes) if tree.splits[node] is None]
        if ends:
            proofs = [tree.leaves[rank[nodes[k]]] for k in ends]
            own = check_leaves(net, [parts[k] for k in ends], bounds.rows(np.array(ends)), norm, c, proofs)
            upper = max(upper, float(np.max(own)))
            if not np.isfinite(upper):
                return np.inf
        inner = [k for k in range(len(nodes)) if tree.splits[nodes[k]] is not None]
        for some in (inner[k : k + _AT_ONCE] for k in range(0, len(inner), _AT_ONCE)):
            step = _down(net, tree, below, [nodes[k] for k in some], [parts[k] for k in some], bounds, some)
            if step is None:
                return np.inf
            todo.append(step)
    return upper


def _down(
    net: Network,
    tree: Tree,
    below: NDArray[np.int64],
    nodes: list[int],
    parts: list[Cell],
    bounds: Bounds,
    rows: list[int],
) -> tuple[list[int], list[Cell], Bounds] | None:
    """The halves of inner nodes with their bounds; None when a split does not fit its part."""
    children: list[Cell] = []
    for node, part in zip(nodes, parts, strict=True):
        split = tree.splits[node]
        assert split is not None
        if not splits_here(part, split, net):
            return None
        children += halves(part, split)
    twice = np.repeat(rows, 2)
    known = tuple(Interval(z.lo[twice], z.hi[twice]) for z in bounds.pre)
    numbers = [int(n) for node in nodes for n in below[node]]
    return numbers, children, bounds_of(net, children, known)


def _children(splits: tuple[Split | None, ...]) -> NDArray[np.int64] | None:
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
