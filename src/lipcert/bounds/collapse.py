"""Collapse: on a bounded region a network is as large as its open neurons.

A neuron that is on is linear and one that is off is nothing. Substituted through all blocks, they leave

    z_k = a_k + B_k0 x + sum_j B_kj v_j,    v_k = f_k(z_k)           over the open neurons of all blocks j before k

a network with branches. Smooth neurons are always open; an open leaky ReLU is alpha z + (1 - alpha) relu(z), a ReLU
and something linear. The rows of the open neurons (and of the scores) are pulled back from block to block, all of them
in one sweep (`pulled`), so that the work is that of so many gradients.

The coefficients are rounded on the way. What that does to z is the `slack` of a block; what it does to the norm of the
gradient is the `price`. So what is proved of the collapsed problem, with its slack paid for, is proved of
the problem when the price is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gains import Gains, gains
from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import cut_short, preactivations
from lipcert.bounds.pulled import Index, State, Sweep
from lipcert.bounds.spectral import operator_norm, spectral_operations
from lipcert.problem.activations import IDENTITY, RELU, Activation
from lipcert.problem.blocks import Block
from lipcert.problem.network import Network
from lipcert.problem.output import choose_output
from lipcert.problem.problem import Fact, Facts, Origin, Preactivations, Problem
from lipcert.problem.region import hull
from lipcert.rounding import Array, add_up, grow, worst

if TYPE_CHECKING:  # a checker has no budget
    from lipcert.budget import Budget

# When the network of the open neurons is made; measured on mnist-net_256x2, ERAN 5_100 and ERAN 3_50.
# Neurons times entries measure the work of a form for each neuron. The collapsed network must have at most this share
# of the original's work,
COLLAPSE_SHARE = 0.8
# and is tried where it would have at most this many times that work if every open neuron read all that come before it.
COLLAPSE_TRIED = 3.0
COLLAPSE_NUMBERS = 30_000_000  # numbers in one array of all rows, at most
COLLAPSE_COPIES = 6.0  # arrays of that size that are in memory at once
COLLAPSE_OPERATIONS = 2e11  # operations of pulling all rows back, at most: a checker repeats them
COLLAPSE_SPECTRAL = 2e10  # operations of spectral norms, at most; they make the price of deep networks small
COLLAPSE_PRICE = 1e-7  # largest price as a share of the interval bound; more would be seen in a closed bracket

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

    Covered are bounded regions whose pre-activation bounds are the best ones, so that a checker finds the same. It is
    left out where it does not fit the memory of a budget: then a checker may have what we have not (`left_out`).
    """
    if budget is not None and not left_out(problem) and not _worth_it.known(problem) and _covered(problem):
        numbers = _rows(problem) * max(problem.network.shape)
        if numbers <= COLLAPSE_NUMBERS and not budget.holds(COLLAPSE_COPIES * numbers):
            problem.facts.omitted.add(_worth_it)
    return None if left_out(problem) else _worth_it(problem)


def left_out(problem: Problem) -> bool:
    """Whether there was no room to try it."""
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
    if found is None or found.price > COLLAPSE_PRICE * found.scale:
        return None
    small, net = found.problem.network, problem.network
    if any(f.kinked and f.alpha for f in net.activations):  # signs of ReLUs can be branched on, those of others not
        return found
    return found if small.neurons * small.entries <= COLLAPSE_SHARE * net.neurons * net.entries else None


def collapsed(problem: Problem) -> Collapsed | None:
    """The problem of the open neurons, worth it or not; None where something overflows. The region is bounded."""
    found = _with_sizes(problem, spectral=False)
    if found is not None and found.price <= _TINY * found.scale:
        return found
    spectral = _spectral_work(problem.network) <= COLLAPSE_SPECTRAL
    return _with_sizes(problem, spectral=True) if spectral else found


def _with_sizes(problem: Problem, *, spectral: bool) -> Collapsed | None:
    """The same; spectral norms help to bound the norms of gradients or not: the price of deep networks needs them."""
    pre, net = preactivations(problem), problem.network
    with np.errstate(over="ignore", invalid="ignore"):
        states, inputs = _states(problem, pre, gains(net, pre, problem.norm, rows=False, spectral=spectral))
        sweep = Sweep(net, states, inputs, None if problem.whole_map else problem.c)
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
    facts = Facts(Preactivations(known), Origin(net, pre, neurons))
    asked = Problem(small, problem.region, problem.norm, output, problem.coordinate, facts)
    return Collapsed(asked, neurons, price, scale)


def _states(problem: Problem, pre: tuple[Interval, ...], sizes: Gains) -> tuple[list[State], Array]:
    """x = through z + rise v, v = relu(z) of the open neurons; of smooth ones x = v. And the sizes of the input."""
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
        states.append(State(ones, rise, through, of_z, np.stack([values, sizes.after[k + 1]], axis=1)))
    reach = np.maximum(np.abs(box.lo), np.abs(box.hi))
    return states, np.stack([reach, sizes.after[0]], axis=1)


def open_neurons(f: Activation, slope: Interval) -> NDArray[np.bool_]:
    """Those that are not linear: of smooth activations, whatever their slope, all."""
    return slope.lo < slope.hi if f.piecewise_linear else np.ones(len(slope.lo), dtype=bool)


def _spectral_work(net: Network) -> float:
    return sum(spectral_operations(weight) for block in net.hidden for _, weight in block.terms)


def _price(net: Network, slopes: Sequence[Interval], prices: list[Array], problem: Problem) -> tuple[float, float]:
    """What rounding does to the gradient for any slopes within their bounds; and the interval bound of its norm.

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
        return float(_number(total)[0]), norm.dual.above(found[0][0])
    return norm.outputs.above(_number(total)), operator_norm(found[0], norm.p, norm.out)


def _number(x: Array) -> Array:
    return np.where(np.isnan(x), np.inf, x)


def _open_counts(net: Network, pre: tuple[Interval, ...]) -> list[int]:
    pairs = zip(net.activations, slope_bounds(net, pre), strict=True)
    return [int(np.count_nonzero(open_neurons(f, s))) for f, s in pairs]


def _rows(problem: Problem) -> int:
    """Open neurons and scores, each of which has a row over everything before it."""
    scores = problem.network.outputs if problem.whole_map else 1
    return scores + sum(_open_counts(problem.network, preactivations(problem)))


def _can_pay(problem: Problem, pre: tuple[Interval, ...]) -> bool:
    """Whether the collapsed network may be smaller, and pulling its rows back is not too much work or memory."""
    net = problem.network
    counts = _open_counts(net, pre)
    scores = net.outputs if problem.whole_map else 1
    before = [net.inputs + n for n in accumulate([0, *counts])]
    entries = sum(n * columns for n, columns in zip([*counts, scores], before, strict=True))
    rows = _rows(problem)
    fits = rows * max(net.shape) <= COLLAPSE_NUMBERS and 2.0 * rows * net.entries <= COLLAPSE_OPERATIONS
    return fits and sum(counts) * entries <= COLLAPSE_TRIED * net.neurons * net.entries
