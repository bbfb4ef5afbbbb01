"""The gradient of a network with one or two hidden layers as a multilinear polynomial over a unit box.

    t'g = t' A_1' diag(u_1) [A_2' diag(u_2)] c      |t_i| <= 1,   u_k in [l_k, l_k + d_k]  (slopes)

With t = 2 s - 1 and u = l + d v, everything in (s, v) lies in [0, 1]. Neurons of known slope (d = 0) and neurons that
change no gradient leave the problem. Variables: s first, then the v of the first and of the second hidden layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import MethodError
from lipcert.network import Network
from lipcert.propagation import Interval, gradient_bounds, preactivation_bounds, slope_bounds
from lipcert.region import Region
from lipcert.rounding import TINY, Array, add_up, gamma, grow, sum_up

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


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

    @property
    def degree(self) -> int:
        return int(self.indices.shape[1])


@dataclass(frozen=True, eq=False)
class _Layer:
    """Slopes l + d v of one layer's neurons, and the variable of each (-1 where there is none)."""

    low: Array
    width: Array
    variable: Index


def gradient_polynomial(net: Network, region: Region, c: Array, pre: tuple[Interval, ...] | None = None) -> Multilinear:
    """The polynomial of LipOpt: slopes in their intervals under `pre` (as from `preactivation_bounds`)."""
    if net.depth not in (1, 2):
        raise MethodError(f"LipOpt is for one or two hidden layers; this network has {net.depth}")
    slopes = slope_bounds(net, preactivation_bounds(net, region) if pre is None else pre)
    weights = [_dense(a.weight) for a in net.affines[:-1]]
    head, head_error = _head(net, c)
    layers = _layers(weights, head, slopes)
    indices, coefficients = _terms(weights, head, layers)
    constant, indices, coefficients = _centred(indices, coefficients, weights[0].shape[1])
    n = weights[0].shape[1] + sum(int((layer.variable >= 0).sum()) for layer in layers)
    error = _error(weights, head, head_error, layers)
    return Multilinear(n, constant, indices, coefficients, error, _cliques(weights, layers))


def _dense(weight: object) -> Array:
    return weight if isinstance(weight, np.ndarray) else np.asarray(weight.toarray())  # type: ignore[attr-defined]


def _head(net: Network, c: Array) -> tuple[Array, Array]:
    """The output's weights on the last hidden layer, and a bound on their error."""
    head = gradient_bounds(Network(net.affines[-1:], ()), (), c)[0]
    if not (np.all(np.isfinite(head.lo)) and np.all(np.isfinite(head.hi))):
        raise MethodError("the weights of the output overflow; LipOpt has no bound")
    middle = head.lo / 2 + head.hi / 2
    return middle, np.maximum(add_up(head.hi, -middle), add_up(middle, -head.lo))


def _layers(weights: list[Array], head: Array, slopes: tuple[Interval, ...]) -> list[_Layer]:
    """A neuron has a variable when its slope is not known and it lies on a path from the input to the output."""
    forward: list[Mask] = [np.ones(weights[0].shape[1], dtype=bool)]
    for A, slope in zip(weights, slopes, strict=True):
        forward.append(((A != 0) @ forward[-1]) & (slope.hi > 0))
    onward: Mask = head != 0
    layers: list[_Layer] = []
    first = weights[0].shape[1] + sum(len(s.lo) for s in slopes)  # renumbered below
    for k in reversed(range(len(weights))):
        width = np.where(slopes[k].hi > slopes[k].lo, add_up(slopes[k].hi, -slopes[k].lo), 0.0)
        free = (width > 0) & forward[k + 1] & onward
        layers.insert(0, _Layer(slopes[k].lo, width, np.where(free, first, -1)))
        onward = (weights[k] != 0).T @ (onward & (slopes[k].hi > 0))
    start = weights[0].shape[1]
    numbered = []
    for layer in layers:
        free = layer.variable >= 0
        numbered.append(_Layer(layer.low, layer.width, np.where(free, start + np.cumsum(free) - 1, -1)))
        start += int(free.sum())
    return numbered


def _terms(weights: list[Array], head: Array, layers: list[_Layer]) -> tuple[Index, Array]:
    """All monomials t_i, t_i v_j, t_i w_k, t_i v_j w_k: indices padded on the left, and coefficients."""
    A1, first = weights[0], layers[0]
    p0 = A1.shape[1]
    t = np.arange(p0)
    if len(layers) == 1:
        parts = [
            _term((A1.T @ (first.low * head)), (t,)),
            _term(A1.T * (first.width * head), (t, first.variable)),
        ]
    else:
        A2, second = weights[1], layers[1]
        inner = A2.T @ (second.low * head)
        outer = A2.T * (second.width * head)  # (p1, p2)
        lead = A1.T * first.width  # (p0, p1)
        parts = [
            _term(A1.T @ (first.low * inner), (t,)),
            _term(lead * inner, (t, first.variable)),
            _term((A1.T * first.low) @ outer, (t, second.variable)),
            _term(lead[:, :, None] * outer[None, :, :], (t, first.variable, second.variable)),
        ]
    degree = len(layers) + 1
    padded = [np.pad(i, ((0, 0), (degree - i.shape[1], 0)), constant_values=-1) for i, _ in parts]
    return np.concatenate(padded), np.concatenate([v for _, v in parts])


def _term(coefficients: Array, axes: tuple[Index, ...]) -> tuple[Index, Array]:
    """The non-zero coefficients of an array whose axes are variables (-1: not a variable, coefficient dropped as 0)."""
    known = np.ones(coefficients.shape, dtype=bool)
    for k, axis in enumerate(axes):
        shape = [1] * coefficients.ndim
        shape[k] = -1
        known &= (axis >= 0).reshape(shape)
    where = np.nonzero((coefficients != 0) & known)
    return np.stack([axis[w] for axis, w in zip(axes, where, strict=True)], axis=1), coefficients[where]


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


def _cliques(weights: list[Array], layers: list[_Layer]) -> tuple[Index, ...]:
    """{s_i} with the free neurons reachable from input i through non-zero weights and neurons that are not dead."""
    reached = weights[0].T != 0
    found = [reached[:, layers[0].variable >= 0]]
    if len(layers) == 2:
        alive = layers[0].low + layers[0].width > 0
        further = (reached & alive) @ (weights[1].T != 0)
        found.append(further[:, layers[1].variable >= 0])
    variables = np.concatenate([layer.variable[layer.variable >= 0] for layer in layers])
    masks = np.concatenate(found, axis=1)
    return tuple(np.concatenate([[i], variables[mask]]) for i, mask in enumerate(masks))


def _error(weights: list[Array], head: Array, head_error: Array, layers: list[_Layer]) -> float:
    """A bound on |t'g - polynomial| for |t| <= 1: the same sums over absolute values, times the rounding of each."""
    size = sum(max(A.shape) for A in weights) + 64
    g = 8 * gamma(size)
    with np.errstate(over="ignore", invalid="ignore"):
        exact, off = np.abs(head), head_error
        for A, layer in zip(reversed(weights), reversed(layers), strict=True):
            slope = layer.low + layer.width
            exact = grow(np.abs(A).T @ (slope * exact), size) + TINY
            off = grow(np.abs(A).T @ (slope * off), size) + TINY
        total = sum_up(off + g * exact + size * size * TINY)
    if not np.isfinite(total):
        raise MethodError("the gradient overflows; LipOpt has no bound")
    return float(total * (1 + 2 * g))
