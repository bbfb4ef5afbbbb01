"""Arrangements of entries, as functions of an array: of a constant, or of the places of a tensor, which are picked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.maps import Index
from lipcert.readers.graph.terms import check_width

Entries = NDArray[Any]


def reshape(array: Entries, target: Sequence[int]) -> Entries:
    """The entries in the same order in another shape; one size may be -1, which is what the others leave."""
    sizes, known = list(target), -math.prod(target)
    if sizes.count(-1) == 1 and known > 0 and array.size % known == 0:
        sizes[sizes.index(-1)] = array.size // known
    if min(sizes, default=0) < 0 or math.prod(sizes) != array.size:
        raise InputError(f"a tensor of shape {array.shape} cannot be reshaped to {tuple(target)}")
    return array.reshape(sizes)


def flatten(array: Entries, start: int, end: int) -> Entries:
    """The axes from start to end, that one too, as one axis."""
    if not array.ndim:
        return array.reshape(1)
    first, last = axis_of(array, start), axis_of(array, end)
    if first > last:
        raise InputError(f"start_dim={start} is after end_dim={end}")
    return array.reshape(*array.shape[:first], math.prod(array.shape[first : last + 1]), *array.shape[last + 1 :])


def unflatten(array: Entries, axis: int, sizes: Sequence[int]) -> Entries:
    """One axis as several."""
    axis, parts = axis_of(array, axis), list(sizes)
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = array.shape[axis] // max(-math.prod(parts), 1)
    if math.prod(parts) != array.shape[axis]:
        raise InputError(f"sizes {tuple(parts)} do not fit an axis of {array.shape[axis]}")
    return reshape(array, (*array.shape[:axis], *parts, *array.shape[axis + 1 :]))


def transpose(array: Entries, order: Sequence[int]) -> Entries:
    """The axes in another order."""
    axes = [axis_of(array, axis) for axis in order]
    if sorted(axes) != list(range(array.ndim)):
        raise InputError(f"axes {list(order)} are not a permutation for a tensor of shape {array.shape}")
    return array.transpose(axes)


def tile(array: Entries, repeats: Sequence[int]) -> Entries:
    """Copies of the whole array side by side; axes that only `repeats` has are put in front."""
    if min(repeats, default=1) < 1 or len(repeats) < array.ndim:
        raise InputError(f"repeats {tuple(repeats)[:16]} do not fit a tensor of shape {array.shape}")
    return np.tile(array, tuple(repeats))


def take(array: Entries, index: Any, axis: int) -> Entries:
    """The entries at constant places along an axis."""
    axis, places = axis_of(array, axis), np.asarray(index, dtype=np.int64)
    _check_there(array, axis, places)
    return np.take(array, places, axis=axis)


def take_elements(array: Entries, index: Index, axis: int) -> Entries:
    """The entries at constant places along an axis, other places for each line; lines behind the index are left out."""
    axis = axis_of(array, axis)
    _check_there(array, axis, index)
    beyond = [i > n for i, n in zip(index.shape, array.shape, strict=False)]
    if index.ndim != array.ndim or any(beyond[:axis] + beyond[axis + 1 :]):
        raise InputError(f"indices of shape {index.shape} do not fit a tensor of shape {array.shape}")
    within = array[tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(index.shape))]
    return np.take_along_axis(within, index, axis=axis)


def split(array: Entries, sizes: Sequence[int], axis: int) -> list[Entries]:
    """Parts of these sizes along an axis, one after the other."""
    axis = axis_of(array, axis)
    length = array.shape[axis]
    if not sizes or min(sizes) < 0 or sum(sizes) != length:
        parts = f"{len(sizes)} parts of the sizes {list(sizes)[:16]}"
        raise InputError(f"an axis of {length} cannot be split into {parts}")
    return np.split(array, np.cumsum(sizes)[:-1], axis=axis)


def depth_to_space(array: Entries, block: int, *, channels_first: bool) -> Entries:
    """Channels moved into blocks of pixels; the channels that stay are the first factor of the axis, or the last."""
    n, c, h, w = _image(array)
    if block < 1 or c % block**2:
        raise InputError(f"{c} channels cannot be moved into blocks of {block}")
    left = c // block**2
    if channels_first:
        parts = array.reshape(n, left, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = array.reshape(n, block, block, left, h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, left, h * block, w * block)


def space_to_depth(array: Entries, block: int, *, channels_first: bool) -> Entries:
    """Blocks of pixels moved into channels: the inverse of `depth_to_space`."""
    n, c, h, w = _image(array)
    if block < 1 or h % block or w % block:
        raise InputError(f"blocks of {block} pixels do not fit a tensor of shape {array.shape}")
    parts = array.reshape(n, c, h // block, block, w // block, block)
    parts = parts.transpose((0, 1, 3, 5, 2, 4) if channels_first else (0, 3, 5, 1, 2, 4))
    return parts.reshape(n, c * block**2, h // block, w // block)


def shuffle_channels(array: Entries, groups: int) -> Entries:
    """The first channel of every group, then the second of every group, and so on."""
    if array.ndim < 3 or groups < 1 or array.shape[1] % groups:
        raise InputError(f"a tensor of shape {array.shape} is not shuffled in {groups} groups")
    parts = array.reshape(array.shape[0], groups, array.shape[1] // groups, -1).swapaxes(1, 2)
    return parts.reshape(array.shape)


def repeat_entries(array: Entries, times: int, axis: int | None) -> Entries:
    """Every entry several times in a row, along an axis or in the flattened array."""
    check_width(array.size * max(times, 0))
    return np.repeat(array, times, axis=None if axis is None else axis_of(array, axis))


def axis_of(array: Entries, axis: int) -> int:
    """An axis counted from the front, if the array has it."""
    if not -array.ndim <= axis < array.ndim:
        raise InputError(f"a tensor of shape {array.shape} has no axis {axis}")
    return axis % array.ndim


def _check_there(array: Entries, axis: int, index: Index) -> None:
    size = array.shape[axis]
    if np.any(index < -size) or np.any(index >= size):
        raise InputError(f"the indices {np.unique(index).tolist()[:8]} are out of range for an axis of {size}")


def _image(array: Entries) -> tuple[int, int, int, int]:
    if array.ndim != 4:
        raise InputError(f"blocks of pixels do not fit a tensor of shape {array.shape}")
    n, c, h, w = array.shape
    return n, c, h, w
