"""ONNX arithmetic, entry by entry: sums and differences, products and quotients, as every opset broadcasts them."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph.choices import Condition, as_tensor
from lipcert.readers.graph.products import logarithm, product, quotient
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, real
from lipcert.rounding import Array

Operand = Tensor | Array


def _add(op: Operation, graph: Graph) -> Operand | Condition:
    """Add and Sub."""
    op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
    if op.kind == "Sub" and isinstance(op.inputs[1], Condition) and _is_one(op.inputs[0]):
        return op.inputs[1].inverted()
    a, b = aligned(op)
    if op.kind == "Sub":
        b = graph.scale_and_shift(b, -1.0, 0.0) if isinstance(b, Tensor) else -b
    return _sum(graph, a, b)


def _mul(op: Operation, graph: Graph) -> Operand | Condition:
    op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
    values = op.value(0), op.value(1)
    for mask, other in (values, values[::-1]):
        if isinstance(mask, Condition):
            if _is_one(other) and not isinstance(other, Tensor):
                return mask
            return product(graph, mask, other if isinstance(other, Condition) else _tensor(op, other))
    a, b = aligned(op)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return product(graph, a, b)
    if isinstance(b, Tensor):
        a, b = b, a
    return graph.scale_and_shift(as_tensor(a), np.asarray(b), 0.0)


def _div(op: Operation, graph: Graph) -> Operand:
    op.check(("broadcast", "axis") if op.opset < 7 else ("broadcast",), 2, 2)
    a, b = aligned(op)
    if isinstance(b, Tensor):
        if not isinstance(a, Tensor):
            raise op.refused("divides by the network's tensor, which is not affine")
        return quotient(graph, a, b)
    if not np.all(b):
        raise op.damaged("divides by zero")
    return graph.scale_and_shift(as_tensor(a), 1.0 / b, 0.0)


def _sums(op: Operation, graph: Graph) -> Operand:
    """Sum and Mean of any number of inputs."""
    op.check((), 1, 1000)
    total = op.operand(0)
    for i in range(1, len(op.inputs)):
        total = _sum(graph, total, op.operand(i))
    return graph.scale_and_shift(as_tensor(total), 1.0 / len(op.inputs), 0.0) if op.kind == "Mean" else total


def _neg(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    return graph.scale_and_shift(op.tensor(), -1.0, 0.0)


def _pow(op: Operation, graph: Graph) -> Tensor:
    op.check(("broadcast", "axis") if op.opset < 7 else (), 2, 2)
    exponent = op.operand(1, "exponent")
    if isinstance(exponent, Tensor) or not np.all(exponent == 1.0):
        raise op.refused(
            "only the first power of a tensor is read; the slope of others has no bound, nor has that of a "
            "normalisation that is written with them"
        )
    return graph.scale_and_shift(op.tensor(), np.ones(exponent.shape), 0.0)


def _log(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    x = op.tensor()
    if x.dropped:
        graph.notes.append(f"{op} behind it is left out too")
        return x
    return logarithm(graph, x)


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


def _sum(graph: Graph, a: Operand, b: Operand) -> Operand:
    if isinstance(a, Tensor):
        return graph.add(a, b) if isinstance(b, Tensor) else graph.scale_and_shift(a, 1.0, b)
    return graph.scale_and_shift(b, 1.0, a) if isinstance(b, Tensor) else np.asarray(a + b)


def _tensor(op: Operation, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise op.refused("multiplies a comparison with a constant that is not 1: the value jumps")
    return value


def _is_one(value: object) -> bool:
    return isinstance(value, np.ndarray) and bool(np.all(real(value) == 1.0))


SUMS: dict[str, Entry] = {
    "Add": Entry(_add),
    "Div": Entry(_div, words="by a constant; x / (1 + |x|) is softsign"),
    "Log": Entry(_log, words="of a sigmoid, which is minus a softplus; behind a softmax that is left out"),
    "Mean": Entry(_sums),
    "Mul": Entry(_mul, words="by a constant; activations written out, as x sigmoid(x); by a comparison without a jump"),
    "Neg": Entry(_neg),
    "Pow": Entry(_pow, words="exponent 1 only"),
    "Sub": Entry(_add),
    "Sum": Entry(_sums),
}
