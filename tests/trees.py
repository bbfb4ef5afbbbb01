"""Trees written by hand: the nodes in preorder, as one reads them, and their leaves in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert import Network
from lipcert.bounds import Split
from lipcert.proof.leaves import Leaf, Leaves, number_of
from lipcert.proof.nogoods import Nogoods, no_nogoods
from lipcert.proof.tree import LEAF, NAMES, Tree, digest

Nodes = Sequence[Split | None]  # None for a leaf


def tree_of(net: Network, nodes: Nodes, leaves: Sequence[Leaf]) -> Tree:
    """A tree whose leaves are bounded on their cells."""
    order = by_levels(nodes)
    ends = [k for k in order if nodes[k] is None]
    number = {k: i for i, k in enumerate(k for k, node in enumerate(nodes) if node is None)}
    fits = len(ends) == len(leaves)
    return in_levels(net, nodes, Leaves.of([leaves[number[k]] for k in ends] if fits else leaves))


def signs_of(net: Network, nodes: Sequence[tuple[int, int]], nogoods: Nogoods | None = None) -> Tree:
    """A tree over signs: (block, neuron) of a split, (0, 0) of a leaf by lines, (-1, k) of one refused by nogood k."""
    splits = [Split(block, number) if block > 0 else None for block, number in nodes]
    refused = [nodes[k][1] if nodes[k][0] < 0 else -1 for k in by_levels(splits) if splits[k] is None]
    table = Leaves.under_signs(np.array(refused, dtype=np.int64), nogoods or no_nogoods())
    return in_levels(net, splits, table)


def in_levels(net: Network, nodes: Nodes, leaves: Leaves) -> Tree:
    """The tree of these nodes; a neuron that there is not keeps a number that there is not."""
    where, value = [], []
    for k in by_levels(nodes):
        split = nodes[k]
        there = split is None or (split.layer <= net.depth and split.index < net.shape[split.layer])
        where.append(LEAF if split is None else number_of(net, split) if there else net.inputs + net.neurons)
        value.append(0.0 if split is None else split.value)
    return Tree(np.array(where, dtype=np.int64), np.array(value), None, leaves)


def by_levels(nodes: Nodes) -> list[int]:
    """The numbers of the nodes, those with fewer splits above them first."""
    depth, waiting = [], [0]
    for node in nodes:
        depth.append(waiting.pop() if waiting else 0)
        waiting += [] if node is None else [depth[-1] + 1] * 2
    return sorted(range(len(nodes)), key=lambda k: depth[k])


def leaves_of(tree: Tree) -> list[Leaf]:
    """The leaves of a tree over cells, in the order of its nodes."""
    assert tree.leaves is not None
    return [tree.leaves.leaf(k) for k in range(tree.count)]


def mended(arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a file with the digests of what is there now: digests show accidents, and stop nobody."""
    old = {"tree": "tree|tree_values|leaf_kinds|specifications|cuts|reductions|names|segments|index|numbers"}
    old["patterns"] = "patterns|nogood_literals|nogood_rows|nogood_numbers"
    kind = next((name for name in old if name in arrays), "")
    own = (old[kind] if kind else NAMES).split("|")
    name = "patterns_digest" if kind == "patterns" else "tree_digest"
    if name not in arrays:
        return arrays
    return arrays | {name: np.array(digest({n: a for n, a in arrays.items() if n in own and n != name}), dtype="U64")}
