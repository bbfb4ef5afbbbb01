"""LipOpt-k: the Krivine-Stengle linear program of degree k on the cliques of the gradient polynomial [LRC20].

    min gamma   s.t.   gamma - f = sum over products h of multiplier_h h,    multiplier_h >= 0

The products are those of k distinct variables of one clique, each factor x or 1 - x (of the whole clique, when it is
smaller than k). Repeated factors and shorter products change nothing: on a multilinear f, x (1-x) contributes as 0 does
and x^2 as x does, and 1 = x + (1-x) makes long products of short ones. The dual has one moment per monomial, which is
how it is stated here: max L(f) s.t. L(h) >= 0.

f is the gradient over s = (1+t)/2 and slopes in [0, 1] (`polynomial.lcep.chain`); for ReLU the slopes of stable
neurons are known.

[LRC20] Latorre, Rolland, Cevher: Lipschitz constant estimation of neural networks via sparse polynomial optimization,
ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.propagation import Interval
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.polynomial.lcep.chain import Index, Multilinear, gradient_polynomial
from lipcert.problem.problem import Problem
from lipcert.proof.krivine import prove_krivine
from lipcert.rounding import Array
from lipcert.solver.conic.conic import Cone, ConicProblem, ConicSolution, solve_conic

MAX_PRODUCTS = 40_000_000
FIRST_ORDER_FROM = 150_000  # products: from about here PDLP is faster than the interior point


@dataclass(frozen=True, eq=False)
class KrivineProgram:
    """Row h of `products` expands one product of factors in the monomials; `constants` is its part without variables.

    The first monomial is not 1: f = constant + objective'm. All monomials and all products lie in [0, 1] and
    [0, infinity) on the box.
    """

    products: sparse.csc_array  # (number of products, number of monomials), entries 1 and -1
    constants: Array
    objective: Array
    constant: float
    error: float

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.products.shape[0]), int(self.products.shape[1])

    @property
    def unit(self) -> float:
        """The power of two that the solver counts the objective in."""
        top = float(np.abs(self.objective).max(initial=0.0))
        return 2.0 ** float(np.clip(np.floor(np.log2(top)), -900, 900)) if top else 1.0

    def conic(self) -> ConicProblem:
        """max objective'y / unit s.t. constants + products y >= 0; see `multipliers` for its dual vector z."""
        cones = (Cone("nonnegative", self.shape[0]),)
        return ConicProblem(-self.objective / self.unit, -self.products, self.constants, cones)

    def multipliers(self, solution: ConicSolution) -> Array:
        """What the solver suggests for the proof."""
        return np.asarray(solution.z * self.unit)


def lipopt_program(f: Multilinear, degree: int) -> KrivineProgram:
    """The products of `degree` factors over the cliques of f; refused when they do not reach a monomial of f."""
    if degree < 1:
        raise MethodError(f"LipOpt-{degree}: the degree must be at least 1")
    base = f.n + 1
    if base**degree >= 2**62:
        raise MethodError(f"LipOpt-{degree} on {f.n} variables is too large")
    count = sum(comb(len(clique) - 1, degree - 1) for clique in f.cliques) << degree
    if count > MAX_PRODUCTS:
        raise MethodError(f"LipOpt-{degree} has more than {count:,} products here; the limit is {MAX_PRODUCTS:,}")
    sets = _sets(f.cliques, degree, base)
    keys = np.unique(np.concatenate([_key(s[:, list(w)], base) for s in sets for w in _subsets(s.shape[1])]))
    rows, columns, values, constants = _expanded(sets, keys, base)
    matrix = sparse.csc_array((values, (rows, columns)), (len(constants), len(keys)))
    return KrivineProgram(matrix, constants, _objective(f, keys, base), f.constant, f.error)


@dataclass(frozen=True, eq=False)
class LipOptBound:
    """`upper` is proved from `program.multipliers(solution)`; the solver's own value is not in it."""

    upper: float
    degree: int
    program: KrivineProgram
    solution: ConicSolution


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
    program = lipopt_program(gradient_polynomial(problem, pre), degree)
    if solver == "auto" and program.shape[0] > FIRST_ORDER_FROM:
        solver = "highs-pdlp"
    solution = solve_conic(program.conic(), solver, budget=budget)
    return LipOptBound(prove_krivine(program, program.multipliers(solution)), degree, program, solution)


def _sets(cliques: tuple[Index, ...], degree: int, base: int) -> list[Index]:
    """Sets of `degree` variables within a clique, each once; smaller cliques whole. One array per size."""
    found: dict[int, list[Index]] = {}
    rest: dict[bytes, Index] = {}
    for clique in cliques:
        size = min(degree, len(clique))
        others = clique[1:][_table(len(clique) - 1, size - 1)] if size > 1 else np.empty((1, 0), dtype=np.int64)
        own = np.full((len(others), 1), clique[0])
        found.setdefault(size, []).append(np.concatenate([own, others], axis=1))
        rest[clique[1:].tobytes()] = clique[1:]
    for others in rest.values():
        if len(others) >= degree:
            found.setdefault(degree, []).append(others[_table(len(others), degree)])
    return [_distinct(parts, base) for _, parts in sorted(found.items())]


def _distinct(parts: list[Index], base: int) -> Index:
    rows = np.concatenate(parts)
    return rows[np.unique(_key(rows, base), return_index=True)[1]]


def _table(n: int, k: int) -> Index:
    """All k-subsets of range(n), one per row."""
    flat = np.fromiter((i for row in combinations(range(n), k) for i in row), dtype=np.int64, count=comb(n, k) * k)
    return flat.reshape(-1, k)


def _key(rows: Index, base: int) -> Index:
    """One integer per row of distinct ascending variables, the same for every length that holds the same set."""
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        key = key * base + (column + 1)
    return key


def _subsets(k: int) -> list[tuple[int, ...]]:
    """The non-empty subsets of range(k)."""
    return [w for d in range(1, k + 1) for w in combinations(range(k), d)]


def _expanded(sets: list[Index], keys: Index, base: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Array, Array]:
    """Coordinates of the expanded products.

    prod_{ones} x prod_{others} (1 - x) is the sum over W, ones <= W <= all, of (-1)^|W - ones| prod_W x. Product
    number 2^k e + pattern belongs to set e; bit q of the pattern is set when factor q is x.
    """
    rows: list[NDArray[np.int32]] = []
    columns: list[NDArray[np.int32]] = []
    values: list[Array] = []
    constants: list[Array] = []
    start = 0
    for s in sets:
        k, n = s.shape[1], len(s)
        row = start + (np.arange(n, dtype=np.int32) << k)
        for w in _subsets(k):
            column = np.searchsorted(keys, _key(s[:, list(w)], base)).astype(np.int32)
            for kept in product((False, True), repeat=len(w)):
                pattern = sum(1 << q for q, keep in zip(w, kept, strict=True) if keep)
                rows.append((row + pattern).astype(np.int32))
                columns.append(column)
                values.append(np.full(n, (-1.0) ** (len(w) - sum(kept))))
        constants.append((np.arange(n << k) % (1 << k) == 0).astype(np.float64))
        start += n << k
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values), np.concatenate(constants)


def _objective(f: Multilinear, keys: Index, base: int) -> Array:
    """The coefficients of f by monomial. A monomial outside all cliques' products is an error, never dropped."""
    padded = np.where(f.indices >= 0, f.indices, -1)
    wanted = _key(padded, base)  # -1 counts as the digit 0
    place = np.searchsorted(keys, wanted)
    covered = (place < len(keys)) & (keys[np.minimum(place, len(keys) - 1)] == wanted)
    if not covered.all():
        row = f.indices[int(np.argmin(covered))]
        raise MethodError(
            f"LipOpt: {int((~covered).sum())} monomials of the objective are in no product, the first is "
            f"{tuple(int(i) for i in row[row >= 0])}; raise the degree"
        )
    objective = np.zeros(len(keys))
    objective[place] = f.coefficients
    return objective
