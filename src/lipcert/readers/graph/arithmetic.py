"""Arithmetic entry by entry, of tensors, constants and comparisons, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import products, rewrites
from lipcert.readers.graph.recognised import Condition, as_tensor, choose, product, quotient
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast
from lipcert.readers.graph.terms import check_width
from lipcert.rounding import Array

Operand = Tensor | Array
Value = Operand | Condition


def add(graph: Graph, a: Value, b: Value, factor: float = 1.0) -> Operand:
    """a + factor b; an array where both are."""
    a, b = _number(a), _number(b)
    b = graph.scale_and_shift(b, factor, 0.0) if isinstance(b, Tensor) else factor * b
    if isinstance(a, Tensor):
        return graph.add(a, b) if isinstance(b, Tensor) else graph.scale_and_shift(a, 1.0, b)
    return graph.scale_and_shift(b, 1.0, a) if isinstance(b, Tensor) else np.asarray(a + b)


def subtract(graph: Graph, a: Value, b: Value) -> Value:
    """a - b; 1 minus a comparison is the opposite comparison."""
    if isinstance(b, Condition) and _is_one(a, b.shape):
        return b.inverted()
    return add(graph, a, b, -1.0)


def total(graph: Graph, values: Sequence[Value], *, mean: bool = False) -> Operand:
    """The sum, or the mean, of any number of values."""
    found = reduce(lambda a, b: add(graph, a, b), values[1:], _number(values[0]))
    return graph.scale_and_shift(as_tensor(found), 1.0 / len(values), 0.0) if mean else found


def multiply(graph: Graph, a: Value, b: Value) -> Tensor | Condition:
    """a b of tensors and constants, and of comparisons where the value does not jump."""
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


def divide(graph: Graph, a: Value, b: Value) -> Tensor:
    """a / b."""
    a, b = _number(a), _number(b)
    if isinstance(b, Tensor):
        if isinstance(a, Tensor):
            return quotient(graph, a, b)
        return graph.scale_and_shift(products.reciprocal(graph, b), a, 0.0)
    if not np.all(b):
        raise InputError("divides by zero")
    return graph.scale_and_shift(as_tensor(a), 1.0 / b, 0.0)


def negate(graph: Graph, x: Tensor) -> Tensor:
    """-x."""
    return graph.scale_and_shift(x, -1.0, 0.0)


def power(graph: Graph, x: Value, exponent: Value) -> Tensor:
    """x to a power: one number for all entries, or a tensor, for x > 0."""
    base, exponent = _number(x), _number(exponent)
    if not isinstance(exponent, Tensor):
        if not exponent.size or np.any(exponent != exponent.reshape(-1)[0]):
            raise UnsupportedOperator("takes several powers; one exponent for all entries is supported")
        y = products.power(graph, as_tensor(base), float(exponent.reshape(-1)[0]))
        return graph.expand(y, broadcast(y.shape, exponent.shape))
    if not isinstance(base, Tensor):
        return products.exponential(graph, base, exponent)
    grown = product(graph, exponent, graph.activate(base, products.LOG))
    return graph.activate(grown, products.EXP)


def compare(graph: Graph, a: Value, b: Value, relation: str) -> Condition:
    """a > b, a >= b, a < b or a <= b."""
    more, less = (a, b) if relation[0] == ">" else (b, a)
    return Condition(graph.subtract(as_tensor(_number(more)), as_tensor(_number(less))))


def invert(graph: Graph, value: Value) -> Condition:  # noqa: ARG001 - operations have the same first argument
    """The opposite of a comparison."""
    if not isinstance(value, Condition):
        raise UnsupportedOperator("is for comparisons only")
    return value.inverted()


def combine(graph: Graph, a: Value, b: Value, neutral: bool) -> Condition:  # noqa: ARG001
    """And (its neutral value is true) and or (false), of a comparison with a constant that changes nothing."""
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Condition) or not isinstance(other, np.ndarray):
            continue
        if np.all(other == neutral) and broadcast(one.shape, other.shape) == one.shape:
            return one
    raise UnsupportedOperator("combines comparisons of tensors; one at a time is supported, where no value jumps")


def extreme(graph: Graph, values: Sequence[Value], largest: bool) -> Tensor:
    """The largest, or smallest, of tensors and constants, of which one at least is a tensor; constants come last."""
    pick, bound = (rewrites.larger, np.maximum) if largest else (rewrites.smaller, np.minimum)
    numbers = [_number(value) for value in values]
    tensors = [value for value in numbers if isinstance(value, Tensor)]
    constants = [value for value in numbers if not isinstance(value, Tensor)]
    best = reduce(lambda a, b: pick(graph, a, b), tensors)
    if not constants:
        return best
    check_width(int(np.prod(broadcast(*(value.shape for value in constants)))))
    return (rewrites.larger_than if largest else rewrites.smaller_than)(graph, best, reduce(bound, constants))


def extreme_along(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool, largest: bool) -> Tensor:
    """The largest, or smallest, entries along axes; the tensor itself where there are none."""
    if not axes:
        return x
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


def _number(value: Value) -> Operand:
    if isinstance(value, Condition):
        raise UnsupportedOperator("its operand is a comparison of tensors, whose value jumps")
    return value


def _is_one(value: Value, shape: tuple[int, ...]) -> bool:
    """Whether a constant is 1 everywhere, and does not enlarge a tensor of this shape."""
    if not isinstance(value, np.ndarray) or value.dtype.kind == "b":
        return False
    return bool(np.all(value == 1.0)) and broadcast(shape, value.shape) == shape
