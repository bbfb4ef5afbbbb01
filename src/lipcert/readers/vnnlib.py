"""The inputs of a VNN-LIB property (version 1.0): SMT-LIB text about inputs X_0, X_1, .. and outputs Y_0, Y_1, ..

    (declare-const X_0 Real)                     ; a comment
    (assert (<= X_0 0.68))  (assert (>= X_0 0.6))
    (assert (<= (+ X_0 (* 2 X_1)) 1))
    (assert (or (and (<= Y_0 Y_1)) (and (<= Y_0 Y_2))))

Bounds of single inputs by numbers, alone or under `and`, make a box; linear inequalities of several inputs are
half-spaces that cut it. `or` over inputs makes several such regions, one for each way to choose. Assertions
about outputs only are left aside; inputs beside outputs in one inequality are refused. Inputs may have several indices,
X_0_0_1, counted row by row. Numbers are decimal fractions; the regions of floats contain theirs.
"""

from __future__ import annotations

import gzip
import itertools
import math
import zlib
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WIDTH, check_readable, opened
from lipcert.files.boundary import located, quoted
from lipcert.problem.region import Box, Polytope
from lipcert.readers.smtlib import Atom, Form, Index, Inequality, forms, inequalities, kinds_of, variable

MAX_BYTES = 1 << 26  # bytes of text, after decompression
MAX_REGIONS = 1000  # ways to choose among the alternatives of `or`
_MAX_NAMED = 3  # inputs without a bound that a message names
_IGNORED = {"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}


@dataclass(frozen=True, eq=False)
class Property:
    """The regions of a property's inputs, boxes that may be cut by half-spaces, and what was left aside."""

    regions: tuple[Box | Polytope, ...]
    notes: tuple[str, ...]


def read_property(path: str | Path) -> Property:
    """The input regions of a .vnnlib or .vnnlib.gz file; raises FileFormatError, one line with the place in it."""
    file = check_readable(path)
    name = file.name.lower()
    if not name.endswith((".vnnlib", ".vnnlib.gz")):
        raise FileFormatError(f"{file}: properties are read from .vnnlib and .vnnlib.gz files")
    with located(file):
        return _property(_text(file, name.endswith(".gz")))


def _text(file: Path, packed: bool) -> str:
    """At most MAX_BYTES of text, whatever a small packed file grows to."""
    try:
        with opened(file) as plain, gzip.open(plain, "rb") if packed else nullcontext(plain) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise FileFormatError("not a readable gzip file; unpack it, or fetch it again") from None
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"more than {MAX_BYTES >> 20} MiB of text is not read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileFormatError("not a text file; .vnnlib files are text, .vnnlib.gz packed text") from None


def _property(text: str) -> Property:
    found = _Assertions()
    for form in forms(text):
        match form.head:
            case "assert" if len(form.parts) == 2:
                found.take(form.parts[1])
            case "declare-const" | "declare-fun" if len(form.parts) >= 3 and isinstance(form.parts[1], Atom):
                found.declare(form.parts[1])
            case head if head in _IGNORED:
                pass
            case "vnnlib-version" | "declare-network":
                raise FileFormatError(f"line {form.line}: VNN-LIB 2 is not read; write the property in version 1.0")
            case head:
                raise FileFormatError(f"line {form.line}: {quoted(head or '( )')} is not understood; expected assert")
    return Property(found.regions(), found.notes())


class _Assertions:
    """The assertions about inputs so far: the ways to satisfy all of them, each a list of inequalities."""

    def __init__(self) -> None:
        self.declared: dict[Index, int] = {}  # with the line
        self.always: list[Form] = []
        self.choices: list[list[list[Form]]] = []
        self.ways = 1
        self.left_aside = 0

    def declare(self, name: Atom) -> None:
        kind, index = variable(name)
        if kind is None:
            raise FileFormatError(f"line {name.line}: {quoted(name.text)} is neither an input X_i nor an output Y_j")
        if kind == "X":
            self.declared[index] = name.line

    def take(self, claim: Atom | Form) -> None:
        """One assertion."""
        ways = self._ways(claim)
        if len(ways) == 1:
            self.always += ways[0]
            return
        self.choices.append(ways)
        self.ways *= len(ways)
        self._check(self.ways, claim.line)

    def _ways(self, claim: Atom | Form) -> list[list[Form]]:
        """The alternatives of a claim, each a list of inequalities; what is about outputs alone is left aside."""
        kinds = kinds_of(claim)
        if kinds == {"Y"}:
            self.left_aside += 1
            return [[]]
        if isinstance(claim, Atom) or not kinds:
            raise FileFormatError(f"line {claim.line}: an assertion about no input and no output")
        if claim.head == "or":
            return [way for part in claim.parts[1:] for way in self._ways(part)]
        if claim.head != "and":
            return [[claim]]
        found: list[list[Form]] = [[]]
        for part in claim.parts[1:]:
            more = self._ways(part)
            self._check(len(found) * len(more), claim.line)
            found = [one + other for one in found for other in more]
        return found

    @staticmethod
    def _check(ways: int, line: int) -> None:
        if ways > MAX_REGIONS:
            raise FileFormatError(
                f"line {line}: 'or' over inputs makes more than {MAX_REGIONS:,} regions; split the file"
            )

    def regions(self) -> tuple[Box | Polytope, ...]:
        """One for every way that has a point as far as bounds tell, without repetitions."""
        base = Conjunction(self.declared)
        base.take(row for claim in self.always for row in inequalities(claim))
        if not self.choices:
            return (base.region(),)
        found: dict[Box | Polytope, None] = {}
        last: ContradictionError | None = None
        for ways in itertools.product(*self.choices):
            own = base.copy()
            own.take(row for way in ways for claim in way for row in inequalities(claim))
            try:
                found[own.region()] = None
            except ContradictionError as error:
                last = error
        if not found:
            raise last or FileFormatError("no alternative of the property has an input")
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        if not self.left_aside:
            return ()
        return ("the property's assertions about outputs play no part: the region is its input box",)


class ContradictionError(FileFormatError):
    """Two bounds of an input that exclude each other."""


class Conjunction:
    """The tightest bounds of every input, with their lines, and the other rows."""

    def __init__(self, declared: Mapping[Index, int]) -> None:
        self.declared = dict(declared)
        self.lo: dict[Index, tuple[Fraction, int]] = {}
        self.hi: dict[Index, tuple[Fraction, int]] = {}
        self.rows: list[Inequality] = []
        self.never: Inequality | None = None

    def copy(self) -> Conjunction:
        found = Conjunction(self.declared)
        found.lo, found.hi, found.rows, found.never = dict(self.lo), dict(self.hi), list(self.rows), self.never
        return found

    def take(self, rows: Iterable[Inequality]) -> None:
        """More inequalities: of one input they are bounds."""
        for row in rows:
            if not row.coefficients:
                self.never = row if row.bound < 0 else self.never
            elif len(row.coefficients) > 1:
                self.rows.append(row)
            else:
                ((index, factor),) = row.coefficients.items()
                value = row.bound / factor
                if factor > 0 and (index not in self.hi or value < self.hi[index][0]):
                    self.hi[index] = value, row.line
                if factor < 0 and (index not in self.lo or value > self.lo[index][0]):
                    self.lo[index] = value, row.line

    def region(self) -> Box | Polytope:
        """Inputs in the order of their indices, rounded outward."""
        lines = dict(self.declared) | {i: line for ends in (self.lo, self.hi) for i, (_, line) in ends.items()}
        lines |= {i: row.line for row in self.rows for i in row.coefficients if i not in lines}
        if not lines:
            raise FileFormatError("no input X_0, X_1, .. is bounded or declared in it")
        order = _order(lines)
        self._check_both_sides(order)
        if self.never is not None:
            raise ContradictionError(f"line {self.never.line}: an inequality between numbers that does not hold")
        for i in order:
            if self.lo[i][0] > self.hi[i][0]:
                at = f"line {self.lo[i][1]} and line {self.hi[i][1]}"
                both = f"the bounds of {_name(i)} contradict each other"
                raise ContradictionError(f"{at}: {both}, so no input satisfies them")
        box = Box.from_bounds([_below(self.lo[i][0]) for i in order], [-_below(-self.hi[i][0]) for i in order])
        return self._cut(box, order) if self.rows else box

    def _check_both_sides(self, order: list[Index]) -> None:
        for ends, side, sign in ((self.lo, "lower", ">="), (self.hi, "upper", "<=")):
            missing = [_name(i) for i in order if i not in ends]
            if missing:
                more = f" and {len(missing) - _MAX_NAMED} more" if missing[_MAX_NAMED:] else ""
                raise FileFormatError(
                    f"no {side} bound of {', '.join(missing[:_MAX_NAMED])}{more}; a box needs both sides: "
                    f"add (assert ({sign} {missing[0]} NUMBER))"
                )

    def _cut(self, box: Box, order: list[Index]) -> Polytope:
        """Coefficients are rounded to floats; what that changes within the box is added to the bound, exactly."""
        place = {index: k for k, index in enumerate(order)}
        A, b = np.zeros((len(self.rows), box.size)), np.zeros(len(self.rows))
        for k, row in enumerate(self.rows):
            bound = row.bound
            for index, value in row.coefficients.items():
                j = place[index]
                A[k, j] = _float(value)
                reach = max(abs(Fraction(float(box.lo[j]))), abs(Fraction(float(box.hi[j]))))
                bound += abs(Fraction(float(A[k, j])) - value) * reach
            b[k] = -_below(-bound)
        return Polytope(box, A, b)


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


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise FileFormatError("a number is beyond the range of floats; boxes are finite") from None


def _below(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    near = _float(value)
    if not math.isfinite(near):
        raise FileFormatError("a bound is beyond the range of floats; boxes are finite")
    below = near if Fraction(near) <= value else math.nextafter(near, -math.inf)
    if not math.isfinite(below):
        raise FileFormatError("a bound is beyond the range of floats; boxes are finite")
    return below


def _name(index: Index) -> str:
    return "_".join(["X", *map(str, index)])
