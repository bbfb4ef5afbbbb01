"""Activations with parameters: an activation of the network where there is one, else exact sums of ReLUs and ELUs.

Every function takes the graph, a tensor, and plain numbers or arrays; the readers' tables name them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph import rewrites
from lipcert.readers.graph.rewrites import clip
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array

# Softplus may be replaced by the identity above a threshold of at least this: the two differ by less than 3e-9 there.
_SOFTPLUS_THRESHOLD = 20.0
# The scales by which an activation may be stretched; beyond, single precision has lost one of the summands.
_LEAST_SCALE, _MOST_SCALE = 1e-6, 1e6


def plain(kind: str) -> Callable[[Graph, Tensor], Tensor]:
    """The function that applies an activation without parameters."""

    def apply(graph: Graph, x: Tensor) -> Tensor:
        return graph.activate(x, Activation(kind))

    return apply


def leaky_relu(graph: Graph, x: Tensor, slope: float) -> Tensor:
    """x above zero, slope x below."""
    if not math.isfinite(slope):
        raise InputError(f"its slope (alpha) is {slope}")
    return rewrites.leaky(graph, x, np.array(slope))


def prelu(graph: Graph, x: Tensor, slopes: Array, per_channel: bool) -> Tensor:
    """Leaky ReLU with several slopes: one for each channel (axis 1), or of a shape that broadcasts to the tensor's."""
    if per_channel and slopes.size > 1:
        if len(x.shape) < 2 or x.shape[1] != slopes.size:
            raise InputError(f"{slopes.size} slopes do not fit a tensor of shape {x.shape}")
        slopes = slopes.reshape(-1, *(1,) * (len(x.shape) - 2))
    y = rewrites.leaky(graph, x, slopes)
    if y.shape != x.shape:
        raise InputError(f"slopes of shape {slopes.shape} do not fit a tensor of shape {x.shape}")
    return y


def elu(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    """x above zero, alpha (exp(x) - 1) below."""
    return graph.activate(x, Activation("elu", alpha))


def selu(graph: Graph, x: Tensor, alpha: float, scale: float) -> Tensor:
    """scale elu(x)."""
    return graph.scale_and_shift(elu(graph, x, alpha), scale, 0.0)


def celu(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    """alpha elu(x / alpha)."""
    if not _LEAST_SCALE <= alpha <= _MOST_SCALE:
        raise UnsupportedOperator(f"its alpha is {alpha}; from {_LEAST_SCALE:g} to {_MOST_SCALE:g} is supported")
    return graph.scale_and_shift(elu(graph, graph.scale_and_shift(x, 1.0 / alpha, 0.0), 1.0), alpha, 0.0)


def gelu(graph: Graph, x: Tensor, approximate: str) -> Tensor:
    """x Phi(x) with the normal distribution itself ("none") or its approximation by "tanh"."""
    if approximate not in ("none", "tanh"):
        raise UnsupportedOperator(f"its approximate is {quoted(str(approximate))}; 'none' and 'tanh' are known")
    return graph.activate(x, Activation("gelu" if approximate == "none" else "gelu_tanh"))


def swish(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    """x sigmoid(alpha x) = silu(alpha x) / alpha."""
    if not _LEAST_SCALE <= abs(alpha) <= _MOST_SCALE:
        raise UnsupportedOperator(f"its alpha is {alpha}; from {_LEAST_SCALE:g} to {_MOST_SCALE:g} is supported")
    inner = graph.activate(graph.scale_and_shift(x, alpha, 0.0), Activation("silu"))
    return graph.scale_and_shift(inner, 1.0 / alpha, 0.0)


def softplus(graph: Graph, x: Tensor, beta: float, threshold: float) -> Tensor:
    """log(1 + exp(beta x)) / beta. Above the threshold some libraries return x itself, which is neglected here."""
    if not beta > 0.0:
        raise UnsupportedOperator(f"beta={beta} is not supported; it must be positive")
    if not threshold >= _SOFTPLUS_THRESHOLD:
        raise UnsupportedOperator(f"jumps at its threshold; one of at least {_SOFTPLUS_THRESHOLD:g} is supported")
    inner = graph.activate(graph.scale_and_shift(x, beta, 0.0), Activation("softplus"))
    return graph.scale_and_shift(inner, 1.0 / beta, 0.0)


def log_sigmoid(graph: Graph, x: Tensor) -> Tensor:
    """log(1 / (1 + exp(-x))) = -softplus(-x)."""
    minus = graph.activate(graph.scale_and_shift(x, -1.0, 0.0), Activation("softplus"))
    return graph.scale_and_shift(minus, -1.0, 0.0)


def hard_sigmoid(graph: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha x + beta, clipped to [0, 1]."""
    if not (abs(alpha) <= _MOST_SCALE and abs(beta) <= _MOST_SCALE):
        raise UnsupportedOperator(f"its alpha is {alpha}, its beta {beta}; up to {_MOST_SCALE:g} is supported")
    return clip(graph, graph.scale_and_shift(x, alpha, beta), 0.0, 1.0)


def relu6_sigmoid(graph: Graph, x: Tensor) -> Tensor:
    """relu6(x + 3) / 6, the hard sigmoid of PyTorch in the order in which PyTorch rounds it."""
    return graph.scale_and_shift(clip(graph, graph.scale_and_shift(x, 1.0, 3.0), 0.0, 6.0), 1.0 / 6.0, 0.0)


def threshold(graph: Graph, x: Tensor, least: float, value: float) -> Tensor:
    """x above `least`, `value` below: read where both are equal, so that nothing jumps."""
    if value != least:
        raise UnsupportedOperator(f"jumps at its threshold {least:g}; only a value equal to it is continuous")
    return rewrites.larger_than(graph, x, np.array(least))


def softshrink(graph: Graph, x: Tensor, dead: float) -> Tensor:
    """x - clip(x, -dead, dead) = relu(x - dead) - relu(-x - dead)."""
    if not dead >= 0.0:
        raise InputError(f"lambd={dead} must not be negative")
    above = graph.activate(graph.scale_and_shift(x, 1.0, -dead), RELU)
    return graph.subtract(above, graph.activate(graph.scale_and_shift(x, -1.0, -dead), RELU))


def tanhshrink(graph: Graph, x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return graph.subtract(x, graph.activate(x, Activation("tanh")))


def clamp(graph: Graph, x: Tensor, least: Array | None, most: Array | None) -> Tensor:
    """The tensor between constants that broadcast to it; None is no end."""
    if (least is None or least.size == 1) and (most is None or most.size == 1):
        low = -math.inf if least is None else float(least.reshape(-1)[0])
        return clip(graph, x, low, math.inf if most is None else float(most.reshape(-1)[0]))
    if least is not None:
        x = rewrites.larger_than(graph, x, least)
    return x if most is None else rewrites.smaller_than(graph, x, most)
