"""The table of ONNX operators, and how one of them is computed on tensors and constants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.files.boundary import quoted
from lipcert.readers.graph import Entry
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.constants import ALWAYS, FOLDED, fold
from lipcert.readers.onnx.elementwise import ELEMENTWISE
from lipcert.readers.onnx.learnt import LEARNT
from lipcert.readers.onnx.linear import LINEAR
from lipcert.readers.onnx.operation import Operation, Results, Value, cast_type
from lipcert.readers.onnx.refused import REFUSED, REFUSED_LEARNT
from lipcert.readers.onnx.shapes import REARRANGED, SHAPES
from lipcert.readers.onnx.windows import WINDOWS


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


def _dropout(op: Operation, graph: Graph) -> list[Value]:  # noqa: ARG001
    op.check(("ratio", "seed", "is_test"), 1, 3)
    training = op.optional(2, "training_mode")
    if (training is not None and np.any(training)) or (op.opset < 7 and not op.integer("is_test", 0)):
        raise op.refused("is in training mode; export the network for inference")
    x = op.value(0)
    return [x, np.ones(x.shape, dtype=bool)]


def _softmax(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis",), 1, 1)
    return graph.drop(op.tensor(), str(op))


OPERATORS: dict[str, Entry] = {
    **ELEMENTWISE,
    **LINEAR,
    **SHAPES,
    **WINDOWS,
    "Cast": Entry(_cast, words="to floating point types"),
    "CastLike": Entry(_cast, words="to floating point types"),
    "Dropout": Entry(_dropout, words="for inference, where it does nothing"),
    "LogSoftmax": Entry(_softmax, "left out", "at the end, with a note"),
    "Softmax": Entry(_softmax, "left out", "at the end, with a note"),
    **REFUSED,
}
DOMAINS: dict[str, dict[str, Entry]] = {"": OPERATORS, "ai.onnx.ml": LEARNT | REFUSED_LEARNT}


def compute(op: Operation, graph: Graph) -> list[Value]:
    """The outputs of one operation, None where one is not read. An error names the node."""
    with op.naming_node():
        if op.domain not in DOMAINS:
            raise op.refused(
                f"of the domain {quoted(op.domain)}; only standard ONNX operators are supported, "
                "so export the network as it was before a runtime rewrote it"
            )
        if op.kind in ALWAYS and not op.domain:
            return fold(op)
        return _results(op, graph) if op.is_live else _on_constants(op)


def _entry(op: Operation) -> Entry:
    entry = DOMAINS[op.domain].get(op.kind)
    if entry is None and op.kind in FOLDED:
        raise op.refused("applied to the network's tensor; it is only supported on constants")
    if entry is None:
        raise op.refused("is not supported; docs/operators.md lists what is")
    if entry.apply is None:
        raise op.refused(entry.words)
    return entry


def _results(op: Operation, graph: Graph) -> list[Value]:
    results: Results = _entry(op).apply(op, graph)  # type: ignore[misc]
    return list(results) if isinstance(results, (list, tuple)) else [results]  # type: ignore[list-item]


def _on_constants(op: Operation) -> list[Value]:
    """The outputs of an operation whose inputs are constants: by numpy, or as those of tensors that are constant."""
    if not op.domain and (op.kind in FOLDED or op.kind in REARRANGED):
        return fold(op)
    if _entry(op).how == "left out":
        raise op.refused("applied to constants, which is not supported")
    first = op.value(0)
    op.work.spend(sum(value.size for value in op.inputs if isinstance(value, np.ndarray)))
    alone = replace(op, inputs=[op.tensor(), *op.inputs[1:]]) if isinstance(first, np.ndarray) else op
    return [_array(value) for value in _results(alone, Graph((1,)))]


def _array(value: Value) -> NDArray[Any] | None:
    return value.bias.reshape(value.shape) if isinstance(value, Tensor) else None
