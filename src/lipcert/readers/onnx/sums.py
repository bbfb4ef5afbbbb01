"""ONNX arithmetic, entry by entry: sums and differences, products and quotients, as every opset broadcasts them."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph import arithmetic
from lipcert.readers.graph.arithmetic import Operand
from lipcert.readers.graph.choices import Condition, as_tensor
from lipcert.readers.graph.products import logarithm
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, call, real


def _add(op: Operation, graph: Graph) -> Operand:
    return arithmetic.add(graph, *_operands(op))


def _sub(op: Operation, graph: Graph) -> Operand | Condition:
    return arithmetic.subtract(graph, *_values(op))


def _mul(op: Operation, graph: Graph) -> Tensor | Condition:
    return arithmetic.multiply(graph, *_values(op))


def _div(op: Operation, graph: Graph) -> Tensor:
    return arithmetic.divide(graph, *_operands(op))


def _sums(op: Operation, graph: Graph) -> Operand:
    """Sum and Mean of any number of inputs."""
    op.check((), 1, 1000)
    total = op.operand(0)
    for i in range(1, len(op.inputs)):
        total = arithmetic.add(graph, total, op.operand(i))
    return graph.scale_and_shift(as_tensor(total), 1.0 / len(op.inputs), 0.0) if op.kind == "Mean" else total


def _pow(op: Operation, graph: Graph) -> Tensor:
    op.check(("broadcast", "axis") if op.opset < 7 else (), 2, 2)
    return arithmetic.power(graph, op.tensor(), op.operand(1, "exponent"))


def _log(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    x = op.tensor()
    if x.dropped:
        graph.notes.append(f"{op} behind it is left out too")
        return x
    return logarithm(graph, x)


def _operands(op: Operation) -> tuple[Operand, Operand]:
    op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
    return aligned(op)


def _values(op: Operation) -> tuple[Operand | Condition, Operand | Condition]:
    """Both operands, of which one may be a comparison."""
    values = op.value(0, "first operand"), op.value(1, "second operand")
    if not any(isinstance(value, Condition) for value in values):
        return _operands(op)
    op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
    first, second = (real(value) if isinstance(value, np.ndarray) else value for value in values)
    return first, second


def aligned(op: Operation) -> tuple[Operand, Operand]:
    """Both operands; before opset 7 the second begins at an axis of the first that the node names."""
    a, b = op.operand(0, "first operand"), op.operand(1, "second operand")
    if op.opset >= 7 or "axis" not in op.attributes:
        return a, b
    behind = len(a.shape) - op.axis(len(a.shape), 0) - len(b.shape)
    if behind < 0:
        raise op.damaged(f"shapes {a.shape} and {b.shape} do not broadcast from axis {op.attributes['axis']} on")
    shape = (*b.shape, *(1,) * behind)
    return a, b.reshaped(shape) if isinstance(b, Tensor) else b.reshape(shape)


SUMS: dict[str, Entry] = {
    "Add": Entry(_add),
    "Div": Entry(_div, words="by a constant; x / (1 + |x|) is softsign"),
    "Log": Entry(_log, words="of a sigmoid, which is minus a softplus; behind a softmax that is left out"),
    "Mean": Entry(_sums),
    "Mul": Entry(_mul, words="by a constant; activations written out, as x sigmoid(x); by a comparison without a jump"),
    "Neg": Entry(call(arithmetic.negate)),
    "Pow": Entry(_pow, words="exponent 1 only"),
    "Sub": Entry(_sub),
    "Sum": Entry(_sums),
}
