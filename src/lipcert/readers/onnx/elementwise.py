"""ONNX operators that work entry by entry: arithmetic, activations, comparisons, maxima and minima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lipcert.problem.activations import Activation
from lipcert.readers.graph import Entry, activations, arithmetic, products, rewrites
from lipcert.readers.graph.activations import plain
from lipcert.readers.graph.arithmetic import Value as Operand
from lipcert.readers.graph.recognised import choose, logarithm
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Apply, Operation, Value, call, real
from lipcert.rounding import Array

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # the defaults of alpha and gamma


def _pair(function: Callable[..., Value]) -> Apply:
    """An operator by an operation on two values, as every opset broadcasts them."""

    def apply(op: Operation, graph: Graph) -> Value:
        op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
        return function(graph, *_aligned(op))

    return apply


def _aligned(op: Operation) -> tuple[Operand, Operand]:
    """Both operands; before opset 7 the second begins at an axis of the first that the node names."""
    a, b = op.comparable(0, "first operand"), op.comparable(1, "second operand")
    if op.opset >= 7 or "axis" not in op.attributes:
        return a, b
    b = op.operand(1, "second operand")
    behind = len(a.shape) - op.axis(len(a.shape), 0) - len(b.shape)
    if behind < 0:
        raise op.damaged(f"shapes {a.shape} and {b.shape} do not broadcast from axis {op.attributes['axis']} on")
    shape = (*b.shape, *(1,) * behind)
    return a, b.reshaped(shape) if isinstance(b, Tensor) else b.reshape(shape)


def _several(function: Callable[..., Value]) -> Apply:
    """An operator by an operation on any number of tensors and constants."""

    def apply(op: Operation, graph: Graph) -> Value:
        op.check((), 1, 1000)
        return function(graph, [op.operand(i) for i in range(len(op.inputs))])

    return apply


def _extreme(op: Operation, graph: Graph) -> Tensor:
    """Max and Min of any number of tensors and constants."""
    op.check((), 1, 1000)
    values = {id(value): op.operand(i) for i, value in enumerate(op.inputs)}  # each once, however often it is named
    return arithmetic.extreme(graph, list(values.values()), op.kind == "Max")


def _log(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    x = op.tensor()
    if not x.dropped:
        return logarithm(graph, x)
    note = f"{op} behind it is left out too"
    graph.notes.append(note)

    def behind() -> Tensor:
        graph.notes.remove(note)
        return logarithm(graph, x)

    return replace(x, behind=behind)


def _tangent(graph: Graph, x: Tensor) -> Tensor:
    sine, cosine = (graph.activate(x, Activation(kind)) for kind in ("sin", "cos"))
    return products.multiply(graph, sine, products.reciprocal(graph, cosine))


def _logic(op: Operation, graph: Graph) -> Value:
    op.check(("broadcast", "axis") if op.opset < 7 else (), 2, 2)
    return arithmetic.combine(graph, op.value(0), op.value(1), neutral=op.kind == "And")


def _where(op: Operation, graph: Graph) -> Tensor:
    op.check((), 3, 3)
    condition = op.value(0, "condition")
    if isinstance(condition, Tensor):
        raise op.damaged("its condition is no truth value")
    return choose(graph, condition, op.operand(1, "first choice"), op.operand(2, "second choice"))


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
    "Softplus": "softplus", "Softsign": "softsign", "Tanh": "tanh", "Atan": "atan", "Cos": "cos", "Cosh": "cosh",
    "Exp": "exp", "Sin": "sin", "Sinh": "sinh",
}  # fmt: skip
_LOGARITHM, _ANGLE = "a logarithm of x and a root", "the arcus tangent of x / sqrt(1 - x^2)"
_INVERSE = {
    "acosh": _LOGARITHM,
    "asinh": _LOGARITHM,
    "atanh": "logarithms of 1 + x and 1 - x",
    "acos": _ANGLE,
    "asin": _ANGLE,
}
_RELATIONS = {"Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<="}
_PAIRS, _JUMP = "max(a, b) = a + relu(b - a)", "inside Where, Mul and Not, where no value jumps"
_NEUTRAL, _WRITTEN = "of a comparison with a constant that changes nothing", "written with ELU, scaled"
ELEMENTWISE: dict[str, Entry] = {
    # arithmetic
    "Add": Entry(_pair(arithmetic.add)),
    "Div": Entry(_pair(arithmetic.divide), words="a product with the reciprocal; x / (1 + |x|) is softsign"),
    "Log": Entry(_log, words="that of a sigmoid is minus a softplus"),
    "Mean": Entry(_several(partial(arithmetic.total, mean=True))),
    "Mul": Entry(
        _pair(arithmetic.multiply),
        words="of tensors by squares, but for activations written out; by a comparison without a jump",
    ),
    "Neg": Entry(call(arithmetic.negate)),
    "Pow": Entry(_pair(arithmetic.power), words="one exponent for all entries, or exp(y log x)"),
    "Reciprocal": Entry(call(products.reciprocal)),
    "Sqrt": Entry(call(products.power, exponent=0.5)),
    **{
        kind.capitalize(): Entry(call(partial(products.inverse_function, kind=kind)), "rewritten", words)
        for kind, words in _INVERSE.items()
    },
    "Tan": Entry(call(_tangent), "rewritten", "sin x times the reciprocal of cos x"),
    "Sub": Entry(_pair(arithmetic.subtract)),
    "Sum": Entry(_several(arithmetic.total)),
    # comparisons and choices
    **{
        kind: Entry(_pair(partial(arithmetic.compare, relation=sign)), words=_JUMP) for kind, sign in _RELATIONS.items()
    },
    "And": Entry(_logic, words=_NEUTRAL),
    "Max": Entry(_extreme, "rewritten", _PAIRS),
    "Min": Entry(_extreme, "rewritten", "min(a, b) = b - relu(b - a)"),
    "Not": Entry(call(arithmetic.invert, Operation.comparable), words="of a comparison"),
    "Or": Entry(_logic, words=_NEUTRAL),
    "Where": Entry(_where, "rewritten", "by a ReLU where both choices meet; softplus with a threshold; else it jumps"),
    # activations
    **{kind: Entry(call(plain(name))) for kind, name in _PLAIN.items()},
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
