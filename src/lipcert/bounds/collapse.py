"""Collapse: on a bounded region a network is as large as its open neurons.

A neuron that is on is linear and one that is off is nothing. Substituted through all blocks, they leave

    z_k = a_k + B_k0 x + sum_j B_kj v_j,    v_k = f_k(z_k)           over the open neurons of all blocks j before k

a network with branches. Smooth neurons are always open; an open leaky ReLU is alpha z + (1 - alpha) relu(z), a ReLU
and something linear. The rows of the open neurons (and of the scores) are pulled back from block to block, all of them
in one sweep, so that the work is that of so many gradients.

The coefficients are rounded on the way. What that does to z is the `slack` of a block; what it does to the gradient is
the `price` (see `collapse_price`). So what is proved of the collapsed problem, with its slack paid for, is proved of
the problem when the price is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lipcert import policy
from lipcert.bounds.collapse_price import Cost, price_of
from lipcert.bounds.gradients import slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import cut_short, preactivations
from lipcert.bounds.rounded import Rounded
from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.maps import Operator, dense
from lipcert.problem.network import Block, Network
from lipcert.problem.output import choose_output
from lipcert.problem.problem import PREACTIVATIONS, Problem
from lipcert.problem.region import hull
from lipcert.rounding import Array, add_up, grow

Index = NDArray[np.int64]
_FEW = 0.5  # of the rows of a matrix: fewer are picked before a product


@dataclass(frozen=True, eq=False)
class Collapsed:
    """The problem of the open neurons, which they are, and what is to be added to a bound that is proved of it.

    `neurons` names by hidden block of the collapsed network the block of the original and the neurons in it. One output
    c'scores is one score; of the whole map all scores are kept.
    """

    problem: Problem
    neurons: tuple[tuple[int, Index], ...]
    cost: Cost

    @property
    def price(self) -> float:
        """What is to be added."""
        return self.cost.price

    def above(self, upper: float) -> float:
        """A bound of the original problem from one of the collapsed problem."""
        return float(add_up(np.asarray(upper), np.asarray(self.price))) if np.isfinite(upper) else np.inf


def collapse(problem: Problem) -> Collapsed | None:
    """The problem of the open neurons; None where it is not worth it or not covered. Kept with the problem.

    Covered are bounded regions whose pre-activation bounds are the best ones, so that a checker finds the same.
    """
    return problem.kept("collapsed", lambda: _worth_it(problem))


def _worth_it(problem: Problem) -> Collapsed | None:
    if hull(problem.region) is None or not problem.network.depth:
        return None
    pre = preactivations(problem)
    if cut_short(problem):
        return None
    if not _can_pay(problem, _states(problem.network, pre)):
        return None
    found = collapsed(problem)
    if found is None or found.price > policy.COLLAPSE_PRICE * found.cost.scale:
        return None
    small, net = found.problem.network, problem.network
    return found if small.neurons * small.entries <= policy.COLLAPSE_SHARE * net.neurons * net.entries else None


def collapsed(problem: Problem) -> Collapsed | None:
    """The problem of the open neurons, worth it or not; None where something overflows. The region is bounded."""
    pre, net, box = preactivations(problem), problem.network, hull(problem.region)
    assert box is not None
    with np.errstate(over="ignore", invalid="ignore"):
        sweep = _Sweep.of(problem, _states(net, pre))
        kept = sorted(sweep.open)
        bounds = {i: Interval(pre[i - 1].lo[own], pre[i - 1].hi[own]) for i, own in sweep.open.items()}
        kinds = {i: RELU if net.activations[i - 1].kinked else net.activations[i - 1] for i in kept}
        values = {i: Interval(*kinds[i].value_bounds(*bounds[i])).magnitude for i in kept}
        values[0] = np.maximum(np.abs(box.lo), np.abs(box.hi))
        number = {j: k for k, j in enumerate([0, *kept])}
        blocks, errors = [], []
        for i in [*kept, len(net.blocks)]:
            sums = sweep.of_block(i)
            slack = sums.slack(values)
            if not (sums.finite and np.all(np.isfinite(slack))):
                return None
            terms = tuple((number[j], part.middle) for j, part in sums.terms.items())
            blocks.append(Block(terms, sums.constant.middle[:, 0], kinds.get(i, IDENTITY), slack))
            errors.append({number[j]: part.radius for j, part in sums.terms.items()})
        small, known = Network.from_blocks(blocks), tuple(bounds[i] for i in kept)
        cost = price_of(small, slope_bounds(small, known), errors, problem.norm, problem.coordinate)
    if not np.isfinite(cost.price):
        return None
    output = problem.output if problem.whole_map else choose_output(0, 1)
    asked = Problem(small, problem.region, problem.norm, output, problem.coordinate, {PREACTIVATIONS: known})
    return Collapsed(asked, tuple((i, sweep.open[i]) for i in kept), cost)


@dataclass(frozen=True, eq=False)
class _State:
    """Of a hidden block: the open neurons, what their v is multiplied with, and what every z is passed on with."""

    open: Index
    rise: Array
    through: Array


def _states(net: Network, pre: tuple[Interval, ...]) -> list[_State]:
    """x = through z + rise v, v = relu(z) of the open neurons; of smooth ones x = v."""
    states = []
    for f, slope in zip(net.activations, slope_bounds(net, pre), strict=True):
        if not f.piecewise_linear:
            everyone = np.arange(len(slope.lo))
            states.append(_State(everyone, np.ones(len(everyone)), np.zeros(len(everyone))))
            continue
        free = slope.lo < slope.hi
        ones = np.flatnonzero(free)
        states.append(_State(ones, np.full(len(ones), 1.0 - f.alpha), np.where(free, f.alpha, slope.lo)))
    return states


@dataclass(frozen=True, eq=False)
class _Sums:
    """Rows of one block: by source the coefficients, and the constants."""

    terms: dict[int, Rounded]
    constant: Rounded

    @property
    def finite(self) -> bool:
        parts = [*self.terms.values(), self.constant]
        return all(bool(np.all(np.isfinite(p.middle)) and np.all(np.isfinite(p.radius))) for p in parts)

    def slack(self, values: dict[int, Array]) -> Array:
        """How far z may be from the sum of the rounded coefficients, where |x_j| <= values_j."""
        parts = [self.constant, *self.terms.values()]
        exact = np.all([~part.radius.any(axis=1) for part in parts], axis=0)
        shares = [part.radius @ values[j] for j, part in self.terms.items()]
        total = sum(len(values[j]) for j in self.terms) + len(shares)
        return np.where(exact, 0.0, grow(self.constant.radius[:, 0] + np.sum(shares, axis=0), total))


class _Sweep:
    """From the scores down to the input: all rows above a block have coefficients of it, which give way to what it is.

    The rows of the scores come first, then those of the last hidden block, and so on.
    """

    def __init__(self) -> None:
        self.pending: dict[int, Rounded] = {}
        self.constant = Rounded.nothing(0, 1)
        self.found: dict[int, Rounded] = {}  # by block: coefficients of its open neurons, of all rows above it
        self.places: dict[int, slice] = {}
        self.open: dict[int, Index] = {}  # by block: its open neurons that count

    @classmethod
    def of(cls, problem: Problem, states: list[_State]) -> _Sweep:
        net, sweep = problem.network, cls()
        one = None if problem.whole_map else Rounded.exactly(problem.c[None, :])
        sweep._enter(net.depth + 1, net.scores, np.arange(net.outputs), one)
        for i in range(net.depth, 0, -1):
            if i not in sweep.pending:
                continue
            sweep._give_way(i, net.blocks[i - 1], states[i - 1])
            if i in sweep.open:
                sweep._enter(i, net.blocks[i - 1], sweep.open[i], None)
        sweep.found[0] = sweep._padded(sweep.pending.pop(0, Rounded.nothing(0, net.inputs)))
        return sweep

    def of_block(self, i: int) -> _Sums:
        """The rows of block i; sources without coefficients are left out, the input stays where there is no other."""
        own = self.places[i]
        parts = {j: self.found[j].rows(own) for j in sorted(self.found) if j < i}
        terms = {j: part for j, part in parts.items() if part.filled.any()}
        return _Sums(terms or {0: parts[0]}, self.constant.rows(own))

    @property
    def count(self) -> int:
        return len(self.constant.middle)

    def _enter(self, i: int, block: Block, neurons: Index, weights: Rounded | None) -> None:
        """Rows of neurons of a block, or of a sum of them with weights."""
        before = self.count
        if weights is None:
            rows = {j: Rounded.exactly(dense(weight[neurons])) for j, weight in block.terms}
            constant = Rounded(block.bias[neurons][:, None], block.doubt[neurons][:, None])
        else:
            rows = {j: weights.down(weight) for j, weight in block.terms}
            constant = weights.down(block.bias[:, None])
            constant = Rounded(constant.middle, grow(constant.radius + _reach(weights, block), 2))
        for j, part in rows.items():
            above = self.pending.get(j, Rounded.nothing(0, part.middle.shape[1]))
            self.pending[j] = self._padded(above).above(part)
        self.constant = self.constant.above(constant)
        self.places[i] = slice(before, self.count)

    def _give_way(self, i: int, block: Block, state: _State) -> None:
        """x_i = through z_i + rise v_i, and z_i is what the block reads.

        Open neurons that no row has a coefficient of are left out: only neurons that are off read them.
        """
        rows = self._padded(self.pending.pop(i))
        own = rows.columns(state.open).times(state.rise)
        counts = own.filled.any(axis=0)
        if counts.any():
            self.found[i], self.open[i] = own.columns(np.flatnonzero(counts)), state.open[counts]
        passing = np.flatnonzero(state.through)
        if not len(passing):
            return
        passed = rows.times(state.through)
        for j, weight in block.terms:
            few = len(passing) < _FEW * block.width and not isinstance(weight, Operator)
            pulled = passed.columns(passing).down(weight[passing]) if few else passed.down(weight)
            self.pending[j] = self._padded(self.pending[j]) + pulled if j in self.pending else pulled
        constant = self.constant + passed.down(block.bias[:, None])
        self.constant = Rounded(constant.middle, grow(constant.radius + _reach(passed, block), 2))

    def _padded(self, part: Rounded) -> Rounded:
        """With rows of zeros for those that entered since."""
        missing = self.count - len(part.middle)
        return part.above(Rounded.nothing(missing, part.middle.shape[1])) if missing else part


def _reach(rows: Rounded, block: Block) -> Array | float:
    """What the slack of a block does to the rows: a column."""
    if block.slack is None:
        return 0.0
    return grow((np.abs(rows.middle) + rows.radius) @ block.slack, block.width + 4)[:, None]


def _can_pay(problem: Problem, states: list[_State]) -> bool:
    """Whether the collapsed network may be smaller, and pulling its rows back is not too much work or memory."""
    net = problem.network
    counts = [len(state.open) for state in states]
    scores = net.outputs if problem.whole_map else 1
    before = [net.inputs + n for n in accumulate([0, *counts])]
    entries = sum(n * columns for n, columns in zip([*counts, scores], before, strict=True))
    rows = scores + sum(counts)
    fits = rows * max(net.shape) <= policy.COLLAPSE_NUMBERS and 4.0 * rows * net.entries <= policy.COLLAPSE_OPERATIONS
    return fits and sum(counts) * entries <= policy.COLLAPSE_TRIED * net.neurons * net.entries
