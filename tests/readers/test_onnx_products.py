"""ONNX operators that multiply, divide, exponentiate and normalise tensors: values, gradients and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import Box, Network, bound, load, verify
from tests.onnx_tools import Node, agree, build, floats, ints, normal

W, V = normal(6, 6), normal(4, 6)
S, B = normal(6), normal(6)
POSITIVE: Node = ("Exp", ["_"], {"output": "e"})
Case = tuple[list[Node], tuple[int, ...], dict[str, Any], int]


def after_exp(kind: str, shape: tuple[int, ...] = (2, 6), opset: int = 18, **attributes: Any) -> Case:
    """An operator of positive tensors."""
    return [POSITIVE, (kind, ["_"], attributes)], shape, {}, opset


def reduced(kind: str, axis: int = 1) -> Case:
    return [POSITIVE, (kind, ["_", "a"], {"keepdims": axis % 2})], (2, 6), {"a": ints(axis)}, 18


CASES: dict[str, Case] = {
    **{kind: ([(kind, ["_"])], (1, 6), {}, 18) for kind in ("Atan", "Cos", "Cosh", "Exp", "Sin", "Sinh", "Tan")},
    **{kind: after_exp(kind) for kind in ("Log", "Reciprocal", "Sqrt", "LpNormalization")},
    **{
        kind: reduced(kind)
        for kind in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare")
    },
    "sums of all": ([("ReduceSumSquare", ["_"], {"keepdims": 0})], (2, 3), {}, 18),
    **{kind: ([("Tanh", ["_"]), (kind, ["_"])], (1, 6), {}, 18) for kind in ("Acos", "Asin", "Asinh", "Atanh")},
    "Acosh": ([POSITIVE, ("Add", ["_", "c"]), ("Acosh", ["_"])], (1, 6), {"c": floats(1)}, 18),
    "product of two": ([("MatMul", ["x", "W"]), ("Mul", ["_", "x"])], (2, 6), {"W": W}, 18),
    "square": ([("Mul", ["x", "x"])], (2, 6), {}, 18),
    "gated": ([("MatMul", ["x", "W"]), ("Sigmoid", ["_"]), ("Mul", ["x", "_"])], (2, 6), {"W": W}, 18),
    "broadcast": ([("ReduceSum", ["x", "a"]), ("Mul", ["_", "x"])], (2, 6), {"a": ints(1)}, 18),
    "quotient": ([POSITIVE, ("Div", ["x", "_"])], (2, 6), {}, 18),
    "one over": ([POSITIVE, ("Div", ["c", "_"])], (2, 6), {"c": floats(2)}, 18),
    "matmul of two": ([("Transpose", ["x"], {"perm": [0, 2, 1]}), ("MatMul", ["x", "_"])], (2, 3, 4), {}, 18),
    "gemm of two": ([("Gemm", ["x", "x", "B"], {"transB": 1, "alpha": 0.5})], (3, 4), {"B": normal(3)}, 18),
    "einsum of two": ([("Einsum", ["x", "x"], {"equation": "bij,bkj->bki"})], (2, 3, 4), {}, 18),
    "power": ([POSITIVE, ("Pow", ["_", "p"])], (2, 6), {"p": floats(1.7)}, 18),
    "cube": ([("Pow", ["_", "p"])], (2, 6), {"p": floats(3)}, 18),
    "power of a tensor": ([POSITIVE, ("Pow", ["_", "x"])], (2, 6), {}, 18),
    "constant to a power": ([("Pow", ["c", "_"])], (2, 6), {"c": floats(2)}, 18),
    "softmax": ([("Softmax", ["_"]), ("MatMul", ["_", "W"])], (2, 6), {"W": W}, 18),
    "softmax of the first axis": ([("Softmax", ["_"], {"axis": 0}), ("Relu", ["_"])], (3, 2), {}, 18),
    "softmax before opset 13": ([("Softmax", ["_"], {"axis": 1}), ("Relu", ["_"])], (2, 3, 2), {}, 11),
    "softmax of one": ([("Softmax", ["_"], {"axis": 0}), ("Add", ["_", "x"])], (1, 3), {}, 18),
    "log softmax": ([("LogSoftmax", ["_"]), ("MatMul", ["_", "W"])], (2, 6), {"W": W}, 18),
    "log of softmax": ([("Softmax", ["_"]), ("Log", ["_"]), ("MatMul", ["_", "W"])], (2, 6), {"W": W}, 18),
    "softmax reshaped": ([("Softmax", ["_"]), ("Flatten", ["_"], {"axis": 0}), ("Relu", ["_"])], (2, 6), {}, 18),
    "softmax of constants": ([("Softmax", ["c"]), ("Add", ["x", "_"])], (1, 6), {"c": S}, 18),
    "layer norm": ([("LayerNormalization", ["_", "S", "B"])], (2, 6), {"S": S, "B": B}, 17),
    "layer norm of two axes": (
        [("LayerNormalization", ["_", "V"], {"axis": 1, "epsilon": 0.01})], (2, 4, 6), {"V": V}, 17,
    ),
    "group norm": (
        [("GroupNormalization", ["_", "S", "B"], {"num_groups": 2})], (2, 6, 3), {"S": S, "B": B}, 21,
    ),
    "instance norm": ([("InstanceNormalization", ["_", "S", "B"])], (2, 6, 3), {"S": S, "B": B}, 18),
    "sum of sizes": ([("LpNormalization", ["_"], {"p": 1})], (2, 6), {}, 18),
    "layer norm written out": (
        [
            ("ReduceMean", ["x", "a"]), ("Sub", ["x", "_"], {"output": "d"}), ("Pow", ["_", "two"]),
            ("ReduceMean", ["_", "a"]), ("Add", ["_", "eps"]), ("Sqrt", ["_"]), ("Div", ["d", "_"]),
        ],
        (2, 6), {"a": ints(1), "two": floats(2), "eps": floats(0.01)}, 18,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_bounds(tmp_path: Path, name: str) -> None:
    """Values are those of onnxruntime, gradients those of differences, and no sampled gradient is above the bound."""
    nodes, shape, constants, opset = CASES[name]
    net = agree(tmp_path / "net.onnx", build(nodes, shape, constants, opset), shape)
    rng = np.random.default_rng(5)
    x, c = rng.uniform(0.2, 1.0, net.inputs), rng.normal(size=net.outputs)
    rise = [c @ (net.forward(x + d) - net.forward(x - d)) / 2e-6 for d in 1e-6 * np.eye(net.inputs)]
    np.testing.assert_allclose(net.gradient(x, c)[0], rise, rtol=1e-5, atol=1e-6)
    found = bound(net, Box(x, 0.01), output=c, method="linear", lower=False)
    sampled = max(np.abs(net.gradient(x + d, c)).sum() for d in rng.uniform(-0.01, 0.01, (20, net.inputs)))
    assert sampled * (1 - 1e-9) <= found.upper <= 1.5 * sampled
    assert verify(found.certificate, net).proved


def test_rms_normalisation(tmp_path: Path) -> None:
    """onnxruntime has no such operator before opset 23."""
    nodes: list[Node] = [("RMSNormalization", ["_", "S"], {"epsilon": 0.01})]
    (tmp_path / "net.onnx").write_bytes(build(nodes, (1, 6), {"S": S}, 23))
    x = normal(6).astype(np.float64)
    expected = x / np.sqrt(np.mean(x * x) + 0.01) * S
    np.testing.assert_allclose(load(tmp_path / "net.onnx").forward(x), expected, rtol=1e-6)


def attention(tmp_path: Path, tokens: int = 3, width: int = 4) -> Network:
    """One head: softmax(x Q (x K)') x V."""
    constants = {name: normal(width, width) / np.sqrt(width) for name in "QKV"}
    nodes: list[Node] = [
        ("MatMul", ["x", "Q"], {"output": "q"}), ("MatMul", ["x", "K"]), ("Transpose", ["_"], {"perm": [1, 0]}),
        ("MatMul", ["q", "_"]), ("Softmax", ["_"], {"output": "p"}), ("MatMul", ["x", "V"]), ("MatMul", ["p", "_"]),
    ]  # fmt: skip
    constants = {name: weight.astype(np.float32) for name, weight in constants.items()}
    return agree(tmp_path / "net.onnx", build(nodes, (tokens, width), constants, 18), (tokens, width))


def test_attention_is_bounded_closely(tmp_path: Path) -> None:
    net = attention(tmp_path)
    x, c = np.random.default_rng(0).uniform(size=net.inputs), np.ones(net.outputs)
    found = bound(net, Box(x, 0.01), output=c, method="linear", time_limit=20)
    assert found.lower is not None
    assert found.lower <= found.upper <= 1.02 * found.lower


def test_a_product_keeps_its_digits_where_one_factor_hardly_moves(tmp_path: Path) -> None:
    """Balanced by widths alone, x y would be the difference of squares that are 10^12 times as large."""
    nodes: list[Node] = [("Mul", ["_", "t"]), ("Add", ["_", "c"]), ("Mul", ["x", "_"])]
    (tmp_path / "net.onnx").write_bytes(build(nodes, (1, 3), {"t": floats(1e-12), "c": floats(1)}, 18))
    x = np.array([0.3, 0.7, 0.9])
    np.testing.assert_allclose(load(tmp_path / "net.onnx").forward(x), x, rtol=1e-11)


def test_the_same_file_has_the_same_hash(tmp_path: Path) -> None:
    first = attention(tmp_path)
    assert first.sha256 == load(tmp_path / "net.onnx").sha256
