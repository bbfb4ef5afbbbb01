"""The tree over signs while it grows, and the smallest proof in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.method.signs.learnt import Learnt
from lipcert.problem.problem import Problem
from lipcert.proof.leaves import Leaves, leaf_bounds
from lipcert.proof.nogoods import Index, Signs
from lipcert.proof.tree import LEAF, Tree
from lipcert.rounding import Array
from lipcert.search.tree import GrowingTree, Mask

_AT_ONCE = 256  # leaves proved in one call
_SPARE = 1e-9  # by which a bound in plain floating point may miss the proved one, relative


class SignTree(GrowingTree):
    """A node is a pattern of signs. `own` is about the linear bound of a pattern, infinite where it was not computed. A
    node is split, or refused by a nogood, or open."""

    def __init__(self, problem: Problem, open_: Index) -> None:
        super().__init__()
        self.problem, self.open = problem, open_
        self.add_column("signs", (len(open_),), 0, np.int8)
        self.add_column("nogood", (), -1, np.int64)  # -1 where the pattern is not refused
        self.add_column("proved", (), np.nan, np.float64)  # by `leaf_bounds`

    @property
    def signs(self) -> Signs:
        return self.column("signs")

    @property
    def nogood(self) -> Index:
        return self.column("nogood")

    @property
    def proved_alone(self) -> Array:
        """The proved linear bound of every pattern, not a number where it was not computed."""
        return self.column("proved")

    @property
    def is_open(self) -> Mask:
        """Which patterns are neither split nor refused."""
        return np.asarray(~self.is_split & (self.nogood < 0))

    def divide(self, nodes: Index, columns: Index, nogoods: Index | None = None) -> Index:
        """Both children of some nodes, off and on; with nogoods some of them are refused at once."""
        signs, both = np.repeat(self.signs[nodes], 2, axis=0), np.arange(2 * len(nodes))
        signs[both, np.repeat(columns, 2)] = np.where(both % 2, 1, -1)
        more: dict[str, Any] = {} if nogoods is None else {"nogood": nogoods}
        return self.split(nodes, self.problem.network.inputs + self.open[columns], signs=signs, **more)

    def cut(self, target: float) -> tuple[Index, Mask, Index]:
        """The smallest tree whose linear leaves are about `target`, as far as there is one: its nodes level by level,
        which of them are leaves, and the linear leaves."""
        nodes, ends = self.part((self.own <= target * (1.0 + _SPARE)) | (self.nogood >= 0))
        return nodes, ends, nodes[ends & (self.nogood[nodes] < 0)]

    def unproved(self, nodes: Index) -> int:
        """How many of these patterns have no proved bound yet."""
        return int(np.isnan(self.proved_alone[nodes]).sum())

    def prove(self, nodes: Index) -> Array:
        """The proved bounds of linear leaves, each computed once."""
        fresh = nodes[np.isnan(self.proved_alone[nodes])]
        for some in (fresh[k : k + _AT_ONCE] for k in range(0, len(fresh), _AT_ONCE)):
            self.proved_alone[some] = leaf_bounds(self.problem, self.open, self.signs[some])
        return np.asarray(self.proved_alone[nodes])

    def proof(self, target: float, learnt: Learnt) -> tuple[Tree, float]:
        """The smallest proof of about `target`, and the bound that it proves."""
        nodes, ends, linear = self.cut(target)
        upper = float(np.max(self.prove(linear), initial=0.0))
        nogood = self.nogood[nodes[ends]]
        used = np.unique(nogood[nogood >= 0])
        leaves = Leaves.under_signs(np.where(nogood >= 0, np.searchsorted(used, nogood), -1), learnt.chosen(used))
        return Tree(np.where(ends, LEAF, self.where[nodes]), np.zeros(len(nodes)), None, leaves), upper
