"""All products of the inputs' signs with the neurons' signs, for one hidden layer: the grid's road to a certificate.

The low-rank method finds multipliers of the products (`solver.grid`). At fixed multipliers the rest is a problem
without products: over unit vectors where x plays no part, for the interior point where it does. Whatever they return,
a bound is what the proof room proves; the positive products are cuts of the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import Bracket
from lipcert.method.solving import Task, Watcher, least_numbers, proof_operations, proved
from lipcert.problem.norms import INF
from lipcert.proof import Certificate
from lipcert.relaxation.specification import build, plan_specification
from lipcert.relaxation.triangles import Grid, grid_cuts, grid_of, grid_parts
from lipcert.rounding import Array
from lipcert.solver import Progress, Status
from lipcert.solver.grid import GridOptions, GridRun, GridStart, GridState, shifted

# Measured on SDP-NN; docs/experiments.
PRODUCTS_FROM = 600  # order from which all products at once are better than rounds of cuts
PRODUCTS_INTERIOR_TIMES = 4.0  # expected durations of the interior point that must fit, if x takes part
PRODUCTS_INTERIOR_SHARE = 0.45  # share of the budget kept for the interior point, at least
PRODUCTS_LOOK_SHARE = 0.2  # share of the work that may go into bounds on the way
PRODUCTS_GAIN = 3e-4  # relative gain that is worth a proof on the way
PRODUCTS_PROOFS = 12.0  # proofs that must fit into the budget


@dataclass(frozen=True, eq=False)
class Products:
    """How a run ended, and what a run on a similar problem may start from."""

    status: Status
    start: GridStart | None


def products_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether the products of this relaxation are worth the budget there is."""
    needed = products_need(task, solver, budget)
    return needed is not None and needed <= budget.left()


def products_need(task: Task, solver: str, budget: Budget) -> float | None:
    """Seconds from which the products are worth it; None where they are not, whatever the time."""
    from lipcert.solver.costs import solve_numbers, solve_operations

    one_layer = task.problem.norm == INF and task.problem.network.depth == 1
    if not one_layer or grid_of(task.relaxation) is None or solver != "auto":
        return None
    task = without_x_if_idle(task)
    if task.order < PRODUCTS_FROM or not budget.holds(least_numbers(task.order)):
        return None
    proofs = PRODUCTS_PROOFS * budget.expected(proof_operations(task.order))
    if not _has_rows(task):
        return proofs
    if not budget.holds(solve_numbers(task.relaxation.problem)):
        return None
    return max(proofs, PRODUCTS_INTERIOR_TIMES * budget.expected(solve_operations(task.relaxation.problem)))


def without_x_if_idle(task: Task) -> Task:
    """The task without x where the box reaches every pattern of signs with ease: x then only costs time."""
    if not _has_rows(task):
        return task
    specification = plan_specification(task.problem, "shor")
    if specification.values:
        return task
    specification = replace(specification, method=task.specification.method)
    return Task(task.problem, specification, build(task.problem, specification))


def _has_rows(task: Task) -> bool:
    """Whether there are rows besides X_ii = 1."""
    return task.relaxation.problem.rows > task.relaxation.problem.size


def solve_products(
    task: Task,
    bracket: Bracket,
    budget: Budget,
    start: GridStart | None = None,
    options: GridOptions = GridOptions(),
) -> Products:
    """Bounds with all products within the budget; every certificate on the way improves the bracket."""
    task = without_x_if_idle(task)
    grid = grid_of(task.relaxation)
    if grid is None:
        return Products(Status.OPTIMAL, None)
    return _Road(task, grid, bracket, budget).run(start, options)


class _Road:
    """One call: the best bound, and the two ways to a bound at fixed multipliers of the products."""

    def __init__(self, task: Task, grid: Grid, bracket: Bracket, budget: Budget) -> None:
        self.task, self.grid, self.bracket, self.budget = task, grid, bracket, budget
        self.begin, self.total = budget.now(), budget.left()
        self.rows = _has_rows(task)
        self.best = np.inf  # proved
        self.spent, self.idle = 0.0, 0
        self.start: GridStart | None = None

    @property
    def proof(self) -> float:
        """Seconds of one proof, as the machine is now."""
        return self.budget.expected(proof_operations(self.task.order))

    def run(self, start: GridStart | None, options: GridOptions) -> Products:
        with threads_for(1):  # thin products: a second thread only waits
            state = self._climb(GridRun(self.task.relaxation.problem, self.grid, self.budget, options, start))
        self.start = GridStart(state.y, state.L, state.R)
        if self.rows:
            return Products(Status.OPTIMAL if self.bracket.closed() else self._interior(state.L), self.start)
        with threads_for(self.task.order):
            self._keep(*self._over_unit_vectors(state, 400), state.L, last=True)
        return Products(Status.TIME_LIMIT if self._late() else Status.OPTIMAL, self.start)

    def _climb(self, run: GridRun) -> GridState:
        """Rounds of the low-rank method, with bounds on the way while they cost little."""
        going, state = True, run.state()
        while going and not self.bracket.closed():
            going = not self._late() and run.advance(self.budget.upto(self.budget.left() - self._last()))
            state = run.state()
            self._show(state)
            elapsed = self.budget.now() - self.begin
            if going and self.spent <= PRODUCTS_LOOK_SHARE * elapsed and self.idle < 4:
                self._look(run, state)
        return state

    def _late(self) -> bool:
        return self.budget.left() <= self._last()

    def _last(self) -> float:
        """Seconds that the exact solve at the end must have."""
        from lipcert.solver.costs import solve_operations

        if not self.rows:  # alternation and a proof
            return self.proof + min(6.0 * self.proof + 0.03 * self.total, 0.4 * self.total)
        expected = self.budget.expected(solve_operations(self.task.relaxation.problem))
        return self.proof + min(max(1.7 * expected, PRODUCTS_INTERIOR_SHARE * self.total), 0.6 * self.total)

    def _show(self, state: GridState) -> None:
        dual, gap = self.best, abs(self.best - state.primal) / max(abs(state.primal), 1e-3)
        seconds = self.budget.now() - self.begin
        self.bracket.iterate(Progress(state.round, seconds, state.primal, dual, state.violation, 0.0, gap, state.y))

    def _look(self, run: GridRun, state: GridState) -> None:
        """A bound from where the rounds are; `idle` counts looks in vain, so that a road without gain is left alone."""
        clock = self.budget.now()
        if self.rows:
            y, L, dual = run.feasible()
        else:
            (y, dual), L = self._over_unit_vectors(state, 60), state.L
        self.idle = 0 if dual < self.best or not self.rows else self.idle + 1
        self._keep(y, dual, L)
        self.spent += self.budget.now() - clock

    def _over_unit_vectors(self, state: GridState, sweeps: int) -> tuple[Array, float]:
        """Multipliers of X_ii = 1 at fixed L, and the bound."""
        from lipcert.solver.unit_vectors import solve_unit_vectors

        problem, grid = self.task.relaxation.problem, self.grid
        cross, rows, columns = grid_parts(state.L)
        C = problem.objective.toarray()
        budget = self.budget.upto(max(self.budget.left() - 3.0 * self.proof, 0.0))
        parts = (
            C[np.ix_(grid.left, grid.right)] - cross, C[grid.left, grid.one] - rows, C[grid.right, grid.one] - columns
        )  # fmt: skip
        found = solve_unit_vectors(parts, state.R[grid.right], state.R[grid.one], budget, sweeps)
        total = float(state.L.sum())
        diagonal = np.empty(problem.size)
        diagonal[grid.one], diagonal[grid.left], diagonal[grid.right] = found.one + total, found.left, found.right
        variable = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
        return diagonal[variable], found.dual + total

    def _keep(self, y: Array, dual: float, L: Array, last: bool = False) -> None:
        if not dual < self.best * (1 - (0.0 if last else PRODUCTS_GAIN)):
            return
        cut, values = self._with(L)
        certificate = proved(cut, np.concatenate([y, values]), self.budget)
        self.best = min(self.best, certificate.upper)
        self.bracket.improve(certificate)

    def _with(self, L: Array) -> tuple[Task, Array]:
        """The task with the positive products as cuts, and their multipliers."""
        cuts, values = grid_cuts(self.task.relaxation, self.grid, L)
        return self.task.cut(cuts), values

    def _interior(self, L: Array) -> Status:
        """The interior point on the problem's own rows, the products paid at L."""
        from lipcert.solver.rank_two import Options, solve_rank_two

        cut, values = self._with(L)
        budget = self.budget.upto(max(self.budget.left() - 2.0 * self.proof, 1.0))
        watcher = Watcher(_Fixed(cut, values), self.bracket, self.budget, latest=budget.end)
        watcher.best = self.best  # nothing above it is worth a proof
        problem = shifted(self.task.relaxation.problem, self.grid, L)
        result = solve_rank_two(problem, Options(tolerance=3e-5, keep_primal=False), watcher, budget=budget)
        self.bracket.improve(proved(cut, np.concatenate([result.y, values]), self.budget))
        if self.start is not None:
            self.start = replace(self.start, y=result.y)
        return result.status


@dataclass(frozen=True, eq=False)
class _Fixed:
    """A task whose last multipliers are fixed."""

    task: Task
    values: Array

    @property
    def proof_order(self) -> int:
        return self.task.proof_order

    def prove(self, multipliers: Array) -> Certificate:
        return self.task.prove(np.concatenate([multipliers, self.values]))
