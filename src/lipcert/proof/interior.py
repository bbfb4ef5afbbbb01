"""A set of signs that has no interior: rows that cancel.

**On a bounded region**, in whole numbers (`no_interior`).

Rows are affine functions r_k(x) = a_k'x + b_k that are non-negative on the set: z_k or -z_k of a neuron whose sign is
known, which is affine where the signs of all neurons that it depends on are known; b_i - a_i'x of a half-space of the
region; x_i - lo_i and hi_i - x_i of the box around it. If there are lambda >= 0, not all zero, with

    sum lambda_k a_k = 0    and    sum lambda_k b_k <= 0,

then 0 <= sum lambda_k r_k(x) <= 0 on the set. So the set is empty, or r_k = 0 on it wherever lambda_k > 0: a hyperplane
if a_k is not zero, and the set has no interior. Almost every point of a region with interior is then elsewhere.

Where kinks meet in a corner or in the center the second sum is exactly zero, which no rounded number can show. Floats
are whole numbers times powers of two, so all sums here are exact. A file names the rows alone: as long as one
combination of them cancels and no other, that one is found by elimination [Bareiss68], whatever a solver said.

**On the whole space**, in intervals (`no_interior_unbounded`). On a cell every z_k has a sign, or not. Take
coefficients c_k of z_k, and g_k = sum_r A_rk c_r, the coefficients of the values v_k. From the last block down
g_k v_k <= t_k z_k where

    on, v = z:   t = g;       off, v = alpha z:   t = alpha g;       open, g <= 0:   any t from g to alpha g

and a sign allows more of z_k: c_k = t_k + lambda_k (on), t_k - lambda_k (off), lambda >= 0. A block that only adds up
has c = g, whatever number that is: an interval contains it. The sum over all blocks is

    0 <= sum lambda_k |z_k| <= constant + (sum_k A_k0' c_k) x.

If the bracket is zero *exactly*, then a constant below zero says that there is no x, and a constant of zero that
lambda_k z_k = 0 for all of them: a hyperplane, where k is of the first block, so no interior. Floats do not cancel
exactly. So the c_k of a basis of the first block's rows are not believed but solved for: an inclusion of the exact
solution [Rump10], whose signs are then sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval, finite_sum, scaled
from lipcert.problem.activations import IDENTITY
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region, ball_of, hull, sides_of
from lipcert.rounding import Array, add_down, add_up, grow

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # signs of all hidden neurons: 1 for z >= 0, -1 for z <= 0, 0 if nothing is known
Exact = tuple[NDArray[np.object_], int]  # whole numbers, and the exponent of a power of two that multiplies them all

_ROOM = 1e-9  # relative to the numbers that are subtracted: far more than rounding changes them by
_LEAST_ROOM = 1e-290  # and more than what underflows
_COUNTS = 1e-9  # relative to the largest weight: a smaller weight is rounding of a solver
_MOST_INPUTS = 60  # elimination of so many takes about half a second
_MOST_PRODUCTS = 1 << 20  # products of whole numbers in the rows of one set: about a tenth of a second
_MOST_ENTRIES = 1 << 24  # entries of all weights as dense matrices


def row_count(net: Network, region: Region) -> int:
    """How many rows there are: neurons of all blocks, half-spaces of the region, lower and upper sides of its box."""
    cut = sides_of(region)
    return net.neurons + (0 if cut is None else cut.count) + 2 * net.inputs


def known_signs(pre: Sequence[Interval]) -> Signs:
    """The signs that pre-activation bounds of one set say, all blocks side by side."""
    lo, hi = (np.concatenate([np.ravel(z[k]) for z in pre]) for k in (0, 1))
    return np.where(lo >= 0, 1, np.where(hi <= 0, -1, 0)).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a problem: where it is about the network of the open neurons, whose coefficients are rounded, those
    of the network itself stand for them. `numbers` are those of the problem's neurons in `net`."""

    net: Network
    region: Region
    signs: Signs  # on the whole region
    numbers: Index

    @classmethod
    def of(cls, problem: Problem, pre: Sequence[Interval]) -> Rows:
        """With pre-activation bounds of the problem that are proved."""
        net, origin = problem.network, problem.facts.origin
        if origin is None:
            return cls(net, problem.region, known_signs(pre), np.arange(net.neurons))
        starts = np.cumsum([0, *(b.width for b in origin.network.hidden)])
        numbers = np.concatenate([starts[i - 1] + some for i, some in origin.neurons])
        return cls(origin.network, problem.region, known_signs(origin.preactivations), numbers)

    def named(self, rows: Index, literals: Signs) -> tuple[Signs, Index]:
        """The signs of all neurons of the network, and the numbers that the problem's rows have there."""
        signs, fixed = self.signs.copy(), np.flatnonzero(literals)
        signs[self.numbers[fixed]] = literals[fixed]
        count = len(self.numbers)
        others = rows + self.net.neurons - count
        return signs, np.where(rows < count, np.append(self.numbers, 0)[np.minimum(rows, count)], others)


def has_interior(region: Region) -> bool:
    """Whether the region is proved to have interior; with half-spaces, by its inner point, which has room in all.

    A flat region may be given a little larger than it is, where its ends were rounded (`problem.frame`). So there must
    be more room than rounding makes.
    """
    box, cut, ball = hull(region), sides_of(region), ball_of(region)
    if box is None:
        return True
    with np.errstate(all="ignore"):
        if not np.all(box.hi - box.lo > _ROOM * np.maximum(np.abs(box.lo), np.abs(box.hi)) + _LEAST_ROOM):
            return False
        if cut is None:
            return True
        point = cut.inside
        if point is None or not (np.all(box.lo < point) and np.all(point < box.hi)):
            return False
        if ball is not None and not np.sum(np.square(point - ball.center)) < np.square(ball.radius) * (1.0 - _ROOM):
            return False
        size = np.abs(cut.A) @ np.maximum(np.abs(box.lo), np.abs(box.hi)) + np.abs(cut.b)
        return bool(np.all(cut.b - cut.A @ point > _ROOM * size + _LEAST_ROOM))


def rows_of(net: Network, region: Region, numbers: Index, weights: Array, pull: Array) -> Index:
    """The rows with weights that count, a hint: besides these `numbers` of neurons and half-spaces, in units of the
    region's box, the sides that their sum, with the coefficients `pull` of x, is largest at."""
    least = _COUNTS * max(float(np.abs(weights).max(initial=0.0)), float(np.abs(pull).max(initial=0.0)))
    sides = row_count(net, region) - 2 * net.inputs + np.arange(2 * net.inputs)
    used = np.concatenate([-pull, pull]) > least
    return np.concatenate([numbers[weights > least], sides[used]]).astype(np.int64)


def no_interior(net: Network, region: Region, signs: Signs, rows: Index) -> bool:
    """Whether these rows prove it of the points of the region, which must be bounded, with these signs."""
    box, n = hull(region), net.inputs
    if box is None or n > _MOST_INPUTS or not 1 <= len(rows) <= n + 1 or len(set(rows.tolist())) < len(rows):
        return False
    if rows.min() < 0 or rows.max() >= row_count(net, region):
        return False
    if sum(w.shape[0] * w.shape[1] for block in net.hidden for _, w in block.terms) > _MOST_ENTRIES:
        return False
    found = _neuron_rows(net, signs, rows[rows < net.neurons])
    if found is None:
        return False
    table = found + _region_rows(net, region, rows[rows >= net.neurons])
    weights = _cancelling([row[:-1] for row in table])
    if weights is None:
        return False
    if any(w < 0 for w in weights):
        weights = [-w for w in weights]
    if any(w < 0 for w in weights) or sum(w * row[-1] for w, row in zip(weights, table, strict=True)) > 0:
        return False
    return any(w > 0 and any(row[:-1]) for w, row in zip(weights, table, strict=True))


def needed_neurons(net: Network, signs: Signs, neurons: Index) -> tuple[list[Index], NDArray[np.bool_]]:
    """By hidden block these neurons and those that add to their values under the signs; and of all neurons whether its
    sign was used: those of neurons that are off and add nothing count too."""
    ends, used = np.cumsum([b.width for b in net.hidden]), np.zeros(net.neurons, dtype=bool)
    used[neurons] = True
    needed, read = np.split(used.copy(), ends[:-1]), np.split(used, ends[:-1])  # views
    for block, own in zip(reversed(net.hidden), reversed(needed), strict=True):
        for j, weight in block.terms:
            if j and own.any():
                f, sign = net.activations[j - 1], signs[ends[j - 1] - len(needed[j - 1]) : ends[j - 1]]
                reads = np.any(dense(weight)[own] != 0, axis=0)
                read[j - 1] |= reads
                needed[j - 1] |= reads & ~((sign < 0) & (f.kinked and f.alpha == 0))
    return [np.flatnonzero(own) for own in needed], used


def _neuron_rows(net: Network, signs: Signs, neurons: Index) -> list[list[int]] | None:
    """z or -z of neurons in x and 1, up to positive factors; None where some are not affine, or it is too much."""
    if np.any(signs[neurons] == 0):
        return None
    ends, asked = np.cumsum([b.width for b in net.hidden]), needed_neurons(net, signs, neurons)[0]
    reads = [sum(len(asked[j - 1]) if j else 1 for j, _ in b.terms) for b in net.hidden]
    if (net.inputs + 1) * sum(len(own) * n for own, n in zip(asked, reads, strict=True)) > _MOST_PRODUCTS:
        return None
    identity = np.eye(net.inputs, net.inputs + 1, dtype=np.int64).astype(object)
    values = [(identity, 0, np.zeros(net.inputs, dtype=bool))]
    found: dict[int, list[int]] = {}
    for k, (own, sign) in enumerate(zip(asked, np.split(signs, ends[:-1]), strict=True)):
        block, f = net.hidden[k], net.activations[k]
        terms = [(dense(weight)[own], values[j]) for j, weight in block.terms]
        terms = [(w[:, asked[j - 1]] if j else w, x) for (w, x), (j, _) in zip(terms, block.terms, strict=True)]
        if np.any(block.doubt[own] != 0) or any(np.any(w[:, x[2]] != 0) for w, x in terms):
            return None
        z, power = _sum(block.bias[own], [(w, x[:2]) for w, x in terms])
        for row, number in zip(z, ends[k] - block.width + own, strict=True):
            found[int(number)] = [int(signs[number]) * e for e in row]
        slope = np.where(sign[own] < 0, f.alpha, 1.0) if f.kinked else np.ones(len(own))
        factor, shift = _whole(slope)
        unknown = sign[own] == 0 if f.kinked else np.full(len(own), f != IDENTITY)
        values.append((factor[:, None] * z, power + shift, unknown))
    return [found[int(number)] for number in neurons]


def _sum(bias: Array, terms: Sequence[tuple[Array, Exact]]) -> Exact:
    """bias + sum W x, where x are rows over the inputs and 1; the bias is added to the last column."""
    last, power = _whole(bias)
    columns = terms[0][1][0].shape[1]
    constant = np.full((len(bias), columns), 0, dtype=object)
    constant[:, -1] = last
    parts: list[Exact] = [(constant, power)]
    for W, (x, shift) in terms:
        whole, own = _whole(W)
        parts.append((whole @ x if W.shape[1] else np.full(constant.shape, 0, dtype=object), own + shift))
    least = min(shift for _, shift in parts)
    total = np.full(constant.shape, 0, dtype=object)
    for part, shift in parts:
        total = total + part * (1 << (shift - least))
    return total, least


def _whole(x: Array) -> Exact:
    """Floats as whole numbers times one power of two."""
    fraction, power = np.frexp(x)
    numbers = np.ldexp(fraction, 53).astype(np.int64).astype(object)
    least = int(power[x != 0].min()) if np.any(x != 0) else 0
    return numbers * _powers(np.where(x != 0, power - least, 0)), least - 53


def _powers(of: NDArray[np.int64]) -> NDArray[np.object_]:
    return np.asarray(np.left_shift(np.full(of.shape, 1, dtype=object), of.astype(object)))


def _region_rows(net: Network, region: Region, rows: Index) -> list[list[int]]:
    """Half-spaces of the region and sides of its box, numbered behind the neurons."""
    cut, box, n = sides_of(region), hull(region), net.inputs
    assert box is not None
    first = net.neurons + (0 if cut is None else cut.count)
    found = []
    for number in rows.tolist():
        row = np.zeros(n + 1)
        if number < first:
            assert cut is not None
            row[:n], row[n] = -cut.A[number - net.neurons], cut.b[number - net.neurons]
        else:
            i, upper = (number - first) % n, number - first >= n
            row[i], row[n] = (-1.0, box.hi[i]) if upper else (1.0, -box.lo[i])
        found.append(_whole(row)[0].tolist())
    return found


def _cancelling(rows: list[list[int]]) -> list[int] | None:
    """The numbers, unique up to a factor, with which these rows add up to zero; None where they are none or many."""
    count, n = len(rows), len(rows[0])
    table = [[*row, *(int(i == k) for i in range(count))] for k, row in enumerate(rows)]
    rank, before = 0, 1
    for column in range(n):
        pivot = next((i for i in range(rank, count) if table[i][column]), None)
        if pivot is None:
            continue
        table[rank], table[pivot] = table[pivot], table[rank]
        top = table[rank]
        for i in range(rank + 1, count):
            head, lead = table[i][column], top[column]
            table[i] = [(lead * e - head * t) // before for e, t in zip(table[i], top, strict=True)]
        rank, before = rank + 1, top[column]
    return table[rank][n:] if rank == count - 1 else None


def no_interior_unbounded(net: Network, pre: tuple[Interval, ...], c: Array, basis: NDArray[np.int64]) -> bool:
    """Whether these coefficients, with those of `basis` in the first block solved for, prove it of the cell with the
    pre-activation bounds `pre`; without a basis the first block's must be zero."""
    if not covers(net) or c.shape != (net.neurons,) or not np.all(np.isfinite(c)):
        return False
    found = needed_signs(net, c, basis)
    if found is None:
        return False
    on, off, unknown = sign_states(pre)
    if np.any((on & ~found.on) | (off & ~found.off) | (unknown & ~found.open)):
        return False
    sure = np.any((on & found.on_more) | (off & found.off_more))
    return found.constant < 0 or bool(sure and found.constant <= 0)


def sign_states(pre: Sequence[Interval]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which neurons of one cell are on, which are off, and which have no known sign; those with z = 0 are neither."""
    lo, hi = (np.concatenate([np.ravel(z[k]) for z in pre]) for k in (0, 1))
    on, off = lo >= 0, hi <= 0
    return on & ~off, off & ~on, ~(on | off)


@dataclass(frozen=True, eq=False)
class NeededSigns:
    """What coefficients prove on the whole space: which neurons may be on, off, or open in a cell without interior.

    `on_more` and `off_more` say which lambda of the first block are positive where its neuron is on, or off.
    """

    on: NDArray[np.bool_]
    off: NDArray[np.bool_]
    open: NDArray[np.bool_]
    on_more: NDArray[np.bool_]
    off_more: NDArray[np.bool_]
    constant: float


def covers(net: Network) -> bool:
    """Networks of ReLUs, leaky ReLUs and sums whose first block, which is no sum, alone reads the input."""
    known = all((f.kinked and 0.0 <= f.alpha <= 1.0) or f == IDENTITY for f in net.activations)
    exact = all(b.slack is None for b in net.hidden)
    return net.depth > 0 and known and exact and net.activations[0].kinked and [i for i, _ in net.readers[0]] == [1]


def needed_signs(net: Network, c: Array, basis: Index) -> NeededSigns | None:
    """The signs with which these coefficients, with those of `basis` in the first block solved for, prove something;
    None where they prove nothing of any cell."""
    with np.errstate(all="ignore"):
        own = [Interval(row, row) for row in (part[None, :] for part in np.split(c, np.cumsum(net.shape[1:-2])))]
        first = _solved(dense(net.blocks[0].terms[0][1]), own[0].lo[0], basis)
        if first is None:
            return None
        own[0], allowed = first, list[NDArray[np.bool_]]()
        more = np.zeros((2, net.neurons), dtype=bool)
        for i in range(net.depth, 0, -1):
            x = own[i - 1]
            readers = [(w.T, own[r - 1]) for r, w in net.readers[i] if r <= net.depth]
            g = finite_sum(readers) if readers else Interval(np.zeros_like(x.lo), np.zeros_like(x.lo))
            if net.activations[i - 1] == IDENTITY:
                own[i - 1] = g
                allowed.insert(0, np.ones((3, x.lo.shape[1]), dtype=bool))
                continue
            alpha = np.full_like(g.lo, net.activations[i - 1].alpha)
            low = np.where((g.lo == 0) & (g.hi == 0), 0.0, scaled(Interval(alpha, alpha), g).lo)
            on, off = x.lo >= g.hi, x.hi <= low
            allowed.insert(0, np.concatenate([on, off, on & off & (g.hi <= 0)]))
            if i == 1:
                rows = np.any(dense(net.blocks[0].terms[0][1]) != 0, axis=1)
                more[:, : len(rows)] = rows & np.concatenate([x.lo > g.hi, x.hi < low])
        total = finite_sum([(b.bias[None, :], x) for b, x in zip(net.hidden, own, strict=True)])
    constant = float(total.hi[0, 0]) if any(b.bias.any() for b in net.hidden) else 0.0
    on, off, unknown = np.concatenate(allowed, axis=1)
    return NeededSigns(on, off, unknown, more[0], more[1], constant)


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
