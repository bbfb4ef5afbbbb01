"""Proofs about polynomials that need no Gram matrices: bounds by Krivine-Stengle multipliers, values at points.

**A bound** (`prove_krivine`). Any multipliers give a theorem:

    f = constant + sum_k p_k m_k,     products h = constants + products' m >= 0 on the box,     0 <= m_k <= 1

For every multiplier vector z >= 0

    f <= f + z'h = constant + z'constants + sum_k r_k m_k <= constant + z'constants + sum_k max(0, r_k),
    r = p + products' z,

evaluated with outward rounding. It does not matter what produced z: bad multipliers only loosen the bound.

**A point** that is proved feasible, and its value (`proved_value`): the other side of a bound on a polynomial problem.
Floats are dyadic rationals, so a polynomial with float coefficients has an exact value at a point of floats. It is
computed with integers; nothing there is rounded but the result, and that outward.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isfinite, nextafter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.problem.norms import INF
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Polytope
from lipcert.rounding import Array, gamma, grow, sum_up

Terms = tuple[NDArray[np.int32], Array]  # rows of variables (-1 stands for 1), coefficients
MAX_ENTRIES = 4_000_000  # entries of all rows together: some seconds


def refusal(problem: Problem, method: str) -> str | None:
    """Why the paper's estimators do not cover the problem, in one line; None when they do."""
    if problem.norm != INF:
        return f"method {method} works for one output in the infinity norm only, not in norm {problem.norm.words}"
    if isinstance(problem.region, Ball):
        return f"method {method}, as the paper states it, works on boxes, not on balls; use tight"
    if isinstance(problem.region, Polytope):
        return f"method {method}, as the paper states it, works on boxes without half-spaces; use tight"
    if not problem.network.is_chain:
        return f"method {method} is for chains of layers, and this network has branches; use tight"
    return None


def with_error(bound: float, error: float) -> float:
    """A proved bound of the polynomial in hand, plus how far that polynomial may be from the gradient, rounded up."""
    return nextafter(bound + error, inf)


class Krivine(Protocol):
    """The parts of a program that the proof needs; see `polynomial.lcep.lipopt.KrivineProgram`."""

    @property
    def products(self) -> sparse.csc_array: ...
    @property
    def constants(self) -> Array: ...
    @property
    def objective(self) -> Array: ...
    @property
    def constant(self) -> float: ...
    @property
    def error(self) -> float: ...


def prove_krivine(program: Krivine, multipliers: Array | None) -> float:
    """An upper bound on f + error over the box; multipliers that are missing or not finite count as zero."""
    z = np.zeros(len(program.constants)) if multipliers is None else np.asarray(multipliers, dtype=np.float64)
    z = np.where(np.isfinite(z) & (z > 0), z, 0.0)
    products = program.products
    longest = int(np.diff(products.indptr).max(initial=0)) + 4
    with np.errstate(over="ignore", invalid="ignore"):
        residual = program.objective + products.T @ z
        size = np.abs(program.objective) + abs(products).T @ z
        above = grow(np.maximum(residual, 0.0), 0) + grow(gamma(longest) * size, longest)
        # Where the residual is certainly negative the monomial is worth nothing.
        above = np.where(residual + 2 * gamma(longest) * size < 0, 0.0, above)
        parts = np.array([max(program.constant, 0.0), sum_up(program.constants * z), sum_up(above), program.error])
        total = sum_up(parts)
    if not isfinite(total):
        return inf
    if program.constant < 0:
        total = nextafter(total + program.constant, inf)
    return total


def exact_value(terms: Terms, point: Array) -> Fraction:
    """The value of the polynomial at the point, without any rounding."""
    numerators, shifts = _dyadic(point)
    sums: dict[int, int] = {}
    for row, coefficient in zip(terms[0].tolist(), terms[1].tolist(), strict=True):
        number, denominator = coefficient.as_integer_ratio()
        shift = denominator.bit_length() - 1
        for i in row:
            if i >= 0:
                number *= numerators[i]
                shift += shifts[i]
        sums[shift] = sums.get(shift, 0) + number
    deepest = max(sums, default=0)
    return Fraction(sum(number << (deepest - shift) for shift, number in sums.items()), 1 << deepest)


def proved_value(
    objective: Terms,
    inequalities: Sequence[Terms],
    equalities: Sequence[Terms],
    box: tuple[Array, Array],
    point: Array,
    sense: str = "min",
) -> float | None:
    """The objective at the point, rounded up (down for a maximum), where the point is feasible; None where it is not.

    Feasible means exactly so: every inequality is >= 0, every equality is 0, and the point is in the box.
    """
    x = np.asarray(point, dtype=np.float64)
    if not np.all(np.isfinite(x)) or np.any(x < box[0]) or np.any(x > box[1]):
        return None
    if sum(t[0].size for t in (objective, *inequalities, *equalities)) > MAX_ENTRIES:
        return None
    if any(exact_value(g, x) < 0 for g in inequalities) or any(exact_value(h, x) != 0 for h in equalities):
        return None
    value = exact_value(objective, x)
    rounded = _up(value) if sense == "min" else -_up(-value)
    return rounded if isfinite(rounded) else None


def _dyadic(point: Array) -> tuple[list[int], list[int]]:
    """x_i = numerators_i / 2^shifts_i."""
    ratios = [v.as_integer_ratio() for v in point.tolist()]
    return [n for n, _ in ratios], [d.bit_length() - 1 for _, d in ratios]


def _up(value: Fraction) -> float:
    """The least float at or above."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else nextafter(-inf, 0.0)
    return near if Fraction(near) >= value else nextafter(near, inf)
