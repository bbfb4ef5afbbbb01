"""Trees of files of version 1.0.0, whose nodes stand in preorder: they are translated and checked like any other.

    tree      (layer, index) of every split, (-1, 0) of a leaf; layer 0: the input. With `tree_values`, `leaf_kinds`
    patterns  (block, neuron) of every split, (0, 0) of a linear leaf, (-1, nogood) of a refused one

A row names a neuron by its block, and how wide blocks are is known with the network: so the translation waits for it.
A stable sort by depth turns preorder into the order of levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within, word
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof import encoding
from lipcert.proof.cells import Index
from lipcert.proof.leaves import Kind, Leaves, read_proofs
from lipcert.proof.nogoods import read_nogoods
from lipcert.proof.tree import LEAF, MOST_DEPTH, NO_TREE, Tree, check_size, digest
from lipcert.rounding import Array

NAMES = "tree|tree_values|patterns|patterns_digest"  # besides those of trees
TEXTS = frozenset({"patterns_digest"})
_TREE = frozenset(f"tree|tree_values|leaf_kinds|{encoding.NAMES}".split("|"))
_PATTERNS = frozenset(["patterns", "nogood_literals", "nogood_rows", "nogood_numbers"])


@dataclass(frozen=True, eq=False)
class Preorder:
    """The nodes in the order of levels with their rows (layer, index), and the arrays that the file had."""

    kept: Mapping[str, NDArray[np.generic]]
    layer: Index  # -1 for leaves
    index: Index
    value: Array
    leaves: Leaves

    @property
    def method(self) -> str:
        """The name of the method that made it."""
        return self.sketch.method

    @property
    def sketch(self) -> Tree:
        """A tree of the same size with the same leaves, for what does not depend on where it is split."""
        return Tree(self.layer, self.value, None, self.leaves)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of a file: those that it came from."""
        return dict(self.kept)

    def tree(self, net: Network) -> Tree:
        """The tree, once it is known which network it is about."""
        if not len(self.layer):
            return NO_TREE
        widths = np.array(net.shape[:-1])
        starts, layer = np.cumsum([0, *widths[:-1]]), np.clip(self.layer, 0, net.depth)
        exists = (self.layer <= net.depth) & (self.index >= 0) & (self.index < widths[layer])
        where = np.where(exists, starts[layer] + self.index, net.inputs + net.neurons)
        return Tree(np.where(self.layer < 0, LEAF, where).astype(np.int64), self.value, None, self.leaves)

    def check(self, problem: Problem) -> float:
        """The bound that the tree proves, infinite when it proves none."""
        return self.tree(problem.network).check(problem)


def read_preorder(arrays: Mapping[str, Any]) -> Preorder:
    """The tree of a file; without its digest, or where the rows are no tree, it has no nodes and proves nothing."""
    kind, own = ("tree", _TREE) if "tree" in arrays else ("patterns", _PATTERNS)
    kept = {name: arrays[name] for name in arrays if name in own}
    table = whole(arrays, kind, (None, 2), -1, LARGEST_WHOLE)
    check_size(len(table))
    if kind == "tree":
        layer, index, value, leaves = _cells(arrays, table)
    else:
        layer, index, value, leaves = _patterns(arrays, table)
    changed = word(arrays, f"{kind}_digest") != digest(kept)
    kept |= {name: arrays[name] for name in ("proof", f"{kind}_digest")}
    depth = None if changed else _depths(layer < 0)
    if depth is None or len(leaves) != int(np.sum(layer < 0)):
        none = np.zeros(0, dtype=np.int64)
        return Preorder(kept, none, none, np.zeros(0), NO_TREE.leaves or Leaves.of(()))
    if depth.max() > MOST_DEPTH:
        raise FileFormatError(f"the tree is deeper than the limit of {MOST_DEPTH:,} splits")
    order = np.argsort(depth, kind="stable")
    number = np.cumsum(layer < 0) - 1
    leaves = leaves.in_order(number[order[layer[order] < 0]])
    return Preorder(kept, layer[order], index[order], value[order], leaves)


Rows = tuple[Index, Index, Array, Leaves]  # layer (-1 for a leaf), index and value of every node; the leaves


def _cells(arrays: Mapping[str, Any], table: Index) -> Rows:
    """A tree of cells, one row of specifications for every leaf."""
    values, kinds = real(arrays, "tree_values", (len(table),)), whole(arrays, "leaf_kinds", (None,), 0, Kind.LINES)
    encoding.check_count(len(kinds))
    if not within(table, [-1, 0], [LARGEST_WHOLE, LARGEST_WHOLE]):
        raise FileFormatError("a row of the tree names no neuron and no coordinate")
    return table[:, 0], table[:, 1], values, Leaves(kinds, read_proofs(arrays, kinds))


def _patterns(arrays: Mapping[str, Any], table: Index) -> Rows:
    """A tree over the signs of neurons."""
    refused = table[table[:, 0] == -1, 1]
    if len(refused) and refused.min() < 0:
        raise FileFormatError("a leaf of the signs names a nogood that there is not")
    nogoods = read_nogoods(arrays, refused, len(table))
    split = table[:, 0] > 0
    nogood = np.where(table[:, 0] == -1, table[:, 1], -1)[~split]
    layer = np.where(split, table[:, 0], -1)
    return layer, np.where(split, table[:, 1], 0), np.zeros(len(table)), Leaves.under_signs(nogood, nogoods)


def _depths(leaf: NDArray[np.bool_]) -> Index | None:
    """The splits above every node in preorder; None where the nodes are no tree."""
    found: list[int] = []
    waiting = [0]  # the depths of nodes that are still to come
    for end in leaf.tolist():
        if not waiting:
            return None
        depth = waiting.pop()
        found.append(depth)
        if not end:
            waiting += [depth + 1, depth + 1]
    return None if waiting else np.array(found, dtype=np.int64)
