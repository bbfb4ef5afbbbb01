"""Rounds of triangle inequalities between bounded variables.

For a, b, c in [-1, 1] and signs s, t

    1 + s ab + t bc + st ac  >=  0,

half the sum of (1 + a')(1 + b')(1 + c') and (1 - a')(1 - b')(1 - c') for suitable signs a' = +-a, b' = +-b, c' = +-c.
With c = 1 these are the products of two bounds. Variables between finite bounds are moved and scaled to [-1, 1]. After
a relaxation is solved, the inequalities that its moments violate most join it as rows L(g) >= 0, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from lipcert.chart.numbers import counted
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.monomials import Index, Monomial
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import round_up
from lipcert.rounding import Array

LEAST = 1e-4  # a violation that is worth a row
IDLE = 0.2  # a row with more room than this leaves
PER_VARIABLE = 12  # rows that may join in a round, for each variable

Cut = tuple[int, int, int, int, int]  # three places in (1, x), ascending, and the signs s, t


@dataclass(frozen=True, eq=False)
class VariableBounds:
    """Proved bounds of the variables."""

    lower: Array
    upper: Array


def solve_with_cuts(
    model: MomentModel,
    bounds: VariableBounds,
    rounds: int,
    solve: Callable[[MomentModel], PolynomialResult],
    go_on: Callable[[], bool] = lambda: True,
) -> PolynomialResult:
    """The best of the relaxation and of `rounds` relaxations with violated triangle inequalities added.

    `bounds` must be proved for the problem behind the model; the same bounds make the same inequalities.
    """
    best = result = solve(model)
    chosen: list[Cut] = []
    for done in range(rounds):
        moments = scaled_moments(result, bounds)
        if moments is None or not go_on():
            break
        chosen = [cut for cut in chosen if _value(moments, cut) < IDLE]
        fresh = sorted(set(violated(moments, PER_VARIABLE * model.n)) - set(chosen))
        if not fresh:
            break
        chosen += fresh
        rows = tuple(triangle_inequality(cut, bounds) for cut in chosen)
        found = counted(len(rows), "triangle inequality", "triangle inequalities")
        note = f"{found} after {counted(done + 1, 'round')}"
        result = solve(replace(model, inequalities=model.inequalities + rows, notes=(*model.notes, note)))
        better = result.bound > best.bound if model.sense == "min" else result.bound < best.bound
        best = result if better else best
    return best


def scaled_moments(result: PolynomialResult, bounds: VariableBounds) -> Array | None:
    """L(a_i a_j) for a = (1, the variables scaled to [-1, 1]), as the solver has it; NaN where there is no moment."""
    n = len(bounds.lower)
    raw = np.full((n + 1, n + 1), np.nan)
    raw[0, 0] = 1.0
    rows = result.monomial_rows
    low = np.flatnonzero((rows >= 0).sum(axis=1) <= 2)
    if not len(low) or rows.shape[1] < 2 or not np.all(np.isfinite(result.moment_values)):
        return None
    i, j = rows[low, -2] + 1, rows[low, -1] + 1
    raw[i, j] = raw[j, i] = result.moment_values[low]
    with np.errstate(all="ignore"):
        m, half = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
        m = np.where(np.isfinite(half), m, np.nan)
        shift = np.where(m[:, None] == 0, 0.0, m[:, None] * raw[None, 0, 1:])
        scaled = np.full((n + 1, n + 1), np.nan)
        scaled[1:, 1:] = (raw[1:, 1:] - shift - shift.T + m[:, None] * m[None, :]) / (half[:, None] * half[None, :])
        scaled[0, 1:] = scaled[1:, 0] = (raw[0, 1:] - m) / half
    return scaled


def violated(moments: Array, most: int) -> list[Cut]:
    """The triangle inequalities that are violated most, `most` of them at most."""
    places: list[Index] = []
    sizes: list[Array] = []
    for i in range(len(moments) - 2):
        j, k = np.triu_indices(len(moments) - 1 - i, 1)
        j, k = j + i + 1, k + i + 1
        for s, t in product((-1, 1), repeat=2):
            value = 1.0 + s * moments[i, j] + t * moments[j, k] + s * t * moments[i, k]
            hit = np.flatnonzero(value < -LEAST)  # a value that is not a number is no hit
            places.append(np.column_stack([np.full(len(hit), i), j[hit], k[hit], np.full((len(hit), 2), (s, t))]))
            sizes.append(value[hit])
    if not sizes:
        return []
    rows, values = np.concatenate(places), np.concatenate(sizes)
    worst = np.argsort(values, kind="stable")[:most]
    return [(a, b, c, s, t) for a, b, c, s, t in rows[worst].tolist()]


def _value(moments: Array, cut: Cut) -> float:
    i, j, k, s, t = cut
    return float(1.0 + s * moments[i, j] + t * moments[j, k] + s * t * moments[i, k])


def cut_of(inequality: Polynomial, bounds: VariableBounds) -> Cut | None:
    """The cut whose inequality this is, for a file that keeps names instead of polynomials; None if it is no cut."""
    places = tuple(int(i) + 1 for i in inequality.variables)
    triple = (0, *places) if len(places) == 2 else places
    if len(triple) != 3 or inequality.degree != 2:
        return None
    for s, t in product((-1, 1), repeat=2):
        cut = (triple[0], triple[1], triple[2], s, t)
        if triangle_inequality(cut, bounds) == inequality:
            return cut
    return None


def triangle_inequality(cut: Cut, bounds: VariableBounds) -> Polynomial:
    """g of degree two with g >= 0 between the bounds: the inequality times the widths, its constant rounded up.

    With w_i = upper_i - lower_i and A_i = 2 x_i - lower_i - upper_i (w = A = 1 for place 0), in exact arithmetic

        w_i w_j w_k + s w_k A_i A_j + t w_i A_j A_k + st w_j A_i A_k;

    what rounding its coefficients changes between the bounds is added to the constant.
    """
    *places, s, t = cut
    lower = [Fraction(float(bounds.lower[p - 1])) if p else Fraction(0) for p in places]
    upper = [Fraction(float(bounds.upper[p - 1])) if p else Fraction(1) for p in places]
    width = [hi - lo for lo, hi in zip(lower, upper, strict=True)]
    constant = [-(hi + lo) if p else Fraction(1) for p, lo, hi in zip(places, lower, upper, strict=True)]
    slope = [Fraction(2 if p else 0) for p in places]
    exact: dict[Monomial, Fraction] = {(): width[0] * width[1] * width[2]}
    for a, b, c, sign in ((0, 1, 2, s), (1, 2, 0, t), (0, 2, 1, s * t)):
        factor = sign * width[c]
        for left, right in product((0, 1), repeat=2):
            value = factor * (slope[a] if left else constant[a]) * (slope[b] if right else constant[b])
            name = tuple(sorted(places[p] - 1 for p, used in ((a, left), (b, right)) if used))
            if value:
                exact[name] = exact.get(name, Fraction(0)) + value
    rounded = {name: float(value) for name, value in exact.items() if name}
    reach = {p - 1: max(abs(lo), abs(hi)) for p, lo, hi in zip(places, lower, upper, strict=True) if p}
    slack = Fraction(0)
    for name, near in rounded.items():
        size = Fraction(1)
        for i in name:
            size *= reach[i]
        slack += abs(Fraction(near) - exact[name]) * size
    return Polynomial.from_terms({(): round_up(exact[()] + slack), **rounded})
