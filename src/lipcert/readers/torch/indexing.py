"""Parts of a tensor as torch picks them: by index, by slices and lists, in pieces along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.maps import Index
from lipcert.readers.graph.choices import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import is_live, numbers, picked, tensor, whole, wholes


def item(graph: Graph, input: Any, index: Any) -> Any:
    """input[index]: of a tuple of results, of a tensor by torch's rules, in which whole numbers come before lists."""
    if isinstance(input, (tuple, list)):
        return input[index if isinstance(index, slice) else whole(index, "index")]
    x = tensor(input)
    parts = list(index) if isinstance(index, tuple) else [index]
    plain: list[Any] = []
    lists: list[Any] = []
    for part in parts:
        if part is None or part is Ellipsis:
            plain.append(part)
            lists.append(slice(None) if part is None else part)
        elif isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            plain.append(slice(*(None if n is None else whole(n, "slice") for n in ends)))
            lists.append(slice(None))
        elif isinstance(part, (bool, Condition)) or (is_live(part)):
            raise UnsupportedOperator("picks entries that depend on the input")
        elif isinstance(part, int):
            plain.append(part)
        else:
            chosen = _chosen(part)
            plain.append(slice(None) if chosen.ndim else int(chosen))
            lists += [chosen] if chosen.ndim else []
    return picked(graph, x, x.places[tuple(plain)][tuple(lists)])


def _chosen(part: Any) -> Index:
    """A list of places, or of truth values along one axis."""
    array = numbers(part, "index")
    if array.dtype.kind == "b":
        if array.ndim != 1:
            raise UnsupportedOperator("picks by truth values of several axes")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise InputError("picks by numbers that are not whole")
    return array.astype(np.int64)


def index_select(graph: Graph, input: Any, dim: Any, index: Any) -> Tensor:
    x = tensor(input)
    return picked(graph, x, np.take(x.places, wholes(index, "index"), axis=x.axis(whole(dim, "dim"))))


def select(graph: Graph, input: Any, dim: Any, index: Any) -> Tensor:
    x = tensor(input)
    return picked(graph, x, np.take(x.places, whole(index, "index"), axis=x.axis(whole(dim, "dim"))))


def narrow(graph: Graph, input: Any, dim: Any, start: Any, length: Any) -> Tensor:
    first, count = whole(start, "start"), whole(length, "length")
    return index_select(graph, input, dim, list(range(first, first + count)))


def split(graph: Graph, tensor_: Any, split_size: Any = None, dim: Any = 0, **others: Any) -> tuple[Tensor, ...]:
    x = tensor(tensor_)
    axis = x.axis(whole(dim, "dim"))
    sizes = others.pop("split_size_or_sections", others.pop("split_sizes", split_size))
    if others:
        raise InputError(f"its arguments {', '.join(others)} are not known")
    if not isinstance(sizes, (tuple, list)):
        size, length = whole(sizes, "split_size"), x.shape[axis]
        if size < 1:
            raise InputError(f"splits into parts of {size}")
        sizes = [min(size, length - start) for start in range(0, length, size)]
    lengths = wholes(sizes, "split_sizes")
    if sum(lengths) != x.shape[axis] or min(lengths) < 1:
        raise InputError(f"parts of {lengths} do not fit an axis of {x.shape[axis]}")
    parts = np.split(x.places, np.cumsum(lengths)[:-1], axis=axis)
    return tuple(picked(graph, x, part) for part in parts)


def chunk(graph: Graph, input: Any, chunks: Any, dim: Any = 0) -> tuple[Tensor, ...]:
    x = tensor(input)
    length = x.shape[x.axis(whole(dim, "dim"))]
    return split(graph, x, -(-length // max(whole(chunks, "chunks"), 1)), dim)


def unbind(graph: Graph, input: Any, dim: Any = 0) -> tuple[Tensor, ...]:
    x = tensor(input)
    axis = x.axis(whole(dim, "dim"))
    return tuple(picked(graph, x, np.take(x.places, i, axis=axis)) for i in range(x.shape[axis]))
