"""ONNX: every operator against onnxruntime, and the graphs that are refused."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.errors import FileFormatError, InputError
from lipcert.readers import load
from tests.onnx_tools import Node, agree, build, ints, normal
from tests.reader_tools import accuracy, data_file, refuse, survive

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
ort = pytest.importorskip("onnxruntime", reason="the onnxruntime package is not installed")
helper = onnx.helper
RNG = np.random.default_rng(12)

W, V, C = normal(4, 5), normal(5, 4), normal(4)
K1, K2, KG = normal(6, 2, 3), normal(6, 2, 3, 3), normal(6, 2, 2, 3)
IMAGE = (1, 2, 7, 8)
CASES: dict[str, tuple[list[Node], tuple[int, ...], dict[str, Any], int]] = {
    "gemm": ([("Gemm", ["_", "W", "c"], {"transB": 1, "alpha": 0.5, "beta": 2.0})], (1, 5), {"W": W, "c": C}, 17),
    "gemm without C": ([("Gemm", ["_", "V"])], (1, 5), {"V": V}, 17),
    "gemm transA": ([("Gemm", ["_", "V", "c"], {"transA": 1})], (5, 3), {"V": V, "c": normal(3, 1)}, 17),
    "gemm constant left": ([("Gemm", ["W", "_", "c"], {"alpha": 2.0})], (5, 3), {"W": W, "c": C[:, None]}, 17),
    "gemm both flipped": ([("Gemm", ["V", "_"], {"transA": 1, "transB": 1})], (3, 5), {"V": V}, 17),
    "gemm scalar C": ([("Gemm", ["_", "V", "c"])], (2, 5), {"V": V, "c": np.float32(3)}, 17),
    "matmul add": ([("MatMul", ["_", "V"]), ("Add", ["c", "_"])], (1, 5), {"V": V, "c": C}, 17),
    "matmul from left": ([("MatMul", ["W", "_"]), ("Add", ["_", "c"])], (5, 3), {"W": W, "c": C[:, None]}, 17),
    "matmul batch": ([("MatMul", ["_", "V"])], (2, 3, 5), {"V": V}, 17),
    "matmul left batch": ([("MatMul", ["W", "_"])], (2, 5, 3), {"W": W}, 17),
    "matmul vector right": ([("MatMul", ["_", "v"])], (2, 3, 5), {"v": normal(5)}, 17),
    "matmul vector left": ([("MatMul", ["v", "_"])], (2, 5, 3), {"v": normal(5)}, 17),
    "matmul of a vector": ([("MatMul", ["_", "V"])], (5,), {"V": V}, 17),
    "matmul to a vector": ([("MatMul", ["W", "_"])], (5,), {"W": W}, 17),
    "matmul two vectors": ([("MatMul", ["v", "_"])], (5,), {"v": normal(5)}, 17),
    "matmul of a vector, more axes": ([("MatMul", ["_", "V"])], (5,), {"V": V[None, None]}, 17),
    "matmul more axes": ([("MatMul", ["_", "V"]), ("Relu", ["_"])], (2, 5), {"V": V[None, None]}, 17),
    "integer weights": ([("Cast", ["w"], {"to": 1, "output": "f"}), ("MatMul", ["x", "_"])],
        (1, 2), {"w": np.eye(2, dtype=np.int32)}, 17),
    "relu": ([("Relu", ["_"])], (1, 5), {}, 17),
    "leaky relu": ([("LeakyRelu", ["_"], {"alpha": 0.2}), ("LeakyRelu", ["_"])], (1, 5), {}, 17),
    "sigmoid": ([("Sigmoid", ["_"])], (1, 5), {}, 17),
    "tanh": ([("Tanh", ["_"])], (1, 5), {}, 17),
    "elu": ([("Elu", ["_"], {"alpha": 1.5}), ("Elu", ["_"])], (1, 5), {}, 17),
    "softplus": ([("Softplus", ["_"])], (1, 5), {}, 17),
    "conv 1d": ([("Conv", ["_", "k"], {"pads": [1, 2], "strides": [2]})], (1, 2, 9), {"k": K1}, 17),
    "conv 2d": ([("Conv", ["_", "k", "c"])], IMAGE, {"k": K2, "c": normal(6)}, 17),
    "conv all": (
        [("Conv", ["_", "k", "c"], {"pads": [2, 1, 0, 3], "strides": [2, 3], "dilations": [1, 2],
            "kernel_shape": [3, 3]})],
        IMAGE, {"k": K2, "c": normal(6)}, 17,
    ),
    "conv same upper": ([("Conv", ["_", "k"], {"auto_pad": "SAME_UPPER", "strides": [2, 1]})], IMAGE, {"k": KG}, 17),
    "conv same lower": ([("Conv", ["_", "k"], {"auto_pad": "SAME_LOWER", "strides": [2, 3]})], IMAGE, {"k": KG}, 17),
    "conv valid": ([("Conv", ["_", "k"], {"auto_pad": "VALID"})], IMAGE, {"k": KG}, 17),
    "conv groups": ([("Conv", ["_", "k"], {"group": 2})], (1, 4, 5, 5), {"k": KG}, 17),
    "conv depthwise": ([("Conv", ["_", "k"], {"group": 3, "pads": [1, 1, 1, 1]})],
        (1, 3, 5, 5), {"k": normal(6, 1, 3, 3)}, 17),
    "conv batch": ([("Conv", ["_", "k"]), ("Relu", ["_"])], (2, 2, 5, 5), {"k": K2}, 17),
    "conv 3d": ([("Conv", ["_", "k"])], (1, 1, 3, 4, 5), {"k": normal(2, 1, 2, 2, 2)}, 17),
    "conv conv": ([("Conv", ["_", "k"]), ("Conv", ["_", "l"])], IMAGE, {"k": K2, "l": normal(2, 6, 2, 2)}, 17),
    "average": ([("AveragePool", ["_"], {"kernel_shape": [3, 2], "strides": [2, 2]})], IMAGE, {}, 17),
    "average 1d": ([("AveragePool", ["_"], {"kernel_shape": [3], "pads": [1, 1]})], (1, 2, 7), {}, 17),
    "average pads": ([("AveragePool", ["_"], {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]})], IMAGE, {}, 17),
    "average pads counted": (
        [("AveragePool", ["_"], {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "count_include_pad": 1})], IMAGE, {}, 17,
    ),
    "average ceil": ([("AveragePool", ["_"], {"kernel_shape": [2, 3], "strides": [2, 3], "ceil_mode": 1})],
        IMAGE, {}, 19),
    "average ceil pads": (
        [("AveragePool", ["_"], {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1})],
        IMAGE, {}, 19,
    ),
    "average dilated": ([("AveragePool", ["_"], {"kernel_shape": [2, 2], "dilations": [2, 3]})], IMAGE, {}, 19),
    "average same": (
        [("AveragePool", ["_"], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})], IMAGE, {}, 17,
    ),
    "global average": ([("GlobalAveragePool", ["_"])], (2, 3, 4, 5), {}, 17),
    "batch norm": (
        [("Conv", ["_", "k"]), ("BatchNormalization", ["_", "s", "b", "m", "v"], {"epsilon": 0.1})],
        IMAGE, {"k": K2, "s": normal(6), "b": normal(6), "m": normal(6), "v": normal(6) ** 2}, 17,
    ),
    "batch norm first": (
        [("BatchNormalization", ["_", "s", "b", "m", "v"])],
        (1, 4), {"s": normal(4), "b": normal(4), "m": normal(4), "v": normal(4) ** 2}, 17,
    ),
    "flatten": ([("Conv", ["_", "k"]), ("Flatten", ["_"]), ("MatMul", ["_", "V"])],
        IMAGE, {"k": K2, "V": normal(180, 3)}, 17),
    "flatten axes": ([("Flatten", ["_"], {"axis": -1}), ("Flatten", ["_"], {"axis": 0}), ("Flatten", ["_"],
        {"axis": 2})], IMAGE, {}, 17),
    "reshape": ([("Reshape", ["_", "s"]), ("MatMul", ["_", "V"])], (1, 2, 3, 5), {"s": ints(0, -1, 5), "V": V}, 17),
    "reshape exact": ([("Reshape", ["_", "s"], {"allowzero": 1})], (1, 2, 3, 5), {"s": ints(6, 5)}, 17),
    "squeeze": ([("Squeeze", ["_", "a"]), ("Unsqueeze", ["_", "b"]), ("Squeeze", ["_"])],
        (1, 2, 1, 3), {"a": ints(-2), "b": ints(0, -1)}, 17),
    "squeeze old": ([("Squeeze", ["_"], {"axes": [0]}), ("Unsqueeze", ["_"], {"axes": [1]})], (1, 2, 3), {}, 11),
    "transpose": ([("Transpose", ["_"], {"perm": [0, 2, 3, 1]}), ("Reshape", ["_", "s"]), ("MatMul", ["_", "V"])],
                  IMAGE, {"s": ints(1, -1), "V": normal(112, 3)}, 17),
    "transpose later": ([("Conv", ["_", "k"]), ("Transpose", ["_"]), ("Relu", ["_"])], IMAGE, {"k": K2}, 17),
    "arithmetic": (
        [("Sub", ["_", "c"]), ("Div", ["_", "d"]), ("Mul", ["d", "_"]), ("Sub", ["c", "_"]), ("Add", ["_", "e"])],
        (1, 2, 4), {"c": C, "d": normal(2, 1), "e": np.float32(0.3)}, 17,
    ),
    "arithmetic after matmul": (
        [("MatMul", ["_", "V"]), ("Mul", ["_", "c"]), ("Sub", ["c", "_"])], (1, 5), {"V": V, "c": C}, 17,
    ),
    "broadcast enlarges": ([("Add", ["_", "c"]), ("Mul", ["_", "d"])],
        (1, 3, 1), {"c": normal(2, 1, 4), "d": normal(3, 1)}, 17),
    "broadcast after matmul": ([("MatMul", ["_", "V"]), ("Add", ["_", "c"])], (1, 5), {"V": V, "c": normal(3, 4)}, 17),
    "broadcast after conv": ([("Conv", ["_", "k"]), ("Add", ["_", "c"])],
        IMAGE, {"k": K2, "c": normal(2, 1, 1, 1)}, 17),
    "identity dropout cast": (
        [("Identity", ["_"]), ("Dropout", ["_", "r", "t"]), ("Cast", ["_"], {"to": 11}), ("Cast", ["_"], {"to": 1})],
        (1, 4), {"r": np.float32(0.5), "t": np.array(False)}, 17,
    ),
    "constants through nodes": (
        [
            ("Identity", ["w"], {"output": "a"}),
            ("Transpose", ["a"], {"output": "b", "perm": [1, 0]}),
            ("Reshape", ["b", "s"], {"output": "d"}),
            ("Cast", ["d"], {"output": "e", "to": 1}),
            ("Constant", [], {"output": "f", "value_float": 2.0}),
            ("Constant", [], {"output": "g", "value_ints": [0]}),
            ("Mul", ["e", "f"], {"output": "h"}),
            ("Unsqueeze", ["h", "g"], {"output": "i"}),
            ("MatMul", ["x", "i"]),
        ],
        (1, 5), {"w": W.astype(np.float64), "s": ints(5, 4)}, 17,
    ),
    "view of its own shape": (
        [
            ("Shape", ["x"], {"output": "a"}),
            ("Gather", ["a", "zero"], {"output": "b", "axis": 0}),
            ("Unsqueeze", ["b", "axis"], {"output": "c"}),
            ("Concat", ["c", "minus"], {"output": "d", "axis": 0}),
            ("Reshape", ["x", "d"]),
            ("MatMul", ["_", "V"]),
        ],
        (1, 2, 3), {"zero": np.array(0, np.int64), "axis": ints(0), "minus": ints(-1), "V": normal(6, 2)}, 17,
    ),
    "integers divided for a shape": (
        [
            ("Shape", ["x"], {"output": "a", "start": 1, "end": 2}),
            ("Div", ["a", "two"], {"output": "b"}),
            ("Sub", ["b", "zero"], {"output": "c"}),
            ("Concat", ["c", "minus"], {"output": "d", "axis": 0}),
            ("Reshape", ["x", "d"]),
        ],
        (1, 6), {"two": ints(2), "zero": ints(0), "minus": ints(-1)}, 17,
    ),
    "deep": (
        [("Relu", ["_"]), ("Relu", ["_"]), ("Gemm", ["_", "V", "c"]), ("Tanh", ["_"]), ("Gemm", ["_", "U"])],
        (1, 5), {"V": V, "c": C, "U": normal(4, 2)}, 17,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(tmp_path: Path, name: str) -> None:
    nodes, shape, constants, opset = CASES[name]
    agree(tmp_path / "net.onnx", build(nodes, shape, constants, opset), shape)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_a_softmax_at_the_end_is_left_out(tmp_path: Path, kind: str) -> None:
    nodes = [("Gemm", ["_", "V"]), (kind, ["_"]), ("Identity", ["_"]), ("Flatten", ["_"])]
    (tmp_path / "net.onnx").write_bytes(build(nodes, (1, 5), {"V": V}))
    network = load(tmp_path / "net.onnx")
    np.testing.assert_allclose(network.affines[0].weight, V.T, rtol=1e-6)
    assert kind in network.notes[0]
    (tmp_path / "net.onnx").write_bytes(build([*nodes, ("Relu", ["_"])], (1, 5), {"V": V}))
    followed = load(tmp_path / "net.onnx")
    assert followed.notes == ()
    assert followed.depth > 1


def test_doubles_and_open_dimensions(tmp_path: Path) -> None:
    nodes = [("MatMul", ["_", "V"]), ("Relu", ["_"])]
    model = build(nodes, ["N", 5], {"V": V.astype(np.float64)}, dtype=11)
    assert agree(tmp_path / "net.onnx", model, (1, 5), np.float64).notes == ()
    model = build(nodes, [None, "T", 5], {"V": V}, dtype=1)
    assert "taken as 1" in agree(tmp_path / "net.onnx", model, (1, 1, 5)).notes[0]


def test_half_precision_weights(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(build([("MatMul", ["_", "V"])], (1, 5), {"V": V.astype(np.float16)}, dtype=10))
    np.testing.assert_array_equal(load(tmp_path / "net.onnx").affines[0].weight, V.T.astype(np.float16))


def test_unused_branches_and_old_style_inputs(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(build([("MatMul", ["_", "V"])], (1, 5), {"V": V}))
    model.graph.node.insert(0, helper.make_node("MaxPool", ["x"], ["unused"], kernel_shape=[2]))
    model.graph.input.append(helper.make_tensor_value_info("V", 1, V.shape))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.testing.assert_allclose(load(tmp_path / "net.onnx").affines[0].weight, V.T, rtol=1e-6)


BN = {"s": normal(4), "b": normal(4), "m": normal(4), "v": -np.ones(4, np.float32), "w": np.ones(4, np.float32)}
REFUSED: dict[str, tuple[list[Node], tuple[int, ...], dict[str, Any], list[str]]] = {
    "unknown operator": ([("Frobnicate", ["_"])], IMAGE, {}, ["Frobnicate (node 'n0')", "docs/operators.md"]),
    "unknown attribute": ([("Relu", ["_"], {"slope": 1.0})], (1, 5), {}, ["attribute 'slope'"]),
    "constant output": ([("Identity", ["c"])], (1, 5), {"c": C}, ["does not depend on the input"]),
    "gather at the tensor": ([("Gather", ["c", "_"])], (1, 4), {"c": C}, ["must be the tensor"]),
    "division by zero": ([("Div", ["_", "c"])], (1, 4), {"c": np.zeros(4, np.float32)}, ["divides by zero"]),
    "gemm of a cube": ([("Gemm", ["_", "V"])], (1, 1, 5), {"V": V}, ["Gemm", "[1, 1, 5]"]),
    "gemm sizes": ([("Gemm", ["_", "V"])], (1, 6), {"V": V}, ["(5, 4)", "(1, 6)"]),
    "gemm C": ([("Gemm", ["_", "V", "c"])], (1, 5), {"V": V, "c": normal(3)}, ["do not broadcast"]),
    "gemm C enlarges": ([("Gemm", ["_", "V", "c"])], (1, 5), {"V": V, "c": normal(3, 4)}, ["does not fit the product"]),
    "gemm of two": ([("Gemm", ["_", "x"])], (4, 5), {}, ["are multiplied as matrices"]),
    "several powers": ([("Pow", ["_", "c"])], (1, 4), {"c": C}, ["one exponent for all entries"]),
    "group norm before opset 21": ([("GroupNormalization", ["_", "c", "c"], {"num_groups": 2})],
        (1, 4), {"c": C}, ["export the network with a newer opset"]),
    "gemm matrix": ([("Gemm", ["_", "c"])], (1, 5), {"c": normal(5)}, ["two axes"]),
    "matmul stack": ([("MatMul", ["_", "V"])], (3, 1, 5), {"V": normal(2, 5, 4)}, ["axes of", "are multiplied"]),
    "matmul sizes": ([("MatMul", ["W", "_"])], (6, 3), {"W": W}, ["does not precede"]),
    "conv live kernel": ([("Conv", ["k", "_"])], (2, 2, 2, 2), {"k": K2}, ["its kernel depends on the input"]),
    "conv axes": ([("Conv", ["_", "k"])], (1, 2, 9), {"k": K2}, ["kernel of shape"]),
    "conv channels": ([("Conv", ["_", "k"])], (1, 3, 9, 9), {"k": K2}, ["does not fit 3 channels"]),
    "conv groups": ([("Conv", ["_", "k"], {"group": 0})], IMAGE, {"k": K2}, ["0 groups"]),
    "conv bias": ([("Conv", ["_", "k", "c"])], IMAGE, {"k": K2, "c": C}, ["bias of shape (4,)"]),
    "conv too large": ([("Conv", ["_", "k"])], (1, 2, 2, 9), {"k": K2}, ["does not fit an axis"]),
    "conv strides": ([("Conv", ["_", "k"], {"strides": [1]})], IMAGE, {"k": K2}, ["strides must be 2"]),
    "conv zero stride": ([("Conv", ["_", "k"], {"strides": [0, 1]})], IMAGE, {"k": K2}, ["at least 1"]),
    "conv negative pads": ([("Conv", ["_", "k"], {"pads": [-1, 0, 0, 0]})], IMAGE, {"k": K2}, ["at least 0"]),
    "conv huge pads": ([("Conv", ["_", "k"], {"pads": [1 << 40] * 4})], IMAGE, {"k": K2}, ["limited to"]),
    "conv wide pads": ([("Conv", ["_", "k"], {"pads": [1 << 20] * 4})], IMAGE, {"k": K2}, ["beyond the limit"]),
    "conv entries": ([("Conv", ["_", "k"])], (1, 64, 256, 256), {"k": np.ones((64, 64, 3, 3), np.float32)},
        ["stored weights"]),
    "conv kernel shape": ([("Conv", ["_", "k"], {"kernel_shape": [2, 2]})], IMAGE, {"k": K2}, ["kernel_shape"]),
    "conv auto pad": ([("Conv", ["_", "k"], {"auto_pad": "BOTH"})], IMAGE, {"k": K2}, ["auto_pad"]),
    "conv auto pad type": ([("Conv", ["_", "k"], {"auto_pad": 1})], IMAGE, {"k": K2}, ["must be text"]),
    "pool axes": ([("AveragePool", ["_"], {"kernel_shape": [2]})], (1, 5), {}, ["no axes"]),
    "pool kernel": ([("AveragePool", ["_"])], IMAGE, {}, ["kernel_shape must be 2"]),
    "pool in padding": ([("AveragePool", ["_"], {"kernel_shape": [1, 1], "pads": [1, 1, 1, 1]})],
        IMAGE, {}, ["wholly in the padding"]),
    "pool taps": ([("AveragePool", ["_"], {"kernel_shape": [1 << 20], "pads": [1 << 20] * 2})],
        (1, 1, 7), {}, ["beyond the limit"]),
    "global axes": ([("GlobalAveragePool", ["_"])], (1, 5), {}, ["does not fit"]),
    "batch norm size": ([("BatchNormalization", ["_", "s", "b", "m", "w"])], (1, 5), BN, ["4 channel statistics"]),
    "batch norm variance": ([("BatchNormalization", ["_", "s", "b", "m", "v"])], (1, 4), BN, ["not positive"]),
    "batch norm training": (
        [("BatchNormalization", ["_", "s", "b", "m", "w"], {"training_mode": 1})], (1, 4), BN, ["only inference"],
    ),
    "dropout training": ([("Dropout", ["_", "", "t"])], (1, 4), {"t": np.array(True)}, ["training mode"]),
    "cast to integers": ([("Cast", ["_"], {"to": 7})], (1, 4), {}, ["to integers"]),
    "cast to text": ([("Cast", ["_"], {"to": 8})], (1, 4), {}, ["casts to"]),
    "truth values": ([("Add", ["_", "t"])], (1, 1), {"t": np.array(True)}, ["truth values"]),
    "complex": ([("Add", ["_", "t"])], (1, 1), {"t": np.ones(1, np.complex64)}, ["float64 or integers"]),
    "not finite": ([("MatMul", ["_", "V"])], (1, 5), {"V": V * np.float32(np.nan)}, ["not finite"]),
    "reshape": ([("Reshape", ["_", "s"])], (1, 5), {"s": ints(2, 3)}, ["cannot change the shape"]),
    "reshape open": ([("Reshape", ["_", "s"])], (1, 5), {"s": ints(2, -1)}, ["cannot change the shape"]),
    "reshape twice open": ([("Reshape", ["_", "s"])], (1, 5), {"s": ints(-1, -1)}, ["cannot change the shape"]),
    "reshape keeps": ([("Reshape", ["_", "s"])], (1, 5), {"s": ints(1, 5, 0)}, ["keeps an axis"]),
    "reshape missing": ([("Reshape", ["_"])], (1, 5), {}, ["shape is missing"]),
    "reshape floats": ([("Reshape", ["_", "s"])], (1, 5), {"s": C}, ["list of whole numbers"]),
    "flatten axis": ([("Flatten", ["_"], {"axis": 3})], (1, 5), {}, ["axis 3"]),
    "squeeze axes": ([("Squeeze", ["_", "a"])], (1, 5), {"a": ints(1)}, ["are not all 1"]),
    "squeeze range": ([("Squeeze", ["_", "a"])], (1, 5), {"a": ints(7)}, ["out of range"]),
    "unsqueeze": ([("Unsqueeze", ["_", "a"])], (1, 5), {"a": ints(0, 0)}, ["repeated"]),
    "unsqueeze missing": ([("Unsqueeze", ["_"])], (1, 5), {}, ["axes are missing"]),
    "transpose": ([("Transpose", ["_"], {"perm": [0, 0]})], (1, 5), {}, ["not a permutation"]),
    "broadcast": ([("Add", ["_", "c"])], (1, 5), {"c": C}, ["do not broadcast"]),
    "broadcast too wide": ([("Add", ["_", "c"])], (1 << 20, 1), {"c": normal(9)}, ["beyond the limit"]),
    "input too wide": ([("Relu", ["_"])], (1 << 12, 1 << 12), {}, ["beyond the limit"]),
    "constants too large": ([("Add", ["c", "d"], {"output": "e"}), ("Add", ["x", "_"])], (1, 5),
                            {"c": normal(1 << 14, 1), "d": normal(1, 1 << 14)}, ["constant of", "beyond the limit"]),
    "constants broadcast": ([("Add", ["c", "d"], {"output": "e"}), ("Add", ["x", "_"])], (1, 5),
                            {"c": normal(2), "d": normal(3)}, ["do not broadcast"]),
    "gather": ([("Gather", ["c", "i"], {"output": "d"}), ("Add", ["x", "_"])],
        (1, 5), {"c": C, "i": ints(9)}, ["out of range"]),
    "gather axis": ([("Gather", ["c", "i"], {"output": "d", "axis": 3}), ("Add", ["x", "_"])],
        (1, 5), {"c": C, "i": ints(0)}, ["axis"]),
    "concat": ([("Concat", ["c", "d"], {"output": "e", "axis": 0}), ("Add", ["x", "_"])],
        (1, 5), {"c": C, "d": V}, ["fit together"]),
    "integer division": ([("Div", ["i", "j"], {"output": "e"}), ("Add", ["x", "_"])],
        (1, 5), {"i": ints(-3), "j": ints(0)}, ["divides by zero"]),
    "constant text": ([("Constant", [], {"output": "c", "value_string": "a"}), ("Add", ["x", "_"])],
        (1, 5), {}, ["value_string"]),
    "missing tensor": ([("Add", ["_", "nowhere"])], (1, 5), {}, ["'nowhere'", "not computed before"]),
    "no inputs": ([("Add", ["_"])], (1, 5), {}, ["1 inputs"]),
    "computed twice": ([("Relu", ["_"], {"output": "x"}), ("Relu", ["_"])], (1, 5), {}, ["computed twice"]),
    "infinite slope": ([("LeakyRelu", ["_"], {"alpha": float("inf")})], (1, 5), {}, ["alpha"]),
    "slope type": ([("LeakyRelu", ["_"], {"alpha": "a"})], (1, 5), {}, ["must be a number"]),
    "axis type": ([("Flatten", ["_"], {"axis": 1.5})], (1, 5), {}, ["must be a whole number"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_node_in_one_line(tmp_path: Path, name: str) -> None:
    nodes, shape, constants, words = REFUSED[name]
    (tmp_path / "net.onnx").write_bytes(build(nodes, shape, constants))
    refuse(tmp_path / "net.onnx", *words, kind=FileFormatError)


def edited(change: Any) -> bytes:
    model = onnx.ModelProto.FromString(build([("MatMul", ["_", "V"])], (1, 5), {"V": V}))
    change(model.graph)
    return bytes(model.SerializeToString())


def external(graph: Any) -> None:
    graph.initializer[0].ClearField("raw_data")
    graph.initializer[0].data_location = 1
    graph.initializer[0].external_data.add(key="location", value="../../secret")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (external, ["'V' is kept in '../../secret'", "same folder"]),
        (lambda g: g.input.append(helper.make_tensor_value_info("y", 1, (1,))), ["2 inputs; networks with one"]),
        (lambda g: g.ClearField("output"), ["no outputs"]),
        (lambda g: g.input[0].type.tensor_type.ClearField("shape"), ["no usable shape"]),
        (lambda g: setattr(g.input[0].type.tensor_type, "elem_type", 7), ["floating point"]),
        (lambda g: setattr(g.node[0], "domain", "com.microsoft"), ["'com.microsoft'"]),
        (lambda g: g.ClearField("node"), ["no operators"]),
        (lambda g: g.node[0].ClearField("output"), ["does not depend on the input"]),
        (lambda g: g.sparse_initializer.add(), ["sparse initializers"]),
        (lambda g: g.initializer[0].dims.append(1 << 40), ["beyond the limits"]),
        (lambda g: g.initializer[0].dims.append(2), ["'V' is damaged"]),
        (lambda g: g.node[0].attribute.add(name="odd"), ["attribute 'odd'"]),
    ],
)
def test_models_that_are_not_chains_or_not_whole(tmp_path: Path, change: Any, words: list[str]) -> None:
    (tmp_path / "net.onnx").write_bytes(edited(change))
    refuse(tmp_path / "net.onnx", *words, kind=FileFormatError)


def test_the_onnx_package_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_onnx(name: str, *rest: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *rest)

    (tmp_path / "net.onnx").write_bytes(build([("Relu", ["_"])], (1, 5)))
    monkeypatch.setattr(builtins, "__import__", without_onnx)
    refuse(tmp_path / "net.onnx", "[onnx]'", kind=InputError)


def test_damaged_files(tmp_path: Path) -> None:
    for name in ("gemm", "conv all", "constants through nodes", "arithmetic", "view of its own shape"):
        nodes, shape, constants, opset = CASES[name]
        survive(tmp_path / "net.onnx", build(nodes, shape, constants, opset), cuts=40, flips=200)


@pytest.mark.parametrize(
    ("name", "percent", "widths"),
    [
        ("nets/eran_mnist_relu_3_50.onnx", 95.88, (784, 50, 50, 10, 10)),
        ("nets/mnist_conv.onnx", 98.11, (784, 3136, 1568, 100, 10)),
    ],
)
def test_real_networks(name: str, percent: float, widths: tuple[int, ...]) -> None:
    path = data_file(name)
    network = load(path)
    assert network.shape == widths
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = RNG.random(size=(1, 1, 28, 28)).astype(np.float32)
    (expected,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(network.forward(x.reshape(-1)), expected.reshape(-1), rtol=1e-4, atol=1e-5)
    assert accuracy(network) == percent
