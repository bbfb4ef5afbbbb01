"""Populations of points that move at random: a drift that keeps what is no worse, and simulated annealing.

*Drift*: any network, any activation. Every point tries moves of every size. Half of the moves are random, along one
coordinate, a few or all of them; half are differences of two other members, which have the lengths and directions that
still matter. With few inputs thin linear pieces are found by trying, and nothing else found them; with many inputs
random moves change little, and the smoothed ascent does better.

*Annealing*: deep networks, the whole map or one output, in any norm. After a few layers of random weights nearly all
inputs have the same signs; larger gradients lie at thin pieces far from each other, and moves that only go up end at
the first of them. Here a move is also taken where the norm falls, with a probability exp(change of its logarithm /
temperature), while the temperature falls; every so often the worst members become copies of the best. Moves are random,
or differences of two other members, and of every size. For a whole map every member has its own direction d of the
outputs and the value |J'd|; d is renewed by turns of the power method in the norms of both ends: d becomes the
direction of J t, and t that of J'd.
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
from lipcert.witness.record import ELITE, TRIED, WitnessSearch
from lipcert.witness.screen import Rows, Screen, direction

# Chosen on the networks that `witness/search.py` names.
DRIFT_INPUTS = 64  # inputs at most: with more, random moves change little, and nothing was found on ERAN with 784
DRIFT_MEMBERS = 64  # points of the population
DRIFT_TRIES = 64  # moves of every member in a turn
DRIFT_PATIENCE = 60  # turns without improvement after which a drift ends
DRIFT_RENEWAL = 40  # turns after which the worst quarter of the population is drawn anew

_DRIFT_SMALLEST = -3.0  # decades
_DRIFT_MOVE = 120  # operations for every entry of a move


def drift_applies(record: WitnessSearch) -> bool:
    return record.problem.network.inputs <= DRIFT_INPUTS


def drift(record: WitnessSearch, screen: Screen, starts: Batch, budget: Budget) -> Batch:
    """Turns of moves until nothing improves or the budget is over; the members, best first."""
    chart, members = record.chart, DRIFT_MEMBERS
    fresh = chart.draw(record.rng, members, screen.dtype)
    best = chart.coordinates(record.best.point[None, :]).astype(screen.dtype)
    v = np.concatenate([best, starts[: members // 2], fresh])[:members]
    values = screen.norms(screen.forward(v))
    tries = int(np.clip(screen.chunk // members, 1, DRIFT_TRIES))
    turn = stale = 0
    while stale < DRIFT_PATIENCE and not budget.over():
        turn += 1
        moved = _moves(record, screen, v, tries)
        budget.charge(_DRIFT_MOVE * moved.size, THIN)
        reached = screen.norms(screen.forward(moved.reshape(-1, v.shape[1]))).reshape(moved.shape[:2])
        chosen = reached.argmax(axis=1)
        rows = np.arange(len(v))
        better = reached[rows, chosen] >= values  # equal ones too: the same gradient, another place
        v = np.where(better[:, None], moved[rows, chosen], v)
        values = np.where(better, reached[rows, chosen], values)
        before = record.best.value
        if values.max() > before * (1 + 1e-6):  # more than single precision adds by itself
            record.offer(chart.points(v), values, "drift")
        stale = 0 if record.best.value > before * (1 + 1e-6) else stale + 1
        if turn % DRIFT_RENEWAL == 0:
            worst = np.argsort(values, kind="stable")[: members // 4]
            v[worst] = chart.draw(record.rng, len(worst), screen.dtype)
            values[worst] = screen.norms(screen.forward(v[worst]))
    return v[np.argsort(-values, kind="stable")]


def _moves(record: WitnessSearch, screen: Screen, v: Batch, tries: int) -> Batch:
    """(members, tries, inputs)."""
    rng, (members, n) = record.rng, v.shape
    shape = (members, tries, 1)
    d = rng.standard_normal((members, tries, n), dtype=screen.dtype)
    d *= rng.random(d.shape, dtype=screen.dtype) < rng.choice([1.0 / n, 3.0 / n, 1.0], shape)
    pairs = rng.integers(members, size=(2, members, tries))
    d = np.where(rng.random(shape) < 0.5, d * screen.chart.reach(v)[:, None, :], v[pairs[0]] - v[pairs[1]])
    size = (10.0 ** rng.uniform(_DRIFT_SMALLEST, 0.3, shape)).astype(screen.dtype)
    moved = screen.chart.confine(v[:, None, :] + size * d)
    return np.asarray(moved, dtype=screen.dtype)


# Chosen in docs/experiments/lower-bounds.md.
ANNEAL_DEPTH = 8  # hidden blocks from which annealing gets its share of a search
ANNEAL_MEMBERS = (128, 1024)  # least and most members; between them as many as can make all moves within the budget
ANNEAL_STEPS = 4000  # moves of every member at most
ANNEAL_RANDOM = 0.3  # share of random moves; the others are differences of two members
ANNEAL_NEWS = 0.05  # relative gain from which the best member is valued before the end

_HOT, _COLD = 0.5, 0.02  # temperatures of the first and the last move
_ANNEAL_SMALLEST = -4.0  # decades
_RENEWAL = 10  # moves between two renewals of the directions
_COPYING = 50  # moves between two times at which the worst eighth is replaced by the best
_ANNEAL_MOVE = 60  # operations for every entry of a move


def anneal_applies(net: Network) -> bool:
    """Whether annealing gets a share of the search."""
    return net.depth >= ANNEAL_DEPTH


@dataclass(eq=False)
class Members:
    """Points in chart coordinates, their directions of the outputs (None for a problem of one output), and norms."""

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

    def __init__(self, record: WitnessSearch, budget: Budget) -> None:
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
        """Offer the best rows to the record, after a renewal in double precision, where a sign may differ."""
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


def anneal(record: WitnessSearch, starts: Batch | None, budget: Budget) -> Batch:
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
        budget.charge(_ANNEAL_MOVE * moved.size, THIN)
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


def _moved(record: WitnessSearch, v: Batch) -> Batch:
    """One move of every member."""
    rng, chart, (rows, n) = record.rng, record.chart, v.shape
    d = rng.standard_normal((rows, n), dtype=v.dtype) * chart.reach(v)
    pairs = rng.integers(rows, size=(2, rows))
    d = np.where(rng.random((rows, 1)) < ANNEAL_RANDOM, d, v[pairs[0]] - v[pairs[1]])
    length = (10.0 ** rng.uniform(_ANNEAL_SMALLEST, 0.3, (rows, 1))).astype(v.dtype)
    return np.asarray(chart.confine(v + length * d), dtype=v.dtype)


def _first_output(problem: Problem) -> Problem:
    """A problem of one output: the screen of a whole map takes its directions from the members."""
    return problem.along(np.eye(problem.network.outputs)[0], part=True) if problem.whole_map else problem
