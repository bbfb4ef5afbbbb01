"""Convolution and average pooling as sparse matrices, by index arithmetic on whole arrays.

Along one axis, output o, tap k and input p of a sliding window are related by p = o stride + k dilation - before.
A tensor is flattened in C order, channels first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.problem.norms import Matrix
from lipcert.rounding import Array

Index = NDArray[np.int64]

MAX_TAPS = 1 << 24  # (output, tap) pairs along one axis


@dataclass(frozen=True)
class Window:
    """A sliding window; one entry per spatial axis. `ceil_mode` also keeps a last window that is cut off."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        positive = self.kernel + self.strides + self.dilations
        pads = self.before + self.after
        if min(positive) < 1 or min(pads) < 0:
            raise InputError("a window needs kernel, strides and dilations of at least 1 and pads of at least 0")
        if max(positive + pads) > MAX_WIDTH:
            raise InputError(f"a window's kernel, strides, dilations and pads are limited to {MAX_WIDTH:,}")

    def outputs(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """The number of positions along each axis of an input of this size."""
        sizes = []
        for i, size in enumerate(spatial):
            room = size + self.before[i] + self.after[i] - self.dilations[i] * (self.kernel[i] - 1) - 1
            if room < 0:
                raise InputError(f"a window of {self.kernel[i]} taps does not fit an axis of {size} with its padding")
            count = room // self.strides[i] + 1
            # A window that would start in the padding at the end is dropped, as ONNX and PyTorch do.
            if self.ceil_mode and room % self.strides[i] and count * self.strides[i] < size + self.before[i]:
                count += 1
            sizes.append(count)
        return tuple(sizes)


def same_padding(
    spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], upper: bool = True
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads before and after that give ceil(size / stride) outputs; an odd one goes to the end if `upper`."""
    less, more = [], []
    for size, k, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size, 0)
        less.append(total // 2)
        more.append(total - total // 2)
    return (tuple(less), tuple(more)) if upper else (tuple(more), tuple(less))


def convolution(weight: NDArray[Any], spatial: Sequence[int], groups: int, window: Window) -> Matrix:
    """The CSR matrix of a convolution; weight is (out channels, in channels per group, *kernel)."""
    out_channels, per_group = weight.shape[:2]
    outputs = window.outputs(spatial)
    positions = check_width(math.prod(outputs))
    check_width(out_channels * positions)
    target, tap, source = _taps(spatial, outputs, window, out_channels * per_group)
    # Entries are laid out (out channel, window position, channel in group): rows come out in order, so the CSR
    # arrays are written directly.
    values = weight.reshape(out_channels, per_group, -1).transpose(0, 2, 1)[:, tap, :]
    first = (np.arange(out_channels) // (out_channels // groups) * per_group)[:, None, None]
    channel = first + np.arange(per_group)[None, None, :]
    columns = (channel * math.prod(spatial) + source[None, :, None]).astype(np.int32)
    counts = np.tile(np.bincount(target, minlength=positions) * per_group, out_channels)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    shape = (out_channels * positions, groups * per_group * math.prod(spatial))
    data = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    return sparse.csr_array((data, columns.reshape(-1), starts), shape=shape)


def average_pooling(channels: int, spatial: Sequence[int], window: Window, include_padding: bool) -> Matrix:
    """The CSR matrix of average pooling; the divisor counts padded positions only if `include_padding`."""
    ones = np.broadcast_to(np.float64(1.0), (channels, 1, *window.kernel))
    check_entries(ones.size)
    matrix = convolution(ones, spatial, channels, window)
    outputs = window.outputs(spatial)
    divisor = np.ones(1)
    for i, (size, count) in enumerate(zip(spatial, outputs, strict=True)):
        start, end = (0, size + window.before[i] + window.after[i]) if include_padding else _inside(window, i, size)
        place = np.arange(count)[:, None] * window.strides[i] + np.arange(window.kernel[i]) * window.dilations[i]
        divisor = np.multiply.outer(divisor, ((place >= start) & (place < end)).sum(axis=1)).reshape(-1)
    if not np.all(divisor):
        raise InputError("an average pooling window lies wholly in the padding")
    scale_rows(matrix, 1.0 / np.tile(divisor, channels))
    return matrix


def scale_rows(matrix: Matrix, scale: Array) -> None:
    """Multiply the rows of a CSR matrix in place."""
    matrix.data *= np.repeat(scale, np.diff(matrix.indptr))


def selection(index: Index, columns: int) -> Matrix:
    """The CSR matrix that picks entry index[i] into row i."""
    rows = index.size
    return sparse.csr_array((np.ones(rows), index, np.arange(rows + 1)), shape=(rows, columns))


def check_width(size: int) -> int:
    """A tensor's size, if a layer may be that wide."""
    if size > MAX_WIDTH:
        raise InputError(f"a tensor of {size:,} entries is beyond the limit of {MAX_WIDTH:,}")
    if size < 1:
        raise InputError("a tensor has no entries")
    return size


def check_entries(count: int) -> int:
    """A number of stored weights, if a network may hold that many; asked before they are allocated."""
    if count > MAX_WEIGHTS:
        raise InputError(f"a layer of {count:,} stored weights is beyond the limit of {MAX_WEIGHTS:,}")
    return count


def _inside(window: Window, axis: int, size: int) -> tuple[int, int]:
    return window.before[axis], window.before[axis] + size


def _taps(
    spatial: Sequence[int], outputs: Sequence[int], window: Window, channel_pairs: int
) -> tuple[Index, Index, Index]:
    """Output, tap and input positions of every product in the window that meets the input, in order of the output."""
    axes = []
    for i, (size, count) in enumerate(zip(spatial, outputs, strict=True)):
        if count * window.kernel[i] > MAX_TAPS:
            raise InputError(f"a window of {window.kernel[i]:,} taps at {count:,} positions is beyond the limit")
        o, k = np.divmod(np.arange(count * window.kernel[i]), window.kernel[i])
        p = o * window.strides[i] + k * window.dilations[i] - window.before[i]
        keep = (p >= 0) & (p < size)
        axes.append((o[keep], k[keep], p[keep]))
    check_entries(channel_pairs * math.prod(a[0].size for a in axes))
    target = tap = source = np.zeros(1, dtype=np.int64)
    for (o, k, p), size, count, taps in zip(axes, spatial, outputs, window.kernel, strict=True):
        target = np.add.outer(target * count, o).reshape(-1)
        tap = np.add.outer(tap * taps, k).reshape(-1)
        source = np.add.outer(source * size, p).reshape(-1)
    order = np.argsort(target, kind="stable")
    return target[order], tap[order], source[order]
