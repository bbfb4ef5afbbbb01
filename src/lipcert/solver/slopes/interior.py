"""A primal-dual interior point for the best multipliers, one system of their number in each step.

    min cost'y   s.t.   M(y) >= 0        and        max <H'H, X>   s.t.   <A_k, X> = cost_k,   X >= 0

HKM directions with Mehrotra's predictor and corrector. It starts from feasible multipliers with X a multiple of the
inverse of M; M stays positive, so every iterate is a bound. The directions do not depend on the units of any neuron.
The scheme needs 15 to 25 steps whatever the depth, where Newton's method on a barrier of M alone took hundreds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from lipcert.budget import Budget
from lipcert.rounding import Array
from lipcert.solver.dense import cholesky, longest_ratio, longest_step, symmetrise, symv
from lipcert.solver.slopes.pencil import Factor, Pencil, factor, factor_operations
from lipcert.steps import DENSE, RATES, SCALAR

STEPS = 60
SECOND = 0.1  # share of a predicted step that must be possible before its second order is used
TILE = 64  # rows of the system that are filled at a time
SMALL = 64.0  # the width of blocks whose products go at half the rate of large ones
ENTRY = 3000.0  # operations in the time of all that is done entry by entry
TOLERANCE = 1e-7  # relative gap in the square of the bound


@dataclass(eq=False)
class _StepDirection:
    y: Array
    X: Array
    slack: Array


class Interior:
    """One solve. `iterates` gives y after every step."""

    def __init__(self, pencil: Pencil, budget: Budget) -> None:
        self.pencil, self.budget = pencil, budget
        self.operations = step_operations(pencil)
        self.closed = False  # whether the gap is
        self.steps = 0

    def iterates(self) -> Iterator[Array]:
        """Feasible y, until the gap is closed, no step is expected to end within the budget, or none gains.

        Called again, with another budget, it goes on.
        """
        try:
            while self.steps < STEPS:
                if self.budget.expected(self.operations) > self.budget.left():
                    return
                if not self.steps:
                    self._begin()
                self.steps += 1
                with self.budget.measured(self.operations):
                    going = self._step()
                yield self.y
                if not going:
                    return
        except np.linalg.LinAlgError:
            return

    def _begin(self) -> None:
        """The start: X is a multiple of the inverse of M."""
        form = self.pencil
        self.y = np.ones(len(form.cost))
        self._invert(factor(form, self.y))
        self.X = self.S / float(form.pairs(self.S, form.rows(self.S))[form.m :].sum())
        self.slack = self._mu_of(self.X, np.zeros(form.m)) / self._signs() if form.signed else np.zeros(0)
        self.lower = cholesky(self.X)

    def _signs(self) -> Array:
        """The multipliers of neurons where they are constrained by themselves."""
        return self.y[: self.pencil.m] if self.pencil.signed else np.zeros(0)

    def _mu_of(self, X: Array, slack: Array) -> float:
        """<X, M> / n, with the slacks."""
        form = self.pencil
        outside = form.used_head @ X[np.ix_(form.used, form.used)]
        inner = float(form.pairs(X, form.rows(X)) @ self.y) - float(np.sum(outside * form.used_head))
        return (inner + float(slack @ self.y[: slack.size])) / (form.n + slack.size)

    def _invert(self, found: Factor) -> None:
        self.factor: Factor = found
        self.S = found.inverse()

    def _step(self) -> bool:
        """One predictor-corrector step; whether another is worth it."""
        form, X, S, t = self.pencil, self.X, self.S, self._signs()
        self.VX, VS = form.rows(X), form.rows(S)
        reached, self.central = form.pairs(X, self.VX), form.pairs(S, VS)
        outside = form.used_head @ X[np.ix_(form.used, form.used)]
        inner = float(reached @ self.y - np.sum(outside * form.used_head)) + float(self.slack @ t)
        mu = inner / (form.n + t.size)
        self.residual = form.cost - reached
        self.residual[: t.size] -= self.slack
        value = float(form.cost @ self.y)
        near = float(np.max(np.abs(self.residual))) < 1e-6 * value
        if near and inner < TOLERANCE * value:
            self.closed = True
            return False
        self.reached = reached
        self._system(VS)
        lower = self.lower
        aimed = self._direction(0.0, None, np.zeros(t.size))
        primal, dual = self._lengths(aimed, lower, 0.95)
        ahead = self._after(aimed, primal, dual)
        sigma = min(0.9, max(1e-5, (max(ahead, 0.0) / mu) ** max(2.0, 3.0 * min(primal, dual) ** 2)))
        if min(primal, dual) > SECOND:
            cross = self.factor.solve(form.derivative(aimed.y, aimed.X))
            symmetrise(cross)
            step = self._direction(sigma * mu, cross, aimed.slack * aimed.y[: t.size] / t)
        else:  # the second order of an impossible step says nothing
            step = self._direction(max(sigma, 0.5) * mu, None, np.zeros(t.size))
        primal, dual = self._lengths(step, lower, 0.9 + 0.07 * min(primal, dual))
        return self._move(step, primal, dual)

    def _after(self, step: _StepDirection, primal: float, dual: float) -> float:
        """mu after a step of these lengths."""
        form, t = self.pencil, self._signs()
        y, slack = self.y + dual * step.y, self.slack + primal * step.slack
        moved = self.residual.copy()
        moved[: t.size] -= step.slack
        places = np.ix_(form.used, form.used)
        outside = form.used_head @ (self.X[places] + primal * step.X[places])
        inner = float((self.reached + primal * moved) @ y - np.sum(outside * form.used_head))
        return (inner + float(slack @ y[: t.size])) / (form.n + t.size)

    def _system(self, VS: Array) -> None:
        """<A_k, X A_l S>, its lower triangle, factored."""
        form, m = self.pencil, self.pencil.m
        H = np.zeros((len(form.cost),) * 2)
        inner_x, inner_s = form.right(self.VX), form.right(VS)
        for begin in range(0, m, TILE):
            rows = slice(begin, min(m, begin + TILE))
            ppx, pqx, qpx, qqx = form.sides(self.X, self.VX, inner_x, rows)
            pps, pqs, qps, qqs = form.sides(self.S, VS, inner_s, rows)
            place = H[rows, : rows.stop]
            np.multiply(ppx, qqs, out=place)
            place += qqx * pps
            place += pqx * qps
            place += qpx * pqs
        (px, qx), (ps, qs) = form.ends_of(self.X, self.VX), form.ends_of(self.S, VS)
        border = px * qs + qx * ps
        corner = self.X[: form.inputs, : form.inputs] * self.S[: form.inputs, : form.inputs]
        if form.program.weighted:
            H[m:, :m], H[m:, m:] = border.T, corner
        else:
            H[m, :m], H[m, m] = border.sum(axis=1), corner.sum()
        t = self._signs()
        H[np.arange(t.size), np.arange(t.size)] += self.slack / t
        self.scale = 1 / np.sqrt(np.diagonal(H))
        H *= self.scale[:, None]
        H *= self.scale
        for shift in (1e-14, 1e-12, 1e-10, 1e-8):
            H.flat[:: len(H) + 1] += shift
            self.system, info = lapack.dpotrf(H.T, lower=0, clean=0)  # H' has the upper triangle
            if info == 0:
                return
        raise np.linalg.LinAlgError("the system is singular")

    def _direction(self, mu: float, cross: Array | None, second: Array) -> _StepDirection:
        form, t = self.pencil, self._signs()
        right = mu * self.central - self.reached - self.residual
        right[: t.size] += mu / t - self.slack - second
        if cross is not None:
            right -= form.pairs(cross, form.rows(cross))
        dy = self.scale * lapack.dpotrs(self.system, self.scale * right, lower=0)[0]
        dX = self.factor.solve(form.derivative(dy, self.X, self.VX))
        symmetrise(dX)
        dX += self.X
        np.negative(dX, out=dX)
        dX += mu * self.S
        if cross is not None:
            dX -= cross
        slack = mu / t - self.slack - second - self.slack / t * dy[: t.size]
        return _StepDirection(dy, dX, slack)

    def _lengths(self, step: _StepDirection, lower: Array, part: float) -> tuple[float, float]:
        """How far X and M may go, times `part`."""
        form, t = self.pencil, self._signs()
        primal = longest_step(
            lambda v: np.asarray(lapack.dpotrs(lower, v, lower=1)[0]), lambda v: symv(step.X, v),
            lambda v: symv(self.X, v), form.n,
        )  # fmt: skip
        dual = longest_step(
            lambda v: symv(self.S, v), lambda v: form.derivative(step.y, v), lambda v: form.times(self.y, v), form.n
        )
        if t.size:
            primal = min(primal, longest_ratio(self.slack, step.slack))
            dual = min(dual, longest_ratio(t, step.y[: t.size]))
        return min(1.0, part * primal), min(1.0, part * dual)

    def _move(self, step: _StepDirection, primal: float, dual: float) -> bool:
        """Take the step, shortened until M is positive; False if nothing moves any more."""
        for _ in range(12):
            y = self.y + dual * step.y
            try:
                found = factor(self.pencil, y)
                break
            except np.linalg.LinAlgError:
                dual *= 0.7
        else:
            return False
        step.X *= primal
        self.X += step.X
        for _ in range(12):
            self.lower, info = lapack.dpotrf(self.X.T, lower=1, clean=0)
            if info == 0:
                break
            self.X -= 0.3 * step.X
            step.X *= 0.7
            primal *= 0.7
        else:
            return False
        self.slack = self.slack + primal * step.slack
        self.y = y
        self._invert(found)
        return max(primal, dual) > 0.02


def step_operations(pencil: Pencil) -> float:
    """Operations of one step: two factorisations, some twenty products with the blocks, a few with M^-1, tables."""
    n, unknowns = float(pencil.n), float(len(pencil.cost))
    small = 1 + SMALL / max(pencil.widths)
    products = sum(float(matrix.size) for _, _, matrix, _ in pencil.terms) * 2 * n
    inverse, solve = factor_operations(pencil)
    calls = RATES[DENSE] / RATES[SCALAR] * (60.0 * len(pencil.terms) + 500)
    return unknowns**3 / 3 + n**3 / 3 + small * (12 * products + inverse + 3 * solve) + ENTRY * n**2 + calls
