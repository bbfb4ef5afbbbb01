"""Polynomial optimisation problems.

min or max  f(x)    s.t.   g_i(x) >= 0,   h_j(x) = 0,   x in R^n

Constraints of any degree can bound variables (`propagated_bounds`, in rational arithmetic). In a constraint g >= 0, the
terms c x^a whose variables are all bounded are at most a number. In the other terms, bounded variables count with their
largest size, and a product of unbounded ones is at most (inequality of means)

    |x^a| <= sum_i (a_i / D) |x_i|^D,      D = sum_i a_i,

so that  g(x) <= T + sum_i ( b_i(|x_i|) - c_i |x_i|^d_i ),  b_i with coefficients >= 0, -c_i x_i^d_i the terms of even
degree (or of x_i >= 0) with a negative sign. Where d_i exceeds the degree of every b_i, g >= 0 bounds every x_i. Sums
of even powers, balls, ellipsoids with a dominant diagonal and x + y <= v with x, y >= 0 are of this kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite, nextafter, sqrt

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError, shown
from lipcert.polynomial.monomials import monomial_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import TINY, UNIT, Array, gamma

INF = float("inf")
_BUILD = "made of Polynomial.variable(0), ... ; lipcert pop reads problems from text"


@dataclass(frozen=True, eq=False)
class PolynomialProblem:
    """min or max f(x) subject to g_i(x) >= 0 (`inequalities`) and h_j(x) = 0 (`equalities`).

    `lower` and `upper` are facts about the feasible set: every feasible x lies between them. They serve rigorous
    rounding only; `boxed` turns them into constraints. Coefficients are exact by definition.
    """

    objective: Polynomial
    inequalities: tuple[Polynomial, ...] = ()
    equalities: tuple[Polynomial, ...] = ()
    sense: str = "min"
    names: tuple[str, ...] | None = None
    lower: Array | None = None
    upper: Array | None = None

    def __post_init__(self) -> None:
        if self.sense not in ("min", "max"):
            raise InputError(f"sense {self.sense!r}: must be 'min' or 'max'")
        if not isinstance(self.objective, Polynomial):
            raise InputError(f"objective={shown(self.objective)}: give a Polynomial, {_BUILD}")
        for name in ("inequalities", "equalities"):
            given = getattr(self, name)
            listed = tuple(given) if isinstance(given, Iterable) else (None,)
            if not all(isinstance(p, Polynomial) for p in listed):
                raise InputError(f"{name}={shown(given)}: give a list of polynomials, {_BUILD}")
            object.__setattr__(self, name, listed)
        needed = 1 + max((int(p.indices.max()) for p in self.polynomials if p.degree), default=-1)
        sizes = [len(s) for s in (self.names, self.lower, self.upper) if s is not None]
        if any(s != max(sizes) for s in sizes) or (sizes and sizes[0] < needed):
            raise InputError(f"{needed} variables occur, but names, lower and upper have lengths {sizes}")
        n = max([needed, *sizes])
        object.__setattr__(self, "names", tuple(self.names) if self.names else tuple(f"x{i + 1}" for i in range(n)))
        object.__setattr__(self, "lower", _bound(self.lower, n, -INF, "lower"))
        object.__setattr__(self, "upper", _bound(self.upper, n, INF, "upper"))

    @property
    def polynomials(self) -> tuple[Polynomial, ...]:
        """Objective and constraints."""
        return (self.objective, *self.inequalities, *self.equalities)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.names or ())

    def boxed(self) -> PolynomialProblem:
        """The same problem with the finite bounds added as constraints.

        Where one side is infinite and the constraints imply a bound there (x >= 0 and a sum that is 1), that one is
        taken: (x - a)(b - x) >= 0 says more in a relaxation than x >= a does, and no feasible point is lost.
        """
        lo, hi = (a.copy() for a in _arrays(self))
        half = np.isfinite(lo) != np.isfinite(hi)
        if half.any():
            low, high = variable_bounds(self)
            half &= np.isfinite(low) & np.isfinite(high) & (low <= high)
            lo[half], hi[half] = low[half], high[half]
        extra = [box_constraint(i, lo[i], hi[i]) for i in range(self.n) if isfinite(lo[i]) or isfinite(hi[i])]
        return replace(self, inequalities=self.inequalities + tuple(extra))

    def violation(self, x: Array) -> float:
        """How far a point is from feasible: the largest violated constraint value, 0 when all hold."""
        worst = [-float(g.evaluate(x)[0]) for g in self.inequalities]
        worst += [abs(float(h.evaluate(x)[0])) for h in self.equalities]
        lo, hi = _arrays(self)
        return float(max([0.0, *worst, *(lo - x), *(x - hi)]))


def always(constraint: Polynomial, *, equality: bool) -> bool:
    """Whether a constraint, p = 0 or p >= 0, has no variable and holds: then it says nothing about any point."""
    if constraint.degree:
        return False
    value = constraint.coefficient(())
    return value == 0 if equality else value >= 0


def contradiction(problem: PolynomialProblem) -> str:
    """A constraint without variables that does not hold, in words; empty where there is none."""
    for constraints, sign in ((problem.inequalities, ">="), (problem.equalities, "=")):
        for p in constraints:
            if not p.degree and not always(p, equality=sign == "="):
                return f"a constraint without variables says {p.coefficient(()):.6g} {sign} 0"
    return ""


def without_trivial(problem: PolynomialProblem) -> PolynomialProblem:
    """The same problem without the constraints that hold and have no variable."""
    inequalities = tuple(g for g in problem.inequalities if not always(g, equality=False))
    equalities = tuple(h for h in problem.equalities if not always(h, equality=True))
    if len(inequalities) + len(equalities) == len(problem.inequalities) + len(problem.equalities):
        return problem
    return replace(problem, inequalities=inequalities, equalities=equalities)


def box_constraint(i: int, lower: float, upper: float) -> Polynomial:
    """g with g(x) >= 0 for every x_i in [lower, upper]: (x - lower)(upper - x), its constant rounded up.

    With one side infinite it is affine.
    """
    if not lower <= upper:
        raise InputError(f"bounds of variable {i}: {lower} <= {upper} does not hold")
    if not isfinite(upper):
        return Polynomial.affine(-lower, [i], [1.0])
    if not isfinite(lower):
        return Polynomial.affine(upper, [i], [-1.0])
    linear = lower + upper
    slack = abs(Fraction(linear) - Fraction(lower) - Fraction(upper)) * Fraction(max(abs(lower), abs(upper)))
    constant = round_up(slack - Fraction(lower) * Fraction(upper))
    return Polynomial.from_terms({(): constant, (i,): linear, (i, i): -1.0})


def variable_bounds(problem: PolynomialProblem) -> tuple[Array, Array]:
    """Bounds that every feasible point obeys, proved in rational arithmetic.

    From `lower` and `upper`, from separable concave quadratic constraints (1 - x^2 >= 0, (x - a)(b - x) >= 0, balls,
    u^2 = u) and, repeatedly, from affine constraints.
    """
    lo, hi = (a.copy() for a in _arrays(problem))
    both = [*problem.inequalities, *problem.equalities, *(-h for h in problem.equalities)]
    for g in both:
        if g.degree == 2:
            _from_quadratic(g, lo, hi)
    affine = [g for g in both if g.degree == 1]
    for _ in range(6):
        before = lo.copy(), hi.copy()
        for g in affine:
            _from_affine(g, lo, hi)
        if np.array_equal(before[0], lo) and np.array_equal(before[1], hi):
            break
    return lo, hi


def _from_quadratic(g: Polynomial, lo: Array, hi: Array) -> None:
    """a + sum_i (b_i x_i - c_i x_i^2) >= 0 with all c_i > 0: |x_i - m_i| <= sqrt(R / c_i), m_i = b_i / (2 c_i)."""
    rows = g.indices
    if np.any((rows[:, 0] >= 0) & (rows[:, 0] != rows[:, 1])):
        return
    parts = {v: [Fraction(0), Fraction(0)] for v in g.variables.tolist()}
    constant = Fraction(0)
    for row, value in zip(rows.tolist(), g.coefficients.tolist(), strict=True):
        if row[1] < 0:
            constant = Fraction(value)
        else:
            parts[row[1]][0 if row[0] < 0 else 1] += Fraction(value)
    if any(c >= 0 for _, c in parts.values()):
        return
    total = constant + sum((b * b / (-4 * c) for b, c in parts.values()), Fraction(0))
    for i, (b, c) in parts.items():
        middle, square = b / (-2 * c), max(total, Fraction(0)) / -c
        radius = Fraction(_root_up(square))
        lo[i] = max(lo[i], -round_up(radius - middle))
        hi[i] = min(hi[i], round_up(middle + radius))


def _from_affine(g: Polynomial, lo: Array, hi: Array) -> None:
    """a + sum_i b_i x_i >= 0: b_i x_i >= -a - sum of the largest values of the others."""
    if len(g.coefficients) > 8:
        _from_long_affine(g, lo, hi)
        return
    pairs = [(int(r[0]), Fraction(float(v))) for r, v in zip(g.indices, g.coefficients, strict=True)]
    constant = sum((b for i, b in pairs if i < 0), Fraction(0))
    tops = {i: (hi[i] if b > 0 else lo[i]) for i, b in pairs if i >= 0}
    unbounded = [i for i, t in tops.items() if not isfinite(t)]
    if len(unbounded) > 1:
        return
    finite = {i: b * Fraction(float(tops[i])) for i, b in pairs if i >= 0 and i not in unbounded}
    largest = constant + sum(finite.values(), Fraction(0))
    for i, b in pairs:
        if i < 0 or (unbounded and i != unbounded[0]):
            continue
        limit = -(largest - finite.get(i, Fraction(0))) / b
        if b > 0:
            lo[i] = max(lo[i], -round_up(-limit))
        else:
            hi[i] = min(hi[i], round_up(limit))


def _from_long_affine(g: Polynomial, lo: Array, hi: Array) -> None:
    """`_from_affine` in floating point, for speed: every limit is moved outward by a bound on its rounding error."""
    where, b = g.indices[:, 0], g.coefficients
    constant, (i, b) = float(b[where < 0].sum()), (where[where >= 0], b[where >= 0])
    tops = np.where(b > 0, hi[i], lo[i])
    infinite = ~np.isfinite(tops)
    if infinite.sum() > 1:
        return
    terms = np.where(infinite, 0.0, b * np.where(infinite, 0.0, tops))
    size = abs(constant) + np.abs(terms).sum()
    largest = constant + terms.sum() + 2 * gamma(len(terms) + 8) * size + len(terms) * TINY
    limit = -(largest - terms) / b
    room = 8 * UNIT * (np.abs(limit) + np.abs(terms / b)) + 2 * gamma(8) * size / np.abs(b) + TINY
    chosen = infinite if infinite.any() else np.ones(len(b), dtype=bool)
    below, above = chosen & (b > 0), chosen & (b < 0)
    with np.errstate(invalid="ignore"):
        lo[i[below]] = np.fmax(lo[i[below]], (limit - room)[below])
        hi[i[above]] = np.fmin(hi[i[above]], (limit + room)[above])


def round_up(value: Fraction) -> float:
    """The float at or above an exact number."""
    try:
        near = float(value)
    except OverflowError:
        return INF if value > 0 else -1.7976931348623157e308
    return near if not isfinite(near) or Fraction(near) >= value else nextafter(near, INF)


def _root_up(value: Fraction) -> float:
    """A float at or above the square root."""
    root = sqrt(round_up(value))
    while isfinite(root) and Fraction(root) ** 2 < value:
        root = nextafter(root, INF)
    return root


def _arrays(problem: PolynomialProblem) -> tuple[Array, Array]:
    return np.asarray(problem.lower), np.asarray(problem.upper)


def _bound(values: ArrayLike | None, n: int, default: float, name: str) -> Array:
    array = np.full(n, default) if values is None else np.array(values, dtype=np.float64)
    if array.shape != (n,) or np.isnan(array).any():
        raise InputError(f"{name} must be {n} numbers, one per variable")
    array.flags.writeable = False
    return array


def check_cliques(cliques: Iterable[Sequence[int]], n: int) -> tuple[tuple[int, ...], ...]:
    """Cliques as sorted tuples of distinct variables."""
    checked = tuple(tuple(sorted({int(i) for i in c})) for c in cliques)
    if not checked or not all(checked) or any(c[0] < 0 or c[-1] >= n for c in checked):
        raise InputError(f"cliques must be non-empty sets of variables 0 to {n - 1}")
    return checked


ROUNDS = 4
MOST_TERMS = 2000  # terms of a constraint that is considered
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
        """An upper bound of b(r) - c r^d for every r >= 0."""
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
    """An upper bound of c x^a for all x between the bounds, which are finite where x^a has variables."""
    low = high = c
    for i in sorted(set(monomial)):
        power = monomial.count(i)
        a, b = Fraction(float(lower[i])) ** power, Fraction(float(upper[i])) ** power
        ends = (Fraction(0), max(a, b)) if power % 2 == 0 and lower[i] < 0 < upper[i] else (min(a, b), max(a, b))
        products = [low * e for e in ends] + [high * e for e in ends]
        low, high = min(products), max(products)
    return high
