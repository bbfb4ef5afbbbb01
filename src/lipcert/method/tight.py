"""Method tight: the best relaxation we have, with rows and cuts that the paper does not have."""

from __future__ import annotations

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.relaxed import Relaxed
from lipcert.method.solving import OnMoments, Task, rounds_fit, solve, tighten
from lipcert.solver import Status as SolverStatus


class Tight(Relaxed):
    """hr2 or the backward lift, then cuts: all triangles, all products, or rounds of what a matrix violates."""

    def __init__(self) -> None:
        super().__init__("tight", "hr2 or a lift with rows and cuts that the paper does not have: any network")

    def solve(self, task: Task, bracket: Bracket, budget: Budget, look: OnMoments | None) -> SolverStatus:
        from lipcert.method.products import products_fit, solve_products  # here, so that importing lipcert stays fast
        from lipcert.method.triangles import solve_triangles, triangles_fit

        solver, whole = bracket.wishes.solver, task.specification.reduction is None
        if whole and triangles_fit(task, solver, budget):
            return solve_triangles(task, bracket, budget).status
        if whole and products_fit(task, solver, budget):
            return solve_products(task, bracket, budget).status
        if rounds_fit(task, solver, budget):
            return tighten(task, bracket, budget, look)
        return solve(task, bracket, budget, look)
