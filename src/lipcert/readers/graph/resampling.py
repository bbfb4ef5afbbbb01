"""Resizing along axes with constant factors: source positions, then the nearest entry or a mean of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files import MAX_WIDTH
from lipcert.problem.maps import Index
from lipcert.readers.graph.layers import along
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array

_TIE = 1e-6  # runtimes compute positions in single precision: what is this close to a tie is one


def coordinates(size: int, length: int, scale: float, mode: str) -> Array:
    """Where the `length` entries of a resized axis lie on the axis of `size` entries; `mode` as ONNX names it."""
    if not (0 < length <= MAX_WIDTH and np.isfinite(scale) and scale > 0):
        raise InputError(f"an axis of {size} cannot be resized to {length} by a factor of {scale}")
    i = np.arange(length, dtype=np.float64)
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if length > 1 else np.zeros(1)
        case "half_pixel_symmetric":
            return size / 2 * (1.0 - length / (scale * size)) + (i + 0.5) / scale - 0.5
        case "align_corners":
            return i * ((size - 1) / (length - 1)) if length > 1 else np.zeros(1)
        case "asymmetric":
            return i / scale
    raise UnsupportedOperator(f"coordinates by {mode!r} are not supported")


def nearest(graph: Graph, x: Tensor, positions: Mapping[int, Array], rounding: str) -> Tensor:
    """The entry next to every position, axis by axis; `rounding` as ONNX names it."""
    places = x.places
    for axis, position in positions.items():
        places = np.take(places, _rounded(position, rounding, x.shape[axis]), axis=axis)
        if places.size > MAX_WIDTH:
            raise InputError(f"a tensor of {places.size:,} entries is beyond the limit of {MAX_WIDTH:,}")
    return graph.pick(x, places)


def nearest_in_single_precision(
    graph: Graph, x: Tensor, lengths: Sequence[int], steps: Sequence[float], half: bool
) -> Tensor:
    """The entries that torch picks for images: it multiplies positions in single precision, which decides near a tie.

    Axes that keep their length, or double it, are copied or doubled whatever the factor was, unless positions are
    those of the middles (`half`).
    """
    places = x.places
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), start=2):
        if not half and length in (x.shape[axis], 2 * x.shape[axis]):
            places = np.repeat(places, length // x.shape[axis], axis=axis)
            continue
        i = np.arange(length, dtype=np.float32)
        position = (i + np.float32(0.5) if half else i) * np.float32(step)
        chosen = np.minimum(np.floor(position).astype(np.int64), x.shape[axis] - 1)
        places = np.take(places, chosen, axis=axis)
    return graph.pick(x, places)


def linear(graph: Graph, x: Tensor, positions: Mapping[int, Array]) -> Tensor:
    """Means of the two entries around every position, axis by axis; the last one outside."""
    for axis, position in positions.items():
        size, length = x.shape[axis], len(position)
        inside = np.clip(position, 0.0, size - 1.0)
        low = np.minimum(np.floor(inside).astype(np.int64), max(size - 2, 0))
        share = inside - low
        rows = np.tile(np.arange(length), 2)
        columns = np.concatenate([low, np.minimum(low + 1, size - 1)])
        entries = (np.concatenate([1.0 - share, share]), (rows, columns))
        weight = sparse.csr_array(entries, shape=(length, size))
        weight.sum_duplicates()
        weight.eliminate_zeros()
        x = along(graph, x, axis, weight)
    return x


def _rounded(position: Array, rounding: str, size: int) -> Index:
    halves = np.round(2.0 * position) / 2.0
    p = np.where(np.abs(position - halves) <= _TIE * np.maximum(1.0, np.abs(position)), halves, position)
    match rounding:
        case "round_prefer_floor":
            chosen = np.ceil(p - 0.5)
        case "round_prefer_ceil":
            chosen = np.floor(p + 0.5)
        case "floor":
            chosen = np.floor(p)
        case "ceil":
            chosen = np.ceil(p)
        case _:
            raise UnsupportedOperator(f"rounding by {rounding!r} is not supported")
    return np.clip(chosen, 0, size - 1).astype(np.int64)
