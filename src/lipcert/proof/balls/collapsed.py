"""The network of the open neurons, checked in balls: how far its rounded coefficients are from the exact ones.

With proved pre-activation bounds every neuron is x = through z + rise v, v of the open ones, so every z is exactly

    z_k = a_k + B_k0 x + sum_j B_kj v_j

which is substituted here from the input upward, in balls. The collapsed network of the ordinary code has floats in
place of a and B. Their error in z must be within the slack of z, and their error in the gradient within its price; the
slack and the price are made larger if they are too small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lipcert.bounds.collapse import Collapsed, collapse, open_neurons
from lipcert.bounds.interval import Interval
from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import choose_output
from lipcert.problem.problem import CollapseOrigin, Preactivations, Problem, ProblemFacts
from lipcert.problem.region import Everywhere, hull
from lipcert.proof.balls.cells import Hint, proved_slopes
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.gradients import Readers, interval_gradients
from lipcert.proof.balls.mixed import neuron_norms
from lipcert.proof.balls.numbers import Balls, above, balls, float_above, lengths, load_flint, product, total, zeros
from lipcert.rounding import worst


@dataclass(frozen=True, eq=False)
class _Exact:
    """Coefficients of z of every block (and of the scores) over the columns (1, x_0, v of all open neurons); bounds of
    the magnitudes of the columns' values, and of the dual norms of their gradients, both without the first two."""

    rows: list[Balls]
    open: list[Any]
    places: list[slice]
    sizes: list[Balls]
    norms: list[Balls]


def proved_collapse(problem: Problem, pre: Hint) -> Collapsed | None:
    """The collapsed problem that the ordinary code makes of these bounds, with slack and price that the balls prove."""
    found = collapse(problem)
    exact_rows = all(block.slack is None for block in problem.network.blocks)
    if found is None or isinstance(problem.region, Everywhere) or not exact_rows:
        return None
    net, small = problem.network, found.problem.network
    exact = _substituted(problem, pre)
    kept = [i for i, _ in found.neurons]
    blocks, prices = [], []
    for place, block in enumerate(small.blocks):
        last = block is small.scores
        rows = _scores(problem, exact.rows[-1]) if last else exact.rows[kept[place] - 1][found.neurons[place][1]]
        apart = _apart(net, exact, rows, block.bias, dict(block.terms), found.neurons)
        box = hull(problem.region)
        assert box is not None
        reach = balls(np.maximum(np.abs(box.lo), np.abs(box.hi)))
        value, gradient = apart[:, 0], lengths(apart[:, 1 : 1 + net.inputs], problem.norm.dual.p)
        value = value + product(apart[:, 1 : 1 + net.inputs], reach)
        for at, size, norm in zip(exact.places, exact.sizes, exact.norms, strict=True):
            value, gradient = value + product(apart[:, at], size), gradient + product(apart[:, at], norm)
        slack = np.maximum(block.doubt, above(value))
        f = IDENTITY if last else net.activations[kept[place] - 1]
        same = RELU if f.kinked else f
        blocks.append(replace(block, activation=same, slack=slack if np.any(slack > 0) else None))
        prices.append(gradient)
    changed = Network.from_blocks(blocks)
    known = tuple(Interval(pre[i - 1].lo[own], pre[i - 1].hi[own]) for i, own in found.neurons)
    output = problem.output if problem.whole_map else choose_output(0, 1)
    facts = ProblemFacts(Preactivations(known), CollapseOrigin(net, tuple(pre), found.neurons))
    asked = Problem(changed, problem.region, problem.norm, output, problem.coordinate, facts)
    price = worst(found.price, float_above(_price(asked, known, prices)))
    return replace(found, problem=asked, price=price)


def _substituted(problem: Problem, pre: Hint) -> _Exact:
    """From the input upward."""
    net = problem.network
    slopes = proved_slopes(net, pre)
    free = [np.flatnonzero(open_neurons(f, s)) for f, s in zip(net.activations, slopes, strict=True)]
    starts = np.cumsum([1 + net.inputs, *(len(own) for own in free)])
    places = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    first = zeros(net.inputs, int(starts[-1]))
    first[np.arange(net.inputs), 1 + np.arange(net.inputs)] = balls(np.ones(net.inputs))
    values, rows, sizes = [first], [], []
    for i, block in enumerate(net.blocks, start=1):
        own = zeros(block.width, int(starts[-1]))
        own[:, 0] = balls(block.bias)
        for j, weight in block.terms:
            own = own + product(balls(dense(weight)), values[j])
        rows.append(own)
        if i > net.depth:
            break
        f, z, ones = block.activation, pre[i - 1], free[i - 1]
        through = balls(slopes[i - 1].lo)
        through[ones] = balls(np.full(len(ones), f.alpha if f.piecewise_linear else 0.0))
        rise = 1 - balls(f.alpha) if f.piecewise_linear else balls(1.0)
        x = through[:, None] * own
        x[ones, places[i - 1].start + np.arange(len(ones))] = rise
        values.append(x)
        held = Interval(np.maximum(z.lo, 0.0), np.maximum(z.hi, 0.0)) if f.kinked else value_bounds(f, z)
        sizes.append(balls(held.magnitude[ones]))
    steep = [np.where(f.kinked, 1.0, s.magnitude) for f, s in zip(net.activations, slopes, strict=True)]
    before = neuron_norms(net, slopes, problem.norm.p)
    norms = [balls(s[own]) * z[own] for s, own, z in zip(steep, free, before, strict=True)]
    return _Exact(rows, free, places, sizes, norms)


def _scores(problem: Problem, rows: Balls) -> Balls:
    """The row of the one output that the problem is about, or the rows of all."""
    return rows if problem.whole_map else product(balls(problem.c)[None, :], rows)


def _apart(net: Network, exact: _Exact, rows: Balls, bias: Any, terms: dict[int, Any], neurons: Any) -> Balls:
    """|exact - rounded|, column by column; a neuron that the collapsed network leaves out has coefficients zero."""
    rounded = zeros(*rows.shape)
    rounded[:, 0] = balls(bias)
    for j, weight in terms.items():
        if j == 0:
            rounded[:, 1 : 1 + net.inputs] = balls(dense(weight))
        else:
            i, own = neurons[j - 1]
            at = np.searchsorted(exact.open[i - 1], own)
            rounded[:, exact.places[i - 1].start + at] = balls(dense(weight))
    return np.asarray(abs(rows - rounded))


def _price(small: Problem, pre: Hint, prices: list[Balls]) -> Any:
    """sum_k |derivative of a score by z_k| |e_k|, row by row of the scores, in the norm of outputs."""
    net, norm = small.network, small.norm
    slopes, readers = proved_slopes(net, pre), Readers(net)
    found = []
    for k, c in enumerate(np.eye(net.outputs)):
        own = prices[-1][k]
        for g, s, e in zip(interval_gradients(readers, slopes, c)[1:], slopes, prices[:-1], strict=True):
            own = own + total(balls(g.magnitude) * balls(s.magnitude) * e)
        found.append(own)
    if norm.out is None:
        return found[0]
    return lengths(np.array(found, dtype=object), Norm(norm.out).p)[()] + load_flint().arb(0)
