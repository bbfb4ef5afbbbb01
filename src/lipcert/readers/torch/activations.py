"""The activations of torch, as functions with torch's own parameters: an activation of ours, or a rewrite to ReLUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph import rewrites
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import Entry, flag, number, real, refused, tensor

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_THRESHOLD = 20.0  # above which softplus and the identity differ by less than 3e-9

Function = Callable[..., Tensor]


def relu(graph: Graph, input: Any) -> Tensor:
    return graph.activate(tensor(input), RELU)


def leaky_relu(graph: Graph, input: Any, negative_slope: Any = 0.01) -> Tensor:
    return rewrites.leaky(graph, tensor(input), np.array(number(negative_slope, "slope")))


def prelu(graph: Graph, input: Any, weight: Any) -> Tensor:
    x, slope = tensor(input), real(weight, "weight").reshape(-1)
    if slope.size > 1:
        if len(x.shape) < 2 or x.shape[1] != slope.size:
            raise InputError(f"{slope.size} slopes do not fit a tensor of shape {x.shape}")
        slope = slope.reshape((-1,) + (1,) * (len(x.shape) - 2))
    return rewrites.leaky(graph, x, slope)


def rrelu(graph: Graph, input: Any, lower: Any = 1.0 / 8, upper: Any = 1.0 / 3, training: Any = False) -> Tensor:
    if flag(training, "training"):
        raise UnsupportedOperator("draws random slopes; only evaluation (training=False) is supported")
    return leaky_relu(graph, input, (number(lower, "lower") + number(upper, "upper")) / 2)


def elu(graph: Graph, input: Any, alpha: Any = 1.0) -> Tensor:
    return graph.activate(tensor(input), Activation("elu", number(alpha, "alpha")))


def selu(graph: Graph, input: Any) -> Tensor:
    return graph.scale_and_shift(elu(graph, input, _SELU_ALPHA), _SELU_SCALE, 0.0)


def celu(graph: Graph, input: Any, alpha: Any = 1.0) -> Tensor:
    a = number(alpha, "alpha")
    if not a > 0.0:
        raise InputError(f"alpha={a} must be positive")
    return graph.scale_and_shift(elu(graph, graph.scale_and_shift(tensor(input), 1.0 / a, 0.0)), a, 0.0)


def gelu(graph: Graph, input: Any, approximate: Any = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        raise UnsupportedOperator(f"approximate={approximate!r} is not supported")
    return graph.activate(tensor(input), Activation("gelu" if approximate == "none" else "gelu_tanh"))


def softplus(graph: Graph, input: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Tensor:
    b = number(beta, "beta")
    if not b > 0.0:
        raise UnsupportedOperator(f"beta={b} is not supported; it must be positive")
    # Above its threshold torch returns x itself, which differs by less than exp(-threshold) / beta.
    if not number(threshold, "threshold") >= _THRESHOLD:
        raise UnsupportedOperator(f"jumps at its threshold; one of at least {_THRESHOLD:g} is supported")
    inner = graph.activate(graph.scale_and_shift(tensor(input), b, 0.0), Activation("softplus"))
    return graph.scale_and_shift(inner, 1.0 / b, 0.0)


def log_sigmoid(graph: Graph, input: Any) -> Tensor:
    minus = graph.activate(graph.scale_and_shift(tensor(input), -1.0, 0.0), Activation("softplus"))
    return graph.scale_and_shift(minus, -1.0, 0.0)


def hardtanh(graph: Graph, input: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    return rewrites.clip(graph, tensor(input), number(min_val, "min_val"), number(max_val, "max_val"))


def relu6(graph: Graph, input: Any) -> Tensor:
    return rewrites.clip(graph, tensor(input), 0.0, 6.0)


def hardsigmoid(graph: Graph, input: Any) -> Tensor:
    shifted = graph.scale_and_shift(tensor(input), 1.0, 3.0)
    return graph.scale_and_shift(rewrites.clip(graph, shifted, 0.0, 6.0), 1.0 / 6.0, 0.0)


def threshold(graph: Graph, input: Any, threshold: Any, value: Any) -> Tensor:
    least = number(threshold, "threshold")
    if number(value, "value") != least:
        raise UnsupportedOperator(f"jumps at its threshold {least:g}; only a value equal to it is continuous")
    return rewrites.larger_than(graph, tensor(input), np.array(least))


def softshrink(graph: Graph, input: Any, lambd: Any = 0.5) -> Tensor:
    x, dead = tensor(input), number(lambd, "lambd")
    if not dead >= 0.0:
        raise InputError(f"lambd={dead} must not be negative")
    above = graph.activate(graph.scale_and_shift(x, 1.0, -dead), RELU)
    return graph.subtract(above, graph.activate(graph.scale_and_shift(x, -1.0, -dead), RELU))


def tanhshrink(graph: Graph, input: Any) -> Tensor:
    x = tensor(input)
    return graph.subtract(x, graph.activate(x, Activation("tanh")))


def absolute(graph: Graph, input: Any) -> Tensor:
    return rewrites.absolute(graph, tensor(input))


def clamp(graph: Graph, input: Any, min: Any = None, max: Any = None) -> Tensor:
    x = tensor(input)
    least = np.array(-math.inf) if min is None else real(min, "min")
    most = np.array(math.inf) if max is None else real(max, "max")
    if least.size == 1 and most.size == 1:
        return rewrites.clip(graph, x, float(least.reshape(-1)[0]), float(most.reshape(-1)[0]))
    if min is not None:
        x = rewrites.larger_than(graph, x, least)
    return x if max is None else rewrites.smaller_than(graph, x, most)


def _plain(kind: str) -> Function:
    def apply(graph: Graph, input: Any) -> Tensor:
        return graph.activate(tensor(input), Activation(kind))

    return apply


def _read(apply: Function, words: str = "activation") -> Entry:
    return Entry(apply, "read", words)


def _rewritten(apply: Function, words: str) -> Entry:
    return Entry(apply, "rewritten", words)


ACTIVATIONS: dict[str, Entry] = {
    "relu": _read(relu),
    "leaky_relu": _read(leaky_relu, "activation; negative slopes by ReLU"),
    "prelu": _rewritten(prelu, "leaky ReLU, or slope x + (1 - slope) relu(x)"),
    "rrelu": _rewritten(rrelu, "leaky ReLU with the mean slope, as in evaluation"),
    "elu": _read(elu),
    "selu": _rewritten(selu, "a multiple of ELU"),
    "celu": _rewritten(celu, "alpha elu(x / alpha)"),
    "gelu": _read(gelu, "activation, both forms"),
    "silu": _read(_plain("silu")),
    "mish": _read(_plain("mish")),
    "hardswish": _read(_plain("hardswish")),
    "softplus": _rewritten(softplus, "softplus(beta x) / beta, threshold at least 20"),
    "sigmoid": _read(_plain("sigmoid")),
    "special_expit": _read(_plain("sigmoid")),
    "tanh": _read(_plain("tanh")),
    "erf": _read(_plain("erf")),
    "special_erf": _read(_plain("erf")),
    "softsign": _read(_plain("softsign")),
    "logsigmoid": _rewritten(log_sigmoid, "-softplus(-x)"),
    "log_sigmoid": _rewritten(log_sigmoid, "-softplus(-x)"),
    "hardtanh": _rewritten(hardtanh, "two ReLUs"),
    "relu6": _rewritten(relu6, "two ReLUs"),
    "hardsigmoid": _rewritten(hardsigmoid, "two ReLUs"),
    "threshold": _rewritten(threshold, "ReLU, where value and threshold are equal"),
    "_threshold": _rewritten(threshold, "ReLU, where value and threshold are equal"),
    "softshrink": _rewritten(softshrink, "two ReLUs"),
    "tanhshrink": _rewritten(tanhshrink, "x - tanh(x)"),
    "abs": _rewritten(absolute, "2 relu(x) - x"),
    "absolute": _rewritten(absolute, "2 relu(x) - x"),
    "clamp": _rewritten(clamp, "two ReLUs"),
    "clip": _rewritten(clamp, "two ReLUs"),
    "hardshrink": refused("jumps at its threshold, so that no Lipschitz constant exists"),
    "glu": refused("multiplies two tensors that both depend on the input"),
}
