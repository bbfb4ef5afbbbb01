"""Term sparsity: moment matrices split along the monomials that the problem has [WML21a, WML21b, WMLM22].

Vertices of a graph are the basis elements b_i of a block with multiplier g; i and j are joined when a monomial of
g b_i b_j is in the support S. At first S holds the monomials of the problem and the squares of the bases. A step

    1. closes the graph:  "term" joins all of a connected component,  "term-chordal" makes the graph chordal;
    2. puts the monomials of all joined entries into S.

After `order` steps, or when S no longer grows, the blocks are the components or the maximal cliques of the graphs, and
L(h m) = 0 is kept where a monomial of h m is in S. Blocks of semidefinite matrices are semidefinite, so that every step
gives valid bounds, and each is at least as good as the one before. At the end of "term" nothing is lost: moments
outside S may be taken as zero, which makes the matrices block diagonal.

"sign" splits by the sign changes of variables that leave the problem as it is; "term" is at least as fine as that.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import counted
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.cliques import chordal_cliques
from lipcert.polynomial.hierarchy.entries import Entries, entries_of, without_vanishing
from lipcert.polynomial.hierarchy.model import Block, MomentModel
from lipcert.polynomial.hierarchy.signs import sign_labels
from lipcert.polynomial.monomials import Index

SPARSITIES = ("none", "sign", "term", "term-chordal")

Marks = NDArray[np.bool_]
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
        blocks.append(block if whole else Block(tuple(block.basis[i] for i in members.tolist()), block.multiplier))
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
