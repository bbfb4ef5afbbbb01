"""ONNX operators that are linear: products with constants, sums and maxima along axes, normalisation by constants."""

from __future__ import annotations

from lipcert.readers.graph import Entry, arithmetic, linear, rewrites
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation, call, real


def _gemm(op: Operation, graph: Graph) -> Tensor:
    op.check(("alpha", "beta", "transA", "transB", "broadcast"), 2, 3)
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    flips = [bool(op.integer("transA", 0)), bool(op.integer("transB", 0))]
    side = 1 if isinstance(op.inputs[1], Tensor) else 0
    if isinstance(op.inputs[1 - side], Tensor):
        pair = [graph.transpose(op.tensor(i), (1, 0)) if flip else op.tensor(i) for i, flip in enumerate(flips)]
        return _with_shift(op, graph, graph.scale_and_shift(linear.matmul(graph, *pair), alpha, 0.0), beta)
    x, other = op.tensor(side), real(op.constant(1 - side, "matrix"))
    if len(x.shape) > 2 and max(x.shape[2:]) == 1:  # flat after its batch axis
        x = x.reshaped(x.shape[:2])
    if len(x.shape) != 2:
        raise op.refused(f"multiplies matrices; the tensor has the shape {list(x.shape)}")
    if other.ndim != 2:
        raise op.damaged(f"its matrix has the shape {list(other.shape)}; two axes are needed")
    x = graph.transpose(x, (1, 0)) if flips[side] else x
    matrix = alpha * (other.T if flips[1 - side] else other)
    product = linear.times_from_left(graph, x, matrix) if side else linear.times(graph, x, matrix)
    return _with_shift(op, graph, product, beta)


def _with_shift(op: Operation, graph: Graph, product: Tensor, beta: float) -> Tensor:
    """The product of Gemm and beta C."""
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


def _einsum(op: Operation, graph: Graph) -> Tensor:
    op.check(("equation",), 1, 8)
    return linear.einsum(graph, op.text("equation", ""), [op.operand(i) for i in range(len(op.inputs))])


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
    return linear.normalize_channels(graph, x, statistics, op.number("epsilon", 1e-5))


def _reduce(op: Operation, graph: Graph) -> Tensor:
    """ReduceSum and ReduceMean, and ReduceL1, ReduceMax and ReduceMin by ReLUs."""
    x = op.tensor()
    axes = op.reduced_axes(len(x.shape), 13 if op.kind == "ReduceSum" else 18)
    keep = bool(op.integer("keepdims", 1))
    if op.kind in ("ReduceMax", "ReduceMin"):
        return arithmetic.extreme_along(graph, x, axes, keep, op.kind == "ReduceMax")
    x = rewrites.absolute(graph, x) if op.kind == "ReduceL1" else x
    return linear.summed(graph, x, axes, keep, mean=op.kind == "ReduceMean")


def _cumulative(op: Operation, graph: Graph) -> Tensor:
    op.check(("exclusive", "reverse"), 2, 2)
    axis = op.constant(1, "axis")
    if axis.size != 1 or axis.dtype.kind not in "iu":
        raise op.damaged("its axis must be one whole number")
    exclusive, reverse = bool(op.integer("exclusive", 0)), bool(op.integer("reverse", 0))
    return linear.cumulative_sum(graph, op.tensor(), int(axis.reshape(-1)[0]), exclusive=exclusive, reverse=reverse)


def _top_k(op: Operation, graph: Graph) -> Tensor:
    """The first k in order. Where they need not be sorted, they are nevertheless."""
    op.check(("axis", "k", "largest", "sorted"), 1, 1 if op.opset < 10 else 2)
    x = op.tensor()
    counts = (op.integer("k", 0),) if op.opset < 10 else op.list_of_integers("K", 1)
    count = counts[0] if counts and len(counts) == 1 else 0
    return arithmetic.first_sorted(graph, x, op.axis(len(x.shape), -1), count, bool(op.integer("largest", 1)))


_AXES = "axes as attribute or input"
LINEAR: dict[str, Entry] = {
    "BatchNormalization": Entry(_batch_norm, words="for inference, with constant statistics"),
    "CumSum": Entry(_cumulative, words="along a constant axis"),
    "Einsum": Entry(_einsum, words="of one tensor with constants, or of two tensors"),
    "Gemm": Entry(_gemm, words="of tensors and constant matrices; C may be either"),
    "MatMul": Entry(
        call(linear.matmul, Operation.operand, Operation.operand),
        words="of tensors and constant matrices; products of tensors by squares",
    ),
    "ReduceL1": Entry(_reduce, "rewritten", "a sum of absolute values"),
    "ReduceMax": Entry(_reduce, "rewritten", "maxima of pairs, by ReLUs"),
    "ReduceMean": Entry(_reduce, words=_AXES),
    "ReduceMin": Entry(_reduce, "rewritten", "minima of pairs, by ReLUs"),
    "ReduceSum": Entry(_reduce, words=_AXES),
    "TopK": Entry(
        _top_k, "rewritten", "a network of comparisons, by ReLUs; its second output, the indices, is refused"
    ),
}
