"""Operators of the domain ai.onnx.ml, which exporters of scikit-learn write around networks and linear models."""

from __future__ import annotations

import numpy as np

from lipcert.readers.graph import Entry, linear
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation, Value
from lipcert.readers.onnx.shapes import rearrange
from lipcert.rounding import Array


def _scaler(op: Operation, graph: Graph) -> Tensor:
    op.check(("offset", "scale"), 1, 1)
    x = op.tensor()
    offset, scale = _per_feature(op, "offset", x, 0.0), _per_feature(op, "scale", x, 1.0)
    return graph.scale_and_shift(graph.scale_and_shift(x, 1.0, -offset), scale, 0.0)


def _per_feature(op: Operation, name: str, x: Tensor, default: float) -> Array:
    values = op.numbers(name)
    if not values.size:
        return np.array(default)
    if not x.shape or values.size not in (1, x.shape[-1]):
        raise op.damaged(f"{values.size} numbers in {name} do not fit a tensor of shape {x.shape}")
    return values


def _regressor(op: Operation, graph: Graph) -> Tensor:
    op.check(("coefficients", "intercepts", "post_transform", "targets"), 1, 1)
    if op.text("post_transform", "NONE") != "NONE":
        raise op.refused("only post_transform NONE is supported")
    return _linear(op, graph, op.integer("targets", 1))


def _classifier(op: Operation, graph: Graph) -> list[Value]:
    """The label, which is not read, and the scores."""
    names = ("classlabels_ints", "classlabels_strings", "coefficients", "intercepts", "multi_class", "post_transform")
    op.check(names, 1, 1)
    classes = max(len(op.attributes.get(name, [])) for name in names[:2])
    scores = _linear(op, graph, classes)
    transform = op.text("post_transform", "NONE")
    if transform == "NONE":
        return [None, scores]
    if transform not in ("SOFTMAX", "LOGISTIC"):
        raise op.refused("only the post_transforms NONE, SOFTMAX and LOGISTIC are supported")
    return [None, graph.drop(scores, f"post_transform {transform} of {op}")]


def _linear(op: Operation, graph: Graph, outputs: int) -> Tensor:
    x, weights, shift = op.tensor(), op.numbers("coefficients"), op.numbers("intercepts")
    x = x.reshaped((1, x.width)) if len(x.shape) == 1 else x
    if len(x.shape) != 2 or outputs < 1 or weights.size != outputs * x.shape[1] or shift.size not in (0, outputs):
        raise op.refused(
            f"{weights.size} coefficients and {shift.size} intercepts for {outputs} outputs of a "
            f"tensor of shape {x.shape}"
        )
    y = linear.times(graph, x, weights.reshape(outputs, -1).T)
    return graph.scale_and_shift(y, 1.0, shift) if shift.size else y


def _normalizer(op: Operation, graph: Graph) -> Tensor:
    op.check(("norm",), 1, 1)
    x = op.tensor()
    if not x.dropped:
        raise op.refused("divides by the norm of its input: its slope has no bound near zero")
    graph.notes.append(f"{op} behind it is left out too")
    return x


def _zip_map(op: Operation, graph: Graph) -> Tensor:  # noqa: ARG001 - every operator has the same signature
    op.check(("classlabels_int64s", "classlabels_strings"), 1, 1)
    return op.tensor()


def _vectorizer(op: Operation, graph: Graph) -> Tensor:
    op.check(("inputdimensions",), 1, 10_000)
    parts = [op.operand(i) for i in range(len(op.inputs))]
    rows = [p.reshaped((1, p.width)) if isinstance(p, Tensor) and len(p.shape) == 1 else p for p in parts]
    sizes = op.integers("inputdimensions", len(rows), tuple(p.shape[-1] for p in rows))
    if any(len(p.shape) != 2 or p.shape[1] != n for p, n in zip(rows, sizes, strict=True)):
        raise op.damaged("its inputdimensions are not those of its inputs")
    return graph.concatenate(rows, 1)


ML_OPERATORS: dict[str, Entry] = {
    "ArrayFeatureExtractor": Entry(rearrange, words="constant indices"),
    "FeatureVectorizer": Entry(_vectorizer),
    "LinearClassifier": Entry(
        _classifier, words="its scores; SOFTMAX and LOGISTIC are left out with a note, the label is refused"
    ),
    "LinearRegressor": Entry(_regressor),
    "Normalizer": Entry(_normalizer, "left out", "behind a softmax that is left out; else refused"),
    "Scaler": Entry(_scaler),
    "ZipMap": Entry(_zip_map, words="the scores that enter it"),
}
