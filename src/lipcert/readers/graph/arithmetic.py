"""Arithmetic entry by entry, of tensors, constants and comparisons, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import rewrites
from lipcert.readers.graph.choices import Condition, as_tensor, choose
from lipcert.readers.graph.linear_maps import check_width
from lipcert.readers.graph.products import product, quotient
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast
from lipcert.rounding import Array

Operand = Tensor | Array


def add(graph: Graph, a: Operand, b: Operand, factor: float = 1.0) -> Operand:
    """a + factor b; an array where both are."""
    b = graph.scale_and_shift(b, factor, 0.0) if isinstance(b, Tensor) else factor * b
    if isinstance(a, Tensor):
        return graph.add(a, b) if isinstance(b, Tensor) else graph.scale_and_shift(a, 1.0, b)
    return graph.scale_and_shift(b, 1.0, a) if isinstance(b, Tensor) else np.asarray(a + b)


def subtract(graph: Graph, a: Operand | Condition, b: Operand | Condition) -> Operand | Condition:
    """a - b; 1 minus a comparison is the opposite comparison."""
    if isinstance(b, Condition) and _is_one(a, b.shape):
        return b.inverted()
    return add(graph, _number(a), _number(b), -1.0)


def multiply(graph: Graph, a: Operand | Condition, b: Operand | Condition) -> Tensor | Condition:
    """a b. Two tensors are multiplied where that is an activation, a comparison where the value does not jump."""
    for mask, other in ((a, b), (b, a)):
        if isinstance(mask, Condition) and _is_one(other, mask.shape):
            return mask
    if isinstance(a, np.ndarray):
        a, b = b, a
    if not isinstance(b, np.ndarray):
        return product(graph, as_tensor(a) if isinstance(a, np.ndarray) else a, b)
    if isinstance(a, Condition):
        return choose(graph, a, b, np.zeros(()))
    return graph.scale_and_shift(as_tensor(a), b, 0.0)


def divide(graph: Graph, a: Operand, b: Operand) -> Tensor:
    """a / b by a constant, or where the quotient is softsign."""
    if isinstance(b, Tensor):
        if not isinstance(a, Tensor):
            raise UnsupportedOperator("divides by the network's tensor, which is not affine")
        return quotient(graph, a, b)
    if not np.all(b):
        raise InputError("divides by zero")
    return graph.scale_and_shift(as_tensor(a), 1.0 / b, 0.0)


def negate(graph: Graph, x: Tensor) -> Tensor:
    """-x."""
    return graph.scale_and_shift(x, -1.0, 0.0)


def power(graph: Graph, x: Tensor, exponent: Operand) -> Tensor:
    """x to the first power."""
    if isinstance(exponent, Tensor) or not np.all(exponent == 1.0):
        raise UnsupportedOperator(
            "only the first power of a tensor is read; the slope of others has no bound, nor has that of a "
            "normalisation that is written with them"
        )
    return graph.scale_and_shift(x, np.ones(exponent.shape), 0.0)


def extreme(graph: Graph, values: Sequence[Operand], largest: bool) -> Tensor:
    """The largest, or smallest, of tensors and constants, of which one at least is a tensor; constants come last."""
    pick, bound = (rewrites.larger, np.maximum) if largest else (rewrites.smaller, np.minimum)
    tensors = [value for value in values if isinstance(value, Tensor)]
    constants = [value for value in values if not isinstance(value, Tensor)]
    best = reduce(lambda a, b: pick(graph, a, b), tensors)
    if not constants:
        return best
    check_width(int(np.prod(broadcast(*(value.shape for value in constants)))))
    return (rewrites.larger_than if largest else rewrites.smaller_than)(graph, best, reduce(bound, constants))


def extreme_along(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool, largest: bool) -> Tensor:
    """The largest, or smallest, entries along axes."""
    return (rewrites.largest if largest else rewrites.smallest)(graph, x, axes, keep)


def first_sorted(graph: Graph, x: Tensor, axis: int, count: int, largest: bool) -> Tensor:
    """The `count` largest, or smallest, entries along an axis, in order."""
    axis = x.axis(axis)
    if not 1 <= count <= x.shape[axis]:
        raise InputError(f"takes {count} of {x.shape[axis]} entries")
    if count == 1:
        return extreme_along(graph, x, (axis,), True, largest)
    ordered = rewrites.sort(graph, x, axis, descending=largest)
    return graph.pick(ordered, np.take(ordered.places, np.arange(count), axis=axis))


def _number(value: Operand | Condition) -> Operand:
    if isinstance(value, Condition):
        raise UnsupportedOperator("its operand is a comparison of tensors, whose value jumps")
    return value


def _is_one(value: object, shape: tuple[int, ...]) -> bool:
    """Whether a constant is 1 everywhere, and does not enlarge a tensor of this shape."""
    ones = isinstance(value, np.ndarray) and value.dtype.kind != "b" and bool(np.all(value == 1.0))
    return ones and broadcast(shape, value.shape) == shape  # type: ignore[attr-defined]
