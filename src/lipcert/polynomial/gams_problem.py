"""From the variables and equations of a GAMS model to a polynomial problem.

A GAMS model optimises a variable t. Where one equation alone contains t, linearly and with an exact quotient, t is
replaced by the polynomial q that the equation says. Minimising, for t with bounds l and u:

    t = q(x):    min q(x)                 subject to  l <= q(x) <= u
    t >= q(x):   min max(q(x), l)         subject to  q(x) <= u

so that an inequality replaces t only where l is infinite (u, when maximising). In all other cases t stays a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.content import Content, ProblemFile
from lipcert.polynomial.polynomial import Polynomial

KINDS = {
    "free": (-inf, inf),
    "positive": (0.0, inf),
    "nonnegative": (0.0, inf),
    "negative": (-inf, 0.0),
    "binary": (0.0, 1.0),
}


@dataclass
class Variable:
    """A variable with its bounds so far: the kind sets them first, and the last assignment counts."""

    name: str
    kind: str
    lower: float
    upper: float
    level: float | None = None
    bounded: bool = False  # whether a bound has been assigned

    @staticmethod
    def declared(name: str, kind: str) -> Variable:
        """A new variable; without a kind it is free."""
        return Variable(name, kind or "free", *KINDS[kind or "free"])

    def declare_again(self, kind: str) -> None:
        """Give a variable that was declared without a kind the kind of a later statement."""
        if kind == self.kind or (not kind and self.kind == "free"):
            return
        if self.kind != "free" or self.bounded:
            before = "its bounds were assigned" if self.bounded else f"it was declared {self.kind}"
            raise InputError(f"{quoted(self.name)} is declared again after {before}; declare its kind once, first")
        self.kind, (self.lower, self.upper) = kind, KINDS[kind]

    def assign(self, attribute: str, value: float) -> None:
        """x.lo, x.up, x.fx or x.l = value; x.fx sets all three others."""
        if self.kind == "binary" and attribute in ("lo", "up", "fx") and value not in (0.0, 1.0):
            raise InputError(f"{self.name}.{attribute} = {value:g}: a binary variable has the bounds 0 and 1")
        self.lower = value if attribute in ("lo", "fx") else self.lower
        self.upper = value if attribute in ("up", "fx") else self.upper
        self.level = value if attribute in ("l", "fx") else self.level
        self.bounded = self.bounded or attribute in ("lo", "up", "fx")


@dataclass(frozen=True)
class Equation:
    """left (sign) right; the sign is =, <= or >=."""

    name: str
    sign: str
    left: Polynomial
    right: Polynomial


@dataclass(frozen=True)
class Goal:
    """What the solve statement says: the variable, min or max, the model, and whether binary variables are relaxed."""

    variable: str
    sense: str
    model: str
    relaxed: bool = False


def problem_of(
    variables: dict[str, Variable], equations: Sequence[Equation], goal: Goal, notes: Sequence[str] = ()
) -> ProblemFile:
    """The problem of one model; the polynomials number the variables in the order of the dictionary."""
    place = list(variables).index(goal.variable)
    listed = list(variables.values())
    present = {int(i) for e in equations for p in (e.left, e.right) for i in p.variables}
    if place not in present:
        raise FileFormatError(f"the variable {quoted(listed[place].name)} is optimised, and no equation contains it")
    objective, used = _replacement(equations, place, listed[place], goal)
    keep = [i for i in sorted(present) if i != place or used is None]
    table = np.full(len(listed) + 1, -1, dtype=np.int32)  # its last entry is that of -1
    table[keep] = np.arange(len(keep))
    content = Content([listed[i].name for i in keep])

    def renamed(p: Polynomial) -> Polynomial:
        return Polynomial(table[p.indices], p.coefficients)

    content.objective(renamed(objective), goal.sense)
    for k, i in enumerate(keep):
        _bound(listed[i], k, goal.relaxed, content)
    for equation in equations:
        if equation is not used:
            _relation(equation.name, renamed(equation.left), equation.sign, renamed(equation.right), content)
    if used is not None:
        name = listed[place].name
        notes = (f"{name} was replaced by what {used.name} says it is", *notes)
        for value, sign in ((listed[place].lower, ">="), (listed[place].upper, "<=")):
            if isfinite(value):
                _relation(f"bound of {name}", renamed(objective), sign, Polynomial.constant(value), content)
    levels = [listed[i].level for i in keep]
    start = np.array([v or 0.0 for v in levels])
    known = any(v is not None for v in levels) and bool(np.all(np.isfinite(start)))
    return content.finish(start if known else None, tuple(notes))


def _replacement(
    equations: Sequence[Equation], place: int, variable: Variable, goal: Goal
) -> tuple[Polynomial, Equation | None]:
    """The objective in the other variables and the equation that says it, or the variable itself and None."""
    itself = Polynomial.variable(place), None
    home = [e for e in equations if place in e.left.variables or place in e.right.variables]
    if len(home) != 1 or (variable.kind == "binary" and not goal.relaxed):
        return itself
    difference = home[0].left - home[0].right
    lead = difference.coefficient((place,))
    touched = (difference.indices == place).any(axis=1)
    rest = Polynomial(difference.indices[~touched], difference.coefficients[~touched])
    if touched.sum() != 1 or not lead or not _tight(home[0].sign, lead, variable, goal.sense):
        return itself
    image = -rest / lead
    if any(Fraction(q) * Fraction(lead) != -Fraction(r) for q, r in _pairs(image, rest)):
        return itself
    return image, home[0]


def _tight(sign: str, lead: float, variable: Variable, sense: str) -> bool:
    """Whether t takes the value of its equation, lead t + rest (sign) 0, at the optimum of every x."""
    if sign == "=":
        return True
    from_below = (sign == ">=") == (lead > 0)  # the relation says t >= ...
    return from_below == (sense == "min") and not isfinite(variable.lower if sense == "min" else variable.upper)


def _pairs(p: Polynomial, q: Polynomial) -> list[tuple[float, float]]:
    """Coefficients of the same monomials, and an impossible pair where a coefficient of p vanished."""
    same = p.indices.shape == q.indices.shape
    return list(zip(p.coefficients.tolist(), q.coefficients.tolist(), strict=True)) if same else [(1.0, 0.0)]


def _bound(variable: Variable, k: int, relaxed: bool, content: Content) -> None:
    low, high = variable.lower, variable.upper
    try:
        content.bound(k, low, high)
    except InputError as error:
        raise FileFormatError(str(error)) from None
    if low == high:
        content.equalities.append(Polynomial.variable(k) - low)
    elif variable.kind == "binary" and not relaxed:
        content.equalities.append(Polynomial.from_terms({(k, k): 1.0, (k,): -1.0}))


def _relation(name: str, left: Polynomial, sign: str, right: Polynomial, content: Content) -> None:
    try:
        content.relation(left, sign, right)
    except InputError as error:
        raise FileFormatError(f"equation {name}: {error}") from None
