"""Points that try to have given activation patterns, many at once: relaxed projections, any network.

With the slopes of a pattern chosen, every pre-activation is affine in x, and points with the pattern solve linear
inequalities. All of them are stepped towards at once: with violations q_j = max(leeway - sign_j z_j / length_j, 0) the
step is (sum q_j^2) d / |d|^2 along d = sum q_j (sign_j / length_j) grad z_j. A linear program (see `program`) decides
whether a pattern has a point; this is a hundred times cheaper and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.rounding import Array
from lipcert.witness.chart import Batch
from lipcert.witness.program import Patterns, Program
from lipcert.witness.screen import Screen

LEEWAY = 0.02  # beyond the kink, in units of the length of a row on the unit box
_LOOK = 10  # steps between two looks at the true gradient


@dataclass(frozen=True, eq=False)
class Catch:
    """One row per pattern: the best point on the way, its true gradient norm, and the violation that was left."""

    points: Batch
    values: Batch
    violation: Batch


@dataclass(frozen=True, eq=False)
class _Goal:
    """The patterns that are wanted, block by block: their slopes, the inequalities as (signs / lengths) z >= leeway."""

    slopes: list[Batch]
    rows: list[Batch]
    leeway: list[Batch]

    @classmethod
    def of(cls, screen: Screen, program: Program, patterns: Patterns, lengths: Array) -> _Goal:
        needed = program.needed & (lengths > 0)
        units = np.where(needed, 1.0 / np.where(needed, lengths, 1.0), 0.0)
        rows = np.where(patterns, units, -units).astype(screen.dtype)
        leeway = (LEEWAY * needed).astype(screen.dtype)
        slopes = [s.astype(screen.dtype) for s in program.slopes(patterns)]
        return cls(slopes, screen.split(rows), screen.split(leeway))

    def lacking(self, screen: Screen, v: Batch) -> list[Batch]:
        """What every inequality lacks, in units of its row."""
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
    program: Program,
    starts: Batch,
    patterns: Patterns,
    lengths: Array,
    steps: int,
    budget: Budget,
) -> Catch:
    """Step from the rows of `starts` towards points that have the rows of `patterns`; see `row_lengths`."""
    goal = _Goal.of(screen, program, patterns, lengths)
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
    return Catch(best, values, violation)


def row_lengths(program: Program, pattern: Patterns, budget: Budget) -> Array:
    """The lengths of all pre-activations as affine forms on the unit box, where the pattern holds."""
    rows = program.forms(pattern, budget)[0]
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(np.isfinite(lengths), lengths, 0.0)
