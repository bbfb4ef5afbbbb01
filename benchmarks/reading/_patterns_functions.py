"""Graphs with activations, as one operator or as exporters write them in several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.reading._pattern import Pattern, lines, scalar, weight

V = (1, 4)
W = weight(4, 6)


def function_patterns() -> Iterator[Pattern]:
    yield from _piecewise()
    yield from _smooth()
    yield from _written_out()


def _of(name: str, opset: int, *nodes: str, refused: tuple[str, ...] = (), **constants: Any) -> Pattern:
    """A function of Z, with a linear map before and after it; its value is F."""
    content = {"W": W, "U": weight(6, 3), **constants}
    return Pattern(
        name, opset, V, lines("Z = MatMul(X, W)", *nodes, "Y = MatMul(F, U)"), content, refused=refused, scale=3.0
    )


def _piecewise() -> Iterator[Pattern]:
    yield _of("max_two", 8, "B = Relu(Z)", "F = Max(B, K)", K=scalar(0.5))
    yield _of("max_branches", 12, "B = Neg(Z)", "C = Add(Z, K)", "F = Max(Z, B, C)", K=weight(6))
    yield _of("max_of_one", 13, "F = Max(Z)")
    yield _of("min_two", 13, "B = Mul(Z, K)", "F = Min(Z, B)", K=scalar(0.25))
    yield _of("min_three_with_constant", 13, "B = Neg(Z)", "F = Min(Z, B, K)", K=weight(1, 6))
    yield _of("max_broadcast", 13, "B = ReduceMean <axes=[1], keepdims=1> (Z)", "F = Max(Z, B)")
    yield _of("clip_attributes", 6 + 1, "F = Clip <min=-0.5, max=1.5> (Z)")
    yield _of("clip_inputs", 11, "F = Clip(Z, A, B)", A=scalar(-0.5), B=scalar(1.5))
    yield _of("clip_lower_only", 13, "F = Clip(Z, A)", A=scalar(0.0))
    yield _of("clip_upper_only", 12, "F = Clip(Z, , B)", B=scalar(1.5))
    yield _of("clip_attribute_one_side", 9, "F = Clip <max=1.5> (Z)")
    yield _of("hard_sigmoid", 7, "F = HardSigmoid <alpha=0.25, beta=0.4> (Z)")
    yield _of("hard_sigmoid_default", 13, "F = HardSigmoid(Z)")
    yield _of("hard_swish", 14, "F = HardSwish(Z)")
    yield _of(
        "hard_swish_written",
        11,
        "A = Add(Z, T)",
        "B = Clip(A, N, S)",
        "C = Mul(Z, B)",
        "F = Div(C, S)",
        T=scalar(3.0),
        N=scalar(0.0),
        S=scalar(6.0),
    )
    yield _of("prelu", 9, "F = PRelu(Z, A)", A=weight(6))
    yield _of("prelu_one_slope", 16, "F = PRelu(Z, A)", A=np.array([1.7], dtype=np.float32))
    yield _of("abs", 13, "F = Abs(Z)")
    yield _of("leaky_relu", 16, "F = LeakyRelu(Z)")
    yield _of("thresholded_relu_zero", 10, "F = ThresholdedRelu <alpha=0.0> (Z)")
    yield _of("thresholded_relu_jump", 10, "F = ThresholdedRelu <alpha=0.5> (Z)", refused=("ThresholdedRelu",))
    yield _of("shrink_soft", 9, "F = Shrink <bias=0.5, lambd=0.5> (Z)")
    yield _of("shrink_hard", 9, "F = Shrink <lambd=0.5> (Z)", refused=("Shrink",))
    yield _of("where_relu", 9, "C = Greater(Z, N)", "F = Where(C, Z, N)", N=scalar(0.0))
    yield _of(
        "where_jump",
        16,
        "C = GreaterOrEqual(Z, N)",
        "F = Where(C, Z, A)",
        N=scalar(0.0),
        A=scalar(1.0),
        refused=("Where", "jump", "continuous"),
    )


def _smooth() -> Iterator[Pattern]:
    yield _of("sigmoid_tanh", 7, "A = Sigmoid(Z)", "F = Tanh(A)")
    yield _of("elu", 7, "F = Elu <alpha=0.7> (Z)")
    yield _of("selu", 7, "F = Selu(Z)")
    yield _of("selu_own_numbers", 13, "F = Selu <alpha=1.2, gamma=0.9> (Z)")
    yield _of("celu", 12, "F = Celu <alpha=0.5> (Z)")
    yield _of("softsign", 7, "F = Softsign(Z)")
    yield _of("softplus", 7, "F = Softplus(Z)")
    yield _of("mish", 18, "F = Mish(Z)")
    yield _of("gelu", 20, "F = Gelu(Z)")
    yield _of("gelu_tanh", 20, 'F = Gelu <approximate="tanh"> (Z)')
    yield _of("exp", 13, "F = Exp(Z)", refused=("Exp",))
    yield _of("sqrt", 13, "A = Abs(Z)", "F = Sqrt(A)", refused=("Sqrt",))
    yield _of("sign", 13, "F = Sign(Z)", refused=("Sign",))
    yield _of("floor", 13, "F = Floor(Z)", refused=("Floor",))


def _written_out() -> Iterator[Pattern]:
    half, one, root = scalar(0.5), scalar(1.0), scalar(float(np.sqrt(2.0)))
    yield _of(
        "softplus_with_threshold", 18, "S = Softplus(Z)", "C = Greater(Z, T)", "F = Where(C, Z, S)", T=scalar(20.0)
    )
    yield _of(
        "gelu_erf_first",
        13,
        "A = Div(Z, R)",
        "B = Erf(A)",
        "C = Add(B, O)",
        "D = Mul(Z, C)",
        "F = Mul(D, H)",
        R=root,
        O=one,
        H=half,
    )
    yield _of(
        "gelu_half_first",
        9,
        "H2 = Mul(Z, H)",
        "A = Mul(Z, R)",
        "B = Erf(A)",
        "C = Add(O, B)",
        "F = Mul(H2, C)",
        R=scalar(float(np.sqrt(0.5))),
        O=one,
        H=half,
    )
    yield _of(
        "gelu_tanh_written",
        13,
        "Q = Mul(Z, Z)",
        "P = Mul(Z, Q)",
        "A = Mul(K, P)",
        "B = Add(Z, A)",
        "C = Mul(B, S)",
        "D = Tanh(C)",
        "E = Add(D, O)",
        "G = Mul(Z, E)",
        "F = Mul(G, H)",
        K=scalar(0.044715),
        S=scalar(float(np.sqrt(2 / np.pi))),
        O=one,
        H=half,
    )
    yield _of("silu_written", 13, "S = Sigmoid(Z)", "F = Mul(Z, S)")
    yield _of("silu_other_order", 8, "S = Sigmoid(Z)", "F = Mul(S, Z)")
    yield _of("mish_written", 13, "A = Softplus(Z)", "B = Tanh(A)", "F = Mul(Z, B)")
    yield _of("log_sigmoid_written", 13, "A = Mul(Z, H)", "S = Sigmoid(A)", "F = Log(S)", H=scalar(0.25))
    yield _of("softsign_written", 13, "A = Abs(Z)", "B = Add(A, O)", "F = Div(Z, B)", O=one)
    yield _of("relu6_by_min_max", 13, "A = Max(Z, N)", "F = Min(A, S)", N=scalar(0.0), S=scalar(6.0))
    yield _of("quick_gelu_written", 13, "A = Mul(Z, K)", "S = Sigmoid(A)", "F = Mul(Z, S)", K=scalar(1.702))
    yield _of(
        "product_of_branches",
        13,
        "S = Sigmoid(Z)",
        "V = MatMul(X, G)",
        "F = Mul(V, S)",
        G=weight(4, 6, seed=2),
        refused=("Mul",),
    )
    yield _of("square", 13, "F = Mul(Z, Z)", refused=("Mul",))
    yield _of("quotient", 13, "S = Sigmoid(Z)", "F = Div(Z, S)", refused=("Div",))
