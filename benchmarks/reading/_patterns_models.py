"""Files that are odd as files: several outputs, open dimensions, types, functions, control flow; and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, parser

from benchmarks.reading._pattern import Pattern, lines, scalar, weight, whole

V, IMAGE = (1, 4), (1, 2, 4, 4)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
W, U = weight(4, 6), weight(6, 3)
MLP = lines("Z = MatMul(X, W)", "R = Relu(Z)", "Y = MatMul(R, U)")
BOTH = {"W": W, "U": U}


def model_patterns() -> Iterator[Pattern]:
    yield from _outputs()
    yield from _inputs()
    yield from _types()
    yield from _refused()
    yield from _control()


def _outputs() -> Iterator[Pattern]:
    label = lines(MLP, "L = ArgMax <axis=1> (Y)")
    scores = lines("Z = MatMul(X, W)", "R = Relu(Z)", "S = MatMul(R, U)")
    yield Pattern("label_and_scores", 13, V, label, BOTH, outputs=(("L", INT64), ("Y", FLOAT)))
    yield Pattern(
        "two_outputs_named",
        13,
        V,
        lines(MLP, "B = Tanh(R)"),
        BOTH,
        outputs=(("Y", FLOAT), ("B", FLOAT)),
        output="B",
        given="B",
    )
    yield Pattern(
        "two_outputs_not_named",
        13,
        V,
        lines(MLP, "B = Tanh(R)"),
        BOTH,
        outputs=(("Y", FLOAT), ("B", FLOAT)),
        refused=("onnx_output", "onnx-output"),
    )
    yield Pattern("output_not_there", 13, V, MLP, BOTH, given="Q", refused=("Q",))
    yield Pattern("dead_branch", 13, V, lines(MLP, "E = Exp(Z)"), BOTH)
    yield Pattern("softmax", 13, V, lines(scores, "Y = Softmax <axis=-1> (S)"), BOTH, final="softmax")
    yield Pattern("log_softmax", 11, V, lines(scores, "Y = LogSoftmax <axis=1> (S)"), BOTH, final="log_softmax")
    yield Pattern(
        "softmax_in_the_middle",
        13,
        V,
        lines("Z = MatMul(X, W)", "S = Softmax(Z)", "Y = MatMul(S, U)"),
        BOTH,
        refused=("Softmax",),
    )


def _inputs() -> Iterator[Pattern]:
    def listed(model: Any) -> None:
        for tensor in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))

    flat = lines("F = Flatten(X)", "Z = MatMul(F, W)", "Y = Relu(Z)")
    yield Pattern("symbolic_batch", 13, V, MLP, BOTH, dims=("batch", 4))
    yield Pattern("symbolic_batch_image", 11, IMAGE, flat, {"W": weight(32, 3)}, dims=("N", 2, 4, 4))
    yield Pattern("batch_zero", 9, V, MLP, BOTH, dims=(0, 4))
    yield Pattern("batch_minus_one", 9, V, MLP, BOTH, dims=(-1, 4))
    yield Pattern("initializers_as_inputs", 7, V, MLP, BOTH, edit=listed)
    yield Pattern("no_batch_axis", 13, (4,), MLP, BOTH, dims=(4,))
    yield Pattern("open_image_size", 13, (1, 2, 1, 1), "Y = Relu(X)", dims=("N", 2, "H", "W"))  # taken as 1


def _types() -> Iterator[Pattern]:
    double: dict[str, Any] = {"W": W.astype(np.float64), "U": U.astype(np.float64)}
    half: dict[str, Any] = {"W": W.astype(np.float16), "U": U}
    yield Pattern("double", 13, V, MLP, double, kind=TensorProto.DOUBLE, outputs=(("Y", TensorProto.DOUBLE),))
    yield Pattern(
        "half_weights", 13, V, lines("V = Cast <to=1> (W)", "Z = MatMul(X, V)", "R = Relu(Z)", "Y = MatMul(R, U)"), half
    )
    yield Pattern(
        "cast_input",
        9,
        V,
        lines("D = Cast <to=11> (X)", "E = Cast <to=1> (D)", "Z = MatMul(E, W)", "Y = Relu(Z)"),
        {"W": W},
    )
    yield Pattern(
        "cast_to_whole_numbers",
        13,
        V,
        lines("D = Cast <to=7> (X)", "E = Cast <to=1> (D)", "Y = MatMul(E, W)"),
        {"W": W},
        refused=("Cast",),
    )
    yield Pattern(
        "constant_nodes",
        12,
        V,
        lines(
            "K = Constant <value_float=2.0> ()",
            "L = Constant <value_floats=[1.0, 2.0, 3.0, 4.0]> ()",
            "M = Constant <value = float[1, 4] {0.5, 1.0, -1.0, 2.0}> ()",
            "A = Mul(X, K)",
            "B = Add(A, L)",
            "C = Sub(B, M)",
            "Y = Relu(C)",
        ),
    )
    yield Pattern("dropout", 7, V, lines("Z = MatMul(X, W)", "D = Dropout <ratio=0.5> (Z)", "Y = Relu(D)"), {"W": W})
    yield Pattern(
        "dropout_inputs",
        13,
        V,
        lines("Z = MatMul(X, W)", "D, M = Dropout(Z, R, T)", "Y = Relu(D)"),
        {"W": W, "R": scalar(0.5), "T": np.array(False)},
    )
    yield Pattern("opset_21", 21, V, MLP, BOTH)
    yield Pattern(
        "quantized",
        13,
        V,
        lines("Q = QuantizeLinear(X, S, Z)", "D = DequantizeLinear(Q, S, Z)", "Y = MatMul(D, W)"),
        {"W": W, "S": scalar(0.1), "Z": np.array(0, dtype=np.int8)},
        refused=("QuantizeLinear",),
    )


def _refused() -> Iterator[Pattern]:
    two, four = weight(2), weight(4)
    yield Pattern(
        "instance_normalization",
        9,
        IMAGE,
        "Y = InstanceNormalization(X, S, B)",
        {"S": two, "B": two},
        refused=("InstanceNormalization",),
    )
    yield Pattern(
        "layer_normalization",
        17,
        V,
        "Y = LayerNormalization(X, S, B)",
        {"S": four, "B": four},
        refused=("LayerNormalization",),
    )
    yield Pattern(
        "group_normalization",
        21,
        IMAGE,
        "Y = GroupNormalization <num_groups=1> (X, S, B)",
        {"S": two, "B": two},
        refused=("GroupNormalization",),
    )
    yield Pattern("lrn", 13, IMAGE, "Y = LRN <size=3> (X)", refused=("LRN",))
    yield Pattern(
        "attention",
        13,
        (1, 3, 4),
        lines(
            "Q = MatMul(X, W)",
            "K = Transpose <perm=[0, 2, 1]> (X)",
            "S = MatMul(Q, K)",
            "P = Softmax <axis=-1> (S)",
            "Y = MatMul(P, X)",
        ),
        {"W": weight(4, 4)},
        refused=("MatMul", "Softmax"),
    )
    yield Pattern(
        "mean_variance_normalization",
        13,
        IMAGE,
        "Y = MeanVarianceNormalization(X)",
        refused=("MeanVarianceNormalization",),
    )
    yield Pattern("cum_sum", 13, V, "Y = CumSum(X, A)", {"A": np.array(1, dtype=np.int64)})
    yield Pattern("non_zero", 13, V, lines("N = NonZero(X)", "Y = Cast <to=1> (N)"), refused=("NonZero",))
    yield Pattern(
        "gather_live_index",
        13,
        V,
        lines("I = ArgMax <axis=1, keepdims=0> (X)", "Y = Gather(T, I)"),
        {"T": weight(4, 2)},
        refused=("ArgMax", "Gather"),
    )
    yield Pattern("unknown_domain", 13, V, "Y = Relu(X)", edit=_foreign, refused=("domain",))


def _foreign(model: Any) -> None:
    model.graph.node[0].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def _control() -> Iterator[Pattern]:
    def branches(model: Any) -> None:
        outputs = [helper.make_tensor_value_info("B", FLOAT, [1, 4])]
        sides = {
            "then_branch": helper.make_graph([helper.make_node("Relu", ["X"], ["B"])], "then", [], outputs),
            "else_branch": helper.make_graph([helper.make_node("Tanh", ["X"], ["B"])], "else", [], outputs),
        }
        _replace(model, helper.make_node("If", ["C"], ["Y"], name="If_2", **sides))

    def loop(model: Any) -> None:
        body = helper.make_graph(
            [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["v"], ["r"])],
            "body",
            [
                helper.make_tensor_value_info(n, k, s)
                for n, k, s in (("i", INT64, []), ("go", TensorProto.BOOL, []), ("v", FLOAT, [1, 4]))
            ],
            [
                helper.make_tensor_value_info("on", TensorProto.BOOL, []),
                helper.make_tensor_value_info("r", FLOAT, [1, 4]),
            ],
        )
        _replace(model, helper.make_node("Loop", ["T", "", "X"], ["Y"], name="Loop_0", body=body))

    def function(model: Any) -> None:
        nodes = [parser.parse_node("A = MatMul(x, w)"), parser.parse_node("y = Relu(A)")]
        made = helper.make_function("local", "Dense", ["x", "w"], ["y"], nodes, [helper.make_opsetid("", 13)])
        model.functions.append(made)
        model.opset_import.append(helper.make_opsetid("local", 1))
        _replace(model, helper.make_node("Dense", ["X", "W"], ["Y"], domain="local", name="Dense_0"))

    live = lines("S = ReduceSum <keepdims=0> (X)", "C = Greater(S, N)", "Y = Relu(X)")
    fixed = lines("C = Greater(M, N)", "K = Identity(C)", "Y = Relu(X)")
    yield Pattern("if_of_the_input", 13, V, live, {"N": scalar(0.0)}, edit=branches, refused=("If",))
    yield Pattern("if_of_constants", 13, V, fixed, {"M": scalar(1.0), "N": scalar(0.0)}, edit=branches, refused=("If",))
    yield Pattern("loop", 13, V, "Y = Relu(X)", {"T": np.array(2, dtype=np.int64)}, edit=loop, refused=("Loop",))
    yield Pattern("local_function", 15, V, "Y = MatMul(X, W)", {"W": W}, edit=function)
    yield Pattern("sparse_weights", 13, V, "Y = MatMul(X, W)", {"W": W}, edit=_sparse, refused=("sparse",))


def _replace(model: Any, node: Any) -> None:
    """Put the node in the place of the last one."""
    del model.graph.node[-1]
    model.graph.node.append(node)


def _sparse(model: Any) -> None:
    values = numpy_helper.from_array(np.ones(2, dtype=np.float32), "W")
    places = numpy_helper.from_array(whole(0, 5), "places")
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 6]))
