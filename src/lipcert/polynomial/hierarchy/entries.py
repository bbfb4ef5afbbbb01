"""All entries of all blocks of a relaxation as numbered monomials, and what can be read off them.

Slot s of block k is an entry (i, j), i <= j, of its upper triangle by columns; `left` and `right` are its two basis
elements, the vertices, numbered through all blocks. A slot's polynomial has the monomials `columns` of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.polynomial.hierarchy.assembly import block_terms, numbered, polynomial_terms, product_terms
from lipcert.polynomial.hierarchy.model import Block, MomentModel
from lipcert.polynomial.monomials import Index, Rows, rows_of, unique_rows
from lipcert.rounding import Array

Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Entries:
    """Blocks as graphs on their basis elements; see the module's first lines.

    `first` and `starts` are the first vertex and the first slot of every block, and what comes after the last. `names`
    number equal basis elements equally. `fixed` are the monomials of the objective, the multipliers and all scalar rows
    but equalities; `needed` those of the objective alone, whose coefficients (of -f for a maximum) are `objective`.
    `living` marks the vertices that have not vanished.
    """

    blocks: tuple[Block, ...]
    rows: Rows
    names: Index
    bases: Rows
    block: Index
    first: Index
    starts: Index
    left: Index
    right: Index
    slots: Index
    columns: Index
    positive: Marks
    fixed: Index
    scalar: Index
    needed: Index
    objective: Array
    equality_slots: Index
    equality_columns: Index
    equalities: int
    living: Marks

    @property
    def nodes(self) -> int:
        """The number of vertices."""
        return len(self.block)

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self.left)

    @property
    def alive(self) -> Marks:
        """Slots whose vertices have not vanished."""
        return self.living[self.left] & self.living[self.right]

    @property
    def plain_diagonal(self) -> Marks:
        """Slots that are the square of a basis element."""
        return np.asarray((self.left == self.right) & self.plain & self.living[self.left])

    @property
    def plain(self) -> Marks:
        """Slots of blocks without multiplier."""
        plain = np.array([b.multiplier is None for b in self.blocks], dtype=bool)
        return np.asarray(plain[self.block[self.left]])

    def diagonal_slots(self) -> Index:
        """The slot of the square of every vertex."""
        i = np.arange(self.nodes) - self.first[self.block]
        return np.asarray(self.starts[self.block] + i * (i + 1) // 2 + i)

    def first_support(self) -> Marks:
        """The monomials of the problem, and those of squares of basis elements."""
        support = np.zeros(len(self.rows), dtype=bool)
        support[0] = True
        support[self.fixed] = True
        support[self.columns[self.plain_diagonal[self.slots]]] = True
        return support


def entries_of(model: MomentModel) -> Entries:
    """The entries of a relaxation, squares reduced by its rules."""
    equal = [p for p in model.products if p.equality]
    multipliers = [b.multiplier for b in model.blocks if b.multiplier is not None]
    parts = [
        block_terms(model.blocks)[0],
        polynomial_terms(model.equalities),
        polynomial_terms([*multipliers, *model.rules.values()]),
        polynomial_terms(model.inequalities),
        *(product_terms(p) for p in model.products if not p.equality),
        *(product_terms(p) for p in equal),
        polynomial_terms([model.objective]),
    ]
    sizes = np.array([int(p[0].max(initial=-1)) + 1 for p in parts], dtype=np.int64)
    orders = np.array([len(b.basis) for b in model.blocks], dtype=np.int64)
    sizes[:2] = int((orders * (orders + 1) // 2).sum()), len(model.equalities)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    (slots, columns, values), rows = numbered(parts, edges[:-1].tolist(), model)
    which = np.searchsorted(edges, slots, side="right") - 1
    of_blocks, of_equalities, goal = which == 0, which == 1, which == len(parts) - 1
    first, starts = _offsets(orders), _offsets(orders * (orders + 1) // 2)
    left, right = _ends(orders, first, starts)
    sign = 1.0 if model.sense == "min" else -1.0
    bases = rows_of(m for b in model.blocks for m in b.basis)
    return Entries(
        blocks=model.blocks,
        rows=rows,
        names=unique_rows(bases)[1],
        bases=bases,
        block=np.repeat(np.arange(len(orders)), orders),
        first=first,
        starts=starts,
        left=left,
        right=right,
        slots=slots[of_blocks],
        columns=columns[of_blocks],
        positive=values[of_blocks] > 0,
        fixed=np.unique(columns[which >= 2]),
        scalar=np.unique(columns[(which == 1) | (which >= 3) & (which < len(parts) - 1)]),
        needed=np.unique(columns[goal]),
        objective=np.bincount(columns[goal], weights=sign * values[goal], minlength=len(rows)).astype(np.float64),
        equality_slots=slots[of_equalities] - edges[1],
        equality_columns=columns[of_equalities],
        equalities=len(model.equalities),
        living=np.ones(len(bases), dtype=bool),
    )


def without_vanishing(entries: Entries) -> Entries:
    """The same without basis elements b whose Gram rows must vanish.

    If b^2 is not in the objective and occurs in the relaxation on diagonals only, the Gram entries there sum to zero.
    Repeated until nothing changes this leaves no element outside half the Newton polytope of an unconstrained problem:
    a vertex v of the hull of the basis is no mean of others, so v^2 occurs on one diagonal only and is in f if v stays
    [Rez78].
    """
    current = entries
    needed = np.zeros(len(entries.rows), dtype=bool)
    needed[entries.needed] = True
    needed[0] = True
    taken = needed.copy()
    taken[entries.scalar] = True
    for smaller in _prunings(entries, taken):
        seen = np.zeros(len(entries.rows), dtype=bool)
        seen[entries.scalar] = True
        seen[entries.columns[smaller.alive[entries.slots]]] = True
        seen[0] = True
        if np.any(needed & ~seen):  # the objective needs a monomial that was dropped: it is no sum of squares
            return entries
        current = smaller
    return current


def _prunings(entries: Entries, taken: Marks) -> Iterator[Entries]:
    """Ever fewer living vertices."""
    diagonal = entries.plain_diagonal[entries.slots] & entries.positive
    while True:
        alive = entries.alive[entries.slots]
        others = taken.copy()
        others[entries.columns[alive & ~diagonal]] = True
        doomed = entries.left[entries.slots[alive & diagonal & ~others[entries.columns]]]
        if not len(doomed):
            return
        living = entries.living.copy()
        living[doomed] = False
        entries = replace(entries, living=living)
        yield entries


def _offsets(sizes: Index) -> Index:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _ends(orders: Index, first: Index, starts: Index) -> tuple[Index, Index]:
    """The two vertices of every slot."""
    left, right = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1], dtype=np.int64)
    for order in np.unique(orders):
        blocks = np.flatnonzero(orders == order)
        j, i = np.tril_indices(int(order))
        where = starts[blocks][:, None] + np.arange(len(i))
        left[where] = first[blocks][:, None] + i
        right[where] = first[blocks][:, None] + j
    return left, right
