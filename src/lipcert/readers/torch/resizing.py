"""Resizing and shuffling of images, as functions with torch's own parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import resampling
from lipcert.readers.graph.linear_maps import check_width
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import Entry, number, picked, sizes, tensor, whole
from lipcert.readers.torch.windows import adaptive_average, channels_of


def interpolate(
    graph: Graph, input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: Any = False,
) -> Tensor:  # fmt: skip
    """Nearest, linear and area resizing; the positions are those that torch computes."""
    x = tensor(input)
    axes = len(x.shape) - 2
    if axes < 1 or antialias:
        raise UnsupportedOperator("only tensors with channels and space, without antialias, are resized")
    if size is not None:
        lengths, factors = sizes(size, axes), [0.0] * axes
    else:
        given = scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * axes
        factors = [number(f, "scale_factor") for f in given]
        if len(factors) != axes or not all(0.0 < f < math.inf for f in factors):
            raise InputError(f"scale_factor={scale_factor} does not fit {axes} axes")
        lengths = tuple(math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True))
    check_width(math.prod(x.shape[:2]) * math.prod(lengths))
    if mode == "area":
        return adaptive_average(axes)(graph, x, lengths)
    exact = [0.0] * axes if recompute_scale_factor else factors
    steps = [1.0 / f if f else n / m for n, m, f in zip(x.shape[2:], lengths, exact, strict=True)]
    if mode in ("nearest", "nearest-exact"):
        return _nearest(graph, x, lengths, steps, half=mode == "nearest-exact")
    if mode not in ("linear", "bilinear", "trilinear"):
        raise UnsupportedOperator(f"mode={mode!r} is not supported; nearest, linear and area are")
    positions = {}
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), start=2):
        if length == x.shape[axis]:
            continue  # torch copies such an axis, whatever the factor was
        kind = "align_corners" if align_corners else "half_pixel"
        positions[axis] = resampling.coordinates(x.shape[axis], length, 1.0 / step, kind)
    return resampling.linear(graph, x, positions)


def pixel_shuffle(graph: Graph, input: Any, upscale_factor: Any) -> Tensor:
    x, r = tensor(input), whole(upscale_factor, "upscale_factor")
    channels = channels_of(x, 2)
    if r < 1 or channels % (r * r):
        raise InputError(f"{channels} channels are not shuffled by {r}")
    n, _, h, w = x.shape
    places = x.places.reshape(n, channels // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return picked(graph, x, places.reshape(n, channels // r**2, h * r, w * r))


def pixel_unshuffle(graph: Graph, input: Any, downscale_factor: Any) -> Tensor:
    x, r = tensor(input), whole(downscale_factor, "downscale_factor")
    channels = channels_of(x, 2)
    n, _, h, w = x.shape
    if r < 1 or h % r or w % r:
        raise InputError(f"a tensor of shape {x.shape} is not unshuffled by {r}")
    places = x.places.reshape(n, channels, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return picked(graph, x, places.reshape(n, channels * r**2, h // r, w // r))


def channel_shuffle(graph: Graph, input: Any, groups: Any) -> Tensor:
    x, count = tensor(input), whole(groups, "groups")
    if len(x.shape) < 3 or count < 1 or x.shape[1] % count:
        raise InputError(f"a tensor of shape {x.shape} is not shuffled in {count} groups")
    places = x.places.reshape(x.shape[0], count, x.shape[1] // count, -1).swapaxes(1, 2)
    return picked(graph, x, places.reshape(x.shape))


def _nearest(graph: Graph, x: Tensor, lengths: Sequence[int], steps: Sequence[float], half: bool) -> Tensor:
    """torch multiplies positions in single precision, which decides where they fall on a whole number.

    Axes that keep their length, or double it, are copied or doubled whatever the factor was.
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


RESIZING: dict[str, Entry] = {
    "interpolate": Entry(interpolate, "read", "nearest, linear, bilinear, trilinear and area"),
    "pixel_shuffle": Entry(pixel_shuffle, "read", "a rearrangement", is_view=True),
    "pixel_unshuffle": Entry(pixel_unshuffle, "read", "a rearrangement", is_view=True),
    "channel_shuffle": Entry(channel_shuffle, "read", "a rearrangement", is_view=True),
}
