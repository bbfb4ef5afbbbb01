"""Which output of an ONNX graph is the network's, and what its input says about batches.

Exporters of classifiers write the label beside the scores, and scikit-learn's write the scores as dictionaries, made by
a ZipMap node of a tensor; that tensor is what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.problem.maps import times
from lipcert.problem.network import Network

FLOATS = (1, 10, 11)  # TensorProto: float, float16, double
_MAX_NAMES = 12


def choose_output(graph: Any, wanted: str | None = None) -> tuple[str, list[str]]:
    """The name of the tensor that is the network's output, and notes where it was one of several.

    wanted: the name of an output. Without it the only output that is a tensor of floating point numbers is taken; where
        there is none, the tensor that a ZipMap node makes its output of.

    Raises UnsupportedOperator where that leaves none or several, FileFormatError for a name that is not there.
    """
    outputs = list({value.name: value for value in graph.output}.values())
    if not outputs:
        raise FileFormatError("no outputs in it; the file is damaged")
    floats = [value.name for value in outputs if _may_be_floats(value)]
    zipped = _zipped(graph, [value.name for value in outputs if value.name not in floats])
    names = [value.name for value in outputs]
    if wanted is not None:
        return _wanted(wanted, names, floats, zipped)
    if len(floats) > 1:
        raise UnsupportedOperator(
            f"{len(floats)} outputs of floating point numbers, {_listed(floats)}; choose one with --onnx-output NAME "
            "(in Python onnx_output='NAME')"
        )
    found = floats or list(zipped)
    if len(found) != 1:
        raise UnsupportedOperator(f"no output is a tensor of floating point numbers; there are {_listed(names)}")
    return _taken(found[0], names, zipped)


def _wanted(wanted: str, names: Sequence[str], floats: Sequence[str], zipped: dict[str, str]) -> tuple[str, list[str]]:
    if wanted not in names:
        raise FileFormatError(f"no output {quoted(wanted)}; there are {_listed(names)}")
    if wanted not in floats and wanted not in zipped:
        raise UnsupportedOperator(f"output {quoted(wanted)} is not a tensor of floating point numbers")
    return _taken(wanted, names, zipped)


def _taken(name: str, names: Sequence[str], zipped: dict[str, str]) -> tuple[str, list[str]]:
    notes = []
    if len(names) > 1:
        others = [other for other in names if other != name]
        notes.append(f"of the {len(names)} outputs {quoted(name)} is read; left out: {_listed(others)}")
    if name in zipped:
        notes.append(f"the dictionaries of the output {quoted(name)} are read as the tensor they are made of")
    return zipped.get(name, name), notes


def batch_size(shape: Sequence[int], output: Sequence[int], network: Network) -> int:
    """The number of inputs in a batch: the length of the first axis where the output has as many rows, and each of them
    depends on the same row of the input alone; 1 elsewhere.
    """
    count = shape[0] if len(shape) > 1 else 1
    if count < 2 or not output or output[0] != count:
        return 1
    rows = np.eye(count)
    # For every neuron, the rows of the input that reach it.
    reached = [np.repeat(rows, network.inputs // count, axis=1)]
    for block in network.blocks:
        total = sum(times(abs(weight), reached[source]) for source, weight in block.terms)
        reached.append(np.asarray(total > 0, dtype=np.float64))
    alone = np.repeat(rows, network.outputs // count, axis=1)
    return count if np.all(reached[-1] <= alone) else 1


def refused_batch(name: str, count: int) -> InputError:
    """The error for a batch: a bound of output K would be about the first copy, one of the whole map about all."""
    found = f"the input {quoted(name)} has a batch of {count}: export with batch size 1, or give"
    rest = "to read the copies side by side as one network"
    return InputError(f"{found} onnx_batch=True {rest}", f"{found} --onnx-batch {rest}")


def _may_be_floats(value: Any) -> bool:
    """Whether an output is a tensor of floating point numbers, as far as the file says what it is."""
    kind = value.type.WhichOneof("value")
    return kind is None or (kind == "tensor_type" and value.type.tensor_type.elem_type in (0, *FLOATS))


def _zipped(graph: Any, names: Sequence[str]) -> dict[str, str]:
    """The outputs among these that a ZipMap node makes, each with the name of the input of its node."""
    found = {}
    for node in graph.node:
        if node.op_type == "ZipMap" and node.domain == "ai.onnx.ml" and len(node.input) == len(node.output) == 1:
            found[node.output[0]] = node.input[0]
    return {name: found[name] for name in names if name in found}


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(quoted(name) for name in names[:_MAX_NAMES]) + more
