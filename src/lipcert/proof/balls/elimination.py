"""Elimination of slopes a second time: balls for the terms of the gradient, whole numbers for their tables.

Every term is a whole number of units, with as many units of error as it may be off; sums of whole numbers are exact.
The order of elimination is that of the first checker: it decides how large tables are, not what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.elimination import Scope, Terms, largest_sum, spread
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
    errors: list[int] = []
    value = int(largest_sum(found.tables, _whole(found, base, steps[:, neuron], unit, errors)))
    return (arb(value) + arb(sum(errors))) * unit


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


def _whole(
    found: Terms, base: Balls, steps: Balls, unit: Any, errors: list[int]
) -> Iterator[tuple[Scope, NDArray[np.int64]]]:
    """|g_i| in units over its scope; how many units it may be off is added to the errors."""
    for i, scope in enumerate(found.scopes):
        own = [base[i], *(steps[i, k] for k in scope)]
        middles = [_nearest(x / unit) for x in own]
        errors.append(sum(off for _, off in middles))
        numbers = np.array([n for n, _ in middles], dtype=np.int64)
        yield scope, np.abs(spread(numbers[:1], numbers[1:]))


def _nearest(x: Any) -> tuple[int, int]:
    """A whole number near a ball, and how far the ball may reach from it."""
    return int(x.mid().floor().unique_fmpz()), int((x.rad() + 2).ceil().unique_fmpz())
