"""What a relaxation of a higher order would cost, before it is built: for the decision to solve it, and for advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipcert import policy
from lipcert.budget import Budget
from lipcert.polynomial.hierarchy.plan import Stage, plan
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem

# Iterations that SCS is expected to need. Dense relaxations of box-constrained quadratic programs, from 5 variables at
# order 3 to 15 variables at order 2, took 300 to 700.
_SCS_ITERATIONS = 500


@dataclass(frozen=True)
class Forecast:
    """The size of the relaxation, and about how many seconds it takes here and now."""

    stage: Stage
    seconds: float

    @property
    def order(self) -> int:
        return self.stage.order

    @property
    def largest(self) -> int:
        """The order of the largest matrix."""
        return self.stage.blocks[0][0] if self.stage.blocks else 1

    def words(self) -> str:
        """For advice."""
        count = sum(k for _, k in self.stage.blocks)
        if self.seconds < 60:
            time = f"about {max(1, round(self.seconds))} s"
        else:
            time = (
                f"about {round(self.seconds / 60)} min" if self.seconds < 7200 else f"some {self.seconds / 3600:.0f} h"
            )
        sizes = f"{count} matrices of order up to {self.largest}" if count > 1 else f"a matrix of order {self.largest}"
        return f"{'' if self.stage.counted else 'at most '}{sizes}, {time}"


def forecast(
    problem: PolynomialProblem,
    relaxation: str,
    order: int,
    cliques: Sequence[Sequence[int]] | None = None,
    bad: Sequence[Polynomial] | None = None,
    splitting: tuple[str | None, int | None] = (None, None),
    budget: Budget | None = None,
) -> Forecast:
    """The relaxation of this order: counted where it is small, else an upper limit."""
    stage = plan(problem, relaxation, order, cliques, bad, *splitting, ahead=1).stages[0]
    return Forecast(stage, _seconds(stage, budget or Budget.unlimited()))


def _seconds(stage: Stage, budget: Budget) -> float:
    """By an interior point, or by a first-order method where that is sooner."""
    cubes = sum(25.0 * float(n) ** 3 * k for n, k in stage.blocks)
    return min(stage.seconds, budget.expected(_SCS_ITERATIONS * cubes, policy.THIN))
