"""All slopes of one hidden layer at once, exactly, where the network is sparse.

With one hidden layer the gradient is g_i(s) = e_i + sum_j w_j A_ji s_j, and its norm is largest where every slope s_j
is at an end of its interval:

    max over s in {lo, hi}^open of sum_i |g_i(s)|        (or of sum_i g_i(s)^2)

Every term has the open neurons that read input i. Neurons are eliminated one after another [BerteleBrioschi72]: the
terms that have the neuron become one table over all neurons in them, of which the larger half by the neuron is left as
a term of the others. A network whose neurons read neighbouring inputs has small tables, however many neurons it has.
No relaxation that knows the slopes' intervals alone can prove less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.problem.maps import Index, Matrix, dense
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.rounding import TINY, Array, gamma, grow, sum_up

LARGEST = 22  # neurons in one table: 4 million numbers
_TABLES = 1 << 30  # entries of all tables: the most that a checker may be asked for
_NEURONS = 2000  # open neurons at most: the search for an order takes their square
_ENTRIES = 1 << 22  # entries of the first map, which is made dense

_WAY = 1 << 28  # entries of all tables whose larger halves are remembered

Ends = NDArray[np.bool_]
Numbers = NDArray[Any]
Scope = tuple[int, ...]  # positions in the order of elimination, ascending


@dataclass(frozen=True, eq=False)
class Terms:
    """g_i = base_i + sum over the scope of input i of step_ij (0 or 1), and how far rounding may move all of them.

    `scopes` are positions in the order of elimination; `error` bounds, for every input, what all roundings do to g_i.
    """

    base: Array
    steps: tuple[Array, ...]
    scopes: tuple[Scope, ...]
    error: Array
    tables: tuple[Scope, ...]  # the table of every neuron, in the order of elimination
    place: Index  # the place of every open neuron in that order

    @property
    def operations(self) -> float:
        """An estimate of the number of additions."""
        return float(sum(4.0 * 2.0 ** len(scope) for scope in (*self.tables, *self.scopes)))


def terms(net: Network, slopes: Interval, c: Array) -> Terms | None:
    """The terms of the gradient of c'scores and an order of elimination; None where a table would be too large."""
    (block,) = net.hidden
    open_ = np.flatnonzero(slopes.hi > slopes.lo)
    if net.inputs * block.width > _ENTRIES or len(open_) > _NEURONS or [j for j, _ in block.terms] != [0]:
        return None
    A = dense(block.terms[0][1])
    reads = A[open_].T != 0.0
    if reads.sum(axis=1).max(initial=0) > LARGEST:
        return None
    found = _order([np.flatnonzero(row) for row in reads], len(open_))
    if found is None:
        return None
    place, tables = found
    entries = sum(1 << len(scope) for scope in tables) + int((2.0 ** reads.sum(axis=1)).sum())
    if entries > _TABLES:
        return None
    with np.errstate(all="ignore"):  # an overflow is an infinite bound
        return _terms(net, slopes, c, A, reads, place, tables)


def _terms(
    net: Network, slopes: Interval, c: Array, A: Array, reads: Ends, place: Index, tables: tuple[Scope, ...]
) -> Terms:
    open_, heads = np.flatnonzero(slopes.hi > slopes.lo), dict(net.scores.terms)
    w, size = _row(heads.get(1), c, len(A))
    skip, skip_size = _row(heads.get(0), c, net.inputs)
    width = slopes.hi - slopes.lo
    M = A.T * w
    base, steps = skip + M @ slopes.lo, M[:, open_] * width[open_]
    scopes, own = [], []
    for i, row in enumerate(reads):
        order = np.argsort(place[row])
        scopes.append(tuple(int(k) for k in place[row][order]))
        own.append(steps[i, row][order])
    error = _error(np.abs(A).T, size, slopes, skip_size, net.outputs)
    return Terms(base, tuple(own), tuple(scopes), error, tables, place)


def _error(A: Array, size: Array, slopes: Interval, skip: Array, outputs: int) -> Array:
    """A bound of all roundings in g_i for any slopes: relative ones of every term, and underflow.

    A term is c_k W_kj A_ji times lo_j or (hi_j - lo_j); with n neurons it is in at most 2 n + outputs + 6 operations.
    """
    n = A.shape[1]
    largest = np.abs(slopes.lo) + 2.0 * (slopes.hi - slopes.lo)
    relative = gamma(2 * n + outputs + 16) * grow(A @ (size * largest) + skip, n + 8)
    lost = TINY * (A @ ((outputs + 8) * largest) + largest.sum() + 4 * n + 8)
    return grow(relative + lost, n + 8)


def _row(weight: Matrix | None, c: Array, width: int) -> tuple[Array, Array]:
    """c'weight and a bound of what its entries are made of; zero where there is no weight."""
    if weight is None:
        return np.zeros(width), np.zeros(width)
    return np.asarray(c @ weight), grow(np.asarray(np.abs(c) @ abs(weight)), len(c))


def _order(reads: Sequence[Index], count: int) -> tuple[Index, tuple[Scope, ...]] | None:
    """The place of every neuron in an order of elimination, least table first, and the tables; None if one is large."""
    near: list[set[int]] = [{j} for j in range(count)]
    for row in reads:
        for j in row.tolist():
            near[j].update(row.tolist())
    place, left, found = np.full(count, -1, dtype=np.int64), set(range(count)), []
    for k in range(count):
        j = min(left, key=lambda j: (len(near[j]), j))
        own = near[j]
        if len(own) > LARGEST:
            return None
        place[j] = k
        left.discard(j)
        found.append(own)
        for other in own - {j}:
            near[other] |= own
            near[other].discard(j)
    return place, tuple(tuple(sorted(int(place[j]) for j in own)) for own in found)


def largest_norm(found: Terms, norm: Norm) -> float:
    """An upper bound of the dual norm of every gradient whose slopes lie in their intervals."""
    plain = norm.p == INF.p
    with np.errstate(all="ignore"):
        value = largest_sum(found.tables, found.scopes, partial(_size, found, plain))
    above = float(grow(np.asarray(value), len(found.base) + len(found.tables) + 8))
    if plain:
        return float(grow(np.asarray(above + sum_up(found.error)), 2))
    return float(grow(np.sqrt(np.asarray(above)), 4))


def best_ends(found: Terms, norm: Norm) -> Ends | None:
    """Which open neurons have their larger slope where the norm is largest; None where keeping the way is too much.

    In plain floating point: a hint for the search for a point.
    """
    if sum(1 << len(scope) for scope in found.tables) > _WAY:
        return None
    choices: list[Ends] = []
    largest_sum(found.tables, found.scopes, partial(_size, found, norm.p == INF.p), choices)
    high = np.zeros(len(found.tables), dtype=bool)
    for k in range(len(choices) - 1, -1, -1):  # the last one eliminated depends on no other
        place = 0
        for other in found.tables[k][1:]:
            place = 2 * place + int(high[other])
        high[k] = choices[k][place]
    return high[found.place]


def _size(found: Terms, plain: bool, i: int) -> Array:
    """|g_i| over its scope; in norm 2 its square, with the error inside."""
    size = np.abs(spread(found.base[i : i + 1], found.steps[i]))
    return size if plain else np.square(size + found.error[i])


def spread(base: Numbers, steps: Numbers) -> Numbers:
    """base plus every choice of the steps: the first step is the slowest."""
    table = base
    for step in steps[::-1]:
        table = np.concatenate([table, table + step])
    return table


def largest_sum(
    tables: Sequence[Scope],
    scopes: Sequence[Scope],
    term: Callable[[int], Numbers],
    choices: list[Ends] | None = None,
) -> Any:
    """The largest sum of terms over all choices of 0 and 1, of floats or of whole numbers.

    `tables` are the scopes of what is added up when a variable is eliminated, in order; a term that does not fit into
    its table is an error. A term is asked for when its table is made, so that few are in memory. `choices` receives
    which half was larger, table by table.
    """
    waiting: list[list[int]] = [[] for _ in tables]
    passed: list[list[tuple[Scope, Numbers]]] = [[] for _ in tables]
    constant: Any = 0
    for i, scope in enumerate(scopes):
        if scope:
            waiting[scope[0]].append(i)
        else:
            constant = constant + term(i)[0]
    for k, scope in enumerate(tables):
        total: Any = None
        for own, table in chain(((scopes[i], term(i)) for i in waiting[k]), passed[k]):
            total = np.zeros(1 << len(scope), dtype=table.dtype) if total is None else total
            _add(total, scope, table, own)
        passed[k].clear()
        low, high = np.split(np.zeros(1 << len(scope)) if total is None else total, 2)
        rest = np.maximum(low, high)
        if choices is not None:
            choices.append(high > low)
        if len(scope) == 1:
            constant = constant + rest[0]
        else:
            passed[scope[1]].append((scope[1:], rest))
    return constant


def _add(total: Numbers, scope: Scope, table: Numbers, own: Scope) -> None:
    """Add a table to one over more variables; neighbouring axes are one, so that numpy's loops are long."""
    runs: list[tuple[bool, int]] = []
    members = set(own)
    for k in scope:
        inside = k in members
        if runs and runs[-1][0] == inside:
            runs[-1] = (inside, runs[-1][1] + 1)
        else:
            runs.append((inside, 1))
    whole = total.reshape([1 << n for _, n in runs])
    whole += table.reshape([1 << n if inside else 1 for inside, n in runs])
