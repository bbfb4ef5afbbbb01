"""A cell of the whole space without interior: a combination of its signs that no x can satisfy, checked exactly.

On a cell every z_k has a sign, or not. Take coefficients c_k of z_k, and g_k = sum_r A_rk c_r, what they ask of the
value v_k of neuron k. From the last block down g_k v_k <= t_k z_k where

    on, v = z:   t = g;       off, v = alpha z:   t = alpha g;       open, g <= 0:   any t from g to alpha g

and a sign allows more of z_k: c_k = t_k + lambda_k (on), t_k - lambda_k (off), lambda >= 0. A block that only adds up
has c = g, whatever number that is: an interval contains it. What is left is

    0 <= sum lambda_k |z_k| <= constant + (sum_k A_k0' c_k) x.

If the bracket is zero *exactly*, then a constant below zero says that there is no x, and a constant of zero that
lambda_k z_k = 0 for all of them: a hyperplane, where k is of the first block, so no interior. Floats do not cancel
exactly. So the c_k of a basis of the first block's rows are not believed but solved for: an inclusion of the exact
solution [Rump10], whose signs are then sure.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Interval
from lipcert.bounds.interval import finite_sum, scaled
from lipcert.problem.activations import IDENTITY
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.rounding import Array, add_down, add_up, grow


def no_interior(net: Network, pre: tuple[Interval, ...], c: Array, basis: NDArray[np.int64]) -> bool:
    """Whether these coefficients, with those of `basis` in the first block solved for, prove it of the cell with the
    pre-activation bounds `pre`; without a basis the first block's must be zero."""
    if not covers(net) or c.shape != (net.neurons,) or not np.all(np.isfinite(c)):
        return False
    with np.errstate(all="ignore"):
        return _proves(net, pre, [row[None, :] for row in np.split(c, np.cumsum(net.shape[1:-2]))], basis)


def covers(net: Network) -> bool:
    """Networks of ReLUs, leaky ReLUs and sums whose first block, which is no sum, alone reads the input."""
    known = all((f.kinked and 0.0 <= f.alpha <= 1.0) or f == IDENTITY for f in net.activations)
    exact = all(b.slack is None for b in net.hidden)
    return net.depth > 0 and known and exact and net.activations[0].kinked and [i for i, _ in net.readers[0]] == [1]


def _proves(net: Network, pre: tuple[Interval, ...], c: list[Array], basis: NDArray[np.int64]) -> bool:
    own = [Interval(row, row) for row in c]
    first = _solved(dense(net.blocks[0].terms[0][1]), c[0][0], basis)
    if first is None:
        return False
    own[0] = first
    sure = False  # some lambda of the first block is positive
    for i in range(net.depth, 0, -1):
        readers = [(w.T, own[r - 1]) for r, w in net.readers[i] if r <= net.depth]
        g = finite_sum(readers) if readers else Interval(np.zeros_like(c[i - 1]), np.zeros_like(c[i - 1]))
        if net.activations[i - 1] == IDENTITY:
            own[i - 1] = g
            continue
        alpha = np.full_like(g.lo, net.activations[i - 1].alpha)
        low = np.where((g.lo == 0) & (g.hi == 0), 0.0, scaled(Interval(alpha, alpha), g).lo)
        on, off = pre[i - 1].lo >= 0, pre[i - 1].hi <= 0
        x = own[i - 1]
        fits = (off | (x.lo >= g.hi)) & (on | (x.hi <= low)) & (on | off | (g.hi <= 0))  # where z = 0, anything does
        if not np.all(fits):
            return False
        if i == 1:
            rows = np.any(dense(net.blocks[0].terms[0][1]) != 0, axis=1)
            sure = bool(np.any(rows & ((on & ~off & (x.lo > g.hi)) | (off & ~on & (x.hi < low)))))
    total = finite_sum([(b.bias[None, :], x) for b, x in zip(net.hidden, own, strict=True)])
    nothing = not any(b.bias.any() for b in net.hidden)
    constant = 0.0 if nothing else float(total.hi[0, 0])
    return constant < 0 or (sure and constant <= 0)


def _solved(rows: Array, c: Array, basis: NDArray[np.int64]) -> Interval | None:
    """All coefficients of the first block with sum_k c_k rows_k = 0 exactly, those outside the basis as given."""
    width, n = rows.shape
    if not len(basis):
        return None if c.any() else Interval(c[None, :], c[None, :])
    if len(basis) != n or len(set(basis.tolist())) != n or basis.min() < 0 or basis.max() >= width:
        return None
    M = np.ascontiguousarray(rows[basis].T)
    try:
        R = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        return None
    if not np.all(np.isfinite(R)):
        return None
    rest = np.where(np.isin(np.arange(width), basis), 0.0, c)
    guess = -R @ (rows.T @ rest)
    full = rest.copy()
    full[basis] = guess
    residual = finite_sum([(np.ascontiguousarray(rows.T), Interval(full[None, :], full[None, :]))])
    product = finite_sum([(R, Interval(rows[basis], rows[basis]))])  # columns of R M
    eye = np.eye(n)
    away = np.maximum(add_up(product.hi, -eye), add_up(eye, -product.lo))
    norm = float(grow(away.sum(axis=0), n).max())
    if not norm < 0.5:
        return None
    step = float(finite_sum([(R, residual)]).magnitude.max())
    radius = float(grow(np.array(step / (1.0 - norm)), 8))
    if not np.isfinite(radius):
        return None
    lo, hi = full.copy(), full.copy()
    lo[basis], hi[basis] = add_down(guess, np.full(n, -radius)), add_up(guess, np.full(n, radius))
    return Interval(lo[None, :], hi[None, :])
