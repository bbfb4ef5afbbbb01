"""Products of a tensor with constants, summed over some axes: Einstein's notation, and stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.problem.maps import Index
from lipcert.readers.graph.linear_maps import check_width
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array

MAX_PRODUCTS = 1 << 25  # products that are added up, over all entries

Labels = Sequence[str]


def einsum(graph: Graph, equation: str, x: Tensor, which: int, constants: Mapping[int, Array]) -> Tensor:
    """The sum that an equation such as "bi,oi->bo" says; operand `which` is x, the others are constants."""
    ranks = [len(x.shape) if i == which else constants[i].ndim for i in range(len(constants) + 1)]
    operands, output = _parsed(equation, ranks)
    others = [(values, operands[i]) for i, values in constants.items()]
    return contract(graph, x, operands[which], others, output)


def contract(
    graph: Graph, x: Tensor, labels: Labels, constants: Sequence[tuple[Array, Labels]], output: Labels
) -> Tensor:
    """The sum over every label that is not in the output, of the products of entries; every axis has a label.

    An axis of size 1 goes with any other of the same label.
    """
    if not constants and len(set(labels)) == len(labels) and sorted(labels) == sorted(output):
        return graph.transpose(x, [labels.index(label) for label in output])
    sizes: dict[str, int] = {}
    for shape, names in [(x.shape, labels), *((c.shape, names) for c, names in constants)]:
        for n, name in zip(shape, names, strict=True):
            if n != 1 and sizes.get(name, 1) not in (1, n):
                raise InputError(f"axes of {n} and of {sizes[name]} entries are multiplied")
            sizes[name] = max(sizes.get(name, 1), n)
    space = [*output, *(name for name in sizes if name not in output)]
    extent = [sizes[name] for name in space]
    shape = tuple(extent[: len(output)])
    rows = check_width(math.prod(shape))
    if math.prod(extent) > MAX_PRODUCTS:
        raise InputError(f"adds up {math.prod(extent):,} products, beyond the limit of {MAX_PRODUCTS:,}")
    columns = np.broadcast_to(_flat_index(x.shape, labels, space), extent).reshape(-1)
    values = np.ones(extent)
    for constant, names in constants:
        values *= constant.reshape(-1)[_flat_index(constant.shape, names, space)]
    ends = np.arange(rows + 1) * (columns.size // rows)
    map_ = sparse.csr_array((values.reshape(-1), columns, ends), shape=(rows, x.width))
    map_.sum_duplicates()
    return graph.apply(x, map_, shape)


def _flat_index(shape: tuple[int, ...], labels: Labels, space: Labels) -> Index:
    """Where in the flattened array of this shape the entry for every point of the labels' space is."""
    index = np.zeros((1,) * len(space), dtype=np.int64)
    stride = 1
    for n, name in zip(reversed(shape), reversed(labels), strict=True):
        line = [1] * len(space)
        line[space.index(name)] = n
        index = index + stride * np.arange(n).reshape(line)
        stride *= n
    return index


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
