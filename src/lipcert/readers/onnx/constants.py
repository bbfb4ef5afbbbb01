"""Arithmetic on the constants of ONNX graphs: what exporters compute from shapes, and weights that are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.readers.onnx.operation import Operation, cast_type, tensor_array
from lipcert.readers.onnx.shapes import REARRANGED, rearranged, triangle

MAX_PRODUCTS = 1 << 30  # multiplications of one product of constants


def fold(op: Operation) -> list[Any]:
    """The outputs of an operation in FOLDED whose inputs are constants; sizes are checked before they are made."""
    op.work.spend(sum(value.size for value in op.inputs if isinstance(value, np.ndarray)))
    if op.kind in REARRANGED:
        results: list[Any] = rearranged(op, op.constant(0, "input"))
    else:
        results = [np.asarray(FOLDED[op.kind](op))]
    op.work.spend(sum(value.size for value in results if value is not None))
    return results


def _constant(op: Operation) -> Any:
    op.check(("value", "value_float", "value_floats", "value_int", "value_ints"), 0, 0)
    if len(op.attributes) != 1:
        raise op.damaged("one value is needed")
    name, value = next(iter(op.attributes.items()))
    if name == "value":
        return _tensor(op)
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fi":
        raise op.damaged(f"attribute {name} must hold numbers")
    return numbers.astype(np.float32 if name.startswith("value_float") else np.int64)


def _tensor(op: Operation) -> NDArray[Any]:
    value = op.attributes["value"]
    if not hasattr(value, "data_type"):
        raise op.damaged("its value must be a tensor")
    return tensor_array(value)


def _shape(op: Operation) -> Any:
    op.check(("start", "end"), 1, 1)
    shape = op.value(0).shape
    end = op.attributes.get("end")
    return np.array(shape[op.integer("start", 0) : len(shape) if end is None else op.integer("end", 0)], dtype=np.int64)


def _size(op: Operation) -> Any:
    op.check((), 1, 1)
    return np.array(math.prod(op.value(0).shape), dtype=np.int64)


def _constant_of_shape(op: Operation) -> Any:
    op.check(("value",), 1, 1)
    shape = op.list_of_integers("shape", 0) or ()
    if min(shape, default=0) < 0 or len(shape) > 16:
        raise op.damaged(f"cannot make a constant of shape {list(shape)[:16]}")
    op.check_size(math.prod(shape))
    value = _tensor(op) if "value" in op.attributes else np.zeros(1, dtype=np.float32)
    return np.full(shape, value.reshape(-1)[0], dtype=value.dtype)


def _range(op: Operation) -> Any:
    op.check((), 3, 3)
    start, end, step = (op.constant(i, what).reshape(())[()] for i, what in enumerate(("start", "limit", "delta")))
    if not np.isfinite([start, end, step]).all() or step == 0:
        raise op.damaged(f"cannot count from {start} to {end} in steps of {step}")
    count = max(math.ceil((float(end) - float(start)) / float(step)), 0)
    op.check_size(count)
    return (start + np.arange(count) * step).astype(start.dtype)


def _concat(op: Operation) -> Any:
    op.check(("axis",), 1, 10_000)
    parts = [op.constant(i, "input") for i in range(len(op.inputs))]
    op.check_size(sum(p.size for p in parts))
    return np.concatenate(parts, axis=op.integer("axis", 1))


def _entrywise(function: Callable[..., Any], fewest: int, most: int = 0) -> Callable[[Operation], Any]:
    """An operator entry by entry, with numpy's broadcasting, of `fewest` constants or of up to `most`."""

    def apply(op: Operation) -> Any:
        op.check((), fewest, max(fewest, most))
        values = [op.constant(i, "input") for i in range(len(op.inputs))]
        _limited_together(op, values)
        return function(*values)

    return apply


def _several(function: Callable[[Any, Any], Any]) -> Callable[[Operation], Any]:
    """An operator of any number of constants, one pair after the other."""
    return _entrywise(lambda *values: reduce(function, values), 1, 1000)


def _quotient(a: NDArray[Any], b: NDArray[Any]) -> Any:
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    _check_divisor(b)
    # ONNX divides integers towards zero, numpy towards minus infinity.
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))


def _mod(op: Operation) -> Any:
    op.check(("fmod",), 2, 2)
    a, b = op.constant(0, "first input"), op.constant(1, "second input")
    _limited_together(op, [a, b])
    if a.dtype.kind in "iu":
        _check_divisor(b)
    return (np.fmod if op.integer("fmod", 0) else np.mod)(a, b)


def _check_divisor(b: NDArray[Any]) -> None:
    if np.any(b == 0):
        raise InputError("divides by zero")


def _cast(op: Operation) -> Any:
    return op.constant(0, "input").astype(cast_type(op))


def _cast_like(op: Operation) -> Any:
    op.check(("saturate", "round_mode"), 2, 2)
    return op.constant(0, "input").astype(op.constant(1, "target").dtype)


def _matmul(op: Operation) -> Any:
    op.check((), 2, 2)
    a, b = op.constant(0, "first input"), op.constant(1, "second input")
    products = a.size * (b.shape[-1] if b.ndim > 1 else 1) * max(math.prod(b.shape[:-2]), 1)
    _affordable(op, products)
    return np.matmul(a, b)


def _einsum(op: Operation) -> Any:
    op.check(("equation",), 1, 8)
    values = [op.constant(i, "operand") for i in range(len(op.inputs))]
    _affordable(op, math.prod(max(v.size, 1) for v in values))
    equation = op.text("equation", "")
    if not set(equation) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,.-> "):
        raise op.damaged("its equation holds something else than letters")
    return np.einsum(equation, *values)


def _reduce(op: Operation) -> Any:
    value = op.constant(0, "input")
    axes = op.reduced_axes(value.ndim, 13 if op.kind == "ReduceSum" else 18)
    if not axes:
        return value
    with_axes = _REDUCE[op.kind](value, axis=axes, keepdims=bool(op.integer("keepdims", 1)))
    return np.asarray(with_axes).astype(value.dtype)


def _cumulative(op: Operation) -> Any:
    op.check(("exclusive", "reverse"), 2, 2)
    value, axis = op.constant(0, "input"), int(op.constant(1, "axis").reshape(-1)[0])
    turned = np.flip(value, axis) if op.integer("reverse", 0) else value
    total = np.cumsum(turned, axis=axis, dtype=value.dtype)
    total = total - turned if op.integer("exclusive", 0) else total
    return np.flip(total, axis) if op.integer("reverse", 0) else total


def _nonzero(op: Operation) -> Any:
    op.check((), 1, 1)
    value = op.constant(0, "input")
    op.check_size(value.size * value.ndim)
    return np.array(np.nonzero(value), dtype=np.int64)


def _trilu(op: Operation) -> Any:
    value = op.constant(0, "input")
    return np.where(triangle(op, value.shape), value, np.zeros((), dtype=value.dtype))


def _limited_together(op: Operation, values: list[NDArray[Any]]) -> None:
    try:
        shape = np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        raise op.damaged(f"shapes {' and '.join(str(v.shape) for v in values[:4])} do not broadcast") from None
    op.check_size(math.prod(shape))


def _affordable(op: Operation, products: int) -> None:
    if products > MAX_PRODUCTS:
        raise op.damaged(f"multiplies constants {products:,} times, beyond the limit of {MAX_PRODUCTS:,}")
    op.work.spend(products // 8)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Ceil": np.ceil, "Cos": np.cos, "Exp": np.exp, "Floor": np.floor, "Log": np.log,
    "Neg": np.negative, "Not": np.logical_not, "Reciprocal": np.reciprocal, "Round": np.rint, "Sign": np.sign,
    "Sin": np.sin, "Sqrt": np.sqrt, "Tanh": np.tanh,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "And": np.logical_and, "Div": _quotient, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal, "Mul": np.multiply,
    "Or": np.logical_or, "Pow": lambda a, b: np.power(a, b).astype(a.dtype), "Sub": np.subtract, "Xor": np.logical_xor,
}  # fmt: skip
_REDUCE: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda v, **how: np.sum(np.abs(v), **how),
    "ReduceL2": lambda v, **how: np.sqrt(np.sum(np.square(v, dtype=np.float64), **how)),
    "ReduceMax": np.max, "ReduceMean": np.mean, "ReduceMin": np.min, "ReduceProd": np.prod, "ReduceSum": np.sum,
    "ReduceSumSquare": lambda v, **how: np.sum(np.square(v), **how),
}  # fmt: skip

FOLDED: dict[str, Callable[[Operation], Any]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative,
    "Einsum": _einsum,
    "MatMul": _matmul,
    "Mod": _mod,
    "NonZero": _nonzero,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
    "Trilu": _trilu,
    "Max": _several(np.maximum),
    "Min": _several(np.minimum),
    "Sum": _several(np.add),
    "Where": _entrywise(np.where, 3),
    **{kind: _entrywise(function, 1) for kind, function in _UNARY.items()},
    **{kind: _entrywise(function, 2) for kind, function in _BINARY.items()},
    **dict.fromkeys(_REDUCE, _reduce),
}
ALWAYS = ("Shape", "Size")  # constants even of a tensor that depends on the input
