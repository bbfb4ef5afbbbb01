"""Operations with windows over the axes after batch and channel: convolutions, pooling, padding, resizing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files import MAX_WIDTH
from lipcert.problem.convolution import Convolution, Kernel, Window
from lipcert.problem.maps import Index, Matrix
from lipcert.readers.graph.linear import along, along_channels, repeated
from lipcert.readers.graph.rewrites import max_along, max_pool
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.graph.terms import check_entries, check_width, scaled_rows
from lipcert.rounding import Array

# A convolution stays a kernel where its matrix has more bytes than this and the kernel has this many times fewer
# numbers (it has not where the window is the whole input). Products of kernels with a vector are 6 to 14 times faster
# on layers of 1 to 11 million entries, those with many vectors 4 to 10 times; below 300,000 entries they are not, and
# solvers need matrices.
CONVOLUTION_BYTES = 8 << 20
CONVOLUTION_SAVES = 4


_ENTRY = 12  # bytes of an entry of a CSR array
_TIE = 1e-6  # runtimes compute positions in single precision: what is this close to a tie is one


def convolve(graph: Graph, x: Tensor, weight: Array, bias: Array | None, groups: int, window: Window) -> Tensor:
    """A convolution over the axes after batch and channel; weight is (out, in per group, *kernel)."""
    spatial = _sizes(x, len(window.kernel))
    channels = x.shape[1]
    if weight.ndim != len(x.shape) or weight.shape[2:] != window.kernel or 0 in weight.shape:
        raise InputError(f"a kernel of shape {weight.shape} does not fit a tensor of shape {x.shape}")
    if groups < 1 or weight.shape[0] % groups or weight.shape[1] * groups != channels:
        raise InputError(f"a kernel of shape {weight.shape} in {groups} groups does not fit {channels} channels")
    outputs = (x.shape[0], weight.shape[0], *window.outputs(spatial))
    check_width(math.prod(outputs))
    y = graph.apply(x, repeated(x.shape[0], convolution(weight, spatial, groups, window)), outputs)
    return _shifted(graph, y, bias)


def convolve_transposed(
    graph: Graph, x: Tensor, weight: Array, bias: Array | None, groups: int, window: Window, extra: Sequence[int]
) -> Tensor:
    """The transpose of a convolution; weight is (in, out per group, *kernel), `extra` more entries at the end."""
    spatial = _sizes(x, len(window.kernel))
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
    map_ = kept(Convolution(weight, outputs, window, groups).T)
    return _shifted(graph, graph.apply(x, repeated(x.shape[0], map_), shape), bias)


def same_padding(
    spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], upper: bool = True
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads before and after that give ceil(size / stride) outputs; an odd one goes to the end if `upper`."""
    sizes = zip(spatial, kernel, strides, dilations, strict=True)
    return halves([max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in sizes], upper)


def halves(totals: Sequence[int], upper: bool = True) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads before and after with these sums; an odd one goes to the end if `upper`."""
    less = tuple(total // 2 for total in totals)
    more = tuple(total - total // 2 for total in totals)
    return (less, more) if upper else (more, less)


def average(graph: Graph, x: Tensor, window: Window | None, include_padding: bool = False) -> Tensor:
    """Average pooling over the axes after batch and channel; over all of them without a window."""
    if window is None:
        window = _tiles(_sizes(x, len(x.shape) - 2))
    spatial = _sizes(x, len(window.kernel))
    outputs = (*x.shape[:2], *window.outputs(spatial))
    check_width(math.prod(outputs))
    return graph.apply(x, repeated(x.shape[0], average_pooling(x.shape[1], spatial, window, include_padding)), outputs)


def window_sums(graph: Graph, x: Tensor, window: Window, divisor: float) -> Tensor:
    """The sum of every window, padding counted as zeros, divided by one number."""
    if not divisor:
        raise InputError("divides by zero")
    spatial, channels = _sizes(x, len(window.kernel)), x.shape[1]
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


def resized_positions(size: int, length: int, scale: float, mode: str) -> Array:
    """Positions of the `length` entries of a resized axis on the axis of `size` entries; `mode` as ONNX names it."""
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


def resize_nearest(graph: Graph, x: Tensor, positions: Mapping[int, Array], rounding: str) -> Tensor:
    """The entry next to every position, axis by axis; `rounding` as ONNX names it."""
    places = x.places
    for axis, position in positions.items():
        places = np.take(places, _rounded(position, rounding, x.shape[axis]), axis=axis)
        if places.size > MAX_WIDTH:
            raise InputError(f"a tensor of {places.size:,} entries is beyond the limit of {MAX_WIDTH:,}")
    return graph.pick(x, places)


def resize_nearest_in_single_precision(
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


def resize_linear(graph: Graph, x: Tensor, positions: Mapping[int, Array]) -> Tensor:
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


def convolution(kernel: Array, spatial: Sequence[int], groups: int, window: Window) -> Matrix:
    """A convolution with a kernel (out channels, in per group, *taps)."""
    return kept(Convolution(kernel, tuple(spatial), window, groups))


def kept(map_: Kernel) -> Matrix:
    """A convolution or its transpose, as its kernel where its matrix would be large."""
    dense = map_.shape[0] * map_.shape[1]  # it is kept so where a tenth is filled
    size = 8 * dense if map_.entries > 0.1 * dense else _ENTRY * map_.entries
    large = size > CONVOLUTION_BYTES
    if large and map_.entries > CONVOLUTION_SAVES * map_.kernel.size:
        return map_
    check_entries(map_.entries)
    return map_.tocsr()


def average_pooling(channels: int, spatial: Sequence[int], window: Window, include_padding: bool) -> Matrix:
    """The CSR matrix of average pooling; the divisor counts padded positions only if `include_padding`."""
    check_entries(channels * math.prod(window.kernel))
    matrix = Convolution(np.ones((channels, 1, *window.kernel)), tuple(spatial), window, channels).tocsr()
    outputs = window.outputs(spatial)
    divisor = np.ones(1)
    for i, (size, count) in enumerate(zip(spatial, outputs, strict=True)):
        start, end = (0, size + window.before[i] + window.after[i]) if include_padding else _inside(window, i, size)
        place = np.arange(count)[:, None] * window.strides[i] + np.arange(window.kernel[i]) * window.dilations[i]
        divisor = np.multiply.outer(divisor, ((place >= start) & (place < end)).sum(axis=1)).reshape(-1)
    if not np.all(divisor):
        raise InputError("an average pooling window lies wholly in the padding")
    return scaled_rows(matrix, 1.0 / np.tile(divisor, channels))


def _inside(window: Window, axis: int, size: int) -> tuple[int, int]:
    return window.before[axis], window.before[axis] + size


def _even_window(x: Tensor, counts: tuple[int, ...]) -> Window | None:
    """One window for all where the sizes divide."""
    spatial = _sizes(x, len(counts))
    if min(counts) < 1:
        raise InputError(f"output sizes {counts} must be at least 1")
    check_width(math.prod(x.shape[:2]) * math.prod(counts))
    if any(n % m for n, m in zip(spatial, counts, strict=True)):
        return None
    return _tiles(tuple(n // m for n, m in zip(spatial, counts, strict=True)))


def _tiles(sizes: tuple[int, ...]) -> Window:
    """Windows of these sizes side by side."""
    ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
    return Window(sizes, sizes, ones, zeros, zeros)


def _uneven_windows(x: Tensor, counts: tuple[int, ...]) -> Iterator[tuple[int, tuple[Index, Index]]]:
    """Axis by axis, where the windows of adaptive pooling begin and end."""
    for axis, (n, m) in enumerate(zip(x.shape[2:], counts, strict=True), start=2):
        i = np.arange(m)
        yield axis, (i * n // m, -(-(i + 1) * n // m))


def _shifted(graph: Graph, x: Tensor, bias: Array | None) -> Tensor:
    if bias is None:
        return x
    if bias.shape != x.shape[1:2]:
        raise InputError(f"a convolution bias of shape {bias.shape} does not fit {x.shape[1]} channels")
    return graph.scale_and_shift(x, 1.0, along_channels(x, bias))


def _sizes(x: Tensor, axes: int) -> tuple[int, ...]:
    if axes < 1 or len(x.shape) != axes + 2:
        raise InputError(f"a window over {max(axes, 1)} axes does not fit a tensor of shape {x.shape}")
    return x.shape[2:]


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
