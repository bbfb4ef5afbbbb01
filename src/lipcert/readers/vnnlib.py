"""The input box of a VNN-LIB property (version 1.0): SMT-LIB text about inputs X_0, X_1, .. and outputs Y_0, Y_1, ..

    (declare-const X_0 Real)                     ; a comment
    (assert (<= X_0 0.68))  (assert (>= X_0 0.6))
    (assert (or (and (<= Y_0 Y_1)) (and (<= Y_0 Y_2))))

Bounds of single inputs by numbers, alone or under `and`, make the box. What concerns outputs only is left aside. What
is about inputs and anything else is refused: a union of boxes (`or`), sums, inputs beside outputs. Inputs may have
several indices, X_0_0_1, counted row by row. Numbers are decimal fractions; the box of floats contains theirs.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WIDTH, check_readable
from lipcert.files.boundary import located, quoted
from lipcert.problem.region import Box

MAX_BYTES = 1 << 26  # of text, after decompression
_MAX_DEPTH = 32
_MAX_NAMED = 3  # inputs without a bound that a message names

_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*|\n")
_VARIABLE = re.compile(r"([XY])((?:_\d{1,9})+)\Z")
_NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,3})?\Z")
_IGNORED = {"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}
_RELATIONS = {"<=": "<=", "<": "<=", ">=": ">=", ">": ">=", "=": "="}

Index = tuple[int, ...]


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


@dataclass(frozen=True, eq=False)
class Property:
    """The box of a property, and what was left aside."""

    box: Box
    notes: tuple[str, ...]


def read_property(path: str | Path) -> Property:
    """The input box of a .vnnlib or .vnnlib.gz file; raises FileFormatError, one line with the place in the file."""
    file = check_readable(path)
    name = file.name.lower()
    if not name.endswith((".vnnlib", ".vnnlib.gz")):
        raise FileFormatError(f"{file}: properties are read from .vnnlib and .vnnlib.gz files")
    with located(file):
        return _property(_text(file, name.endswith(".gz")))


def _text(file: Path, packed: bool) -> str:
    """At most MAX_BYTES of text, whatever a small packed file grows to."""
    try:
        with gzip.open(file, "rb") if packed else open(file, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise FileFormatError("not a readable gzip file; unpack it, or fetch it again") from None
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"more than {MAX_BYTES >> 20} MiB of text is not read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileFormatError("not a text file; .vnnlib files are text, .vnnlib.gz packed text") from None


def _forms(text: str) -> Iterator[Form]:
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


def _property(text: str) -> Property:
    collected = _Bounds()
    for form in _forms(text):
        match form.head:
            case "assert" if len(form.parts) == 2:
                collected.take(form.parts[1])
            case "declare-const" | "declare-fun" if len(form.parts) >= 3 and isinstance(form.parts[1], Atom):
                collected.declare(form.parts[1])
            case head if head in _IGNORED:
                pass
            case "vnnlib-version" | "declare-network":
                raise FileFormatError(f"line {form.line}: VNN-LIB 2 is not read; write the property in version 1.0")
            case head:
                raise FileFormatError(f"line {form.line}: {quoted(head or '( )')} is not understood; expected assert")
    return Property(collected.box(), collected.notes())


class _Bounds:
    """The bounds of inputs, while they are collected."""

    def __init__(self) -> None:
        self.declared: dict[Index, int] = {}  # with the line
        self.lo: dict[Index, tuple[Decimal, int]] = {}
        self.hi: dict[Index, tuple[Decimal, int]] = {}
        self.left_aside = 0

    def declare(self, name: Atom) -> None:
        kind, index = _variable(name)
        if kind is None:
            raise FileFormatError(f"line {name.line}: {quoted(name.text)} is neither an input X_i nor an output Y_j")
        if kind == "X":
            self.declared[index] = name.line

    def take(self, claim: Atom | Form) -> None:
        """One assertion: bounds of inputs are kept, what is about outputs alone is left aside."""
        kinds = _kinds(claim)
        if kinds == {"Y"}:
            self.left_aside += 1
        elif isinstance(claim, Atom) or not kinds:
            raise FileFormatError(f"line {claim.line}: an assertion about no input and no output")
        elif claim.head == "and" or (claim.head == "or" and len(claim.parts) == 2):
            for part in claim.parts[1:]:
                self.take(part)
        elif claim.head == "or":
            raise FileFormatError(
                f"line {claim.line}: 'or' over inputs is a union of boxes; write one file for each of them"
            )
        else:
            self._bound(claim)

    def _bound(self, claim: Form) -> None:
        """(relation X_i number), or the other way round; strict ones are closed, which changes no constant."""
        relation = _RELATIONS.get(claim.head)
        if relation is None or len(claim.parts) != 3:
            raise _not_a_box(claim)
        left, right = claim.parts[1:]
        if _number(left) is not None:
            left, right = right, left
            relation = {"<=": ">=", ">=": "<=", "=": "="}[relation]
        value = _number(right)
        kind, index = _variable(left) if isinstance(left, Atom) else (None, ())
        if kind != "X" or value is None:
            raise _not_a_box(claim)
        if relation in (">=", "=") and (index not in self.lo or value > self.lo[index][0]):
            self.lo[index] = value, claim.line
        if relation in ("<=", "=") and (index not in self.hi or value < self.hi[index][0]):
            self.hi[index] = value, claim.line

    def box(self) -> Box:
        """Inputs in the order of their indices, rounded outward."""
        lines = dict(self.declared) | {i: line for ends in (self.lo, self.hi) for i, (_, line) in ends.items()}
        if not lines:
            raise FileFormatError("no input X_0, X_1, .. is bounded or declared in it")
        order = _order(lines)
        for ends, side, sign in ((self.lo, "lower", ">="), (self.hi, "upper", "<=")):
            missing = [_name(i) for i in order if i not in ends]
            if missing:
                named = ", ".join(missing[:_MAX_NAMED]) + (
                    f" and {len(missing) - _MAX_NAMED} more" if missing[_MAX_NAMED:] else ""
                )
                raise FileFormatError(
                    f"no {side} bound of {named}; a box needs both sides: add (assert ({sign} {missing[0]} NUMBER))"
                )
        for i in order:
            if self.lo[i][0] > self.hi[i][0]:
                at = f"line {self.lo[i][1]} and line {self.hi[i][1]}"
                raise FileFormatError(
                    f"{at}: the bounds of {_name(i)} contradict each other, so no input satisfies them"
                )
        return Box.from_bounds(
            [_below(self.lo[i][0]) for i in order], [-_below(self.hi[i][0].copy_negate()) for i in order]
        )

    def notes(self) -> tuple[str, ...]:
        if not self.left_aside:
            return ()
        return ("the property's assertions about outputs play no part: the region is its input box",)


def _order(lines: dict[Index, int]) -> list[Index]:
    """All indices row by row; there must be one for each place of the input's shape."""
    ranks = {len(index) for index in lines}
    if len(ranks) > 1:
        odd = min(lines, key=len)
        raise FileFormatError(f"line {lines[odd]}: {_name(odd)} has another number of indices than other inputs")
    shape = [max(part) + 1 for part in zip(*lines, strict=True)]
    if math.prod(shape) > MAX_WIDTH:
        raise FileFormatError(f"indices up to {_name(max(lines))}: more than {MAX_WIDTH:,} inputs are not read")
    order = [tuple(int(i) for i in place) for place in np.ndindex(*shape)]
    for index in order:
        if index not in lines:
            raise FileFormatError(
                f"no bound of {_name(index)}, though there is one of {_name(max(lines))}; add both sides"
            )
    return order


def _kinds(claim: Atom | Form) -> set[str]:
    """Which of X and Y occur in it."""
    todo: list[Atom | Form] = [claim]
    found: set[str] = set()
    while todo:
        part = todo.pop()
        if isinstance(part, Form):
            todo += part.parts
        elif (kind := _variable(part)[0]) is not None:
            found.add(kind)
    return found


def _variable(name: Atom) -> tuple[str | None, Index]:
    match = _VARIABLE.match(name.text)
    if match is None:
        return None, ()
    return match.group(1), tuple(int(i) for i in match.group(2)[1:].split("_"))


def _number(part: Atom | Form) -> Decimal | None:
    """A decimal number, or (- number) as SMT-LIB writes negative ones."""
    if isinstance(part, Form):
        inner = _number(part.parts[1]) if part.head == "-" and len(part.parts) == 2 else None
        return None if inner is None else inner.copy_negate()  # a minus sign would round
    return Decimal(part.text) if _NUMBER.match(part.text) else None


def _below(value: Decimal) -> float:
    """The largest float that is at most `value`; decimals compare exactly."""
    near = float(value)
    if not math.isfinite(near):
        raise FileFormatError("a bound is beyond the range of floats; boxes are finite")
    return near if Decimal(near) <= value else math.nextafter(near, -math.inf)


def _name(index: Index) -> str:
    return "_".join(["X", *map(str, index)])


def _not_a_box(claim: Form) -> FileFormatError:
    return FileFormatError(
        f"line {claim.line}: not a bound of one input by a number, as (<= X_0 0.5) is; only boxes are read"
    )
