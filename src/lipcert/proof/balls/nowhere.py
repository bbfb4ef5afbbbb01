"""A cell of the whole space without interior, in rational numbers: the argument of `proof.nowhere`, nothing rounded.

The coefficients of a basis of the first block's rows are solved for exactly, so every sum is what it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import MethodError
from lipcert.problem.activations import IDENTITY
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.proof.balls.cells import Hint
from lipcert.proof.balls.numbers import Balls, load_flint
from lipcert.proof.nowhere import covers
from lipcert.rounding import Array

_MOST = 60  # inputs: a rational system of equations has so many


def no_interior(net: Network, pre: Hint, c: Array, basis: NDArray[np.int64]) -> bool:
    """Whether these coefficients, with those of `basis` in the first block solved for, prove it of the cell."""
    if not covers(net) or c.shape != (net.neurons,) or not np.all(np.isfinite(c)):
        return False
    if net.inputs > _MOST:
        raise MethodError(f"too large for the exact check: {net.inputs} inputs of an empty cell, more than {_MOST}")
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
