"""ONNX files: graphs that are one chain of operators, from one input to one output.

Weights may be in a file beside the model (onnx_external.py), and one of several outputs is chosen (onnx_outputs.py).

The input is the tensor flattened in C order, the output likewise; dimensions left open in the file count as 1. What
depends on constants only is computed while reading; the operators are in onnx_operators.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator
from lipcert.files import MAX_WEIGHTS
from lipcert.files.boundary import located, parsing, quoted
from lipcert.problem.network import Network
from lipcert.readers.chain import Chain
from lipcert.readers.onnx_constants import FOLDED, fold
from lipcert.readers.onnx_external import fetch_external
from lipcert.readers.onnx_operation import Live, Operation, tensor_array
from lipcert.readers.onnx_operators import OPERATORS, apply
from lipcert.readers.onnx_outputs import FLOATS, batch_notes, choose_output
from lipcert.readers.onnx_wire import check_fields

MAX_NODES = 100_000


def read(path: Path, *, output: str | None = None) -> Network:
    """The network of an .onnx file, up to the output of this name. Needs the onnx package; nothing is run."""
    try:
        import onnx
    except ImportError:
        raise InputError(f"{path}: reading ONNX needs the onnx package; pip install 'lipcert[onnx]'") from None
    with located(path):
        with parsing("the file"):
            data = path.read_bytes()
            check_fields(data, onnx.ModelProto.DESCRIPTOR)
            graph = onnx.ModelProto.FromString(data).graph
            del data  # as large as the weights
        fetch_external(graph, path.parent)
        return _Graph(graph, output).network()


class _Graph:
    """A graph as names: constants, the shapes of tensors that depend on the input, and the nodes that matter."""

    def __init__(self, graph: Any, output: str | None = None) -> None:
        if len(graph.node) > MAX_NODES:
            raise FileFormatError(f"{len(graph.node):,} nodes are more than the limit of {MAX_NODES:,}")
        if not len(graph.node):
            raise FileFormatError("no operators in it; not an ONNX network, or a damaged file")
        if graph.sparse_initializer:
            raise UnsupportedOperator("sparse initializers are not supported; export the network with dense ones")
        self._initializers = {t.name: t for t in graph.initializer}
        inputs = [v for v in graph.input if v.name not in self._initializers]
        if len(inputs) != 1:
            raise UnsupportedOperator(f"{len(inputs)} inputs; networks with one input are supported")
        self._tip = inputs[0].name
        self._output, chosen = choose_output(graph, output)
        self._nodes = _needed(graph.node, self._output)
        shape, notes = _input_shape(inputs[0])
        self._chain = Chain(shape)
        self._chain.notes += [*chosen, *notes]
        self._input = (self._tip, shape)
        self._shapes = {self._tip: self._chain.shape}
        self._constants: dict[str, NDArray[Any]] = {}
        self._stored = 0

    def network(self) -> Network:
        for node in self._nodes:
            self._step(node)
        if self._tip != self._output:
            raise FileFormatError("the output does not depend on the input")
        self._chain.notes += batch_notes(*self._input, self._chain.shape)
        return self._chain.network()

    def _step(self, node: Any) -> None:
        operation = Operation.of(node, [self._value(name, node) for name in node.input])
        if operation.kind not in OPERATORS and operation.kind not in FOLDED:
            raise operation.unknown(sorted({*OPERATORS, *FOLDED}))
        output = node.output[0]
        if output in self._shapes or output in self._constants or output in self._initializers:
            raise FileFormatError(f"tensor {quoted(output)} is computed twice")
        live = [v for v in operation.inputs if isinstance(v, Live)]
        if operation.kind == "Shape" or not live:
            self._keep(output, fold(operation))
            return
        if len(live) > 1 or live[0].name != self._tip:
            raise operation.refused("joins or starts a branch; only chains of operators are supported")
        apply(operation, self._chain)
        self._tip = output
        self._shapes[output] = self._chain.shape

    def _value(self, name: str, node: Any) -> NDArray[Any] | Live | None:
        if not name:
            return None
        if name in self._shapes:
            return Live(name, self._shapes[name])
        if name not in self._constants:
            if name not in self._initializers:
                raise FileFormatError(f"tensor {quoted(name)}, used by {quoted(node.op_type)}, is not computed before")
            self._keep(name, tensor_array(self._initializers[name]))
        return self._constants[name]

    def _keep(self, name: str, array: NDArray[Any]) -> None:
        self._stored += array.size
        if self._stored > 2 * MAX_WEIGHTS:
            raise FileFormatError(f"the constants hold more than {2 * MAX_WEIGHTS:,} numbers")
        self._constants[name] = array


def _needed(nodes: Iterable[Any], output: str) -> list[Any]:
    """The nodes that the output depends on, in the file's order."""
    listed = list(nodes)
    makers = {name: i for i, node in enumerate(listed) for name in node.output if name}
    wanted: set[int] = set()
    stack = [output]
    while stack:
        i = makers.get(stack.pop(), -1)
        if i >= 0 and i not in wanted:
            wanted.add(i)
            stack += listed[i].input
    kept = [listed[i] for i in sorted(wanted)]
    if any(not node.output or not node.output[0] for node in kept):
        raise FileFormatError("a node has no output; the file is damaged")
    return kept


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
