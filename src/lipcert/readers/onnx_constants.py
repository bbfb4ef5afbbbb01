"""Shapes and constants of ONNX graphs: the operators that only rearrange, and arithmetic on constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.files import MAX_WEIGHTS
from lipcert.readers.onnx_operation import TENSOR_TYPES, Live, Operation, tensor_array

Shape = tuple[int, ...]


def fold(operation: Operation) -> NDArray[Any]:
    """The value of an operation whose inputs are constants."""
    if operation.kind not in FOLDED:
        raise operation.refused("applied to constants; only " + ", ".join(sorted(FOLDED)) + " are")
    return np.asarray(FOLDED[operation.kind](operation))


def new_shape(op: Operation, shape: Shape) -> Shape:
    """The shape that Reshape, Flatten, Squeeze or Unsqueeze gives to a tensor."""
    target = _SHAPES[op.kind](op, shape)
    if any(n < 0 for n in target) or math.prod(target) != math.prod(shape) or len(target) > 16:
        raise op.damaged(f"cannot change the shape {list(shape)} to {list(target)[:16]}")
    return target


def permutation(op: Operation, axes: int) -> Shape:
    """The axes of a Transpose, in their new order."""
    op.check(("perm",), 1, 1)
    order = op.integers("perm", axes, tuple(reversed(range(axes))))
    if sorted(order) != list(range(axes)):
        raise op.damaged(f"perm {list(order)} is not a permutation of {axes} axes")
    return order


def cast_type(op: Operation) -> Any:
    """The numpy type that a Cast gives."""
    op.check(("to", "saturate", "round_mode"), 1, 1)
    code = op.attributes.get("to")
    if code not in TENSOR_TYPES:
        raise op.refused("casts to float16, float32, float64 and integers only")
    return TENSOR_TYPES[code]


def _reshape(op: Operation, shape: Shape) -> Shape:
    op.check(("allowzero", "shape"), 1, 2)
    target = op.list_of_integers("shape", 1)
    if target is None:
        raise op.damaged("its shape is missing")
    if not op.integer("allowzero", 0):
        if any(n == 0 and i >= len(shape) for i, n in enumerate(target)):
            raise op.damaged(f"shape {list(target)[:16]} keeps an axis that the input has not")
        target = tuple(shape[i] if n == 0 else n for i, n in enumerate(target))
    if target.count(-1) == 1:
        rest = -math.prod(target)
        if rest < 1 or math.prod(shape) % rest:
            raise op.damaged(f"cannot change the shape {list(shape)} to {list(target)[:16]}")
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
    chosen = {i for i, n in enumerate(shape) if n == 1} if axes is None else _axes(op, axes, len(shape))
    if any(shape[i] != 1 for i in chosen):
        raise op.damaged(f"axes {sorted(chosen)} of the shape {list(shape)} are not all 1")
    return tuple(n for i, n in enumerate(shape) if i not in chosen)


def _unsqueeze(op: Operation, shape: Shape) -> Shape:
    op.check(("axes",), 1, 2)
    axes = op.list_of_integers("axes", 1)
    if axes is None or len(axes) > 8:
        raise op.damaged("its axes are missing or too many")
    chosen = _axes(op, axes, len(shape) + len(axes))
    sizes = iter(shape)
    return tuple(1 if i in chosen else next(sizes) for i in range(len(shape) + len(axes)))


def _axes(op: Operation, axes: Sequence[int], count: int) -> set[int]:
    if not all(-count <= a < count for a in axes) or len({a % count for a in axes}) != len(axes):
        raise op.damaged(f"axes {list(axes)[:16]} are out of range or repeated")
    return {a % count for a in axes}


_SHAPES: dict[str, Callable[[Operation, Shape], Shape]] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}


def _constant(op: Operation) -> Any:
    op.check(("value", "value_float", "value_floats", "value_int", "value_ints"), 0, 0)
    if len(op.attributes) != 1:
        raise op.damaged("one value is needed")
    name, value = next(iter(op.attributes.items()))
    if name == "value":
        if not hasattr(value, "data_type"):
            raise op.damaged("its value must be a tensor")
        return tensor_array(value)
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fi":
        raise op.damaged(f"attribute {name} must hold numbers")
    return numbers.astype(np.float32 if name.startswith("value_float") else np.int64)


def _shape(op: Operation) -> Any:
    op.check(("start", "end"), 1, 1)
    value = op.inputs[0]
    shape = value.shape if isinstance(value, Live) else op.constant(0, "input").shape
    end = op.attributes.get("end")
    return np.array(shape[op.integer("start", 0) : len(shape) if end is None else op.integer("end", 0)], dtype=np.int64)


def _gather(op: Operation) -> Any:
    op.check(("axis",), 2, 2)
    data, index, axis = op.constant(0, "data"), op.constant(1, "indices"), op.integer("axis", 0)
    if index.dtype.kind not in "iu" or not -data.ndim <= axis < data.ndim:
        raise op.damaged("its indices or axis are wrong")
    size = data.shape[axis]
    if np.any(index < -size) or np.any(index >= size):
        raise op.damaged("its indices are out of range")
    _limited(op, index.size * (data.size // max(size, 1)))
    return np.take(data, index.astype(np.int64), axis=axis)


def _concat(op: Operation) -> Any:
    op.check(("axis",), 1, 1000)
    parts = [op.constant(i, "input") for i in range(len(op.inputs))]
    axis = op.integer("axis", 0)
    _limited(op, sum(p.size for p in parts))
    try:
        return np.concatenate(parts, axis=axis)
    except ValueError:
        raise op.damaged("its inputs do not fit together") from None


def _arithmetic(op: Operation) -> Any:
    op.check((), 2, 2)
    a, b = op.constant(0, "first input"), op.constant(1, "second input")
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise op.damaged(f"shapes {a.shape} and {b.shape} do not broadcast") from None
    _limited(op, math.prod(shape))
    if op.kind == "Div" and a.dtype.kind in "iu":
        # ONNX divides integers towards zero, numpy towards minus infinity; both are only needed for sizes.
        if np.any(b == 0) or np.any(a < 0) or np.any(b < 0):
            raise op.refused("integers are divided only if positive")
        return a // b
    return {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op.kind](a, b)


def _limited(op: Operation, size: int) -> None:
    if size > MAX_WEIGHTS:
        raise op.damaged(f"a constant of {size:,} numbers is beyond the limit of {MAX_WEIGHTS:,}")


def _reshaped(op: Operation) -> Any:
    value = op.constant(0, "input")
    return value.reshape(new_shape(op, value.shape))


def _identity(op: Operation) -> Any:
    op.check((), 1, 1)
    return op.constant(0, "input")


def _transpose(op: Operation) -> Any:
    value = op.constant(0, "input")
    return value.transpose(permutation(op, value.ndim))


def _cast(op: Operation) -> Any:
    return op.constant(0, "input").astype(cast_type(op))


FOLDED: dict[str, Callable[[Operation], Any]] = {
    "Add": _arithmetic,
    "Cast": _cast,
    "Concat": _concat,
    "Constant": _constant,
    "Div": _arithmetic,
    "Flatten": _reshaped,
    "Gather": _gather,
    "Identity": _identity,
    "Mul": _arithmetic,
    "Reshape": _reshaped,
    "Shape": _shape,
    "Squeeze": _reshaped,
    "Sub": _arithmetic,
    "Transpose": _transpose,
    "Unsqueeze": _reshaped,
}
