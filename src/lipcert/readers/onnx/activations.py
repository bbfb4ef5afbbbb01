"""ONNX activations: those of the network itself, and those that are written with others."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph import rewrites
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation
from lipcert.rounding import Array

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # the defaults of alpha and gamma

_PLAIN: dict[str, Any] = {
    "Erf": "erf",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
}


def _plain(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    return graph.activate(op.tensor(), Activation(_PLAIN[op.kind]))


def _leaky_relu(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha",), 1, 1)
    slope = op.number("alpha", 0.01)
    if not np.isfinite(slope):
        raise op.damaged(f"its alpha is {slope}")
    return rewrites.leaky(graph, op.tensor(), np.array(slope))


def _prelu(op: Operation, graph: Graph) -> Tensor:
    op.check((), 2, 2)
    x, slope = op.tensor(), op.operand(1, "slope")
    if isinstance(slope, Tensor):
        raise op.refused("its slope depends on the input; a constant is needed")
    if op.opset < 7 and slope.ndim == 1 and slope.size > 1:  # one for each channel
        slope = slope.reshape(-1, *(1,) * (len(x.shape) - 2))
    y = rewrites.leaky(graph, x, slope)
    if y.shape != x.shape:
        raise op.damaged(f"slopes of shape {slope.shape} do not fit a tensor of shape {x.shape}")
    return y


def _elu(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha",), 1, 1)
    return graph.activate(op.tensor(), Activation("elu", op.number("alpha", 1.0)))


def _selu(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha", "gamma"), 1, 1)
    alpha, gamma = op.number("alpha", _SELU[0]), op.number("gamma", _SELU[1])
    return graph.scale_and_shift(graph.activate(op.tensor(), Activation("elu", alpha)), gamma, 0.0)


def _celu(op: Operation, graph: Graph) -> Tensor:
    """alpha (exp(x / alpha) - 1) below zero: alpha elu(x / alpha)."""
    op.check(("alpha",), 1, 1)
    alpha = op.number("alpha", 1.0)
    if not 1e-6 <= alpha <= 1e6:
        raise op.refused(f"its alpha is {alpha}; from 1e-6 to 1e6 is supported")
    inner = graph.scale_and_shift(op.tensor(), 1.0 / alpha, 0.0)
    return graph.scale_and_shift(graph.activate(inner, Activation("elu", 1.0)), alpha, 0.0)


def _gelu(op: Operation, graph: Graph) -> Tensor:
    op.check(("approximate",), 1, 1)
    match op.text("approximate", "none"):
        case "none":
            return graph.activate(op.tensor(), Activation("gelu"))
        case "tanh":
            return graph.activate(op.tensor(), Activation("gelu_tanh"))
    raise op.damaged("its approximate is unknown")


def _swish(op: Operation, graph: Graph) -> Tensor:
    """x sigmoid(alpha x) = silu(alpha x) / alpha."""
    op.check(("alpha",), 1, 1)
    alpha = op.number("alpha", 1.0)
    if not 1e-6 <= abs(alpha) <= 1e6:
        raise op.refused(f"its alpha is {alpha}; from 1e-6 to 1e6 is supported")
    inner = graph.scale_and_shift(op.tensor(), alpha, 0.0)
    return graph.scale_and_shift(graph.activate(inner, Activation("silu")), 1.0 / alpha, 0.0)


def _hard_sigmoid(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha", "beta"), 1, 1)
    alpha, beta = op.number("alpha", 0.2), op.number("beta", 0.5)
    if not (abs(alpha) <= 1e6 and abs(beta) <= 1e6):  # beyond, 1 is lost beside beta
        raise op.refused(f"its alpha is {alpha}, its beta {beta}; up to 1e6 is supported")
    line = graph.scale_and_shift(op.tensor(), alpha, beta)
    return rewrites.clip(graph, line, 0.0, 1.0)


def _clip(op: Operation, graph: Graph) -> Tensor:
    op.check(("min", "max") if op.opset < 11 else (), 1, 1 if op.opset < 11 else 3)
    return rewrites.clip(graph, op.tensor(), _end(op, "min", 1, -np.inf), _end(op, "max", 2, np.inf))


def _end(op: Operation, name: str, i: int, default: float) -> float:
    """An end of Clip: an attribute before opset 11, an input since; the largest numbers of a type are none."""
    value: Array | float | None = op.optional(i, name)
    if value is None:
        value = op.number(name, default)
    if np.size(value) != 1:
        raise op.damaged(f"its {name} must be one number")
    end = float(np.reshape(value, -1)[0])
    return default if abs(end) >= np.finfo(np.float32).max else end


def _abs(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    return rewrites.absolute(graph, op.tensor())


def _thresholded(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha",), 1, 1)
    if op.number("alpha", 1.0) != 0.0:
        raise op.refused("its value jumps at alpha, which is not 0: no slope bounds it")
    return graph.activate(op.tensor(), RELU)


def _shrink(op: Operation, graph: Graph) -> Tensor:
    """x - clip(x, -lambd, lambd), where bias = lambd."""
    op.check(("bias", "lambd"), 1, 1)
    bias, threshold = op.number("bias", 0.0), op.number("lambd", 0.5)
    if bias != threshold or threshold < 0:
        raise op.refused("its value jumps where its bias is not its lambd: no slope bounds it")
    x = op.tensor()
    above, below = (rewrites.larger_than(graph, graph.scale_and_shift(x, s, -threshold), np.zeros(())) for s in (1, -1))
    return graph.subtract(above, below)


_WRITTEN = "written with ELU, scaled"
ACTIVATIONS: dict[str, Entry] = {
    **{kind: Entry(_plain) for kind in _PLAIN},
    "Abs": Entry(_abs, "rewritten", "2 relu(x) - x"),
    "Celu": Entry(_celu, "rewritten", _WRITTEN),
    "Clip": Entry(_clip, "rewritten", "two ReLUs; constant ends"),
    "Elu": Entry(_elu),
    "Gelu": Entry(_gelu, words="exact, or approximated by tanh"),
    "HardSigmoid": Entry(_hard_sigmoid, "rewritten", "two ReLUs"),
    "LeakyRelu": Entry(_leaky_relu),
    "PRelu": Entry(_prelu, words="constant slopes; several of them, or negative ones, by ReLUs"),
    "Selu": Entry(_selu, "rewritten", _WRITTEN),
    "Shrink": Entry(_shrink, "rewritten", "two ReLUs; bias = lambd only, else it jumps"),
    "Swish": Entry(_swish, words="SiLU, scaled"),
    "ThresholdedRelu": Entry(_thresholded, words="alpha = 0 only, else it jumps"),
}
