"""An operation is the same network, to the last bit, whether ONNX or torch names it."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.readers import load
from tests.onnx_tools import Node, build, floats, ints
from tests.readers.test_torch_nodes import Forward

RNG = np.random.default_rng(17)


def single(*shape: int) -> Any:
    """Numbers of single precision, as an ONNX file keeps them."""
    return RNG.normal(size=shape).astype(np.float32)


IMAGE = (1, 2, 4, 4)
W, K, V, S = single(4, 3), single(3, 2, 2, 2), single(4), single(3, 4, 2)
STATISTICS = {"s": single(2), "b": single(2), "m": single(2), "v": floats(0.5, 2.0)}

# The input's shape, the node of ONNX with its constants, and the call of torch: function, arguments after x, by name.
CASES: dict[str, tuple[tuple[int, ...], Node, dict[str, Any], tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {
    "relu": ((1, 4), ("Relu", ["x"]), {}, ("relu", (), {})),
    "celu": ((1, 4), ("Celu", ["x"], {"alpha": 0.5}), {}, ("celu", (0.5,), {})),
    "product": ((1, 4), ("Mul", ["x", "c"]), {"c": V}, (operator.mul, (V,), {})),
    "difference": ((1, 4), ("Sub", ["x", "c"]), {"c": V}, (operator.sub, (V,), {})),
    "quotient": ((1, 4), ("Div", ["x", "c"]), {"c": V}, (operator.truediv, (V,), {})),
    "maximum": ((1, 4), ("Max", ["x", "c"]), {"c": V}, ("maximum", (V,), {})),
    "matrix": ((1, 4), ("MatMul", ["x", "c"]), {"c": W}, (operator.matmul, (W,), {})),
    "matrices": ((1, 3, 2, 4), ("MatMul", ["x", "c"]), {"c": S}, (operator.matmul, (S,), {})),
    "mean": ((1, 4, 3), ("ReduceMean", ["x"], {"axes": [1], "keepdims": 0}), {}, (".mean", (1,), {})),
    "largest": ((1, 4, 3), ("ReduceMax", ["x"], {"axes": [1], "keepdims": 1}), {}, ("amax", (1, True), {})),
    "batch norm": (
        IMAGE, ("BatchNormalization", ["x", "s", "b", "m", "v"], {"epsilon": 0.5}), STATISTICS,
        ("batch_norm", (STATISTICS["m"], STATISTICS["v"], STATISTICS["s"], STATISTICS["b"]), {"eps": 0.5}),
    ),
    "convolution": (
        IMAGE, ("Conv", ["x", "c"], {"strides": [2, 1], "pads": [1, 0, 1, 0]}), {"c": K},
        ("conv2d", (K,), {"stride": (2, 1), "padding": (1, 0)}),
    ),
    "transposed": (
        (1, 3, 3, 3), ("ConvTranspose", ["x", "c"], {"strides": [2, 2]}), {"c": K},
        ("conv_transpose2d", (K,), {"stride": 2}),
    ),
    "average": (
        IMAGE, ("AveragePool", ["x"], {"kernel_shape": [2, 2], "strides": [2, 2]}), {}, ("avg_pool2d", (2,), {}),
    ),
    "pooling": (IMAGE, ("MaxPool", ["x"], {"kernel_shape": [3, 3]}), {}, ("max_pool2d", (3, 1), {})),
    "padding": (
        IMAGE, ("Pad", ["x", "p"], {"mode": "reflect"}), {"p": ints(0, 0, 1, 2, 0, 0, 0, 1)},
        ("pad", ((2, 1, 1, 0), "reflect"), {}),
    ),
    "transpose": ((1, 2, 3), ("Transpose", ["x"], {"perm": [0, 2, 1]}), {}, (".permute", (0, 2, 1), {})),
    "gather": ((1, 4), ("Gather", ["x", "i"], {"axis": 1}), {"i": ints(3, 0)}, (".index_select", (1, [3, 0]), {})),
    "pixels": ((1, 4, 2, 2), ("DepthToSpace", ["x"], {"blocksize": 2, "mode": "CRD"}), {}, ("pixel_shuffle", (2,), {})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_names_make_the_same_network(tmp_path: Path, name: str) -> None:
    shape, node, constants, (target, args, kwargs) = CASES[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(build([node], shape, constants))
    forward = Forward(shape[1:])
    network = forward.graph.network(forward.nodes.resolved(forward.call(target, forward.x, *args, **kwargs)))
    assert load(path).sha256 == network.sha256
