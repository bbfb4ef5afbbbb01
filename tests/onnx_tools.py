"""What the tests of the ONNX reader share: models of a few nodes, and the comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lipcert.problem.network import Network
from lipcert.readers import load
from lipcert.rounding import Array

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
ort = pytest.importorskip("onnxruntime", reason="the onnxruntime package is not installed")
helper = onnx.helper

Node = tuple[Any, ...]  # operator, inputs ("_" is the first output of the node before), attributes
RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    return RNG.normal(size=shape).astype(dtype)


def ints(*values: int) -> NDArray[Any]:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> NDArray[Any]:
    return np.array(values, dtype=np.float32)


def build(
    nodes: Sequence[Node],
    shape: Sequence[int | str | None],
    constants: dict[str, NDArray[Any]] | None = None,
    opset: int = 17,
    dtype: int = 1,
) -> bytes:
    """A model whose nodes follow one another, from the input "x" to the first output of the last node.

    Among a node's attributes, `output` or `outputs` name what it makes, and `domain` is its operator's.
    """
    made, last = [], "x"
    for i, (kind, inputs, *rest) in enumerate(nodes):
        names = [last if name == "_" else name for name in inputs]
        attributes = dict(rest[0]) if rest else {}
        outputs = attributes.pop("outputs", [attributes.pop("output", f"t{i}")])
        made.append(helper.make_node(kind, names, outputs, name=f"n{i}", **attributes))
        last = next(name for name in outputs if name)
    graph = helper.make_graph(
        made,
        "test",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(last, dtype, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    domains = {node.domain for node in made} - {""}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 3) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


def agree(path: Path, model: bytes, shape: Sequence[int], dtype: Any = np.float32, scale: float = 1.0) -> Network:
    """Our network and onnxruntime give the same outputs on random inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return compute_alike(path, model, shape, lambda x: session.run(None, {"x": x})[0], dtype, scale)


def compute_alike(
    path: Path,
    model: bytes,
    shape: Sequence[int],
    function: Callable[[NDArray[Any]], Array],
    dtype: Any = np.float32,
    scale: float = 1.0,
) -> Network:
    """Our network and a function give the same outputs on random inputs."""
    path.write_bytes(model)
    network = load(path, onnx_batch=True)
    for _ in range(5):
        x = (scale * RNG.normal(size=shape)).astype(dtype)
        expected = function(x)
        np.testing.assert_allclose(network.forward(x.reshape(-1)), expected.reshape(-1), rtol=1e-5, atol=1e-5)
    return network
