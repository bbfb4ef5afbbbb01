"""LipOpt-k: the Krivine-Stengle linear program of degree k on the cliques of the gradient polynomial [LRC20].

    min gamma   s.t.   gamma - f = sum over products h of multiplier_h h,    multiplier_h >= 0

The products are those of k distinct variables of one clique, each factor x or 1 - x (of the whole clique, when it is
smaller than k). Repeated factors and shorter products change nothing: on a multilinear f, x (1-x) contributes as 0 does
and x^2 as x does, and 1 = x + (1-x) makes long products of short ones. The dual has one moment per monomial, which is
how it is stated here: max L(f) s.t. L(h) >= 0.

There may be millions of products, of which an optimum needs thousands: the program begins with those of f's own
monomials, and what its moments violate is added until nothing is (`polynomial.lcep.separation`), or until f has the
bound as a value. Rows without a multiplier are dropped as long as the bound falls.

f is the gradient over s = (1+t)/2 and slopes in [0, 1] (`polynomial.lcep.chain`); for ReLU the slopes of stable
neurons are known.

[LRC20] Latorre, Rolland, Cevher: Lipschitz constant estimation of neural networks via sparse polynomial optimization,
ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy import sparse

from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.polynomial.lcep.chain import Index, Multilinear, gradient_polynomial
from lipcert.polynomial.lcep.products import KrivineProgram, product_family
from lipcert.polynomial.lcep.separation import Lattice, Mask, ProductSums, Selection
from lipcert.problem.problem import Problem
from lipcert.proof.polynomials import prove_krivine
from lipcert.rounding import Array
from lipcert.solver.conic.conic import Cone, ConicProblem, ConicSolution, ConicStatus, solve_conic
from lipcert.steps import SPARSE

CLOSED = 1e-8  # relative: a value of f so near to the bound ends the search
STARTS = 16  # starts of the search for values of f
_LEAST_ROWS = 300  # rows that are added at once
_GROWTH = (0.5, 0.25)  # of the program's rows that are added at once: of up to three variables, and of more,
_GROWTH_AT_REST = (1.0, 1.0)  # and where the last ones changed nothing
_FEW = 3
_GAIN = 1e-4  # relative: less is no change
_NOTHING = 1e-140  # a bound below this is zero: gains relative to it are measured against this instead
_IDLE = 1e-6  # relative to the largest multiplier: a row with a smaller one may be dropped


@dataclass(frozen=True, eq=False)
class LipOptBound:
    """`upper` is proved from `values` alone, the multipliers of the products with these `numbers` in the family.

    `floor` is a value of f on its box: no program of any degree proves less (but for rounding). `rows` and `monomials`
    are those of the last program that was solved, `products` all that there are.
    """

    upper: float
    floor: float
    degree: int
    numbers: Index
    values: Array
    status: ConicStatus
    solver: str
    products: int
    rows: int
    monomials: int
    rounds: int


def lipopt(
    problem: Problem,
    degree: int = 3,
    *,
    pre: tuple[Interval, ...] | None = None,
    solver: str = "auto",
    budget: Budget | None = None,
) -> LipOptBound:
    """LipOpt of this degree in the infinity norm, for one or two hidden layers; `pre` as in `gradient_chain`."""
    depth = problem.network.depth
    if depth > 2:
        raise MethodError(f"LipOpt is for one or two hidden layers; this network has {depth}")
    return bound_polynomial(gradient_polynomial(problem, pre), degree, solver=solver, budget=budget)


def bound_polynomial(f: Multilinear, degree: int, *, solver: str = "auto", budget: Budget | None = None) -> LipOptBound:
    """LipOpt of this degree of any multilinear polynomial, on its cliques."""
    family, budget = product_family(f, degree), budget or Budget.unlimited()
    search = _RowGeneration(f, Lattice.of(f, degree), solver, budget)
    status = search.run()
    selection, multipliers = search.best
    numbers, values = selection.numbered(multipliers, family)
    rows, monomials = selection.program.shape
    return LipOptBound(
        prove_krivine(family.program(f, numbers), values),
        search.floor,
        degree,
        numbers,
        values,
        status,
        search.solved_by,
        family.starts[-1],
        rows,
        monomials,
        search.rounds,
    )


def conic(program: KrivineProgram) -> ConicProblem:
    """max objective'y / unit s.t. constants + products y >= 0; see `multipliers` for its dual vector z."""
    cones = (Cone("nonnegative", program.shape[0]),)
    return ConicProblem(-program.objective / program.unit, -program.products, program.constants, cones)


def multipliers(program: KrivineProgram, solution: ConicSolution) -> Array:
    """The multipliers that the solver suggests for the proof."""
    return np.asarray(solution.z * program.unit)


class _RowGeneration:
    """Programs that grow by what their optimum violates."""

    def __init__(self, f: Multilinear, lattice: Lattice, solver: str, budget: Budget) -> None:
        self.f, self.lattice, self.solver, self.budget = f, lattice, solver, budget
        self.further = [ProductSums.none() for _ in lattice.sets]
        self.dropped = [np.empty(0, dtype=np.int64) for _ in lattice.sets]
        self.upper, self.floor, self.rounds = inf, -inf, 0
        self.best: tuple[Selection, Array]
        self.solved_by = solver

    def run(self) -> ConicStatus:
        """Until nothing is violated, f attains the bound, or the budget is over."""
        while True:
            selection = Selection.of(self.lattice, self.f, self.further)
            if not self.rounds:
                self.best = selection, np.zeros(selection.program.shape[0])
            self.rounds += 1
            found = solve_conic(conic(selection.program), self.solver, budget=self.budget)
            self.solved_by, gain = found.solver, self._improved(selection, found)
            if not np.all(np.isfinite(found.x)) or not found.status.has_solution:
                return found.status
            self.floor = max(self.floor, largest_value(self.f, selection.means(found.x), self.rounds))
            if self.upper - self.floor <= CLOSED * abs(self.floor):
                return ConicStatus.OPTIMAL
            if gain > _GAIN:
                self._drop_idle(selection, found)
            if not self._add_violated(selection, found, _GROWTH if gain > _GAIN else _GROWTH_AT_REST):
                return ConicStatus.OPTIMAL
            if self.budget.over():
                return ConicStatus.TIME_LIMIT

    def _improved(self, selection: Selection, found: ConicSolution) -> float:
        """How much lower the bound is, relative to the one before; inf the first time."""
        z = multipliers(selection.program, found)
        upper, before = prove_krivine(selection.program, z), self.upper
        if upper < before:
            self.best, self.upper = (selection, z), upper
        return (before - upper) / max(abs(before), _NOTHING) if np.isfinite(before) else inf

    def _drop_idle(self, selection: Selection, found: ConicSolution) -> None:
        """Rows that were dropped before and came back stay: no row goes twice."""
        least = _IDLE * float(np.abs(found.z).max(initial=0.0))
        for size, rows in enumerate(self.further):
            idle = (found.z[selection.further[size]] <= least) & ~np.isin(rows.names, self.dropped[size])
            self.dropped[size] = np.concatenate([self.dropped[size], rows.names[idle]])
            self.further[size] = rows[~idle]

    def _add_violated(self, selection: Selection, found: ConicSolution, growth: tuple[float, float]) -> bool:
        """Add violated rows; whether there are any. Rows of more variables bring their own moments: fewer at once."""
        least, rows = _LEAST_ROWS, selection.program.shape[0]
        most = [max(least, int(growth[size > _FEW] * rows)) for size in range(len(self.lattice.sets))]
        with self.budget.measured(selection.looked_at(), SPARSE):
            violated = selection.violated(found.x, most)
        self.further = [rows + more for rows, more in zip(self.further, violated, strict=True)]
        return any(len(more) for more in violated)


def largest_value(f: Multilinear, likely: Array, seed: int) -> float:
    """A value of f at a corner of the box: corners drawn with these likelihoods, one variable changed at a time."""
    if not len(f.coefficients):
        return f.constant
    x = np.random.default_rng(seed).random((STARTS, f.n)) < likely
    x[0] = likely >= 0.5
    slopes = _CornerDerivatives(f)
    for _ in range(4 * f.n):
        slope = slopes(x)
        gain = np.where(x, -slope, slope)
        best = gain.argmax(axis=1)
        better = gain[np.arange(len(x)), best] > 0
        if not better.any():
            break
        x[better, best[better]] ^= True
    return float((f.constant + _padded(x)[:, f.indices].all(axis=2) @ f.coefficients).max())


class _CornerDerivatives:
    """The partial derivatives of f at corners, a row of True and False each."""

    def __init__(self, f: Multilinear) -> None:
        terms, width = f.indices.shape
        self.others = [np.delete(f.indices, column, axis=1) for column in range(width)]
        shape = (terms, f.n + 1)  # the last column is that of the padding
        self.weights = [
            sparse.csr_array((f.coefficients, (np.arange(terms), f.indices[:, column] % (f.n + 1))), shape)
            for column in range(width)
        ]

    def __call__(self, x: Mask) -> Array:
        padded = _padded(x)
        parts = zip(self.others, self.weights, strict=True)
        total = sum(weights.T @ padded[:, others].all(axis=2).T.astype(np.float64) for others, weights in parts)
        return np.asarray(total)[:-1].T


def _padded(x: Mask) -> Mask:
    """The points with a last column of ones, which index -1 finds."""
    return np.concatenate([x, np.ones((len(x), 1), dtype=bool)], axis=1)
