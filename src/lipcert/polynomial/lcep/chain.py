"""The gradient of a network as a multilinear polynomial.

    t'g = t' A_1' diag(u_1) A_2' diag(u_2) ... c      |t_i| <= 1,   u = l + d v,  v in [0, 1]  (slopes)

Neurons of known slope (d = 0) and neurons that change no gradient have no variable. `Chain` is that polynomial in
(t, v); `gradient_polynomial` has t = 2 s - 1, so that all variables lie in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import slopes
from lipcert.errors import MethodError
from lipcert.polynomial.monomials import unique_rows
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.rounding import TINY, Array, add_up, gamma, grow, sum_up

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_TERMS = 20_000_000


@dataclass(frozen=True, eq=False)
class LayerSlopes:
    """Slopes low + width v of one layer's neurons, and the variable of each (-1 where there is none)."""

    low: Array
    width: Array
    variable: Index

    @property
    def free(self) -> Mask:
        return np.asarray(self.variable >= 0)


@dataclass(frozen=True, eq=False)
class Chain:
    """t'g = sum_k coefficients_k prod variables[indices_k], up to `error`: t first, then the v layer by layer."""

    weights: tuple[Array, ...]
    layers: tuple[LayerSlopes, ...]
    indices: Index  # rows of distinct ascending variables, padded on the left with -1
    coefficients: Array
    error: float

    @property
    def inputs(self) -> int:
        return int(self.weights[0].shape[1])

    @property
    def n(self) -> int:
        return self.inputs + sum(int(layer.free.sum()) for layer in self.layers)


@dataclass(frozen=True, eq=False)
class Multilinear:
    """max constant + sum_k coefficients_k prod x[indices_k] over [0,1]^n is at least L - error, for x = (s, v).

    Rows of `indices` hold distinct variables, ascending, padded on the left with -1. `cliques[i]` are the variables
    that s_i meets in the objective (its own first).
    """

    n: int
    constant: float
    indices: Index
    coefficients: Array
    error: float
    cliques: tuple[Index, ...]


def gradient_chain(problem: Problem, pre: tuple[Interval, ...] | None = None) -> Chain:
    """The polynomial t'g of c'scores, slopes in their intervals; `pre` replaces the proved pre-activation bounds."""
    net = problem.network
    if not net.depth:
        raise MethodError("the network has no hidden layer: its gradient is constant")
    weights = tuple(dense(a.weight) for a in net.affines[:-1])
    head, head_error = _head(net, problem.c)
    layers = _layers(weights, head, slopes(problem) if pre is None else slope_bounds(net, pre))
    indices, coefficients = _terms(weights, head, layers)
    return Chain(weights, layers, indices, coefficients, _error(weights, head, head_error, layers))


def gradient_polynomial(problem: Problem, pre: tuple[Interval, ...] | None = None) -> Multilinear:
    """The polynomial of LipOpt: as `gradient_chain`, over [0, 1]^n."""
    chain = gradient_chain(problem, pre)
    constant, indices, coefficients = _centred(chain.indices, chain.coefficients, chain.inputs)
    return Multilinear(chain.n, constant, indices, coefficients, chain.error, _cliques(chain))


def _head(net: Network, c: Array) -> tuple[Array, Array]:
    """The output's weights on the last hidden layer, and a bound on their error."""
    head = gradient_bounds(Network(net.affines[-1:], ()), (), c)[0]
    if not (np.all(np.isfinite(head.lo)) and np.all(np.isfinite(head.hi))):
        raise MethodError("the weights of the output overflow; no bound")
    middle = head.lo / 2 + head.hi / 2
    return middle, np.maximum(add_up(head.hi, -middle), add_up(middle, -head.lo))


def _layers(weights: tuple[Array, ...], head: Array, known: tuple[Interval, ...]) -> tuple[LayerSlopes, ...]:
    """A neuron has a variable when its slope is not known and it lies on a path from the input to the output."""
    forward: list[Mask] = [np.ones(weights[0].shape[1], dtype=bool)]
    for A, slope in zip(weights, known, strict=True):
        forward.append(((A != 0) @ forward[-1]) & _alive(slope))
    onward: list[Mask] = [head != 0]
    for A, slope in zip(reversed(weights), reversed(known), strict=True):
        onward.append((A != 0).T @ (onward[-1] & _alive(slope)))
    layers, start = [], weights[0].shape[1]
    for slope, fore, on in zip(known, forward[1:], onward[-2::-1], strict=True):
        width = np.where(slope.hi > slope.lo, add_up(slope.hi, -slope.lo), 0.0)
        free = (width > 0) & fore & on
        layers.append(LayerSlopes(slope.lo, width, np.where(free, start + np.cumsum(free) - 1, -1)))
        start += int(free.sum())
    return tuple(layers)


def _alive(slope: Interval) -> Mask:
    return np.asarray((slope.lo != 0) | (slope.hi != 0))


def _terms(weights: tuple[Array, ...], head: Array, layers: tuple[LayerSlopes, ...]) -> tuple[Index, Array]:
    """The chain rule from the output to the input, on terms (variables so far, neuron, coefficient)."""
    neuron = np.flatnonzero(head)
    rows = np.empty((len(neuron), 0), dtype=np.int64)
    values = head[neuron]
    for A, layer in zip(reversed(weights), reversed(layers), strict=True):
        rows, neuron, values = _through_slopes(rows, neuron, values, layer)
        rows, neuron, values = _through_weights(rows, neuron, values, sparse.csr_array(A))
    return np.sort(np.concatenate([neuron[:, None], rows], axis=1), axis=1), values


def _through_slopes(rows: Index, neuron: Index, values: Array, layer: LayerSlopes) -> tuple[Index, Index, Array]:
    """Each term becomes low * term + width * v * term."""
    free = layer.free[neuron]
    variable = np.concatenate([np.full(len(neuron), -1), layer.variable[neuron[free]]])
    rows = np.concatenate([variable[:, None], np.concatenate([rows, rows[free]])], axis=1)
    values = np.concatenate([values * layer.low[neuron], values[free] * layer.width[neuron[free]]])
    neuron = np.concatenate([neuron, neuron[free]])
    kept = values != 0
    return rows[kept], neuron[kept], values[kept]


def _through_weights(rows: Index, neuron: Index, values: Array, A: sparse.csr_array) -> tuple[Index, Index, Array]:
    """Each term of neuron k becomes one for every input j with A_kj != 0; like terms are added."""
    counts = np.diff(A.indptr)[neuron]
    total = int(counts.sum())
    if total > MAX_TERMS:
        raise MethodError(f"the gradient has {total:,} terms; the limit is {MAX_TERMS:,}")
    term = np.repeat(np.arange(len(neuron)), counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + A.indptr[neuron[term]]
    keyed = np.concatenate([rows[term], A.indices[place][:, None].astype(np.int64)], axis=1)
    unique, inverse = unique_rows(keyed.astype(np.int32))
    weighted = np.asarray(values[term] * A.data[place], dtype=np.float64)
    summed: Array = np.bincount(inverse, weights=weighted, minlength=len(unique)).astype(np.float64)
    return unique[:, :-1].astype(np.int64), unique[:, -1].astype(np.int64), summed


def _centred(indices: Index, coefficients: Array, p0: int) -> tuple[float, Index, Array]:
    """t = 2 s - 1: every term t_i m becomes 2 s_i m - m; like terms are added."""
    without = np.where((indices >= 0) & (indices < p0), -1, indices)
    without = np.sort(without, axis=1)
    rows = np.concatenate([indices, without])
    values = np.concatenate([2 * coefficients, -coefficients])
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), weights=values, minlength=len(unique))
    constant = unique.max(axis=1, initial=-1) < 0
    return float(total[constant].sum()), unique[~constant], total[~constant]


def _cliques(chain: Chain) -> tuple[Index, ...]:
    """{s_i} with the free neurons reachable from input i through non-zero weights and neurons that are not dead."""
    reached: Mask = np.eye(chain.inputs, dtype=bool)
    found = []
    for A, layer in zip(chain.weights, chain.layers, strict=True):
        reached = (reached @ (A.T != 0)) & ((layer.low != 0) | (layer.width != 0))
        found.append(reached[:, layer.free])
    variables = np.concatenate([layer.variable[layer.free] for layer in chain.layers])
    masks = np.concatenate(found, axis=1)
    return tuple(np.concatenate([[i], variables[mask]]) for i, mask in enumerate(masks))


def _error(weights: tuple[Array, ...], head: Array, head_error: Array, layers: tuple[LayerSlopes, ...]) -> float:
    """A bound on |t'g - polynomial| for |t| <= 1: the same sums over absolute values, times the rounding of each.

    It leaves room for low + width being rounded: for (leaky) ReLU, v may be read as the exact indicator of z > 0.
    """
    size = sum(max(A.shape) for A in weights) + 64
    g = 8 * gamma(size)
    with np.errstate(over="ignore", invalid="ignore"):
        exact, off = np.abs(head), head_error
        for A, layer in zip(reversed(weights), reversed(layers), strict=True):
            slope = grow(np.abs(layer.low) + layer.width, 2)
            exact = grow(np.abs(A).T @ (slope * exact), size) + TINY
            off = grow(np.abs(A).T @ (slope * off), size) + TINY
        total = sum_up(off + g * exact + size * size * TINY)
    if not np.isfinite(total):
        raise MethodError("the gradient overflows; no bound")
    return float(total * (1 + 2 * g))
