"""The program behind the published HR-1 and HR-2 of two hidden layers on the whole space, t in [0, 1] or in [-1, 1].

    max  sum_ijk c_k A2_kj A1_ji B_k[i,j]      B_k[i,j] stands for t_i u1_j u2_k
    s.t. the moment matrix of (1, t, u1, u2) is positive semidefinite, u^2 = u,  t^2 <= t  (or t^2 <= 1)
         [1 t' w_k'; t T B_k; w_k B_k' D_k] positive semidefinite,  w_k = L(u1 u2_k),  T = L(t t')        for every k
         B_k in [-1, 1],  D_k in [0, 1]; narrower where intervals on the box fix a slope

D_k stands for u1 u1' u2_k^2. Its diagonal would be w_k by u^2 = u; the program leaves it free, which is why it is
looser than our `hr1`. For one thing only: to see which t the published numbers belong to. Nothing here is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.interval import Interval
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.solver.conic.conic import Cone, ConicProblem, solve_conic

Index = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sizes:
    p0: int
    p1: int
    p2: int

    @property
    def n(self) -> int:
        return 1 + self.p0 + self.p1 + self.p2

    @property
    def t(self) -> Index:
        return np.arange(1, 1 + self.p0)

    @property
    def u1(self) -> Index:
        return np.arange(1 + self.p0, 1 + self.p0 + self.p1)

    @property
    def u2(self) -> Index:
        return np.arange(1 + self.p0 + self.p1, self.n)


def two_layer_value(net: Network, box: Box, *, positive: bool) -> float:
    """The optimal value; `positive` is t in [0, 1]."""
    weights = [_dense(a.weight) for a in net.affines]
    problem = _program(weights, _slopes(net, box), positive)
    solution = solve_conic(problem, "clarabel")
    return -solution.primal if solution.status.has_solution else float("nan")


def _slopes(net: Network, box: Box) -> tuple[Interval, Interval]:
    """Slopes that intervals leave possible, layer by layer."""
    lo, hi = box.lo, box.hi
    found = []
    for affine in net.affines[:2]:
        A = _dense(affine.weight)
        up, down = np.maximum(A, 0.0), np.minimum(A, 0.0)
        lo, hi = up @ lo + down @ hi + affine.bias, up @ hi + down @ lo + affine.bias
        found.append(Interval((lo > 0).astype(float), (hi > 0).astype(float)))
        lo, hi = np.maximum(lo, 0.0), np.maximum(hi, 0.0)
    return found[0], found[1]


def _program(weights: list[Floats], slopes: tuple[Interval, Interval], positive: bool) -> ConicProblem:
    """Columns: the free entries of the large matrix, then B_k and D_k of every k."""
    A1, A2, c = weights[0], weights[1], weights[2][0]
    size = Sizes(A1.shape[1], A1.shape[0], A2.shape[0])
    large, count = _large(size)
    parts: list[tuple[sparse.coo_array, Floats, Cone]] = [_block(large)]
    bounds: list[tuple[Index, Floats, Floats]] = []
    objective = np.zeros(count + size.p2 * (size.p0 * size.p1 + size.p1 * (size.p1 + 1) // 2))
    for k in range(size.p2):
        B = count + np.arange(size.p0 * size.p1).reshape(size.p0, size.p1)
        D, count = _symmetric(size.p1, int(B[-1, -1]) + 1)
        parts.append(_block(_small(large, size, k, B, D)))
        objective[B] = -c[k] * A1.T * A2[k]
        bounds += _limits(slopes, k, B, D)
    bounds += [(large[0, v], s.lo, s.hi) for v, s in ((size.u1, slopes[0]), (size.u2, slopes[1]))]
    rows, right = _linear(large, size, bounds, positive)
    A = sparse.vstack([_wide(part[0], count) for part in parts] + [_wide(rows, count)])
    b = np.concatenate([part[1] for part in parts] + [right])
    return ConicProblem(objective, A, b, (*(part[2] for part in parts), Cone("nonnegative", len(right))))


def _large(size: Sizes) -> tuple[Index, int]:
    """The column of every entry of the matrix of (1, t, u1, u2); -1 in the corner, u^2 shares the column of u."""
    entries, count = _symmetric(size.n, -1)
    for u in (size.u1, size.u2):
        entries[u, u] = entries[0, u]
    return _renumbered(entries, count)


def _symmetric(n: int, start: int) -> tuple[Index, int]:
    entries = np.empty((n, n), dtype=np.int64)
    i, j = np.tril_indices(n)
    entries[i, j] = entries[j, i] = start + np.arange(len(i))
    return entries, start + len(i)


def _renumbered(entries: Index, count: int) -> tuple[Index, int]:
    used, places = np.unique(entries, return_inverse=True)
    assert used[0] == -1
    assert len(used) <= count + 1
    return places.reshape(entries.shape) - 1, len(used) - 1


def _small(large: Index, size: Sizes, k: int, B: Index, D: Index) -> Index:
    w = large[size.u2[k], size.u1]
    t, T = large[0, size.t], large[np.ix_(size.t, size.t)]
    top = np.concatenate([[-1], t, w])
    return np.vstack([top, np.column_stack([t, T, B]), np.column_stack([w, B.T, D])])


def _block(entries: Index) -> tuple[sparse.coo_array, Floats, Cone]:
    """-x + s = b for the upper triangle by columns, off-diagonal entries times sqrt(2); entry -1 is the constant 1."""
    j, i = np.tril_indices(len(entries))
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    column = entries[i, j]
    moving = column >= 0
    rows = np.arange(len(i))[moving]
    A = sparse.coo_array((-scale[moving], (rows, column[moving])), shape=(len(i), int(entries.max()) + 1))
    return A, np.where(moving, 0.0, scale), Cone("psd", len(entries))


def _limits(slopes: tuple[Interval, Interval], k: int, B: Index, D: Index) -> list[tuple[Index, Floats, Floats]]:
    """|B| <= the largest u1_j u2_k; D between the products of the ends."""
    first, lo, hi = slopes[0], float(slopes[1].lo[k]), float(slopes[1].hi[k])
    top = np.broadcast_to(first.hi * hi, B.shape).ravel()
    pairs = np.tril_indices(len(D))
    low, high = np.outer(first.lo, first.lo)[pairs] * lo, np.outer(first.hi, first.hi)[pairs] * hi
    return [(B.ravel(), -top, top), (D[pairs], low, high)]


def _linear(
    large: Index, size: Sizes, bounds: list[tuple[Index, Floats, Floats]], positive: bool
) -> tuple[sparse.coo_array, Floats]:
    """x <= hi, -x <= -lo, and T_ii - t_i <= 0 (or T_ii <= 1)."""
    columns = np.concatenate([part[0] for part in bounds])
    lo, hi = np.concatenate([part[1] for part in bounds]), np.concatenate([part[2] for part in bounds])
    m, square = len(columns), large[size.t, size.t]
    rows = np.concatenate([np.arange(2 * m), 2 * m + np.arange(size.p0)])
    cols = np.concatenate([columns, columns, square])
    data = np.concatenate([np.ones(m), -np.ones(m), np.ones(size.p0)])
    if positive:
        rows = np.concatenate([rows, 2 * m + np.arange(size.p0)])
        cols, data = np.concatenate([cols, large[0, size.t]]), np.concatenate([data, -np.ones(size.p0)])
    right = np.concatenate([hi, -lo, np.full(size.p0, 0.0 if positive else 1.0)])
    return sparse.coo_array((data, (rows, cols)), shape=(len(right), int(cols.max()) + 1)), right


def _wide(A: sparse.coo_array, columns: int) -> sparse.coo_array:
    return sparse.coo_array((A.data, (A.row, A.col)), shape=(A.shape[0], columns))


def _dense(weight: object) -> Floats:
    return weight if isinstance(weight, np.ndarray) else np.asarray(weight.toarray())  # type: ignore[attr-defined]
