"""The inputs of a VNN-LIB property (version 1.0): SMT-LIB text about inputs X_0, X_1, .. and outputs Y_0, Y_1, ..

    (declare-const X_0 Real)                     ; a comment
    (assert (<= X_0 0.68))  (assert (>= X_0 0.6))
    (assert (<= (+ X_0 (* 2 X_1)) 1))
    (assert (or (and (<= Y_0 Y_1)) (and (<= Y_0 Y_2))))

Bounds of single inputs by numbers, alone or under `and`, make a box; linear inequalities of several inputs are
half-spaces that cut it. `or` over inputs makes several such regions, one for each way to choose. What concerns outputs
only is left aside; inputs beside outputs in one inequality are refused. Inputs may have several indices, X_0_0_1,
counted row by row. Numbers are decimal fractions; the regions of floats contain theirs.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from lipcert.errors import FileFormatError
from lipcert.files import check_readable, opened
from lipcert.files.boundary import located, quoted
from lipcert.problem.region import Box, Polytope
from lipcert.readers.linear_terms import Index, inequalities, kinds_of, variable
from lipcert.readers.smtlib import Atom, Form, forms
from lipcert.readers.vnnlib_region import Conjunction, ContradictionError

MAX_BYTES = 1 << 26  # of text, after decompression
MAX_REGIONS = 1000  # ways to choose among the alternatives of `or`
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
    """What is said about inputs, while it is collected: the ways to satisfy all of it, each a list of inequalities."""

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
