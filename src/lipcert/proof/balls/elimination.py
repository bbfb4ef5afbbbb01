"""Elimination of slopes a second time: balls for the terms of the gradient, whole numbers for their tables.

Every term is a whole number of units, with as many units of error as it may be off; sums of whole numbers are exact.
The order of elimination is that of the first checker: it decides how large tables are, not what they hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.elimination import largest_sum, spread
from lipcert.bounds.interval import Interval
from lipcert.errors import MethodError
from lipcert.problem.maps import dense
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import elimination_terms, refusal
from lipcert.proof.balls.numbers import Balls, balls, float_above, load_flint, product, zeros

_BITS = 60  # of the sum of everything, so that no table overflows


def elimination_bound(problem: Problem, slopes: Interval) -> Any:
    """The largest L_1 norm over all ends of these slopes, which are proved."""
    arb = load_flint().arb
    found = None if refusal(problem) is not None else elimination_terms(problem)
    if found is None:
        return arb("inf")
    if problem.norm.p != "inf":
        raise MethodError("the exact check knows elimination in norm inf alone; use verify")
    base, steps = _terms(problem, slopes)
    open_ = np.flatnonzero(slopes.hi > slopes.lo)
    if len(open_) != len(found.place):
        return arb("inf")  # slopes that one checker knows and the other does not
    neuron = open_[np.argsort(found.place)]  # of every place in the order
    largest = float_above(sum((abs(b) for b in base), arb(0)) + sum((abs(s) for s in steps.ravel()), arb(0)))
    if not 0.0 < largest < np.inf:
        return arb(largest)
    unit = arb(2) ** (int(np.ceil(np.log2(largest))) + 1 - _BITS)
    whole = [_whole([base[i], *(steps[i, neuron[k]] for k in scope)], unit) for i, scope in enumerate(found.scopes)]
    value = int(largest_sum(found.tables, found.scopes, lambda i: np.abs(spread(whole[i][0][:1], whole[i][0][1:]))))
    return (arb(value) + arb(sum(off for _, off in whole))) * unit


def _terms(problem: Problem, slopes: Interval) -> tuple[Balls, Balls]:
    """base_i and step_ij of every input and neuron."""
    net, c = problem.network, balls(problem.c)
    (block,) = net.hidden
    heads = {j: balls(dense(weight)) for j, weight in net.scores.terms}
    A = balls(dense(block.terms[0][1]))
    w = product(heads[1].T, c) if 1 in heads else zeros(block.width)
    skip = product(heads[0].T, c) if 0 in heads else zeros(net.inputs)
    M = A.T * w
    low = balls(slopes.lo)
    return skip + product(M, low), M * (balls(slopes.hi) - low)


def _whole(terms: list[Any], unit: Any) -> tuple[NDArray[np.int64], int]:
    """Balls as whole numbers of units, and how many units their sum may be off."""
    balls_ = [x / unit for x in terms]
    numbers = np.array([int(x.mid().floor().unique_fmpz()) for x in balls_], dtype=np.int64)
    return numbers, sum(int((x.rad() + 2).ceil().unique_fmpz()) for x in balls_)
