"""ONNX operators that pass tensors on: joined, cast, with parts of them alone; and the softmax that is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.readers.graph.choices import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import TENSOR_TYPES, Entry, Operation, Value, real


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
    return TENSOR_TYPES[code]


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


PASSING: dict[str, Entry] = {
    "Cast": Entry(_cast, words="to floating point types"),
    "CastLike": Entry(_cast, words="to floating point types"),
    "Concat": Entry(_concat),
    "Dropout": Entry(_dropout, words="for inference, where it does nothing"),
    "LogSoftmax": Entry(_softmax, "left out", "at the end, with a note"),
    "Softmax": Entry(_softmax, "left out", "at the end, with a note"),
    "Trilu": Entry(_trilu),
}
