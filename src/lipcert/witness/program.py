"""A point with a given activation pattern: one linear program, any depth.

Once every slope s_i is chosen, all pre-activations are affine in x: z_i = A_i (s_{i-1} * z_{i-1}) + b_i. Points with
that pattern are those where the signs of the z_i agree with it; the program asks for the largest margin,

    max d   s.t.   sign_j z_j(x) >= d |row of z_j|,   x in the region,   d <= margin,

and a negative optimum is the least violation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.propagation import preactivation_bounds
from lipcert.problem.network import Network
from lipcert.rounding import Array
from lipcert.witness.screen import Chart

Patterns = NDArray[np.bool_]  # (..., neurons), all layers side by side

_MARGIN = 0.05  # enough, in units of the length of a row on the unit box


@dataclass(frozen=True, eq=False)
class Program:
    """The neurons of a network of ReLUs and leaky ReLUs on a region: `free` ones choose, the others are `fixed`."""

    net: Network
    chart: Chart
    free: Patterns
    fixed: Patterns
    needed: Patterns  # the sign of the others decides nothing

    @classmethod
    def of(cls, net: Network, chart: Chart, c: Array) -> Program:
        bounds = preactivation_bounds(net, chart.region)
        lo, hi = np.concatenate([z.lo for z in bounds]), np.concatenate([z.hi for z in bounds])
        kinked = np.repeat([f.kind != "identity" for f in net.activations], net.shape[1:-1])
        free = (lo < 0) & (hi > 0) & kinked
        needed = free.copy()
        needed[needed.size - net.shape[-2] :] &= net.affines[-1].pull_back(c[None, :])[0] != 0
        return cls(net, chart, free, lo >= 0, needed)

    @staticmethod
    def applies(net: Network) -> bool:
        return net.depth > 0 and all(f.piecewise_linear for f in net.activations)

    def layers(self, u: Patterns) -> list[Array]:
        """The slopes of patterns, layer by layer."""
        ends = np.cumsum(self.net.shape[1:-1])
        return [
            np.where(part, 1.0, 1.0 if f.kind == "identity" else f.alpha)
            for f, part in zip(self.net.activations, np.split(u, ends[:-1], axis=-1), strict=True)
        ]

    def forms(self, u: Patterns) -> tuple[Array, Array]:
        """Rows and shifts of all pre-activations as affine functions of the chart's coordinates."""
        chart = self.chart
        first, *later = self.net.affines[:-1]
        rows, shifts = [_dense(first.weight) * chart.scale], [first(chart.origin[None, :])[0]]
        for s, affine in zip(self.layers(u), later, strict=False):
            rows.append(np.asarray(affine.weight @ (s[:, None] * rows[-1])))
            shifts.append(affine((s * shifts[-1])[None, :])[0])
        return np.concatenate(rows), np.concatenate(shifts)

    def solve(self, u: Patterns, seconds: float) -> tuple[Array, float] | None:
        """The point with the largest margin in chart coordinates, and the margin; None when there is no answer."""
        from scipy.optimize import linprog  # slow to import

        rows, shifts = self.forms(u)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        kept = self.needed & ((lengths > 0) | (shifts != 0))
        s = np.where(u[kept], 1.0, -1.0) / np.where(lengths > 0, lengths, 1.0)[kept]
        upper = np.hstack([-s[:, None] * rows[kept], np.ones((len(s), 1))])
        if not (np.all(np.isfinite(upper)) and np.all(np.isfinite(s * shifts[kept]))):
            return None
        objective = np.zeros(upper.shape[1])
        objective[-1] = -1.0
        end = 1.0 if self.chart.bounded else None
        bounds = [*[(None if end is None else -end, end)] * rows.shape[1], (None, _MARGIN)]
        options = {"time_limit": max(seconds, 0.01)}
        answer = linprog(objective, upper, s * shifts[kept], bounds=bounds, method="highs", options=options)
        return None if answer.x is None else (np.asarray(answer.x[:-1], dtype=np.float64), float(answer.x[-1]))


def _dense(weight: object) -> Array:
    return np.asarray(weight.toarray() if sparse.issparse(weight) else weight, dtype=np.float64)  # type: ignore[attr-defined]
