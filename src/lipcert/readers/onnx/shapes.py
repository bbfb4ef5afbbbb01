"""ONNX operators that only rearrange, each as a function of an array: of a constant, or of the places of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation
from lipcert.readers.onnx.picks import PICKED

Shape = tuple[int, ...]
_MAX_AXES = 16


def rearrange(op: Operation, graph: Graph) -> list[Tensor | None]:
    """The operation's outputs for a tensor: its places rearranged, then picked. Changes of shape cost nothing."""
    x = op.value(0)
    if not isinstance(x, Tensor):
        raise op.refused("its first input must be the tensor, and no other input may depend on the network's input")
    return [None if places is None else _picked(graph, x, places) for places in rearranged(op, x.places)]


def rearranged(op: Operation, array: NDArray[Any]) -> list[NDArray[Any] | None]:
    """The operation's outputs for a constant."""
    if op.kind in _SHAPES:
        return [array.reshape(_new_shape(op, array.shape))]
    made = (_ARRAYS | PICKED)[op.kind](op, array)
    return made if isinstance(made, list) else [made]


def _picked(graph: Graph, x: Tensor, places: NDArray[Any]) -> Tensor:
    if places.size == x.width and np.array_equal(places.reshape(-1), np.arange(x.width)):
        return x.reshaped(places.shape)  # which may follow a softmax that is left out
    return graph.pick(x, places)


def _new_shape(op: Operation, shape: Shape) -> Shape:
    """The shape that Reshape, Flatten, Squeeze or Unsqueeze gives to a tensor."""
    target = _SHAPES[op.kind](op, shape)
    if any(n < 0 for n in target) or math.prod(target) != math.prod(shape) or len(target) > _MAX_AXES:
        raise op.damaged(f"cannot change the shape {list(shape)} to {list(target)[:_MAX_AXES]}")
    return target


def _reshape(op: Operation, shape: Shape) -> Shape:
    op.check(("allowzero", "shape"), 1, 2)
    target = op.list_of_integers("shape", 1)
    if target is None:
        raise op.damaged("its shape is missing")
    if not op.integer("allowzero", 0):
        if any(n == 0 and i >= len(shape) for i, n in enumerate(target)):
            raise op.damaged(f"shape {list(target)[:_MAX_AXES]} keeps an axis that the input has not")
        target = tuple(shape[i] if n == 0 else n for i, n in enumerate(target))
    if target.count(-1) == 1:
        rest = -math.prod(target)
        if rest < 1 or math.prod(shape) % rest:
            raise op.damaged(f"cannot change the shape {list(shape)} to {list(target)[:_MAX_AXES]}")
        target = tuple(math.prod(shape) // rest if n == -1 else n for n in target)
    return target


def _flatten(op: Operation, shape: Shape) -> Shape:
    op.check(("axis",), 1, 1)
    axis = op.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise op.damaged(f"axis {axis} is out of range")
    axis += len(shape) if axis < 0 else 0
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _squeeze(op: Operation, shape: Shape) -> Shape:
    op.check(("axes",), 1, 2)
    axes = op.list_of_integers("axes", 1)
    chosen = {i for i, n in enumerate(shape) if n == 1} if axes is None else set(op.axes(axes, len(shape)))
    if any(shape[i] != 1 for i in chosen):
        raise op.damaged(f"axes {sorted(chosen)} of the shape {list(shape)} are not all 1")
    return tuple(n for i, n in enumerate(shape) if i not in chosen)


def _unsqueeze(op: Operation, shape: Shape) -> Shape:
    op.check(("axes",), 1, 2)
    axes = op.list_of_integers("axes", 1)
    if axes is None or len(axes) > _MAX_AXES:
        raise op.damaged("its axes are missing or too many")
    chosen = op.axes(axes, len(shape) + len(axes))
    sizes = iter(shape)
    return tuple(1 if i in chosen else next(sizes) for i in range(len(shape) + len(axes)))


def _identity(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check((), 1, 1)
    return array


def _transpose(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check(("perm",), 1, 1)
    axes = array.ndim
    order = op.integers("perm", axes, tuple(reversed(range(axes))))
    if sorted(order) != list(range(axes)):
        raise op.damaged(f"perm {list(order)} is not a permutation of {axes} axes")
    return array.transpose(order)


def _expand(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check((), 2, 2)
    target = op.list_of_integers("shape", 1)
    shape = np.broadcast_shapes(array.shape, target or ())
    op.limited(math.prod(shape))
    return np.broadcast_to(array, shape)


def _tile(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check((), 2, 3 if op.opset < 6 else 2)
    repeats = op.list_of_integers("repeats", 1) or ()
    if op.opset < 6:  # how often, and along which axis
        (axis,) = op.axes(op.list_of_integers("axis", 2) or (), array.ndim)
        repeats = tuple(repeats[0] if i == axis else 1 for i in range(array.ndim))
    if len(repeats) != array.ndim or min(repeats, default=1) < 0:
        raise op.damaged(f"repeats {list(repeats)[:_MAX_AXES]} do not fit a tensor of shape {array.shape}")
    op.limited(array.size * math.prod(repeats))
    return np.tile(array, repeats)


def _depth_to_space(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check(("blocksize", "mode"), 1, 1)
    (n, c, h, w), b = array.shape, _block_size(op)
    mode = op.text("mode", "DCR")
    if mode not in ("DCR", "CRD") or c % (b * b):
        raise op.damaged(f"cannot move {c} channels in mode {mode[:8]!r} into blocks of {b}")
    if mode == "DCR":
        parts = array.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = array.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def _space_to_depth(op: Operation, array: NDArray[Any]) -> NDArray[Any]:
    op.check(("blocksize", "mode"), 1, 1)
    if op.text("mode", "DCR") != "DCR":
        raise op.refused("only its mode DCR is supported")
    (n, c, h, w), b = array.shape, _block_size(op)
    parts = array.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


def _block_size(op: Operation) -> int:
    size = op.integer("blocksize", 0)
    if not 1 <= size <= 1 << 20:
        raise op.damaged(f"its blocksize is {size}")
    return size


_SHAPES: dict[str, Callable[[Operation, Shape], Shape]] = {
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}

_ARRAYS: dict[str, Callable[[Operation, NDArray[Any]], Any]] = {
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Identity": _identity,
    "SpaceToDepth": _space_to_depth,
    "Tile": _tile,
    "Transpose": _transpose,
}

REARRANGED: tuple[str, ...] = tuple(sorted([*_SHAPES, *_ARRAYS, *PICKED]))
