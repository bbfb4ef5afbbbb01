"""ONNX operators that choose: maxima and minima, sorting, comparisons, and what is left out at the end."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.readers import layers, rewrites
from lipcert.readers.choices import Condition, choose, compare
from lipcert.readers.onnx_operation import TENSOR_TYPES, Entry, Operation, Value, real
from lipcert.readers.onnx_sums import aligned
from lipcert.readers.tensors import Graph, Tensor

_RELATIONS = {"Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<="}


def _extreme(op: Operation, graph: Graph) -> Tensor:
    """Max and Min of any number of tensors and constants; the constants are compared first."""
    op.check((), 1, 1000)
    values = [op.operand(i) for i in range(len(op.inputs))]
    tensors = [v for v in values if isinstance(v, Tensor)]
    constants = [v for v in values if not isinstance(v, Tensor)]
    pick, bound = (rewrites.larger, np.maximum) if op.kind == "Max" else (rewrites.smaller, np.minimum)
    best = tensors[0]
    for other in tensors[1:]:
        best = pick(graph, best, other)
    if not constants:
        return best
    op.limited(int(np.prod(np.broadcast_shapes(*(c.shape for c in constants)))))
    end = reduce(bound, constants)
    return (rewrites.larger_than if op.kind == "Max" else rewrites.smaller_than)(graph, best, end)


def _reduce(op: Operation, graph: Graph) -> Tensor:
    """ReduceMax, ReduceMin and ReduceL1."""
    x = op.tensor()
    axes, keep = op.reduced_axes(len(x.shape), 18), bool(op.integer("keepdims", 1))
    if op.kind == "ReduceL1":
        x = rewrites.absolute(graph, x)
        return layers.summed(graph, x, axes, keep) if axes else x
    if not axes:
        return x
    return (rewrites.largest if op.kind == "ReduceMax" else rewrites.smallest)(graph, x, axes, keep)


def _top_k(op: Operation, graph: Graph) -> Tensor:
    """The first k in order. Where they need not be sorted, they are nevertheless."""
    op.check(("axis", "k", "largest", "sorted"), 1, 1 if op.opset < 10 else 2)
    x = op.tensor()
    axis, counts = op.axis(len(x.shape), -1), (op.integer("k", 0),) if op.opset < 10 else op.list_of_integers("K", 1)
    count = counts[0] if counts and len(counts) == 1 else 0
    if not 1 <= count <= x.shape[axis]:
        raise op.damaged(f"takes {count} of {x.shape[axis]} entries")
    most = bool(op.integer("largest", 1))
    if count == 1:
        return (rewrites.largest if most else rewrites.smallest)(graph, x, (axis,), keep=True)
    ordered = rewrites.sort(graph, x, axis, descending=most)
    return graph.pick(ordered, np.take(ordered.places, np.arange(count), axis=axis))


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
    raise op.refused("combines comparisons of tensors; only one at a time is supported")


def _where(op: Operation, graph: Graph) -> Tensor:
    op.check((), 3, 3)
    condition = op.value(0, "condition")
    if isinstance(condition, Tensor):
        raise op.damaged("its condition is no truth value")
    return choose(graph, condition, op.operand(1, "first choice"), op.operand(2, "second choice"))


def _cast(op: Operation, graph: Graph) -> Value:  # noqa: ARG001
    """Cast and CastLike: precision is not tracked; a comparison counts as 1 or 0."""
    if op.kind == "Cast":
        kind = np.dtype(cast_type(op)).kind
    else:
        op.check(("saturate", "round_mode"), 2, 2)
        like = op.value(1, "target")
        kind = like.dtype.kind if isinstance(like, np.ndarray) else "b" if isinstance(like, Condition) else "f"
    value = op.value(0)
    if isinstance(value, Tensor) and kind != "f":
        raise op.refused("casts the network's tensor to integers or truth values; floating point types only")
    return value


def cast_type(op: Operation) -> Any:
    """The numpy type that a Cast gives."""
    op.check(("to", "saturate", "round_mode"), 1, 1)
    code: object = op.attributes.get("to")
    if op.opset < 6 and isinstance(code, bytes):  # a name, such as FLOAT
        code = {"FLOAT": 1, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11}.get(code.decode("latin-1"))
    if code not in TENSOR_TYPES:
        raise op.refused("casts to float16, float32, float64 and integers only")
    return TENSOR_TYPES[code]  # type: ignore[index]


def _dropout(op: Operation, graph: Graph) -> list[Value]:  # noqa: ARG001
    op.check(("ratio", "seed", "is_test"), 1, 3)
    training = op.optional(2, "training_mode")
    if (training is not None and np.any(training)) or (op.opset < 7 and not op.integer("is_test", 0)):
        raise op.refused("is in training mode; export the network for inference")
    x = op.value(0)
    return [x, np.ones(x.shape, dtype=bool)]


def _concat(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis",), 1, 10_000)
    parts = [op.operand(i) for i in range(len(op.inputs))]
    if len({len(p.shape) for p in parts}) > 1:
        raise op.damaged("its inputs do not fit together")
    return graph.concatenate(parts, op.axis(len(parts[0].shape), 1))


def _softmax(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis",), 1, 1)
    return graph.drop(op.tensor(), str(op))


def _trilu(op: Operation, graph: Graph) -> Tensor:
    op.check(("upper",), 1, 2)
    x = op.tensor()
    return graph.pick(x, np.where(triangle(op, x.shape), x.places, -1))


def triangle(op: Operation, shape: tuple[int, ...]) -> NDArray[Any]:
    """Which entries of the matrices a Trilu keeps."""
    k = op.optional(1, "k")
    shift = 0 if k is None else int(real(k).reshape(-1)[0])
    row, column = np.arange(shape[-2])[:, None], np.arange(shape[-1])
    return column - row >= shift if op.integer("upper", 1) else column - row <= shift


_PAIRS, _JUMP = "max(a, b) = a + relu(b - a)", "inside Where, Mul and Not, where no value jumps"
CHOICES: dict[str, Entry] = {
    "And": Entry(_logic, words="of a comparison with a constant that changes nothing"),
    "Cast": Entry(_cast, words="to floating point types"),
    "CastLike": Entry(_cast, words="to floating point types"),
    "Concat": Entry(_concat),
    "Dropout": Entry(_dropout, words="for inference, where it does nothing"),
    "LogSoftmax": Entry(_softmax, "left out", "at the end, with a note"),
    "Max": Entry(_extreme, "rewritten", _PAIRS),
    "Min": Entry(_extreme, "rewritten", "min(a, b) = b - relu(b - a)"),
    "Not": Entry(_not, words="of a comparison"),
    "Or": Entry(_logic, words="of a comparison with a constant that changes nothing"),
    "ReduceL1": Entry(_reduce, "rewritten", "a sum of absolute values"),
    "ReduceMax": Entry(_reduce, "rewritten", "maxima of pairs, by ReLUs"),
    "ReduceMin": Entry(_reduce, "rewritten", "minima of pairs, by ReLUs"),
    "Softmax": Entry(_softmax, "left out", "at the end, with a note"),
    "TopK": Entry(
        _top_k, "rewritten", "a network of comparisons, by ReLUs; its second output, the indices, is refused"
    ),
    "Trilu": Entry(_trilu),
    "Where": Entry(_where, "rewritten", "by a ReLU where both choices meet; softplus with a threshold; else it jumps"),
    **{kind: Entry(_compare, words=_JUMP) for kind in _RELATIONS},
}
