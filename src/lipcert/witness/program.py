"""A point with a given activation pattern: by a linear program, or by projections for many patterns at once.

*Linear program*, any network of ReLUs and leaky ReLUs. Once every slope s_i is chosen, all pre-activations are affine
in x: z_i = b_i + sum_j A_ij (s_j * z_j). Points with that pattern are those where the signs of the z_i agree with it;
the program asks for the largest margin,

    max d   s.t.   sign_j z_j(x) >= d |row of z_j|,   x in the region,   d <= margin,

and a negative optimum is the least violation. It decides whether a pattern has a point.

*Projections* (`chase`), any network. All inequalities are stepped towards at once: with violations
q_j = max(leeway - sign_j z_j / length_j, 0) the step is (sum q_j^2) d / |d|^2 along
d = sum q_j (sign_j / length_j) grad z_j. This is a hundred times cheaper than a linear program and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import cut_short, preactivations
from lipcert.budget import Budget
from lipcert.problem.maps import Matrix, dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import sides_of
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN
from lipcert.witness.chart import Batch, Chart
from lipcert.witness.screen import Screen

BOUNDS_SHARE = 0.3  # share of the remaining budget for pre-activation bounds that the problem does not have yet
# Affine forms of all neurons are made where they take at most this share of what is left and have at most this many
# numbers.
FORMS_SHARE = 0.2
FORMS_ENTRIES = 100_000_000
FORMS_COPIES = 3.0  # copies of all affine forms in memory while they are made

Patterns = NDArray[np.bool_]  # (..., neurons), all blocks side by side

_MARGIN = 0.05  # a margin beyond this is not looked for; in units of the length of a row on the unit box
_PIVOT = 12  # operations on every entry of a linear program in one iteration
_SETUP = 1000  # operations on every entry before the first iteration
_FORM = 500  # operations on every entry of `forms` beside the products
_CALLS = 200  # statements around a linear program


@dataclass(frozen=True, eq=False)
class PatternProgram:
    """The neurons of a network of ReLUs and leaky ReLUs on a region: `free` ones have either sign."""

    net: Network
    chart: Chart
    free: Patterns
    fixed: Patterns
    needed: Patterns  # free neurons whose value some weight reads

    @classmethod
    def of(cls, problem: Problem, budget: Budget) -> PatternProgram:
        net = problem.network
        bounds = _bounds(problem, budget.share(BOUNDS_SHARE))
        lo, hi = np.concatenate([z.lo for z in bounds]), np.concatenate([z.hi for z in bounds])
        kinked = np.repeat([f.kinked for f in net.activations], [b.width for b in net.hidden])
        free = (lo < 0) & (hi > 0) & kinked
        matters = np.concatenate([_matters(problem, i) for i in range(1, net.depth + 1)])
        return cls(net, Chart.of(problem), free, lo >= 0, free & matters)

    @staticmethod
    def applies(net: Network) -> bool:
        return net.depth > 0 and all(f.piecewise_linear for f in net.activations)

    def fits(self, budget: Budget) -> bool:
        """Whether `forms` fit into memory and take a small part of the budget only."""
        entries = self.net.neurons * self.net.inputs
        if budget.over() or entries > FORMS_ENTRIES or not budget.holds(FORMS_COPIES * entries):
            return False
        return budget.expected(self._operations) <= FORMS_SHARE * budget.left()

    @property
    def _operations(self) -> float:
        return self.net.inputs * (2.0 * self.net.entries + _FORM * self.net.neurons)

    def slopes(self, u: Patterns) -> list[Array]:
        """The slopes of patterns, block by block."""
        ends = np.cumsum([b.width for b in self.net.hidden])
        return [
            np.where(own, 1.0, f.alpha) if f.kinked else np.ones(own.shape)
            for f, own in zip(self.net.activations, np.split(u, ends[:-1], axis=-1), strict=True)
        ]

    def forms(self, u: Patterns, budget: Budget) -> tuple[Array, Array]:
        """Rows and shifts of all pre-activations as affine functions of the chart's coordinates."""
        budget.charge(self._operations)
        rows: list[Array] = []
        shifts: list[Array] = []
        slopes = self.slopes(u)
        for block in self.net.hidden:
            (j, w), *others = block.terms
            row, shift = self._term(j, w, slopes, rows, shifts)
            for j, w in others:
                more = self._term(j, w, slopes, rows, shifts)
                row, shift = row + more[0], shift + more[1]
            rows.append(row)
            shifts.append(shift + block.bias)
        return np.concatenate(rows), np.concatenate(shifts)

    def _term(
        self, j: int, w: Matrix, slopes: list[Array], rows: list[Array], shifts: list[Array]
    ) -> tuple[Array, Array]:
        """The affine form of w x_j."""
        if j == 0:
            return dense(w) * self.chart.scale, w @ self.chart.origin
        s = slopes[j - 1]
        return np.asarray(w @ (s[:, None] * rows[j - 1])), w @ (s * shifts[j - 1])

    def solve(self, u: Patterns, budget: Budget) -> tuple[Array, float] | None:
        """The point with the largest margin in chart coordinates, and the margin; None when there is no answer."""
        entries = int(self.needed.sum()) * self.net.inputs
        if not self.fits(budget) or budget.expected(_SETUP * entries, THIN) > budget.left():
            return None
        rows, shifts = self.forms(u, budget)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        kept = self.needed & ((lengths > 0) | (shifts != 0))
        s = np.where(u[kept], 1.0, -1.0) / np.where(lengths > 0, lengths, 1.0)[kept]
        table, right = s[:, None] * rows[kept], s * shifts[kept]
        cut = sides_of(self.chart.region)
        if cut is not None:
            own = -cut.A * self.chart.scale
            size = np.maximum(np.sqrt(np.einsum("ij,ij->i", own, own)), 1e-300)
            room = cut.b - cut.A @ self.chart.origin
            table, right = np.vstack([table, own / size[:, None]]), np.concatenate([right, room / size])
        found = inmost(table, right, _MARGIN, budget, bounded=self.chart.bounded)
        return None if found is None else found[:2]


def inmost(
    rows: Array, shifts: Array, margin: float, budget: Budget, *, bounded: bool = True
) -> tuple[Array, float, Array] | None:
    """max d s.t. rows v + shifts >= d, d <= margin, |v_i| <= 1 where bounded: v, d and the multipliers of the rows.

    None when the numbers overflow or the budget ended first.
    """
    from scipy.optimize import linprog  # slow to import

    table = np.hstack([-rows, np.ones((len(rows), 1))])
    if not (np.all(np.isfinite(table)) and np.all(np.isfinite(shifts))):
        return None
    objective = np.append(np.zeros(rows.shape[1]), -1.0)
    end = 1.0 if bounded else np.inf
    bounds = np.array([[-end, end]] * rows.shape[1] + [[-np.inf, margin]])
    entries = max(table.size, 1)
    budget.charge(_SETUP * entries, THIN)
    budget.charge(_CALLS, SCALAR)
    limits: dict[str, float] = {"time_limit": max(budget.left(), 0.01)}
    if budget.repeatable:
        iterations = budget.affordable(max(budget.left(), 0.0), THIN) / (_PIVOT * entries)
        limits = {"maxiter": 1 + int(min(iterations, 1e9))}
    answer = linprog(objective, table, shifts, bounds=bounds, method="highs", options=limits)
    budget.charge(_PIVOT * entries * answer.nit, THIN)
    if answer.x is None:
        return None
    v = np.asarray(answer.x, dtype=np.float64)
    return v[:-1], float(v[-1]), np.asarray(-answer.ineqlin.marginals, dtype=np.float64)


def _bounds(problem: Problem, budget: Budget) -> tuple[Interval, ...]:
    """Bounds of all pre-activations. Bounds that a budget cut short are not kept in the problem, which proofs read."""
    if problem.facts.preactivations is not None:
        return preactivations(problem)
    own = problem.on(problem.region)
    found = preactivations(own, budget)
    if not cut_short(own):
        problem.facts.preactivations = own.facts.preactivations
    return found


def _matters(problem: Problem, block: int) -> Patterns:
    """The neurons of a block that another block reads, or that have a weight in c'scores."""
    net = problem.network
    read = np.zeros(net.blocks[block - 1].width, dtype=bool)
    for reader, weight in net.readers[block]:
        read |= np.any(np.atleast_2d(problem.c @ weight) != 0, axis=0) if reader == len(net.blocks) else True
    return read


LEEWAY = 0.02  # beyond the kink, in units of the length of a row on the unit box
_LOOK = 10  # steps between two looks at the true gradient


@dataclass(frozen=True, eq=False)
class ChaseResult:
    """One row per pattern: the best point on the way, its true gradient norm, and the least violation."""

    points: Batch
    values: Batch
    violation: Batch


@dataclass(frozen=True, eq=False)
class _PatternTargets:
    """The wanted patterns, block by block: their slopes, and their inequalities (signs / lengths) z >= leeway."""

    slopes: list[Batch]
    rows: list[Batch]
    leeway: list[Batch]

    @classmethod
    def of(cls, screen: Screen, program: PatternProgram, patterns: Patterns, lengths: Array) -> _PatternTargets:
        needed = program.needed & (lengths > 0)
        units = np.where(needed, 1.0 / np.where(needed, lengths, 1.0), 0.0)
        rows = np.where(patterns, units, -units).astype(screen.dtype)
        leeway = (LEEWAY * needed).astype(screen.dtype)
        slopes = [s.astype(screen.dtype) for s in program.slopes(patterns)]
        return cls(slopes, screen.split(rows), screen.split(leeway))

    def lacking(self, screen: Screen, v: Batch) -> list[Batch]:
        """The violation of every inequality, in units of its row."""
        found: list[Batch] = []

        def through(i: int, z: Batch) -> Batch:
            z += screen.biases[i]
            found.append(np.maximum(self.leeway[i] - self.rows[i] * z, 0))
            return self.slopes[i] * z

        screen.push(v * screen.scale, through)
        return found

    def towards(self, screen: Screen, lacking: list[Batch]) -> Batch:
        """The direction of steepest descent of the violations, in chart coordinates."""

        def through(i: int, q: Batch | None) -> Batch:
            own = self.rows[i] * lacking[i]
            return own if q is None else own + self.slopes[i] * q

        q = screen.pull(len(lacking[0]), [None] * len(screen.last), through)[0]
        assert q is not None
        return np.asarray(q * screen.scale)


def chase(
    screen: Screen,
    program: PatternProgram,
    starts: Batch,
    patterns: Patterns,
    lengths: Array,
    steps: int,
    budget: Budget,
) -> ChaseResult:
    """Step from the rows of `starts` towards points that have the rows of `patterns`; see `row_lengths`."""
    goal = _PatternTargets.of(screen, program, patterns, lengths)
    v = starts.astype(screen.dtype)
    best, values = v, np.zeros(len(v), dtype=screen.dtype)
    violation = np.full(len(v), np.inf, dtype=screen.dtype)
    for i in range(steps + 1):
        late = i == steps or budget.over()
        lacking = goal.lacking(screen, v)
        total = sum(np.einsum("ij,ij->i", q, q) for q in lacking)
        done = not np.any(total)
        if late or done or i % _LOOK == 0:
            norms = screen.norms(screen.forward(v))
            better = norms > values
            best, values = np.where(better[:, None], v, best), np.where(better, norms, values)
            violation = np.minimum(violation, total)
        if late or done:
            break
        d = goal.towards(screen, lacking)
        size = np.maximum(np.einsum("ij,ij->i", d, d), np.finfo(screen.dtype).tiny)
        v = screen.chart.confine(v + (total / size)[:, None] * d)
    return ChaseResult(best, values, violation)


def row_lengths(program: PatternProgram, pattern: Patterns, budget: Budget) -> Array:
    """The lengths of all pre-activations as affine forms on the unit box, where the pattern holds."""
    rows = program.forms(pattern, budget)[0]
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(np.isfinite(lengths), lengths, 0.0)
