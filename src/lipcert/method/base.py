"""Method: one way to improve a bracket on a problem within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipcert.errors import MethodError
from lipcert.solver import CONIC_SOLVERS, SOLVERS

if TYPE_CHECKING:
    from lipcert.budget import Budget
    from lipcert.method.bracket import Bracket
    from lipcert.problem.problem import Problem

# Shares of the budget.
PRELUDE_SHARE = 0.6  # for each cheap method that runs first, because on very large networks it can take long
SEARCH_BESIDE_A_SOLVER = 0.2  # for a witness before a relaxation; more gained nothing on SDP-NN and ERAN 3_50


class Method:
    """One way to a bound. A new method is a file in this package and an entry in `table.METHODS`."""

    name: str  # as users write it
    summary: str  # one line for --help and the docs
    # Cheap methods first, so that there is an answer whatever happens.
    prelude: tuple[str, ...] = ("interval", "linear", "mixed")
    greedy: bool = False  # whether the greedy pass of slopes follows "interval", before anything that takes longer
    search: float = SEARCH_BESIDE_A_SOLVER  # share of the budget for a witness, before `run`
    cheap: bool = False  # a witness is looked for afterwards, for a second, or as long as the bound took
    closes: bool = False  # whether it works until the gap is closed: with a gap left it has not finished
    needs_witness: bool = False  # whether it looks for a witness even if the caller wants none in the answer
    solvers: tuple[str, ...] = SOLVERS  # the ones that a caller may ask for
    for_many: bool = True  # whether `certify` offers it for the constants of all pairs of classes

    def refusal(self, problem: Problem) -> str | None:  # noqa: ARG002 - every problem, unless a method says otherwise
        """None when the method covers the problem, else one line that says why not and what to use instead."""
        return None

    def cost(self, problem: Problem) -> float:
        """The expected work in nominal seconds (`budget`)."""
        raise NotImplementedError

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Improve the bracket, which holds proved bounds only, whatever happens."""
        raise NotImplementedError

    def check_solver(self, name: str) -> None:
        """Refuse a solver that this method does not have."""
        if name not in self.solvers and name in CONIC_SOLVERS:
            others = f"conic solvers are for literal methods alone; otherwise use one of {', '.join(self.solvers)}"
            raise MethodError(
                f"solver {name!r} needs literal=True in bound: {others}",
                f"--solver {name} needs --literal in bound: {others}",
            )
        if name not in self.solvers:
            raise MethodError(f"unknown solver {name!r} here; use one of {', '.join(self.solvers)}")
