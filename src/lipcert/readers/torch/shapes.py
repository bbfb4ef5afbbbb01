"""What torch does to shapes and places, as functions with torch's own parameters: nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph.choices import Condition
from lipcert.readers.graph.linear_maps import check_width
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.indexing import chunk, index_select, item, narrow, select, split, unbind
from lipcert.readers.torch.values import (
    Entry,
    Unread,
    axes_of,
    picked,
    real,
    spread,
    tensor,
    whole,
    wholes,
)


def view(graph: Graph, input: Any, shape: Any, *more: Any) -> Tensor:  # noqa: ARG001
    x, wanted = tensor(input), list(wholes(spread(shape, more), "shape"))
    if wanted.count(-1) == 1:
        known = -math.prod(wanted)
        if known <= 0 or x.width % known:
            raise InputError(f"a tensor of shape {x.shape} cannot be reshaped to {tuple(wanted)}")
        wanted[wanted.index(-1)] = x.width // known
    return x.reshaped(wanted)


def like(graph: Graph, input: Any, other: Any) -> Tensor:  # noqa: ARG001
    return tensor(input).reshaped(other.shape)


def flatten(graph: Graph, input: Any, start_dim: Any = 0, end_dim: Any = -1) -> Tensor:  # noqa: ARG001
    x = tensor(input)
    if not x.shape:
        return x.reshaped((1,))
    start, end = x.axis(whole(start_dim, "start_dim")), x.axis(whole(end_dim, "end_dim"))
    if start > end:
        raise InputError(f"start_dim={start_dim} is after end_dim={end_dim}")
    return x.reshaped((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def unflatten(graph: Graph, input: Any, dim: Any, sizes: Any) -> Tensor:
    x = tensor(input)
    axis = x.axis(whole(dim, "dim"))
    parts = list(wholes(sizes, "sizes"))
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = x.shape[axis] // max(-math.prod(parts), 1)
    if math.prod(parts) != x.shape[axis]:
        raise InputError(f"sizes {tuple(parts)} do not fit an axis of {x.shape[axis]}")
    return view(graph, x, (*x.shape[:axis], *parts, *x.shape[axis + 1 :]))


def permute(graph: Graph, input: Any, dims: Any, *more: Any) -> Tensor:
    x = tensor(input)
    axes = [x.axis(a) for a in wholes(spread(dims, more), "dims")]
    if sorted(axes) != list(range(len(x.shape))):
        raise InputError(f"dims {axes} are not a permutation for a tensor of shape {x.shape}")
    return picked(graph, x, x.places.transpose(axes))


def transpose(graph: Graph, input: Any, dim0: Any, dim1: Any) -> Tensor:
    x = tensor(input)
    return picked(graph, x, x.places.swapaxes(x.axis(whole(dim0, "dim0")), x.axis(whole(dim1, "dim1"))))


def movedim(graph: Graph, input: Any, source: Any, destination: Any) -> Tensor:
    x = tensor(input)
    return picked(graph, x, np.moveaxis(x.places, wholes(source, "source"), wholes(destination, "destination")))


def flipped_matrix(graph: Graph, input: Any) -> Tensor:
    x = tensor(input)
    if len(x.shape) > 2:
        raise InputError(f"a tensor of shape {x.shape} is not a matrix")
    return picked(graph, x, x.places.T)


def squeeze(graph: Graph, input: Any, dim: Any = None) -> Tensor:  # noqa: ARG001
    x = tensor(input)
    axes = axes_of(x, dim)
    return x.reshaped([n for a, n in enumerate(x.shape) if a not in axes or n != 1])


def unsqueeze(graph: Graph, input: Any, dim: Any) -> Tensor:  # noqa: ARG001
    x, axis = tensor(input), whole(dim, "dim")
    if not -len(x.shape) - 1 <= axis <= len(x.shape):
        raise InputError(f"a tensor of shape {x.shape} gets no axis {axis}")
    axis %= len(x.shape) + 1
    return x.reshaped((*x.shape[:axis], 1, *x.shape[axis:]))


def expand(graph: Graph, input: Any, size: Any, *more: Any) -> Tensor:
    x, wanted = tensor(input), wholes(spread(size, more), "size")
    new = len(wanted) - len(x.shape)
    own = (1,) * max(new, 0) + x.shape
    if new < 0:
        raise InputError(f"a tensor of shape {x.shape} is not expanded to {wanted}")
    return graph.expand(x, [m if n == -1 else n for n, m in zip(wanted, own, strict=True)])


def expand_as(graph: Graph, input: Any, other: Any) -> Tensor:
    return graph.expand(tensor(input), tuple(other.shape))


def repeat(graph: Graph, input: Any, repeats: Any, *more: Any) -> Tensor:
    x, times = tensor(input), wholes(spread(repeats, more), "repeats")
    if min(times) < 1:
        raise InputError(f"repeats {times} times")
    check_width(x.width * math.prod(times))
    return picked(graph, x, np.tile(x.places, times))


def repeat_interleave(graph: Graph, input: Any, repeats: Any, dim: Any = None) -> Tensor:
    x, times = tensor(input), whole(repeats, "repeats")
    check_width(x.width * max(times, 0))
    return picked(graph, x, np.repeat(x.places, times, axis=None if dim is None else x.axis(whole(dim, "dim"))))


def flip(graph: Graph, input: Any, dims: Any, *more: Any) -> Tensor:
    x = tensor(input)
    return picked(graph, x, np.flip(x.places, axes_of(x, spread(dims, more))))


def roll(graph: Graph, input: Any, shifts: Any, dims: Any = None) -> Tensor:
    x = tensor(input)
    moved = wholes(shifts, "shifts")
    if dims is None:
        return picked(graph, x, np.roll(x.places, moved[0]))
    return picked(graph, x, np.roll(x.places, moved, wholes(dims, "dims")))


def cat(graph: Graph, tensors: Any, dim: Any = 0) -> Tensor:
    if not isinstance(tensors, (tuple, list)):
        raise UnsupportedOperator("joins something else than a list of tensors")
    parts = [part if isinstance(part, Tensor) else real(part, "part") for part in tensors]
    return graph.concatenate(parts, whole(dim, "dim")) if len(parts) > 1 else tensor(parts[0])


def stack(graph: Graph, tensors: Any, dim: Any = 0) -> Tensor:
    parts = [tensor(part) for part in tensors]
    axis = whole(dim, "dim") % (len(parts[0].shape) + 1)
    return cat(graph, [unsqueeze(graph, part, axis) for part in parts], axis)


def identity(graph: Graph, input: Any, *others: Any, **named: Any) -> Any:  # noqa: ARG001
    """The tensor itself; a comparison may become numbers, but no number a comparison."""
    for value in (*others, *named.values()):
        if getattr(value, "is_floating_point", True) is False:
            raise UnsupportedOperator("makes whole numbers or truth values of the tensor")
        if isinstance(value, str) and any(word in value for word in ("Int", "Long", "Byte", "Bool", "Short", "Char")):
            raise UnsupportedOperator("makes whole numbers or truth values of the tensor")
    return input


def size(graph: Graph, input: Any, dim: Any = None) -> Any:  # noqa: ARG001
    return tuple(input.shape) if dim is None else input.shape[whole(dim, "dim")]


def attribute(graph: Graph, input: Any, name: str) -> Any:
    """input.name, of a tensor or of several results."""
    if isinstance(input, (tuple, list)) and name in ("values", "indices"):
        return input[0 if name == "values" else 1]
    shape = tuple(input.shape) if isinstance(input, (Tensor, Condition)) else ()
    match name:
        case "shape":
            return shape
        case "ndim":
            return len(shape)
        case "T":
            return permute(graph, input, tuple(range(len(shape)))[::-1])
        case "mT":
            return transpose(graph, input, -2, -1)
        case "data":
            return input
        case "is_cuda" | "requires_grad" | "is_sparse" | "is_quantized":
            return False
    return Unread(f"its attribute {name!r} is not supported")


def _zeros(graph: Graph, input: Any, **others: Any) -> Any:  # noqa: ARG001
    return tensor(np.zeros(input.shape))


def _ones(graph: Graph, input: Any, **others: Any) -> Any:  # noqa: ARG001
    return tensor(np.ones(input.shape))


def _entries(table: dict[str, Callable[..., Any]], words: str, is_view: bool) -> dict[str, Entry]:
    return {name: Entry(apply, "read", words, is_view) for name, apply in table.items()}


_SHAPES: dict[str, Callable[..., Any]] = {
    "view": view, "reshape": view, "view_as": like, "reshape_as": like, "flatten": flatten, "unflatten": unflatten,
    "squeeze": squeeze, "unsqueeze": unsqueeze,
}  # fmt: skip
_PLACES: dict[str, Callable[..., Any]] = {
    "permute": permute, "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "movedim": movedim,
    "t": flipped_matrix, "expand": expand, "expand_as": expand_as, "broadcast_to": expand, "getitem": item,
    "select": select, "narrow": narrow, "split": split, "chunk": chunk, "unbind": unbind,
}  # fmt: skip
_COPIES: dict[str, Callable[..., Any]] = {
    "repeat": repeat, "tile": repeat, "repeat_interleave": repeat_interleave, "flip": flip, "roll": roll,
    "index_select": index_select, "cat": cat, "concat": cat, "concatenate": cat, "stack": stack,
}  # fmt: skip
_SAME = ("contiguous", "detach", "float", "double", "half", "bfloat16", "to", "type", "type_as", "cpu", "cuda")
SHAPES: dict[str, Entry] = {
    **_entries(_SHAPES, "a change of shape", True),
    **_entries(_PLACES, "a rearrangement", True),
    **_entries(_COPIES, "a rearrangement", False),
    **_entries(dict.fromkeys((*_SAME, "requires_grad", "alias", "positive", "pos"), identity), "nothing to do", True),
    "clone": Entry(identity, "read", "nothing to do"),
    "size": Entry(size, "read", "a number"),
    "dim": Entry(lambda graph, input: len(input.shape), "read", "a number"),  # noqa: ARG005
    "numel": Entry(lambda graph, input: math.prod(input.shape), "read", "a number"),  # noqa: ARG005
    "getattr": Entry(attribute, "read", "shape, ndim, T, mT, values", True),
    "zeros_like": Entry(_zeros, "read", "a constant"),
    "ones_like": Entry(_ones, "read", "a constant"),
}
