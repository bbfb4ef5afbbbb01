"""Proofs that need no numbers, in balls: product of norms, intervals, linear bounds, mixed norms, elimination.

Elimination of slopes takes balls for the terms of the gradient and whole numbers for their tables: every term is a
whole number of units, with as many units of error as it may be off; sums of whole numbers are exact. The order of
elimination is that of the first checker: it decides how large tables are, not what they hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.elimination import largest_sum, spread
from lipcert.bounds.interval import Interval
from lipcert.errors import MethodError
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region, hull
from lipcert.proof.arithmetic import Arithmetic, elimination_terms, refusal
from lipcert.proof.balls.cells import Hint, proved_slopes
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.forms import Stage
from lipcert.proof.balls.gradients import Adjoint, Readers, form_bound, interval_gradients
from lipcert.proof.balls.maps import Values, map_bound, operator_norm
from lipcert.proof.balls.mixed import mixed_bound
from lipcert.proof.balls.numbers import Balls, balls, float_above, lengths, load_flint, product, zeros

_BITS = 60  # binary digits of the sum of all terms: no table overflows


def check_arithmetic(problem: Problem, pre: Hint, proof: Arithmetic) -> float:
    """The bound, from pre-activation bounds that are proved."""
    match proof.method:
        case "product":
            found = _product(problem)
        case "interval":
            found = _interval(problem, pre)
        case "linear":
            found = _linear(problem, pre)
        case "mixed":
            found = mixed_bound(problem, pre)
        case "elimination":
            found = elimination_bound(problem, proved_slopes(problem.network, pre)[0])
        case _:
            raise MethodError(f"the exact check does not know {proof.method}; use verify")
    return float_above(found)


def _product(problem: Problem) -> Any:
    """The norm of the last map times the largest slopes and norms before it."""
    net, norm, arb = problem.network, problem.norm, load_flint().arb
    reach: dict[int, Any] = {0: arb(1)}
    for i, block in enumerate(net.hidden, start=1):
        own = sum((reach[j] * operator_norm(balls(dense(w)), norm.p, norm.p) for j, w in block.terms), arb(0))
        reach[i] = own * arb(block.activation.steepest)
    last = arb(0)
    for j, weight in net.scores.terms:
        last += reach[j] * _head(problem, balls(dense(weight)))
    return last


def _head(problem: Problem, weight: Balls) -> Any:
    norm = problem.norm
    if norm.out is not None:
        return operator_norm(weight, norm.p, norm.out)
    return lengths(abs(product(weight.T, balls(problem.c))), norm.dual.p)[()]


def jacobian_sizes(problem: Problem, pre: Hint) -> Balls:
    """The largest |entries| of the gradient (one row) or of the Jacobian by intervals."""
    readers, slopes = Readers(problem.network), proved_slopes(problem.network, pre)
    rows = [interval_gradients(readers, slopes, c)[0].magnitude for c in np.atleast_2d(problem.c)]
    return balls(np.stack(rows))


def _interval(problem: Problem, pre: Hint) -> Any:
    size, norm = jacobian_sizes(problem, pre), problem.norm
    if problem.coordinate is not None:
        size = size[:, [problem.coordinate]]
    return lengths(size[0], norm.dual.p)[()] if norm.out is None else operator_norm(size, norm.p, norm.out)


def _linear(problem: Problem, pre: Hint) -> Any:
    return linear_bound(problem, pre, proved_slopes(problem.network, pre), problem.region)


def linear_bound(problem: Problem, pre: Hint, slopes: Hint, region: Region) -> Any:
    """By linear forms of the gradient, or of the Jacobian, on a region with these bounds and slopes."""
    net = problem.network
    readers, values = Readers(net), tangent_values(net, pre, region)
    if problem.whole_map:
        return map_bound(readers, slopes, problem.norm, values, problem.coordinate)
    return form_bound(Adjoint(readers, slopes, problem.c, values), problem.norm.p, problem.coordinate)


def tangent_values(net: Network, pre: Hint, region: Region) -> Values | None:
    """The stages of a cell where some activation is smooth and all is finite."""
    finite = all(bool(np.all(np.isfinite(z.lo) & np.isfinite(z.hi))) for z in pre)
    box = hull(region)
    if box is None or not finite or all(f.piecewise_linear for f in net.activations):
        return None
    pairs = zip(net.hidden, pre, strict=True)
    return [Stage(block, z, value_bounds(block.activation, z), close=True) for block, z in pairs], box


def case_table(problem: Problem, pre: Hint) -> Balls:
    """Interval bounds of all cases: (outputs or 1) x (inputs or 1)."""
    size, norm = jacobian_sizes(problem, pre), problem.norm
    if norm.p != "1":
        size = lengths(size, norm.dual.p)[:, None]
    if norm.out is not None and norm.out != "inf":
        size = lengths(np.ascontiguousarray(size.T), Norm(norm.out).p)[None, :]
    return size


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
    neuron = open_[np.argsort(found.place)]  # the neuron at every place in the order
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
