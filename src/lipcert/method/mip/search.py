"""The mixed-integer program at work: a claim from the solver, witnesses from the patterns that it finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipcert.budget import Budget
from lipcert.method.mip.claim import Claim
from lipcert.method.mip.formulation import Formulation, formulate
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.solver.conic.cones import ConicStatus
from lipcert.solver.mixed_integer import Event, solve_mixed_integer
from lipcert.witness.patterns import realise
from lipcert.witness.program import Program
from lipcert.witness.record import OnWitness, Record
from lipcert.witness.witness import Witness

SOLVER = "HiGHS"


def maximise(
    problem: Problem,
    budget: Budget,
    *,
    known: Witness | None = None,
    on_witness: OnWitness | None = None,
    on_bound: Callable[[float], None] | None = None,
) -> tuple[Claim, ConicStatus]:
    """Solve the program of the largest gradient norm; every pattern found is asked for a point of the box.

    From a known witness the search starts with its pattern. Without one no points are looked for: the claim is all.
    """
    begin = budget.now()
    formulation = formulate(problem)
    catcher = None
    if known is not None and Program.applies(problem.network):
        rng = np.random.default_rng(0)
        catcher = _Catcher(formulation, Record(problem, budget, rng=rng, on_witness=on_witness, known=known))

    def happened(event: Event) -> None:
        if on_bound is not None:
            on_bound(event.bound)
        if catcher is not None and event.x is not None:
            catcher.catch(event.x)

    start = None if known is None else formulation.assignment(known.point[None, :])[0]
    found = solve_mixed_integer(formulation.problem, budget, start=start, on_event=happened)
    if catcher is not None and found.x is not None:
        catcher.catch(found.x)
    status = found.status.value.split(":")[0]
    return Claim(found.value, found.bound, SOLVER, status, found.nodes, budget.now() - begin), found.status


class _Catcher:
    """Turns solutions of the program into witnesses."""

    def __init__(self, formulation: Formulation, record: Record) -> None:
        self.formulation, self.record = formulation, record
        with np.errstate(all="ignore"):
            self.program = Program.of(record.problem, record.budget)

    def catch(self, solution: Array) -> None:
        """A point in the middle of the solution's cell; the solution sits on kinks, so it comes second."""
        pattern, value = self.formulation.pattern(solution), float(self.formulation.problem.cost @ solution)
        with np.errstate(all="ignore"):
            realise(self.record, self.program, pattern[None, :], self.record.budget, "mip")
            self.record.offer(self.formulation.point(solution)[None, :], np.array([value * (1 - 1e-6)]), "mip")
