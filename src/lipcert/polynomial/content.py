"""The content of a problem file, collected statement by statement, and the problem made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from lipcert.chart.numbers import counted
from lipcert.errors import InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, always
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """The content of a file: the problem (bounds included as constraints), cliques, bad constraints.

    `start` is a point that the file suggests to begin a search with; `notes` say what was done on reading.
    """

    problem: PolynomialProblem
    cliques: tuple[tuple[int, ...], ...] | None = None
    bad: tuple[Polynomial, ...] | None = None
    start: Array | None = None
    notes: tuple[str, ...] = ()


class Content:
    """The statements of a problem file that have been read so far."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.places: Mapping[str, int] = {name: i for i, name in enumerate(names)}
        self.goal: tuple[Polynomial, str] | None = None
        self.inequalities: list[Polynomial] = []
        self.equalities: list[Polynomial] = []
        self.bad: list[Polynomial] = []
        self.cliques: list[tuple[int, ...]] = []
        self.bounds: dict[int, tuple[float, float]] = {}
        self.left_out = 0  # constraints without a variable that hold

    def objective(self, polynomial: Polynomial, sense: str) -> None:
        if self.goal is not None:
            raise InputError("a second objective; there must be one")
        self.goal = polynomial, sense

    def place(self, name: str) -> int:
        if name not in self.places:
            raise InputError(f"unknown variable {quoted(name)}; declare it under variables")
        return self.places[name]

    def clique(self, names: Sequence[str]) -> None:
        self.cliques.append(tuple(self.place(name) for name in names))

    def bound(self, i: int, lower: float, upper: float) -> None:
        """Intersect the bounds of x_i with [lower, upper]; an interval that misses them becomes constraints."""
        if lower > upper:
            raise InputError(f"the bounds of {quoted(self.names[i])} leave nothing: {lower} > {upper}")
        before = self.bounds.get(i, (-inf, inf))
        low, high = max(lower, before[0]), min(upper, before[1])
        if low <= high:
            self.bounds[i] = low, high
            return
        if isfinite(lower):
            self.inequalities.append(Polynomial.affine(-lower, [i], [1.0]))
        if isfinite(upper):
            self.inequalities.append(Polynomial.affine(upper, [i], [-1.0]))

    def relation(self, left: Polynomial, sign: str, right: Polynomial, bad: bool = False) -> None:
        """left <= right, left >= right or left = right; a variable against a number is a bound."""
        if sign == ">=":
            left, sign, right = right, "<=", left
        if sign == "<=" and not bad:
            for one, other, upper in ((left, right, True), (right, left, False)):
                i = alone(one)
                if i is not None and not other.degree:
                    number = constant(other)
                    return self.bound(i, -inf, number) if upper else self.bound(i, number, inf)
        polynomial = right - left if sign == "<=" else left - right
        if always(polynomial, equality=sign == "="):
            self.left_out += 1
            return None
        (self.equalities if sign == "=" else self.inequalities).append(polynomial)
        if bad and polynomial.degree:
            self.bad.append(polynomial)
        return None

    def finish(self, start: Array | None = None, notes: tuple[str, ...] = ()) -> ProblemFile:
        if self.goal is None:
            raise InputError("no objective: add a line 'minimize ...' or 'maximize ...'")
        lower, upper = np.full(len(self.names), -inf), np.full(len(self.names), inf)
        for i, (low, high) in self.bounds.items():
            lower[i], upper[i] = low, high
        if self.left_out:
            said = counted(self.left_out, "constraint", "constraints")
            notes = (*notes, f"{said} without a variable, true at every point, left out")
        problem = PolynomialProblem(
            self.goal[0],
            tuple(self.inequalities),
            tuple(self.equalities),
            self.goal[1],
            self.names,
            lower,
            upper,
        )
        return ProblemFile(problem.boxed(), tuple(self.cliques) or None, tuple(self.bad) or None, start, notes)


def alone(p: Polynomial) -> int | None:
    """The i for which p is the variable x_i; None for every other polynomial."""
    return int(p.indices[0, 0]) if p.indices.shape == (1, 1) and p.coefficients[0] == 1.0 else None


def constant(p: Polynomial) -> float:
    """The value of a polynomial without variables."""
    return float(p.coefficients[0]) if len(p.coefficients) else 0.0
