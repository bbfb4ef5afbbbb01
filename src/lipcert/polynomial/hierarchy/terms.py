"""Term sparsity: moment matrices split along the monomials that the problem has [WML21a, WML21b, WMLM22].

Vertices of a graph are the basis elements b_i of a block with multiplier g; i and j are joined when a monomial of
g b_i b_j is in the support S. At first S holds the monomials of the problem and the squares of the bases. A step

    1. closes the graph:  "term" joins all of a connected component,  "term-chordal" makes the graph chordal;
    2. puts the monomials of all joined entries into S.

After `order` steps, or when S no longer grows, the blocks are the components or the maximal cliques of the graphs, and
L(h m) = 0 is kept where a monomial of h m is in S. Blocks of semidefinite matrices are semidefinite, so that every step
gives valid bounds, and each is at least as good as the one before. At the end of "term" nothing is lost: moments
outside S may be taken as zero, which makes the matrices block diagonal.

"sign" splits by sign symmetry: changes of sign of some variables that leave the problem as it is. "term" is at least as
fine as that.

`Entries` holds all entries of all blocks of a relaxation as numbered monomials. Slot s of block k is an entry (i, j), i
<= j, of its upper triangle by columns; `left` and `right` are its two basis elements, the vertices, numbered through
all blocks. A slot's polynomial has the monomials `columns` of its terms.

Sign symmetries [Loef09] are the vectors r over the field of two elements with r . (a mod 2) = 0 for the exponents a of
every monomial of the problem. Two basis elements share a block when every such r changes both signs or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import is_

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import counted
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import block_terms, numbered, polynomial_terms, product_terms
from lipcert.polynomial.hierarchy.hierarchies import chordal_cliques
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel
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

    blocks: tuple[MomentBlock, ...]
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
    """The entries without basis elements b whose Gram rows must vanish.

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


Bits = NDArray[np.uint8]


def sign_labels(entries: Entries) -> tuple[Index, NDArray[np.bool_]]:
    """A label of every vertex, equal where all sign symmetries agree; and which equalities no symmetry changes.

    An equality may change its sign as a whole under a symmetry: its terms must only agree with each other.
    """
    n = 1 + max(int(entries.rows.max(initial=-1)), int(entries.bases.max(initial=-1)))
    support = [_word(row) for row in entries.rows[entries.fixed].tolist()]
    slots, columns = entries.equality_slots, entries.equality_columns
    order = np.argsort(slots, kind="stable")
    head = order[np.searchsorted(slots[order], slots)] if len(slots) else order
    words = [_word(row) for row in entries.rows.tolist()] if len(slots) else []
    support += [words[c] ^ words[h] for c, h in zip(columns.tolist(), columns[head].tolist(), strict=True)]
    symmetries = _orthogonal(set(support), n)
    classes = _signs(entries.bases, symmetries)
    labels = np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    even = np.ones(entries.equalities, dtype=bool)
    even[slots] = ~_signs(entries.rows[columns], symmetries).any(axis=1)
    return labels, even


def _word(row: Iterable[int]) -> int:
    """The parities of a monomial's exponents as the bits of a number."""
    word = 0
    for i in row:
        word ^= 1 << i if i >= 0 else 0
    return word


def _orthogonal(words: set[int], n: int) -> Bits:
    """A basis of the vectors orthogonal to all words, packed by variable: row i has the i-th bit of each."""
    pivots: dict[int, int] = {}  # leading bit to a word, fully reduced
    for word in words:
        rest = word
        for bit, known in pivots.items():
            rest = rest ^ known if rest >> bit & 1 else rest
        if rest:
            lead = rest.bit_length() - 1
            pivots = {bit: known ^ rest if known >> lead & 1 else known for bit, known in pivots.items()}
            pivots[lead] = rest
    free = [i for i in range(n) if i not in pivots]
    basis = np.zeros((n, max(len(free), 1)), dtype=np.uint8)
    for k, i in enumerate(free):
        basis[i, k] = 1
        for bit, known in pivots.items():
            basis[bit, k] = known >> i & 1
    return np.packbits(basis, axis=1)


def _signs(rows: Rows, symmetries: Bits) -> Bits:
    """Which symmetries change the sign of each monomial, packed."""
    extended = np.concatenate([symmetries, np.zeros((1, symmetries.shape[1]), dtype=np.uint8)])
    signs = np.zeros((len(rows), symmetries.shape[1]), dtype=np.uint8)
    for column in rows.T:
        signs ^= extended[column]
    return signs


SPARSITIES = ("none", "sign", "term", "term-chordal")

Group = tuple[int, Index]  # a block and some of its basis elements


def exploit(model: MomentModel, sparsity: str = "term", order: int | None = None) -> MomentModel:
    """The relaxation with its blocks split, and without basis elements whose Gram rows must vanish.

    Args:
        model: any moment relaxation.
        sparsity: "none", "sign", "term" or "term-chordal".
        order: the number of steps, until nothing changes when left out; more of them, larger blocks.

    The bound of the result is at most that of the model; it is the same for "sign", and for "term" without `order`.
    """
    if sparsity not in SPARSITIES:
        raise InputError(f"sparsity {sparsity!r}: must be one of {', '.join(SPARSITIES)}")
    if order is not None and (order < 1 or not sparsity.startswith("term")):
        raise InputError(f"sparse order {order}: an integer >= 1, for term and term-chordal sparsity")
    if sparsity == "none" or not model.blocks:
        return model
    entries = without_vanishing(entries_of(model))
    if sparsity == "sign":
        labels, even = sign_labels(entries)
        return _split(model, entries, _components(entries, labels), even, "sign symmetry")
    groups, kept, steps, stable = _grow(entries, sparsity == "term-chordal", order)
    word = "which is stable" if stable else "where higher ones may improve the bound"
    return _split(model, entries, groups, kept, f"{sparsity.replace('-', ' ')} sparsity of order {steps}, {word}")


def _grow(entries: Entries, chordal: bool, order: int | None) -> tuple[list[Group], Marks, int, bool]:
    """The groups after the steps, the equalities kept, the number of steps, and whether they are all."""
    support = entries.first_support()
    before = np.zeros(entries.size, dtype=bool)
    steps = 0
    while True:
        joined = _marked(entries.slots, entries.columns, support, entries.size) & entries.alive
        kept = _marked(entries.equality_slots, entries.equality_columns, support, entries.equalities)
        groups = _cliques(entries, joined) if chordal else _components(entries, _connected(entries, joined))
        inside = _inside(entries, groups)
        grown = support.copy()
        grown[entries.columns[inside[entries.slots]]] = True
        grown[entries.equality_columns[kept[entries.equality_slots]]] = True
        steps += 1
        if np.array_equal(grown, support):
            return groups, kept, max(steps - np.array_equal(inside, before), 1), True
        if steps == order:
            return groups, kept, steps, False
        support, before = grown, inside


def _marked(slots: Index, columns: Index, support: Marks, size: int) -> Marks:
    """Slots with a monomial in the support."""
    marks = np.zeros(size, dtype=bool)
    marks[slots[support[columns]]] = True
    return marks


def _connected(entries: Entries, joined: Marks) -> Index:
    """The number of the connected component of every vertex."""
    from scipy import sparse  # here, so that importing lipcert stays fast
    from scipy.sparse.csgraph import connected_components

    pairs = entries.left[joined], entries.right[joined]
    graph = sparse.coo_array((np.ones(len(pairs[0]), dtype=bool), pairs), (entries.nodes, entries.nodes))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _components(entries: Entries, labels: Index) -> list[Group]:
    """Vertices of a block with equal labels, vanished ones left out."""
    nodes = np.flatnonzero(entries.living)
    block, label = entries.block[nodes], labels[nodes]
    order = np.lexsort((nodes, label, block))
    nodes, block, label = nodes[order], block[order], label[order]
    edges = np.flatnonzero((np.diff(block) != 0) | (np.diff(label) != 0)) + 1
    return [
        (int(entries.block[part[0]]), part - entries.first[entries.block[part[0]]]) for part in np.split(nodes, edges)
    ]


def _cliques(entries: Entries, joined: Marks) -> list[Group]:
    """Maximal cliques of a chordal extension of every block's graph."""
    found: list[Group] = []
    pairs = np.flatnonzero(joined & (entries.left != entries.right))
    edges = np.searchsorted(pairs, entries.starts)  # slots are numbered block by block
    for k, block in enumerate(entries.blocks):
        living = np.flatnonzero(entries.living[entries.first[k] : entries.first[k] + len(block.basis)])
        mine = pairs[edges[k] : edges[k + 1]]
        if len(mine) == len(living) * (len(living) - 1) // 2:
            found += [(k, living)] if len(living) else []
            continue
        place = np.zeros(len(block.basis), dtype=np.int64)
        place[living] = np.arange(len(living))
        graph: list[set[int]] = [set() for _ in living]
        left, right = place[entries.left[mine] - entries.first[k]], place[entries.right[mine] - entries.first[k]]
        for i, j in zip(left.tolist(), right.tolist(), strict=True):
            graph[i].add(j)
            graph[j].add(i)
        found += [(k, living[list(clique)]) for clique in chordal_cliques(graph)]
    return found


def _inside(entries: Entries, groups: list[Group]) -> Marks:
    """Slots both of whose vertices lie in one group; a vertex alone has its diagonal slot."""
    marks = np.zeros(entries.size, dtype=bool)
    alike: dict[int, list[Group]] = {}
    for group in groups:
        alike.setdefault(len(group[1]), []).append(group)
    for size, listed in alike.items():
        j, i = np.tril_indices(size)
        start = entries.starts[np.array([k for k, _ in listed])]
        members = np.stack([m for _, m in listed])  # ascending
        column = members[:, j]
        marks[start[:, None] + column * (column + 1) // 2 + members[:, i]] = True
    return marks


def _split(model: MomentModel, entries: Entries, groups: list[Group], kept: Marks, note: str) -> MomentModel:
    """The model on the groups, those of plain blocks that lie in another left out; itself if nothing was split."""
    chosen = [groups[k] for k in _maximal(entries, groups)]
    blocks = []
    for k, members in chosen:
        block = entries.blocks[k]
        whole = len(members) == len(block.basis)
        blocks.append(
            block if whole else MomentBlock(tuple(block.basis[i] for i in members.tolist()), block.multiplier)
        )
    if len(blocks) == len(model.blocks) and all(map(is_, blocks, model.blocks)) and kept.all():
        return model
    before, after = (max(len(b.basis) for b in listed) for listed in (model.blocks, blocks))
    found = f"{counted(len(blocks), 'block')} of order up to {after}"
    text = f"{note}: {found}, from {len(model.blocks)} of order up to {before}"
    return replace(
        model,
        blocks=tuple(blocks),
        equalities=tuple(h for h, keep in zip(model.equalities, kept[: len(model.equalities)], strict=True) if keep),
        notes=(*model.notes, text),
    )


def _maximal(entries: Entries, groups: list[Group]) -> list[int]:
    """Groups that are not contained in another one with the same multiplier, one of equal ones, in their order."""
    sets = [
        (id(entries.blocks[k].multiplier), frozenset(entries.names[entries.first[k] + members].tolist()))
        for k, members in groups
    ]
    holding: dict[tuple[int, int], list[int]] = {}
    kept: list[int] = []
    for g in sorted(range(len(groups)), key=lambda g: -len(sets[g][1])):
        which, members = sets[g]
        rarest = min((holding.get((which, name), []) for name in members), key=len)
        if any(members <= sets[other][1] for other in rarest):
            continue
        kept.append(g)
        for name in members:
            holding.setdefault((which, name), []).append(g)
    return sorted(kept)
