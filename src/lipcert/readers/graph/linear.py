"""Linear operations: products with constants, sums along axes, normalisation by constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.maps import Matrix, entries, matrix
from lipcert.readers.graph import products
from lipcert.readers.graph.products import Labels, flat_index, label_space
from lipcert.readers.graph.tensors import Graph, Tensor, constant_tensor
from lipcert.readers.graph.terms import check_entries, check_width
from lipcert.rounding import Array

# Products of a contraction that is written entry by entry: 16 bytes each, and the sparse map that they become.
MOST_PRODUCTS = 1 << 25
THREE = "multiplies more than two tensors that depend on the input; multiply two at a time"


def times(graph: Graph, x: Tensor, weight: Array) -> Tensor:
    """x weight, over the last axis."""
    if not x.shape or weight.shape[0] != x.shape[-1]:
        raise InputError(f"a matrix of shape {weight.shape} does not follow a tensor of shape {x.shape}")
    copies = x.width // x.shape[-1]
    check_entries(copies * weight.size)
    return graph.apply(x, repeated(copies, weight.T), (*x.shape[:-1], weight.shape[1]))


def times_from_left(graph: Graph, x: Tensor, weight: Array) -> Tensor:
    """weight x, over the last axis but one (the only one of a vector)."""
    axis = max(len(x.shape) - 2, 0)
    if not x.shape or weight.shape[1] != x.shape[axis]:
        raise InputError(f"a matrix of shape {weight.shape} does not precede a tensor of shape {x.shape}")
    columns, copies = math.prod(x.shape[axis + 1 :]), math.prod(x.shape[:axis])
    check_entries(copies * columns * weight.size)
    map_: Matrix = weight
    if columns > 1:
        map_ = sparse.csr_array(sparse.kron(weight, sparse.eye_array(columns), format="csr"))
    return graph.apply(x, repeated(copies, map_), (*x.shape[:axis], weight.shape[0], *x.shape[axis + 1 :]))


def matmul(graph: Graph, a: Tensor | Array, b: Tensor | Array, *, dense: bool = False) -> Tensor:
    """a @ b by numpy's rules for vectors and for axes before the last two.

    dense: as in `contract`.
    """
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if not a.shape or not b.shape or a.shape[-1] != b.shape[max(len(b.shape) - 2, 0)]:
            raise InputError(f"tensors of the shapes {a.shape} and {b.shape} are multiplied as matrices")
        one, two, output = _labels_of_stacks(len(a.shape), len(b.shape), False)
        return products.contract(graph, (a, one), (b, two), output)
    left = isinstance(b, Tensor)
    x, other = (b, a) if not isinstance(a, Tensor) else (a, b)
    assert not isinstance(other, Tensor)
    if not isinstance(x, Tensor):
        x = constant_tensor(x)
    if not other.size or not other.ndim or not x.shape:
        raise InputError(f"its constant has the shape {other.shape}, the tensor {x.shape}")
    if max(other.shape[:-2], default=1) > 1:
        own, others, output = _labels_of_stacks(len(x.shape), other.ndim, left)
        return contract(graph, x, own, [(other, others)], output, dense=dense)
    shapes = (other.shape, x.shape) if left else (x.shape, other.shape)
    if left:
        y = times_from_left(graph, x, other.reshape(-1, other.shape[-1]))
    else:
        y = times(graph, x, other.reshape(-1, 1) if other.ndim == 1 else other.reshape(other.shape[-2:]))
    return y.reshaped(_product_shape(*shapes))


def einsum(graph: Graph, equation: str, operands: Sequence[Tensor | Array], *, dense: bool = False) -> Tensor:
    """The sum that an equation such as "bi,oi->bo" says; two operands may depend on the input, without constants then.

    dense: as in `contract`.
    """
    live = [operand for operand in operands if isinstance(operand, Tensor)]
    labels, output = _parsed(equation, [len(operand.shape) for operand in operands])
    if len(live) > 1:
        if len(operands) > 2:
            raise UnsupportedOperator(THREE)
        return products.contract(graph, (live[0], labels[0]), (live[1], labels[1]), output)
    which = next((i for i, operand in enumerate(operands) if isinstance(operand, Tensor)), 0)
    x = operands[which]
    constants = [(v, names) for v, names in zip(operands, labels, strict=True) if not isinstance(v, Tensor)]
    if not isinstance(x, Tensor):
        x, constants = constant_tensor(x), constants[1:]
    return contract(graph, x, labels[which], constants, output, dense=dense)


def contract(
    graph: Graph,
    x: Tensor,
    labels: Labels,
    constants: Sequence[tuple[Array, Labels]],
    output: Labels,
    *,
    dense: bool = False,
) -> Tensor:
    """The sum over every label that is not in the output, of the products of entries; every axis has a label.

    An axis of size 1 goes with any other of the same label. `dense` keeps a map without zeros as a dense array: that
    rounds sums of folded maps in another order, so readers must not change it, or hashes of networks would change.
    """
    if not constants and len(set(labels)) == len(labels) and sorted(labels) == sorted(output):
        return graph.transpose(x, [labels.index(label) for label in output])
    space, extent = label_space([(x.shape, labels), *((c.shape, names) for c, names in constants)], output)
    shape = tuple(extent[: len(output)])
    rows = check_width(math.prod(shape))
    check_entries(math.prod(extent))
    if not dense and math.prod(extent) > MOST_PRODUCTS:
        raise InputError(f"adds up {math.prod(extent):,} products, beyond the limit of {MOST_PRODUCTS:,}")
    columns = np.broadcast_to(flat_index(x.shape, labels, space), extent).reshape(-1)
    values = np.ones(extent)
    for constant, names in constants:
        values *= constant.reshape(-1)[flat_index(constant.shape, names, space)]
    ends = np.arange(rows + 1) * (columns.size // rows)
    map_ = sparse.csr_array((values.reshape(-1), columns, ends), shape=(rows, x.width))
    map_.sum_duplicates()
    return graph.apply(x, map_.toarray() if dense and map_.nnz == rows * x.width else map_, shape)


def along(graph: Graph, x: Tensor, axis: int, weight: Matrix) -> Tensor:
    """A matrix (out, in) times every line of the tensor along an axis."""
    axis = x.axis(axis)
    if weight.shape[1] != x.shape[axis]:
        raise InputError(f"a matrix of shape {weight.shape} does not fit axis {axis} of a tensor of shape {x.shape}")
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    check_entries(before * after * entries(weight))
    check_width(before * after * weight.shape[0])
    map_ = sparse.kron(sparse.csr_array(weight), sparse.eye_array(after), format="csr") if after > 1 else weight
    return graph.apply(x, repeated(before, map_), (*x.shape[:axis], weight.shape[0], *x.shape[axis + 1 :]))


def cumulative_sum(graph: Graph, x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Sums of the entries up to each one along an axis; from the end if `reverse`, without that one if `exclusive`."""
    count = x.shape[x.axis(axis)]
    check_width(count * count)
    below = np.tri(count, k=-1 if exclusive else 0)
    return along(graph, x, axis, below.T if reverse else below)


def summed(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool, *, mean: bool = False) -> Tensor:
    """Sums, or means, along axes; the tensor itself where there are none."""
    if not axes:
        return x
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    count = x.width // math.prod(kept)
    rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape).reshape(-1)
    data = np.full(x.width, 1.0 / count if mean else 1.0)
    map_ = sparse.csr_array((data, (rows, np.arange(x.width))), shape=(math.prod(kept), x.width))
    return graph.apply(x, map_, kept if keep else tuple(n for a, n in enumerate(x.shape) if a not in axes))


def normalize_channels(graph: Graph, x: Tensor, statistics: Sequence[Array], epsilon: float) -> Tensor:
    """Batch normalisation by scale, bias, mean, variance: scale (x - mean) / sqrt(variance + epsilon) + bias."""
    scale, bias, mean, variance = statistics
    if any(v.shape != x.shape[1:2] for v in statistics):
        raise InputError(f"{scale.size} channel statistics do not fit a tensor of shape {x.shape}")
    if not np.all(variance + epsilon > 0):
        raise InputError("a variance plus epsilon is not positive")
    factor = scale / np.sqrt(variance + epsilon)
    return graph.scale_and_shift(x, along_channels(x, factor), along_channels(x, bias - factor * mean))


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a product by numpy's rules: a vector's extra axis vanishes, leading axes are broadcast."""
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *a[-2:-1], *b[max(len(b) - 1, 1) :])


def _labels_of_stacks(rank: int, other: int, left: bool) -> tuple[Labels, Labels, Labels]:
    """The labels of a product with many matrices, of ranks `rank` and `other`, that stand on the right or the left."""
    first, second = (other, rank) if left else (rank, other)
    front = [f"f{i}" for i in range(max(first, second) - 2)]
    row, column = ["row"] if first > 1 else [], ["column"] if second > 1 else []
    one = [*front[len(front) - max(first - 2, 0) :], *row, "sum"]
    two = [*front[len(front) - max(second - 2, 0) :], "sum", *column]
    return (two, one, [*front, *row, *column]) if left else (one, two, [*front, *row, *column])


def _parsed(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of every operand and of the output; the axes of an ellipsis are called 0, 1, .. from the end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise InputError(f"its equation has {len(parts)} operands, the node {len(ranks)}")
    operands = [_labels(part, rank) for part, rank in zip(parts, ranks, strict=True)]
    found = [name for names in operands for name in names]
    hidden = sorted({name for name in found if name.isdigit()}, key=int, reverse=True)
    if arrow:
        front, dots, back = right.partition("...")
        output = [*front, *(hidden if dots else []), *back]
    else:
        output = [*hidden, *sorted(name for name in set(found) if found.count(name) == 1 and not name.isdigit())]
    if len(set(output)) != len(output) or not set(output) <= set(found):
        raise InputError("its equation has an output that does not follow from its operands")
    return operands, output


def _labels(part: str, rank: int) -> list[str]:
    front, dots, back = part.partition("...")
    hidden = rank - len(front) - len(back)
    if not (front + back).isalpha() and (front + back):
        raise InputError("its equation holds something else than letters")
    if hidden < 0 or (hidden and not dots):
        raise InputError(f"its equation has {len(front) + len(back)} letters for {rank} axes")
    return [*front, *(str(hidden - 1 - i) for i in range(hidden)), *back]


def along_channels(x: Tensor, values: Array) -> Array:
    """One value for each channel, in a shape that broadcasts to the tensor's."""
    return values.reshape((-1,) + (1,) * (len(x.shape) - 2))


def repeated(count: int, map_: Matrix) -> Matrix:
    """The block diagonal matrix of `count` copies: the same map on every item of a batch."""
    if count == 1:
        return map_
    check_entries(count * entries(map_))
    return sparse.csr_array(sparse.kron(sparse.eye_array(count), matrix(map_), format="csr"))
