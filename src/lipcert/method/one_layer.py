"""All triangles, or all products, of signs at once, for one hidden layer: from low-rank rounds to a certificate.

The low-rank methods find multipliers of the triangles (`solver.triangles`) or of the products (`solver.grid`). At fixed
multipliers the rest is a problem without them: over unit vectors where x plays no part, for the interior point where it
does. Whatever they return, a bound is what the proof room proves; the positive ones are cuts of the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.bracket import BracketView
from lipcert.method.solving import OnMoments, Task, Watcher, least_numbers, proof_operations, proved
from lipcert.problem.norms import INF
from lipcert.proof import Certificate
from lipcert.relaxation.specification import build, plan_specification
from lipcert.relaxation.triangles import grid_cuts, grid_of, grid_parts, triangle_rows
from lipcert.rounding import Array
from lipcert.solver import Progress, Status
from lipcert.solver.grid import GridOptions, GridRun, GridStart, GridState, shifted
from lipcert.solver.triangles import Dual, TriangleOptions, TriangleRun, TriangleStart

# Measured on SDP-NN; docs/experiments.
PRODUCTS_FROM = 600  # order from which all products at once are better than rounds of cuts
PRODUCTS_INTERIOR_TIMES = 4.0  # expected durations of the interior point that must fit, if x takes part
PRODUCTS_INTERIOR_SHARE = 0.45  # share of the budget kept for the interior point, at least
PRODUCTS_LOOK_SHARE = 0.2  # share of the work that may go into bounds on the way
PRODUCTS_GAIN = 3e-4  # relative gain that is worth a proof on the way
PRODUCTS_PROOFS = 12.0  # proofs that must fit into the budget
TRIANGLES_LOOK_SHARE = 0.12  # share of the work that may go into bounds on the way
TRIANGLES_LOOK_STEPS, TRIANGLES_LAST_STEPS = 300, 1000  # polishing steps on the vectors before a bound
TRIANGLES_GAIN = 1e-3  # relative gain that is worth a proof on the way
TRIANGLES_LAST_PROOFS = 12.0  # the last bound takes at most the time of so many proofs


def products_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether the products of this relaxation are worth the budget there is."""
    needed = products_need(task, solver, budget)
    return needed is not None and needed <= budget.left()


def products_need(task: Task, solver: str, budget: Budget) -> float | None:
    """Seconds that a budget must have for the products; None if they are not worth it, whatever the time."""
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


def triangles_fit(task: Task, solver: str, budget: Budget) -> bool:
    """Whether the task is one over signs alone, of an order that rounds of cuts cannot do, and the budget is enough."""
    return products_fit(task, solver, budget) and _only_signs(without_x_if_idle(task))


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


def _only_signs(task: Task) -> bool:
    """X_ii = 1 for every entry of y, and no other row."""
    problem = task.relaxation.problem
    if problem.rows != problem.size or "w" in task.relaxation.space.slices:
        return False
    own = _variables(task)
    return bool(np.all(problem.ia == problem.ib) and np.all(problem.rhs == 1.0) and len(set(own)) == problem.size)


def _variables(task: Task) -> Array:
    """The variable of every row X_ii = 1."""
    problem = task.relaxation.problem
    return np.asarray(problem.vectors.indices[problem.vectors.indptr[problem.ia]])


class _WarmStart:
    """Keeps multipliers and vectors between turns; the next rounds start from them."""

    start: object = None
    dual = np.inf

    def least(self, budget: Budget) -> float | None:  # noqa: ARG002 - as every kept solve says it
        """No time at all, once there are multipliers."""
        return None if self.start is None else 0.0


class AllTriangles(_WarmStart):
    """Bounds with all triangles, by rounds within the budget; every certificate on the way improves the bracket."""

    start: TriangleStart | None = None

    def __init__(self, options: TriangleOptions | None = None) -> None:
        self.options = options or TriangleOptions()

    def advance(self, task: Task, bracket: BracketView, budget: Budget, _: OnMoments | None = None, /) -> Status:
        """As every `Solve`; its moment matrix is in single precision and goes to nobody."""
        task = without_x_if_idle(task)
        if not _only_signs(task):
            return Status.OPTIMAL
        run = TriangleRun(task.relaxation.problem.objective.toarray(), budget, self.options, self.start)
        status = _Triangles(task, bracket, budget, run).solve()
        self.start = run.start()
        return status


class AllProducts(_WarmStart):
    """Bounds with all products, by rounds within the budget; every certificate on the way improves the bracket."""

    start: GridStart | None = None

    def __init__(self, options: GridOptions | None = None) -> None:
        self.options = options or GridOptions()

    def advance(self, task: Task, bracket: BracketView, budget: Budget, _: OnMoments | None = None, /) -> Status:
        """As every `Solve`; no moment matrix is made."""
        task = without_x_if_idle(task)
        grid = grid_of(task.relaxation)
        if grid is None:
            return Status.OPTIMAL
        run = GridRun(task.relaxation.problem, grid, budget, self.options, self.start)
        status, self.start = _Products(task, bracket, budget, run).solve()
        return status


class _Climb:
    """One call: rounds of a low-rank method, bounds on the way while they cost little, the best of them.

    A subclass says what a round is, how to show where the rounds are, whether another bound may be better than the
    last, how to make one, and how many seconds the last bound must have.
    """

    look_share: float  # share of the work that may go into bounds on the way
    round: Callable[[Budget], bool]  # False at the tolerance or the end of the budget
    show: Callable[[], None]
    worth_a_look: Callable[[], bool]
    look: Callable[[], None]
    last: Callable[[], float]

    def __init__(self, task: Task, bracket: BracketView, budget: Budget) -> None:
        self.task, self.bracket, self.budget = task, bracket, budget
        self.begin, self.total = budget.now(), budget.left()
        self.best, self.spent = np.inf, 0.0  # the best bound proved, and seconds spent on bounds

    @property
    def proof(self) -> float:
        """Seconds of one proof, as the machine is now."""
        return self.budget.expected(proof_operations(self.task.order))

    @property
    def late(self) -> bool:
        """Whether only the time of the last bound is left."""
        return self.budget.left() <= self.last()

    def climb(self) -> None:
        """Rounds until their end, that of the budget, or a closed bracket."""
        going = True
        while going and not self.bracket.closed():
            with threads_for(1):  # thin products: a second thread only waits
                going = not self.late and self.round(self.budget.upto(self.budget.left() - self.last()))
            self.show()
            elapsed = self.budget.now() - self.begin
            if going and self.worth_a_look() and self.spent <= self.look_share * elapsed:
                clock = self.budget.now()
                self.look()
                self.spent += self.budget.now() - clock

    def report(self, at: int, primal: float, violation: float, multipliers: Array) -> None:
        """A round, with the gap to the best bound."""
        gap, seconds = abs(self.best - primal) / max(abs(primal), 1e-3), self.budget.now() - self.begin
        self.bracket.iterate(Progress(at, seconds, primal, self.best, violation, 0.0, gap, multipliers))

    def prove(self, task: Task, multipliers: Array) -> None:
        """A certificate from these multipliers."""
        certificate = proved(task, multipliers, self.budget)
        self.best = min(self.best, certificate.upper)
        self.bracket.improve(certificate)


class _Triangles(_Climb):
    look_share = TRIANGLES_LOOK_SHARE

    def __init__(self, task: Task, bracket: BracketView, budget: Budget, run: TriangleRun) -> None:
        super().__init__(task, bracket, budget)
        self.run = run

    def solve(self) -> Status:
        self.climb()
        ended = Status.TIME_LIMIT if self.late else Status.OPTIMAL
        self._keep(self.run.dual(TRIANGLES_LAST_STEPS), 1.0)
        return ended

    def round(self, budget: Budget) -> bool:
        return self.run.advance(budget)

    def last(self) -> float:
        return min(TRIANGLES_LAST_PROOFS * self.proof, 0.4 * self.total)

    def show(self) -> None:
        self.report(self.run.round, self.run.primal(), self.run.violation, self.run.base)

    def worth_a_look(self) -> bool:
        return self.run.settled

    def look(self) -> None:
        self._keep(self.run.dual(TRIANGLES_LOOK_STEPS), 1 - TRIANGLES_GAIN)

    def _keep(self, dual: Dual, worth: float) -> None:
        if not dual.value < self.best * worth:
            return
        cuts, values, diagonal = triangle_rows(self.task.relaxation, dual.triangles, dual.g, dual.d)
        with threads_for(self.task.order):
            self.prove(self.task.cut(cuts), np.concatenate([diagonal[_variables(self.task)], values]))


class _Products(_Climb):
    look_share = PRODUCTS_LOOK_SHARE

    def __init__(self, task: Task, bracket: BracketView, budget: Budget, run: GridRun) -> None:
        super().__init__(task, bracket, budget)
        self.run, self.grid, self.state, self.rows = run, run.grid, run.state(), _has_rows(task)
        self.idle = 0  # looks in vain, one after another: rounds without gain are left alone

    def solve(self) -> tuple[Status, GridStart]:
        with threads_for(1):
            self.climb()
        state, ended = self.state, Status.OPTIMAL
        start = GridStart(state.y, state.L, state.R)
        if not self.rows:
            with threads_for(self.task.order):
                self._keep(*self._over_unit_vectors(state, 400), state.L, 1.0)
            ended = Status.TIME_LIMIT if self.late else ended
        elif not self.bracket.closed():
            ended, y = self._interior(state.L)
            start = replace(start, y=y)
        return ended, start

    def round(self, budget: Budget) -> bool:
        return self.run.advance(budget)

    def last(self) -> float:
        """The exact solve at the end: alternation and a proof, or an interior point."""
        from lipcert.solver.costs import solve_operations

        if not self.rows:
            return self.proof + min(6.0 * self.proof + 0.03 * self.total, 0.4 * self.total)
        expected = self.budget.expected(solve_operations(self.task.relaxation.problem))
        return self.proof + min(max(1.7 * expected, PRODUCTS_INTERIOR_SHARE * self.total), 0.6 * self.total)

    def show(self) -> None:
        state = self.state = self.run.state()
        self.report(state.round, state.primal, state.violation, state.y)

    def worth_a_look(self) -> bool:
        return self.idle < 4

    def look(self) -> None:
        if self.rows:
            y, L, dual = self.run.feasible()
        else:
            (y, dual), L = self._over_unit_vectors(self.state, 60), self.state.L
        self.idle = 0 if dual < self.best or not self.rows else self.idle + 1
        self._keep(y, dual, L, 1 - PRODUCTS_GAIN)

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
        return diagonal[_variables(self.task)], found.dual + total

    def _keep(self, y: Array, dual: float, L: Array, worth: float) -> None:
        if dual < self.best * worth:
            cut, values = self._with(L)
            self.prove(cut, np.concatenate([y, values]))

    def _with(self, L: Array) -> tuple[Task, Array]:
        """The task with the positive products as cuts, and their multipliers."""
        cuts, values = grid_cuts(self.task.relaxation, self.grid, L)
        return self.task.cut(cuts), values

    def _interior(self, L: Array) -> tuple[Status, Array]:
        """The interior point on the problem's own rows, the products paid at L; how it ended, and its multipliers."""
        from lipcert.solver.rank_two import Options, solve_rank_two

        cut, values = self._with(L)
        budget = self.budget.upto(max(self.budget.left() - 2.0 * self.proof, 1.0))
        watcher = Watcher(_Fixed(cut, values), self.bracket, self.budget, latest=budget.end)
        watcher.best = self.best  # nothing above it is worth a proof
        problem = shifted(self.task.relaxation.problem, self.grid, L)
        result = solve_rank_two(problem, Options(tolerance=3e-5, keep_primal=False), watcher, budget=budget)
        self.prove(cut, np.concatenate([result.y, values]))
        return result.status, result.y


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
