"""The region of a list of linear inequalities: a box, cut by those that are about several inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WIDTH
from lipcert.problem.region import Box, Polytope
from lipcert.readers.linear_terms import Index, Row

_MAX_NAMED = 3  # inputs without a bound that a message names


class ContradictionError(FileFormatError):
    """Two bounds of an input that exclude each other."""


class Conjunction:
    """The tightest bounds of every input, with their lines, and the other rows."""

    def __init__(self, declared: Mapping[Index, int]) -> None:
        self.declared = dict(declared)
        self.lo: dict[Index, tuple[Fraction, int]] = {}
        self.hi: dict[Index, tuple[Fraction, int]] = {}
        self.rows: list[Row] = []
        self.never: Row | None = None

    def copy(self) -> Conjunction:
        found = Conjunction(self.declared)
        found.lo, found.hi, found.rows, found.never = dict(self.lo), dict(self.hi), list(self.rows), self.never
        return found

    def take(self, rows: Iterable[Row]) -> None:
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
