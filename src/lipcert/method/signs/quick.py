"""The linear bounds of `bounds.linear` in plain floating point, for many patterns at once: what to split, and where.

The network is laid flat, all hidden neurons side by side: z = a + B0 x + B v, c'scores = const + f0'x + fv'v. Nothing
is proved here. In the infinity norm only those entries of the gradient need linear forms whose sign is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import directions, slopes
from lipcert.problem.maps import dense
from lipcert.problem.problem import Problem
from lipcert.proof.leaves import whole_leaf_bounds
from lipcert.proof.nogoods import Index, Signs, System
from lipcert.rounding import Array
from lipcert.witness.directions import jacobians, operator_norms

SIGNS_ENTRIES = 50_000_000  # entries, at most, of a network that is laid flat: 400 MB
SIGNS_COPIES = 3.0  # copies of a network laid flat, and its linear program, that are in memory at once

_BATCH = 1 << 21  # coefficients of the forms of all entries of a batch of patterns
_PATTERNS = 256  # of a whole map, bounded in one call
_PROVING = 2.0  # times the work of forms in plain floating point, for bounds that are proved at once
_NUMBERS = 1 << 18  # in one array of coefficients: it should stay in the cache


@dataclass(eq=False)
class _Lines:
    """Lines above and below u h of every neuron, filled from the last block down, and intervals of h and of u h."""

    up: Array
    up_shift: Array
    low: Array
    low_shift: Array
    h_lo: Array
    h_hi: Array
    s_lo: Array
    s_hi: Array

    def of(self, rows: Index) -> _Lines:
        return _Lines(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True, eq=False)
class _Forms:
    """Affine functions constant + rows sigma, one for each of these columns; sigma of the blocks from `start`."""

    columns: Index
    rows: Array
    constant: Array
    start: int = 0


class Flat:
    """The flat network and what is known of it on the whole region."""

    def __init__(self, problem: Problem, system: System) -> None:
        net = problem.network
        self.open = np.flatnonzero(system.open)
        self.ends = np.cumsum([0, *(b.width for b in net.hidden)])
        self.count = int(self.ends[-1])
        self.B0, self.B = np.zeros((self.count, net.inputs)), np.zeros((self.count, self.count))
        self.bias = system.bias
        for i, block in enumerate(net.hidden):
            own = slice(self.ends[i], self.ends[i + 1])
            for source, weight in block.terms:
                self._columns(self.B0, self.B, source)[own] = dense(weight)
        found = slopes(problem)
        self.lo, self.hi = (np.concatenate([s[k] for s in found]) for k in (0, 1))

    def _columns(self, B0: Array, B: Array, source: int) -> Array:
        return B[:, self.ends[source - 1] : self.ends[source]] if source else B0

    def _blocks(self) -> list[tuple[int, int]]:
        return list(zip(self.ends[:-1].tolist(), self.ends[1:].tolist(), strict=True))

    @property
    def numbers(self) -> float:
        """The coefficients of all forms of one pattern, which is about what its bounds cost."""
        raise NotImplementedError

    def bounds(self, signs: Signs) -> tuple[Array, Array]:
        """About the bounds that `leaf_bounds` proves, and about what every open sign costs; rows are patterns."""
        raise NotImplementedError

    def constants(self, signs: Signs) -> Array:
        """About the constants of whole patterns."""
        raise NotImplementedError

    def forms(self, signs: Signs) -> tuple[Array, Array, NDArray[np.bool_]]:
        """z of all neurons as affine functions of x, under one pattern, and which of them it makes affine."""
        u, unknown = self.lo.copy(), np.zeros(self.count, dtype=bool)
        u[self.open], unknown[self.open] = signs > 0, signs == 0
        rows, shifts, affine = np.zeros(self.B0.shape), np.zeros(len(u)), np.ones(len(u), dtype=bool)
        for a, b in self._blocks():
            rows[a:b] = self.B0[a:b] + (self.B[a:b, :a] * u[:a]) @ rows[:a]
            shifts[a:b] = self.bias[a:b] + (self.B[a:b, :a] * u[:a]) @ shifts[:a]
            doubtful = unknown[:a] | ((u[:a] != 0) & ~affine[:a])
            affine[a:b] = ~np.any(self.B[a:b, :a][:, doubtful] != 0, axis=1)
        return rows, shifts, affine

    def patterns(self, points: Array) -> Signs:
        """The signs of the open neurons at points."""
        v = np.zeros((len(points), self.count))
        z = np.zeros(v.shape)
        on = self.lo > 0
        for a, b in self._blocks():
            z[:, a:b] = points @ self.B0[a:b].T + v[:, :a] @ self.B[a:b, :a].T + self.bias[a:b]
            v[:, a:b] = np.where(on[a:b], self.lo[a:b] * z[:, a:b], np.maximum(z[:, a:b], 0.0))
        return np.where(z[:, self.open] > 0, 1, -1).astype(np.int8)


class Quick(Flat):
    """For one output."""

    def __init__(self, problem: Problem, system: System) -> None:
        super().__init__(problem, system)
        net = problem.network
        self.norm = problem.norm
        self.f0, self.fv = np.zeros(net.inputs), np.zeros(self.count)
        for source, weight in net.scores.terms:
            row = problem.c @ weight
            if source:
                self.fv[self.ends[source - 1] : self.ends[source]] = row
            else:
                self.f0 = row
        self.B0T = np.ascontiguousarray(self.B0.T)
        self.above = [np.ascontiguousarray(self.B[b:, a:b].T) for a, b in self._blocks()]
        self.mixed = np.arange(net.inputs)
        if self.norm.p == "inf":
            lines = self._hidden(np.zeros((1, len(self.open)), dtype=np.int8))[2]
            g_lo, g_hi = self._entries(lines)
            self._better(lines, g_lo, g_hi)
            self.mixed = np.flatnonzero((g_lo[0] < 0) & (g_hi[0] > 0))

    @property
    def numbers(self) -> float:
        count = len(self.fv)
        return float(2 * len(self.mixed) * count + count * count + count * len(self.f0) / 8)

    def bounds(self, signs: Signs) -> tuple[Array, Array]:
        step = max(1, _BATCH // max(1, 2 * len(self.mixed) * len(self.fv)))
        with np.errstate(all="ignore"):
            parts = [self._bounds(signs[k : k + step]) for k in range(0, len(signs), step)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def constants(self, signs: Signs) -> Array:
        return self.norm.dual.of(self.gradients(signs))

    def gradients(self, signs: Signs) -> Array:
        """The gradients of whole patterns."""
        u = np.tile(self.lo, (len(signs), 1))
        u[:, self.open] = signs > 0
        sigma = np.zeros(u.shape)
        for a, b in reversed(self._blocks()):
            sigma[:, a:b] = u[:, a:b] * (self.fv[a:b] + sigma[:, b:] @ self.B[b:, a:b])
        return np.asarray(self.f0 + sigma @ self.B0)

    def _bounds(self, signs: Signs) -> tuple[Array, Array]:
        u_lo, u_hi, lines = self._hidden(signs)
        g_lo, g_hi = self._entries(lines)
        self._better(lines, g_lo, g_hi)
        size = np.maximum(np.abs(g_lo), np.abs(g_hi))
        width = g_hi - g_lo
        if self.norm.p == "1":
            worst = np.argmax(size, axis=1)
            each = np.arange(len(signs))
            slope, shift = np.zeros(size.shape), np.zeros(size.shape)
            slope[each, worst] = np.where(g_hi[each, worst] >= -g_lo[each, worst], 1.0, -1.0)
            plain = size.max(axis=1, initial=0.0)
        elif self.norm.p == "inf":
            open_ = (g_lo < 0) & (g_hi > 0)
            slope = np.where(open_, (g_hi + g_lo) / np.where(open_, width, 1.0), np.where(g_lo >= 0, 1.0, -1.0))
            shift = np.where(open_, -2 * g_hi * g_lo / np.where(open_, width, 1.0), 0.0)
            plain = size.sum(axis=1)
        else:
            slope, shift = g_lo + g_hi, -g_lo * g_hi
            plain = np.square(size).sum(axis=1)
        loss = np.zeros(u_lo.shape)
        form = (slope @ self.B0.T)[:, None, :]
        upper = self._up(form, (slope @ self.f0 + shift.sum(axis=1))[:, None], lines, 0, loss)[:, 0]
        upper = plain if self.norm.p == "1" else np.fmin(upper, plain)
        share = width / 4 if self.norm.p == "2" else np.where(width > 0, shift / np.where(width > 0, width, 1.0), 0.0)
        cost = loss + self._spread(share, u_lo, u_hi, lines)
        if self.norm.p == "2":
            upper = np.sqrt(np.maximum(upper, 0.0))
        cost = np.where(signs == 0, np.maximum(np.nan_to_num(cost[:, self.open]), 0.0), -1.0)
        return np.where(np.isnan(upper), np.inf, upper), cost

    def _hidden(self, signs: Signs) -> tuple[Array, Array, _Lines]:
        """Slopes and lines of all neurons."""
        count = len(signs)
        u_lo, u_hi = np.tile(self.lo, (count, 1)), np.tile(self.hi, (count, 1))
        u_lo[:, self.open], u_hi[:, self.open] = signs > 0, signs >= 0
        lines = _Lines(*(np.zeros(u_lo.shape) for _ in range(8)))
        for i in range(len(self.ends) - 2, -1, -1):
            a, b = int(self.ends[i]), int(self.ends[i + 1])
            behind = self.B[b:, a:b]
            middle, radius = (lines.s_lo[:, b:] + lines.s_hi[:, b:]) / 2, (lines.s_hi[:, b:] - lines.s_lo[:, b:]) / 2
            center, reach = self.fv[a:b] + middle @ behind, radius @ np.abs(behind)
            lo, hi = center - reach, center + reach
            own = self.open[(self.open >= a) & (self.open < b)] - a
            if len(own) and b < len(self.fv):
                self._by_forms(_Forms(own, behind[:, own].T, self.fv[a + own], i + 1), lines, lo, hi)
            _fill(lines, slice(a, b), u_lo[:, a:b], u_hi[:, a:b], lo, hi)
        return u_lo, u_hi, lines

    def _entries(self, lines: _Lines) -> tuple[Array, Array]:
        """Intervals of the gradient's entries, by intervals."""
        middle, radius = (lines.s_lo + lines.s_hi) / 2, (lines.s_hi - lines.s_lo) / 2
        center, reach = self.f0 + middle @ self.B0, radius @ np.abs(self.B0)
        return center - reach, center + reach

    def _better(self, lines: _Lines, lo: Array, hi: Array) -> None:
        """Better ends of the entries by forms; in the infinity norm only where the sign is not known."""
        if self.norm.p != "inf":
            self._by_forms(_Forms(self.mixed, self.B0.T, self.f0), lines, lo, hi)
            return
        open_ = (lo[:, self.mixed] < 0) & (hi[:, self.mixed] > 0)
        most = open_.sum(axis=1)
        order = np.argsort(most, kind="stable")  # patterns with about as many such entries together
        start = 0
        while start < len(order):
            width = max(1, int(most[order[start]]) * 5 // 4)
            stop = int(np.searchsorted(most[order], width, side="right"))
            stop = min(stop, start + max(1, _NUMBERS // (2 * width * len(self.fv))))
            rows = order[start:stop]
            longest = int(most[rows[-1]])
            if longest:
                columns = self.mixed[np.argsort(~open_[rows], axis=1, kind="stable")[:, :longest]]
                w, f, own = self.B0T[columns], self.f0[columns], lines.of(rows)
                above, below = self._up(w.copy(), f.copy(), own, 0), -self._up(-w, -f, own, 0)
                upper = np.minimum(np.take_along_axis(hi[rows], columns, axis=1), above)
                lower = np.minimum(np.maximum(np.take_along_axis(lo[rows], columns, axis=1), below), upper)
                hi[rows[:, None], columns], lo[rows[:, None], columns] = upper, lower
            start = stop

    def _by_forms(self, forms: _Forms, lines: _Lines, lo: Array, hi: Array) -> None:
        """Better ends for the columns of lo and hi that have a form."""
        cells, count, where = len(lo), len(forms.rows), forms.columns
        w = np.tile(np.concatenate([forms.rows, -forms.rows]), (cells, 1, 1))
        constants = np.tile(np.concatenate([forms.constant, -forms.constant]), (cells, 1))
        top = self._up(w, constants, lines, forms.start)
        hi[:, where] = np.minimum(hi[:, where], top[:, :count])
        lo[:, where] = np.minimum(np.maximum(lo[:, where], -top[:, count:]), hi[:, where])

    def _up(self, w: Array, constant: Array, lines: _Lines, start: int, loss: Array | None = None) -> Array:
        """At least constant + w sigma; w is used up."""
        first = int(self.ends[start])
        for i in range(start, len(self.ends) - 1):
            a, b = int(self.ends[i]), int(self.ends[i + 1])
            own = w[:, :, a - first : b - first]
            up, low = np.maximum(own, 0.0), np.minimum(own, 0.0)
            r = up * lines.up[:, None, a:b] + low * lines.low[:, None, a:b]
            constant += np.matmul(up, lines.up_shift[:, a:b, None])[:, :, 0] + r @ self.fv[a:b]
            constant -= np.matmul(low, lines.low_shift[:, a:b, None])[:, :, 0]
            if loss is not None:
                loss[:, a:b] = up[:, 0] * lines.up_shift[:, a:b] - low[:, 0] * lines.low_shift[:, a:b]
            if b < len(self.fv):
                w[:, :, b - first :] += r @ self.above[i]
        return constant

    def _spread(self, share: Array, u_lo: Array, u_hi: Array, lines: _Lines) -> Array:
        """About what each open neuron widens the intervals of the entries by."""
        moved = share @ np.abs(self.B0).T
        for i in range(len(self.ends) - 2):
            a, b = int(self.ends[i]), int(self.ends[i + 1])
            moved[:, b:] += (u_hi[:, a:b] * moved[:, a:b]) @ np.abs(self.above[i])
        spread = np.maximum(lines.h_hi, 0.0) - np.minimum(lines.h_lo, 0.0)
        return np.asarray(moved * (u_hi - u_lo) * spread)


class Maps(Flat):
    """For all outputs together: bounds of the norm of the Jacobian, which are proved at once, as nothing quicker is as
    good."""

    def __init__(self, problem: Problem, system: System) -> None:
        super().__init__(problem, system)
        self.problem = problem
        rows = directions(problem.norm, problem.network.outputs)
        self.rows = problem.network.outputs if rows is None else len(rows)

    @property
    def numbers(self) -> float:
        inputs, outputs = self.problem.network.inputs, self.problem.network.outputs
        return _PROVING * self.rows * float((2 * inputs + 2 * outputs) * self.count + self.count**2)

    def bounds(self, signs: Signs) -> tuple[Array, Array]:
        parts = [self._bounds(signs[k : k + _PATTERNS]) for k in range(0, len(signs), _PATTERNS)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _bounds(self, signs: Signs) -> tuple[Array, Array]:
        found = whole_leaf_bounds(self.problem, self.open, signs)
        cost = np.concatenate(found.loss, axis=1)[:, self.open]
        if self.problem.norm.p == "1":  # the forms of single entries do not say
            reach = np.concatenate([g.magnitude for g in found.gradients[1:]], axis=1)[:, self.open]
            cost = cost + np.where(signs == 0, np.nan_to_num(reach), 0.0)
        return found.upper, np.where(signs == 0, np.maximum(np.nan_to_num(cost), 0.0), -1.0)

    def constants(self, signs: Signs) -> Array:
        u = np.tile(self.lo, (len(signs), 1))
        u[:, self.open] = signs > 0
        slopes = [u[:, a:b] for a, b in self._blocks()]
        return operator_norms(jacobians(self.problem.network, slopes), self.problem.norm)


def _fill(lines: _Lines, own: slice, u_lo: Array, u_hi: Array, lo: Array, hi: Array) -> None:
    """The chords of max(a h, b h) and of min(a h, b h) over [lo, hi]."""
    mixed = (lo < 0) & (hi > 0) & (u_lo < u_hi)
    share = np.where(mixed, hi / np.where(mixed, hi - lo, 1.0), 0.0)
    rise = u_hi - u_lo
    lines.up[:, own] = np.where(mixed, u_lo + rise * share, np.where(lo >= 0, u_hi, u_lo))
    lines.low[:, own] = np.where(mixed, u_hi - rise * share, np.where(lo >= 0, u_lo, u_hi))
    lines.up_shift[:, own] = lines.low_shift[:, own] = np.where(mixed, -rise * share * lo, 0.0)
    lines.h_lo[:, own], lines.h_hi[:, own] = lo, hi
    lines.s_lo[:, own] = np.where(lo >= 0, u_lo, u_hi) * lo
    lines.s_hi[:, own] = np.where(hi <= 0, u_lo, u_hi) * hi
