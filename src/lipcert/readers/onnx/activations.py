"""ONNX activations: those of the network itself, and those that are written with others."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph import activations, rewrites
from lipcert.readers.graph.activations import plain
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, call, real
from lipcert.rounding import Array

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # the defaults of alpha and gamma


def _prelu(op: Operation, graph: Graph) -> Tensor:
    op.check((), 2, 2)
    slopes = real(op.constant(1, "slope"))
    return activations.prelu(graph, op.tensor(), slopes, per_channel=op.opset < 7 and slopes.ndim == 1)


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


def _thresholded(graph: Graph, x: Tensor, alpha: float) -> Tensor:
    return activations.threshold(graph, x, alpha, 0.0)


def _shrink(op: Operation, graph: Graph) -> Tensor:
    op.check(("bias", "lambd"), 1, 1)
    bias, dead = op.number("bias", 0.0), op.number("lambd", 0.5)
    if bias != dead or dead < 0:
        raise op.refused("its value jumps where its bias is not its lambd: no slope bounds it")
    return activations.softshrink(graph, op.tensor(), dead)


_PLAIN = {
    "Erf": "erf", "HardSwish": "hardswish", "Mish": "mish", "Relu": "relu", "Sigmoid": "sigmoid",
    "Softplus": "softplus", "Softsign": "softsign", "Tanh": "tanh",
}  # fmt: skip
_WRITTEN = "written with ELU, scaled"
ACTIVATIONS: dict[str, Entry] = {
    **{kind: Entry(call(plain(ours))) for kind, ours in _PLAIN.items()},
    "Abs": Entry(call(rewrites.absolute), "rewritten", "2 relu(x) - x"),
    "Celu": Entry(call(activations.celu, alpha=1.0), "rewritten", _WRITTEN),
    "Clip": Entry(_clip, "rewritten", "two ReLUs; constant ends"),
    "Elu": Entry(call(activations.elu, alpha=1.0)),
    "Gelu": Entry(call(activations.gelu, approximate="none"), words="exact, or approximated by tanh"),
    "HardSigmoid": Entry(call(activations.hard_sigmoid, alpha=0.2, beta=0.5), "rewritten", "two ReLUs"),
    "LeakyRelu": Entry(call(activations.leaky_relu, alpha=0.01)),
    "PRelu": Entry(_prelu, words="constant slopes; several of them, or negative ones, by ReLUs"),
    "Selu": Entry(call(activations.selu, alpha=_SELU[0], gamma=_SELU[1]), "rewritten", _WRITTEN),
    "Shrink": Entry(_shrink, "rewritten", "two ReLUs; bias = lambd only, else it jumps"),
    "Swish": Entry(call(activations.swish, alpha=1.0), words="SiLU, scaled"),
    "ThresholdedRelu": Entry(call(_thresholded, alpha=1.0), words="alpha = 0 only, else it jumps"),
}
