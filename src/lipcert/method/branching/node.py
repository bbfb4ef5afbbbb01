"""Open cells, and the tree of all cells with their proofs, which makes the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Bounds, Cell, Split
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.leaves import BY_LINES, Leaf, Leaves, number_of
from lipcert.proof.tree import LEAF, Tree
from lipcert.relaxation.cuts import NO_CUTS
from lipcert.rounding import Array
from lipcert.search.tree import GrowingTree


@dataclass(eq=False)
class Node:
    """An open cell with its proof. `upper` is the least bound proved of it and of the cells that hold it; `own` is the
    bound that `leaf` proves of it alone."""

    cell: Cell
    alone: Bounds  # of this cell alone
    upper: float
    own: float
    leaf: Leaf
    open: int  # neurons whose sign is not known
    free: NDArray[np.bool_]  # which these are
    neurons: Array  # about what a split of each gains,
    coordinates: Array  # and of each coordinate of a box
    number: int = 0  # in the tree
    idle: int = 0  # splits of boxes in a row, up to here, that gained next to nothing
    relaxed: bool = False  # whether a relaxation was solved on it
    cuts: NDArray[np.int64] = field(default_factory=lambda: NO_CUTS.table)
    doubt: Array | None = None  # by neuron: how undecided the relaxation was about its sign


class CellTree(GrowingTree):
    """The tree of all cells, with the proof of each by itself."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net, self.proofs = net, list[Leaf]([BY_LINES])

    def prove(self, node: Node) -> None:
        """Write down the proof of an open cell."""
        self.own[node.number], self.proofs[node.number] = node.own, node.leaf

    def divide(self, nodes: Sequence[Node], splits: Sequence[Split], uppers: Array) -> list[int]:
        """The numbers of both halves of every cell, one pair after the other; `uppers` are bounds of them by lines."""
        self.proofs += [BY_LINES] * (2 * len(nodes))
        where, values = [number_of(self.net, split) for split in splits], [split.value for split in splits]
        numbers = self.split(np.array([node.number for node in nodes]), np.array(where), np.array(values), own=uppers)
        return [int(number) for number in numbers]

    def certificate(self, problem: Problem) -> Certificate:
        """The certificate of the tree: the smallest one for the bound, as a proved cell needs no halves."""
        upper = self.proved()
        nodes, ends = self.smallest(upper)
        leaves = Leaves.of([self.proofs[n] for n in nodes[ends].tolist()])
        where, value = np.where(ends, LEAF, self.where[nodes]), np.where(ends, 0.0, self.value[nodes])
        return Certificate.of(problem, Tree(where, value, None, leaves), upper)
