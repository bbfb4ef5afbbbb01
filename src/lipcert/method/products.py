"""All products of the inputs' signs with the neurons' signs, for one hidden layer: the grid's road to a certificate.

The low-rank method finds multipliers of the products (`solver.grid`). At fixed multipliers the rest is a problem
without products: over unit vectors where x plays no part, for the interior point where it does. Whatever they return,
a bound is what the certificate code proves; the positive products are cuts of the certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget.threads import threads_for
from lipcert.method.solving import Task, Watcher, proof_seconds
from lipcert.problem.norms import INF
from lipcert.proof import Certificate
from lipcert.relaxation.grid import Grid, grid_cuts, grid_of, grid_parts
from lipcert.relaxation.specification import plan_specification
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


def products_fit(task: Task, solver: str, seconds: float) -> bool:
    """Whether the products of this relaxation are worth the time there is."""
    from lipcert.solver.rank_two import expected_seconds

    one_layer = task.problem.norm == INF and task.problem.network.depth == 1
    if not one_layer or grid_of(task.relaxation) is None or solver != "auto":
        return False
    task = without_x_if_idle(task)
    problem = task.relaxation.problem
    if problem.size < FROM or _PROOFS * proof_seconds(problem.size) > seconds:
        return False
    return not _has_rows(task) or _INTERIOR_TIMES * expected_seconds(problem) < seconds


def without_x_if_idle(task: Task) -> Task:
    """The task without x where the box reaches every pattern of signs with ease: x then only costs time."""
    if not _has_rows(task):
        return task
    light = plan_specification(task.problem, "shor")
    return task if light.values else Task.of(task.problem, light)


def _has_rows(task: Task) -> bool:
    """Whether there are rows besides X_ii = 1."""
    return task.relaxation.problem.rows > task.relaxation.problem.size


def solve_products(
    task: Task,
    seconds: float,
    on_certificate: Callable[[Certificate], None],
    on_iteration: Callable[[Progress], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
    start: GridStart | None = None,
    options: GridOptions = GridOptions(),  # noqa: B008 - frozen
) -> Products:
    """Bounds with all products, for at most about `seconds`; every certificate on the way goes to `on_certificate`."""
    entered = time.monotonic()
    task = without_x_if_idle(task)
    grid = grid_of(task.relaxation)
    if grid is None:
        return Products(Status.OPTIMAL, None)
    with threads_for(task.relaxation.problem.size):
        seconds -= time.monotonic() - entered
        return _Road(task, grid, seconds, on_certificate, on_iteration, enough).run(start, options)


class _Road:
    """One call: the clock, the best bound, and the two ways to a bound at fixed multipliers of the products."""

    def __init__(
        self,
        task: Task,
        grid: Grid,
        seconds: float,
        on_certificate: Callable[[Certificate], None],
        on_iteration: Callable[[Progress], None] | None,
        enough: Callable[[], bool],
    ) -> None:
        self.task, self.grid, self.enough = task, grid, enough
        self.on_certificate, self.on_iteration = on_certificate, on_iteration
        self.begin, self.cpu = time.monotonic(), time.process_time()
        self.end = self.begin + seconds - proof_seconds(task.relaxation.problem.size)
        self.rows = _has_rows(task)
        self.best = np.inf  # proved
        self.spent, self.idle = 0.0, 0
        self.start: GridStart | None = None

    def run(self, start: GridStart | None, options: GridOptions) -> Products:
        with threads_for(1):  # thin products: a second thread only waits
            state = self._climb(GridRun(self.task.relaxation.problem, self.grid, options, start))
        self.start = GridStart(state.y, state.L, state.R)
        if self.rows:
            return Products(Status.OPTIMAL if self.enough() else self._interior(state.L), self.start)
        with threads_for(self._order()):
            self._keep(*self._over_unit_vectors(state, 400), state.L, last=True)
        return Products(Status.TIME_LIMIT if time.monotonic() > self._latest() else Status.OPTIMAL, self.start)

    def _climb(self, run: GridRun) -> GridState:
        """Rounds of the low-rank method, with bounds on the way while they cost little."""
        going, state = True, run.state()
        while going and not self.enough():
            late = self._latest() - time.monotonic()
            run.deadline = time.perf_counter() + late
            going = late > 0 and run.advance()
            state = run.state()
            self._show(state)
            if going and self.spent <= _LOOK_SHARE * (time.monotonic() - self.begin) and self.idle < 4:
                self._look(run, state)
        return state

    def _latest(self) -> float:
        """When the exact solve at the end must begin; earlier on a machine that has other things to do."""
        from lipcert.solver.rank_two import expected_seconds

        total = self.end - self.begin
        if not self.rows:
            last = 6.0 * self._busy() * proof_seconds(self.task.relaxation.problem.size)  # alternation and a proof
            return self.end - min(last + 0.03 * total, 0.4 * total)
        expected = expected_seconds(self.task.relaxation.problem)
        return self.end - min(max(1.7 * self._busy() * expected, _INTERIOR_SHARE * total), 0.6 * total)

    def _order(self) -> int:
        """For `threads_for`: the order of the matrices, or one where the cores are contested."""
        return self.task.relaxation.problem.size if self._busy() < _CONTESTED else 1

    def _busy(self) -> float:
        """Wall seconds per second of one thread: above one where others use the cores."""
        wall, cpu = time.monotonic() - self.begin, time.process_time() - self.cpu
        return min(max(wall / cpu, 1.0), 3.0) if cpu > 1.0 else 1.0

    def _show(self, state: GridState) -> None:
        if self.on_iteration is not None:
            dual, gap = self.best, abs(self.best - state.primal) / max(abs(state.primal), 1e-3)
            seen = Progress(state.round, state.seconds, state.primal, dual, state.violation, 0.0, gap, state.y)
            self.on_iteration(seen)

    def _look(self, run: GridRun, state: GridState) -> None:
        """A bound from where the rounds are; `idle` counts looks in vain, so that a road without gain is left alone."""
        clock = time.monotonic()
        if self.rows:
            y, L, dual = run.feasible()
        else:
            (y, dual), L = self._over_unit_vectors(state, 60), state.L
        self.idle = 0 if dual < self.best or not self.rows else self.idle + 1
        self._keep(y, dual, L)
        self.spent += time.monotonic() - clock

    def _over_unit_vectors(self, state: GridState, sweeps: int) -> tuple[Array, float]:
        """Multipliers of X_ii = 1 at fixed L, and the bound."""
        from lipcert.solver.unit_vectors import solve_unit_vectors

        problem, grid = self.task.relaxation.problem, self.grid
        cross, rows, columns = grid_parts(state.L)
        C = problem.objective.toarray()
        found = solve_unit_vectors(
            C[np.ix_(grid.left, grid.right)] - cross, C[grid.left, grid.one] - rows, C[grid.right, grid.one] - columns,
            state.R[grid.left], state.R[grid.right], state.R[grid.one], sweeps,
            time_limit=max(self.end - time.monotonic() - 2.0 * self._busy() * proof_seconds(problem.size), 0.0),
        )  # fmt: skip
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
        return self.task.with_cuts(cuts), values

    def _interior(self, L: Array) -> Status:
        """The interior point on the problem's own rows, the products paid at L."""
        from lipcert.solver.rank_two import Options, solve_rank_two

        cut, values = self._with(L)
        now, latest = time.monotonic(), self.end - proof_seconds(cut.relaxation.problem.size)
        watcher = Watcher(_Fixed(cut, values), self.on_certificate, self.on_iteration, now, latest)
        watcher.best = self.best  # nothing above it is worth a proof
        left = max(latest - now, 1.0)
        options = Options(tolerance=3e-5, time_limit=left, keep_primal=False)
        problem = shifted(self.task.relaxation.problem, self.grid, L)
        with threads_for(self._order()):
            result = solve_rank_two(problem, options, watcher)
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
