"""Moment hierarchies of a polynomial problem  min { f : g_i >= 0, h_j = 0 }, and the cliques that they are built on.

    dense          M_d(y) >= 0,  M_{d-w_i}(g_i y) >= 0                       (MomOpt-d)       [Las01]
    sparse         M_d(y, I_k) >= 0,  M_{d-w_i}(g_i y, I_k(i)) >= 0          (MomSpOpt-d)     [WKKM06, Las06]
    nearly_sparse  sparse for the nice constraints, M_1(y) >= 0, and         (MomNlySpOpt-d)  [CLMP20]
                   L(g) >= 0 for the bad ones; L(h) = L(h^2) = 0 for bad affine equalities h = 0

w_i = ceil(deg g_i / 2). Equalities in one variable such as u^2 = u become rules that reduce the monomials.

`krivine` is the Krivine-Stengle (Sherali-Adams) linear relaxation: products of at most k factors, no semidefinite
block.

    max gamma   s.t.   f - gamma = sum_p lambda_p prod_{j in p} g_j,   lambda >= 0,

p over multisets of at most k factors g_j >= 0 whose variables lie in one clique [Kri64, Ste74, LRC20].

Cliques come from correlative sparsity: the graph of variables that meet, and its chordal extension [WKKM06]. The
running intersection property (RIP): the cliques can be ordered so that for every k

    I_{k+1}  cap  (I_1 cup ... cup I_k)   lies in some I_s,  s <= k.

A `CliqueLayout` says which variables share a moment matrix and which constraints stay out. It is decided before any
monomial is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.sparse import csr_array, triu

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.model import FactorProducts, MomentBlock, MomentModel, Rules
from lipcert.polynomial.monomials import all_monomials, rows_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques, variable_bounds
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
    orphans: list[set[int]] = [set() for _ in graph]  # vertices whose first neighbour to be eliminated may be this one
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
    incidence = csr_array((np.ones(len(members)), members, edges), (len(cliques), int(members.max()) + 1))
    shared = triu(incidence @ incidence.T, 1)
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
class CliqueLayout:
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


def one_clique(problem: PolynomialProblem) -> CliqueLayout:
    """All variables together."""
    return CliqueLayout((tuple(range(problem.n)),))


def sparse_layout(problem: PolynomialProblem, cliques: Iterable[Sequence[int]] | None = None) -> CliqueLayout:
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
    return CliqueLayout(chosen, None, _notes(chosen, cliques is None), cliques is None)


def nearly_sparse_layout(
    problem: PolynomialProblem,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
) -> CliqueLayout:
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
    return CliqueLayout(chosen, named, _notes(chosen, cliques is None), cliques is None)


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


MAX_ORDER = 5000  # order of one moment matrix


def dense(problem: PolynomialProblem, order: int) -> MomentModel:
    """MomOpt-d: one moment matrix over all variables."""
    return on_layout(problem, order, one_clique(problem))


def sparse(problem: PolynomialProblem, order: int, cliques: Iterable[Sequence[int]] | None = None) -> MomentModel:
    """MomSpOpt-d on given cliques, or on those of the chordal correlative sparsity graph.

    Every constraint and every monomial of the objective must fit in a clique. Whether the cliques have the running
    intersection property (so that the hierarchy converges) is said in the model's notes; bounds are valid either way.
    """
    return on_layout(problem, order, sparse_layout(problem, cliques))


def nearly_sparse(
    problem: PolynomialProblem,
    order: int,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
) -> MomentModel:
    """HR-d: a dense M_1, order d on the cliques of the nice constraints, first-order rows for the bad ones.

    `bad` are constraints of the problem (the polynomials themselves). Left out, they are those that fit no clique; with
    no cliques either, those with more than twice the median number of variables of a constraint (and more than three).
    """
    return on_layout(problem, order, nearly_sparse_layout(problem, cliques, bad))


def on_layout(problem: PolynomialProblem, order: int, layout: CliqueLayout) -> MomentModel:
    """The hierarchy of this order on these cliques, with M_1 and the rows of the bad constraints if there are any."""
    rules, equalities = find_rules([h for h in problem.equalities if layout.is_nice(h)])
    bad = [h for h in problem.equalities if not layout.is_nice(h)]
    squares = tuple(h for h in bad if h.degree == 1)
    places = zip(equalities, homes(equalities, layout.cliques), strict=True)
    rows = [row for h, k in places for row in _equality_rows(h, layout.cliques[k or 0], order, rules)]
    return MomentModel(
        objective=problem.objective,
        sense=problem.sense,
        blocks=tuple(MomentBlock(_basis(v, d, rules), g) for v, d, g in moment_matrices(problem, order, layout)),
        equalities=(*rows, *bad),
        inequalities=tuple(g for g in problem.inequalities if not layout.is_nice(g)),
        rules=rules,
        n=problem.n,
        names=problem.names,
        products=(FactorProducts(squares, np.repeat(np.arange(len(squares))[:, None], 2, axis=1), True),)
        if squares
        else (),
        lower=problem.lower,
        upper=problem.upper,
        notes=layout.notes,
    )


def moment_matrices(
    problem: PolynomialProblem, order: int, layout: CliqueLayout
) -> list[tuple[Clique, int, Polynomial | None]]:
    """Variables, degree of the basis, and multiplier of every moment matrix of the hierarchy."""
    cliques = layout.cliques
    inequalities = [g for g in problem.inequalities if layout.is_nice(g)]
    equalities = [h for h in problem.equalities if layout.is_nice(h)]
    _check_order(problem, order, [*inequalities, *find_rules(equalities)[1]], layout.bad is None)
    whole = tuple(range(problem.n))
    first = layout.bad is not None and whole not in cliques
    matrices: list[tuple[Clique, int, Polynomial | None]] = [(whole, 1, None)] if first else []
    if not (first and order == 1):  # inside M_1 already
        matrices += [(clique, order, None) for clique in cliques]
    for g, k in zip(inequalities, homes(inequalities, cliques), strict=True):
        matrices.append((cliques[k or 0], order - (g.degree + 1) // 2, g))
    return matrices


def find_rules(equalities: Sequence[Polynomial]) -> tuple[dict[int, Polynomial], list[Polynomial]]:
    """Rules x_i^2 = a x_i + b among the equalities, where dividing by the leading coefficient is exact; the rest."""
    rules: dict[int, Polynomial] = {}
    rest: list[Polynomial] = []
    for h in equalities:
        rule = rule_of(h)
        if rule is None or rule[0] in rules:
            rest.append(h)
        else:
            rules[rule[0]] = rule[1]
    return rules, rest


def rule_of(h: Polynomial) -> tuple[int, Polynomial] | None:
    """The rule of one equality, where it is one: the variable and a x + b."""
    if h.degree != 2 or len(h.variables) != 1:
        return None
    i = int(h.variables[0])
    lead = h.coefficient((i, i))
    parts = {m: (v, -v / lead) for m, v in h.terms().items() if len(m) < 2}
    if any(Fraction(q) * Fraction(lead) != -Fraction(v) for v, q in parts.values()):
        return None
    return i, Polynomial.from_terms({m: q for m, (_, q) in parts.items()})


def _equality_rows(h: Polynomial, clique: Clique, order: int, rules: Rules) -> list[Polynomial]:
    """h times every monomial of its clique up to degree 2d: L(h m) = 0. Products with monomials are exact."""
    return h.multiples(rows_of(all_monomials(clique, 2 * order - h.degree, rules)))


def _basis(clique: Clique, degree: int, rules: Rules) -> tuple[tuple[int, ...], ...]:
    basis = all_monomials(clique, degree, rules)
    if len(basis) > MAX_ORDER:
        raise InputError(f"a moment matrix of order {len(basis)} is beyond the limit of {MAX_ORDER}; lower the order")
    return tuple(basis)


def _check_order(problem: PolynomialProblem, order: int, constraints: Sequence[Polynomial], full: bool) -> None:
    polynomials = [*constraints, problem.objective] if full else list(constraints)
    least = max([1, *((p.degree + 1) // 2 for p in polynomials)])
    if order < least:
        raise InputError(f"order {order} is too low: the degrees in this problem need order {least} at least")


def least_order(problem: PolynomialProblem) -> int:
    """The first order of the hierarchy that can express the problem."""
    return max([1, *((p.degree + 1) // 2 for p in problem.polynomials)])


MAX_PRODUCTS = 20_000_000


def krivine(
    problem: PolynomialProblem,
    degree: int,
    cliques: Iterable[Sequence[int]] | None = None,
    factors: Iterable[Polynomial] | None = None,
) -> MomentModel:
    """The LP of all products of at most `degree` factors on each clique.

    `factors` are polynomials that are >= 0 on the feasible set; left out, they are x_i - lower_i and upper_i - x_i for
    the known bounds, and every inequality that is not such a bound itself. Equalities enter as products with factors,
    or as rules (u^2 = u). A monomial of the objective that no product covers is an error when the LP is built.
    """
    if degree < 1:
        raise InputError(f"degree {degree}: products need at least one factor")
    if cliques is None:
        graph = correlative_graph(problem.n, problem.objective, problem.inequalities + problem.equalities)
        chosen = chordal_cliques(graph)
    else:
        chosen = check_cliques(cliques, problem.n)
    listed = tuple(_default_factors(problem)) if factors is None else tuple(factors)
    rules, equalities = find_rules(problem.equalities)
    everything = (*listed, *equalities)
    rows, zeros = _rows(listed, equalities, chosen, degree)
    products = [FactorProducts(everything, rows)] if len(rows) else []
    if len(zeros):
        products.append(FactorProducts(everything, zeros, True))
    return MomentModel(
        objective=problem.objective,
        sense=problem.sense,
        equalities=tuple(equalities),
        rules=rules,
        n=problem.n,
        names=problem.names,
        products=tuple(products),
        lower=problem.lower,
        upper=problem.upper,
        notes=(f"{len(rows)} products of at most {degree} of {len(listed)} factors on {len(chosen)} cliques",),
    )


def _default_factors(problem: PolynomialProblem) -> list[Polynomial]:
    lower, upper = variable_bounds(problem)
    factors = [Polynomial.affine(-float(v), [i], [1.0]) for i, v in enumerate(lower) if np.isfinite(v)]
    factors += [Polynomial.affine(float(v), [i], [-1.0]) for i, v in enumerate(upper) if np.isfinite(v)]
    return factors + [g for g in problem.inequalities if len(g.variables) > 1 or g.degree > 2]


def _rows(
    factors: Sequence[Polynomial], equalities: Sequence[Polynomial], cliques: Sequence[Clique], degree: int
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Multisets of factors by clique, each once; and every equality times fewer factors."""
    supports = [frozenset(f.variables.tolist()) for f in factors]
    kept: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
    zeros: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
    total = 0
    for clique in cliques:
        members = [k for k, s in enumerate(supports) if s <= set(clique)]
        total += comb(len(members) + degree, degree)
        if total > MAX_PRODUCTS:
            raise InputError(f"more than {MAX_PRODUCTS} products: lower the degree or give smaller cliques")
        kept.append(_multisets(members, degree))
        inside = [k for k, h in enumerate(equalities) if set(h.variables.tolist()) <= set(clique)]
        fewer = _multisets(members, degree - 1)
        zeros += [np.column_stack([fewer, np.full(len(fewer), len(factors) + k)]) for k in inside if len(fewer)]
    return _distinct(kept, degree), _distinct(zeros, degree)


def _multisets(members: Sequence[int], size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """All multisets of 1 to `size` members, padded with -1 on the left."""
    if size < 1 or not members:
        return np.zeros((0, max(size, 0)), dtype=np.int64)
    rows = np.array(list(combinations_with_replacement([-1, *members], size)), dtype=np.int64)
    return rows[rows[:, -1] >= 0]


def _distinct(
    parts: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.int64]]], width: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.unique(np.concatenate([np.zeros((0, width), dtype=np.int64), *parts]), axis=0)
