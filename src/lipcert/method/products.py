"""All products of the inputs' signs with the neurons' signs, for one hidden layer: the grid's road to a certificate.

The low-rank method finds multipliers of the products (`solver.grid`). At fixed multipliers the rest is a problem
without products: over unit vectors where x plays no part, for the interior point where it does. Whatever they return,
a bound is what the certificate code proves; the positive products are cuts of the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.solving import Task, Watcher, proof_seconds
from lipcert.problem.norms import INF
from lipcert.proof import Certificate
from lipcert.proof.relaxed import build
from lipcert.relaxation.cuts import with_cuts
from lipcert.relaxation.grid import Grid, grid_cuts, grid_of, grid_parts
from lipcert.rounding import Array
from lipcert.solver import Progress, Status
from lipcert.solver.grid import GridOptions, GridRun, GridStart, GridState, shifted

FROM = 600  # the order from which products at once beat rounds of cuts
_INTERIOR_TIMES = 4.0  # expected times of the interior point that must fit, where x takes part
_INTERIOR_SHARE = 0.45  # of the time kept for it, at least
_LOOK_SHARE = 0.2  # of the time may go into bounds on the way
_CONTESTED = 1.3  # threads that wait for each other on contested cores lose more than they gain
_GAIN = 3e-4  # in a bound that is worth a proof on the way
_PROOFS = 12.0  # proofs that must fit into the time


@dataclass(frozen=True, eq=False)
class Products:
    """How a run ended, and what a run on a similar problem may start from."""

    status: Status
    start: GridStart | None


def products_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether the products of this relaxation are worth the time there is."""
    from lipcert.solver.rank_two import solve_operations

    if task.norm != INF or task.net.depth != 1 or grid_of(task.relaxation) is None or solver != "auto":
        return False
    task = without_x_if_idle(task)
    problem = task.relaxation.problem
    if problem.size < FROM or _PROOFS * proof_seconds(problem.size) > budget.left():
        return False
    return not _has_rows(task) or _INTERIOR_TIMES * budget.expected(solve_operations(problem)) < budget.left()


def without_x_if_idle(task: Task) -> Task:
    """The task without x where the box reaches every pattern of signs with ease: x then only costs time."""
    if not _has_rows(task):
        return task
    light = build(task.net, task.region, task.norm, task.c, "shor")
    return replace(task, relaxation=light) if "w" not in light.space.slices else task


def _has_rows(task: Task) -> bool:
    """Whether there are rows besides X_ii = 1."""
    return task.relaxation.problem.rows > task.relaxation.problem.size


def solve_products(
    task: Task,
    budget: Budget,
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
    start: GridStart | None = None,
    options: GridOptions = GridOptions(),  # noqa: B008 - frozen
) -> Products:
    """Bounds with all products, within the budget; every certificate on the way goes to `on_certificate`."""
    task = without_x_if_idle(task)
    grid = grid_of(task.relaxation)
    if grid is None:
        return Products(Status.OPTIMAL, None)
    with threads_for(task.relaxation.problem.size):
        return _Road(task, grid, budget, on_certificate, on_iteration, enough).run(start, options)


class _Road:
    """One call: the clock, the best bound, and the two ways to a bound at fixed multipliers of the products."""

    def __init__(
        self,
        task: Task,
        grid: Grid,
        budget: Budget,
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        enough: Callable[[], bool],
    ) -> None:
        self.task, self.grid, self.enough = task, grid, enough
        self.on_certificate, self.on_iteration = on_certificate, on_iteration
        self.budget = budget.upto(budget.left() - proof_seconds(task.relaxation.problem.size))
        self.begin, self.total = budget.now(), self.budget.left()
        self.rows = _has_rows(task)
        self.best = np.inf  # proved
        self.spent, self.idle = 0.0, 0
        self.start: GridStart | None = None

    def run(self, start: GridStart | None, options: GridOptions) -> Products:
        with threads_for(1):  # thin products: a second thread only waits
            state = self._climb(GridRun(self.task.relaxation.problem, self.grid, self.budget, options, start))
        self.start = GridStart(state.y, state.L, state.R)
        if self.rows:
            return Products(Status.OPTIMAL if self.enough() else self._interior(state.L), self.start)
        with threads_for(self._order()):
            self._keep(*self._over_unit_vectors(state, 400), state.L, last=True)
        return Products(Status.TIME_LIMIT if self._climbing().over() else Status.OPTIMAL, self.start)

    def _climb(self, run: GridRun) -> GridState:
        """Rounds of the low-rank method, with bounds on the way while they cost little."""
        going, state = True, run.state()
        while going and not self.enough():
            going = run.advance(self._climbing())
            state = run.state()
            self._show(state)
            if going and self.spent <= _LOOK_SHARE * (self.budget.now() - self.begin) and self.idle < 4:
                self._look(run, state)
        return state

    def _climbing(self) -> Budget:
        """Until the exact solve at the end must begin; earlier on a machine that has other things to do."""
        from lipcert.solver.rank_two import solve_operations

        total = self.total
        if not self.rows:
            last = 6.0 * self._busy() * proof_seconds(self.task.relaxation.problem.size)  # alternation and a proof
            return self.budget.upto(self.budget.left() - min(last + 0.03 * total, 0.4 * total))
        expected = self.budget.expected(solve_operations(self.task.relaxation.problem))
        return self.budget.upto(self.budget.left() - min(max(1.7 * expected, _INTERIOR_SHARE * total), 0.6 * total))

    def _order(self) -> int:
        """For `threads_for`: the order of the matrices, or one where the cores are contested."""
        return self.task.relaxation.problem.size if self._busy() < _CONTESTED else 1

    def _busy(self) -> float:
        """Wall seconds per second of a processor: above one where others use the cores."""
        return 1.0 if self.budget.repeatable else min(self.budget.meter.contention(), 3.0)

    def _show(self, state: GridState) -> None:
        if self.on_iteration is not None:
            dual, gap = self.best, abs(self.best - state.primal) / max(abs(state.primal), 1e-3)
            seconds = self.budget.now() - self.begin
            self.on_iteration(Progress(state.round, seconds, state.primal, dual, state.violation, 0.0, gap, state.y))

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
        parts = (
            C[np.ix_(grid.left, grid.right)] - cross, C[grid.left, grid.one] - rows, C[grid.right, grid.one] - columns
        )  # fmt: skip
        budget = self.budget.upto(self.budget.left() - 2.0 * self._busy() * proof_seconds(problem.size))
        found = solve_unit_vectors(parts, state.R[grid.right], state.R[grid.one], budget, sweeps)
        total = float(state.L.sum())
        diagonal = np.empty(problem.size)
        diagonal[grid.one], diagonal[grid.left], diagonal[grid.right] = found.one + total, found.left, found.right
        variable = problem.vectors.indices[problem.vectors.indptr[problem.ia]]
        return diagonal[variable], found.dual + total

    def _keep(self, y: Array, dual: float, L: Array, last: bool = False) -> None:
        if not dual < self.best * (1 - (0.0 if last else _GAIN)):
            return
        cut, values = self._with(L)
        certificate = cut.prove(np.concatenate([y, values]))
        self.best = min(self.best, certificate.upper)
        self.on_certificate(certificate)

    def _with(self, L: Array) -> tuple[Task, Array]:
        """The task with the positive products as cuts, and their multipliers."""
        cuts, values = grid_cuts(self.task.relaxation, self.grid, L)
        return replace(self.task, relaxation=with_cuts(self.task.relaxation, cuts), cuts=cuts), values

    def _interior(self, L: Array) -> Status:
        """The interior point on the problem's own rows, the products paid at L."""
        from lipcert.solver.rank_two import Options, solve_rank_two

        cut, values = self._with(L)
        budget = self.budget.upto(self.budget.left() - proof_seconds(cut.relaxation.problem.size))
        watcher = Watcher(_Fixed(cut, values), self.on_certificate, self.on_iteration, budget)
        watcher.best = self.best  # nothing above it is worth a proof
        options = Options(tolerance=3e-5, keep_primal=False)
        problem = shifted(self.task.relaxation.problem, self.grid, L)
        result = solve_rank_two(problem, options, watcher, budget=budget)
        self.on_certificate(cut.prove(np.concatenate([result.y, values])))
        if self.start is not None:
            self.start = replace(self.start, y=result.y)
        return result.status


@dataclass(frozen=True, eq=False)
class _Fixed:
    """A task whose last multipliers are fixed."""

    task: Task
    values: Array

    def prove(self, multipliers: Array) -> Certificate:
        return self.task.prove(np.concatenate([multipliers, self.values]))
