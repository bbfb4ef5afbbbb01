"""Nogoods that a search over signs has learnt, each proved when it is kept, and the signs that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.proof.interior import has_interior, needed_neurons, rows_of
from lipcert.proof.nogoods import Index, Nogoods, Signs, System, gathered
from lipcert.rounding import Array

SIGNS_KNOWN = 4096  # answers of linear programs that are remembered

_SURE = 1e-12  # of the size of a sum: so far below zero its maximum must be, for another order of additions
_FLAT = 1e-9  # of the size of a sum: a maximum so near zero may be zero
_KEPT = 0.1  # of the maximum that may be lost by leaving literals out


@dataclass(eq=False)
class Follows:
    """The consequences of a pattern: forced signs, (column, sign, nogood), and the nogood that refuses it, or -1."""

    forced: list[tuple[int, int, int]]
    refused: int


class Learnt:
    """The nogoods of a system. Signs are those of its open neurons, column by column."""

    def __init__(self, system: System) -> None:
        self.system, self.open = system, np.flatnonzero(system.open)
        self.count = 0
        self._both = np.zeros((64, 2 * len(self.open)), dtype=np.float32)  # literals on, literals off
        self._size = np.zeros(64, dtype=np.float32)
        self._y: list[Array] = []
        self._t: list[Array] = []
        self._named: list[Index] = []  # rows of `proof.interior`, none where y and t prove
        self._solid = has_interior(system.region)

    def learn(self, y: Array, t: Array, signs: Signs) -> int:
        """A nogood from multipliers of either orientation, with as few of these signs as it needs; -1 when none."""
        ways = [_cleaned(way * y, way * t) for way in (1.0, -1.0)]
        Y, T = (np.array([way[k] for way in ways]) for k in (0, 1))
        top, size = self.system.largest(Y, T, np.tile(self._full(signs), (2, 1)))
        ratio = top / np.where(size > 0, size, 1.0)
        best = int(np.argmin(ratio))
        if ratio[best] < -_SURE:
            return self._shortest(Y[best], T[best], signs, float(top[best]))
        return self._flat(Y[best], T[best], signs) if ratio[best] <= _FLAT and self._solid else -1

    def _shortest(self, y: Array, t: Array, signs: Signs, top: float) -> int:
        """Leave out the literals that matter least, while the maximum stays negative."""
        _, of_v, of_w = self.system.coefficients(y[None], t[None])
        price = np.where(signs < 0, np.maximum(of_v[0, self.open], 0.0) * self.system.values.hi[self.open], 0.0)
        price += np.where(signs > 0, np.maximum(of_w[0, self.open], 0.0) * self.system.away[self.open], 0.0)
        order = np.argsort(np.where(signs == 0, np.inf, price), kind="stable")[: np.count_nonzero(signs)]
        fewer = signs.copy()
        fewer[order[np.cumsum(price[order]) <= -(1.0 - _KEPT) * top]] = 0
        tops, size = self.system.largest(y[None], t[None], self._full(fewer)[None])
        return self._keep(y, t, fewer if tops[0] < -_SURE * size[0] else signs)

    def _flat(self, y: Array, t: Array, signs: Signs) -> int:
        """A nogood of signs that inputs have, but no set of them with interior: rows cancel whose maximum is zero."""
        system, own = self.system, self.open
        of_x, of_v, of_w = system.coefficients(y[None], t[None])
        pull = of_x[0] * (system.box.hi / 2 - system.box.lo / 2)
        size = np.maximum(system.values.hi, system.away)[own]
        weights = np.where(signs > 0, -of_v[0, own], np.where(signs < 0, -of_w[0, own], 0.0)) * size
        weights = np.concatenate([weights, t[system.neurons :]])
        numbers = np.concatenate([own, system.neurons + np.arange(system.cuts)])
        rows = rows_of(system.net, system.region, numbers, weights, pull)
        known = np.where(self._full(signs) != 0, self._full(signs), system.known)
        used = needed_neurons(system.net, known, rows[rows < system.neurons])[1]
        literals = np.where(used[own], signs, 0).astype(np.int8)
        if not system.flat(rows, self._full(literals)):
            return -1
        return self._keep(np.zeros_like(y), np.zeros_like(t), literals, rows)

    def _keep(self, y: Array, t: Array, literals: Signs, named: Index | None = None) -> int:
        if self.count == len(self._size):
            self._both = np.concatenate([self._both, np.zeros_like(self._both)])
            self._size = np.concatenate([self._size, np.zeros_like(self._size)])
        self._both[self.count] = _one_hot(literals[None])[0]
        self._size[self.count] = np.count_nonzero(literals)
        self._y.append(y)
        self._t.append(t)
        self._named.append(np.zeros(0, dtype=np.int64) if named is None else named)
        self.count += 1
        return self.count - 1

    def refusing(self, signs: Signs) -> Index:
        """By pattern a nogood that refuses it, -1 where there is none."""
        if not self.count:
            return np.full(len(signs), -1, dtype=np.int64)
        hit = _one_hot(signs) @ self._both[: self.count].T >= self._size[: self.count]
        return np.where(hit.any(axis=1), hit.argmax(axis=1), -1)

    def follow(self, signs: Signs) -> list[Follows]:
        """Fill in the signs that nogoods force, pattern by pattern and in place, until nothing follows any more."""
        found = [Follows([], -1) for _ in signs]
        todo = np.arange(len(signs)) if self.count else np.zeros(0, dtype=np.int64)
        while len(todo):
            held = _one_hot(signs[todo])
            count = held @ self._both[: self.count].T
            missing = self._size[: self.count] - count
            refused = missing <= 0
            against = np.roll(held, len(self.open), axis=1) @ self._both[: self.count].T > 0
            unit = (missing == 1) & ~against
            again = []
            for row in np.flatnonzero(refused.any(axis=1) | unit.any(axis=1)):
                node = int(todo[row])
                if refused[row].any():
                    found[node].refused = int(refused[row].argmax())
                    continue
                nogood = int(unit[row].argmax())
                place = int(np.argmax(self._both[nogood] - held[row]))
                column, sign = place % len(self.open), -1 if place < len(self.open) else 1
                signs[node, column] = sign
                found[node].forced.append((column, sign, nogood))
                again.append(node)
            todo = np.array(again, dtype=np.int64)
        return found

    def chosen(self, numbers: Index) -> Nogoods:
        """Some of them, as a proof keeps them."""
        half = len(self.open)
        literals = np.zeros((len(numbers), self.system.neurons), dtype=np.int8)
        both = self._both[numbers]
        literals[:, self.open] = both[:, :half].astype(np.int8) - both[:, half:].astype(np.int8)
        count = self.system.neurons
        y = np.array([self._y[k] for k in numbers]).reshape(len(numbers), count)
        t = np.array([self._t[k] for k in numbers]).reshape(len(numbers), count + self.system.cuts)
        return gathered(y, t, literals, [self._named[k] for k in numbers])

    def _full(self, signs: Signs) -> Signs:
        literals = np.zeros(self.system.neurons, dtype=np.int8)
        literals[self.open] = signs
        return literals


class PatternAnswers:
    """Answers of linear programs, as the signs that each is against: one that is against no sign of a pattern is an
    answer for that pattern too. The oldest are forgotten."""

    def __init__(self, neurons: int) -> None:
        self._against = np.zeros((SIGNS_KNOWN, 2 * neurons), dtype=np.float32)
        self._count = 0

    def add(self, against: NDArray[np.bool_]) -> None:
        self._against[self._count % len(self._against)] = against
        self._count += 1

    def allows(self, signs: Signs) -> bool:
        """Whether some answer is one for this pattern."""
        against = self._against[: self._count] @ _one_hot(signs[None])[0]
        return bool(np.any(against == 0))


def _one_hot(signs: Signs) -> NDArray[np.float32]:
    return np.concatenate([signs > 0, signs < 0], axis=1).astype(np.float32)


def _cleaned(y: Array, t: Array) -> tuple[Array, Array]:
    """Finite numbers of the size of one, t >= 0, without what is nothing but rounding."""
    y, t = np.nan_to_num(y, posinf=0.0, neginf=0.0), np.maximum(np.nan_to_num(t, posinf=0.0, neginf=0.0), 0.0)
    size = max(float(np.abs(y).max(initial=0.0)), float(t.max(initial=0.0)), 1e-300)
    y, t = y / size, t / size
    return np.where(np.abs(y) > 1e-14, y, 0.0), np.where(t > 1e-14, t, 0.0)
