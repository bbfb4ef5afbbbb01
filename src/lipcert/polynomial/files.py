"""Polynomial problems in files.

Text (`.pop`), one statement per line, # starts a comment:

    variables x y z
    minimize x*y + y*z            (or maximize; once)
    x^2 + y^2 <= 1                (<=, >= or =, polynomials on both sides)
    -1 <= z <= 1                  (number <= variable <= number: a bound, as constraint and for rounding)
    clique x y                    (any number; for the sparse relaxations)
    bad x + y + z = 1             (a constraint kept out of the cliques by the nearly sparse relaxation)

JSON (`.json`): {"variables": ["x", ...], "minimize": "...", "constraints": ["x^2 + y^2 <= 1", ...],
"bounds": {"x": [-1, 1]}, "cliques": [["x", "y"], ...], "bad": ["x + y + z = 1"]}; null in a bound means infinite.

Numbers become the nearest floats, both sides of a constraint are subtracted in floating point, and the problem is the
one with the resulting coefficients.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable
from lipcert.files.boundary import located, quoted
from lipcert.polynomial.expansion import limited
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.polynomial.text import parse

MAX_BYTES = 1 << 26
MAX_VARIABLES = 1 << 16
_LONGEST_BOUND = 1000  # characters: the pattern below takes time that grows with the square of a number's digits
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[\d+\])?\Z", re.ASCII)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_BOUND = re.compile(rf"\s*({_NUMBER})\s*<=\s*([A-Za-z_]\w*(?:\[\d+\])?)\s*<=\s*({_NUMBER})\s*\Z", re.ASCII)


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """What a file says: the problem (bounds included as constraints), cliques, bad constraints."""

    problem: PolynomialProblem
    cliques: tuple[tuple[int, ...], ...] | None
    bad: tuple[Polynomial, ...] | None


def load_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read a `.pop` or `.json` file."""
    p = check_readable(path)
    if p.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{p}: larger than the limit of {MAX_BYTES >> 20} MiB for a polynomial problem")
    with located(p):
        try:
            text = Path(p).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise FileFormatError("not a text file in UTF-8") from None
        return read_json(text) if p.suffix.lower() == ".json" else read_pop(text)


@limited()
def read_pop(text: str) -> ProblemFile:
    """A problem from the text format."""
    names: list[str] = []
    content = _Content(names)
    for number, line in enumerate(text.splitlines(), 1):
        statement = line.split("#", 1)[0].strip()
        if statement:
            with_line = f"line {number}"
            try:
                _statement(statement, names, content)
            except InputError as error:
                raise InputError(f"{with_line}: {error}") from None
    return content.finish()


def _statement(statement: str, names: list[str], content: _Content) -> None:
    word, _, rest = statement.partition(" ")
    match word.rstrip(":").lower():
        case "variables":
            names.extend(_names(rest.replace(",", " ").split(), content.places))
            content.renew()
        case "minimize" | "maximize" | "min" | "max" as sense:
            content.objective(rest, sense[:3])
        case "clique":
            content.cliques.append(content.clique(rest.replace(",", " ").split()))
        case "bad":
            content.constraint(rest, bad=True)
        case _:
            content.constraint(statement)


@limited()
def read_json(text: str) -> ProblemFile:
    """A problem from the JSON format."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # also whole numbers of thousands of digits
        raise FileFormatError("not valid JSON") from None
    known = {"variables", "minimize", "maximize", "constraints", "bounds", "cliques", "bad"}
    if not isinstance(data, dict) or set(data) - known:
        raise FileFormatError(f"expected a JSON object with keys among {', '.join(sorted(known))}")
    names = _names(_strings(data.get("variables"), "variables"), {})
    content = _Content(names)
    for key in ("minimize", "maximize"):
        if key in data:
            content.objective(_strings([data[key]], key)[0], key[:3])
    for constraint in _strings(data.get("constraints", []), "constraints"):
        content.constraint(constraint)
    for constraint in _strings(data.get("bad", []), "bad"):
        content.constraint(constraint, bad=True)
    bounds = data.get("bounds", {})
    if not isinstance(bounds, dict):
        raise FileFormatError("bounds must be an object: name -> [lower, upper]")
    for name, pair in bounds.items():
        content.bound(name, *_pair(name, pair))
    cliques = data.get("cliques", [])
    if not isinstance(cliques, list):
        raise FileFormatError("cliques must be a list of lists of names")
    content.cliques += [content.clique(_strings(c, "cliques")) for c in cliques]
    return content.finish()


class _Content:
    """What has been read so far."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.goal: tuple[Polynomial, str] | None = None
        self.inequalities: list[Polynomial] = []
        self.equalities: list[Polynomial] = []
        self.bad: list[Polynomial] = []
        self.cliques: list[tuple[int, ...]] = []
        self.bounds: dict[int, tuple[float, float]] = {}
        self.places: dict[str, int] = {}
        self.renew()

    def renew(self) -> None:
        """Know the names that are new."""
        self.places.update({self.names[i]: i for i in range(len(self.places), len(self.names))})

    def objective(self, text: str, sense: str) -> None:
        if self.goal is not None:
            raise InputError("a second objective; there must be one")
        self.goal = parse(text, self.places), sense

    def place(self, name: str) -> int:
        if name not in self.places:
            raise InputError(f"unknown variable {quoted(name)}; declare it under variables")
        return self.places[name]

    def bound(self, name: str, lower: float, upper: float) -> None:
        i = self.place(name)
        before = self.bounds.get(i, (-inf, inf))
        self.bounds[i] = max(lower, before[0]), min(upper, before[1])
        if self.bounds[i][0] > self.bounds[i][1]:
            raise InputError(f"the bounds of {quoted(name)} leave nothing: {self.bounds[i][0]} > {self.bounds[i][1]}")

    def clique(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.place(name) for name in names)

    def constraint(self, text: str, bad: bool = False) -> None:
        chain = _BOUND.match(text) if len(text) <= _LONGEST_BOUND else None
        if chain and not bad and chain[2] in self.places:
            return self.bound(chain[2], float(chain[1]), float(chain[3]))
        parts = re.split(r"(<=|>=|==|=)", text)
        if len(parts) != 3:
            raise InputError(f"expected one of <=, >=, = between two polynomials, or a bound, in {quoted(text)}")
        left, right = parse(parts[0], self.places), parse(parts[2], self.places)
        polynomial = right - left if parts[1] == "<=" else left - right
        (self.inequalities if parts[1] in ("<=", ">=") else self.equalities).append(polynomial)
        if bad:
            self.bad.append(polynomial)
        return None

    def finish(self) -> ProblemFile:
        if self.goal is None:
            raise InputError("no objective: add a line 'minimize ...' or 'maximize ...'")
        lower, upper = np.full(len(self.names), -inf), np.full(len(self.names), inf)
        for i, (lo, hi) in self.bounds.items():
            lower[i], upper[i] = lo, hi
        problem = PolynomialProblem(
            self.goal[0],
            tuple(self.inequalities),
            tuple(self.equalities),
            self.goal[1],
            tuple(self.names),
            lower,
            upper,
        )
        return ProblemFile(problem.boxed(), tuple(self.cliques) or None, tuple(self.bad) or None)


def _names(words: Sequence[str], before: Mapping[str, int]) -> list[str]:
    if len(words) + len(before) > MAX_VARIABLES:
        raise InputError(f"more variables than the limit of {MAX_VARIABLES:,}")
    seen: set[str] = set()
    for word in words:
        if not _NAME.match(word):
            raise InputError(f"{quoted(word)} is no name of a variable: letters, digits and _ are")
        if word in seen or word in before:
            raise InputError(f"variable {quoted(word)} is declared twice")
        seen.add(word)
    return list(words)


def _strings(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise FileFormatError(f"{key} must be text")
    return value


def _pair(name: str, pair: Any) -> tuple[float, float]:
    message = f"the bound of {quoted(name)} must be [lower, upper], numbers or null"
    if not isinstance(pair, list) or len(pair) != 2:
        raise FileFormatError(message)
    if not all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in pair):
        raise FileFormatError(message)
    try:
        lower, upper = (None if v is None else float(v) for v in pair)
    except OverflowError:
        raise FileFormatError(message) from None
    if any(v is not None and not isfinite(v) for v in (lower, upper)):
        raise FileFormatError(message)
    return -inf if lower is None else lower, inf if upper is None else upper
