"""Functions of torch that change shapes and places, by name: nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.maps import Index
from lipcert.readers.graph import Entry, places
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.graph.terms import check_width
from lipcert.readers.torch.values import (
    Unread,
    as_given,
    axes_of,
    call,
    is_live,
    numbers,
    optional_whole,
    real,
    spread,
    tensor,
    whole,
    wholes,
)


def moves(function: Callable[..., Any], **parameters: Any) -> Callable[..., Any]:
    """A function of torch that picks what function(places, ..) gives: one array, or a list of several."""

    def apply(graph: Graph, x: Tensor, *values: Any) -> Any:
        made = function(x.places, *values)
        return tuple(graph.pick(x, part) for part in made) if isinstance(made, list) else graph.pick(x, made)

    return call(apply, **parameters)


# --- functions of places with torch's own rules -----------------------------------------------------------------------


def _squeeze(array: Index, dim: Any) -> Index:
    axes = axes_of(array, dim)
    return array.reshape([n for axis, n in enumerate(array.shape) if axis not in axes or n != 1])


def _unsqueeze(array: Index, dim: int) -> Index:
    if not -array.ndim - 1 <= dim <= array.ndim:
        raise InputError(f"a tensor of shape {array.shape} gets no axis {dim}")
    return np.expand_dims(array, dim)


def _swap(array: Index, dim0: int, dim1: int) -> Index:
    return array.swapaxes(places.axis_of(array, dim0), places.axis_of(array, dim1))


def _matrix_transpose(array: Index) -> Index:
    if array.ndim > 2:
        raise InputError(f"a tensor of shape {array.shape} is not a matrix")
    return array.T


def _tile(array: Index, repeats: tuple[int, ...]) -> Index:
    check_width(array.size * max(math.prod(repeats), 1))
    return places.tile(array, repeats)


def _flip(array: Index, dims: Any) -> Index:
    return np.flip(array, axes_of(array, dims))


def _roll(array: Index, shifts: tuple[int, ...], dims: Any) -> Index:
    return np.roll(array, shifts[0]) if dims is None else np.roll(array, shifts, wholes(dims, "dims"))


def _select(array: Index, dim: int, index: Any) -> Index:
    return places.take(array, index, dim)


def _narrow(array: Index, dim: int, start: int, length: int) -> Index:
    return places.take(array, np.arange(start, start + length), dim)


def _split(array: Index, size: Any, dim: int) -> list[Index]:
    length = array.shape[places.axis_of(array, dim)]
    if isinstance(size, (tuple, list)):
        return places.split(array, wholes(size, "split_sizes"), dim)
    step = whole(size, "split_size")
    if step < 1:
        raise InputError(f"splits into parts of {step}")
    return places.split(array, [min(step, length - start) for start in range(0, length, step)], dim)


def _chunk(array: Index, chunks: int, dim: int) -> list[Index]:
    return _split(array, -(-array.shape[places.axis_of(array, dim)] // max(chunks, 1)), dim)


def _unbind(array: Index, dim: int) -> list[Index]:
    return list(np.moveaxis(array, places.axis_of(array, dim), 0))


def _diagonal(array: Index) -> Index:
    if array.ndim != 1:
        raise UnsupportedOperator("is only supported for vectors")
    return np.diag(array + 1) - 1


# --- functions that take more than one tensor, or give something else -------------------------------------------------


def split(graph: Graph, tensor_: Any, split_size: Any = None, dim: Any = 0, **others: Any) -> Any:
    """torch.split and Tensor.split, which name the sizes of the parts in three ways."""
    sizes = others.pop("split_size_or_sections", others.pop("split_sizes", split_size))
    if others:
        raise InputError(f"its arguments {', '.join(others)} are not known")
    return _SPLIT(graph, tensor_, sizes, dim)


_SPLIT = moves(_split, split_size=as_given, dim=0)


def item(graph: Graph, input: Any, index: Any) -> Any:
    """input[index]: of a tuple of results, of a tensor by torch's rules, in which whole numbers come before lists."""
    if isinstance(input, (tuple, list)):
        return input[index if isinstance(index, slice) else whole(index, "index")]
    x = tensor(input)
    plain: list[Any] = []
    lists: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or part is Ellipsis:
            plain.append(part)
            lists.append(slice(None) if part is None else part)
        elif isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            plain.append(slice(*(None if n is None else whole(n, "slice") for n in ends)))
            lists.append(slice(None))
        elif isinstance(part, (bool, Condition)) or is_live(part):
            raise UnsupportedOperator("picks entries that depend on the input")
        elif isinstance(part, int):
            plain.append(part)
        else:
            chosen = _chosen(part)
            plain.append(slice(None) if chosen.ndim else int(chosen))
            lists += [chosen] if chosen.ndim else []
    return graph.pick(x, x.places[tuple(plain)][tuple(lists)])


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


def _like(graph: Graph, input: Any, other: Any) -> Tensor:  # noqa: ARG001
    return tensor(input).reshaped(other.shape)


def _expand(graph: Graph, x: Tensor, wanted: tuple[int, ...]) -> Tensor:
    new = len(wanted) - len(x.shape)
    if new < 0:
        raise InputError(f"a tensor of shape {x.shape} is not expanded to {wanted}")
    return graph.expand(x, [m if n == -1 else n for n, m in zip(wanted, (1,) * new + x.shape, strict=True)])


def _expand_as(graph: Graph, input: Any, other: Any) -> Tensor:
    return graph.expand(tensor(input), tuple(other.shape))


def _cat(graph: Graph, tensors: Any, dim: Any = 0) -> Tensor:
    if not isinstance(tensors, (tuple, list)):
        raise UnsupportedOperator("joins something else than a list of tensors")
    parts = [part if isinstance(part, Tensor) else real(part, "part") for part in tensors]
    return graph.concatenate(parts, whole(dim, "dim")) if len(parts) > 1 else tensor(parts[0])


def _stack(graph: Graph, tensors: Any, dim: Any = 0) -> Tensor:
    parts = [tensor(part) for part in tensors]
    axis = whole(dim, "dim") % (len(parts[0].shape) + 1)
    return _cat(graph, [graph.pick(part, _unsqueeze(part.places, axis)) for part in parts], axis)


def _identity(graph: Graph, input: Any, *others: Any, **named: Any) -> Any:  # noqa: ARG001
    """The tensor itself; a comparison may become numbers, but no number a comparison."""
    for value in (*others, *named.values()):
        words = ("Int", "Long", "Byte", "Bool", "Short", "Char") if isinstance(value, str) else ()
        if getattr(value, "is_floating_point", True) is False or any(word in value for word in words):
            raise UnsupportedOperator("makes whole numbers or truth values of the tensor")
    return input


def _size(graph: Graph, input: Any, dim: Any = None) -> Any:  # noqa: ARG001
    return tuple(input.shape) if dim is None else input.shape[whole(dim, "dim")]


def _attribute(graph: Graph, input: Any, name: str) -> Any:
    """input.name, of a tensor or of several results."""
    if isinstance(input, (tuple, list)) and name in ("values", "indices"):
        return input[0 if name == "values" else 1]
    shape = tuple(input.shape) if isinstance(input, (Tensor, Condition)) else ()
    match name:
        case "shape":
            return shape
        case "ndim":
            return len(shape)
        case "T" | "mT":
            x = tensor(input)
            return graph.pick(x, x.places.T if name == "T" else _swap(x.places, -2, -1))
        case "data":
            return input
        case "is_cuda" | "requires_grad" | "is_sparse" | "is_quantized":
            return False
    return Unread(f"its attribute {name!r} is not supported")


def _filled(value: float) -> Callable[..., Tensor]:
    def apply(graph: Graph, input: Any, **others: Any) -> Tensor:  # noqa: ARG001
        return tensor(np.full(input.shape, value))

    return apply


def _entries(table: dict[str, Callable[..., Any]], words: str, is_view: bool) -> dict[str, Entry]:
    return {name: Entry(apply, "read", words, is_view) for names, apply in table.items() for name in names.split()}


_SHAPES: dict[str, Callable[..., Any]] = {
    "view reshape": moves(places.reshape, shape=spread),
    "view_as reshape_as": _like,
    "flatten": moves(places.flatten, start_dim=0, end_dim=-1),
    "unflatten": moves(places.unflatten, dim=whole, sizes=wholes),
    "squeeze": moves(_squeeze, dim=(as_given, None)),
    "unsqueeze": moves(_unsqueeze, dim=whole),
}
_PLACES: dict[str, Callable[..., Any]] = {
    "permute": moves(places.transpose, dims=spread),
    "transpose swapaxes swapdims": moves(_swap, dim0=whole, dim1=whole),
    "movedim": moves(np.moveaxis, source=wholes, destination=wholes),
    "t": moves(_matrix_transpose),
    "expand broadcast_to": call(_expand, size=spread),
    "expand_as": _expand_as,
    "getitem": item,
    "select": moves(_select, dim=whole, index=whole),
    "narrow": moves(_narrow, dim=whole, start=whole, length=whole),
    "split": split,
    "chunk": moves(_chunk, chunks=whole, dim=0),
    "unbind": moves(_unbind, dim=0),
    "pixel_shuffle": moves(partial(places.depth_to_space, channels_first=True), upscale_factor=whole),
    "pixel_unshuffle": moves(partial(places.space_to_depth, channels_first=True), downscale_factor=whole),
    "channel_shuffle": moves(places.shuffle_channels, groups=whole),
}
_COPIES: dict[str, Callable[..., Any]] = {
    "repeat tile": moves(_tile, repeats=spread),
    "repeat_interleave": moves(places.repeat_entries, repeats=whole, dim=(optional_whole, None)),
    "flip": moves(_flip, dims=spread),
    "roll": moves(_roll, shifts=wholes, dims=(as_given, None)),
    "index_select": moves(_select, dim=whole, index=wholes),
    "cat concat concatenate": _cat,
    "stack": _stack,
    "diag": moves(_diagonal),
}
_SAME = "contiguous detach float double half bfloat16 to type type_as cpu cuda requires_grad alias positive pos"
SHAPES: dict[str, Entry] = {
    **_entries(_SHAPES, "a change of shape", True),
    **_entries(_PLACES, "a rearrangement", True),
    **_entries(_COPIES, "a rearrangement", False),
    **_entries({_SAME: _identity}, "nothing to do", True),
    "clone": Entry(_identity, "read", "nothing to do"),
    "size": Entry(_size, "read", "a number"),
    "dim": Entry(lambda graph, input: len(input.shape), "read", "a number"),  # noqa: ARG005
    "numel": Entry(lambda graph, input: math.prod(input.shape), "read", "a number"),  # noqa: ARG005
    "getattr": Entry(_attribute, "read", "shape, ndim, T, mT, values", True),
    "zeros_like": Entry(_filled(0.0), "read", "a constant"),
    "ones_like": Entry(_filled(1.0), "read", "a constant"),
}
