"""The tree over signs while it grows, and the smallest proof in it."""

from __future__ import annotations

import numpy as np

from lipcert.method.signs.learnt import Learnt
from lipcert.problem.problem import Problem
from lipcert.proof.leaves import Leaves, leaf_bounds
from lipcert.proof.nogoods import Index, Signs
from lipcert.proof.tree import LEAF, Tree, level_order
from lipcert.rounding import Array

_AT_ONCE = 256  # leaves proved in one call
_SPARE = 1e-9  # by which a bound in plain floating point may miss what is proved, relative


class Growing:
    """Nodes by number; the first is the root. `own` is about what the linear bound of a node proves, infinite where it
    was not computed. A node is split, or refused by a nogood, or open."""

    def __init__(self, problem: Problem, open_: Index) -> None:
        self.problem, self.open = problem, open_
        self.signs: Signs = np.zeros((64, len(open_)), dtype=np.int8)
        self.own: list[float] = []
        self.split: list[int] = []  # a column of `signs`, -1 where there is none
        self.off: list[int] = []  # children
        self.on: list[int] = []
        self.nogood: list[int] = []  # -1 where it is not refused
        self.proved: dict[int, float] = {}  # by `leaf_bounds`

    def __len__(self) -> int:
        return len(self.own)

    def add(self, signs: Signs, own: float = np.inf, nogood: int = -1) -> int:
        """A new node."""
        number = len(self.own)
        if number == len(self.signs):
            self.signs = np.concatenate([self.signs, np.zeros_like(self.signs)])
        self.signs[number] = signs
        self.own.append(own)
        self.split.append(-1)
        self.off.append(-1)
        self.on.append(-1)
        self.nogood.append(nogood)
        return number

    def divide(self, node: int, column: int, nogoods: tuple[int, int] = (-1, -1)) -> tuple[int, int]:
        """Two children of a node, off and on, either of them perhaps refused at once."""
        signs = self.signs[node].copy()
        children = []
        for sign, nogood in zip((-1, 1), nogoods, strict=True):
            signs[column] = sign
            children.append(self.add(signs, nogood=nogood))
        self.split[node], self.off[node], self.on[node] = column, children[0], children[1]
        return children[0], children[1]

    def cut(self, target: float) -> tuple[list[int], list[int]]:
        """The smallest tree whose linear leaves are about `target`, as far as there is one: nodes in preorder, and
        those of them that are linear leaves."""
        order, ends = [], []
        target *= 1.0 + _SPARE
        waiting = [0]
        while waiting:
            node = waiting.pop()
            order.append(node)
            if self.nogood[node] >= 0:
                continue
            if self.split[node] < 0 or self.own[node] <= target:
                ends.append(node)
            else:
                waiting += (self.on[node], self.off[node])
        return order, ends

    def prove(self, nodes: list[int]) -> Array:
        """What linear leaves prove; computed once."""
        fresh = [n for n in nodes if n not in self.proved]
        for k in range(0, len(fresh), _AT_ONCE):
            some = fresh[k : k + _AT_ONCE]
            found = leaf_bounds(self.problem, self.open, self.signs[some])
            self.proved |= dict(zip(some, found.tolist(), strict=True))
        return np.array([self.proved[n] for n in nodes])

    def proof(self, target: float, learnt: Learnt) -> tuple[Tree, float]:
        """The smallest proof of about `target`, and what it proves."""
        order, ends = self.cut(target)
        upper = float(np.max(self.prove(ends), initial=0.0))
        refused = np.array(self.nogood) >= 0
        split = np.zeros(len(self), dtype=bool)
        split[order] = True
        split[ends] = split[refused] = False
        nodes = level_order(np.array(self.off), split)
        used = np.unique(np.array(self.nogood)[nodes[refused[nodes]]])
        nogood = np.where(refused, np.searchsorted(used, self.nogood), -1)[nodes]
        where = np.full(len(self), LEAF, dtype=np.int64)
        where[split] = self.problem.network.inputs + self.open[np.array(self.split)[split]]
        leaves = Leaves.under_signs(nogood[~split[nodes]], learnt.chosen(used))
        return Tree(where[nodes], np.zeros(len(nodes)), None, leaves), upper
