"""Krivine-Stengle (Sherali-Adams) linear relaxations: products of at most k factors, no semidefinite block.

    max gamma   s.t.   f - gamma = sum_p lambda_p prod_{j in p} g_j,   lambda >= 0,

p over multisets of at most k factors g_j >= 0 whose variables lie in one clique [Kri64, Ste74, LRC20].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.cliques import Clique, chordal_cliques, correlative_graph
from lipcert.polynomial.hierarchy.hierarchies import find_rules
from lipcert.polynomial.hierarchy.model import MomentModel, Products
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques, variable_bounds

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
    products = [Products(everything, rows)] if len(rows) else []
    if len(zeros):
        products.append(Products(everything, zeros, True))
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
