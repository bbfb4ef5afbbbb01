"""ONNX graphs with branches: every operator and the forms it has in the opsets, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.errors import FileFormatError, UnsupportedOperator
from lipcert.readers import load
from lipcert.readers.onnx.constants import FOLDED
from lipcert.readers.onnx.operators import DOMAINS, OPERATORS, REFUSED
from lipcert.rounding import Array
from tests.onnx_tools import RNG, Node, agree, build, compute_alike, floats, ints, normal
from tests.reader_tools import data_file, refuse, survive

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
ort = pytest.importorskip("onnxruntime", reason="the onnxruntime package is not installed")
helper = onnx.helper

IMAGE = (1, 2, 5, 6)
WIDE = (1, 4, 4, 6)
V = normal(5, 4)
K, KT = normal(3, 2, 3, 3), normal(2, 3, 3, 2)
HALF, ONE, ZERO = np.float32(0.5), np.float32(1), np.float32(0)
ML = {"domain": "ai.onnx.ml"}
Case = tuple[list[Node], tuple[int, ...], dict[str, Any], int]


def plain(kind: str, shape: tuple[int, ...] = (1, 6), opset: int = 17, /, **attributes: Any) -> Case:
    """One operator of the input alone."""
    return [(kind, ["_"], attributes)], shape, {}, opset


def of(kind: str, shape: tuple[int, ...], opset: int = 17, /, attributes: Any = None, **constants: Any) -> Case:
    """One operator of the input and constants, in this order; "none" is an input left out."""
    names = ["" if value is None else name for name, value in constants.items()]
    given = {name: value for name, value in constants.items() if value is not None}
    return [(kind, ["_", *names], attributes or {})], shape, given, opset


RESIZE = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
STATISTICS = {"s": normal(2), "b": normal(2), "m": normal(2), "v": normal(2) ** 2}

CASES: dict[str, Case] = {
    # branches
    "residual": ([("Gemm", ["_", "V"], {"output": "a"}), ("Relu", ["a"]), ("Add", ["_", "a"])], (1, 5), {"V": V}, 17),
    "input twice": ([("Relu", ["_"]), ("Sub", ["x", "_"]), ("Add", ["_", "x"])], (1, 5), {}, 17),
    "sum of many": ([("Relu", ["_"]), ("Tanh", ["_"]), ("Sum", ["x", "_", "c", "t0"])], (1, 5), {"c": normal(5)}, 17),
    "mean of many": ([("Relu", ["_"]), ("Mean", ["x", "_", "c"])], (1, 5), {"c": normal(5)}, 17),
    "gemm C live": ([("Relu", ["_"]), ("Gemm", ["_", "V", "x"], {"beta": 0.5})], (5, 5), {"V": normal(5, 5)}, 17),
    "gemm of constants": ([("Gemm", ["V", "W", "_"], {"beta": 2.0})], (5, 3), {"V": V, "W": normal(4, 3)}, 17),
    "shape of a branch": ([("Shape", ["x"]), ("Relu", ["x"]), ("Reshape", ["_", "t0"])], (2, 3), {}, 17),
    "size": ([("Size", ["x"], {"output": "s"}), ("Unsqueeze", ["s", "a"], {"output": "u"}), ("Reshape", ["x", "u"])],
        (2, 3), {"a": ints(0)}, 17),
    # affine
    "matmul stack": of("MatMul", (2, 3, 5), V=normal(2, 5, 4)),
    "matmul stack broadcast": of("MatMul", (3, 5), V=normal(2, 2, 5, 4)),
    "matmul stack from left": ([("MatMul", ["V", "_"])], (5, 3), {"V": normal(2, 4, 5)}, 17),
    "matmul stack of a vector": of("MatMul", (5,), V=normal(2, 5, 4)),
    "einsum": of("Einsum", (2, 5), 17, {"equation": "bi,oi->bo"}, W=normal(4, 5)),
    "einsum implicit": of("Einsum", (2, 5), 17, {"equation": "bi,io"}, W=V),
    "einsum transposed": plain("Einsum", (2, 3, 4), equation="abc->cab"),
    "einsum diagonal": plain("Einsum", (3, 3), equation="ii->i"),
    "einsum summed": plain("Einsum", (2, 3, 4), equation="abc->b"),
    "einsum dots": of("Einsum", (2, 3, 5), 17, {"equation": "...i,io->...o"}, V=V),
    "einsum left": ([("Einsum", ["V", "_"], {"equation": "io,bi->bo"})], (2, 5), {"V": V}, 17),
    "neg": plain("Neg"),
    "first power": of("Pow", (1, 4), e=ONE),
    "reduce sum old": plain("ReduceSum", (2, 3, 4), 11, axes=[-1, 0], keepdims=0),
    "reduce sum": of("ReduceSum", (2, 3, 4), 13, {"keepdims": 1}, a=ints(1)),
    "reduce sum all": plain("ReduceSum", (2, 3), 13, keepdims=0),
    "reduce sum none": plain("ReduceSum", (2, 3), 13, noop_with_empty_axes=1),
    "reduce mean old": plain("ReduceMean", (2, 3, 4), 13, axes=[2]),
    "reduce mean": of("ReduceMean", (2, 3, 4), 18, {"keepdims": 0}, a=ints(-1, -2)),
    "cumulative": of("CumSum", (2, 4), a=np.array(1)),
    "cumulative backwards": of("CumSum", (2, 4), 17, {"exclusive": 1, "reverse": 1}, a=np.array(-1)),
    "transposed": of("ConvTranspose", IMAGE, k=KT, c=normal(3)),
    "transposed all": of("ConvTranspose", IMAGE, 17, {"strides": [2, 3], "pads": [1, 0, 0, 1], "dilations": [2, 1],
        "output_padding": [1, 2], "kernel_shape": [3, 2]}, k=KT),
    "transposed groups": of("ConvTranspose", (1, 4, 3, 3), 17, {"group": 2}, k=normal(4, 3, 2, 2)),
    "transposed same": of("ConvTranspose", IMAGE, 17, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, k=KT),
    "transposed same lower": of("ConvTranspose", IMAGE, 17, {"auto_pad": "SAME_LOWER", "strides": [2, 1]}, k=KT),
    "transposed to a shape": of("ConvTranspose", IMAGE, 17, {"output_shape": [10, 12], "strides": [2, 2]}, k=KT),
    "transposed 1d": of("ConvTranspose", (1, 2, 5), 17, {"strides": [2]}, k=normal(2, 3, 3)),
    "batch norm of old": of("BatchNormalization", (1, 2, 3), 9, **STATISTICS),
    # rearranging
    "slice old": plain("Slice", (2, 5, 6), 9, axes=[1, 2], starts=[1, -3], ends=[100, -1]),
    "slice": of("Slice", (2, 5, 6), 13, s=ints(1, -1), e=ints(4, -9), a=ints(1, -1), t=ints(2, -2)),
    "slice from the front": of("Slice", (4, 5), 10, s=ints(1), e=ints(3)),
    "flip": of("Slice", (1, 5), 17, s=ints(-1), e=ints(-(1 << 63)), a=ints(1), t=ints(-1)),
    "split old": ([("Split", ["_"], {"axis": 1, "split": [2, 4], "outputs": ["a", "b"]}), ("Relu", ["b"])],
        (1, 6), {}, 11),
    "split": ([("Split", ["_", "n"], {"axis": -1, "outputs": ["a", "b"]}), ("Concat", ["b", "a"], {"axis": 1})],
        (1, 6), {"n": ints(2, 4)}, 13),
    "split equally": ([("Split", ["_"], {"axis": 1, "outputs": ["a", "b"]}), ("Max", ["b", "a"])], (1, 6), {}, 13),
    "split unequally": ([("Split", ["_"], {"axis": 1, "num_outputs": 3, "outputs": ["a", "b", "c"]}),
        ("Concat", ["c", "a"], {"axis": 1})], (1, 7), {}, 18),
    "gather": of("Gather", (2, 5, 3), 17, {"axis": 1}, i=np.array([[0, -1], [3, 3]])),
    "gather one": of("Gather", (2, 5, 3), 17, {"axis": -1}, i=np.array(-2)),
    "gather elements": of("GatherElements", (3, 4), 17, {"axis": 1}, i=np.array([[0, -1], [2, 2]])),
    "gather nd": of("GatherND", (3, 4, 2), i=np.array([[0, 1], [-1, 3]])),
    "gather nd batch": of("GatherND", (2, 4, 3), 17, {"batch_dims": 1}, i=np.array([[1], [3]])),
    "concat constants": ([("Relu", ["_"]), ("Concat", ["c", "_", "x"], {"axis": -1})], (1, 3), {"c": normal(1, 2)}, 17),
    "expand": of("Expand", (3, 1), s=ints(2, 1, 4)),
    "tile": of("Tile", (2, 3), r=ints(2, 3)),
    "depth to space": plain("DepthToSpace", WIDE, blocksize=2),
    "depth to space CRD": plain("DepthToSpace", WIDE, blocksize=2, mode="CRD"),
    "space to depth": plain("SpaceToDepth", WIDE, blocksize=2),
    "upper triangle": of("Trilu", (2, 3, 4), k=np.array(1)),
    "lower triangle": plain("Trilu", (4, 3), upper=0),
    "pad old": plain("Pad", (1, 2, 4), 10, pads=[0, 0, 1, 0, 1, 2], value=0.5),
    "pad": of("Pad", (1, 2, 4), 13, p=ints(0, 0, 1, 0, 1, 2), v=HALF),
    "pad no value": of("Pad", (1, 4), 13, p=ints(0, 1, 0, 0), v=None),
    "pad crops": of("Pad", (1, 4), 13, p=ints(0, -1, 0, 2)),
    "pad reflects": of("Pad", (1, 2, 4), 13, {"mode": "reflect"}, p=ints(0, 0, 3, 0, 0, 1)),
    "pad edges": of("Pad", (1, 2, 4), 13, {"mode": "edge"}, p=ints(0, 0, 3, 0, 0, 1)),
    "pad wraps": of("Pad", (1, 2, 4), 19, {"mode": "wrap"}, p=ints(0, 0, 3, 0, 0, 1)),
    "pad axes": of("Pad", (1, 2, 4), 18, p=ints(1, 2), v=None, a=ints(-1)),
    "upsample 7": plain("Upsample", IMAGE, 7, scales=[1.0, 1.0, 2.0, 2.0]),
    "upsample 9": of("Upsample", IMAGE, 9, {"mode": "nearest"}, s=floats(1, 1, 2, 3)),
    "upsample linear": of("Upsample", IMAGE, 9, {"mode": "linear"}, s=floats(1, 1, 2, 2)),
    "resize 10": of("Resize", IMAGE, 10, {"mode": "nearest"}, s=floats(1, 1, 2, 0.5)),
    "resize 11": of("Resize", IMAGE, 11, RESIZE, r=np.zeros(0, np.float32), s=floats(1, 1, 2, 2)),
    "resize nearest": of("Resize", IMAGE, 13, {"mode": "nearest"}, r=None, s=floats(1, 1, 1.6, 2)),
    "resize to sizes": of("Resize", IMAGE, 13, RESIZE, r=None, s=None, n=ints(1, 2, 7, 3)),
    "resize corners": of("Resize", IMAGE, 13, {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        r=None, s=None, n=ints(1, 2, 9, 11)),
    "resize floor": of("Resize", IMAGE, 13, {"mode": "nearest", "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric"}, r=None, s=floats(1, 1, 3, 2)),
    "resize axes": of("Resize", IMAGE, 18, {**RESIZE, "axes": [3, 2], "antialias": 0}, r=None, s=floats(2, 3)),
    "resize symmetric": of("Resize", IMAGE, 19, {"mode": "linear", "coordinate_transformation_mode":
        "half_pixel_symmetric"}, r=None, s=floats(1, 1, 1.5, 2.2)),
    "cast like": of("CastLike", (1, 4), c=normal(1, dtype=np.float32)),
    "dropout old": plain("Dropout", (1, 4), 10, ratio=0.5),
    # activations
    **{name: plain(name) for name in ("Celu", "HardSigmoid", "Selu", "Softsign", "HardSwish", "Erf", "LeakyRelu")},
    "celu": plain("Celu", alpha=2.5),
    "selu": plain("Selu", alpha=1.2, gamma=0.7),
    "hard sigmoid": plain("HardSigmoid", alpha=0.3, beta=0.1),
    "mish": plain("Mish", (1, 6), 18),
    "gelu": plain("Gelu", (1, 6), 20),
    "gelu tanh": plain("Gelu", (1, 6), 20, approximate="tanh"),
    "abs": plain("Abs"),
    "clip old": plain("Clip", (1, 6), 6, min=-0.5, max=1.0),
    "clip": of("Clip", (1, 6), 13, a=-HALF, b=ONE),
    "clip one end": of("Clip", (1, 6), 13, a=None, b=HALF),
    "clip below": of("Clip", (1, 6), 13, a=ZERO),
    "prelu": of("PRelu", IMAGE, s=normal(2, 1, 1)),
    "prelu one": of("PRelu", (1, 5), s=floats(0.3)),
    "steep": plain("LeakyRelu", alpha=2.5),
    "negative slope": plain("LeakyRelu", alpha=-0.5),
    "thresholded": plain("ThresholdedRelu", alpha=0.0),
    "shrink": plain("Shrink", lambd=0.5, bias=0.5),
    "silu": ([("Sigmoid", ["_"]), ("Mul", ["x", "_"])], (1, 6), {}, 17),
    "gelu by erf": (
        [("Div", ["_", "r"]), ("Erf", ["_"]), ("Add", ["_", "o"]), ("Mul", ["x", "_"]), ("Mul", ["_", "h"])],
        (1, 6), {"r": np.float32(2**0.5), "o": ONE, "h": HALF}, 17,
    ),
    "hard swish by clip": ([("Add", ["_", "t"]), ("Clip", ["_", "z", "s"]), ("Mul", ["x", "_"]), ("Div", ["_", "s"])],
        (1, 6), {"t": floats(3), "z": ZERO, "s": np.float32(6)}, 17),
    "hard swish by two": ([("Div", ["_", "s"], {"output": "d"}), ("Add", ["d", "h"]), ("Relu", ["_"], {"output": "a"}),
        ("Sub", ["d", "h"]), ("Relu", ["_"]), ("Sub", ["a", "_"]), ("Mul", ["x", "_"])],
        (1, 6), {"h": HALF, "s": np.float32(6)}, 17),
    "hard swish, the other first": ([("Div", ["_", "s"], {"output": "d"}), ("Sub", ["d", "h"]),
        ("Relu", ["_"], {"output": "a"}), ("Add", ["d", "h"]), ("Relu", ["_"]), ("Sub", ["_", "a"]),
        ("Mul", ["x", "_"])], (1, 6), {"h": HALF, "s": np.float32(6)}, 17),
    "log sigmoid": ([("Sigmoid", ["_"]), ("Log", ["_"])], (1, 6), {}, 17),
    "softsign by hand": ([("Abs", ["_"]), ("Add", ["_", "o"]), ("Div", ["x", "_"])], (1, 6), {"o": ONE}, 17),
    "softplus with a threshold": (
        [("Softplus", ["_"], {"output": "s"}), ("Greater", ["x", "t"]), ("Where", ["_", "x", "s"])],
        (1, 6), {"t": np.float32(20)}, 17,
    ),
    "gelu by tanh": (
        [("Mul", ["x", "x"]), ("Mul", ["x", "_"]), ("Mul", ["c", "_"]), ("Add", ["x", "_"]), ("Mul", ["d", "_"]),
            ("Tanh", ["_"]), ("Add", ["o", "_"]), ("Mul", ["x", "_"]), ("Mul", ["h", "_"])],
        (1, 6), {"c": np.float32(0.044715), "d": np.float32((2 / np.pi) ** 0.5), "o": ONE, "h": HALF}, 17,
    ),
    "gelu by tanh and a power": (
        [("Pow", ["x", "e"]), ("Mul", ["_", "c"]), ("Add", ["_", "x"]), ("Mul", ["_", "d"]), ("Tanh", ["_"]),
            ("Add", ["_", "o"], {"output": "g"}), ("Mul", ["x", "h"]), ("Mul", ["_", "g"])],
        (1, 6), {"c": np.float32(0.044715), "d": np.float32((2 / np.pi) ** 0.5), "o": ONE, "h": HALF,
            "e": np.float32(3)}, 17,
    ),
    "softshrink by a sign": (
        [("Abs", ["_"]), ("Greater", ["_", "l"], {"output": "g"}), ("Sign", ["x"]), ("Mul", ["_", "l"]),
            ("Sub", ["x", "_"], {"output": "a"}), ("Mul", ["x", "z"]), ("Where", ["g", "a", "_"])],
        (1, 6), {"l": HALF, "z": ZERO}, 17,
    ),
    # choices
    "max": ([("Relu", ["_"]), ("Max", ["_", "c", "x", "d"])], (1, 4), {"c": normal(1), "d": normal(4)}, 17),
    "min": ([("Tanh", ["_"]), ("Min", ["x", "_"])], (1, 4), {}, 17),
    "max of one": plain("Max"),
    "max pool": plain("MaxPool", IMAGE, kernel_shape=[2, 3], strides=[2, 1], storage_order=0),
    "max pool all": plain("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], dilations=[1, 2],
        ceil_mode=1),
    "max pool same": plain("MaxPool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    "max pool after relu": ([("Conv", ["_", "k"]), ("Relu", ["_"]), ("MaxPool", ["_"], {"kernel_shape": [2, 2]})],
        IMAGE, {"k": K}, 17),
    "global max": plain("GlobalMaxPool", IMAGE),
    "reduce max": plain("ReduceMax", (2, 3, 4), 13, axes=[0, 2], keepdims=0),
    "reduce max by input": of("ReduceMax", (2, 3, 4), 18, a=ints(-1)),
    "reduce min": plain("ReduceMin", (2, 5), 13, axes=[1]),
    "reduce L1": plain("ReduceL1", (2, 5), 13, axes=[1]),
    "top k": ([("TopK", ["_", "k"], {"outputs": ["v", "i"]})], (2, 5), {"k": ints(3)}, 17),
    "top k smallest": ([("TopK", ["_", "k"], {"outputs": ["v", "i"], "axis": 0, "largest": 0})],
        (4, 2), {"k": ints(2)}, 11),
    "top k old": ([("TopK", ["_"], {"outputs": ["v", "i"], "k": 1})], (2, 5), {}, 9),
    "where leaky": ([("Greater", ["_", "z"]), ("Mul", ["x", "h"], {"output": "b"}), ("Where", ["t0", "x", "b"])],
        (1, 4), {"z": ZERO, "h": HALF}, 17),
    "where not": ([("LessOrEqual", ["_", "z"]), ("Not", ["_"]), ("Where", ["_", "x", "z"])], (1, 4), {"z": ZERO}, 17),
    "where constant": ([("Where", ["m", "x", "c"])], (2, 3), {"m": np.array([[True], [False]]), "c": normal(3)}, 17),
    "mask": ([("GreaterOrEqual", ["x", "h"]), ("Cast", ["_"], {"to": 1, "output": "m"}), ("Sub", ["x", "h"]),
        ("Mul", ["_", "m"])], (1, 4), {"h": HALF}, 17),
    "other mask": ([("Less", ["x", "z"]), ("Cast", ["_"], {"to": 1}), ("Sub", ["o", "_"]), ("Mul", ["x", "_"])],
        (1, 4), {"z": ZERO, "o": ONE}, 17),
    "and true": ([("Greater", ["x", "z"]), ("And", ["_", "y"]), ("Where", ["_", "x", "z"])],
        (1, 4), {"z": ZERO, "y": np.array(True)}, 17),
    # scikit-learn
    "scaler": plain("Scaler", (1, 3), **ML, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 1.5]),
    "regressor": plain("LinearRegressor", (1, 3), **ML, coefficients=[1.0, 2, 3, 4, 5, 6], intercepts=[0.5, -1.0],
        targets=2),
    "features": of("ArrayFeatureExtractor", (2, 4), 17, ML, i=ints(3, 1)),
    "vectorizer": ([("Relu", ["_"]), ("FeatureVectorizer", ["_", "x"], {**ML, "inputdimensions": [3, 3]})],
        (1, 3), {}, 17),
    # constants
    "computed weights": (
        [("Transpose", ["w"]), ("ReduceL2", ["_"], {"axes": [0]}), ("Div", ["w", "_"], {"output": "n"}),
            ("Relu", ["n"]), ("MatMul", ["_", "w"]), ("Tanh", ["_"]), ("Softplus", ["_"]), ("Exp", ["_"]),
            ("Log", ["_"]), ("Sqrt", ["_"]), ("Reciprocal", ["_"]), ("Neg", ["_"]), ("Abs", ["_"]),
            ("MatMul", ["x", "_"])],
        (1, 4), {"w": normal(4, 4)}, 17,
    ),
    "computed shapes": (
        [("Shape", ["x"], {"output": "s"}), ("Gather", ["s", "one"]), ("Mul", ["_", "two"]), ("Div", ["_", "two"]),
            ("Mod", ["_", "five"]), ("Max", ["_", "one"]), ("Min", ["_", "five"]), ("Add", ["_", "one"]),
            ("Unsqueeze", ["_", "zeros"]), ("ConstantOfShape", ["_"], {"output": "ones"}),
            ("Range", ["zero", "five", "two"]), ("ReduceSum", ["_", "zeros"]), ("Concat", ["_", "minus"], {"axis": 0}),
            ("Slice", ["_", "zeros", "minus"]), ("Concat", ["_", "minus"], {"axis": 0}), ("Abs", ["_"]),
            ("Equal", ["_", "one"]), ("Where", ["_", "minus", "threes"]), ("Reshape", ["x", "_"])],
        (1, 3), {"one": np.array(1), "two": np.array(2), "five": np.array(5), "zero": np.array(0), "zeros": ints(0),
            "minus": ints(-1), "threes": ints(3, 3)}, 17,
    ),
    "integers towards zero": ([("Div", ["a", "b"]), ("Cast", ["_"], {"to": 1}), ("Add", ["x", "_"])],
        (1, 4), {"a": ints(-7, 7, -7, 7), "b": ints(2, -2, -2, 2)}, 17),
    "loop of truth": ([("Less", ["a", "b"]), ("Not", ["_"]), ("Or", ["_", "f"]), ("And", ["_", "t"]),
        ("Where", ["_", "x", "c"])], (1, 3), {"a": ints(1, 5, 3), "b": ints(2, 2, 9), "c": normal(3),
            "f": np.array(False), "t": np.array(True)}, 17),
    "computed by ranges": ([("Range", ["a", "b", "s"]), ("CumSum", ["_", "z"]), ("Tile", ["_", "r"]),
        ("Add", ["x", "_"])], (1, 6), {"a": ZERO, "b": np.float32(1.4), "s": HALF, "z": np.array(0), "r": ints(2)}, 17),
    "computed pad": ([("Pad", ["c", "p"]), ("Einsum", ["_", "c"], {"equation": "i,j->ij"}), ("MatMul", ["x", "_"])],
        (1, 5), {"c": normal(3), "p": ints(1, 1)}, 17),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(tmp_path: Path, name: str) -> None:
    nodes, shape, constants, opset = CASES[name]
    agree(tmp_path / "net.onnx", build(nodes, shape, constants, opset), shape, scale=3.0 if "hard" in name else 1.0)


def test_every_operator_has_a_case_and_one_treatment() -> None:
    from tests.readers.test_onnx import CASES as CHAINS
    from tests.readers.test_onnx_products import CASES as PRODUCTS

    tried = {kind for nodes, *_ in [*CASES.values(), *CHAINS.values(), *PRODUCTS.values()] for kind, *_ in nodes}
    apart = {"LinearClassifier", "Normalizer", "RMSNormalization", "Swish", "ZipMap"}  # below, and in the other files
    read = {kind for table in DOMAINS.values() for kind, entry in table.items() if entry.apply is not None}
    assert read - tried - apart == set()
    assert all(OPERATORS[kind].apply is None for kind in REFUSED)
    assert {"Constant", "Range", "Shape", "Size"} <= set(FOLDED)


def silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x.astype(np.float64)))


# Forms that onnxruntime does not run, or no longer does.
OLD: dict[str, tuple[Case, Callable[[Array], Array]]] = {
    "broadcast at an axis": (
        ([("Add", ["_", "c"], {"broadcast": 1, "axis": 1}), ("Mul", ["_", "d"], {"broadcast": 1})],
            (1, 2, 3), {"c": floats(1, 2), "d": floats(3, 4, 5)}, 6),
        lambda x: (x + np.array([[1], [2]])) * np.array([3, 4, 5]),
    ),
    "consumed": (plain("Relu", (1, 3), 1, consumed_inputs=[0]), lambda x: np.maximum(x, 0)),
    "reshape by attribute": (plain("Reshape", (2, 3), 1, shape=[3, 2]), lambda x: x),
    "dropout": (plain("Dropout", (1, 3), 6, is_test=1), lambda x: x),
    "batch norm": (
        of("BatchNormalization", (1, 2), 6, {"is_test": 1, "spatial": 1, "epsilon": 0.0}, s=floats(2, 3),
            b=floats(1, 1), m=floats(0, 1), v=floats(4, 1)),
        lambda x: (x - np.array([0, 1])) * np.array([1, 3]) + 1,
    ),
    "prelu by channels": (
        of("PRelu", (1, 2, 3), 6, s=floats(0.5, 2)), lambda x: np.where(x > 0, x, x * np.array([[0.5], [2]])),
    ),
    "tile along an axis": (of("Tile", (2, 3), 1, n=ints(2), a=ints(1)), lambda x: np.tile(x, (1, 2))),
    "cast by name": (plain("Cast", (1, 3), 5, to="FLOAT"), lambda x: x),
    "pads": (plain("Pad", (1, 3), 1, paddings=[0, 1, 0, 1], value=0.5),
        lambda x: np.pad(x, ((0, 0), (1, 1)), constant_values=0.5)),
    "upsample 1": (plain("Upsample", (1, 1, 2, 2), 1, height_scale=2.0, width_scale=1.0),
        lambda x: x.repeat(2, axis=2)),
    "swish": (plain("Swish", (1, 3), 24, alpha=2.0), lambda x: silu(2.0 * x) / 2.0),
    "gemm on four axes": (
        ([("Conv", ["_", "k"]), ("Gemm", ["_", "V"])], (1, 1, 2, 2), {"k": np.ones((5, 1, 2, 2)), "V": V}, 7),
        lambda x: x.sum() * V.sum(axis=0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_forms_that_runtimes_have_not(tmp_path: Path, name: str) -> None:
    (nodes, shape, constants, opset), function = OLD[name]
    compute_alike(tmp_path / "net.onnx", build(nodes, shape, constants, opset), shape, function)


def test_outputs_that_nobody_needs(tmp_path: Path) -> None:
    nodes: list[Node] = [("MaxPool", ["_"], {"kernel_shape": [2, 2], "outputs": ["v", "i"]}), ("Relu", ["v"])]
    agree(tmp_path / "net.onnx", build(nodes, IMAGE), IMAGE)
    nodes[1] = ("Cast", ["i"], {"to": 1})
    (tmp_path / "net.onnx").write_bytes(build(nodes, IMAGE))
    refuse(tmp_path / "net.onnx", "MaxPool (node 'n0')", "output 2, 'i'", kind=UnsupportedOperator)
    nodes = [("Dropout", ["_"], {"outputs": ["v", "m"]}), ("Where", ["m", "v", "c"])]
    agree(tmp_path / "net.onnx", build(nodes, (1, 3), {"c": normal(3)}), (1, 3))


def test_a_classifier_gives_its_scores(tmp_path: Path) -> None:
    linear = {**ML, "coefficients": [1.0, 2.0, 3.0, -1.0], "intercepts": [0.5, 0.0], "classlabels_ints": [0, 1]}
    nodes: list[Node] = [
        ("LinearClassifier", ["_"], {**linear, "post_transform": "SOFTMAX", "outputs": ["l", "s"]}),
        ("Normalizer", ["s"], {**ML, "norm": "L1"}),
        ("ZipMap", ["_"], {**ML, "classlabels_int64s": [0, 1]}),
    ]
    (tmp_path / "net.onnx").write_bytes(build(nodes, (1, 2)))
    network = load(tmp_path / "net.onnx")
    np.testing.assert_allclose(network.forward([1.0, 1.0]), [3.5, 2.0])
    assert ["SOFTMAX" in network.notes[0], "Normalizer" in network.notes[1]] == [True, True]
    (tmp_path / "net.onnx").write_bytes(build([*nodes[:1], ("Cast", ["l"], {"to": 1})], (1, 2)))
    refuse(tmp_path / "net.onnx", "LinearClassifier", "output 1, 'l'", kind=UnsupportedOperator)


def test_a_logarithm_behind_a_softmax_is_left_out_too(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(build([("Softmax", ["_"]), ("Log", ["_"])], (1, 3)))
    network = load(tmp_path / "net.onnx")
    assert "Softmax" in network.notes[0]
    assert "Log (node 'n1')" in network.notes[1]
    np.testing.assert_array_equal(network.forward([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])


def with_function(body: list[Any], calls: list[Any], domain: str = "mine", attributes: Any = ()) -> bytes:
    """A model of calls of the function f(X) -> Y, from x to the last call's output."""
    model = onnx.ModelProto.FromString(build([("Relu", ["_"])], (1, 4), opset=17))
    model.graph.ClearField("node")
    model.graph.node.extend(calls)
    model.graph.output[0].name = calls[-1].output[0]
    model.opset_import.add(domain=domain, version=1)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    model.functions.append(helper.make_function(domain, "f", ["X"], ["Y"], body, opsets, list(attributes)))
    return bytes(model.SerializeToString())


def test_functions_of_the_model_are_written_out(tmp_path: Path) -> None:
    slope = helper.make_node("LeakyRelu", ["X"], ["T"], name="leak")
    slope.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body = [slope, helper.make_node("Add", ["T", "X"], ["Y"])]
    calls = [
        helper.make_node("f", ["x"], ["a"], domain="mine", slope=0.5),
        helper.make_node("f", ["a"], ["T"], domain="mine", slope=0.25),
    ]
    agree(tmp_path / "net.onnx", with_function(body, calls, attributes=["slope"]), (1, 4))


def test_functions_that_call_themselves_or_standard_operators_anew(tmp_path: Path) -> None:
    call = helper.make_node("f", ["x"], ["y"], domain="mine")
    (tmp_path / "net.onnx").write_bytes(with_function([helper.make_node("f", ["X"], ["Y"], domain="mine")], [call]))
    refuse(tmp_path / "net.onnx", "function 'f'", "too deeply", kind=FileFormatError)
    twice = [helper.make_node("f", ["X"], [name], domain="mine") for name in ("A", "Y")]
    (tmp_path / "net.onnx").write_bytes(with_function(twice, [call]))
    refuse(tmp_path / "net.onnx", "function 'f'", kind=FileFormatError)
    (tmp_path / "net.onnx").write_bytes(with_function([helper.make_node("Relu", ["X"], ["Y"])], [call], "ai.onnx"))
    refuse(tmp_path / "net.onnx", "standard operator 'f' anew", kind=UnsupportedOperator)


REFUSALS: dict[str, tuple[Case, list[str]]] = {
    **{kind: (plain(kind, IMAGE), [f"{kind} (node 'n0')", entry.words]) for kind, entry in REFUSED.items()},
    "powers of a negative constant": (([("Pow", ["c", "_"])], (1, 4), {"c": np.float32(-2)}, 17), ["not positive"]),
    "einsum of three": (([("Einsum", ["x", "x", "x"], {"equation": "ij,jk,kl"})], (4, 4), {}, 17), ["more than two"]),
    "live statistics": (([("BatchNormalization", ["x", "s", "b", "x", "v"])], (2, 2), STATISTICS, 17), ["no bound"]),
    "batch norm that trains": (of("BatchNormalization", (1, 2), 6, **STATISTICS), ["only inference"]),
    "dropout that trains": (plain("Dropout", (1, 3), 6), ["training mode"]),
    "jump": (([("Greater", ["_", "h"]), ("Where", ["_", "x", "z"])], (1, 3), {"h": HALF, "z": ZERO}, 17),
        ["Where (node 'n1')", "jumps"]),
    "comparison as a number": (([("Greater", ["_", "z"]), ("Cast", ["_"], {"to": 1}), ("Add", ["x", "_"])],
        (1, 3), {"z": ZERO}, 17), ["Add (node 'n2')", "comparison"]),
    "comparison as the output": (([("Greater", ["_", "z"])], (1, 3), {"z": ZERO}, 17), ["does not depend"]),
    "hard shrink": (plain("Shrink"), ["jumps"]),
    "thresholded": (plain("ThresholdedRelu"), ["jumps"]),
    "cubic": (of("Resize", IMAGE, 13, {"mode": "cubic"}, r=None, s=floats(1, 1, 2, 2)), ["nearest and linear"]),
    "crop and resize": (of("Resize", IMAGE, 13, {"coordinate_transformation_mode": "tf_crop_and_resize"},
        r=np.zeros(8, np.float32), s=floats(1, 1, 2, 2)), ["Resize", "tf_crop_and_resize"]),
    "antialias": (of("Resize", IMAGE, 18, {**RESIZE, "antialias": 1}, r=None, s=floats(1, 1, 2, 2)), ["antialias"]),
    "resize huge": (of("Resize", IMAGE, 13, r=None, s=floats(1, 1, 1e6, 1e6)), ["beyond the limit"]),
    "resize to nothing": (of("Resize", IMAGE, 13, r=None, s=floats(1, 1, 0.01, 1)), ["cannot be resized"]),
    "expand huge": (of("Expand", (1, 3), s=ints(1 << 40, 3)), ["beyond the limit"]),
    "tile huge": (of("Tile", (1, 3), r=ints(1 << 40, 3)), ["beyond the limit"]),
    "range huge": (([("Range", ["a", "b", "c"]), ("Add", ["x", "_"])], (1, 3),
        {"a": ZERO, "b": np.float32(1e30), "c": ONE}, 17), ["beyond the limit"]),
    "range endless": (([("Range", ["a", "b", "a"]), ("Add", ["x", "_"])], (1, 3),
        {"a": ZERO, "b": np.float32(1e30)}, 17), ["cannot count"]),
    "constant huge": (([("ConstantOfShape", ["s"]), ("Add", ["x", "_"])], (1, 3), {"s": ints(1 << 20, 1 << 20)}, 17),
        ["beyond the limit"]),
    "product of constants": (([("Einsum", ["c", "c"], {"equation": "i,j->"}), ("Add", ["x", "_"])], (1, 3),
        {"c": normal(1 << 16)}, 17), ["beyond the limit"]),
    "pad huge": (of("Pad", (1, 4), 13, p=ints(0, 1 << 40, 0, 0)), ["Pad", "beyond the limit"]),
    "gather huge": (of("Gather", (1 << 12, 1), 17, {"axis": 1}, i=np.zeros(1 << 12, np.int64)), ["beyond the limit"]),
    "gather outside": (of("Gather", (1, 3), 17, {"axis": 1}, i=ints(3)), ["out of range"]),
    "gather nd outside": (of("GatherND", (1, 3), i=np.array([[0, 9]])), ["do not fit"]),
    "gather nd depth": (of("GatherND", (1, 3), i=np.zeros((1, 3), np.int64)), ["indices or batch_dims"]),
    "gather elements": (of("GatherElements", (1, 3), i=np.zeros((4, 4), np.int64)), ["do not fit"]),
    "slice step": (of("Slice", (1, 3), s=ints(0), e=ints(1), a=ints(0), t=ints(0)), ["a step is 0"]),
    "slice of nothing": (of("Slice", (1, 3), s=ints(2), e=ints(1), a=ints(1)), ["no entries"]),
    "split sizes": (([("Split", ["_", "n"], {"axis": 1, "outputs": ["a", "b"]})], (1, 6), {"n": ints(2, 3)}, 13),
        ["cannot be split"]),
    "split equally": (([("Split", ["_"], {"axis": 1, "outputs": ["a", "b"]})], (1, 5), {}, 13), ["equal parts"]),
    "concat": (([("Concat", ["x", "c"], {"axis": 1})], (1, 5), {"c": normal(2, 5)}, 17), ["do not fit together"]),
    "concat ranks": (([("Concat", ["x", "c"], {"axis": 1})], (1, 5), {"c": normal(5)}, 17), ["do not fit together"]),
    "top k": (([("TopK", ["_", "k"], {"outputs": ["v", "i"]})], (2, 5), {"k": ints(9)}, 17), ["takes 9 of 5"]),
    "top k indices": (([("TopK", ["_", "k"], {"outputs": ["", "i"]})], (2, 5), {"k": ints(2)}, 17), ["output 2"]),
    "einsum letters": (plain("Einsum", (2, 3), equation="i->i"), ["letters"]),
    "einsum output": (plain("Einsum", (2, 3), equation="ij->k"), ["does not follow"]),
    "einsum huge": (of("Einsum", (1 << 10, 1), 17, {"equation": "ij,kl->ik"}, W=normal(1 << 13, 8)), ["beyond"]),
    "depth": (plain("DepthToSpace", IMAGE, blocksize=2), ["2 channels"]),
    "depth of a matrix": (plain("DepthToSpace", (1, 4), blocksize=2), ["do not fit"]),
    "space": (plain("SpaceToDepth", IMAGE, blocksize=2), ["do not fit"]),
    "clip ends": (of("Clip", (1, 6), 13, a=normal(6)), ["one number"]),
    "clip live": (([("Relu", ["_"]), ("Clip", ["x", "_"])], (1, 6), {}, 13), ["depends on the input"]),
    "classifier of one row": (plain("LinearClassifier", (1, 2), **ML, coefficients=[1.0, 2.0], classlabels_ints=[0, 1],
        outputs=["l", "s"]), ["coefficients"]),
    "normalizer": (plain("Normalizer", (1, 2), **ML, norm="L2"), ["slope has no bound"]),
    "imputer": (plain("Imputer", (1, 2), **ML), ["Imputer", "jumps"]),
    "trees": (plain("TreeEnsembleRegressor", (1, 2), **ML), ["trees"]),
    "unknown in the domain": (plain("Relu", (1, 2), **ML), ["docs/operators.md"]),
    "range of the input": (([("Range", ["x", "x", "x"])], (1,), {}, 17), ["only supported on constants"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_name_the_node_in_one_line(tmp_path: Path, name: str) -> None:
    (nodes, shape, constants, opset), words = REFUSALS[name]
    (tmp_path / "net.onnx").write_bytes(build(nodes, shape, constants, opset))
    refuse(tmp_path / "net.onnx", *words, kind=FileFormatError)


def test_constants_may_not_take_for_ever(tmp_path: Path) -> None:
    square = normal(1 << 10, 1 << 10)
    nodes = [("MatMul", ["w", "w"]), *([("MatMul", ["_", "w"])] * 30), ("MatMul", ["x", "_"])]
    (tmp_path / "net.onnx").write_bytes(build(nodes, (1, 1 << 10), {"w": square}))
    refuse(tmp_path / "net.onnx", "take too long to compute", kind=FileFormatError)


def test_damaged_graphs(tmp_path: Path) -> None:
    for name in ("resize to sizes", "split", "slice", "computed shapes", "where leaky", "top k", "gather nd batch"):
        nodes, shape, constants, opset = CASES[name]
        survive(tmp_path / "net.onnx", build(nodes, shape, constants, opset), cuts=10, flips=60)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("nets/resnet_2b.onnx", (1, 3, 32, 32)),
        ("nets/mnist_conv_maxpool.onnx", (1, 1, 28, 28)),
        ("nets/Convnet_avgpool.onnx", (1, 1, 28, 28)),
    ],
)
def test_real_networks(name: str, shape: tuple[int, ...]) -> None:
    path = data_file(name)
    network = load(path)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for _ in range(3):
        x = RNG.random(size=shape).astype(np.float32)
        (expected,) = session.run(None, {session.get_inputs()[0].name: x.reshape(_shape(session))})
        np.testing.assert_allclose(network.forward(x.reshape(-1)), expected.reshape(-1), rtol=1e-4, atol=1e-4)


def _shape(session: Any) -> list[int]:
    return [n if isinstance(n, int) else 1 for n in session.get_inputs()[0].shape]
