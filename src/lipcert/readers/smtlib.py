"""SMT-LIB text of VNN-LIB properties: words and forms with their lines, and linear inequalities in exact fractions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from lipcert.errors import FileFormatError
from lipcert.files.boundary import quoted

_MAX_DEPTH = 32
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*|\n")
Index = tuple[int, ...]
_VARIABLE = re.compile(r"([XY])((?:_\d{1,9})+)\Z")
_NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,3})?\Z")
_RELATIONS = {"<=": (1,), "<": (1,), ">=": (-1,), ">": (-1,), "=": (1, -1)}
_BITS = 20_000  # binary digits of a number that results from products


class Atom(NamedTuple):
    """A word of the text, and its line."""

    text: str
    line: int


class Form(NamedTuple):
    """( ... ), and the line where it opens."""

    parts: list[Atom | Form]
    line: int

    @property
    def head(self) -> str:
        return self.parts[0].text if self.parts and isinstance(self.parts[0], Atom) else ""


def forms(text: str) -> Iterator[Form]:
    """The top-level forms, without recursion."""
    line, stack = 1, list[Form]()
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
        elif token == "(":
            if len(stack) == _MAX_DEPTH:
                raise FileFormatError(f"line {line}: more than {_MAX_DEPTH} brackets inside each other")
            stack.append(Form([], line))
        elif token == ")":
            if not stack:
                raise FileFormatError(f"line {line}: a closing bracket without an opening one")
            done = stack.pop()
            if stack:
                stack[-1].parts.append(done)
            else:
                yield done
        elif token[0] != ";":
            if not stack:
                raise FileFormatError(f"line {line}: {quoted(token)} stands outside all brackets; not a VNN-LIB file?")
            stack[-1].parts.append(Atom(token, line))
    if stack:
        raise FileFormatError(
            f"line {stack[0].line}: a bracket opens here and is never closed; the file may be cut off"
        )


@dataclass(frozen=True)
class Inequality:
    """sum of coefficients times inputs <= bound, said in this line."""

    coefficients: dict[Index, Fraction]
    bound: Fraction
    line: int


@dataclass(frozen=True)
class _Term:
    """A linear expression: coefficients and a constant."""

    coefficients: dict[Index, Fraction]
    constant: Fraction

    def plus(self, other: _Term, sign: int = 1) -> _Term:
        total = dict(self.coefficients)
        for index, value in other.coefficients.items():
            total[index] = total.get(index, Fraction(0)) + sign * value
        return _Term(total, self.constant + sign * other.constant)

    def times(self, factor: Fraction) -> _Term:
        return _Term({index: factor * value for index, value in self.coefficients.items()}, factor * self.constant)


def inequalities(claim: Form) -> list[Inequality]:
    """The rows of one comparison of linear expressions; strict ones are closed, which changes no constant."""
    signs = _RELATIONS.get(claim.head)
    if signs is None or len(claim.parts) != 3:
        raise _not_linear(claim)
    left, right = (_term(part, claim) for part in claim.parts[1:])
    difference = left.plus(right, -1)
    kept = {index: value for index, value in difference.coefficients.items() if value}
    if any(value.numerator.bit_length() + value.denominator.bit_length() > _BITS for value in kept.values()):
        raise FileFormatError(f"line {claim.line}: a number with thousands of digits is not read")
    return [Inequality({i: s * v for i, v in kept.items()}, -s * difference.constant, claim.line) for s in signs]


def _term(part: Atom | Form, claim: Form) -> _Term:
    """A linear expression of inputs: + - * with numbers."""
    if isinstance(part, Atom):
        kind, index = variable(part)
        if kind == "X":
            return _Term({index: Fraction(1)}, Fraction(0))
        if kind is None and _NUMBER.match(part.text):
            return _Term({}, Fraction(part.text))
        raise _not_linear(claim)
    terms = [_term(inner, claim) for inner in part.parts[1:]]
    if not terms:
        raise _not_linear(claim)
    total = terms[0]
    match part.head:
        case "+":
            for more in terms[1:]:
                total = total.plus(more)
        case "-":
            total = total.times(Fraction(-1)) if len(terms) == 1 else total
            for more in terms[1:]:
                total = total.plus(more, -1)
        case "*":
            for more in terms[1:]:
                if total.coefficients and more.coefficients:
                    raise _not_linear(claim)
                total = total.times(more.constant) if total.coefficients else more.times(total.constant)
        case _:
            raise _not_linear(claim)
    if total.constant.numerator.bit_length() + total.constant.denominator.bit_length() > _BITS:
        raise FileFormatError(f"line {claim.line}: a number with thousands of digits is not read")
    return total


def variable(name: Atom) -> tuple[str | None, Index]:
    """X or Y, and its indices; None where it is neither."""
    match = _VARIABLE.match(name.text)
    if match is None:
        return None, ()
    return match.group(1), tuple(int(i) for i in match.group(2)[1:].split("_"))


def kinds_of(claim: Atom | Form) -> set[str]:
    """Which of X and Y occur in it."""
    todo: list[Atom | Form] = [claim]
    found: set[str] = set()
    while todo:
        part = todo.pop()
        if isinstance(part, Form):
            todo += part.parts
        elif (kind := variable(part)[0]) is not None:
            found.add(kind)
    return found


def _not_linear(claim: Form) -> FileFormatError:
    return FileFormatError(
        f"line {claim.line}: not a linear inequality of inputs and numbers, as (<= X_0 0.5) or "
        "(>= (+ X_0 (* 2 X_1)) 1) is; only boxes and half-spaces are read"
    )
