"""Which way of making pre-activation bounds is cheapest, known before it is begun.

Backwards there is a form for each neuron, forwards a column for each input and for each neuron that is in doubt. Smooth
networks have zonotopes always, because they are far tighter than forms there. Other networks have them where forms take
long and zonotopes do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.substitution import work
from lipcert.problem.maps import dense_work, entries, is_sparse
from lipcert.problem.network import Network
from lipcert.problem.problem import FORMS, INTERVALS, Way
from lipcert.problem.region import Region, hull
from lipcert.steps import DENSE, RATES, THIN

if TYPE_CHECKING:  # a checker has no budget
    from lipcert.budget import Budget

_PASSES = 40.0  # operations on one number of a column besides the products: it is scaled, and its magnitude added up
FORMS_QUICK = 0.02  # share of what is left that forms of all neurons may take without a look at zonotopes
# How many times as long forms must take as the columns of the inputs. Columns of neurons in doubt come to the latter,
# and forms leave a few neurons less in doubt.
FORMS_TIMES = 2.0
_SHARE = 0.3  # share of what is left that zonotopes may take, and that forms of the neurons in doubt may take
_SHARE_ALONE = 0.75  # the first of both where forms of all neurons would not end: then nothing else is useful
# How many times as long as what is left forms must take to be left out, where zonotopes do not fit: those that end in
# time would hardly help, and a checker would have to make all of them.
_HOPELESS = 10.0
_COPIES = 4.0  # columns of the widest block that are in memory at once


def chosen_way(net: Network, region: Region, budget: Budget) -> Way:
    """The way for bounds on this region within this budget; forms of all neurons where nothing else is better."""
    if hull(region) is None or all(j == 0 for block in net.hidden for j, _ in block.terms):
        return FORMS
    smooth = any(not f.piecewise_linear for f in net.activations)
    backwards = sum(budget.expected(*piece) for piece in forms_work(net))
    if not smooth and backwards <= FORMS_QUICK * budget.left():
        return FORMS
    forwards = budget.expected(*zonotope_work(net, net.inputs))
    if not smooth and backwards <= FORMS_TIMES * forwards:
        return FORMS
    most = fitting_symbols(net, budget, _SHARE if backwards <= budget.left() else _SHARE_ALONE)
    if most >= net.inputs:
        return Way(most, forms=True)
    return INTERVALS if backwards > _HOPELESS * budget.left() else FORMS


def fitting_symbols(net: Network, budget: Budget, share: float = _SHARE) -> int:
    """How many symbols fit into memory and into a share of the time, no more than there are inputs and neurons."""
    most = net.inputs + net.neurons
    operations, kind = zonotope_work(net, 1)
    most = min(most, int(budget.affordable(share * max(budget.left(), 0.0), kind) / operations))
    while most and not budget.holds(zonotope_numbers(net, most)):
        most //= 2
    return most


def zonotope_numbers(net: Network, symbols: int) -> float:
    """Numbers in memory at once in zonotopes with so many symbols."""
    return _COPIES * symbols * max(net.shape)


def forms_pay(net: Network, pre: tuple[Interval, ...], budget: Budget) -> bool:
    """Whether forms of the neurons that these bounds leave in doubt take no more than a share of the time."""
    seconds = 0.0
    for i in range(1, net.depth):
        f, z = net.activations[i], pre[i]
        doubt = int(np.count_nonzero((z.lo < 0) & (z.hi > 0))) if f.piecewise_linear else net.blocks[i].width
        operations, kind = work(net.blocks[i], net.blocks[:i])
        seconds += budget.expected(doubt * operations, kind)
    return seconds <= _SHARE * budget.left()


def forms_work(net: Network) -> Iterator[tuple[float, str]]:
    """The work of the linear forms of all neurons, block by block, as operations of a kind."""
    for i in range(1, net.depth):
        operations, kind = work(net.blocks[i], net.blocks[:i])
        yield net.blocks[i].width * operations, kind


def zonotope_work(net: Network, symbols: int) -> tuple[float, str]:
    """The work of zonotopes with so many symbols in every block, as operations of a kind."""
    weights = [weight for block in net.hidden for _, weight in block.terms]
    thin = sum(2.0 * entries(weight) for weight in weights if is_sparse(weight)) + _PASSES * net.neurons
    solid = sum(2.0 * dense_work(weight) for weight in weights if not is_sparse(weight))
    if thin / RATES[THIN] > solid / RATES[DENSE]:
        return symbols * (thin + solid * RATES[THIN] / RATES[DENSE]), THIN
    return symbols * (solid + thin * RATES[DENSE] / RATES[THIN]), DENSE
