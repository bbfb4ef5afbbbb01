"""The linear maps that readers make: convolutions, average pooling, selections of entries.

A tensor is flattened in C order, channels first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Index, Matrix, entrywise
from lipcert.rounding import Array

# A convolution stays a kernel where its matrix has more bytes than this and the kernel has this many times fewer
# numbers (it has not where the window is the whole input). Products with kernels were 3 to 12 times faster on
# layers of 2 to 36 million entries; smaller matrices cost little beside what bounding them takes, and solvers
# need matrices.
CONVOLUTION_BYTES = 32 << 20
CONVOLUTION_SAVES = 4

_ENTRY = 12  # bytes of an entry of a CSR array


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


def convolution(kernel: Array, spatial: Sequence[int], groups: int, window: Window) -> Matrix:
    """A convolution, as its kernel where its matrix would be large; kernel (out channels, in per group, *taps)."""
    map_ = Convolution(kernel, tuple(spatial), window, groups)
    dense = map_.shape[0] * map_.shape[1]  # it is kept so where a tenth is filled
    size = 8 * dense if map_.entries > 0.1 * dense else _ENTRY * map_.entries
    large = size > CONVOLUTION_BYTES
    return map_ if large and map_.entries > CONVOLUTION_SAVES * map_.kernel.size else map_.tocsr()


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


def scaled_rows(matrix: Matrix, scale: Array) -> Matrix:
    """A dense or CSR matrix with its rows multiplied."""
    if isinstance(matrix, np.ndarray):
        return matrix * scale[:, None]
    return entrywise(matrix, lambda data: data * np.repeat(scale, np.diff(matrix.indptr)))


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
