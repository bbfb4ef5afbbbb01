"""Points that try to have given activation patterns, many at once: relaxed projections, any depth.

With the slopes of a pattern chosen, every pre-activation is affine in x, and points with the pattern solve linear
inequalities. All of them are stepped towards at once: with violations q_j = max(leeway - sign_j z_j / length_j, 0) the
step is (sum q_j^2) d / |d|^2 along d = sum q_j (sign_j / length_j) grad z_j. A linear program (see `program`) decides
whether a pattern has a point; this is a hundred times cheaper and decides nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from lipcert.rounding import Array
from lipcert.witness.program import Patterns, Program
from lipcert.witness.screen import Batch, Screen, apply

LEEWAY = 0.02  # beyond the kink, in units of the length of a row on the unit box
_LOOK = 10  # steps between two looks at the true gradient


@dataclass(frozen=True, eq=False)
class Catch:
    """One row per pattern: the best point on the way, its true gradient norm, and the violation that was left."""

    points: Batch
    values: Batch
    violation: Batch


def chase(
    screen: Screen, program: Program, starts: Batch, patterns: Patterns, lengths: Array, steps: int, end: float
) -> Catch:
    """Step from the rows of `starts` towards points that have the rows of `patterns`; see `row_lengths`."""
    ends = np.cumsum([w.shape[0] for w in screen.weights])[:-1]
    needed = np.split(program.needed & (lengths > 0), ends)
    units = np.split(np.where(lengths > 0, lengths, 1.0).astype(screen.dtype), ends)
    slopes = [s.astype(screen.dtype) for s in program.layers(patterns)]
    split = zip(np.split(patterns, ends, axis=1), needed, strict=True)
    signs = [np.where(u, 1, -1).astype(screen.dtype) * n for u, n in split]
    v = starts.astype(screen.dtype)
    best, values = v, np.zeros(len(v), dtype=screen.dtype)
    violation = np.full(len(v), np.inf, dtype=screen.dtype)
    for i in range(steps + 1):
        late = i == steps or time.monotonic() > end
        lacking = _lacking(screen, v, slopes, signs, units, needed)
        total = sum(np.einsum("ij,ij->i", q, q) for q in lacking)
        done = not np.any(total)
        if late or done or i % _LOOK == 0:
            norms = np.broadcast_to(screen.norms(screen.forward(v)), len(v))
            better = norms > values
            best, values = np.where(better[:, None], v, best), np.where(better, norms, values)
            violation = np.minimum(violation, total)
        if late or done:
            break
        d = _towards(screen, lacking, slopes, signs, units)
        size = np.maximum(np.einsum("ij,ij->i", d, d), np.finfo(screen.dtype).tiny)
        v = screen.chart.confine(v + (total / size)[:, None] * d)
    return Catch(best, values, violation)


def row_lengths(program: Program, pattern: Patterns) -> Array:
    """The lengths of all pre-activations as affine forms on the unit box, where the pattern holds."""
    rows = program.forms(pattern)[0]
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.where(np.isfinite(lengths), lengths, 0.0)


def _lacking(
    screen: Screen, v: Batch, slopes: list[Batch], signs: list[Batch], units: list[Batch], needed: list[Patterns]
) -> list[Batch]:
    """What every sign lacks, in units of its row, layer by layer."""
    x, found = v * screen.scale, []
    for w, b, s, sign, unit, n in zip(screen.weights, screen.biases, slopes, signs, units, needed, strict=True):
        z = apply(w, x) + b
        found.append(np.maximum(LEEWAY * n.astype(screen.dtype) - sign * z / unit, 0))
        x = s * z
    return found


def _towards(
    screen: Screen, lacking: list[Batch], slopes: list[Batch], signs: list[Batch], units: list[Batch]
) -> Batch:
    """The direction of steepest descent of the violations, in chart coordinates."""
    q: Batch | None = None
    for w, lack, s, sign, unit in zip(
        reversed(screen.weights), reversed(lacking), reversed(slopes), reversed(signs), reversed(units), strict=True
    ):
        own = sign * lack / unit
        q = (own if q is None else own + s * q) @ w
    assert q is not None
    return np.asarray(q * screen.scale)
