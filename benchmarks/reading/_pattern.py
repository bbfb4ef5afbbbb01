"""One hand-written ONNX graph: its nodes as text, its constants, and what is expected of the reader."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Dimension = int | str


@dataclass(frozen=True)
class Pattern:
    """A graph from X to Y. `nodes` are lines such as `H = Clip <min=-1.0> (X)`; capital letters name the constants.

    shape: the shape of X that is fed, with its batch of 1; `dims` is what the file says instead, where it differs.
    outputs: the graph's outputs with their types; the first is compared unless `output` names another.
    given: the value of `onnx_output=` that the reader gets.
    refused: words, one of which a refusal must hold; empty where the graph must be read.
    runs: the nodes that onnxruntime computes instead, where it refuses what some exporters write.
    """

    name: str
    opset: int
    shape: tuple[int, ...]
    nodes: str
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    dims: tuple[Dimension, ...] | None = None
    outputs: tuple[tuple[str, int], ...] = (("Y", TensorProto.FLOAT),)
    output: str = "Y"
    given: str | None = None
    final: str = ""
    refused: tuple[str, ...] = ()
    runs: str = ""
    kind: int = TensorProto.FLOAT
    scale: float = 1.0
    edit: Callable[[Any], None] | None = None

    def model(self, *, as_run: bool = False) -> Any:
        """The model as the file has it, or as onnxruntime computes it."""
        nodes = self.runs if as_run and self.runs else self.nodes
        dims = self.shape if as_run or self.dims is None else self.dims
        graph = helper.make_graph(
            [onnx.parser.parse_node(line.strip()) for line in nodes.strip().splitlines()],
            "pattern",
            [helper.make_tensor_value_info("X", self.kind, dims)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in self.outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        for i, node in enumerate(graph.node):
            node.name = node.name or f"{node.op_type}_{i}"
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=_age(self.opset)
        )
        _tell_shapes(model)
        if self.edit is not None:
            self.edit(model)
        return model

    def write(self, folder: Path) -> Path:
        """The file of the model."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.onnx"
        path.write_bytes(self.model().SerializeToString())
        return path

    def inputs(self, count: int) -> NDArray[Any]:
        """Random inputs that float32 holds exactly, flat."""
        drawn = self.scale * np.random.default_rng(1).standard_normal((count, math.prod(self.shape)))
        return drawn.astype(np.float32).astype(np.float64)

    def run(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """What onnxruntime computes, one input at a time, flat."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        content = self.model(as_run=True).SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        kind = helper.tensor_dtype_to_np_dtype(self.kind)
        feeds = [{"X": x.reshape(self.shape).astype(kind)} for x in inputs]
        return np.stack(
            [np.asarray(session.run([self.output], feed)[0], dtype=np.float64).reshape(-1) for feed in feeds]
        )


def _tell_shapes(model: Any) -> None:
    """Give the outputs the shapes that follow from the input's, as exporters do, where onnx can tell."""
    known = onnx.shape_inference.infer_shapes(model).graph.output
    for output, better in zip(model.graph.output, known, strict=True):
        output.type.CopyFrom(better.type)


def _age(opset: int) -> int:
    """An IR version of the time of that operator set, in which initializers need not be inputs."""
    return 4 if opset < 10 else 7 if opset < 15 else 8 if opset < 19 else 9 if opset < 21 else 10


def weight(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Random numbers that depend on the shape and the seed alone."""
    return np.random.default_rng([seed, *shape]).uniform(-1.0, 1.0, size=shape).astype(np.float32)


def whole(*numbers: int) -> NDArray[np.int64]:
    """A list of whole numbers: axes, a shape."""
    return np.array(numbers, dtype=np.int64)


def real(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, dtype=np.float32)


def scalar(number: float) -> NDArray[np.float32]:
    return np.array(number, dtype=np.float32)


def lines(*nodes: str) -> str:
    return "\n".join(nodes)
