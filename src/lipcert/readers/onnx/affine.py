"""ONNX operators that are affine in the network's tensors: products with constants, sums, means, normalisation."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph import layers
from lipcert.readers.graph.contraction import contract, einsum
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, real
from lipcert.rounding import Array

TWO_LIVE = "multiplies two tensors that both depend on the input, which is not piecewise linear"


def _gemm(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha", "beta", "transA", "transB", "broadcast"), 2, 3)
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    flips = [bool(op.integer("transA", 0)), bool(op.integer("transB", 0))]
    side = 1 if isinstance(op.inputs[1], Tensor) else 0
    if isinstance(op.inputs[1 - side], Tensor):
        raise op.refused(TWO_LIVE)
    x, other = op.tensor(side), real(op.constant(1 - side, "matrix"))
    if len(x.shape) > 2 and max(x.shape[2:]) == 1:  # flat after its batch axis
        x = x.reshaped(x.shape[:2])
    if len(x.shape) != 2:
        raise op.refused(f"multiplies matrices; the tensor has the shape {list(x.shape)}")
    if other.ndim != 2:
        raise op.damaged(f"its matrix has the shape {list(other.shape)}; two axes are needed")
    x = graph.transpose(x, (1, 0)) if flips[side] else x
    matrix = alpha * (other.T if flips[1 - side] else other)
    product = layers.times_from_left(graph, x, matrix) if side else layers.times(graph, x, matrix)
    if len(op.inputs) < 3 or op.inputs[2] is None:
        return product
    shift = op.operand(2, "C")
    if isinstance(shift, Tensor):
        total = graph.add(product, graph.scale_and_shift(shift, beta, 0.0))
    else:
        total = graph.scale_and_shift(product, 1.0, beta * shift)
    if total.shape != product.shape:
        raise op.damaged(f"C of shape {list(shift.shape)} does not fit the product's shape {list(product.shape)}")
    return total


def _matmul(op: Operation, graph: Graph) -> Tensor:
    op.check((), 2, 2)
    left = isinstance(op.inputs[1], Tensor)
    if left and isinstance(op.inputs[0], Tensor):
        raise op.refused(TWO_LIVE)
    x, matrix = op.tensor(1 if left else 0), real(op.constant(0 if left else 1, "matrix"))
    if not matrix.size or not matrix.ndim or not x.shape:
        raise op.damaged(f"its constant has the shape {list(matrix.shape)}, the tensor {list(x.shape)}")
    if max(matrix.shape[:-2], default=1) > 1:
        return _stack(graph, x, matrix, left)
    if left:
        shape = _product_shape(matrix.shape, x.shape)
        y = layers.times_from_left(graph, x, matrix.reshape(-1, matrix.shape[-1]))
    else:
        shape = _product_shape(x.shape, matrix.shape)
        y = layers.times(graph, x, matrix.reshape(-1, 1) if matrix.ndim == 1 else matrix.reshape(matrix.shape[-2:]))
    return y.reshaped(shape)


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a product by numpy's rules: a vector's extra axis vanishes, leading axes are broadcast."""
    front = np.broadcast_shapes(a[:-2], b[:-2])
    return (*front, *a[-2:-1], *b[max(len(b) - 1, 1) :])


def _stack(graph: Graph, x: Tensor, matrices: Array, left: bool) -> Tensor:
    """The product with many matrices at once, axes before the last two broadcast."""
    first, second = (matrices.ndim, len(x.shape)) if left else (len(x.shape), matrices.ndim)
    front = [f"f{i}" for i in range(max(first, second) - 2)]
    row, column = ["row"] if first > 1 else [], ["column"] if second > 1 else []
    labels = (
        [*front[len(front) - max(first - 2, 0) :], *row, "sum"],
        [*front[len(front) - max(second - 2, 0) :], "sum", *column],
    )
    ours, theirs = (labels[1], labels[0]) if left else labels
    return contract(graph, x, ours, [(matrices, theirs)], [*front, *row, *column])


def _einsum(op: Operation, graph: Graph) -> Tensor:
    op.check(("equation",), 1, 8)
    live = [i for i, value in enumerate(op.inputs) if isinstance(value, Tensor)]
    if len(live) > 1:
        raise op.refused(TWO_LIVE)
    which = live[0] if live else 0
    constants = {i: real(op.constant(i, "operand")) for i in range(len(op.inputs)) if i != which}
    return einsum(graph, op.text("equation", ""), op.tensor(which), which, constants)


def _batch_norm(op: Operation, graph: Graph) -> Tensor:
    op.check(("epsilon", "momentum", "training_mode", "spatial", "is_test"), 5, 5)
    x = op.tensor()
    trains = op.integer("training_mode", 0) or (op.opset < 7 and not op.integer("is_test", 0))
    if trains or (op.opset < 14 and any(op.outputs[1:])) or (not op.integer("spatial", 1) and len(x.shape) > 2):
        raise op.refused(
            "only inference with one mean and variance per channel is supported; export the network for inference"
        )
    if isinstance(op.inputs[3], Tensor) or isinstance(op.inputs[4], Tensor):
        raise op.refused("its mean or variance is that of its input, so its slope has no bound; train with statistics")
    names = ("scale", "bias", "mean", "variance")
    statistics = [real(op.constant(i, name)) for i, name in enumerate(names, start=1)]
    return layers.normalize_channels(graph, x, statistics, op.number("epsilon", 1e-5))


def _reduce(op: Operation, graph: Graph) -> Tensor:
    """ReduceSum and ReduceMean."""
    x = op.tensor()
    axes = op.reduced_axes(len(x.shape), 13 if op.kind == "ReduceSum" else 18)
    if not axes:
        return x
    return layers.summed(graph, x, axes, bool(op.integer("keepdims", 1)), mean=op.kind == "ReduceMean")


def _cumulative(op: Operation, graph: Graph) -> Tensor:
    op.check(("exclusive", "reverse"), 2, 2)
    x, axis = op.tensor(), op.constant(1, "axis")
    if axis.size != 1 or axis.dtype.kind not in "iu":
        raise op.damaged("its axis must be one whole number")
    count = x.shape[x.axis(int(axis.reshape(-1)[0]))]
    op.limited(count * count)
    below = np.tri(count, k=-1 if op.integer("exclusive", 0) else 0)
    return layers.along(graph, x, int(axis.reshape(-1)[0]), below.T if op.integer("reverse", 0) else below)


AFFINE: dict[str, Entry] = {
    "BatchNormalization": Entry(_batch_norm, words="for inference, with constant statistics"),
    "CumSum": Entry(_cumulative, words="along a constant axis"),
    "Einsum": Entry(_einsum, words="of one tensor with constants"),
    "Gemm": Entry(_gemm, words="of a tensor and a constant matrix; C may be either"),
    "MatMul": Entry(_matmul, words="of a tensor and constant matrices, from either side"),
    "ReduceMean": Entry(_reduce, words="axes as attribute or input"),
    "ReduceSum": Entry(_reduce, words="axes as attribute or input"),
}
