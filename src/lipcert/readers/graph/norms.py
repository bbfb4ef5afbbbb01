"""Norms along axes, and normalisations by them: Euclidean norms, layer, group, instance and RMS normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import products, rewrites
from lipcert.readers.graph.linear import summed
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array


def norm(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool, p: float = 2.0) -> Tensor:
    """The p-norm along axes."""
    if p == math.inf:
        return rewrites.largest(graph, rewrites.absolute(graph, x), axes, keep)
    if p == 1.0:
        return summed(graph, rewrites.absolute(graph, x), axes, keep)
    if not p > 1.0:
        raise UnsupportedOperator(f"takes a norm of order {p:g}; 1 or more is supported")
    size = x if p % 2 == 0 else rewrites.absolute(graph, x)
    return products.power(graph, summed(graph, products.power(graph, size, p), axes, keep), 1.0 / p)


def normalized(
    graph: Graph, x: Tensor, axes: Sequence[int], epsilon: float, *, centred: bool = True, mean: bool = True
) -> Tensor:
    """(x - its mean) / sqrt(mean of the squares of that + epsilon) along axes; on request without the means."""
    if not axes or epsilon < 0:
        raise InputError(f"normalises along the axes {list(axes)} with epsilon {epsilon}")
    if centred:
        x = graph.subtract(x, graph.expand(summed(graph, x, axes, True, mean=True), x.shape))
    x = x if graph.is_light(x) else graph.settled(x)
    scale = summed(graph, products.square(graph, x), axes, True, mean=mean)
    inverse = products.power(graph, graph.scale_and_shift(scale, 1.0, epsilon), -0.5)
    return products.multiply(graph, x, graph.expand(inverse, x.shape))


def affine(graph: Graph, x: Tensor, scale: Array | None, shift: Array | None) -> Tensor:
    """scale x + shift where they are given, in a shape that broadcasts to the tensor's."""
    y = graph.scale_and_shift(x, 1.0 if scale is None else scale, 0.0 if shift is None else shift)
    if y.shape != x.shape:
        raise InputError(f"a scale or shift does not fit a tensor of shape {x.shape}")
    return y


def layer_norm(
    graph: Graph, x: Tensor, axes: Sequence[int], weights: tuple[Array | None, Array | None], epsilon: float
) -> Tensor:
    """Layer normalisation along the last axes, then scale and shift."""
    return affine(graph, normalized(graph, x, axes, epsilon), *weights)


def rms_norm(graph: Graph, x: Tensor, axes: Sequence[int], scale: Array | None, epsilon: float) -> Tensor:
    """x / sqrt(mean of x^2 + epsilon) along the last axes, then a scale."""
    return affine(graph, normalized(graph, x, axes, epsilon, centred=False), scale, None)


def group_norm(
    graph: Graph, x: Tensor, groups: int, weights: tuple[Array | None, Array | None], epsilon: float
) -> Tensor:
    """Normalisation of groups of channels (axis 1), then scale and shift by channel."""
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise InputError(f"{groups} groups do not fit a tensor of shape {x.shape}")
    grouped = x.reshaped((x.shape[0], groups, x.width // (x.shape[0] * groups)))
    y = normalized(graph, grouped, (2,), epsilon).reshaped(x.shape)
    behind = (1,) * (len(x.shape) - 2)
    return affine(graph, y, *(None if w is None else np.asarray(w).reshape(-1, *behind) for w in weights))


def divided_by_norm(graph: Graph, x: Tensor, axes: Sequence[int], p: float) -> Tensor:
    """x / |x| along axes."""
    if p == 2.0:
        return normalized(graph, x, axes, 0.0, centred=False, mean=False)
    inverse = products.reciprocal(graph, norm(graph, x, axes, True, p))
    return products.multiply(graph, x, graph.expand(inverse, x.shape))


def log_sum_exp(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """log sum exp(x) along axes."""
    return graph.activate(summed(graph, graph.activate(x, products.EXP), axes, keep), products.LOG)
