"""What a relaxation of a higher order would cost, from the blocks of the one that is there, before it is built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

from lipcert import policy
from lipcert.budget import Budget
from lipcert.polynomial.hierarchy.model import MomentModel


@dataclass(frozen=True)
class Forecast:
    """The order, the sizes of its matrices (without term sparsity: at most these), about how many seconds."""

    order: int
    blocks: tuple[int, ...]
    seconds: float

    @property
    def largest(self) -> int:
        """The order of the largest matrix."""
        return max(self.blocks, default=1)

    def words(self) -> str:
        """For advice."""
        count = len(self.blocks)
        if self.seconds < 60:
            time = f"about {max(1, round(self.seconds))} s"
        else:
            time = (
                f"about {round(self.seconds / 60)} min" if self.seconds < 7200 else f"some {self.seconds / 3600:.0f} h"
            )
        sizes = f"{count} matrices of order up to {self.largest}" if count > 1 else f"a matrix of order {self.largest}"
        return f"{sizes}, {time}"


def forecast(model: MomentModel, order: int, budget: Budget | None = None) -> Forecast:
    """The blocks that the cliques of this model have at another order."""
    cliques = [_variables(b.basis) for b in model.blocks if b.multiplier is None]
    sizes = [_count(c, order, model) for c in cliques]
    for block in model.blocks:
        g = block.multiplier
        if g is not None:
            needed = set(g.variables.tolist())
            homes = [c for c in cliques if needed <= c] or [set(range(model.n))]
            sizes.append(_count(min(homes, key=len), order - (g.degree + 1) // 2, model))
    blocks = tuple(s for s in sizes if s > 1)
    return Forecast(order, blocks, _seconds(blocks, budget or Budget.unlimited()))


def _variables(basis: Iterable[tuple[int, ...]]) -> set[int]:
    return {i for monomial in basis for i in monomial}


def _count(clique: set[int], degree: int, model: MomentModel) -> int:
    """Monomials of at most this degree, variables with a rule at most once."""
    ruled = len(clique & set(model.rules))
    free = len(clique) - ruled
    return sum(comb(ruled, j) * comb(free + degree - j, degree - j) for j in range(min(ruled, degree) + 1))


def _seconds(blocks: tuple[int, ...], budget: Budget) -> float:
    """By an interior point, or by a first-order method where that is sooner."""
    triangles = sum((float(n) * (n + 1) / 2) ** 3 / 3 for n in blocks)
    interior = budget.expected(policy.CLARABEL_ITERATIONS * triangles, policy.FACTOR)
    cubes = sum(25.0 * float(n) ** 3 for n in blocks)
    return min(interior, budget.expected(policy.ORDER_FIRST_ORDER * cubes, policy.THIN))
