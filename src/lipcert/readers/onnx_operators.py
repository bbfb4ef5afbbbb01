"""The ONNX operators that act on the network's tensor, each as one or two calls on a Chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import Activation
from lipcert.problem.convolution import Window
from lipcert.readers.chain import Chain
from lipcert.readers.linear_maps import same_padding
from lipcert.readers.onnx_constants import cast_type, new_shape, permutation
from lipcert.readers.onnx_operation import Live, Operation
from lipcert.rounding import Array


def apply(op: Operation, chain: Chain) -> None:
    """Append one operation to the chain. Whatever does not fit is told with the node's name."""
    if op.kind not in OPERATORS:
        raise op.refused("applied to the network's tensor; it is only supported on constants")
    try:
        OPERATORS[op.kind](op, chain)
    except UnsupportedOperator as error:
        raise error if str(op) in str(error) else op.refused(str(error)) from None
    except InputError as error:
        raise error if str(op) in str(error) else op.damaged(str(error)) from None


def _gemm(op: Operation, chain: Chain) -> None:
    op.check(("alpha", "beta", "transA", "transB", "broadcast"), 2, 3)
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    flips = [bool(op.integer("transA", 0)), bool(op.integer("transB", 0))]
    shift = op.optional(2, "C")
    side = next((i for i in (0, 1) if isinstance(op.inputs[i], Live)), None)
    if side is None or len(chain.shape) != 2:
        raise op.refused(f"multiplies matrices; the tensor has the shape {list(chain.shape)}")
    other = _real(op.constant(1 - side, "matrix"))
    if other.ndim != 2:
        raise op.damaged(f"its matrix has the shape {list(other.shape)}; two axes are needed")
    if flips[side]:
        chain.transpose((1, 0))
    matrix = alpha * (other.T if flips[1 - side] else other)
    if side == 0:
        chain.times(matrix)
    else:
        chain.times_from_left(matrix)
    if shift is not None:
        product = chain.shape
        chain.scale_and_shift(1.0, beta * _real(shift))
        if chain.shape != product:
            raise op.damaged(f"C of shape {list(shift.shape)} does not fit the product's shape {list(product)}")


def _matmul(op: Operation, chain: Chain) -> None:
    op.check((), 2, 2)
    left = isinstance(op.inputs[1], Live)
    matrix = _real(op.constant(0 if left else 1, "matrix"))
    if not matrix.size or not matrix.ndim or max(matrix.shape[:-2], default=1) > 1:
        raise op.refused(f"its constant has the shape {list(matrix.shape)}; a vector or one matrix is supported")
    if left:
        shape = _product_shape(matrix.shape, chain.shape)
        chain.times_from_left(matrix.reshape(-1, matrix.shape[-1]))
    else:
        shape = _product_shape(chain.shape, matrix.shape)
        chain.times(matrix.reshape(-1, 1) if matrix.ndim == 1 else matrix.reshape(matrix.shape[-2:]))
    chain.reshape(shape)


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a product by numpy's rules: a vector's extra axis vanishes, leading axes are broadcast."""
    front = np.broadcast_shapes(a[:-2], b[:-2])
    return (*front, *a[-2:-1], *b[max(len(b) - 1, 1) :])


def _arithmetic(op: Operation, chain: Chain) -> None:
    op.check(("broadcast",), 2, 2)
    first = isinstance(op.inputs[0], Live)
    constant = _real(op.constant(1 if first else 0, "other operand"))
    match op.kind, first:
        case "Add", _:
            chain.scale_and_shift(1.0, constant)
        case "Sub", True:
            chain.scale_and_shift(1.0, -constant)
        case "Sub", _:
            chain.scale_and_shift(-1.0, constant)
        case "Mul", _:
            chain.scale_and_shift(constant, 0.0)
        case "Div", True:
            if not np.all(constant):
                raise op.damaged("divides by zero")
            chain.scale_and_shift(1.0 / constant, 0.0)
        case _:
            raise op.refused("divides by the network's tensor, which is not affine")


def _conv(op: Operation, chain: Chain) -> None:
    op.check(("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"), 2, 3)
    weight, bias = _real(op.constant(1, "kernel")), op.optional(2, "bias")
    if weight.ndim != len(chain.shape) or weight.ndim < 3:
        raise op.damaged(f"a kernel of shape {list(weight.shape)} for a tensor of shape {list(chain.shape)}")
    kernel = weight.shape[2:]
    if op.integers("kernel_shape", len(kernel), kernel) != kernel:
        raise op.damaged("its kernel_shape is not the kernel's")
    window = _window(op, chain, kernel, False)
    chain.convolve(weight, None if bias is None else _real(bias), op.integer("group", 1), window)


def _average_pool(op: Operation, chain: Chain) -> None:
    names = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")
    op.check(names, 1, 1)
    if len(chain.shape) < 3:
        raise op.damaged(f"pools a tensor of shape {list(chain.shape)}, which has no axes for it")
    kernel = op.integers("kernel_shape", len(chain.shape) - 2, ())
    window = _window(op, chain, kernel, bool(op.integer("ceil_mode", 0)))
    chain.average(window, bool(op.integer("count_include_pad", 0)))


def _window(op: Operation, chain: Chain, kernel: tuple[int, ...], ceil_mode: bool) -> Window:
    axes = len(kernel)
    ones, zeros = (1,) * axes, (0,) * axes
    strides, dilations = op.integers("strides", axes, ones), op.integers("dilations", axes, ones)
    pads = op.integers("pads", 2 * axes, zeros * 2)
    before, after = pads[:axes], pads[axes:]
    mode = op.text("auto_pad", "NOTSET")
    window = Window(kernel, strides, dilations, before, after, ceil_mode)
    match mode:
        case "NOTSET":
            return window
        case "VALID":
            before, after = zeros, zeros
        case "SAME_UPPER" | "SAME_LOWER":
            spatial = chain.shape[2:]
            before, after = same_padding(spatial, kernel, strides, dilations, upper=mode == "SAME_UPPER")
        case _:
            raise op.damaged("its auto_pad is unknown")
    return Window(kernel, strides, dilations, before, after, ceil_mode)


def _global_average(op: Operation, chain: Chain) -> None:
    op.check((), 1, 1)
    chain.average(None)


def _batch_norm(op: Operation, chain: Chain) -> None:
    op.check(("epsilon", "momentum", "training_mode", "spatial", "is_test"), 5, 5)
    if op.integer("training_mode", 0) or not op.integer("spatial", 1):
        raise op.refused("only inference with one mean and variance per channel is supported")
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (_real(op.constant(i, n)) for i, n in enumerate(names, start=1))
    chain.normalize_channels(scale, bias, mean, variance, op.number("epsilon", 1e-5))


def _reshape(op: Operation, chain: Chain) -> None:
    chain.reshape(new_shape(op, chain.shape))


def _transpose(op: Operation, chain: Chain) -> None:
    chain.transpose(permutation(op, len(chain.shape)))


def _identity(op: Operation, chain: Chain) -> None:  # noqa: ARG001 - every operator has the same signature
    op.check((), 1, 1)


def _dropout(op: Operation, chain: Chain) -> None:  # noqa: ARG001
    op.check(("ratio", "seed", "is_test"), 1, 3)
    training = op.optional(2, "training_mode")
    if training is not None and np.any(training):
        raise op.refused("is in training mode; export the network for inference")


def _cast(op: Operation, chain: Chain) -> None:  # noqa: ARG001
    if np.dtype(cast_type(op)).kind != "f":
        raise op.refused("casts the network's tensor to integers; floating point types only")


def _softmax(op: Operation, chain: Chain) -> None:
    op.check(("axis",), 1, 1)
    chain.drop(str(op))


def _activation(op: Operation, chain: Chain) -> None:
    kind, default = _ACTIVATIONS[op.kind]
    op.check(("alpha",) if default else (), 1, 1)
    chain.activate(Activation(kind, op.number("alpha", default) if default else 0.0))


def _real(array: NDArray[Any]) -> Array:
    if array.dtype.kind == "b":
        raise InputError("a constant holds truth values; numbers are needed")
    return np.asarray(array, dtype=np.float64)


_ACTIVATIONS: dict[str, tuple[Any, float]] = {
    "Elu": ("elu", 1.0),
    "LeakyRelu": ("leaky_relu", 0.01),
    "Relu": ("relu", 0.0),
    "Sigmoid": ("sigmoid", 0.0),
    "Softplus": ("softplus", 0.0),
    "Tanh": ("tanh", 0.0),
}

OPERATORS: dict[str, Callable[[Operation, Chain], None]] = {
    "Add": _arithmetic,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Conv": _conv,
    "Div": _arithmetic,
    "Dropout": _dropout,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "Identity": _identity,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "Mul": _arithmetic,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _reshape,
    "Sub": _arithmetic,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
    **dict.fromkeys(_ACTIVATIONS, _activation),
}
