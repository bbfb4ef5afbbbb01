"""A set of signs without interior, in fractions: the arguments of `proof.interior` once more, with nothing rounded.

The ordinary checker carries whole numbers from the input upward and eliminates without fractions. Here every neuron is
pulled back to the input in fractions, and the combination that cancels comes from a reduced echelon form. On the whole
space the coefficients of a basis of the first block's rows are solved for exactly, so every sum is what it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import MethodError
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.region import Region, hull, sides_of
from lipcert.proof.balls.cells import Hint
from lipcert.proof.balls.numbers import Balls, load_flint
from lipcert.proof.interior import Index, Signs, covers
from lipcert.rounding import Array

_MOST_INPUTS = 60  # a rational system of equations has so many
_MOST_ENTRIES = 1 << 20  # entries of the weights that a row is pulled back through: about a second


def no_interior(net: Network, region: Region, signs: Signs, rows: Index) -> bool:
    """Whether these rows, each named once, prove it of the points of a bounded region with these signs."""
    n = net.inputs
    if n > _MOST_INPUTS or net.entries > _MOST_ENTRIES:
        raise MethodError(
            f"too large for the exact check: a cell without interior of {n} inputs; use verify without it"
        )
    if not 1 <= len(rows) <= n + 1 or len(np.unique(rows)) < len(rows):
        return False
    found = [_neuron(net, signs, k) if k < net.neurons else _side(net, region, k) for k in rows.tolist()]
    table = np.array([row for row in found if row is not None], dtype=object).reshape(-1, n + 1)
    weights = _cancelling(table[:, :n]) if len(table) == len(rows) else None
    if weights is None:
        return False
    if any(w < 0 for w in weights):
        weights = -weights
    moves = [w > 0 and any(e != 0 for e in row[:n]) for w, row in zip(weights, table, strict=True)]
    return bool(all(w >= 0 for w in weights) and weights @ table[:, n] <= 0 and any(moves))


def _neuron(net: Network, signs: Signs, number: int) -> Balls | None:
    """z or -z of a neuron in x and 1, pulled back from block to block; None where it is not affine under the signs."""
    starts = np.cumsum([0, *(b.width for b in net.hidden)])
    last = int(np.searchsorted(starts, number, side="right"))  # the number of its block, from 1
    of = [rational(np.zeros(width)) for width in net.shape[: last + 1]]  # coefficients of x_0 .. x_last
    constant = load_flint().fmpq(0)
    for i in range(last, 0, -1):
        block, sign = net.blocks[i - 1], signs[starts[i - 1] : starts[i]]
        if i == last:
            own = rational(np.where(starts[i - 1] + np.arange(block.width) == number, sign, 0).astype(np.float64))
        else:
            own = of[i] * rational(_slopes(block.activation, sign))
            if any(a != 0 for a in of[i][_unknown(block.activation, sign)]):
                return None
        used = np.array([e != 0 for e in own], dtype=bool)
        if not used.any():
            continue
        if np.any(block.doubt[used] != 0):
            return None
        constant = constant + own[used] @ rational(block.bias[used])
        for j, weight in block.terms:
            of[j] = of[j] + own[used] @ rational(dense(weight)[used])
    return None if signs[number] == 0 else np.append(of[0], constant)


def _slopes(f: Activation, sign: Signs) -> Array:
    return np.where(sign < 0, f.alpha, 1.0) if f.kinked else np.ones(len(sign))


def _unknown(f: Activation, sign: Signs) -> NDArray[np.bool_]:
    """Which neurons are not linear under these signs."""
    return sign == 0 if f.kinked else np.full(len(sign), f != IDENTITY)


def _side(net: Network, region: Region, number: int) -> Balls:
    """A half-space of the region, or behind them a side of its box, as a row that is not negative in it."""
    cut, box, n = sides_of(region), hull(region), net.inputs
    assert box is not None
    cuts = 0 if cut is None else cut.count
    if cut is not None and number < net.neurons + cuts:
        k = number - net.neurons
        return rational(np.append(-cut.A[k], cut.b[k]))
    upper, i = divmod(number - net.neurons - cuts, n)
    unit = np.eye(n)[i]
    return rational(np.append(-unit, box.hi[i]) if upper else np.append(unit, -box.lo[i]))


def _cancelling(rows: Balls) -> Balls | None:
    """The numbers, unique up to a factor, with which the rows add up to zero; None where they are none or many."""
    count, n = rows.shape
    reduced, rank = load_flint().fmpq_mat(n, count, rows.T.ravel().tolist()).rref()
    if rank != count - 1:
        return None
    echelon = np.array(reduced.entries(), dtype=object).reshape(n, count)[:rank]
    leads = [next(k for k in range(count) if row[k] != 0) for row in echelon]
    free = next(k for k in range(count) if k not in leads)
    weights = rational(np.zeros(count))
    weights[free] = load_flint().fmpq(1)
    for row, lead in zip(echelon, leads, strict=True):
        weights[lead] = -row[free]
    return weights


def no_interior_unbounded(net: Network, pre: Hint, c: Array, basis: NDArray[np.int64]) -> bool:
    """Whether these coefficients, with those of `basis` in the first block solved for, prove it of the cell."""
    if not covers(net) or c.shape != (net.neurons,) or not np.all(np.isfinite(c)):
        return False
    if net.inputs > _MOST_INPUTS:
        raise MethodError(
            f"too large for the exact check: {net.inputs} inputs of an empty cell, more than {_MOST_INPUTS}"
        )
    own = [rational(row) for row in np.split(c, np.cumsum(net.shape[1:-2]))]
    first = _solved(dense(net.blocks[0].terms[0][1]), own[0], basis)
    if first is None:
        return False
    own[0] = first
    sure = False
    for i in range(net.depth, 0, -1):
        g = rational(np.zeros(net.shape[i]))
        for r, weight in net.readers[i]:
            if r <= net.depth:
                g = g + rational(dense(weight).T) @ own[r - 1]
        if net.activations[i - 1] == IDENTITY:
            own[i - 1] = g
            continue
        low = rational(np.array(net.activations[i - 1].alpha))[()] * g
        on, off, x = pre[i - 1].lo >= 0, pre[i - 1].hi <= 0, own[i - 1]
        above, beneath = np.asarray(x >= g, dtype=bool), np.asarray(x <= low, dtype=bool)
        if not np.all((off | above) & (on | beneath) & (on | off | np.asarray(g <= 0, dtype=bool))):
            return False
        if i == 1:
            rows = np.any(dense(net.blocks[0].terms[0][1]) != 0, axis=1)
            apart = (on & ~off & np.asarray(x > g, dtype=bool)) | (off & ~on & np.asarray(x < low, dtype=bool))
            sure = bool(np.any(rows & apart))
    constant = sum((rational(b.bias) @ x for b, x in zip(net.hidden, own, strict=True)), load_flint().fmpq(0))
    return bool(constant < 0 or (sure and constant <= 0))


def rational(x: Array) -> Balls:
    """Floats as fractions."""
    fmpq = load_flint().fmpq
    found = np.empty(x.size, dtype=object)
    found[:] = [fmpq(*float(e).as_integer_ratio()) for e in np.ravel(x).tolist()]
    return found.reshape(x.shape)


def _solved(rows: Array, c: Balls, basis: NDArray[np.int64]) -> Balls | None:
    """All coefficients of the first block with sum_k c_k rows_k = 0 exactly, those outside the basis as given."""
    width, n = rows.shape
    if not len(basis):
        return None if any(e != 0 for e in c.tolist()) else c
    if len(basis) != n or len(set(basis.tolist())) != n or basis.min() < 0 or basis.max() >= width:
        return None
    rest = c.copy()
    rest[basis] = load_flint().fmpq(0)
    right = -(rational(rows.T) @ rest)
    square = load_flint().fmpq_mat(n, n, rational(np.ascontiguousarray(rows[basis].T)).ravel().tolist())
    try:
        found = square.solve(load_flint().fmpq_mat(n, 1, right.tolist()))
    except ZeroDivisionError:
        return None
    rest[basis] = found.entries()
    return np.asarray(rest)
