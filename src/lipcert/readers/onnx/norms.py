"""ONNX operators that normalise, and norms along axes."""

from __future__ import annotations

from lipcert.readers.graph import Entry, linear, norms, products
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation, Value, real
from lipcert.rounding import Array


def _vector(op: Operation, i: int, name: str) -> Array | None:
    """A scale or a shift; None where it is left out."""
    value = op.optional(i, name)
    return None if value is None else real(value)


def _last_axes(op: Operation, x: Tensor) -> tuple[int, ...]:
    """The axes from the attribute `axis` on."""
    return tuple(range(op.axis(len(x.shape), -1), len(x.shape)))


def _layer_norm(op: Operation, graph: Graph) -> list[Value]:
    """Its second and third output, statistics, are not read."""
    op.check(("axis", "epsilon", "stash_type"), 2, 3)
    x, weights = op.tensor(), (_vector(op, 1, "scale"), _vector(op, 2, "bias"))
    y = norms.layer_norm(graph, x, _last_axes(op, x), weights, op.number("epsilon", 1e-5))
    return [y, None, None]


def _rms_norm(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis", "epsilon", "stash_type"), 1, 2)
    x = op.tensor()
    return norms.rms_norm(graph, x, _last_axes(op, x), _vector(op, 1, "scale"), op.number("epsilon", 1e-5))


def _group_norm(op: Operation, graph: Graph) -> Tensor:
    op.check(("epsilon", "num_groups", "stash_type"), 3, 3)
    x, groups = op.tensor(), op.integer("num_groups", 1)
    if op.opset < 21:
        raise op.refused("scales by group before opset 21; export the network with a newer opset")
    weights = _vector(op, 1, "scale"), _vector(op, 2, "bias")
    return norms.group_norm(graph, x, groups, weights, op.number("epsilon", 1e-5))


def _instance_norm(op: Operation, graph: Graph) -> Tensor:
    op.check(("epsilon",), 3, 3)
    x, weights = op.tensor(), (_vector(op, 1, "scale"), _vector(op, 2, "bias"))
    return norms.group_norm(graph, x, x.shape[1] if len(x.shape) > 1 else 1, weights, op.number("epsilon", 1e-5))


def _lp_norm(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis", "p"), 1, 1)
    x = op.tensor()
    return norms.divided_by_norm(graph, x, (op.axis(len(x.shape), -1),), float(op.integer("p", 2)))


def _reduce(op: Operation, graph: Graph) -> Tensor:
    x = op.tensor()
    axes = op.reduced_axes(len(x.shape), 18)
    keep = bool(op.integer("keepdims", 1))
    match op.kind:
        case "ReduceL2":
            return norms.norm(graph, x, axes, keep)
        case "ReduceSumSquare":
            return linear.summed(graph, products.square(graph, x), axes, keep)
        case "ReduceLogSumExp":
            return norms.log_sum_exp(graph, x, axes, keep)
        case "ReduceLogSum":
            return graph.activate(linear.summed(graph, x, axes, keep), products.LOG)
        case _:
            return products.product_along(graph, x, axes, keep)


def softmax(op: Operation, graph: Graph) -> Tensor:
    """Softmax and LogSoftmax; before opset 13 over all axes from one on."""
    op.check(("axis",), 1, 1)
    x = graph.opened(op.tensor())
    axis = op.axis(max(len(x.shape), 1), -1 if op.opset >= 13 else min(1, len(x.shape) - 1))
    axes = (axis,) if op.opset >= 13 else tuple(range(axis, len(x.shape)))
    logarithm = op.kind == "LogSoftmax"
    return graph.drop(x, str(op), lambda scores: products.softmax(graph, scores, axes, logarithm=logarithm))


_ROOT = "squares, and a power of their sum"
NORMS: dict[str, Entry] = {
    "GroupNormalization": Entry(_group_norm, "rewritten", "by squares, and the power -1/2 of their mean; opset 21"),
    "InstanceNormalization": Entry(_instance_norm, "rewritten", "by squares, and the power -1/2 of their mean"),
    "LayerNormalization": Entry(_layer_norm, "rewritten", "by squares, and the power -1/2 of their mean"),
    "LogSoftmax": Entry(softmax, "rewritten", "exponentials of differences; left out at the end, with a note"),
    "LpNormalization": Entry(_lp_norm, "rewritten", "times the reciprocal of the norm"),
    "RMSNormalization": Entry(_rms_norm, "rewritten", "by squares, and the power -1/2 of their mean"),
    "ReduceL2": Entry(_reduce, "rewritten", _ROOT),
    "ReduceLogSum": Entry(_reduce, "rewritten", "the logarithm of a sum"),
    "ReduceLogSumExp": Entry(_reduce, "rewritten", "exponentials, and the logarithm of their sum"),
    "ReduceProd": Entry(_reduce, "rewritten", "products of pairs, by squares"),
    "ReduceSumSquare": Entry(_reduce, "rewritten", "squares"),
    "Softmax": Entry(softmax, "rewritten", "exponentials of differences; left out at the end, with a note"),
}
