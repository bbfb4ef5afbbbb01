"""ONNX operators that pick entries of an array by constant indices: of a constant, or of the places of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.readers.onnx.operation import Operation

Picked = NDArray[Any] | list[NDArray[Any] | None]


def _slice(op: Operation, array: NDArray[Any]) -> Picked:
    op.check(("axes", "starts", "ends") if op.opset < 10 else (), 1, 1 if op.opset < 10 else 5)
    starts, ends = op.list_of_integers("starts", 1), op.list_of_integers("ends", 2)
    if starts is None or ends is None or len(starts) != len(ends):
        raise op.damaged("its starts and ends are missing or not as many")
    axes, steps = op.list_of_integers("axes", 3), op.list_of_integers("steps", 4) or (1,) * len(starts)
    axes = op.axes(range(len(starts)) if axes is None else axes, array.ndim)
    if len(axes) != len(starts) or len(steps) != len(starts) or 0 in steps:
        raise op.damaged("its axes or steps do not fit its starts, or a step is 0")
    index = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)  # what lies outside is cut off in the same way
    return array[tuple(index)]


def _split(op: Operation, array: NDArray[Any]) -> Picked:
    op.check(("axis", "split", "num_outputs"), 1, 2)
    axis, count = op.axis(array.ndim, 0), len(op.outputs)
    sizes, length = op.list_of_integers("split", 1), array.shape[axis]
    if op.integer("num_outputs", count) != count:
        raise op.damaged(f"its num_outputs is not the number of its outputs, {count}")
    if sizes is None:
        if op.opset < 18 and length % count:
            raise op.damaged(f"an axis of {length} cannot be split into {count} equal parts")
        each = -(-length // count)
        sizes = (each,) * (count - 1) + (length - each * (count - 1),)
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != length:
        raise op.damaged(f"an axis of {length} cannot be split into {count} parts of the sizes {list(sizes)[:16]}")
    parts = np.split(array, np.cumsum(sizes)[:-1], axis=axis)
    return [part if needed else None for part, needed in zip(parts, op.needed, strict=True)]


def _gather(op: Operation, array: NDArray[Any]) -> Picked:
    op.check(("axis",), 2, 2)
    axis = op.axis(array.ndim, 0)
    index = _indices(op, array.shape[axis])
    op.limited(index.size * (array.size // max(array.shape[axis], 1)))
    return np.take(array, index, axis=axis)


def _gather_elements(op: Operation, array: NDArray[Any]) -> Picked:
    op.check(("axis",), 2, 2)
    axis = op.axis(array.ndim, 0)
    index = _indices(op, array.shape[axis])
    op.limited(index.size)
    beyond = [i > n for i, n in zip(index.shape, array.shape, strict=False)]
    if index.ndim != array.ndim or any(beyond[:axis] + beyond[axis + 1 :]):
        raise op.damaged(f"indices of shape {index.shape} do not fit a tensor of shape {array.shape}")
    within = array[tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(index.shape))]
    return np.take_along_axis(within, index, axis=axis)


def _gather_nd(op: Operation, array: NDArray[Any]) -> Picked:
    op.check(("batch_dims",), 2, 2)
    index, batch = op.constant(1, "indices"), op.integer("batch_dims", 0)
    depth = index.shape[-1] if index.ndim else 0
    if index.dtype.kind not in "iu" or not 0 <= batch < index.ndim or not 1 <= depth <= array.ndim - batch:
        raise op.damaged("its indices or batch_dims are wrong")
    if index.shape[:batch] != array.shape[:batch]:
        raise op.damaged(f"indices of shape {index.shape} do not fit a tensor of shape {array.shape}")
    op.limited(index.size // depth * math.prod(array.shape[batch + depth :]))
    outer = index.shape[:-1]
    lines = [np.arange(n).reshape((-1,) + (1,) * (len(outer) - a - 1)) for a, n in enumerate(outer[:batch])]
    return np.asarray(array[(*lines, *np.moveaxis(index.astype(np.int64), -1, 0))])


def _indices(op: Operation, size: int) -> NDArray[Any]:
    index = op.constant(1, "indices")
    if index.dtype.kind not in "iu" or np.any(index < -size) or np.any(index >= size):
        raise op.damaged("its indices are out of range or no whole numbers")
    return index.astype(np.int64)


def _features(op: Operation, array: NDArray[Any]) -> Picked:
    """ArrayFeatureExtractor: some of the last axis; a vector counts as one row."""
    op.check((), 2, 2)
    index = _indices(op, array.shape[-1]).reshape(-1)
    op.limited(index.size * (array.size // array.shape[-1]))
    return np.take(np.atleast_2d(array), index, axis=-1)


PICKED: dict[str, Callable[[Operation, NDArray[Any]], Picked]] = {
    "ArrayFeatureExtractor": _features,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "Split": _split,
}
