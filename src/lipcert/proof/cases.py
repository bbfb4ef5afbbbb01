"""Constants that are the largest of several: in norm 1 one for every input coordinate, to norm inf one for each output.

    p = 1      L = max_i |dg/dx_i|          q = inf    L = max_k (constant of score k)

Intervals bound all of them at once; a few are then proved by a relaxation. The bound is the largest over all of the
smaller of both. A checker computes the intervals for all of them again, so none can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, whole
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import jacobian_bounds
from lipcert.proof.certificate import Certificate
from lipcert.proof.encoding import decode_numbers, decode_specifications, encode
from lipcert.proof.multipliers import Multipliers
from lipcert.rounding import Array, best, worst


@dataclass(frozen=True, eq=False)
class ProvedCase:
    """An entry of the table of cases, the proof of its problem, and the bound."""

    row: int
    column: int
    proof: Multipliers
    upper: float


@dataclass(frozen=True, eq=False)
class Cases:
    """The cases that were proved by a relaxation; intervals bound the others."""

    method: str
    cases: tuple[ProvedCase, ...]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        places = np.array([(case.row, case.column) for case in self.cases], dtype=np.int64).reshape(-1, 2)
        return {"proof": np.array("cases"), "cases": places} | encode([case.proof for case in self.cases])

    def check(self, problem: Problem) -> float:
        """The bound that the cases prove together with intervals for all the others."""
        if not problem.has_cases:
            return np.inf
        table = case_table(problem)
        for case in self.cases:
            at = case.row, case.column
            if not (0 <= at[0] < table.shape[0] and 0 <= at[1] < table.shape[1]):
                return np.inf
            table[at] = best(float(table[at]), case.proof.check(case_of(problem, *at)))
        return worst(float(table.max()))


def read_cases(arrays: Mapping[str, Any], method: str) -> Cases:
    """The cases of a file."""
    specifications = decode_specifications(arrays, method)
    places = whole(arrays, "cases", (len(specifications), 2), 0, LARGEST_WHOLE)
    if None in specifications:
        raise FileFormatError("the cases must say which output and coordinate they are about, and by which rows")
    if len(np.unique(places, axis=0)) < len(places):
        raise FileFormatError("two cases are about the same output and coordinate")
    proofs = zip(places, specifications, decode_numbers(arrays, len(places)), strict=True)
    return Cases(
        method, tuple(ProvedCase(int(i), int(j), Multipliers(s, *both), np.inf) for (i, j), s, both in proofs if s)
    )


def case_table(problem: Problem) -> Array:
    """Interval bounds of all cases: (outputs or 1) x (inputs or 1)."""
    size, norm = jacobian_bounds(problem), problem.norm
    if norm.p != "1":
        size = norm.dual.rows_above(size)[:, None]
    if norm.out is not None and norm.out != "inf":
        size = norm.outputs.rows_above(size.T)[None, :]
    return size


def case_of(problem: Problem, row: int, column: int) -> Problem:
    """The problem of an entry of the table, as a part of a proof about the largest of all."""
    output, coordinate = row if problem.norm.out == "inf" else None, column if problem.norm.p == "1" else None
    return problem.case(output, coordinate, part=True)


def prove_cases(problem: Problem, method: str, table: Array, cases: tuple[ProvedCase, ...]) -> Certificate:
    """The largest of all cases; `table` are their interval bounds."""
    table = table.copy()
    for case in cases:
        table[case.row, case.column] = best(float(table[case.row, case.column]), case.upper)
    return Certificate.of(problem, Cases(method, cases), worst(float(table.max())))
