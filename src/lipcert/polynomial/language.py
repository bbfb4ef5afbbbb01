"""The reader and the writer of the `.pop` language, which docs/polynomials.md describes.

One statement stands on each line, and # starts a comment:

    variables x y z               (may be left out: then all names that occur are variables, in order of appearance)
    minimize x*y + 2 y z          (or maximize, min, max, minimise, maximise; once)
    subject to                    (may be left out)
    x^2 + y^2 <= 1                (<=, >=, =, also < and >; polynomials on both sides, chains such as 1 <= x + y <= 2)
    -1 <= z <= 1                  (a variable between numbers: a bound of the variable)
    x, y >= 0
    x y in [0, 1]                 (an interval, or with {0, 1} a set of values)
    clique x y                    (any number; for the sparse relaxations)
    bad x + y + z = 1             (a constraint kept out of the cliques by the nearly sparse relaxation)

A line that ends in an operator, a comma, a backslash or inside parentheses goes on in the next one. Numbers become the
nearest floats, both sides of a constraint are subtracted in floating point, and the problem is the one with the
resulting coefficients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf, isnan

from lipcert.errors import InputError
from lipcert.files.boundary import quoted
from lipcert.polynomial.content import Content, ProblemFile, alone, constant
from lipcert.polynomial.polynomial import Polynomial, limited
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.polynomial.text import (
    FUNCTIONS,
    MAX_WORDS,
    RELATIONS,
    Misread,
    Reader,
    Token,
    no_function,
    pieces_of,
    show,
    tokens_of,
)

MAX_TEXT = 1 << 24
MAX_VARIABLES = 1 << 16
MAX_VALUES = 8  # how many values a set such as x in {0, 1, 2} may list
SENSES = {f"{word}{ending}": word for word in ("min", "max") for ending in ("", "imise", "imize")}
DECLARE = ("variables", "variable", "vars", "var")
WORDS = frozenset({*SENSES, *DECLARE, "clique", "bad", "in", "inf"})
_COMMENT = re.compile(r"#[^\n]*")
_SUBJECT = re.compile(
    r"^([^\S\n]*)(?:subject[^\S\n]+to\b|such[^\S\n]+that\b|s\.t\.|st(?=[^\S\n]*(?:[:\n]|\Z))|st(?=[^\S\n]+[\w(]))[^\S\n]*:?",
    re.IGNORECASE | re.MULTILINE,
)


@limited()
def read_pop(text: str) -> ProblemFile:
    """A problem from text in the `.pop` language."""
    blank = _COMMENT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    blank = _SUBJECT.sub(lambda m: " " * len(m.group()), blank)
    if len(blank) > MAX_TEXT:
        raise InputError(f"{len(blank):,} characters are more than the limit of {MAX_TEXT:,} for a problem as text")
    content = Content(_variables(_statements(tokens_of(blank))))
    for statement in _statements(tokens_of(blank)):  # split a second time, because tokens take more memory than text
        if statement[0].text.lower() not in DECLARE or statement[0].kind != "name":
            _located(statement, content)
    return content.finish()


def show_problem(problem: PolynomialProblem) -> str:
    """The problem in the `.pop` language. Bounds are written only where `boxed` has made them constraints."""
    names = problem.names or ()
    word = "minimize" if problem.sense == "min" else "maximize"
    lines = [f"variables {' '.join(names)}", f"{word} {show(problem.objective, names)}"]
    lines += [f"{show(g, names)} >= 0" for g in problem.inequalities]
    lines += [f"{show(h, names)} = 0" for h in problem.equalities]
    return "\n".join(lines) + "\n"


def read_relation(text: str, content: Content, bad: bool = False) -> None:
    """Read the text of one constraint and add it to the content."""
    words = [t for t in tokens_of(text) if t.kind != "line"]
    reader = _reader(words[:-1], content)
    _constraint(reader, content, bad)


def _located(statement: list[Token], content: Content) -> None:
    """Read a statement; an error without a place gets the place of the first word."""
    try:
        _statement(statement, content)
    except Misread:
        raise
    except InputError as error:
        raise statement[0].wrong(str(error)) from None


def _statements(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """The words of each statement; an incomplete line continues on the next one, and ; also ends a statement."""
    current: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}")) if token.kind == "mark" else 0
        if token.kind == "line":
            last = current[-1] if current else None
            open_end = last is not None and (
                last.kind == "relation" or (last.kind == "mark" and last.text not in (")", "]", "}", ":"))
            )
            if depth > 0 or open_end:
                current = current[:-1] if last is not None and last.text == "\\" else current
                continue
        if token.kind in ("line", "end") or (token.kind == "mark" and token.text == ";"):
            if current:
                yield current
            current, depth = [], 0
        else:
            current.append(token)
            if len(current) > MAX_WORDS:
                raise current[0].wrong(f"a statement of more than {MAX_WORDS:,} words")


def _variables(statements: Iterable[Sequence[Token]]) -> list[str]:
    """The declared names, or all names that occur where there is no declaration."""
    declared: dict[str, None] = {}
    found: dict[str, Token] = {}
    alone: set[str] = set()  # names that occur somewhere without a parenthesis behind them
    some = False
    for statement in statements:
        first = statement[0].text.lower() if statement[0].kind == "name" else ""
        if first in DECLARE:
            some = True
            for token in (t for t in statement[1:] if t.text not in (",", ":")):
                _check_name(token, declared)
                declared[token.text] = None
            continue
        begin = 1 if first in SENSES or first in ("clique", "bad") else 2 if _labelled(statement) else 0
        for k, token in enumerate(statement[begin:], begin + 1):
            if token.kind == "name" and token.text not in ("in", "inf"):
                found.setdefault(token.text, token)
                if k == len(statement) or statement[k].text != "(":
                    alone.add(token.text)
    if len(declared if some else found) > MAX_VARIABLES:
        raise InputError(f"more variables than the limit of {MAX_VARIABLES:,}")
    if some:
        return list(declared)
    known = dict.fromkeys(found, 0)
    for name, token in found.items():
        if pieces := pieces_of(name, known):
            raise token.wrong(
                f"{quoted(name)} next to {' and '.join(sorted(set(pieces)))}: declare variables, or write *"
            )
        _check_name(token, {})
        if name.lower() in FUNCTIONS:
            raise token.wrong(no_function(name))
        if name not in alone:
            raise token.wrong(f"{quoted(name)} before a parenthesis looks like a function: write * between them")
    return list(found)


def _check_name(token: Token, before: dict[str, None]) -> None:
    if token.kind != "name":
        raise token.wrong(f"{token.shown} is no name of a variable: letters, digits and _ are")
    if token.text.lower() in WORDS:
        raise token.wrong(f"{token.shown} is a word of the language: give the variable another name")
    if token.text in before:
        raise token.wrong(f"variable {token.shown} is declared twice")


def _labelled(statement: Sequence[Token]) -> bool:
    """c1: x + y <= 1, a constraint with a name in front."""
    return len(statement) > 2 and statement[0].kind == "name" and statement[1].text == ":"


def _reader(statement: Sequence[Token], content: Content) -> Reader:
    last = statement[-1] if statement else Token("end", "", 1, 1)
    end = Token("line", "", last.line, last.column + len(last.text))
    return Reader([*statement, end], content.places)


def _statement(statement: list[Token], content: Content) -> None:
    reader = _reader(statement, content)
    word = statement[0].text.lower() if statement[0].kind == "name" else ""
    if word in SENSES:
        reader.next()
        reader.take(":")
        goal = reader.expression()
        _end(reader)
        content.objective(goal, SENSES[word])
    elif word == "clique":
        content.clique([t.text for t in statement[1:] if t.text not in (",", ":")])
    elif word == "bad":
        reader.next()
        reader.take(":")
        _constraint(reader, content, bad=True)
    else:
        reader.at = 2 if _labelled(statement) else 0
        if any(t.kind == "name" and t.text == "in" for t in statement):
            _membership(reader, content)
        else:
            _constraint(reader, content)


def _end(reader: Reader) -> None:
    if reader.token.kind not in ("line", "end"):
        raise reader.unexpected()


def _constraint(reader: Reader, content: Content, bad: bool = False) -> None:
    """Read a chain of lists, x, y >= 0 or 1 <= x + y <= 2: each relation holds between all members of its two sides."""
    here = reader.token
    sides, signs = [_listed(reader)], []
    while reader.token.kind == "relation":
        sign = reader.next()
        signs.append(RELATIONS[sign.text])
        if {"<=", ">="} <= set(signs):
            raise sign.wrong("a chain must go one way, all <= or all >=")
        sides.append(_listed(reader))
    _end(reader)
    if not signs:
        raise reader.token.wrong("expected <=, >= or = and a second polynomial")
    numbers = [not any(p.degree for p in side) for side in sides]
    if len(signs) > 1 and any(a and b for a, b in pairwise(numbers)):
        raise here.wrong("two numbers next to each other in a chain")
    if len(signs) == 2 and not bad and _range(sides, signs, content):
        return
    for k, relation in enumerate(signs):
        for left in sides[k]:
            for right in sides[k + 1]:
                content.relation(left, relation, right, bad)


def _range(sides: list[list[Polynomial]], signs: list[str], content: Content) -> bool:
    """Read number <= variables <= number as one bound, which refuses exchanged ends; False for any other chain."""
    low, high = (sides[0], sides[2]) if signs[0] == "<=" else (sides[2], sides[0])
    places = [alone(p) for p in sides[1]]
    if "=" in signs or len(low) + len(high) != 2 or low[0].degree or high[0].degree or None in places:
        return False
    for i in places:
        if i is not None:
            content.bound(i, constant(low[0]), constant(high[0]))
    return True


def _listed(reader: Reader) -> list[Polynomial]:
    """Polynomials with commas between them, as in x, y >= 0. A number in a list is a slip: 1,000 or 0,5."""
    here = reader.token
    found = [reader.expression()]
    while reader.take(","):
        found.append(reader.expression())
    if len(found) > 1 and not all(p.degree for p in found):
        raise here.wrong("a number in a list: write 1000 and 0.5 without a comma, and one relation per number")
    return found


def _membership(reader: Reader, content: Content) -> None:
    """Read x y in [0, 1] (an interval for each variable) or x in {0, 1} (the allowed values)."""
    places: list[int] = []
    while reader.token.text != "in":
        token = reader.next()
        if token.kind == "name" and token.text in content.places:
            places.append(content.places[token.text])
        elif token.text != ",":
            raise token.wrong(reader.unknown(token.text) if token.kind == "name" else f"unexpected {token.shown}")
    here = reader.next()
    opening = reader.take("[", "{")
    if not opening or not places:
        raise reader.token.wrong("expected variables, 'in' and an interval [0, 1] or values {0, 1}")
    values = [_number(reader)]
    while reader.take(","):
        values.append(_number(reader))
    if not reader.take("]" if opening == "[" else "}"):
        raise reader.token.wrong(
            f"expected a comma or {'a ]' if opening == '[' else 'a }'}, found {reader.token.shown}"
        )
    _end(reader)
    if opening == "[" and len(values) != 2:
        raise here.wrong(f"an interval has two ends, not {len(values)}")
    if opening == "{" and not (len(set(values)) == len(values) <= MAX_VALUES and max(map(abs, values)) < inf):
        raise here.wrong(f"up to {MAX_VALUES} different finite values may be listed")
    for i in places:
        if opening == "[":
            content.bound(i, values[0], values[1])
        else:
            content.equalities.append(_choice(Polynomial.variable(i), values))


def _choice(x: Polynomial, values: Sequence[float]) -> Polynomial:
    """(x - a)(x - b)..., zero at the values."""
    product = Polynomial.constant(1.0)
    for value in values:
        product = product * (x - value)
    return product


def _number(reader: Reader) -> float:
    sign = -1.0 if reader.take("-") else 1.0
    if reader.token.kind == "name" and reader.token.text.lower() in ("inf", "infinity"):
        reader.next()
        return sign * inf
    here = reader.token
    value = reader.expression()
    if value.degree or isnan(constant(value)):
        raise here.wrong("expected a number")
    return sign * constant(value)
