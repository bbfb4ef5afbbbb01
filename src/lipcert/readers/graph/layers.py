"""Layers with weights, and averages, as affine maps of tensors: what ONNX and PyTorch have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WIDTH
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Index, Matrix, entries, matrix
from lipcert.readers.graph.linear_maps import (
    average_pooling,
    check_entries,
    check_width,
    convolution,
)
from lipcert.readers.graph.rewrites import max_along, max_pool
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array


def times(graph: Graph, x: Tensor, weight: Array) -> Tensor:
    """x weight, over the last axis."""
    if not x.shape or weight.shape[0] != x.shape[-1]:
        raise InputError(f"a matrix of shape {weight.shape} does not follow a tensor of shape {x.shape}")
    copies = x.width // x.shape[-1]
    check_entries(copies * weight.size)
    return graph.apply(x, _copies(copies, weight.T), (*x.shape[:-1], weight.shape[1]))


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
    return graph.apply(x, _copies(copies, map_), (*x.shape[:axis], weight.shape[0], *x.shape[axis + 1 :]))


def convolve(graph: Graph, x: Tensor, weight: Array, bias: Array | None, groups: int, window: Window) -> Tensor:
    """A convolution over the axes after batch and channel; weight is (out, in per group, *kernel)."""
    spatial = _spatial(x, len(window.kernel))
    channels = x.shape[1]
    if weight.ndim != len(x.shape) or weight.shape[2:] != window.kernel or 0 in weight.shape:
        raise InputError(f"a kernel of shape {weight.shape} does not fit a tensor of shape {x.shape}")
    if groups < 1 or weight.shape[0] % groups or weight.shape[1] * groups != channels:
        raise InputError(f"a kernel of shape {weight.shape} in {groups} groups does not fit {channels} channels")
    outputs = (x.shape[0], weight.shape[0], *window.outputs(spatial))
    check_width(math.prod(outputs))
    y = graph.apply(x, _copies(x.shape[0], convolution(weight, spatial, groups, window)), outputs)
    return _shifted(graph, y, bias)


def convolve_transposed(
    graph: Graph, x: Tensor, weight: Array, bias: Array | None, groups: int, window: Window, extra: Sequence[int]
) -> Tensor:
    """The transpose of a convolution; weight is (in, out per group, *kernel), `extra` more entries at the end."""
    spatial = _spatial(x, len(window.kernel))
    if weight.ndim != len(x.shape) or weight.shape[2:] != window.kernel or 0 in weight.shape:
        raise InputError(f"a kernel of shape {weight.shape} does not fit a tensor of shape {x.shape}")
    if groups < 1 or weight.shape[0] != x.shape[1] or weight.shape[0] % groups:
        raise InputError(f"a kernel of shape {weight.shape} in {groups} groups does not fit {x.shape[1]} channels")
    sizes = zip(
        spatial, window.strides, window.dilations, window.kernel, window.before, window.after, extra, strict=True
    )
    outputs = tuple((n - 1) * s + d * (k - 1) + 1 - b - a + e for n, s, d, k, b, a, e in sizes)
    if min(outputs) < 1 or window.outputs(outputs) != spatial:
        raise InputError(f"its output would have the sizes {outputs}, which do not fit its input's {spatial}")
    shape = (x.shape[0], weight.shape[1] * groups, *outputs)
    check_width(math.prod(shape))
    forward = Convolution(weight, outputs, window, groups)
    check_entries(forward.entries)
    return _shifted(graph, graph.apply(x, _copies(x.shape[0], sparse.csr_array(forward.tocsr().T)), shape), bias)


def along(graph: Graph, x: Tensor, axis: int, weight: Matrix) -> Tensor:
    """A matrix (out, in) times every line of the tensor along an axis."""
    axis = x.axis(axis)
    if weight.shape[1] != x.shape[axis]:
        raise InputError(f"a matrix of shape {weight.shape} does not fit axis {axis} of a tensor of shape {x.shape}")
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    check_entries(before * after * entries(weight))
    check_width(before * after * weight.shape[0])
    map_ = sparse.kron(sparse.csr_array(weight), sparse.eye_array(after), format="csr") if after > 1 else weight
    return graph.apply(x, _copies(before, map_), (*x.shape[:axis], weight.shape[0], *x.shape[axis + 1 :]))


def summed(graph: Graph, x: Tensor, axes: Sequence[int], keep: bool, *, mean: bool = False) -> Tensor:
    """Sums, or means, along axes."""
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    count = x.width // math.prod(kept)
    rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape).reshape(-1)
    data = np.full(x.width, 1.0 / count if mean else 1.0)
    map_ = sparse.csr_array((data, (rows, np.arange(x.width))), shape=(math.prod(kept), x.width))
    return graph.apply(x, map_, kept if keep else tuple(n for a, n in enumerate(x.shape) if a not in axes))


def pad(
    graph: Graph, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Entries put around a tensor, axis by axis: "constant", "reflect", "edge" or "wrap"; less than none crops."""
    if len(before) != len(x.shape) or len(after) != len(x.shape):
        raise InputError(f"{len(before)} pads do not fit a tensor of shape {x.shape}")
    if max(*before, *after) > MAX_WIDTH or min(*before, *after) < -MAX_WIDTH:
        raise InputError("its pads are beyond the limit")
    crops = zip(before, after, x.shape, strict=True)
    cropped = x.places[tuple(slice(max(-b, 0), n - max(-a, 0)) for b, a, n in crops)]
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    check_width(math.prod(n + b + a for n, (b, a) in zip(cropped.shape, widths, strict=True)))
    most = [n - 1 if mode == "reflect" else n for n in cropped.shape]
    if 0 in cropped.shape or (
        mode in ("reflect", "wrap") and any(max(w) > m for w, m in zip(widths, most, strict=True))
    ):
        raise InputError(f"pads {widths} are too much for a tensor of shape {x.shape}")
    if mode == "constant":
        places = np.pad(cropped, widths, constant_values=-1)
        return graph.scale_and_shift(graph.pick(x, places), 1.0, np.where(places < 0, value, 0.0))
    if mode not in ("reflect", "edge", "wrap"):
        raise InputError(f"pads by {mode!r}, which is unknown")
    return graph.pick(x, np.pad(cropped, widths, mode=mode))  # type: ignore[call-overload]


def average(graph: Graph, x: Tensor, window: Window | None, include_padding: bool = False) -> Tensor:
    """Average pooling over the axes after batch and channel; over all of them without a window."""
    if window is None:
        spatial = _spatial(x, len(x.shape) - 2)
        ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
        window = Window(spatial, ones, ones, zeros, zeros)
    spatial = _spatial(x, len(window.kernel))
    outputs = (*x.shape[:2], *window.outputs(spatial))
    check_width(math.prod(outputs))
    return graph.apply(x, _copies(x.shape[0], average_pooling(x.shape[1], spatial, window, include_padding)), outputs)


def window_sums(graph: Graph, x: Tensor, window: Window, divisor: float) -> Tensor:
    """The sum of every window, padding counted as zeros, divided by one number."""
    if not divisor:
        raise InputError("divides by zero")
    spatial, channels = _spatial(x, len(window.kernel)), x.shape[1]
    check_entries(channels * math.prod(window.kernel))
    ones = np.full((channels, 1, *window.kernel), 1.0 / divisor)
    return convolve(graph, x, ones, None, channels, window.without_ceil_mode(spatial))


def adaptive_average(graph: Graph, x: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Means of as many windows along every axis as `counts` says, which cover the axis evenly."""
    window = _even_window(x, counts)
    if window is not None:
        return average(graph, x, window)
    for axis, (first, last) in _uneven_windows(x, counts):
        places = np.arange(x.shape[axis])
        inside = (places >= first[:, None]) & (places < last[:, None])
        x = along(graph, x, axis, inside / (last - first)[:, None])
    return x


def adaptive_max(graph: Graph, x: Tensor, counts: tuple[int, ...]) -> Tensor:
    """The largest entries of the windows of `adaptive_average`."""
    window = _even_window(x, counts)
    if window is not None:
        return max_pool(graph, x, window)
    for axis, (first, last) in _uneven_windows(x, counts):
        taps = first[:, None] + np.arange((last - first).max())
        x = max_along(graph, x, axis, np.where(taps < last[:, None], taps, -1))
    return x


def _even_window(x: Tensor, counts: tuple[int, ...]) -> Window | None:
    """One window for all where the sizes divide."""
    spatial = _spatial(x, len(counts))
    if min(counts) < 1:
        raise InputError(f"output sizes {counts} must be at least 1")
    check_width(math.prod(x.shape[:2]) * math.prod(counts))
    if any(n % m for n, m in zip(spatial, counts, strict=True)):
        return None
    steps = tuple(n // m for n, m in zip(spatial, counts, strict=True))
    ones, zeros = (1,) * len(counts), (0,) * len(counts)
    return Window(steps, steps, ones, zeros, zeros)


def _uneven_windows(x: Tensor, counts: tuple[int, ...]) -> Iterator[tuple[int, tuple[Index, Index]]]:
    """Axis by axis, where the windows of adaptive pooling begin and end."""
    for axis, (n, m) in enumerate(zip(x.shape[2:], counts, strict=True), start=2):
        i = np.arange(m)
        yield axis, (i * n // m, -(-(i + 1) * n // m))


def normalize_channels(graph: Graph, x: Tensor, statistics: Sequence[Array], epsilon: float) -> Tensor:
    """Batch normalisation by scale, bias, mean, variance: scale (x - mean) / sqrt(variance + epsilon) + bias."""
    scale, bias, mean, variance = statistics
    if any(v.shape != x.shape[1:2] for v in statistics):
        raise InputError(f"{scale.size} channel statistics do not fit a tensor of shape {x.shape}")
    if not np.all(variance + epsilon > 0):
        raise InputError("a variance plus epsilon is not positive")
    factor = scale / np.sqrt(variance + epsilon)
    return graph.scale_and_shift(x, _along_channels(x, factor), _along_channels(x, bias - factor * mean))


def _shifted(graph: Graph, x: Tensor, bias: Array | None) -> Tensor:
    if bias is None:
        return x
    if bias.shape != x.shape[1:2]:
        raise InputError(f"a convolution bias of shape {bias.shape} does not fit {x.shape[1]} channels")
    return graph.scale_and_shift(x, 1.0, _along_channels(x, bias))


def _along_channels(x: Tensor, values: Array) -> Array:
    return values.reshape((-1,) + (1,) * (len(x.shape) - 2))


def _spatial(x: Tensor, axes: int) -> tuple[int, ...]:
    if axes < 1 or len(x.shape) != axes + 2:
        raise InputError(f"a window over {max(axes, 1)} axes does not fit a tensor of shape {x.shape}")
    return x.shape[2:]


def _copies(count: int, map_: Matrix) -> Matrix:
    """The block diagonal matrix of `count` copies: the same map on every item of a batch."""
    if count == 1:
        return map_
    check_entries(count * entries(map_))
    return sparse.csr_array(sparse.kron(sparse.eye_array(count), matrix(map_), format="csr"))
