"""Proofs by slopes: the multipliers of one slope program, or of several where the constant is the largest of cases.

A part is about the whole problem, or about one of its cases (`proof.cases`). The bound is the largest over all cases of
the smallest that intervals, the whole problem and the case's own part prove.

slope_parts      a row for each: row and column of its case, -1 and -1 for the whole problem; how many multipliers of
                 neurons it has, how many of inputs, and how many steps
slope_numbers    these multipliers, one part after the other
slope_steps      and these steps (`pieces.Steps`)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import preactivations
from lipcert.bounds.gradients import unbounded_slope
from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST, LARGEST_WHOLE, real, whole, within
from lipcert.problem.problem import Problem
from lipcert.proof.cases import case_of, case_table
from lipcert.proof.certificate import Certificate
from lipcert.proof.pieces import NO_STEPS, Steps, check_program, prove_program, read_steps
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram, orders_of, refusal, slope_program
from lipcert.rounding import Array, best, worst

CASES_MOST = 1000  # cases that are solved and that a certificate's file may hold

NAMES = "slope_parts|slope_numbers|slope_steps"
TEXTS: frozenset[str] = frozenset()
METHOD = "slopes"
WHOLE = -1  # in place of a row and a column


@dataclass(frozen=True, eq=False)
class Part:
    """Multipliers of all neurons, block after block, and of the inputs; what they prove is known to whoever made it."""

    row: int
    column: int
    neurons: Array
    inputs: Array
    steps: Steps
    upper: float = math.inf

    @property
    def place(self) -> tuple[int, int]:
        return self.row, self.column

    def multipliers(self, program: SlopeProgram) -> SlopeMultipliers | None:
        """The multipliers block by block, as the program has them; None if their number is wrong."""
        widths = program.widths[1:]
        if len(self.neurons) != sum(widths):
            return None
        neurons = np.split(self.neurons, np.cumsum(widths)[:-1]) if widths else []
        return SlopeMultipliers(tuple(neurons), self.inputs if program.weighted or len(self.inputs) else None)

    def check(self, problem: Problem) -> float:
        """The bound that the multipliers prove of the whole problem, or of the case that the caller has made of it."""
        if refusal(orders_of(problem), problem.network.inputs) is not None:
            return math.inf
        if unbounded_slope(problem.network, preactivations(problem)) is not None:
            return math.inf
        program = slope_program(problem)
        own = self.multipliers(program)
        return math.inf if own is None else in_its_norm(problem, check_program(program, own, self.steps))


@dataclass(frozen=True, eq=False)
class Slopes:
    """The parts."""

    parts: tuple[Part, ...]
    method: ClassVar[str] = METHOD

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        rows = [(p.row, p.column, len(p.neurons), len(p.inputs), len(p.steps.numbers)) for p in self.parts]
        numbers = [x for p in self.parts for x in (p.neurons, p.inputs)]
        return {
            "proof": np.array("slopes"),
            "slope_parts": np.array(rows, dtype=np.int64).reshape(-1, 5),
            "slope_numbers": np.concatenate([np.zeros(0), *numbers]),
            "slope_steps": np.concatenate([NO_STEPS.numbers, *(p.steps.numbers for p in self.parts)]),
        }

    def check(self, problem: Problem) -> float:
        """The bound that all parts prove together, infinite when none."""
        whole = best(*(p.check(problem) for p in self.parts if p.place == (WHOLE, WHOLE)))
        cases = [p for p in self.parts if p.place != (WHOLE, WHOLE)]
        if not problem.has_cases:
            return math.inf if cases else whole
        if not cases:
            return whole
        table = case_table(problem)
        for p in cases:
            if not (0 <= p.row < table.shape[0] and 0 <= p.column < table.shape[1]):
                return math.inf
            table[p.place] = best(float(table[p.place]), p.check(case_of(problem, *p.place)))
        return worst(float(np.minimum(table, whole).max()))


def in_its_norm(problem: Problem, upper: float) -> float:
    """A bound in the norm of the outputs from one in norm 2, which is at least norm inf; norm 1 is larger than both."""
    if problem.norm.out != "1":
        return upper
    root = math.nextafter(math.sqrt(problem.network.outputs), math.inf)
    return math.nextafter(upper * root, math.inf)


def prove_part(
    problem: Problem, program: SlopeProgram, multipliers: SlopeMultipliers, place: tuple[int, int] = (WHOLE, WHOLE)
) -> Part:
    """The bound from any multipliers, good or bad, of the problem's `program`; `place` says which case it is."""
    upper, steps = prove_program(program, multipliers)
    inputs = np.zeros(0) if multipliers.inputs is None else multipliers.inputs
    neurons = np.concatenate([np.zeros(0), *multipliers.neurons])
    return Part(*place, neurons, inputs, steps, in_its_norm(problem, upper))


def prove_slopes(problem: Problem, multipliers: SlopeMultipliers) -> Certificate:
    """The certificate from any multipliers, good or bad, of the program of the whole problem."""
    return prove_parts(problem, [prove_part(problem, slope_program(problem), multipliers)])


def prove_parts(problem: Problem, parts: Sequence[Part], table: Array | None = None) -> Certificate:
    """The largest of all cases; `table` are their interval bounds, needed where a part is about a case."""
    upper = best(*(p.upper for p in parts if p.place == (WHOLE, WHOLE)))
    cases = [p for p in parts if p.place != (WHOLE, WHOLE)]
    if cases:
        assert table is not None
        found = table.copy()
        for p in cases:
            found[p.place] = best(float(found[p.place]), p.upper)
        upper = worst(float(np.minimum(found, upper).max()))
    return Certificate.of(problem, Slopes(tuple(parts)), upper)


def read_slopes(arrays: Mapping[str, Any]) -> Slopes:
    """The parts of a file."""
    table, steps = whole(arrays, "slope_parts", (None, 5), WHOLE, LARGEST_WHOLE), read_steps(arrays, "slope_steps")
    numbers = real(arrays, "slope_numbers", (None,), 0.0, LARGEST)
    highs = [LARGEST_WHOLE, LARGEST_WHOLE, len(numbers), len(numbers), len(steps)]
    if len(table) > CASES_MOST + 1 or not within(table, [WHOLE, WHOLE, 0, 0, 0], highs):
        raise FileFormatError("the multipliers of the slopes do not fit together")
    if len(np.unique(table[:, :2], axis=0)) < len(table):
        raise FileFormatError("two parts of the slopes are about the same case")
    if table[:, 2:4].sum() != len(numbers) or table[:, 4].sum() != len(steps):
        raise FileFormatError("the multipliers of the slopes do not fit together")
    pieces = np.split(numbers, np.cumsum(table[:, 2:4].reshape(-1))[:-1])
    own = np.split(steps, np.cumsum(table[:, 4])[:-1])
    rows = ((int(i), int(j)) for i, j in table[:, :2])
    return Slopes(tuple(Part(*at, pieces[2 * k], pieces[2 * k + 1], Steps(own[k])) for k, at in enumerate(rows)))
