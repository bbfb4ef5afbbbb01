"""ONNX operators that choose: maxima and minima, sorting, comparisons."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph import arithmetic, layers, rewrites
from lipcert.readers.graph.choices import Condition, choose, compare
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation
from lipcert.readers.onnx.sums import aligned

_RELATIONS = {"Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<="}


def _extreme(op: Operation, graph: Graph) -> Tensor:
    """Max and Min of any number of tensors and constants."""
    op.check((), 1, 1000)
    values = {id(value): op.operand(i) for i, value in enumerate(op.inputs)}  # each once, however often it is named
    return arithmetic.extreme(graph, list(values.values()), op.kind == "Max")


def _reduce(op: Operation, graph: Graph) -> Tensor:
    """ReduceMax, ReduceMin and ReduceL1."""
    x = op.tensor()
    axes, keep = op.reduced_axes(len(x.shape), 18), bool(op.integer("keepdims", 1))
    if op.kind == "ReduceL1":
        x = rewrites.absolute(graph, x)
        return layers.summed(graph, x, axes, keep) if axes else x
    return arithmetic.extreme_along(graph, x, axes, keep, op.kind == "ReduceMax") if axes else x


def _top_k(op: Operation, graph: Graph) -> Tensor:
    """The first k in order. Where they need not be sorted, they are nevertheless."""
    op.check(("axis", "k", "largest", "sorted"), 1, 1 if op.opset < 10 else 2)
    x = op.tensor()
    counts = (op.integer("k", 0),) if op.opset < 10 else op.list_of_integers("K", 1)
    count = counts[0] if counts and len(counts) == 1 else 0
    return arithmetic.first_sorted(graph, x, op.axis(len(x.shape), -1), count, bool(op.integer("largest", 1)))


def _compare(op: Operation, graph: Graph) -> Condition:
    op.check(("broadcast", "axis") if op.opset < 7 else (), 2, 2)
    return compare(graph, *aligned(op), _RELATIONS[op.kind])


def _not(op: Operation, graph: Graph) -> Condition:  # noqa: ARG001 - every operator has the same signature
    op.check((), 1, 1)
    value = op.value(0)
    if not isinstance(value, Condition):
        raise op.damaged("its input is no comparison")
    return value.inverted()


def _logic(op: Operation, graph: Graph) -> Condition:  # noqa: ARG001
    """And and Or of a comparison with a constant that changes nothing."""
    op.check(("broadcast", "axis") if op.opset < 7 else (), 2, 2)
    values = op.value(0), op.value(1)
    for one, other in (values, values[::-1]):
        neutral = isinstance(other, np.ndarray) and np.all(other == (op.kind == "And"))
        if isinstance(one, Condition) and neutral and np.broadcast_shapes(one.shape, other.shape) == one.shape:
            return one
    raise op.refused("combines comparisons of tensors; one at a time is supported, where no value jumps")


def _where(op: Operation, graph: Graph) -> Tensor:
    op.check((), 3, 3)
    condition = op.value(0, "condition")
    if isinstance(condition, Tensor):
        raise op.damaged("its condition is no truth value")
    return choose(graph, condition, op.operand(1, "first choice"), op.operand(2, "second choice"))


_PAIRS, _JUMP = "max(a, b) = a + relu(b - a)", "inside Where, Mul and Not, where no value jumps"
CHOICES: dict[str, Entry] = {
    "And": Entry(_logic, words="of a comparison with a constant that changes nothing"),
    "Max": Entry(_extreme, "rewritten", _PAIRS),
    "Min": Entry(_extreme, "rewritten", "min(a, b) = b - relu(b - a)"),
    "Not": Entry(_not, words="of a comparison"),
    "Or": Entry(_logic, words="of a comparison with a constant that changes nothing"),
    "ReduceL1": Entry(_reduce, "rewritten", "a sum of absolute values"),
    "ReduceMax": Entry(_reduce, "rewritten", "maxima of pairs, by ReLUs"),
    "ReduceMin": Entry(_reduce, "rewritten", "minima of pairs, by ReLUs"),
    "TopK": Entry(
        _top_k, "rewritten", "a network of comparisons, by ReLUs; its second output, the indices, is refused"
    ),
    "Where": Entry(_where, "rewritten", "by a ReLU where both choices meet; softplus with a threshold; else it jumps"),
    **{kind: Entry(_compare, words=_JUMP) for kind in _RELATIONS},
}
