"""Polynomials as readable text, both ways.

expression = term (("+" | "-") term)*        term = factor ("*" factor | "/" number)*
factor     = ("+" | "-") factor | atom (("^" | "**") integer)?
atom       = number | name | "(" expression ")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lipcert.errors import InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.expansion import limited
from lipcert.polynomial.polynomial import Polynomial, total

MAX_TEXT = 1 << 22
MAX_POWER = 64
MAX_DEPTH = 100
_TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*(?:\[\d+\])?)|(\*\*|[-+*/^()])|(\S))")


@limited()
def parse(text: str, names: Sequence[str] | Mapping[str, int]) -> Polynomial:
    """The polynomial that the text describes; `names` are the variables in order, or say which is which."""
    if len(text) > MAX_TEXT:
        raise InputError(f"an expression of {len(text)} characters is longer than the limit of {MAX_TEXT}")
    places = names if isinstance(names, Mapping) else {name: i for i, name in enumerate(names)}
    reader = _Reader(list(_tokens(text)), places)
    result = reader.expression(0)
    if reader.kind:
        raise InputError(f"unexpected {quoted(reader.token)} in {quoted(text.strip())}")
    return result


def show(polynomial: Polynomial, names: Sequence[str] | None = None) -> str:
    """The polynomial as text that `parse` reads back to the same coefficients."""
    pieces: list[str] = []
    for monomial, value in polynomial.terms().items():
        factors: list[str] = []
        for i in sorted(set(monomial)):
            power = monomial.count(i)
            factors.append((names[i] if names else f"x{i}") + (f"^{power}" if power > 1 else ""))
        size = abs(value)
        number = repr(int(size)) if size == int(size) and size < 2**53 else repr(size)
        body = "*".join(factors if factors and size == 1 else [number, *factors])
        sign = ("-" if value < 0 else "") if not pieces else (" - " if value < 0 else " + ")
        pieces.append(sign + body)
    return "".join(pieces) or "0"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        number, name, mark, odd = match.groups()
        if odd:
            raise InputError(f"unexpected {quoted(odd)} in {quoted(text.strip())}")
        yield ("number", number) if number else ("name", name) if name else ("mark", mark)


@dataclass
class _Reader:
    """Recursive descent over the tokens."""

    tokens: list[tuple[str, str]]
    places: Mapping[str, int]
    at: int = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    @property
    def token(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"

    def take(self, *marks: str) -> str:
        if self.kind == "mark" and self.token in marks:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def expression(self, depth: int) -> Polynomial:
        parts = [self.term(depth)]
        while mark := self.take("+", "-"):
            part = self.term(depth)
            parts.append(-part if mark == "-" else part)
        return parts[0] if len(parts) == 1 else total(parts)

    def term(self, depth: int) -> Polynomial:
        result = self.factor(depth)
        while mark := self.take("*", "/"):
            right = self.factor(depth)
            if mark == "*":
                result = result * right
            elif right.degree or not len(right.coefficients):
                raise InputError("division is only by numbers other than zero")
            else:
                result = result / float(right.coefficients[0])
        return result

    def factor(self, depth: int) -> Polynomial:
        if depth > MAX_DEPTH:
            raise InputError(f"parentheses or signs nested deeper than {MAX_DEPTH}")
        if mark := self.take("+", "-"):
            inner = self.factor(depth + 1)
            return -inner if mark == "-" else inner
        base = self.atom(depth)
        return base ** self.power() if self.take("^", "**") else base

    def power(self) -> int:
        if self.kind != "number" or not self.token.isdigit() or not self.token.isascii():
            raise InputError(f"an exponent must be a whole number, not {quoted(self.token)}")
        digits = self.token
        self.at += 1
        if len(digits) > 3 or int(digits) > MAX_POWER:
            raise InputError(f"exponent {quoted(digits)} is larger than the limit of {MAX_POWER}")
        return int(digits)

    def atom(self, depth: int) -> Polynomial:
        kind, token = self.kind, self.token
        self.at += 1
        if kind == "number":
            return Polynomial.constant(float(token))
        if kind == "name":
            if token not in self.places:
                raise InputError(f"unknown variable {quoted(token)}; declared are {quoted(', '.join(self.places))}")
            return Polynomial.variable(self.places[token])
        if kind == "mark" and token == "(":
            inner = self.expression(depth + 1)
            if not self.take(")"):
                raise InputError(f"a closing parenthesis is missing before {quoted(self.token)}")
            return inner
        raise InputError(f"expected a number, a variable or a parenthesis, found {quoted(token)}")
