"""Deep networks: a population of points that is annealed, the whole map or one output, in any norm.

After a few layers of random weights nearly all inputs have the same signs; what is larger lies at thin pieces far from
each other, and moves that only go up end at the first of them. Here a move is also taken where the norm falls, with a
probability exp(change of its logarithm / temperature), while the temperature falls; every so often the worst members
become copies of the best. Moves are random, or differences of two other members, and of every size.

Of a whole map every member has a direction d of the outputs of its own, valued |J'd|, which is renewed by turns of the
power method in the norms of both ends: d -> the direction of J t, t that of J'd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.maps import times
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Index
from lipcert.steps import THIN
from lipcert.witness.chart import Batch
from lipcert.witness.record import TRIED, Record
from lipcert.witness.sampling import ELITE
from lipcert.witness.screen import Rows, Screen, direction

# Chosen in docs/experiments/lower-bounds.md.
ANNEAL_DEPTH = 8  # hidden blocks from which annealing gets its share of a search
ANNEAL_MEMBERS = (128, 1024)  # least and most members; between them as many as can make all moves within the budget
ANNEAL_STEPS = 4000  # moves of every member at most
ANNEAL_RANDOM = 0.3  # share of random moves; the others are differences of two members
ANNEAL_NEWS = 0.05  # relative gain from which the best member is valued before the end

_HOT, _COLD = 0.5, 0.02  # temperatures of the first and the last move
_SMALLEST = -4.0  # decades
_RENEWAL = 10  # moves between two renewals of the directions
_COPYING = 50  # moves between two times at which the worst eighth is replaced by the best
_MOVE = 60  # operations for every entry of a move


def applies(net: Network) -> bool:
    """Where annealing gets a share of the search."""
    return net.depth >= ANNEAL_DEPTH


@dataclass(eq=False)
class Members:
    """Points in chart coordinates, their directions of the outputs (None where one output is asked for), and norms."""

    v: Batch
    d: Batch | None
    values: Batch

    def keep(self, rows: Index) -> Members:
        return Members(self.v[rows], None if self.d is None else self.d[rows], self.values[rows])

    def copy(self, source: Index, target: Index) -> None:
        self.v[target], self.values[target] = self.v[source], self.values[source]
        if self.d is not None:
            self.d[target] = self.d[source]


class Annealer:
    """The norms of members of a population, on the screen of a network."""

    def __init__(self, record: Record, budget: Budget) -> None:
        self.record, self.problem, self.budget = record, record.problem, budget
        self.norm, self.outputs = record.problem.norm, record.problem.network.outputs
        one = _first_output(record.problem)
        self.screen, self.double = Screen(one, budget), Screen(one, budget, np.float64)
        self.seen = max(record.best.value, 0.0)

    def populate(self, v: Batch) -> Members:
        d = None
        if self.problem.whole_map:
            d = self.record.rng.standard_normal((len(v), self.outputs)).astype(self.screen.dtype)
            d = direction(self.norm.outputs, d)
        return self.renewed(v, d, 2)

    def renewed(self, v: Batch, d: Batch | None, turns: int = 1, screen: Screen | None = None) -> Members:
        """The members with better directions, and their true norms."""
        screen = self.screen if screen is None else screen
        slopes = screen.slopes(screen.forward(v))
        for _ in range(turns if d is not None else 0):
            g = screen.gradients(slopes, self._behind(screen, d))
            d = direction(self.norm.outputs, self._pushed(screen, slopes, direction(screen.dual, g)))
        norms = screen.dual.of(screen.gradients(slopes, self._behind(screen, d)))
        return Members(v, d, np.where(np.isfinite(norms), norms, 0.0))

    def valued(self, v: Batch, d: Batch | None) -> Batch:
        screen = self.screen
        norms = screen.dual.of(screen.gradients(screen.slopes(screen.forward(v)), self._behind(screen, d)))
        return np.where(np.isfinite(norms), norms, 0.0)

    def offer(self, members: Members, rows: int) -> None:
        """The best rows in double precision, where a sign may differ, to the record."""
        best = members.keep(np.argsort(-members.values, kind="stable")[:rows])
        v = best.v.astype(np.float64)
        exact = self.renewed(v, None if best.d is None else best.d.astype(np.float64), 2, self.double)
        row = int(exact.values.argmax())
        if exact.values[row] > self.record.best.value * (1 + 1e-9):
            self.record.consider(self.record.chart.points(exact.v[row : row + 1])[0], "annealing")

    def _behind(self, screen: Screen, d: Batch | None) -> Rows:
        if d is None:
            return screen.last
        behind: Rows = [None] * len(screen.last)
        for j, w in self.problem.network.scores.terms:
            behind[j] = np.asarray(d @ w, dtype=screen.dtype)
        return behind

    def _pushed(self, screen: Screen, slopes: list[Batch], t: Batch) -> Batch:
        """J t, row by row."""
        xs = [t]

        def through(i: int, a: Batch) -> Batch:
            xs.append(slopes[i] * a)
            return xs[-1]

        screen.push(t, through)
        total = sum(times(w, xs[j]) for j, w in self.problem.network.scores.terms)
        return np.asarray(total, dtype=screen.dtype)


def anneal(record: Record, starts: Batch | None, budget: Budget) -> Batch:
    """One run from hot to cold within the budget; the members, best first, the best of all already in the record."""
    begin, length = budget.now(), max(budget.left(), 1e-9)
    annealer = Annealer(record, budget)
    screen, rng = annealer.screen, record.rng
    least, most = ANNEAL_MEMBERS
    size = int(np.clip(min(screen.chunk // 4, screen.rows(length, 3 * ANNEAL_STEPS)), least, most))
    fresh = record.chart.draw(rng, 4 * size, screen.dtype)
    known = record.chart.coordinates(record.best.point[None, :])
    parts = [known, fresh] if starts is None else [known, starts[:size], fresh]
    members = annealer.populate(np.concatenate(parts).astype(screen.dtype))
    members = members.keep(np.argsort(-members.values, kind="stable")[:size])
    best = Members(members.v.copy(), members.d, members.values.copy())
    for step in range(1, ANNEAL_STEPS + 1):
        progress = max(step / ANNEAL_STEPS, (budget.now() - begin) / length)
        if progress >= 1.0:
            break
        temperature = _HOT * (_COLD / _HOT) ** progress
        moved = _moved(record, members.v)
        budget.charge(_MOVE * moved.size, THIN)
        values = annealer.valued(moved, members.d)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(values) - np.log(members.values)
            taken = (members.values == 0) | (change > temperature * np.log(rng.random(size)))
        members.v = np.where(taken[:, None], moved, members.v)
        members.values = np.where(taken, values, members.values)
        if step % _RENEWAL == 0:
            members = annealer.renewed(members.v, members.d)
            if members.values.max() > best.values.max() * (1 + ANNEAL_NEWS):
                best = Members(members.v.copy(), members.d, members.values)
                annealer.offer(best, TRIED)
        if step % _COPYING == 0:
            order = np.argsort(members.values, kind="stable")
            members.copy(order[-(size // 8) :], order[: size // 8])
    annealer.offer(best, ELITE)
    annealer.offer(members, ELITE)
    return members.v[np.argsort(-members.values, kind="stable")]


def _moved(record: Record, v: Batch) -> Batch:
    """One move of every member."""
    rng, chart, (rows, n) = record.rng, record.chart, v.shape
    d = rng.standard_normal((rows, n), dtype=v.dtype) * chart.reach(v)
    pairs = rng.integers(rows, size=(2, rows))
    d = np.where(rng.random((rows, 1)) < ANNEAL_RANDOM, d, v[pairs[0]] - v[pairs[1]])
    length = (10.0 ** rng.uniform(_SMALLEST, 0.3, (rows, 1))).astype(v.dtype)
    return np.asarray(chart.confine(v + length * d), dtype=v.dtype)


def _first_output(problem: Problem) -> Problem:
    """A problem of one output: the screen of a whole map takes its directions from the members."""
    return problem.along(np.eye(problem.network.outputs)[0], part=True) if problem.whole_map else problem
