"""Bounds of variables through constraints of any degree, proved in rational arithmetic.

Of a constraint g >= 0 with terms c x^a, those whose variables are all bounded are at most a number. In the others,
bounded variables count with their largest size, and a product of unbounded ones is at most (inequality of means)

    |x^a| <= sum_i (a_i / D) |x_i|^D,      D = sum_i a_i,

so that  g(x) <= T + sum_i ( b_i(|x_i|) - c_i |x_i|^d_i ),  b_i with coefficients >= 0, -c_i x_i^d_i the terms of even
degree (or of x_i >= 0) with a negative sign. Where d_i exceeds the degree of every b_i, g >= 0 bounds every x_i. Sums
of even powers, balls, ellipsoids with a dominant diagonal and x + y <= v with x, y >= 0 are of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite

import numpy as np

from lipcert.polynomial.monomials import monomial_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, box_constraint, variable_bounds
from lipcert.rounding import Array

ROUNDS = 4
MOST_TERMS = 2000  # of a constraint that is looked at
LARGEST = 2.0**40  # a bound beyond this is of no use


def propagated_bounds(problem: PolynomialProblem) -> tuple[Array, Array]:
    """Bounds that every feasible point obeys: those of `variable_bounds`, then through constraints of any degree."""
    lower, upper = variable_bounds(problem)
    both = [*problem.inequalities, *problem.equalities, *(-h for h in problem.equalities)]
    for _ in range(ROUNDS):
        if np.all(np.isfinite(lower) & np.isfinite(upper)):
            break
        before = lower.copy(), upper.copy()
        for g in both:
            if len(g.coefficients) <= MOST_TERMS:
                _through(g, lower, upper)
        lower, upper = variable_bounds(replace(problem, lower=lower, upper=upper))
        if np.array_equal(before[0], lower) and np.array_equal(before[1], upper):
            break
    return lower, upper


def extended(problem: PolynomialProblem, cut: float | None = None) -> tuple[PolynomialProblem, float]:
    """The problem with all bounds that are found; with a cut also f <= cut (>= for a maximum) and the new boxes.

    For any number v:  f >= min(v, beta) on K where beta bounds f on the points of K with f <= v. The second value is
    v as the constraint states it, rounded to the safe side; infinite without a cut.
    """
    if cut is None:
        lower, upper = propagated_bounds(problem)
        return replace(problem, lower=lower, upper=upper), np.inf if problem.sense == "min" else -np.inf
    known = propagated_bounds(problem)
    sign = 1.0 if problem.sense == "min" else -1.0
    g = sign * (cut - problem.objective)
    with_cut = replace(problem, inequalities=(*problem.inequalities, g))
    lower, upper = propagated_bounds(with_cut)
    fresh = np.flatnonzero(
        (np.isfinite(lower) & ~np.isfinite(known[0])) | (np.isfinite(upper) & ~np.isfinite(known[1]))
    )
    boxes = tuple(box_constraint(int(i), float(lower[i]), float(upper[i])) for i in fresh if lower[i] <= upper[i])
    reached = sign * Fraction(g.coefficient(())) + Fraction(problem.objective.coefficient(()))
    low = float(reached)
    while sign * (Fraction(low) - reached) > 0:
        low = float(np.nextafter(low, -sign * np.inf))
    changed = replace(with_cut, inequalities=(*with_cut.inequalities, *boxes), lower=lower, upper=upper)
    return changed, low


@dataclass
class _Growth:
    """b(r) - c r^d of one variable."""

    bad: dict[int, Fraction] = field(default_factory=dict)
    good: dict[int, Fraction] = field(default_factory=dict)

    def settle(self) -> tuple[int, Fraction] | None:
        """d and c when the good term outgrows the bad ones; what it does not outgrow makes the growth endless."""
        degree = max(self.good, default=0)
        if not degree or max(self.bad, default=0) > degree:
            return None
        c = self.good[degree] - self.bad.pop(degree, Fraction(0))
        return (degree, c) if c > 0 else None

    def radius(self, lead: tuple[int, Fraction], room: Fraction) -> Fraction | None:
        """Some R with c r^d > b(r) + room for all r > R."""
        degree, c = lead
        low, high = 0.0, 2.0**-20
        while not self._outgrown(degree, c, Fraction(high), room):
            low, high = high, 2.0 * high
            if high > LARGEST:
                return None
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if self._outgrown(degree, c, Fraction(middle), room) else (middle, high)
        return Fraction(high)

    def _outgrown(self, degree: int, c: Fraction, r: Fraction, room: Fraction) -> bool:
        return c * r**degree >= sum((b * r**k for k, b in self.bad.items()), room)

    def largest(self, lead: tuple[int, Fraction]) -> Fraction | None:
        """At least b(r) - c r^d for every r >= 0."""
        r = self.radius(lead, Fraction(0))
        return None if r is None else sum((b * r**k for k, b in self.bad.items()), Fraction(0))


def _through(g: Polynomial, lower: Array, upper: Array) -> None:
    """Tighten the bounds of unbounded variables by g >= 0."""
    split = _split(g, lower, upper)
    if split is None:
        return
    total, growths = split
    leads, tops = {}, {}
    for i, growth in growths.items():
        lead = growth.settle()
        top = None if lead is None else growth.largest(lead)
        if lead is None or top is None:
            return
        leads[i], tops[i] = lead, top
    everything = total + sum(tops.values(), Fraction(0))
    for i, growth in growths.items():
        radius = growth.radius(leads[i], max(everything - tops[i], Fraction(0)))
        if radius is not None:
            lower[i], upper[i] = max(lower[i], -float(radius)), min(upper[i], float(radius))


def _split(g: Polynomial, lower: Array, upper: Array) -> tuple[Fraction, dict[int, _Growth]] | None:
    """T and the growth of every unbounded variable of g; None where a number is too large."""
    sizes = np.maximum(np.abs(lower), np.abs(upper))
    total = Fraction(0)
    growths: dict[int, _Growth] = {}
    for row, value in zip(g.indices, g.coefficients.tolist(), strict=True):
        monomial, c = monomial_of(row), Fraction(value)
        free = [i for i in monomial if not isfinite(sizes[i])]
        if not free:
            total += _largest(c, monomial, lower, upper)
            continue
        degree = len(free)
        if len(set(free)) == 1 and len(free) == len(monomial) and c < 0 and (degree % 2 == 0 or lower[free[0]] >= 0):
            good = growths.setdefault(free[0], _Growth()).good
            good[degree] = good.get(degree, Fraction(0)) - c
            continue
        factor = abs(c)
        for i in monomial:
            factor *= Fraction(float(sizes[i])) if isfinite(sizes[i]) else 1
        for i in set(free):
            bad = growths.setdefault(i, _Growth()).bad
            bad[degree] = bad.get(degree, Fraction(0)) + factor * Fraction(free.count(i), degree)
    return total, growths


def _largest(c: Fraction, monomial: tuple[int, ...], lower: Array, upper: Array) -> Fraction:
    """At least c x^a for all x between the bounds, which are finite where x^a has variables."""
    low = high = c
    for i in sorted(set(monomial)):
        power = monomial.count(i)
        a, b = Fraction(float(lower[i])) ** power, Fraction(float(upper[i])) ** power
        ends = (Fraction(0), max(a, b)) if power % 2 == 0 and lower[i] < 0 < upper[i] else (min(a, b), max(a, b))
        products = [low * e for e in ends] + [high * e for e in ends]
        low, high = min(products), max(products)
    return high
