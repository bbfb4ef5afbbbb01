"""Graphs that join, cut, pick and reshape."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.reading._pattern import Pattern, lines, real, scalar, weight, whole

V, IMAGE = (1, 4), (1, 2, 4, 4)
# Two branches of six numbers.
FORK = lines("A = MatMul(X, W)", "P = MatMul(X, V)", "B = Relu(P)")
W, V6 = weight(4, 6), weight(4, 6, seed=1)


def join_patterns() -> Iterator[Pattern]:
    yield from _joins()
    yield from _cuts()
    yield from _shapes()
    yield from _products()


def _joins() -> Iterator[Pattern]:
    two = {"W": W, "V": V6}
    yield Pattern("add_residual", 7, V, lines(FORK, "Y = Add(A, B)"), two)
    yield Pattern(
        "add_residual_of_input", 13, V, lines("A = MatMul(X, W)", "B = Relu(A)", "Y = Add(B, X)"), {"W": weight(4, 4)}
    )
    yield Pattern(
        "add_broadcast_branches",
        14,
        V,
        lines(FORK, "M = ReduceSum <keepdims=1> (B, AXES)", "Y = Add(A, M)"),
        {**two, "AXES": whole(1)},
    )
    yield Pattern("sub_branches", 8, V, lines(FORK, "Y = Sub(A, B)"), two)
    yield Pattern(
        "add_constants", 13, V, lines(FORK, "C = Add(K, A)", "Y = Sub(L, C)"), {**two, "K": weight(6), "L": scalar(1.5)}
    )
    yield Pattern("add_same_twice", 13, V, lines("A = MatMul(X, W)", "B = Relu(A)", "Y = Add(B, B)"), {"W": W})
    yield Pattern("sum_of_three", 8, V, lines(FORK, "C = Tanh(P)", "Y = Sum(A, B, C)"), two)
    yield Pattern("sum_of_one", 13, V, lines("A = MatMul(X, W)", "Y = Sum(A)"), {"W": W})
    yield Pattern("mean_of_three", 13, V, lines(FORK, "Y = Mean(A, B, K)"), {**two, "K": weight(6)})
    yield Pattern(
        "concat_axis_1",
        11,
        V,
        lines(FORK, "C = Concat <axis=1> (A, B)", "Y = MatMul(C, U)"),
        {**two, "U": weight(12, 3)},
    )
    yield Pattern("concat_last_axis", 13, V, lines(FORK, "C = Concat <axis=-1> (B, X, A)", "Y = Relu(C)"), two)
    yield Pattern(
        "concat_with_constant", 13, V, lines(FORK, "Y = Concat <axis=1> (A, K, B)"), {**two, "K": weight(1, 2)}
    )
    yield Pattern(
        "concat_channels",
        12,
        IMAGE,
        lines("A = Conv(X, W)", "B = Relu(X)", "Y = Concat <axis=1> (A, B)"),
        {"W": weight(3, 2, 1, 1)},
    )


def _cuts() -> Iterator[Pattern]:
    six = {"W": W}
    yield Pattern(
        "split_attribute",
        11,
        V,
        lines(
            "A = MatMul(X, W)", "B, C = Split <axis=1, split=[2, 4]> (A)", "D = Relu(C)", "Y = Concat <axis=1> (D, B)"
        ),
        six,
    )
    yield Pattern(
        "split_equal",
        9,
        V,
        lines("A = MatMul(X, W)", "B, C, D = Split <axis=-1> (A)", "E = Sub(B, C)", "Y = Add(E, D)"),
        six,
    )
    yield Pattern(
        "split_input",
        13,
        V,
        lines("A = MatMul(X, W)", "B, C = Split <axis=1> (A, S)", "D = Relu(C)", "Y = Concat <axis=1> (D, B)"),
        {**six, "S": whole(2, 4)},
    )
    yield Pattern(
        "split_num_outputs",
        18,
        (1, 5),
        lines("B, C = Split <axis=1, num_outputs=2> (X)", "D = Relu(C)", "Y = Concat <axis=1> (D, B)"),
    )
    yield Pattern(
        "slice_attributes",
        9,
        V,
        lines("A = MatMul(X, W)", "B = Slice <axes=[1], starts=[1], ends=[-1]> (A)", "Y = Relu(B)"),
        six,
    )
    yield Pattern(
        "slice_inputs",
        10,
        V,
        lines("A = MatMul(X, W)", "B = Slice(A, S, E, D)", "Y = Relu(B)"),
        {**six, "S": whole(2), "E": whole(100), "D": whole(1)},
    )
    yield Pattern(
        "slice_steps",
        13,
        V,
        lines("A = MatMul(X, W)", "B = Slice(A, S, E, D, T)", "Y = Relu(B)"),
        {**six, "S": whole(0), "E": whole(2**63 - 1), "D": whole(-1), "T": whole(2)},
    )
    yield Pattern(
        "slice_backwards",
        13,
        IMAGE,
        "Y = Slice(X, S, E, D, T)",
        {"S": whole(-1, 3), "E": whole(-(2**63), 0), "D": whole(2, 3), "T": whole(-1, -2)},
    )
    yield Pattern("slice_without_axes", 13, (1, 3), "Y = Slice(X, S, E)", {"S": whole(0, 1), "E": whole(1, 3)})
    yield Pattern(
        "gather_one", 13, IMAGE, lines("A = Gather <axis=1> (X, I)", "Y = Relu(A)"), {"I": np.array(-1, dtype=np.int64)}
    )
    yield Pattern(
        "gather_several", 11, IMAGE, lines("A = Gather <axis=3> (X, I)", "Y = Relu(A)"), {"I": whole(3, 0, 0)}
    )
    yield Pattern(
        "gather_table", 13, IMAGE, "Y = Gather <axis=2> (X, I)", {"I": np.array([[0, 1], [-1, 2]], dtype=np.int32)}
    )
    yield Pattern(
        "gather_nd",
        13,
        IMAGE,
        lines(
            "T = Transpose <perm=[1, 0, 2, 3]> (X)",
            "A = GatherND <batch_dims=0> (T, I)",
            "Y = Transpose <perm=[1, 0, 2, 3]> (A)",
        ),
        {"I": whole(1, 0, 1).reshape(3, 1)},
    )
    yield Pattern(
        "where_constant_condition",
        9,
        V,
        lines(FORK, "Y = Where(C, A, B)"),
        {"W": W, "V": V6, "C": np.array([[True, False, True, True, False, False]])},
    )


def _shapes() -> Iterator[Pattern]:
    yield Pattern(
        "reshape_zero_and_minus_one", 7, IMAGE, lines("A = Reshape(X, S)", "Y = Relu(A)"), {"S": whole(0, -1)}
    )
    yield Pattern(
        "reshape_computed",
        9,
        IMAGE,
        lines(
            "S = Shape(X)",
            "N = Gather <axis=0> (S, I)",
            "U = Unsqueeze <axes=[0]> (N)",
            "C = Concat <axis=0> (U, M)",
            "A = Reshape(X, C)",
            "Y = MatMul(A, W)",
        ),
        {"I": np.array(0, dtype=np.int64), "M": whole(-1), "W": weight(32, 3)},
    )
    yield Pattern(
        "reshape_of_part_of_shape",
        15,
        IMAGE,
        lines("S = Shape <start=0, end=1> (X)", "C = Concat <axis=0> (S, M)", "A = Reshape(X, C)", "Y = MatMul(A, W)"),
        {"M": whole(-1), "W": weight(32, 3)},
    )
    yield Pattern(
        "flatten_and_transpose",
        13,
        IMAGE,
        lines("A = Transpose <perm=[0, 2, 3, 1]> (X)", "B = Flatten(A)", "Y = MatMul(B, W)"),
        {"W": weight(32, 3)},
    )
    yield Pattern(
        "squeeze_attributes",
        11,
        (1, 4, 1),
        lines("A = Squeeze <axes=[2]> (X)", "B = Unsqueeze <axes=[0, 3]> (A)", "Y = Relu(B)"),
    )
    yield Pattern(
        "squeeze_inputs",
        13,
        (1, 4, 1),
        lines("A = Squeeze(X, I)", "B = Unsqueeze(A, J)", "Y = Relu(B)"),
        {"I": whole(-1), "J": whole(0, 3)},
    )
    yield Pattern("squeeze_all", 13, (1, 4, 1), lines("A = Squeeze(X)", "Y = Relu(A)"))
    yield Pattern("expand", 13, (1, 2, 1), lines("A = Expand(X, S)", "Y = Relu(A)"), {"S": whole(2, 1, 3)})
    yield Pattern(
        "expand_of_shape",
        9,
        V,
        lines("A = MatMul(X, W)", "B = Shape(A)", "C = ConstantOfShape <value = float[1] {2.0}> (B)", "Y = Add(A, C)"),
        {"W": W},
    )
    yield Pattern("tile", 13, (1, 2, 2), lines("A = Tile(X, R)", "Y = Relu(A)"), {"R": whole(1, 3, 2)})
    yield Pattern("depth_to_space", 11, (1, 8, 2, 2), "Y = DepthToSpace <blocksize=2> (X)")
    yield Pattern("depth_to_space_crd", 13, (1, 8, 2, 2), 'Y = DepthToSpace <blocksize=2, mode="CRD"> (X)')
    yield Pattern("space_to_depth", 13, IMAGE, "Y = SpaceToDepth <blocksize=2> (X)")
    yield Pattern("top_k_sort", 11, (1, 3, 2), "Y, I = TopK <axis=2, largest=0, sorted=1> (X, K)", {"K": whole(2)})
    yield Pattern(
        "top_k_largest", 13, (1, 5), lines("A, I = TopK (X, K)", "Y = MatMul(A, W)"), {"K": whole(2), "W": weight(2, 3)}
    )
    yield Pattern(
        "reverse_flatten_axis_2", 13, IMAGE, lines("A = Flatten <axis=2> (X)", "Y = MatMul(A, W)"), {"W": weight(16, 3)}
    )


def _products() -> Iterator[Pattern]:
    yield Pattern(
        "matmul_right", 9, V, lines("A = MatMul(X, W)", "B = Relu(A)", "Y = MatMul(B, U)"), {"W": W, "U": weight(6)}
    )
    yield Pattern("matmul_left", 13, (1, 4, 3), lines("A = MatMul(W, X)", "Y = Relu(A)"), {"W": weight(5, 4)})
    yield Pattern("matmul_stacked", 13, (1, 2, 3, 4), lines("A = MatMul(X, W)", "Y = Relu(A)"), {"W": weight(2, 4, 3)})
    yield Pattern(
        "gemm", 7, V, lines("A = Gemm <transB=1> (X, W, B)", "Y = Relu(A)"), {"W": weight(6, 4), "B": weight(6)}
    )
    yield Pattern(
        "gemm_scaled",
        11,
        V,
        lines("A = Gemm <alpha=0.5, beta=2.0> (X, W, B)", "Y = Relu(A)"),
        {"W": W, "B": weight(1, 6)},
    )
    yield Pattern(
        "gemm_from_left", 13, V, lines("A = Gemm <transA=1, transB=1> (W, X)", "Y = Relu(A)"), {"W": weight(4, 5)}
    )
    yield Pattern(
        "gemm_on_four_axes",
        9,
        IMAGE,
        lines("A = Flatten(X)", "R = Reshape(A, S)", "B = Gemm <transB=1> (R, W, C)", "Y = Relu(B)"),
        {"S": whole(1, 32, 1, 1), "W": weight(5, 32), "C": weight(5)},
        runs=lines("A = Flatten(X)", "B = Gemm <transB=1> (A, W, C)", "Y = Relu(B)"),
    )
    yield Pattern(
        "gemm_of_two_branches",
        13,
        V,
        lines("A = MatMul(X, W)", "B = Relu(A)", "Y = Gemm <beta=0.5> (B, U, A)"),
        {"W": W, "U": weight(6, 6)},
    )
    yield Pattern(
        "einsum",
        12,
        V,
        lines('A = Einsum <equation="bi,oi->bo"> (X, W)', "B = Relu(A)", 'Y = Einsum <equation="bi,i->b"> (B, U)'),
        {"W": weight(6, 4), "U": weight(6)},
    )
    yield Pattern("einsum_transposes", 13, (1, 2, 3), 'Y = Einsum <equation="bij->bji"> (X)')
    yield Pattern(
        "mul_constant",
        7,
        IMAGE,
        lines("A = Mul(X, C)", "B = Relu(A)", "Y = Mul(D, B)"),
        {"C": weight(1, 2, 1, 1), "D": scalar(-3.0)},
    )
    yield Pattern(
        "div_constant",
        7,
        IMAGE,
        lines("A = Sub(X, M)", "B = Div(A, S)", "Y = Relu(B)"),
        {"M": weight(2, 1, 1), "S": real(0.5, 0.25).reshape(2, 1, 1)},
    )
    yield Pattern("neg", 13, V, lines("A = Neg(X)", "B = Relu(A)", "Y = Neg(B)"))
    yield Pattern(
        "identity_chain",
        13,
        V,
        lines(
            "A = Identity(X)",
            "B = Identity(A)",
            "C = MatMul(B, W)",
            "D = Identity(C)",
            "E = Relu(D)",
            "Y = Identity(E)",
        ),
        {"W": W},
    )
