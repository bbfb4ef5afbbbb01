"""A tree over the signs of ReLUs: every inner node fixes one sign both ways, every leaf is bounded or refused.

A leaf is the closed set of inputs with the signs on its path, so the leaves cover the region whatever the file says.
Almost every input of a leaf has the slopes that its signs name (see `bounds.cell`): 1 where z >= 0, 0 where z <= 0.

    linear    the bound of `bounds.linear`, or of `bounds.jacobian` for the whole map, under these slopes
    refused   no input has these signs, or no set of inputs with interior: the path contains the literals of a nogood
              that is proved (`nogoods`)

Nodes stand in preorder, off before on, as rows of a table: (block, neuron) of a split, (0, 0) of a linear leaf,
(-1, nogood) of a refused one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Interval, slopes
from lipcert.bounds.jacobian import map_bounds
from lipcert.bounds.linear import LinearBounds, norm_bounds
from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within, word
from lipcert.problem.problem import Problem
from lipcert.problem.region import sides_of
from lipcert.proof.interior import row_count
from lipcert.proof.nogoods import Index, Nogoods, Signs, System, refusal
from lipcert.proof.tree import digest
from lipcert.rounding import Array, worst
from lipcert.steps import step

METHOD = "signs"
NAMES = "patterns|patterns_digest|nogood_literals|nogood_rows|nogood_numbers"
TEXTS = frozenset({"patterns_digest"})
LINEAR, REFUSED = 0, -1  # in place of a block; -2 is free for leaves with multipliers of a relaxation
MOST_NODES = 1 << 22
_AT_ONCE = 256  # leaves in one call
MOST_SIGNS = 1 << 28  # bytes of all paths together


@dataclass(frozen=True, eq=False)
class Patterns:
    """The table and its nogoods."""

    table: Index
    nogoods: Nogoods
    method: ClassVar[str] = METHOD

    @property
    def leaves(self) -> int:
        return int(np.count_nonzero(self.table[:, 0] <= LINEAR))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it; the digest shows when it was changed by accident."""
        arrays: dict[str, NDArray[np.generic]] = {
            "patterns": self.table,
            "nogood_literals": self.nogoods.literals,
            "nogood_rows": self.nogoods.rows,
            "nogood_numbers": self.nogoods.numbers,
        }
        return arrays | {"proof": np.array("patterns"), "patterns_digest": np.array(digest(arrays), dtype="U64")}

    def check(self, problem: Problem) -> float:
        """The bound that the tree proves, infinite when it is none."""
        if refusal(problem) is not None or not self.fits(problem):
            return np.inf
        system = System.of(problem)
        leaves = leaves_of(problem, self.table)
        if system is None or leaves is None:
            return np.inf
        refused = self.table[leaves.nodes, 0] == REFUSED
        wanted = np.unique(self.table[leaves.nodes[refused], 1])
        if len(wanted) and not self.all_refused(leaves, refused, self.nogoods.proved(system, wanted)):
            return np.inf
        upper = 0.0
        for some in leaves.chunks(np.flatnonzero(~refused)):
            step()
            upper = worst(upper, float(np.max(leaf_bounds(problem, leaves.neurons, some))))
        return upper

    def fits(self, problem: Problem) -> bool:
        """Whether the table names neurons and nogoods that there are."""
        table, net, cut = self.table, problem.network, sides_of(problem.region)
        cuts = 0 if cut is None else cut.count
        if table.ndim != 2 or table.shape[1] != 2 or not len(table):
            return False
        if not self.nogoods.fits(net.neurons, cuts, row_count(net, problem.region)):
            return False
        block, number = table[:, 0], table[:, 1]
        if not np.all((block >= REFUSED) & (block <= net.depth) & (number >= 0)):
            return False
        limit = np.array([1, *(b.width for b in net.hidden), self.nogoods.count])[block]
        plain = np.array([True, *(f.kind == "relu" for f in net.activations), True])[block]
        return bool(np.all(number < limit) and np.all(plain))

    def all_refused(self, leaves: Leaves, refused: NDArray[np.bool_], proved: NDArray[np.bool_]) -> bool:
        """Whether the nogoods of all refused leaves are proved, and contained in the paths."""
        wanted = self.table[leaves.nodes[refused], 1]
        if not np.all(proved[wanted]):
            return False
        last = max(int(leaves.neurons.max(initial=-1)), int(self.nogoods.literals[:, 1].max(initial=-1)))
        place = np.full(last + 1, -1, dtype=np.int64)
        place[leaves.neurons] = np.arange(len(leaves.neurons))
        own = self.nogoods.literals
        order = np.argsort(own[:, 0], kind="stable")
        ends = np.searchsorted(own[order, 0], np.arange(self.nogoods.count + 1))
        for nogood, leaf in zip(wanted, np.flatnonzero(refused), strict=True):
            literals = own[order[ends[nogood] : ends[nogood + 1]]]
            columns = place[literals[:, 1]]
            if np.any(columns < 0) or np.any(leaves.signs[leaf, columns] != literals[:, 2]):
                return False
        return True


NO_PATTERNS = Patterns(
    np.zeros((0, 2), dtype=np.int64),
    Nogoods(0, np.zeros((0, 3), dtype=np.int64), np.zeros((0, 2), dtype=np.int64), np.zeros(0)),
)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree: their nodes, and their signs of those neurons that are split anywhere."""

    nodes: Index
    neurons: Index
    signs: Signs

    def chunks(self, some: Index) -> Iterator[Signs]:
        for k in range(0, len(some), _AT_ONCE):
            yield self.signs[some[k : k + _AT_ONCE]]


def leaf_bounds(problem: Problem, neurons: Index, signs: Signs) -> Array:
    """Proved bounds on the inputs with these signs of some neurons, a row for each set of inputs."""
    if problem.whole_map:
        return whole_leaf_bounds(problem, neurons, signs).upper
    return norm_bounds(problem.network, leaf_slopes(problem, neurons, signs), problem.norm, problem.c)


def whole_leaf_bounds(problem: Problem, neurons: Index, signs: Signs) -> LinearBounds:
    """The same for the whole map, with all that linear bounds say."""
    return map_bounds(problem.network, leaf_slopes(problem, neurons, signs), problem.norm)


def leaf_slopes(problem: Problem, neurons: Index, signs: Signs) -> tuple[Interval, ...]:
    """The slopes on the region, and under the signs those that they name; block by block, a row for each leaf."""
    found = slopes(problem)
    lo, hi = (np.tile(np.concatenate([s[k] for s in found]), (len(signs), 1)) for k in (0, 1))
    lo[:, neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, lo[:, neurons]))
    hi[:, neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, hi[:, neurons]))
    ends = np.cumsum([len(s.lo) for s in found])[:-1]
    return tuple(Interval(*pair) for pair in zip(np.split(lo, ends, axis=1), np.split(hi, ends, axis=1), strict=True))


def read_patterns(arrays: Mapping[str, Any], own: Mapping[str, Any]) -> Patterns:
    """The tree of a file, `own` being its arrays but for the digest; without its digest it is none, proving nothing."""
    table = whole(arrays, "patterns", (None, 2), REFUSED, LARGEST_WHOLE)
    literals = whole(arrays, "nogood_literals", (None, 3), -1, LARGEST_WHOLE)
    rows = whole(arrays, "nogood_rows", (None, 2), 0, LARGEST_WHOLE)
    numbers = real(arrays, "nogood_numbers", (len(rows),))
    if not within(literals, [0, 0, -1], [LARGEST_WHOLE, LARGEST_WHOLE, 1]):
        raise FileFormatError("the table of the signs and its nogoods do not fit together")
    if word(arrays, "patterns_digest") != digest(own):
        return NO_PATTERNS
    if len(table) > MOST_NODES:
        raise FileFormatError(f"a tree of {len(table):,} nodes is larger than the limit of {MOST_NODES:,}")
    if any(len(np.unique(pairs, axis=0)) < len(pairs) for pairs in (literals[:, :2], rows)):
        raise FileFormatError("a nogood of the signs names the same neuron or row twice")
    count = int(np.max(np.concatenate([table[table[:, 0] == REFUSED, 1], literals[:, 0], rows[:, 0]]), initial=-1)) + 1
    if count > len(table):
        raise FileFormatError("the signs have more nogoods than leaves")
    return Patterns(table, Nogoods(count, literals, rows, numbers))


def leaves_of(problem: Problem, table: Index) -> Leaves | None:
    """The leaves with their paths; None when the table is no tree, or a path fixes the same sign twice."""
    starts = np.cumsum([0, *(b.width for b in problem.network.hidden)])
    split = table[:, 0] > LINEAR
    flat = np.where(split, starts[np.maximum(table[:, 0] - 1, 0)] + table[:, 1], -1)
    neurons, column = np.unique(flat[split], return_inverse=True)
    place = np.full(len(table), -1, dtype=np.int64)
    place[split] = column
    ends = np.flatnonzero(~split)
    if len(ends) != len(table) // 2 + 1 or len(ends) * max(len(neurons), 1) > MOST_SIGNS:
        return None
    signs = np.zeros((len(ends), len(neurons)), dtype=np.int8)
    path = np.zeros(len(neurons), dtype=np.int8)
    turns: list[int] = []  # columns on the path, of which `path` says on which side it is
    found = 0
    for node, k in enumerate(place):
        if node and not turns:
            return None  # the tree ended before the table
        if k >= 0:
            if path[k]:
                return None
            path[k] = -1
            turns.append(int(k))
            continue
        signs[found] = path
        found += 1
        while turns and path[turns[-1]] > 0:
            path[turns.pop()] = 0
        if turns:
            path[turns[-1]] = 1
    return None if turns else Leaves(ends, neurons, signs)
