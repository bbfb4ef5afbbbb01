"""The tree while it grows: what is known of every cell, and the certificate that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Split
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.leaves import Leaf, Leaves, number_of
from lipcert.proof.tree import LEAF, Tree
from lipcert.relaxation.cuts import NO_CUTS
from lipcert.rounding import Array

_NOTHING = np.zeros(0)


@dataclass(eq=False)
class Node:
    """A cell with its proof. `upper` is the least proved of it and of the cells that hold it; `own` what `leaf` proves
    of it alone."""

    cell: Cell
    bounds: Bounds | None  # of this cell alone; none any more when it is split or closed
    upper: float
    own: float
    leaf: Leaf
    open: int  # neurons whose sign is not known
    free: NDArray[np.bool_]  # which these are
    neurons: Array  # about what a split of each gains,
    coordinates: Array  # and of each coordinate of a box
    split: Split | None = None
    halves: tuple[Node, ...] = ()
    idle: int = 0  # splits of boxes in a row, up to here, that gained next to nothing
    relaxed: bool = False  # whether a relaxation was solved on it
    cuts: NDArray[np.int64] = field(default_factory=lambda: NO_CUTS.table)
    doubt: Array | None = None  # by neuron: how undecided the relaxation was about its sign

    def forget(self) -> None:
        """Drop what only open cells need: there may be a million of the others."""
        self.bounds, self.doubt = None, None
        self.free, self.neurons, self.coordinates = _NOTHING > 0, _NOTHING, _NOTHING

    @property
    def alone(self) -> Bounds:
        """The bounds of a cell that is still open."""
        assert self.bounds is not None
        return self.bounds


def tree_of(net: Network, root: Node, upper: float) -> Tree:
    """The smallest tree under `root` whose leaves prove `upper`: a cell that is proved itself needs no halves."""
    nodes, where, value, leaves = [root], list[int](), list[float](), list[Leaf]()
    for node in nodes:  # which grows, level by level
        if node.own <= upper or node.split is None:
            where.append(LEAF)
            value.append(0.0)
            leaves.append(node.leaf)
        else:
            where.append(number_of(net, node.split))
            value.append(node.split.value)
            nodes += node.halves
    return Tree(np.array(where), np.array(value), None, Leaves.of(leaves))


def proved(root: Node) -> float:
    """The bound that the tree proves: of every node the better of its own proof and of its halves."""
    order: list[Node] = [root]
    for node in order:
        order += node.halves
    value: dict[int, float] = {}
    for node in reversed(order):
        below = max(value[id(half)] for half in node.halves) if node.halves else np.inf
        value[id(node)] = min(node.own, below)
    return value[id(root)]


def certificate_of(root: Node, problem: Problem) -> Certificate:
    """What the tree proves, with its proof."""
    upper = proved(root)
    return Certificate.of(problem, tree_of(problem.network, root, upper), upper)
