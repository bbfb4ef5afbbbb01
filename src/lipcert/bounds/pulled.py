"""Rows of open neurons pulled back through a network whose other neurons are linear on a region.

From the scores down to the input, all rows above a block have coefficients of its values x, which give way to

    x = through z + rise v,     z = bias + sum_j A_j x_j

where v are new variables of the open neurons: their coefficients stay. Every row is exact by definition, as in
`substitution`: what rounding changes in a coefficient is paid for at once, twice. The change of the row's value is at
most |change| times the largest |x_j|, that of its gradient at most |change| times the largest norm of x_j's gradient.
Paid so, errors do not grow with depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, Operator, dense
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, gamma, grow
from lipcert.steps import step

Index = NDArray[np.int64]
_FEW = 0.5  # of the rows of a matrix: fewer are picked before a product
_LEAST = 1e-290  # beside any price: what underflows is less


@dataclass(frozen=True, eq=False)
class State:
    """Of a hidden block: the open neurons, what their v is multiplied with, and what every z is passed on with.

    `sizes_z` and `sizes` bound, in two columns, the magnitudes of z and x (z and v of open kinked neurons are no
    larger) and the norms of their gradients.
    """

    open: Index
    rise: Array
    through: Array
    sizes_z: Array
    sizes: Array


@dataclass(frozen=True, eq=False)
class Rows:
    """Of one block: by source (0: the input) the coefficients, the constants, and what was paid: of value, gradient."""

    terms: dict[int, Array]
    constant: Array
    paid: Array

    @property
    def slack(self) -> Array | None:
        """How far the true values may be, as a block has it."""
        return self.paid[:, 0] if self.paid[:, 0].any() else None

    @property
    def finite(self) -> bool:
        return all(bool(np.all(np.isfinite(part))) for part in (*self.terms.values(), self.constant, self.paid))


class Sweep:
    """One sweep over all rows: those of the scores come first, then those of the last hidden block, and so on.

    `weights` are those of a sum of the scores, None where each has a row of its own; `inputs` are the sizes of x_0.
    """

    def __init__(self, net: Network, states: Sequence[State], inputs: Array, weights: Array | None) -> None:
        self.sizes = [inputs, *(state.sizes for state in states)]
        self.open: dict[int, Index] = {}  # by block: its open neurons that some row has coefficients of
        self._pending: dict[int, Array] = {}
        self._found: dict[int, Array] = {}  # by block: coefficients of its open neurons, of all rows above it
        self._places: dict[int, slice] = {}
        self._constant, self._paid, self._times_paid = np.zeros(0), np.zeros((0, 2)), 0
        if weights is None:
            self._enter(len(net.blocks), net.scores, np.arange(net.outputs))
        else:
            self._constant, self._paid = np.zeros(1), np.zeros((1, 2))
            self._places[len(net.blocks)] = slice(0, 1)
            self._give_way(weights[None, :], net.scores, np.arange(net.outputs))
        for i in range(net.depth, 0, -1):
            if i in self._pending:
                self._pass(i, net.blocks[i - 1], states[i - 1])
        self._found[0] = self._padded(self._pending.pop(0, np.zeros((0, net.inputs))))

    def of_block(self, i: int) -> Rows:
        """The rows of block i; sources without coefficients are left out, the input stays where there is no other."""
        own = self._places[i]
        parts = {j: self._found[j][own] for j in sorted(self._found) if j < i}
        terms = {j: part for j, part in parts.items() if part.any()}
        paid = self._paid[own]
        paid = np.where(paid > 0, grow(paid, self._times_paid), paid)
        return Rows(terms or {0: parts[0]}, self._constant[own], paid)

    def _enter(self, i: int, block: Block, neurons: Index) -> None:
        """Rows of neurons of a block, as they are."""
        for j, weight in block.terms:
            above = self._padded(self._pending.get(j, np.zeros((0, weight.shape[1]))))
            self._pending[j] = np.concatenate([above, dense(weight[neurons])])
        before, slack = len(self._constant), block.doubt[neurons]
        self._constant = np.concatenate([self._constant, block.bias[neurons]])
        self._paid = np.concatenate([self._paid, np.stack([slack, np.zeros_like(slack)], axis=1)])
        self._places[i] = slice(before, len(self._constant))

    def _pass(self, i: int, block: Block, state: State) -> None:
        """x gives way to z and v, z to what the block reads; then the open neurons get rows of their own.

        Open neurons that no row has a coefficient of are left out: only neurons that are off read them.
        """
        rows = self._padded(self._pending.pop(i))
        own = self._times(rows[:, state.open], state.rise, state.sizes_z[state.open])
        counts = np.any(own != 0, axis=0)
        passing = np.flatnonzero(state.through)
        if len(passing):
            passed = self._times(rows[:, passing], state.through[passing], state.sizes_z[passing])
            self._give_way(passed, block, passing)
        if counts.any():
            self._found[i], self.open[i] = own[:, counts], state.open[counts]
            self._enter(i, block, self.open[i])

    def _give_way(self, rows: Array, block: Block, neurons: Index) -> None:
        """Coefficients of z of some neurons become those of what the block reads."""
        n, used = block.width, np.any(rows != 0, axis=1)
        flow = np.stack([np.abs(block.bias), np.zeros(n)], axis=1)
        for j, weight in block.terms:
            flow += abs(weight) @ self.sizes[j]
            pulled = self._product(rows, weight, neurons)
            if j in self._pending:
                pulled = self._sum(pulled, self._padded(self._pending[j]))
                self._pay(2 * UNIT * (np.abs(pulled) @ self.sizes[j]), pulled.shape[1])
            self._pending[j] = pulled
        longest = n + max(weight.shape[1] for _, weight in block.terms) + 8
        price = gamma(n + 4) * grow(flow, longest) + _LEAST
        price[:, 0] += block.doubt
        least = 4 * longest * TINY * (1.0 + sum(self.sizes[j].sum(axis=0) for j, _ in block.terms))
        self._constant = self._sum(self._constant, self._product(rows, block.bias[:, None], neurons)[:, 0])
        rounding = 2 * UNIT * np.abs(self._constant)[:, None] * [1.0, 0.0]
        self._pay(np.abs(rows) @ price[neurons] + np.where(used[:, None], least + rounding, 0.0), longest)

    @staticmethod
    def _product(rows: Array, weight: Matrix, neurons: Index) -> Array:
        """rows weight[neurons]; of a convolution all take as long as some."""
        step()
        few = len(neurons) < _FEW * weight.shape[0] and not isinstance(weight, Operator)
        if few:
            return np.asarray(rows @ weight[neurons], dtype=np.float64)
        full = np.zeros((len(rows), weight.shape[0]))
        full[:, neurons] = rows
        return np.asarray(full @ weight, dtype=np.float64)

    def _times(self, rows: Array, factors: Array, sizes: Array) -> Array:
        """Every column times its factor, which may have been rounded once itself; ones are exact."""
        odd = np.flatnonzero(factors != 1)
        if not len(odd):
            return rows
        found = self._scaled(rows, factors)
        used = np.any(rows[:, odd] != 0, axis=1, keepdims=True)
        paid = 4 * UNIT * (np.abs(found[:, odd]) @ sizes[odd]) + 4 * len(odd) * TINY * (1.0 + sizes[odd].sum(axis=0))
        self._pay(np.where(used, paid, 0.0), len(odd))
        return found

    @staticmethod
    def _scaled(rows: Array, factors: Array) -> Array:
        return rows * factors

    @staticmethod
    def _sum(a: Array, b: Array) -> Array:
        return a + b

    def _pay(self, amount: Array, terms: int) -> None:
        """What is nothing stays nothing."""
        self._paid += np.where(amount > 0, grow(amount, terms + 8), amount)
        self._times_paid += 1

    def _padded(self, rows: Array) -> Array:
        """With rows of zeros for those that entered since."""
        missing = len(self._constant) - len(rows)
        return np.pad(rows, ((0, missing), (0, 0))) if missing else rows
