"""Which partial patterns some input can have, as far as linear rows can tell: one linear program, kept warm.

The rows are those of `proof.nogoods`, in units in which every variable has the size of one. A sign sets the upper end
of one column to zero, so that the basis of the last program stays dual feasible and few pivots lead to the next answer.
The cost is about sum v + w: where both are not needed one of them is zero, and the answer is one for many patterns.
(Without a cost all steps of the dual simplex are ties, and pivots were twenty times as many.) An answer is a hint:
a point of the relaxation, or multipliers that may prove that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.interval import middle_and_radius
from lipcert.problem.maps import matrix
from lipcert.problem.region import Ball
from lipcert.proof.nogoods import Signs, System
from lipcert.rounding import Array
from lipcert.solver.conic.highs_backend import linear_model, with_model

# Measured on mnist-net_256x2, ERAN 5_100 and DiffAI, collapsed.
SIGNS_CALLS = 20.0  # calls around a pattern or around a linear program
SIGNS_ASK = 40.0  # looks at every entry of a linear program before its first pivot
SIGNS_PIVOT = 2.0  # looks at every entry in one pivot

_PIVOTS = 5000  # of one program: more mean that it goes in circles
_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 1,  # dual
    "simplex_scale_strategy": 0,  # it is scaled already
    "simplex_iteration_limit": _PIVOTS,
}


@dataclass(frozen=True, eq=False)
class Answer:
    """A point, or multipliers y and t of `System` that ought to refuse the pattern, or neither; pivots and programs.

    With a point comes which signs are not possible with it: on (first half), off (second half).
    """

    point: Array | None
    against: NDArray[np.bool_]
    y: Array | None
    t: Array | None
    pivots: int
    programs: int = 1


_NOTHING = np.zeros(0, dtype=bool)
_BEGIN = SIGNS_ASK / SIGNS_PIVOT  # pivots in the time of beginning a program
_TANGENTS = 30  # of a ball, for one answer at most
_TANGENTS_IN_ALL = 300  # they stay, and make every program longer
_OUTSIDE = 1e-6  # of a ball's radius: so near is inside
_ZERO = 1e-9  # of a variable's size: less is nothing


class Program:
    """The rows of a system in HiGHS; between two patterns only ends of columns change."""

    def __init__(self, system: System) -> None:
        net, count = system.net, system.neurons
        self.system, self.open, self.tangents = system, np.flatnonzero(system.open), 0
        self.center, radius = middle_and_radius(system.box)
        self.radius = np.where(radius > 0, radius, 1.0)
        kept = system.slope > 0
        self.rows = np.flatnonzero(kept)
        terms = [[None] * (net.depth + 1) for _ in net.hidden]  # type: list[list[Any]]
        for row, block in zip(terms, net.hidden, strict=True):
            for source, weight in block.terms:
                row[source] = sparse.csr_array(matrix(weight))
        widths = net.shape[:-1]
        for row, block in zip(terms, net.hidden, strict=True):
            for j, width in enumerate(widths):
                row[j] = sparse.csr_array((block.width, width)) if row[j] is None else row[j]
        A = sparse.csr_array(sparse.diags_array(system.slope) @ sparse.block_array(terms, format="csr"))
        size = np.maximum(np.abs(system.values.lo), np.abs(system.values.hi))
        self.v_unit = np.where(size > 0, size, 1.0)
        self.w_unit = np.where(system.away > 0, system.away, 1.0)[self.open]
        inputs, own = A[:, : net.inputs], A[:, net.inputs :]
        v = (sparse.eye_array(count) - own) @ sparse.diags_array(self.v_unit)
        w = -sparse.eye_array(count, format="csc")[:, self.open] @ sparse.diags_array(self.w_unit)
        rows = sparse.csr_array(sparse.hstack([-(inputs @ sparse.diags_array(self.radius)), v, w], format="csr"))[kept]
        right = (system.slope * system.bias + inputs @ self.center)[kept]
        slack = (system.slope * system.slack)[kept]
        self.unit = 1.0 / np.maximum(abs(rows).max(axis=1).toarray().reshape(-1), 1e-300)
        rows = sparse.diags_array(self.unit) @ rows
        pick = sparse.eye_array(count, format="csr")[self.open]
        blank = sparse.csr_array((len(self.open), net.inputs))
        triangles = sparse.hstack([blank, pick, sparse.eye_array(len(self.open))])
        sides, room = self._sides()
        table = sparse.csr_array(sparse.vstack([rows, triangles, sides], format="csr"))
        self.entries = int(table.nnz)
        fixed = radius <= 0
        lo = np.concatenate([np.where(fixed, 0.0, -1.0), system.values.lo / self.v_unit, np.zeros(len(self.open))])
        hi = np.concatenate([np.where(fixed, 0.0, 1.0), system.values.hi / self.v_unit, np.ones(len(self.open))])
        hi[net.inputs + count :] = np.where(system.away[self.open] > 0, 1.0, 0.0)
        row_lo = np.concatenate([(right - slack) * self.unit, np.full(len(self.open) + system.cuts, -np.inf)])
        row_hi = np.concatenate([(right + slack) * self.unit, np.ones(len(self.open)), room])
        self.columns = np.concatenate([net.inputs + self.open, net.inputs + count + np.arange(len(self.open))])
        self.columns = self.columns.astype(np.int32)
        self.tops = hi[self.columns]
        self.nothing = np.zeros(len(self.columns))
        cost = np.concatenate([1e-3 * np.cos(np.arange(net.inputs)), np.zeros(table.shape[1] - net.inputs)])
        cost[self.columns] = 1.0 + 0.3 * np.cos(np.arange(len(self.columns)))
        self.highs = with_model(linear_model(cost, table, row_lo, row_hi, lo, hi), _OPTIONS)

    def _sides(self) -> tuple[Any, Array]:
        """The half-spaces of the region as rows in the units of the columns, and their right-hand sides."""
        system, width = self.system, len(self.radius) + self.system.neurons + len(self.open)
        if system.sides is None:
            return sparse.csr_array((0, width)), np.zeros(0)
        A, b = system.sides
        rows = A * self.radius
        self.side_unit = 1.0 / np.maximum(np.abs(rows).max(axis=1), 1e-300)
        blank = sparse.csr_array((len(b), width - A.shape[1]))
        scaled = sparse.csr_array(rows * self.side_unit[:, None])
        return sparse.csr_array(sparse.hstack([scaled, blank])), (b - A @ self.center) * self.side_unit

    def ask(self, signs: Signs, most: int = _PIVOTS) -> Answer:
        """About the inputs with these signs of the open neurons, of which some are zero: nothing is said of them.

        After `most` pivots the answer is the last point that there was, or nothing.
        """
        off, on = signs < 0, signs > 0
        tops = np.where(np.concatenate([off, on]), 0.0, self.tops)
        self.highs.changeColsBounds(len(tops), self.columns, self.nothing, tops)
        pivots, found = 0, None
        for programs in range(1, _TANGENTS + 1):
            allowed = max(1, min(_PIVOTS, most - pivots))
            self.highs.setOptionValue("simplex_iteration_limit", allowed)
            self.highs.run()
            status = self.highs.getModelStatus().name
            pivots += max(0, int(self.highs.getInfo().simplex_iteration_count))
            if status != "kOptimal":
                break
            found = self._point()
            if self.system.ball is None or pivots + _BEGIN * programs >= most or not self._cut(self.system.ball):
                break
        if status == "kInfeasible":
            return Answer(None, _NOTHING, *self._multipliers(), pivots, programs)
        if status != "kOptimal" and not (status == "kIterationLimit" and allowed < _PIVOTS):
            self.highs.clearSolver()  # whatever it was, the next program starts afresh; after a limit it goes on
        if found is not None:
            return Answer(*found, None, None, pivots, programs)
        return Answer(None, _NOTHING, None, None, pivots, programs)

    def _cut(self, ball: Ball) -> bool:
        """Cut the last point off by a tangent of the ball, if it lies outside."""
        n = len(self.center)
        away = self.center + self.radius * np.array(self.highs.getSolution().col_value[:n]) - ball.center
        length = float(np.linalg.norm(away))
        if length <= ball.radius * (1 + _OUTSIDE) or self.tangents >= _TANGENTS_IN_ALL:
            return False
        self.tangents, self.entries = self.tangents + 1, self.entries + n
        row = away / length
        right = ball.radius - float(row @ (self.center - ball.center))
        self.highs.addRow(-np.inf, right, n, np.arange(n, dtype=np.int32), row * self.radius)
        return True

    def _point(self) -> tuple[Array, NDArray[np.bool_]]:
        """The input, and where w or v are not zero: w is against a sign on, v against one off."""
        found = np.array(self.highs.getSolution().col_value)
        used = found[self.columns] > _ZERO
        against = np.roll(used, len(self.open))
        return np.clip(self.center + self.radius * found[: len(self.center)], *self.system.box), against

    def _multipliers(self) -> tuple[Array | None, Array | None]:
        """The dual ray in the units of the system."""
        try:
            _, there, ray = self.highs.getDualRay()
        except (TypeError, ValueError):  # an older release, which does not hand it over: nothing is learnt
            return None, None
        known = len(self.rows) + len(self.open) + self.system.cuts  # tangents of a ball come after them
        if not there or len(ray) < known:
            return None, None
        return self.in_units(-np.asarray(ray))

    def in_units(self, dual: Array) -> tuple[Array, Array]:
        """y and t of the system from numbers of the rows."""
        count, cuts = self.system.neurons, self.system.cuts
        y, t = np.zeros(count), np.zeros(count + cuts)
        first = len(self.rows) + len(self.open)
        y[self.rows] = dual[: len(self.rows)] * self.unit
        t[self.open] = dual[len(self.rows) : first]
        if cuts:
            t[count:] = dual[first : first + cuts] * self.side_unit
        return y, t
