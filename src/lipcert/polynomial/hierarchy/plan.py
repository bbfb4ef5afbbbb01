"""The cost of an order of a hierarchy, before anything is solved.

`plan` builds and counts small relaxations. For large ones it computes the size before any splitting, an upper limit,
from binomial coefficients: the number of monomials of degree at most d in k variables, r of which occur at most once,
is

    sum_j  C(r, j) C(k - r + d - j, d - j).

`forecast` adds the expected time, which decides whether the next order is solved and what the advice says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import comb, inf
from typing import Any

from lipcert.budget import Budget
from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import counted
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.hierarchies import (
    MAX_ORDER,
    Clique,
    CliqueLayout,
    chordal_cliques,
    correlative_graph,
    find_rules,
    krivine,
    least_order,
    moment_matrices,
    nearly_sparse_layout,
    one_clique,
    sparse_layout,
)
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.solve import RELAXATIONS, PolynomialOptions, Splitting, relaxation_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, check_cliques, without_trivial
from lipcert.solver.conic.cones import triangle
from lipcert.solver.conic.conic import CLARABEL_ITERATIONS, interior_operations
from lipcert.steps import FACTOR, THIN

AHEAD = 3  # orders that are shown
COUNTED = 1_000_000  # terms of a relaxation that is built to be counted
CLASSES = ((1.0, "less than a second"), (60.0, "seconds"), (3600.0, "minutes"), (86400.0, "hours"), (inf, "days"))


@dataclass(frozen=True)
class OrderSize:
    """The size of one order: `blocks` are pairs (order of the matrices, how many), largest first.

    `rows` are scalar equalities and inequalities. Without `counted` these are upper limits: the relaxation before it is
    split. `seconds` is a guess for one core, of the time of an interior point.
    """

    order: int
    moments: int
    rows: int
    blocks: tuple[tuple[int, int], ...]
    counted: bool
    seconds: float

    @property
    def verdict(self) -> str:
        """The guess in words."""
        largest = self.blocks[0][0] if self.blocks else 0
        if largest > MAX_ORDER:
            return f"beyond the limit of {MAX_ORDER} for a matrix"
        return next(word for limit, word in CLASSES if self.seconds <= limit)

    def facts(self) -> str:
        """One line for a person."""
        most = "" if self.counted else "at most "
        shown = ", ".join(f"{count} of order {order}" for order, count in self.blocks[:4])
        rest = sum(count for _, count in self.blocks[4:])
        shown = (shown or "none") + (f", {rest} smaller" if rest else "")
        sizes = f"{counted(self.moments, 'moment')}, {counted(self.rows, 'row')}"
        return f"{most}{sizes}; matrices: {shown}; {self.verdict}"


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """The stages of a hierarchy, and how it was set up."""

    relaxation: str
    sparsity: str
    stages: tuple[OrderSize, ...]
    notes: tuple[str, ...] = field(default=())

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        rows = [(f"order {s.order}", s.facts()) for s in self.stages]
        return Facts(
            f"The {self.relaxation} relaxation, sparsity {self.sparsity}", [*rows, *(("note", n) for n in self.notes)]
        )

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        stages = [
            {
                "order": s.order,
                "moments": s.moments,
                "rows": s.rows,
                "blocks": [{"order": order, "count": count} for order, count in s.blocks],
                "counted": s.counted,
                "seconds": float(f"{s.seconds:.2g}"),
                "verdict": s.verdict,
            }
            for s in self.stages
        ]
        return {"relaxation": self.relaxation, "sparsity": self.sparsity, "stages": stages, "notes": list(self.notes)}


def plan(
    problem: PolynomialProblem,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    *,
    ahead: int = AHEAD,
) -> Plan:
    """The sizes of this order of a relaxation and of the next two (`ahead` in all); other arguments as in `minimize`.

    Nothing is solved, and relaxations of more than a few million terms are not even built.
    """
    return _planned(
        problem, PolynomialOptions(relaxation, order, cliques, bad, Splitting(sparsity, sparse_order)), ahead
    )


def _planned(problem: PolynomialProblem, options: PolynomialOptions, ahead: int) -> Plan:
    """The sizes of so many orders from the one in the options, or from the least one."""
    problem, relaxation, order = without_trivial(problem), options.relaxation, options.number
    given = None if options.cliques is None else tuple(tuple(c) for c in options.cliques)
    named = None if options.bad is None else tuple(p for p in options.bad if p.degree)
    word = options.splitting.sparsity or ("none" if relaxation == "krivine" else "term")
    if relaxation == "krivine":
        first = max(2, problem.objective.degree) if order is None else order
        return Plan(relaxation, word, tuple(_linear(problem, d, given) for d in range(first, first + ahead)))
    first = least_order(problem) if order is None else order
    layout = _layout(problem, relaxation, given, named)
    stages, notes = [], layout.notes
    for d in range(first, first + ahead):
        if _terms(problem, d, layout) <= COUNTED:
            model = relaxation_of(problem, replace(options, order=d, cliques=given, bad=named))
            notes = (*notes, f"order {d}: {model.notes[-1]}") if len(model.notes) > len(layout.notes) else notes
            stages.append(_counted(d, model))
        else:
            stages.append(_estimated(problem, d, layout))
    return Plan(relaxation, word, tuple(stages), notes)


def _layout(
    problem: PolynomialProblem,
    relaxation: str,
    cliques: Sequence[Sequence[int]] | None,
    bad: Sequence[Polynomial] | None,
) -> CliqueLayout:
    if relaxation not in RELAXATIONS:
        raise InputError(f"relaxation {relaxation!r}: must be one of {', '.join(RELAXATIONS)}")
    if relaxation == "sparse":
        return sparse_layout(problem, cliques)
    return nearly_sparse_layout(problem, cliques, bad) if relaxation == "nearly-sparse" else one_clique(problem)


def _linear(problem: PolynomialProblem, degree: int, cliques: Sequence[Sequence[int]] | None) -> OrderSize:
    """A Krivine relaxation: its products are listed, not multiplied out."""
    model = krivine(problem, degree, cliques)
    rows = len(model.equalities) + sum(len(p.rows) for p in model.products)
    if cliques is None:
        graph = correlative_graph(problem.n, problem.objective, problem.inequalities + problem.equalities)
        layout = CliqueLayout(chordal_cliques(graph), running=True)
    else:
        layout = CliqueLayout(check_cliques(cliques, problem.n))
    largest = max((f.degree for p in model.products for f in p.factors), default=1)
    return _stage(degree, _union(layout, degree * largest, set(model.rules), problem.n) - 1, rows, {}, False)


def _counted(order: int, model: MomentModel) -> OrderSize:
    problem = model.conic().problem
    rows = sum(cone.size for cone in problem.cones if cone.kind != "psd")
    return _stage(order, problem.columns, rows, Counter(problem.orders), True, float(problem.A.nnz))


def _estimated(problem: PolynomialProblem, order: int, layout: CliqueLayout) -> OrderSize:
    """An upper limit on every count."""
    rules, equalities = find_rules([h for h in problem.equalities if layout.is_nice(h)])
    simple = set(rules)
    sizes: Counter[int] = Counter()
    for variables, degree, _ in moment_matrices(problem, order, layout):
        sizes[monomial_count(variables, degree, simple)] += 1
    rows = sum(_largest(layout.cliques, 2 * order - h.degree, simple) for h in equalities)
    rows += sizes.pop(1, 0) + sum(not layout.is_nice(g) for g in (*problem.inequalities, *problem.equalities))
    moments = _union(layout, 2 * order, simple, problem.n) - 1
    terms = float(_terms(problem, order, layout))
    return _stage(order, moments, rows, sizes, False, terms)


def _stage(
    order: int, moments: int, rows: int, blocks: dict[int, int], counted: bool, entries: float = 0.0
) -> OrderSize:
    orders = tuple(sorted(((int(n), int(k)) for n, k in blocks.items() if n > 1), reverse=True))
    work = interior_operations((n for n, k in orders for _ in range(k)), entries or float(rows))
    seconds = Budget.unlimited().expected(CLARABEL_ITERATIONS * work, FACTOR)
    return OrderSize(order, moments, rows, orders, counted, seconds)


def _terms(problem: PolynomialProblem, order: int, layout: CliqueLayout) -> int:
    """The number of terms of all entries of all matrices."""
    simple = set(find_rules([h for h in problem.equalities if layout.is_nice(h)])[0])
    total = 0
    for variables, degree, g in moment_matrices(problem, order, layout):
        total += triangle(monomial_count(variables, degree, simple)) * (1 if g is None else len(g.coefficients))
    return total


def monomial_count(variables: Clique, degree: int, simple: set[int]) -> int:
    """How many monomials of at most this degree there are; `simple` variables occur at most once."""
    once = len(simple.intersection(variables))
    free = len(variables) - once
    return sum(comb(once, j) * comb(free + degree - j, degree - j) for j in range(min(once, degree) + 1))


def _union(layout: CliqueLayout, degree: int, simple: set[int], n: int) -> int:
    """Monomials in the moments of all cliques: those of each without those it shares with earlier ones.

    Exact where the cliques come in an order with the running intersection property; else an upper limit.
    """
    total, seen = 0, set[int]()
    for clique in layout.cliques:
        shared = tuple(i for i in clique if i in seen)
        total += monomial_count(clique, degree, simple)
        if seen:  # at least the monomial 1 was there; all that is shared if it lies in one earlier clique
            total -= monomial_count(shared, degree, simple) if layout.running else 1
        seen |= set(clique)
    return total + (comb(n + 2, 2) if layout.bad is not None else 0)


def _largest(cliques: Sequence[Clique], degree: int, simple: set[int]) -> int:
    return max(monomial_count(c, degree, simple) for c in cliques)


# Iterations that SCS is expected to need. Dense relaxations of box-constrained quadratic programs, from 5 variables at
# order 3 to 15 variables at order 2, took 300 to 700.
_SCS_ITERATIONS = 500


@dataclass(frozen=True)
class Forecast:
    """The size of the relaxation, and about how many seconds it takes here and now."""

    stage: OrderSize
    seconds: float

    @property
    def order(self) -> int:
        return self.stage.order

    @property
    def largest(self) -> int:
        """The order of the largest matrix."""
        return self.stage.blocks[0][0] if self.stage.blocks else 1

    def words(self) -> str:
        """For advice."""
        count = sum(k for _, k in self.stage.blocks)
        if self.seconds < 60:
            time = f"about {max(1, round(self.seconds))} s"
        else:
            time = (
                f"about {round(self.seconds / 60)} min" if self.seconds < 7200 else f"some {self.seconds / 3600:.0f} h"
            )
        sizes = f"{count} matrices of order up to {self.largest}" if count > 1 else f"a matrix of order {self.largest}"
        return f"{'' if self.stage.counted else 'at most '}{sizes}, {time}"


def forecast(problem: PolynomialProblem, options: PolynomialOptions, budget: Budget | None = None) -> Forecast:
    """The relaxation of the order in the options: counted where it is small, else an upper limit."""
    size = _planned(problem, options, 1).stages[0]
    return Forecast(size, _seconds(size, budget or Budget.unlimited()))


def _seconds(stage: OrderSize, budget: Budget) -> float:
    """The time of an interior point, or of a first-order method where it is sooner."""
    cubes = sum(25.0 * float(n) ** 3 * k for n, k in stage.blocks)
    return min(stage.seconds, budget.expected(_SCS_ITERATIONS * cubes, THIN))
