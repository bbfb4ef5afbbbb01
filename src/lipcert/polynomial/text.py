"""Polynomials as readable text, both ways.

    expression = term (("+" | "-") term)*
    term       = factor (["*"] factor | "/" number)*          2x, 2 x y and 3(x + 1) are products
    factor     = ("+" | "-") factor | atom (("^" | "**") integer)?
    atom       = number | name | "(" expression ")"           and where functions are read sqr(e), power(e, integer)

Text that could be read in two ways is refused with a hint: 1/2x, x 2, 2 3, x^2^3, cos(x), xy where x and y are
variables.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.errors import InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.monomials import rows_of
from lipcert.polynomial.polynomial import MAX_DEGREE, Polynomial, limited, total

MAX_TEXT = 1 << 22
MAX_POWER = 64
MAX_DEPTH = 100
MAX_CELLS = 1 << 26  # terms of one sum times their largest degree
MAX_WORDS = 4_000_000  # in one expression or statement
_HINT = 200  # the most characters of a hint; longer hints are left out
_FUNCTIONS = (
    "sin cos tan cot csc asin acos atan atan2 arcsin arccos arctan sinh cosh tanh coth sech csch asinh acosh atanh "
    "arcsinh arccosh arctanh exp log ln log2 log10 sqrt cbrt abs sign sgn floor ceil pow power sqr erf sigmoid relu"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())  # a variable with such a name must be declared
NAME = r"[A-Za-z_]\w*(?:\[\d+(?:,\d+)*\])?"
RELATIONS = {"<=": "<=", "=<": "<=", "<": "<=", "≤": "<=", ">=": ">=", "=>": ">=", ">": ">=", "≥": ">="}
RELATIONS |= {"=": "=", "==": "="}
_SAME = {"−": "-", "·": "*", "×": "*"}
_TOKEN = re.compile(
    rf"(?P<blank>[^\S\n]+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>{NAME})"
    r"|(?P<relation><=|=<|>=|=>|==|[<>=≤≥])|(?P<mark>\*\*|[-+*/^()\[\]{},:;\\−·×])|(?P<line>\n)|(?P<odd>.)",
    re.ASCII,
)


class Misread(InputError):  # noqa: N818 - named for what it is
    """Text that is no polynomial, or no statement: what was found, and where."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(what)
        self.what, self.line, self.column = what, line, column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.what}"


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text; `kind` is number, name, mark, relation, line or end."""

    kind: str
    text: str
    line: int
    column: int

    @property
    def shown(self) -> str:
        return {"end": "the end", "line": "the end of the line"}.get(self.kind) or quoted(self.text)

    def wrong(self, what: str) -> Misread:
        return Misread(what, self.line, self.column)


def tokens_of(text: str) -> Iterator[Token]:
    """The words of the text with their places; an `end` is last."""
    line, start, end = 1, 0, 0
    for match in _TOKEN.finditer(text):
        kind, word = str(match.lastgroup), match.group()
        end = match.end()
        if kind == "blank":
            continue
        token = Token(kind, _SAME.get(word, word), line, match.start() - start + 1)
        if kind == "odd":
            raise token.wrong(f"unexpected {quoted(word)}")
        yield token
        if kind == "line":
            line, start = line + 1, match.end()
    yield Token("end", "", line, end - start + 1)


@limited()
def parse(text: str, names: Sequence[str] | Mapping[str, int]) -> Polynomial:
    """The polynomial that the text describes; `names` are the variables in order, or say which is which."""
    if len(text) > MAX_TEXT:
        raise InputError(f"an expression of {len(text)} characters is longer than the limit of {MAX_TEXT}")
    try:
        places = names if isinstance(names, Mapping) else {name: i for i, name in enumerate(names)}
        reader = Reader([t for t in tokens_of(text) if t.kind != "line"], places)
        result = reader.expression()
        if reader.token.kind != "end":
            raise reader.unexpected()
    except Misread as error:
        where = f"column {error.column}" if error.line == 1 else f"line {error.line}, column {error.column}"
        raise InputError(f"{where} of {quoted(text.strip())}: {error.what}") from None
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


def no_function(name: str) -> str:
    """The message about the name of a function where a polynomial is expected."""
    if name.lower() in ("sqr", "pow", "power"):
        return f"the function {quoted(name)} is not read: write powers as x^2"
    return (
        f"the function {quoted(name)} is not read, only polynomials are; "
        f"a variable of this name must be declared and written {name}*(...)"
    )


def pieces_of(name: str, known: Mapping[str, int]) -> list[str]:
    """The variables whose names, written one after the other, are `name`; an empty list where there are none."""
    best: list[list[str] | None] = [[]] + [None] * min(len(name), 60)
    for end in range(1, len(best)):
        for begin in range(end):
            before = best[begin]
            if before is not None and name[begin:end] in known and name[begin:end] != name:
                best[end] = [*before, name[begin:end]]
                break
    return (best[-1] or []) if len(name) < 61 else []


@dataclass
class Reader:
    """Recursive descent over tokens; the last of them is an `end`."""

    tokens: list[Token]
    places: Mapping[str, int]
    at: int = 0
    gams: bool = False  # sqr and power are functions, products need their *, names are folded to lower case

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def take(self, *marks: str) -> str:
        return self.next().text if self.token.kind in ("mark", "relation") and self.token.text in marks else ""

    def unexpected(self) -> Misread:
        return self.token.wrong(f"unexpected {self.token.shown}")

    def expression(self, depth: int = 0) -> Polynomial:
        """The sum that starts here, up to the first word that is not part of it."""
        parts: list[Polynomial] = []
        monomials: list[tuple[int, ...]] = []
        values: list[float] = []
        sign, widest = 1.0, 0
        while True:
            here = self.token
            value, monomial, compound = self.term(depth)
            widest = max(widest, len(monomial))
            if (len(monomials) + 1) * widest > MAX_CELLS:
                limit = f"{MAX_CELLS:,} numbers (terms times degree)"
                raise here.wrong(
                    f"a sum of {len(monomials):,} terms up to degree {widest} is beyond the limit of {limit}"
                )
            if compound is None:
                monomials.append(monomial)
                values.append(sign * value)
            else:
                parts.append(compound * Polynomial.from_terms({monomial: sign * value}))
            mark = self.take("+", "-")
            if not mark:
                break
            sign = -1.0 if mark == "-" else 1.0
        parts.append(Polynomial(rows_of(monomials), np.array(values, dtype=np.float64)))
        return parts[0] if len(parts) == 1 else total(parts)

    def term(self, depth: int) -> tuple[float, tuple[int, ...], Polynomial | None]:
        """A product as its number, its monomial, and the product of its parentheses (None without parentheses)."""
        value, monomial, compound = self.factor(depth)
        divided = False
        while True:
            here = self.token
            mark = self.take("*", "/")
            if not mark and not self.follows(divided):
                return value, monomial, compound
            right, more, inner = self.factor(depth)
            if mark == "/":
                if inner is not None and not inner.degree and len(inner.coefficients):
                    right, inner = right * float(inner.coefficients[0]), None
                if more or inner is not None or right == 0:
                    raise here.wrong("division is only by numbers other than zero")
                value /= right
            else:
                value, monomial = value * right, (*monomial, *more)
            if len(monomial) > MAX_DEGREE:
                raise here.wrong(f"a product of degree above the limit of {MAX_DEGREE}")
            if inner is not None:
                compound = inner if compound is None else compound * inner
            divided = mark == "/"

    def follows(self, divided: bool) -> bool:
        """Whether the next word is a factor without a * before it. Ambiguous products are refused."""
        here = self.token
        if here.kind not in ("number", "name") and not (here.kind == "mark" and here.text == "("):
            return False
        before = self.tokens[self.at - 1]
        if self.gams:
            raise here.wrong(f"expected an operator before {here.shown}")
        if before.kind == "number" and here.text.startswith("_"):
            raise here.wrong(f"{here.shown} after the number {before.shown}: write digits without _, or a *")
        if here.kind == "number":
            hint = f"; did you mean {before.text}*{here.text} or {before.text}^{here.text}?"
            told = before.kind == "name" and len(hint) <= _HINT
            raise here.wrong(f"a number after {before.shown} without a sign{hint if told else ''}")
        if divided:
            raise here.wrong(
                f"a division and then {here.shown} without a sign can mean two things: write * or parentheses"
            )
        return True

    def factor(self, depth: int) -> tuple[float, tuple[int, ...], Polynomial | None]:
        if depth > MAX_DEPTH:
            raise self.token.wrong(f"parentheses or signs nested deeper than {MAX_DEPTH}")
        if mark := self.take("+", "-"):
            value, monomial, compound = self.factor(depth + 1)
            return (-value if mark == "-" else value), monomial, compound
        value, monomial, compound = self.atom(depth)
        if not self.take("^", "**"):
            return value, monomial, compound
        k = self.power()
        if self.token.kind == "mark" and self.token.text in ("^", "**"):
            raise self.token.wrong("two powers in a row: use parentheses")
        if compound is not None:
            return 1.0, (), compound**k
        return _finite(value**k, self.tokens[self.at - 1]), monomial * k, None

    def power(self) -> int:
        here = self.next()
        digits = here.text.removesuffix(".0") if self.gams else here.text
        if here.kind != "number" or not digits.isdigit():
            raise here.wrong(f"an exponent must be a whole number, not {here.shown}")
        if len(digits) > 3 or int(digits) > MAX_POWER:
            raise here.wrong(f"exponent {quoted(digits)} is larger than the limit of {MAX_POWER}")
        return int(digits)

    def atom(self, depth: int) -> tuple[float, tuple[int, ...], Polynomial | None]:
        here = self.next()
        if here.kind == "number":
            return _finite(float(here.text), here), (), None
        if here.kind == "name":
            if self.token.kind == "mark" and self.token.text == "(":
                if self.gams:
                    return self.function(here, depth)
                if here.text.lower() in FUNCTIONS:
                    raise here.wrong(no_function(here.text))
            place = self.places.get(here.text.lower() if self.gams else here.text)
            if place is None:
                raise here.wrong(self.unknown(here.text))
            return 1.0, (place,), None
        if here.kind == "mark" and here.text == "(":
            inner = self.expression(depth + 1)
            if not self.take(")"):
                raise self.token.wrong(f"a closing parenthesis is missing before {self.token.shown}")
            return 1.0, (), inner
        raise here.wrong(f"expected a number, a variable or a parenthesis, found {here.shown}")

    def function(self, name: Token, depth: int) -> tuple[float, tuple[int, ...], Polynomial | None]:
        """sqr(e) and power(e, k); every other function is refused by its name."""
        known = name.text.lower()
        if known not in ("sqr", "power"):
            raise name.wrong(f"{quoted(name.text)} is not a polynomial; sqr and power are the functions that are read")
        self.next()
        inner, exponent = self.expression(depth + 1), 2
        if known == "power":
            if not self.take(","):
                raise self.token.wrong(f"power needs an exponent, found {self.token.shown}")
            exponent = self.power()
        if not self.take(")"):
            raise self.token.wrong(f"a closing parenthesis is missing before {self.token.shown}")
        return 1.0, (), inner**exponent

    def unknown(self, name: str) -> str:
        """The message about a variable that is not declared, with a guess at the intended text."""
        digits = re.fullmatch(r"(.*?\D)(\d+)", name)
        if pieces := pieces_of(name, self.places):
            hint = f"did you mean {'*'.join(pieces)}?"
        elif digits and digits[1] in self.places:
            hint = f"did you mean {digits[1]}^{digits[2]} or {digits[2]}*{digits[1]}?"
        elif self.token.kind == "mark" and self.token.text == "(":
            hint = "functions are not read, only polynomials are"
        elif len(name) <= _HINT and (near := difflib.get_close_matches(name, list(self.places)[:1000], 1, 0.6)):
            hint = f"did you mean {near[0]}?"
        elif same := [known for known in self.places if known.lower() == name.lower()]:
            hint = f"did you mean {same[0]}?"
        else:
            few = list(self.places)[:8]
            hint = (
                f"declared are {', '.join(few)}{', ...' if len(self.places) > 8 else ''}" if few else "none is declared"
            )
        return f"unknown variable {quoted(name)}; {hint if len(hint) <= _HINT else 'declare it'}"


def _finite(value: float, where: Token) -> float:
    if not np.isfinite(value):
        raise where.wrong(f"{where.shown} is too large a number")
    return value
