"""Which variables meet: the correlative sparsity graph, its chordal extension, its cliques [WKKM06].

The running intersection property (RIP): the cliques can be ordered so that for every k

    I_{k+1}  cap  (I_1 cup ... cup I_k)   lies in some I_s,  s <= k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from scipy import sparse

from lipcert.polynomial.polynomial import Polynomial

Clique = tuple[int, ...]


def correlative_graph(n: int, objective: Polynomial, constraints: Iterable[Polynomial]) -> list[set[int]]:
    """Neighbours of each variable: two meet in a monomial of the objective, or anywhere in one constraint."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    groups = {frozenset(row) - {-1} for row in objective.indices.tolist()}
    groups |= {frozenset(g.variables.tolist()) for g in constraints}
    for group in groups:
        for i in group:
            neighbours[i] |= group
    for i, near in enumerate(neighbours):
        near.discard(i)
    return neighbours


def chordal_cliques(neighbours: Sequence[set[int]]) -> tuple[Clique, ...]:
    """Maximal cliques of a chordal extension by minimum degree, in an order with the running intersection property."""
    graph = [set(near) for near in neighbours]
    queue = [(len(near), i) for i, near in enumerate(graph)]
    heapify(queue)
    gone = [False] * len(graph)
    found: list[set[int]] = []
    orphans: list[set[int]] = [set() for _ in graph]  # whose first neighbour to go may be this one
    while queue:
        degree, v = heappop(queue)
        if gone[v] or degree != len(graph[v]):
            continue  # an old entry
        gone[v] = True
        near = graph[v]
        # {v} and its neighbours lie in an earlier clique exactly when they are all but one of a child's clique.
        if all(len(graph[child]) != len(near) + 1 for child in orphans[v]):
            found.append(near | {v})
        for child in orphans[v]:
            for i in graph[child] - {v}:
                orphans[i].discard(child)
        for i in near:
            graph[i] |= near
            graph[i] -= {i, v}
            heappush(queue, (len(graph[i]), i))
            orphans[i].add(v)
    return tuple(tuple(sorted(c)) for c in reversed(found)) or ((),)


def running_intersection(cliques: Sequence[Clique]) -> bool:
    """Whether some order of the cliques has the running intersection property.

    It does exactly when a maximum-weight spanning forest of the intersections (weight |I cap J|) is one of junction
    trees, that is, when its weights sum to sum_k |I_k| - |union| [BG81].
    """
    if len(cliques) < 2:
        return True
    sizes = [len(c) for c in cliques]
    members = np.concatenate([np.asarray(c, dtype=np.int64) for c in cliques])
    edges = np.concatenate([[0], np.cumsum(sizes)])
    incidence = sparse.csr_array((np.ones(len(members)), members, edges), (len(cliques), int(members.max()) + 1))
    shared = sparse.triu(incidence @ incidence.T, 1)
    from scipy.sparse.csgraph import minimum_spanning_tree  # here, so that importing lipcert stays fast

    weight = -float(minimum_spanning_tree(-shared).sum())
    return weight == len(members) - len(np.unique(members))


def homes(polynomials: Iterable[Polynomial], cliques: Sequence[Clique]) -> list[int | None]:
    """For each polynomial the smallest clique that holds all its variables, the first of several; None without one."""
    order = sorted(range(len(cliques)), key=lambda k: len(cliques[k]))
    sets = [frozenset(c) for c in cliques]
    holding: dict[int, list[int]] = {}
    for k in order:
        for i in cliques[k]:
            holding.setdefault(i, []).append(k)
    found: list[int | None] = []
    for p in polynomials:
        needed = p.variables.tolist()
        rarest = min((holding.get(i, []) for i in needed), key=len, default=order)
        found.append(next((k for k in rarest if sets[k].issuperset(needed)), None))
    return found
