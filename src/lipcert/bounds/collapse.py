"""Collapse: on a bounded region a network is as large as its open neurons.

A neuron that is on is linear and one that is off is zero. Substituted through all blocks, they leave

    z_k = a_k + B_k0 x + sum_j B_kj v_j,    v_k = f_k(z_k)           over the open neurons of all blocks j before k

a network with branches. Smooth neurons are always open; an open leaky ReLU is alpha z + (1 - alpha) relu(z), a ReLU
and a linear part.

The rows of the open neurons and of the scores are pulled back from block to block, all of them in one sweep
(`RowSweep`), so that the work is that of as many gradients. Rows above a block have coefficients of its values x, which
are replaced by

    x = through z + rise v,     z = bias + sum_j A_j x_j

where v are new variables of the open neurons, whose coefficients stay. Every row is exact by definition, as in
`substitution`: a change that rounding makes to a coefficient is paid for at once, twice. The row's value changes by at
most |change| times the largest |x_j|, its gradient by at most |change| times the largest norm of x_j's gradient. Paid
like that, errors do not grow with depth. The first sum is the `slack` of a block; the second is the `price`. A bound
that is proved of the collapsed problem, with its slack paid for, holds of the problem when the price is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gains import Gains, gains, spectral_work
from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.operator_norms import operator_norm
from lipcert.bounds.propagation import cut_short, preactivations
from lipcert.problem.activations import IDENTITY, RELU, Activation
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, Operator, dense
from lipcert.problem.network import Network
from lipcert.problem.output import choose_output
from lipcert.problem.problem import CollapseOrigin, Fact, Preactivations, Problem, ProblemFacts
from lipcert.problem.region import hull
from lipcert.rounding import TINY, UNIT, Array, add_up, gamma, grow, or_infinite, worst
from lipcert.steps import step

if TYPE_CHECKING:  # a checker has no budget
    from lipcert.budget import Budget

Index = NDArray[np.int64]
_FEW = 0.5  # share of a matrix's rows up to which they are picked before a product
_LEAST = 1e-290  # added to every price: more than an underflow


@dataclass(frozen=True, eq=False)
class OpenBlock:
    """One hidden block: its open neurons, the factors of their v, and the factors of every z.

    `sizes_z` and `sizes` bound, in two columns, the magnitudes of z and x (z and v of open kinked neurons are no
    larger) and the norms of their gradients.
    """

    open: Index
    rise: Array
    through: Array
    sizes_z: Array
    sizes: Array


@dataclass(frozen=True, eq=False)
class PulledRows:
    """The rows of one block: coefficients by source (0: the input), constants, and prices of value and gradient."""

    terms: dict[int, Array]
    constant: Array
    paid: Array

    @property
    def slack(self) -> Array | None:
        """The largest distance from the true values, as `Block.slack` states it."""
        return self.paid[:, 0] if self.paid[:, 0].any() else None

    @property
    def finite(self) -> bool:
        return all(bool(np.all(np.isfinite(part))) for part in (*self.terms.values(), self.constant, self.paid))


class RowSweep:
    """One sweep over all rows: those of the scores come first, then those of the last hidden block, and so on.

    `weights` are those of a sum of the scores, None where each has a row of its own; `inputs` are the sizes of x_0.
    """

    def __init__(self, net: Network, states: Sequence[OpenBlock], inputs: Array, weights: Array | None) -> None:
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

    def of_block(self, i: int) -> PulledRows:
        """The rows of block i; sources without coefficients are left out, the input stays where there is no other."""
        own = self._places[i]
        parts = {j: self._found[j][own] for j in sorted(self._found) if j < i}
        terms = {j: part for j, part in parts.items() if part.any()}
        paid = self._paid[own]
        paid = np.where(paid > 0, grow(paid, self._times_paid), paid)
        return PulledRows(terms or {0: parts[0]}, self._constant[own], paid)

    def _enter(self, i: int, block: Block, neurons: Index) -> None:
        """Add the rows of some neurons of a block, as they are."""
        for j, weight in block.terms:
            above = self._padded(self._pending.get(j, np.zeros((0, weight.shape[1]))))
            self._pending[j] = np.concatenate([above, dense(weight[neurons])])
        before, slack = len(self._constant), block.doubt[neurons]
        self._constant = np.concatenate([self._constant, block.bias[neurons]])
        self._paid = np.concatenate([self._paid, np.stack([slack, np.zeros_like(slack)], axis=1)])
        self._places[i] = slice(before, len(self._constant))

    def _pass(self, i: int, block: Block, state: OpenBlock) -> None:
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
        """Add to the prices of all rows; a price of zero stays zero."""
        self._paid += np.where(amount > 0, grow(amount, terms + 8), amount)
        self._times_paid += 1

    def _padded(self, rows: Array) -> Array:
        """The rows, with rows of zeros for the rows that were added since."""
        missing = len(self._constant) - len(rows)
        return np.pad(rows, ((0, missing), (0, 0))) if missing else rows


# The work of a form for each neuron is measured by neurons times entries. The collapsed network is used where its work
# is at most this share of the original's. Measured on mnist-net_256x2, ERAN 5_100 and ERAN 3_50, like the next number.
COLLAPSE_SHARE = 0.8
# The collapsed network is made where its work would be at most this many times the original's if every open neuron read
# all open neurons before it.
COLLAPSE_TRIED = 3.0
COLLAPSE_NUMBERS = 30_000_000  # numbers in one array of all rows, at most
COLLAPSE_COPIES = 6.0  # arrays of that size that are in memory at once
COLLAPSE_OPERATIONS = 2e11  # operations of pulling all rows back, at most: a checker repeats them
COLLAPSE_SPECTRAL = 2e10  # operations of spectral norms, at most; they make the price of deep networks small
COLLAPSE_SPECTRAL_MOST = 2e11  # the same where the price is too large without them
COLLAPSE_PRICE = 1e-7  # largest price as a share of the interval bound; more would be seen in a closed bracket
COLLAPSE_PRICE_MOST, COLLAPSE_TINY = 0.1, 1e-2  # the same where the share of the work is at most the second number

_TINY = 1e-10  # a price, relative to the interval bound, that nothing needs to be smaller than


@dataclass(frozen=True, eq=False)
class Collapsed:
    """The problem of the open neurons, which they are, and what is to be added to a bound that is proved of it.

    `neurons` names by hidden block of the collapsed network the block of the original and the neurons in it. One output
    c'scores is one score; of the whole map all scores are kept.
    """

    problem: Problem
    neurons: tuple[tuple[int, Index], ...]
    price: float
    scale: float  # the interval bound of the collapsed problem, to compare the price with

    def above(self, upper: float) -> float:
        """A bound of the original problem from one of the collapsed problem."""
        return worst(float(add_up(np.asarray(upper), np.asarray(self.price)))) if np.isfinite(upper) else np.inf


def collapse(problem: Problem, budget: Budget | None = None) -> Collapsed | None:
    """The problem of the open neurons; None where it is not worth it or not covered. Kept with the problem.

    Bounded regions are covered where the pre-activation bounds are the best ones, so that a checker finds the same
    problem. Where the memory of the budget is too small the problem is left out, although a checker may have it
    (`left_out`).
    """
    if budget is not None and not left_out(problem) and not _worth_it.known(problem) and _covered(problem):
        numbers = _numbers(problem)
        if numbers <= COLLAPSE_NUMBERS and not budget.holds(COLLAPSE_COPIES * numbers):
            problem.facts.omitted.add(_worth_it)
    return None if left_out(problem) else _worth_it(problem)


def collapsed_before(problem: Problem) -> Collapsed | None:
    """The problem of the open neurons where it was made by now; None else."""
    return _worth_it(problem) if _worth_it.known(problem) and not left_out(problem) else None


def left_out(problem: Problem) -> bool:
    """Whether the memory of the budget was too small to collapse the problem."""
    return _worth_it in problem.facts.omitted


def _covered(problem: Problem) -> bool:
    return hull(problem.region) is not None and problem.network.depth > 0 and not cut_short(problem)


@Fact
def _worth_it(problem: Problem) -> Collapsed | None:
    if hull(problem.region) is None or not problem.network.depth:
        return None
    pre = preactivations(problem)
    if cut_short(problem):
        return None
    if not _can_pay(problem, pre):
        return None
    found = collapsed(problem)
    if found is None:
        return None
    small, net = found.problem.network, problem.network
    share = small.neurons * small.entries / (net.neurons * net.entries)
    price = max(COLLAPSE_PRICE, COLLAPSE_PRICE_MOST) if share <= COLLAPSE_TINY else COLLAPSE_PRICE
    if found.price > price * found.scale:
        return None
    if any(f.kinked and f.alpha for f in net.activations):  # signs of ReLUs can be branched on, those of others not
        return found
    return found if share <= COLLAPSE_SHARE else None


def collapsed(problem: Problem) -> Collapsed | None:
    """The problem of the open neurons, worth it or not; None where something overflows. The region is bounded."""
    found, work = _with_sizes(problem, spectral=False), spectral_work(problem.network)
    enough = _TINY if work <= COLLAPSE_SPECTRAL else COLLAPSE_PRICE
    if work > COLLAPSE_SPECTRAL_MOST or (found is not None and found.price <= enough * found.scale):
        return found
    return _with_sizes(problem, spectral=True)


def _with_sizes(problem: Problem, *, spectral: bool) -> Collapsed | None:
    """The network of the open neurons, with or without spectral norms."""
    pre, net = preactivations(problem), problem.network
    with np.errstate(over="ignore", invalid="ignore"):
        states, inputs = _states(problem, pre, gains(net, pre, problem.norm, rows=False, spectral=spectral))
        sweep = RowSweep(net, states, inputs, None if problem.whole_map else problem.c)
        kept = sorted(sweep.open)
        known = tuple(Interval(pre[i - 1].lo[sweep.open[i]], pre[i - 1].hi[sweep.open[i]]) for i in kept)
        number = {j: k for k, j in enumerate([0, *kept])}
        blocks, prices = [], []
        for i in [*kept, len(net.blocks)]:
            rows = sweep.of_block(i)
            if not rows.finite:
                return None
            f = IDENTITY if i > net.depth else net.activations[i - 1]
            terms = tuple((number[j], part) for j, part in rows.terms.items())
            blocks.append(Block(terms, rows.constant, RELU if f.kinked else f, rows.slack))
            prices.append(rows.paid[:, 1])
        small = Network.from_blocks(blocks)
        price, scale = _price(small, slope_bounds(small, known), prices, problem)
    if not np.isfinite(price):
        return None
    output = problem.output if problem.whole_map else choose_output(0, 1)
    neurons = tuple((i, sweep.open[i]) for i in kept)
    facts = ProblemFacts(Preactivations(known), CollapseOrigin(net, pre, neurons))
    asked = Problem(small, problem.region, problem.norm, output, problem.coordinate, facts)
    return Collapsed(asked, neurons, price, scale)


def _states(problem: Problem, pre: tuple[Interval, ...], sizes: Gains) -> tuple[list[OpenBlock], Array]:
    """The states of all blocks, x = through z + rise v with v = relu(z) of the open neurons, and the input's sizes.

    A smooth neuron has x = v.
    """
    net, box = problem.network, hull(problem.region)
    assert box is not None
    states = []
    for k, (f, z, slope) in enumerate(zip(net.activations, pre, slope_bounds(net, pre), strict=True)):
        free = open_neurons(f, slope)
        ones = np.flatnonzero(free)
        if f.piecewise_linear:
            rise, through = np.full(len(ones), 1.0 - f.alpha), np.where(free, f.alpha, slope.lo)
        else:
            rise, through = np.ones(len(ones)), np.zeros(len(free))
        values = Interval(*f.value_bounds(*z)).magnitude
        of_z = np.stack([z.magnitude, sizes.before[k]], axis=1)
        states.append(OpenBlock(ones, rise, through, of_z, np.stack([values, sizes.after[k + 1]], axis=1)))
    reach = np.maximum(np.abs(box.lo), np.abs(box.hi))
    return states, np.stack([reach, sizes.after[0]], axis=1)


def open_neurons(f: Activation, slope: Interval) -> NDArray[np.bool_]:
    """Which neurons are not linear on the region; a smooth activation has only such neurons."""
    return slope.lo < slope.hi if f.piecewise_linear else np.ones(len(slope.lo), dtype=bool)


def _price(net: Network, slopes: Sequence[Interval], prices: list[Array], problem: Problem) -> tuple[float, float]:
    """The largest change of the gradient by rounding, for any slopes within their bounds, and its interval bound.

    The true gradient of z_k is B_k0 + sum_j B_kj u_j (true gradient of z_j) + e_k, and `prices` bound |e_k|. So the
    gradient of a score is that of the rounded coefficients and sum_k s_k e_k, where s_k = u_k h_k is its derivative by
    z_k with the rounded coefficients: intervals bound it. All scores at once, a row for each.
    """
    rows, norm = net.outputs, problem.norm
    wide = [Interval(*(np.broadcast_to(end, (rows, len(end))) for end in s)) for s in slopes]
    if wide:
        found = [g.magnitude for g in gradient_bounds(net, (), np.eye(rows), wide)]
    else:  # affine
        found = [np.abs(net.scores.terms[0][1])]
    total = prices[-1]
    for g, s, price in zip(found[1:], wide, prices[:-1], strict=True):
        total = grow(total + (g * s.magnitude) @ price, len(price) + 8)
    if norm.out is None:
        return float(or_infinite(total)[0]), norm.dual.above(found[0][0])
    return norm.outputs.above(or_infinite(total)), operator_norm(found[0], norm.p, norm.out)


def _open_counts(net: Network, pre: tuple[Interval, ...]) -> list[int]:
    pairs = zip(net.activations, slope_bounds(net, pre), strict=True)
    return [int(np.count_nonzero(open_neurons(f, s))) for f, s in pairs]


def _numbers(problem: Problem) -> int:
    """The numbers in the largest array of rows: those over the values of a block belong to what comes after it."""
    net, rows, most = problem.network, problem.network.outputs if problem.whole_map else 1, 0
    for width, count in zip(net.shape[-2::-1], [*_open_counts(net, preactivations(problem))[::-1], 0], strict=True):
        most, rows = max(most, rows * width), rows + count
    return most


def _can_pay(problem: Problem, pre: tuple[Interval, ...]) -> bool:
    """Whether the collapsed network may be smaller, and pulling its rows back is not too much work or memory."""
    net, scores = problem.network, problem.network.outputs if problem.whole_map else 1
    counts = _open_counts(net, pre)
    before = [net.inputs + n for n in accumulate([0, *counts])]
    entries = sum(n * columns for n, columns in zip([*counts, scores], before, strict=True))
    fits = _numbers(problem) <= COLLAPSE_NUMBERS
    fits = fits and 2.0 * (scores + sum(counts)) * net.entries <= COLLAPSE_OPERATIONS
    return fits and sum(counts) * entries <= COLLAPSE_TRIED * net.neurons * net.entries
