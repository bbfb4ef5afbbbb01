"""The table of ONNX operators, and how one of them is computed on tensors and constants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.files.boundary import quoted
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.activations import ACTIVATIONS
from lipcert.readers.onnx.affine import AFFINE
from lipcert.readers.onnx.choices import CHOICES
from lipcert.readers.onnx.constants import ALWAYS, FOLDED, fold
from lipcert.readers.onnx.learnt import LEARNT
from lipcert.readers.onnx.operation import Entry, Operation, Results, Value
from lipcert.readers.onnx.passing import PASSING
from lipcert.readers.onnx.refused import REFUSED, REFUSED_LEARNT
from lipcert.readers.onnx.resize import RESIZED
from lipcert.readers.onnx.shapes import REARRANGED, rearrange
from lipcert.readers.onnx.sums import SUMS
from lipcert.readers.onnx.windows import WINDOWS

_MOVES = Entry(rearrange)
_BY_INDEX = Entry(rearrange, words="constant indices")
_INDEXED = ("Gather", "GatherElements", "GatherND", "Slice", "Split")

OPERATORS: dict[str, Entry] = {
    **{kind: _BY_INDEX if kind in _INDEXED else _MOVES for kind in REARRANGED if kind not in LEARNT},
    **AFFINE,
    **SUMS,
    **WINDOWS,
    **ACTIVATIONS,
    **CHOICES,
    **PASSING,
    **RESIZED,
}
DOMAINS: dict[str, tuple[dict[str, Entry], dict[str, str]]] = {
    "": (OPERATORS, REFUSED),
    "ai.onnx.ml": (LEARNT, REFUSED_LEARNT),
}


def compute(op: Operation, graph: Graph) -> list[Value]:
    """The outputs of one operation, None where one is not read. Whatever does not fit is told with the node's name."""
    with op.told():
        if op.domain not in DOMAINS:
            raise op.refused(
                f"of the domain {quoted(op.domain)}; only standard ONNX operators are supported, "
                "so export the network as it was before a runtime rewrote it"
            )
        if op.kind in ALWAYS and not op.domain:
            return fold(op)
        return _listed(_entry(op).apply(op, graph)) if op.is_live else _on_constants(op)


def _entry(op: Operation) -> Entry:
    read, refused = DOMAINS[op.domain]
    if op.kind in read:
        return read[op.kind]
    if op.kind in refused:
        raise op.refused(refused[op.kind])
    if op.kind in FOLDED:
        raise op.refused("applied to the network's tensor; it is only supported on constants")
    raise op.refused("is not supported; docs/operators.md lists what is")


def _on_constants(op: Operation) -> list[Value]:
    """The outputs of an operation whose inputs are constants: by numpy, or as those of tensors that are constant."""
    if not op.domain and (op.kind in FOLDED or op.kind in REARRANGED):
        return fold(op)
    entry = _entry(op)
    if entry.how == "left out":
        raise op.refused("applied to constants, which is not supported")
    first = op.value(0)
    op.work.spend(sum(value.size for value in op.inputs if isinstance(value, np.ndarray)))
    alone = replace(op, inputs=[op.tensor(), *op.inputs[1:]]) if isinstance(first, np.ndarray) else op
    return [_array(value) for value in _listed(entry.apply(alone, Graph((1,))))]


def _array(value: Value) -> NDArray[Any] | None:
    return value.bias.reshape(value.shape) if isinstance(value, Tensor) else None


def _listed(results: Results) -> list[Value]:
    return list(results) if isinstance(results, (list, tuple)) else [results]  # type: ignore[list-item]
