"""Which variables meet: the correlative sparsity graph, its chordal extension, its cliques [WKKM06].

The running intersection property (RIP): the cliques can be ordered so that for every k

    I_{k+1}  cap  (I_1 cup ... cup I_k)   lies in some I_s,  s <= k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lipcert.polynomial.monomials import monomial_of
from lipcert.polynomial.polynomial import Polynomial

Clique = tuple[int, ...]


def correlative_graph(n: int, objective: Polynomial, constraints: Iterable[Polynomial]) -> list[set[int]]:
    """Neighbours of each variable: two meet in a monomial of the objective, or anywhere in one constraint."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    groups = [set(monomial_of(row)) for row in objective.indices]
    groups += [set(g.variables.tolist()) for g in constraints]
    for group in groups:
        for i in group:
            neighbours[i] |= group
    for i, near in enumerate(neighbours):
        near.discard(i)
    return neighbours


def chordal_cliques(neighbours: Sequence[set[int]]) -> tuple[Clique, ...]:
    """Maximal cliques of a chordal extension by minimum degree, in an order with the running intersection property."""
    graph = [set(near) for near in neighbours]
    left = set(range(len(graph)))
    found: list[set[int]] = []
    while left:
        v = min(left, key=lambda i: (len(graph[i]), i))
        clique = graph[v] | {v}
        if not any(clique <= other for other in found):
            found.append(clique)
        for i in graph[v]:
            graph[i] |= graph[v]
            graph[i] -= {i, v}
        left.remove(v)
    return tuple(tuple(sorted(c)) for c in reversed(found)) or ((),)


def running_intersection(cliques: Sequence[Clique]) -> bool:
    """Whether some order of the cliques has the running intersection property.

    It does exactly when a maximum-weight spanning tree of the intersections (weight |I cap J|) is a junction tree, that
    is, when its weights sum to sum_k |I_k| - |union| [BG81].
    """
    sets = [set(c) for c in cliques]
    if len(sets) < 2:
        return True
    best = [len(sets[0] & s) for s in sets]
    outside = set(range(1, len(sets)))
    weight = 0
    while outside:
        k = max(outside, key=lambda i: best[i])
        weight += best[k]
        outside.remove(k)
        for i in outside:
            best[i] = max(best[i], len(sets[k] & sets[i]))
    return weight == sum(map(len, sets)) - len(set().union(*sets))


def home(polynomial: Polynomial, cliques: Sequence[Clique]) -> int | None:
    """The smallest clique that holds all variables of a polynomial."""
    needed = set(polynomial.variables.tolist())
    fitting = [k for k, c in enumerate(cliques) if needed <= set(c)]
    return min(fitting, key=lambda k: len(cliques[k])) if fitting else None
