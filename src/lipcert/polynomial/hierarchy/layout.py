"""Which variables share a moment matrix, and which constraints stay out: decided before any monomial is listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.cliques import Clique, chordal_cliques, correlative_graph, homes, running_intersection
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques
from lipcert.polynomial.text import show


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
