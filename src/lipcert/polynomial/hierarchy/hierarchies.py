"""Moment hierarchies of a polynomial problem  min { f : g_i >= 0, h_j = 0 }.

    dense          M_d(y) >= 0,  M_{d-w_i}(g_i y) >= 0                       (MomOpt-d)       [Las01]
    sparse         M_d(y, I_k) >= 0,  M_{d-w_i}(g_i y, I_k(i)) >= 0          (MomSpOpt-d)     [WKKM06, Las06]
    nearly_sparse  sparse for the nice constraints, M_1(y) >= 0, and         (MomNlySpOpt-d)  [CLMP20]
                   L(g) >= 0 for the bad ones; L(h) = L(h^2) = 0 for bad affine equalities h = 0

w_i = ceil(deg g_i / 2). Equalities in one variable such as u^2 = u become rules that reduce the monomials.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.cliques import Clique, chordal_cliques, correlative_graph, home, running_intersection
from lipcert.polynomial.hierarchy.model import Block, MomentModel, Products, Rules
from lipcert.polynomial.monomials import all_monomials
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques
from lipcert.polynomial.text import show

MAX_ORDER = 5000  # of one moment matrix


def dense(problem: PolynomialProblem, order: int) -> MomentModel:
    """MomOpt-d: one moment matrix over all variables."""
    return _on_cliques(problem, order, (tuple(range(problem.n)),), ())


def sparse(problem: PolynomialProblem, order: int, cliques: Iterable[Sequence[int]] | None = None) -> MomentModel:
    """MomSpOpt-d on given cliques, or on those of the chordal correlative sparsity graph.

    Every constraint and every monomial of the objective must fit in a clique. Whether the cliques have the running
    intersection property (so that the hierarchy converges) is said in the model's notes; bounds are valid either way.
    """
    constraints = problem.inequalities + problem.equalities
    if cliques is None:
        chosen = chordal_cliques(correlative_graph(problem.n, problem.objective, constraints))
    else:
        chosen = check_cliques(cliques, problem.n)
    for g in constraints:
        if home(g, chosen) is None:
            raise InputError(
                f"no clique contains the variables of the constraint {_short(g, problem)}; "
                "give larger cliques or use the nearly sparse hierarchy"
            )
    return _on_cliques(problem, order, chosen, _notes(chosen))


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
    constraints = problem.inequalities + problem.equalities
    chosen = None if cliques is None else check_cliques(cliques, problem.n)
    named = set(bad) if bad is not None else _find_bad(constraints, chosen)
    unknown = named - set(constraints)
    if unknown:
        raise InputError(f"bad constraint {_short(next(iter(unknown)), problem)} is not a constraint of the problem")
    nice = [g for g in constraints if g not in named]
    if chosen is None:
        high = problem.objective.indices[(problem.objective.indices >= 0).sum(axis=1) > 2]
        chosen = chordal_cliques(correlative_graph(problem.n, Polynomial(high, np.ones(len(high))), nice))
    for g in nice:
        if home(g, chosen) is None:
            raise InputError(f"the constraint {_short(g, problem)} fits no clique: name it among the bad ones")
    return _on_cliques(problem, order, chosen, _notes(chosen), named)


def _find_bad(constraints: Sequence[Polynomial], cliques: tuple[Clique, ...] | None) -> set[Polynomial]:
    if cliques is not None:
        return {g for g in constraints if home(g, cliques) is None}
    if not constraints:
        return set()
    counts = [len(g.variables) for g in constraints]
    limit = max(3.0, 2.0 * float(np.median(counts)))
    return {g for g, k in zip(constraints, counts, strict=True) if k > limit}


def _on_cliques(
    problem: PolynomialProblem,
    order: int,
    cliques: tuple[Clique, ...],
    notes: tuple[str, ...],
    bad: set[Polynomial] | None = None,
) -> MomentModel:
    """The hierarchy of this order on these cliques; `bad` not None adds M_1 and the rows of the bad constraints."""
    named = bad or set()
    rules, equalities = find_rules([h for h in problem.equalities if h not in named])
    inequalities = [g for g in problem.inequalities if g not in named]
    _check_order(problem, order, [*inequalities, *equalities], bad is None)
    whole = tuple(range(problem.n))
    first = bad is not None and whole not in cliques
    blocks = [Block(((), *((i,) for i in whole)))] if first else []
    if not (first and order == 1):  # inside M_1 already
        blocks += [Block(_basis(clique, order, rules)) for clique in cliques]
    for g in inequalities:
        k = home(g, cliques)
        clique = cliques[k] if k is not None else whole
        blocks.append(Block(_basis(clique, order - (g.degree + 1) // 2, rules), g))
    rows = [row for h in equalities for row in _equality_rows(h, cliques, order, rules)]
    squares = tuple(h for h in problem.equalities if h in named and h.degree == 1)
    return MomentModel(
        objective=problem.objective,
        sense=problem.sense,
        blocks=tuple(blocks),
        equalities=tuple(rows) + tuple(h for h in problem.equalities if h in named),
        inequalities=tuple(g for g in problem.inequalities if g in named),
        rules=rules,
        n=problem.n,
        names=problem.names,
        products=(Products(squares, np.repeat(np.arange(len(squares))[:, None], 2, axis=1), True),) if squares else (),
        lower=problem.lower,
        upper=problem.upper,
        notes=notes,
    )


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


def _equality_rows(h: Polynomial, cliques: Sequence[Clique], order: int, rules: Rules) -> list[Polynomial]:
    """h times every monomial of its clique up to degree 2d: L(h m) = 0. Products with monomials are exact."""
    k = home(h, cliques)
    variables = cliques[k] if k is not None else tuple(h.variables.tolist())
    multipliers = all_monomials(variables, 2 * order - h.degree, rules)
    return [h * Polynomial.from_terms({m: 1.0}) for m in multipliers]


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


def _notes(cliques: tuple[Clique, ...]) -> tuple[str, ...]:
    word = "holds" if running_intersection(cliques) else "does not hold (bounds are valid, convergence is not assured)"
    sizes = sorted(map(len, cliques))
    return (f"{len(cliques)} cliques of {sizes[0]} to {sizes[-1]} variables; the running intersection property {word}",)


def _short(p: Polynomial, problem: PolynomialProblem) -> str:
    text = show(p, problem.names)
    return text if len(text) <= 60 else text[:57] + "..."
