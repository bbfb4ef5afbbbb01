"""ONNX operators that rearrange, pick or join entries; a function each, of a constant or of the places of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.readers.graph import Entry, places
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation, real

Entries = NDArray[Any]
_MAX_AXES = 16


def rearrange(op: Operation, graph: Graph) -> list[Tensor | None]:
    """The operation's outputs for a tensor: its places rearranged, then picked. Changes of shape cost nothing."""
    x = op.value(0)
    if not isinstance(x, Tensor):
        raise op.refused("its first input must be the tensor, and no other input may depend on the network's input")
    return [None if made is None else graph.pick(x, made) for made in rearranged(op, x.places)]


def rearranged(op: Operation, array: Entries) -> list[Entries | None]:
    """The operation's outputs for a constant."""
    made = REARRANGED[op.kind](op, array)
    return made if isinstance(made, list) else [made]


def _reshape(op: Operation, array: Entries) -> Entries:
    op.check(("allowzero", "shape"), 1, 2)
    target = op.list_of_integers("shape", 1)
    if target is None or len(target) > _MAX_AXES:
        raise op.damaged("its shape is missing or has too many axes")
    if not op.integer("allowzero", 0):
        if any(n == 0 and i >= array.ndim for i, n in enumerate(target)):
            raise op.damaged(f"shape {list(target)} keeps an axis that the input has not")
        target = tuple(array.shape[i] if n == 0 else n for i, n in enumerate(target))
    try:
        return places.reshape(array, target)
    except InputError:
        raise op.damaged(f"cannot change the shape {list(array.shape)} to {list(target)}") from None


def _flatten(op: Operation, array: Entries) -> Entries:
    op.check(("axis",), 1, 1)
    axis = op.integer("axis", 1)
    if not -array.ndim <= axis <= array.ndim:
        raise op.damaged(f"axis {axis} is out of range")
    axis += array.ndim if axis < 0 else 0
    return array.reshape(math.prod(array.shape[:axis]), math.prod(array.shape[axis:]))


def _squeeze(op: Operation, array: Entries) -> Entries:
    op.check(("axes",), 1, 2)
    axes = op.list_of_integers("axes", 1)
    ones = tuple(i for i, n in enumerate(array.shape) if n == 1)
    chosen = ones if axes is None else op.axes(axes, array.ndim)
    if any(array.shape[i] != 1 for i in chosen):
        raise op.damaged(f"axes {sorted(chosen)} of the shape {list(array.shape)} are not all 1")
    return np.squeeze(array, chosen)


def _unsqueeze(op: Operation, array: Entries) -> Entries:
    op.check(("axes",), 1, 2)
    axes = op.list_of_integers("axes", 1)
    if axes is None or len(axes) > _MAX_AXES:
        raise op.damaged("its axes are missing or too many")
    return np.expand_dims(array, op.axes(axes, array.ndim + len(axes)))


def _identity(op: Operation, array: Entries) -> Entries:
    op.check((), 1, 1)
    return array


def _transpose(op: Operation, array: Entries) -> Entries:
    op.check(("perm",), 1, 1)
    return places.transpose(array, op.integers("perm", array.ndim, tuple(reversed(range(array.ndim)))))


def _expand(op: Operation, array: Entries) -> Entries:
    op.check((), 2, 2)
    shape = np.broadcast_shapes(array.shape, op.list_of_integers("shape", 1) or ())
    op.check_size(math.prod(shape))
    return np.broadcast_to(array, shape)


def _tile(op: Operation, array: Entries) -> Entries:
    op.check((), 2, 3 if op.opset < 6 else 2)
    repeats = op.list_of_integers("repeats", 1) or ()
    if op.opset < 6:  # how often, and along which axis
        (axis,) = op.axes(op.list_of_integers("axis", 2) or (), array.ndim)
        repeats = tuple(repeats[0] if i == axis else 1 for i in range(array.ndim))
    if len(repeats) != array.ndim or min(repeats, default=1) < 0:
        raise op.damaged(f"repeats {list(repeats)[:_MAX_AXES]} do not fit a tensor of shape {array.shape}")
    op.check_size(array.size * math.prod(repeats))
    return np.tile(array, repeats)


def _depth_to_space(op: Operation, array: Entries) -> Entries:
    op.check(("blocksize", "mode"), 1, 1)
    mode = op.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise op.damaged(f"its mode is {mode[:8]!r}")
    return places.depth_to_space(array, op.integer("blocksize", 0), channels_first=mode == "CRD")


def _space_to_depth(op: Operation, array: Entries) -> Entries:
    op.check(("blocksize", "mode"), 1, 1)
    if op.text("mode", "DCR") != "DCR":
        raise op.refused("only its mode DCR is supported")
    return places.space_to_depth(array, op.integer("blocksize", 0), channels_first=False)


def _slice(op: Operation, array: Entries) -> Entries:
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
        index[axis] = slice(start, end, step)  # numpy cuts off indices outside in the same way
    return array[tuple(index)]


def _split(op: Operation, array: Entries) -> list[Entries | None]:
    op.check(("axis", "split", "num_outputs"), 1, 2)
    axis, count = op.axis(array.ndim, 0), len(op.outputs)
    sizes, length = op.list_of_integers("split", 1), array.shape[axis]
    if op.integer("num_outputs", count) != count or (sizes is not None and len(sizes) != count):
        raise op.damaged(f"its num_outputs or the number of its sizes is not that of its outputs, {count}")
    if sizes is None:
        if op.opset < 18 and length % count:
            raise op.damaged(f"an axis of {length} cannot be split into {count} equal parts")
        each = -(-length // count)
        sizes = (each,) * (count - 1) + (length - each * (count - 1),)
    parts = places.split(array, sizes, axis)
    return [part if needed else None for part, needed in zip(parts, op.needed, strict=True)]


def _gather(op: Operation, array: Entries) -> Entries:
    op.check(("axis",), 2, 2)
    axis, index = op.axis(array.ndim, 0), _indices(op)
    op.check_size(index.size * (array.size // max(array.shape[axis], 1)))
    return places.take(array, index, axis)


def _gather_elements(op: Operation, array: Entries) -> Entries:
    op.check(("axis",), 2, 2)
    axis, index = op.axis(array.ndim, 0), _indices(op)
    op.check_size(index.size)
    return places.take_elements(array, index, axis)


def _gather_nd(op: Operation, array: Entries) -> Entries:
    op.check(("batch_dims",), 2, 2)
    index, batch = _indices(op), op.integer("batch_dims", 0)
    depth = index.shape[-1] if index.ndim else 0
    if not 0 <= batch < index.ndim or not 1 <= depth <= array.ndim - batch:
        raise op.damaged("its indices or batch_dims are wrong")
    if index.shape[:batch] != array.shape[:batch]:
        raise op.damaged(f"indices of shape {index.shape} do not fit a tensor of shape {array.shape}")
    op.check_size(index.size // depth * math.prod(array.shape[batch + depth :]))
    outer = index.shape[:-1]
    lines = [np.arange(n).reshape((-1,) + (1,) * (len(outer) - a - 1)) for a, n in enumerate(outer[:batch])]
    return np.asarray(array[(*lines, *np.moveaxis(index, -1, 0))])


def _features(op: Operation, array: Entries) -> Entries:
    """ArrayFeatureExtractor: some of the last axis; a vector counts as one row."""
    op.check((), 2, 2)
    index = _indices(op).reshape(-1)
    op.check_size(index.size * (array.size // array.shape[-1]))
    return places.take(np.atleast_2d(array), index, -1)


def _indices(op: Operation) -> NDArray[np.int64]:
    index = op.constant(1, "indices")
    if index.dtype.kind not in "iu" or np.any(index > np.iinfo(np.int64).max):
        raise op.damaged("its indices are out of range or no whole numbers")
    return index.astype(np.int64)


def triangle(op: Operation, shape: tuple[int, ...]) -> NDArray[Any]:
    """Which entries of the matrices a Trilu keeps."""
    op.check(("upper",), 1, 2)
    k = op.optional(1, "k")
    shift = 0 if k is None else int(real(k).reshape(-1)[0])
    row, column = np.arange(shape[-2])[:, None], np.arange(shape[-1])
    return column - row >= shift if op.integer("upper", 1) else column - row <= shift


def _trilu(op: Operation, graph: Graph) -> Tensor:
    x = op.tensor()
    return graph.pick(x, np.where(triangle(op, x.shape), x.places, -1))


def _concat(op: Operation, graph: Graph) -> Tensor:
    op.check(("axis",), 1, 10_000)
    parts = [op.operand(i) for i in range(len(op.inputs))]
    if len({len(p.shape) for p in parts}) > 1:
        raise op.damaged("its inputs do not fit together")
    return graph.concatenate(parts, op.axis(len(parts[0].shape), 1))


_BY_INDEX: dict[str, Callable[[Operation, Entries], Any]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "Split": _split,
}
_MOVED: dict[str, Callable[[Operation, Entries], Any]] = {
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
REARRANGED = {**_BY_INDEX, **_MOVED, "ArrayFeatureExtractor": _features}
SHAPES: dict[str, Entry] = {
    **dict.fromkeys(_BY_INDEX, Entry(rearrange, words="constant indices")),
    **dict.fromkeys(_MOVED, Entry(rearrange)),
    "Concat": Entry(_concat),
    "Trilu": Entry(_trilu),
}
