"""Gradient norms of batches of points, true and smoothed, in single precision: a screen, never a proof.

Points are written in the coordinates v of a chart. The gradient of c'scores runs the chain rule backward over blocks,

    r_j = c A_{m+1,j} + sum_i (r_i * s_i) A_ij,   j = m..0,   g = r_0,   phi = |g|_dual

with the slopes s_i = f_i'(z_i), or smoothed ones, where the step of a kink is a sigmoid. The derivative of the smoothed
phi at t = dphi/dg runs forward, y_0 = t, a_i = sum_j A_ij y_j, y_i = s_i * a_i, so that dphi/ds_i = r_i * a_i, and then
back through the network itself: q_i = dphi/ds_i * s_i'(z_i) + f_i'(z_i) * sum_k q_k A_ki,   dphi/dx = sum_k q_k A_k0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.activations import Activation
from lipcert.problem.blocks import Block
from lipcert.problem.maps import dense_work, entries, is_sparse, times
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.steps import DENSE, RATES, SCALAR, THIN
from lipcert.witness.chart import Batch, Chart

# Nominal seconds of one batch through the network. A search notices that its budget is over this late at most.
PASS_SECONDS = 0.1

CHUNK_BYTES = 64 << 20
_SINGLE_LIMIT = 1e30
_ENTRYWISE = 15  # operations on every entry beside the products
_COPY = 50  # operations on every weight before the first pass
_STATEMENTS = 2  # for every block
_SPARSE = 50  # products of a dense matrix in the time of one of a sparse matrix

Rows = list[Batch | None]  # one for the input and one for every hidden block; None where no path leads there


class Screen:
    """The network on a chart, with weights in float32 unless they might overflow there (or dtype says otherwise).

    Every pass of a batch through it is charged to the budget; one of `chunk` rows keeps within CHUNK_BYTES and
    PASS_SECONDS.
    """

    def __init__(self, problem: Problem, budget: Budget, dtype: Any = None) -> None:
        net = problem.network
        self.budget, self.chart, self.dual = budget, Chart.of(problem), problem.norm.dual
        self.activations, self.coordinate = net.activations, problem.coordinate
        self.widths = [b.width for b in net.hidden]
        with np.errstate(all="ignore"):
            self.dtype = np.dtype(dtype or _precision(problem, self.chart))
            self.terms = [[(j, w.astype(self.dtype)) for j, w in b.terms] for b in net.hidden]
            self.biases = [_at_origin(b, self.chart).astype(self.dtype) for b in net.hidden]
            self.last: Rows = [None] * len(net.blocks)  # c A_{m+1,j}
            for j, w in net.scores.terms:
                self.last[j] = np.asarray(problem.c[None, :] @ w).astype(self.dtype)
        self.scale = self.chart.scale.astype(self.dtype)
        weights = [w for terms in self.terms for _, w in terms]
        work = sum(_SPARSE * entries(w) if is_sparse(w) else dense_work(w) for w in weights)
        products = work * self.dtype.itemsize / 2  # two operations each in single precision
        entrywise = _ENTRYWISE * (self.scale.size + net.neurons)
        self._row = products * RATES[THIN] / RATES[DENSE] + entrywise
        width = self.dtype.itemsize * (4 * self.scale.size + 3 * net.neurons)
        fast = budget.affordable(PASS_SECONDS, THIN) / self._row
        self.chunk = int(max(1, min(CHUNK_BYTES // width, fast)))
        budget.charge(_COPY * net.stored, THIN)
        self._pass = _STATEMENTS * len(net.blocks) * RATES[THIN] / RATES[SCALAR]

    def charge(self, rows: int) -> None:
        """Count one pass of so many rows, forward or backward."""
        self.budget.charge(rows * self._row + self._pass, THIN)

    def rows(self, seconds: float, passes: float) -> int:
        """How many rows can make so many passes in this time of the budget's clock."""
        return int(min(self.budget.affordable(max(seconds, 0.0), THIN) / passes / self._row, 1e9))

    def push(self, x: Batch, through: Callable[[int, Batch], Batch]) -> None:
        """One pass forward from x_0 = x: x_i = through(i - 1, sum_j A_ij x_j)."""
        self.charge(len(x))
        xs = [x]
        for i, terms in enumerate(self.terms):
            total = times(terms[0][1], xs[terms[0][0]])
            for j, w in terms[1:]:
                total += times(w, xs[j])
            xs.append(through(i, total))

    def pull(self, rows: int, behind: Rows, through: Callable[[int, Batch | None], Batch | None]) -> Rows:
        """One pass backward: r_j = behind_j + sum_i through(i - 1, r_i) A_ij."""
        self.charge(rows)
        behind = list(behind)
        for i in range(len(self.terms), 0, -1):
            q = through(i - 1, behind[i])
            if q is None:
                continue
            for j, w in self.terms[i - 1]:
                known, pulled = behind[j], q @ w
                behind[j] = pulled if known is None else known + pulled
        return behind

    def forward(self, v: Batch) -> list[Batch]:
        """The pre-activations z_1 .. z_m."""
        zs: list[Batch] = []

        def through(i: int, z: Batch) -> Batch:
            z += self.biases[i]
            zs.append(z)
            return np.asarray(self.activations[i](z), dtype=self.dtype)

        self.push(v * self.scale, through)
        return zs

    def chain_rule(self, slopes: Sequence[Batch]) -> Rows:
        """r_0 .. r_m for batches of slopes."""
        rows = len(slopes[0]) if slopes else 1
        return self.pull(rows, self.last, lambda i, r: None if r is None else r * slopes[i])

    def norms(self, zs: list[Batch]) -> Batch:
        """Dual norms of the gradients where the pre-activations are known; 0 where they overflow."""
        norms = self.dual.of(self.gradients(self.slopes(zs), self.last))
        norms = np.where(np.isfinite(norms), norms, 0.0)
        return norms if not zs or len(norms) == len(zs[0]) else np.repeat(norms, len(zs[0]))

    def slopes(self, zs: list[Batch]) -> list[Batch]:
        """The slopes of all neurons, block by block."""
        return [_slope(f, z) for f, z in self._with(zs)]

    def gradients(self, slopes: Sequence[Batch], behind: Rows) -> Batch:
        """The gradients of outputs whose weights on the blocks are `behind`, one row for all or one for each."""
        rows = len(slopes[0]) if slopes else 1
        return self._gradient(self.pull(rows, behind, lambda i, r: None if r is None else r * slopes[i]))

    def values(self, patterns: Batch, budget: Budget) -> Batch:
        """Dual norms of the gradients of patterns, whether or not a point has them; 0 once the budget is over."""
        values = np.zeros(len(patterns), dtype=self.dtype)
        for start in range(0, len(patterns), self.chunk):
            if start and budget.over():
                break
            piece = slice(start, start + self.chunk)
            signs = np.where(patterns[piece], 1, -1).astype(self.dtype)
            values[piece] = self.norms(self.split(signs))
        return values

    def split(self, rows: Batch) -> list[Batch]:
        """Rows over all neurons, block by block."""
        return np.split(rows, np.cumsum(self.widths)[:-1], axis=-1)

    def smoothed(self, zs: list[Batch], sharpness: Sequence[Batch | float]) -> tuple[Batch, Batch]:
        """phi and dphi/dv; `sharpness` holds the slopes k of the sigmoids, one number or vector for each block."""
        slopes = [f.smoothed(z, k) for (f, z), k in zip(self._with(zs), sharpness, strict=True)]
        rs = self.chain_rule([s for s, _ in slopes])
        g = self._gradient(rs)
        at_slopes: Rows = []  # dphi/ds_i * s_i'(z_i)

        def through(i: int, a: Batch) -> Batch:
            r, (s, ds) = rs[i + 1], slopes[i]
            at_slopes.append(None if r is None else r * a * ds)
            return s * a

        def back(i: int, q: Batch | None) -> Batch | None:
            own = at_slopes[i]
            if q is None:
                return own
            q = _slope(self.activations[i], zs[i]) * q
            return q if own is None else own + q

        self.push(direction(self.dual, g), through)
        q = self.pull(len(g), [None] * len(self.last), back)[0]
        return self.dual.of(g), np.zeros_like(g) if q is None else q * self.scale

    def _gradient(self, rs: Rows) -> Batch:
        """r_0; where one coordinate is asked for, zero in all others."""
        g = np.zeros((1, self.scale.size), dtype=self.dtype) if rs[0] is None else rs[0]
        return g if self.coordinate is None else g * (np.arange(g.shape[1]) == self.coordinate)

    def _with(self, zs: list[Batch]) -> list[tuple[Activation, Batch]]:
        return list(zip(self.activations, zs, strict=True))


def direction(norm: Norm, g: Batch) -> Batch:
    """t with t'g = |g| whose dual norm is 1, row by row: where the norm is attained."""
    match norm.p:
        case "1":
            return np.sign(g)
        case "2":
            length = norm.of(g)[:, None]
            return np.asarray(g / np.where(length > 0, length, 1))
        case _:
            largest = np.abs(g).argmax(axis=1)[:, None]
            t = np.zeros_like(g)
            np.put_along_axis(t, largest, np.sign(np.take_along_axis(g, largest, axis=1)), axis=1)
            return t


def _slope(f: Activation, z: Batch) -> Batch:
    return z > 0 if f.kind == "relu" else f.derivative(z).astype(z.dtype, copy=False)


def _at_origin(block: Block, chart: Chart) -> Batch:
    """The block's bias, plus what the origin of the chart adds where the block reads the input."""
    source, weight = block.terms[0]
    return block.bias + weight @ chart.origin if source == 0 else block.bias


def _precision(problem: Problem, chart: Chart) -> Any:
    """float32, unless a value or gradient on the chart, or beyond its typical length, might leave its range."""
    reach = np.abs(chart.origin).max() + 1e4 * chart.scale.max() + 1.0
    gain = max(1.0, float(np.abs(problem.c).sum()))
    for block in problem.network.blocks:
        sizes = [abs(w) for _, w in block.terms]
        rows = float(np.sum([np.asarray(size.sum(axis=1)) for size in sizes], axis=0).max())
        columns = max(float(np.asarray(size.sum(axis=0)).max()) for size in sizes)
        reach = reach * max(1.0, rows) + np.abs(block.bias).max()
        gain *= max(1.0, rows, columns) + (len(block.terms) > 1)
    return np.float32 if max(reach, gain) < _SINGLE_LIMIT else np.float64
