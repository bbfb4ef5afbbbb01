"""ONNX files: graphs of operators from one input to one output.

Weights may be in a file beside the model (external.py), and one of several outputs is chosen (outputs.py).

Input and output of the network are the tensors flattened in C order; dimensions left open in the file count as 1.
Operations on constants are computed while reading (constants.py); the table of operators is in operators.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator, how_to_install
from lipcert.files import MAX_WEIGHTS, contents
from lipcert.files.boundary import located, parsing, quoted
from lipcert.problem.network import Network
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.external import fetch_external
from lipcert.readers.onnx.nodes import MAX_NODES, OnnxNode, needed_nodes, nodes_of
from lipcert.readers.onnx.operation import FoldingWork, Operation, Value, tensor_array
from lipcert.readers.onnx.operators import compute
from lipcert.readers.onnx.outputs import FLOATS, batch_size, choose_output, refused_batch
from lipcert.readers.onnx.patterns import replace_patterns
from lipcert.readers.onnx.wire import check_fields


def read(path: Path, *, output: str | None = None, batch: bool = False) -> Network:
    """The network of an .onnx file, up to the output of this name; `batch` allows a fixed batch of several inputs.

    Needs the onnx package; nothing is run.
    """
    try:
        import onnx
    except ImportError:
        raise InputError(f"{path}: reading ONNX needs the onnx package; {how_to_install('onnx')}") from None
    with located(path):
        with parsing("the file"):
            data = contents(path)
            check_fields(data, onnx.ModelProto.DESCRIPTOR)
            model = onnx.ModelProto.FromString(data)
            del data  # frees as much memory as the weights have
        _check_size(model.graph)
        fetch_external(model.graph, path.parent)
        return _GraphReader(model.graph, nodes_of(model), output).network(batch)


class _GraphReader:
    """Reads a graph node by node: the values of tensors so far, by name, and the nodes that the output needs."""

    def __init__(self, graph: Any, nodes: list[OnnxNode], output: str | None = None) -> None:
        self._initializers = {t.name: t for t in graph.initializer}
        inputs = [v for v in graph.input if v.name not in self._initializers]
        if len(inputs) != 1:
            raise UnsupportedOperator(f"{len(inputs)} inputs; networks with one input are supported")
        self._output, chosen = choose_output(graph, output)
        self._nodes = needed_nodes(replace_patterns(nodes, self._initializers), self._output)
        self._used = {self._output, *(name for node in self._nodes for name in node.inputs)}
        shape, notes = _input_shape(inputs[0])
        self._graph = Graph(shape)
        self._graph.notes += [*chosen, *notes]
        self._input = (inputs[0].name, shape)
        self._values: dict[str, Value] = {inputs[0].name: self._graph.input}
        self._stored = 0
        self._work = FoldingWork()

    def network(self, batch: bool = False) -> Network:
        """Read all nodes, and return the network of the output; without `batch` several inputs at once are refused."""
        for node in self._nodes:
            self._step(node)
        output = self._values.get(self._output)
        if not isinstance(output, Tensor) or not output.terms:
            raise FileFormatError("the output does not depend on the input")
        network = self._graph.network(output)
        name, shape = self._input
        count = batch_size(shape, output.shape, network)
        if count == 1:
            return network
        if not batch:
            raise refused_batch(name, count)
        note = f"the input {quoted(name)} has a batch of {count}: the network is {count} copies side by side"
        return Network.from_blocks(network.blocks, (*network.notes, note))

    def _step(self, node: OnnxNode) -> None:
        needed = [bool(name) and name in self._used for name in node.outputs]
        operation = Operation.from_node(node, [self._value(name, node) for name in node.inputs], needed, self._work)
        for name in node.outputs:
            if name and (name in self._values or name in self._initializers):
                raise FileFormatError(f"tensor {quoted(name)} is computed twice")
        results = compute(operation, self._graph)
        for i, (name, is_needed) in enumerate(zip(node.outputs, needed, strict=True)):
            value = results[i] if i < len(results) else None
            if is_needed and value is None:
                raise operation.refused(f"its output {i + 1}, {quoted(name)}, is needed, and only its values are read")
            if is_needed:
                self._keep(name, value)

    def _value(self, name: str, node: OnnxNode) -> Value:
        if not name:
            return None
        if name not in self._values:
            if name not in self._initializers:
                raise FileFormatError(f"tensor {quoted(name)}, used by {quoted(node.kind)}, is not computed before")
            self._keep(name, tensor_array(self._initializers[name]))
        return self._values[name]

    def _keep(self, name: str, value: Value) -> None:
        if isinstance(value, np.ndarray):
            self._stored += value.size
            if self._stored > 2 * MAX_WEIGHTS:
                raise FileFormatError(f"the constants hold more than {2 * MAX_WEIGHTS:,} numbers")
        self._values[name] = value


def _check_size(graph: Any) -> None:
    """Refuse a graph without nodes or with too many of them, before any node is read."""
    if len(graph.node) > MAX_NODES:
        raise FileFormatError(f"{len(graph.node):,} nodes are more than the limit of {MAX_NODES:,}")
    if not len(graph.node):
        raise FileFormatError("no operators in it; not an ONNX network, or a damaged file")
    if graph.sparse_initializer:
        raise UnsupportedOperator("sparse initializers are not supported; export the network with dense ones")


def _input_shape(value: Any) -> tuple[tuple[int, ...], list[str]]:
    """The input's shape with open dimensions taken as 1, and a note if one is not the batch."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in FLOATS:
        raise UnsupportedOperator(f"input {quoted(value.name)} is not a tensor of floating point numbers")
    if not tensor.HasField("shape") or len(tensor.shape.dim) > 8:
        raise UnsupportedOperator(f"input {quoted(value.name)} has no usable shape; export it with a fixed shape")
    sizes = [int(d.dim_value) for d in tensor.shape.dim]
    opened = [i for i, n in enumerate(sizes) if n < 1]
    notes = [f"the open dimensions of the input {quoted(value.name)} are taken as 1"] if any(opened) else []
    return tuple(max(n, 1) for n in sizes), notes
