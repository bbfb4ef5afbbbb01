"""Correlative sparsity: the graph of variables that meet, its chordal extension, its cliques [WKKM06].

The running intersection property (RIP): the cliques can be ordered so that for every k

    I_{k+1}  cap  (I_1 cup ... cup I_k)   lies in some I_s,  s <= k.

A `Layout` says which variables share a moment matrix and which constraints stay out. It is decided before any monomial
is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques
from lipcert.polynomial.text import show

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


@dataclass(frozen=True, eq=False)
class Layout:
    """Cliques of variables; `bad` constraints have first-order rows only, and None means that there is no M_1 either.

    `running`: the cliques come in an order with the running intersection property. `notes` are remarks for the user.
    """

    cliques: tuple[Clique, ...]
    bad: frozenset[Polynomial] | None = None
    notes: tuple[str, ...] = ()
    running: bool = False

    def is_nice(self, constraint: Polynomial) -> bool:
        """Whether a constraint belongs to a clique."""
        return self.bad is None or constraint not in self.bad


def one_clique(problem: PolynomialProblem) -> Layout:
    """All variables together."""
    return Layout((tuple(range(problem.n)),))


def sparse_layout(problem: PolynomialProblem, cliques: Iterable[Sequence[int]] | None = None) -> Layout:
    """The given cliques, or those of the chordal correlative sparsity graph; every constraint must fit in one."""
    constraints = problem.inequalities + problem.equalities
    if cliques is None:
        chosen = chordal_cliques(correlative_graph(problem.n, problem.objective, constraints))
    else:
        chosen = check_cliques(cliques, problem.n)
    for g, k in zip(constraints, homes(constraints, chosen), strict=True):
        if k is None:
            raise InputError(
                f"no clique contains the variables of the constraint {_short(g, problem)}; "
                "give larger cliques or use the nearly sparse hierarchy"
            )
    return Layout(chosen, None, _notes(chosen, cliques is None), cliques is None)


def nearly_sparse_layout(
    problem: PolynomialProblem,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
) -> Layout:
    """Cliques for the nice constraints; the bad ones named or found, see `hierarchies.nearly_sparse`."""
    constraints = problem.inequalities + problem.equalities
    chosen = None if cliques is None else check_cliques(cliques, problem.n)
    named = frozenset(bad) if bad is not None else _find_bad(constraints, chosen)
    unknown = named - set(constraints)
    if unknown:
        raise InputError(f"bad constraint {_short(next(iter(unknown)), problem)} is not a constraint of the problem")
    nice = [g for g in constraints if g not in named]
    if chosen is None:
        high = problem.objective.indices[(problem.objective.indices >= 0).sum(axis=1) > 2]
        chosen = chordal_cliques(correlative_graph(problem.n, Polynomial(high, np.ones(len(high))), nice))
    for g, k in zip(nice, homes(nice, chosen), strict=True):
        if k is None:
            raise InputError(f"the constraint {_short(g, problem)} fits no clique: name it among the bad ones")
    return Layout(chosen, named, _notes(chosen, cliques is None), cliques is None)


def _find_bad(constraints: Sequence[Polynomial], cliques: tuple[Clique, ...] | None) -> frozenset[Polynomial]:
    if cliques is not None:
        return frozenset(g for g, k in zip(constraints, homes(constraints, cliques), strict=True) if k is None)
    if not constraints:
        return frozenset()
    counts = [len(g.variables) for g in constraints]
    limit = max(3.0, 2.0 * float(np.median(counts)))
    return frozenset(g for g, k in zip(constraints, counts, strict=True) if k > limit)


def _notes(cliques: tuple[Clique, ...], chordal: bool) -> tuple[str, ...]:
    holds = chordal or running_intersection(cliques)
    word = "holds" if holds else "does not hold (bounds are valid, convergence is not assured)"
    sizes = sorted(map(len, cliques))
    return (f"{len(cliques)} cliques of {sizes[0]} to {sizes[-1]} variables; the running intersection property {word}",)


def _short(p: Polynomial, problem: PolynomialProblem) -> str:
    text = show(p, problem.names)
    return text if len(text) <= 60 else text[:57] + "..."
