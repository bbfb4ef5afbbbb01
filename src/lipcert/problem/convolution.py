"""Convolution: a linear map that is kept as its kernel.

Along one axis, output o, tap k and input p of a sliding window are related by p = o stride + k dilation - before.
A tensor is flattened in C order, channels first. A product slides the kernel over the tensor (`sliding`), and the
transposed product slides the reversed kernel over the outputs, once for all places that have the same taps. Every
number is a sum of no more terms than a row, or a column, of the matrix may have entries; adding zeros is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.problem.maps import Function, Index, Matrix, Operator, Transposed
from lipcert.problem.sliding import Axis, Gathered, Sliding, Spread
from lipcert.rounding import Array

MAX_TAPS = 1 << 24  # (output, tap) pairs along one axis
_FEW = 64  # rows of a transpose up to which products find them; more are taken from the matrix
MAX_ENTRIES = 1 << 31  # entries of the matrix; no code writes it out, but its hash takes time


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

    def without_ceil_mode(self, spatial: Sequence[int]) -> Window:
        """The same positions on an input of this size by more padding after it."""
        if not self.ceil_mode:
            return self
        ends = [
            (n - 1) * s + d * (k - 1) + 1
            for n, s, d, k in zip(self.outputs(spatial), self.strides, self.dilations, self.kernel, strict=True)
        ]
        room = zip(ends, spatial, self.before, self.after, strict=True)
        after = tuple(max(end - size - before, after) for end, size, before, after in room)
        return replace(self, after=after, ceil_mode=False)

    def inputs(self, axis: int, outputs: Index) -> Index:
        """Input indices of the taps of some positions along an axis, (positions, taps); padding lies outside."""
        taps = np.arange(self.kernel[axis]) * self.dilations[axis] - self.before[axis]
        return outputs[:, None] * self.strides[axis] + taps


@dataclass(frozen=True, eq=False)
class Convolution(Operator):
    """The matrix of a convolution with zero padding: kernel (out channels, in channels per group, *taps)."""

    kernel: NDArray[Any]
    spatial: tuple[int, ...]
    window: Window
    groups: int = 1

    def __post_init__(self) -> None:
        kernel = self.kernel
        if kernel.ndim != len(self.spatial) + 2 or kernel.shape[2:] != self.window.kernel or 0 in kernel.shape:
            raise InputError(f"a kernel of shape {kernel.shape} does not fit an input of {self.spatial}")
        object.__setattr__(self, "window", self.window.without_ceil_mode(self.spatial))
        if self.groups < 1 or kernel.shape[0] % self.groups:
            raise InputError(f"a kernel of shape {kernel.shape} does not fit {self.groups} groups")
        for size in (*self.spatial, *self.outputs, *self.shape):
            if not 0 < size <= MAX_WIDTH:
                raise InputError(f"a tensor of {size:,} entries is beyond the limit of {MAX_WIDTH:,}")
        for count, taps in zip(self.outputs, self.window.kernel, strict=True):
            if count * taps > MAX_TAPS:
                raise InputError(f"a window of {taps:,} taps at {count:,} positions is beyond the limit")
        if self.channels * math.prod(self._padded_sizes) > MAX_WEIGHTS:
            raise InputError(f"an input with padding of {self._padded_sizes} is beyond the limit")
        if self.entries > MAX_ENTRIES:
            raise InputError(
                f"a convolution in place of {self.entries:,} stored weights is beyond the limit of {MAX_ENTRIES:,}"
            )
        frozen = np.ascontiguousarray(kernel)
        frozen = frozen.copy() if frozen.flags.writeable else frozen
        frozen.flags.writeable = False
        object.__setattr__(self, "kernel", frozen)

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The number of positions along each axis."""
        return self.window.outputs(self.spatial)

    @property
    def channels(self) -> int:
        """The number of channels of the input."""
        return int(self.groups * self.kernel.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.kernel.shape[0] * math.prod(self.outputs), self.channels * math.prod(self.spatial)

    @property
    def numbers(self) -> NDArray[Any]:
        return self.kernel

    @cached_property
    def entries(self) -> int:
        count = int(self.kernel.shape[0] * self.kernel.shape[1])
        for axis, (positions, size) in enumerate(zip(self.outputs, self.spatial, strict=True)):
            p = self.window.inputs(axis, np.arange(positions))
            count *= int(np.count_nonzero((p >= 0) & (p < size)))
        return count

    @property
    def copied(self) -> int:
        return self.channels * math.prod(self.window.kernel[1:]) * math.prod(self.outputs)

    def summed(self, axis: int) -> int:
        taps = math.prod(self.window.kernel)
        return int(self.kernel.shape[1] * taps if axis else self.kernel.shape[0] // self.groups * taps)

    def entrywise(self, function: Function) -> Convolution:
        return self._with(function(self.kernel))

    def forward(self, rows: NDArray[Any]) -> NDArray[Any]:
        map_, rows = self._of_one_type(rows)
        x, result, out, place = self._views(rows, (self.channels, *self.spatial), (len(self.kernel), *self.outputs))
        map_._forwards.into(x, out, place)
        return result

    def backward(self, rows: NDArray[Any]) -> NDArray[Any]:
        map_, rows = self._of_one_type(rows)
        x, result, out, place = self._views(rows, (len(self.kernel), *self.outputs), (self.channels, *self.spatial))
        for phases, own in map_._backwards:
            some = out[_at(..., *phases[:place], slice(None), *phases[place:])]
            if own is None:
                some[...] = 0
            else:
                own.into(x, some, place)
        return result

    def block(self, rows: Index) -> sparse.csr_array:
        """Some rows, written out; in each, taps in order, and all channels of a tap."""
        channel, position = np.divmod(rows, math.prod(self.outputs))
        source, inside = np.zeros((len(rows), 1), dtype=np.int64), np.ones((len(rows), 1), dtype=bool)
        for axis, o in enumerate(np.unravel_index(position, self.outputs)):
            p = self.window.inputs(axis, o)
            own = (p >= 0) & (p < self.spatial[axis])
            together = (len(rows), source.shape[1] * p.shape[1])
            source = (source[:, :, None] * self.spatial[axis] + p[:, None, :]).reshape(together)
            inside = (inside[:, :, None] & own[:, None, :]).reshape(together)
        row, tap = np.nonzero(inside)
        per_group, size = self.kernel.shape[1], math.prod(self.spatial)
        first = channel // (self.kernel.shape[0] // self.groups) * per_group * size
        start = (first[row] + source[row, tap]).astype(np.int32)
        columns = start[:, None] + np.arange(per_group, dtype=np.int32) * np.int32(size)
        values = self._taps_first[channel[row], tap]
        ends = np.append(0, np.cumsum(np.count_nonzero(inside, axis=1) * per_group)).astype(np.int32)
        return sparse.csr_array((values.reshape(-1), columns.reshape(-1), ends), shape=(len(rows), self.shape[1]))

    def rows_scaled(self, scale: Array) -> Convolution | None:
        """scale * weight, row by row, where that is a convolution: one factor for each channel of the output."""
        factors = _by_channel(scale, self.kernel.shape[0])
        if factors is None:
            return None
        return self._with(self.kernel * factors.reshape(-1, *(1,) * (self.kernel.ndim - 1)))

    def columns_scaled(self, scale: Array) -> Convolution | None:
        """weight * scale, column by column, where that is a convolution: one factor for each channel of the input."""
        factors = _by_channel(scale, self.channels)
        if factors is None:
            return None
        grouped = self.kernel.reshape(self.groups, -1, self.kernel.shape[1], math.prod(self.window.kernel))
        return self._with((grouped * factors.reshape(self.groups, 1, -1, 1)).reshape(self.kernel.shape))

    @property
    def T(self) -> TransposedConvolution:
        return TransposedConvolution(self)

    @property
    def geometry(self) -> NDArray[np.int64]:
        """Groups, then by axis the sizes of the input, taps, strides, dilations, and pads before and after."""
        w = self.window
        sizes = (self.spatial, w.kernel, w.strides, w.dilations, w.before, w.after)
        return np.array([self.groups, *(n for axis in sizes for n in axis)], dtype=np.int64)

    @classmethod
    def of_geometry(cls, kernel: NDArray[Any], geometry: Sequence[int]) -> Convolution | TransposedConvolution:
        """The inverse of `geometry`, with a kernel (out channels, in channels per group times taps)."""
        axes, rest = divmod(len(geometry) - 1, 6)
        transposed = rest == 1 and geometry[-1] == 1
        if (rest and not transposed) or axes < 1 or kernel.ndim != 2:
            raise InputError("a convolution needs a kernel with two axes and a geometry of 1 + 6 numbers for each axis")
        spatial, taps, strides, dilations, before, after = (
            tuple(geometry[1 + k * axes : 1 + (k + 1) * axes]) for k in range(6)
        )
        window = Window(taps, strides, dilations, before, after)
        if kernel.shape[1] % math.prod(taps):
            raise InputError(f"a kernel of shape {kernel.shape} does not have {taps} taps")
        map_ = cls(kernel.reshape(kernel.shape[0], -1, *taps), spatial, window, geometry[0])
        return map_.T if transposed else map_

    def _with(self, kernel: NDArray[Any]) -> Convolution:
        return Convolution(kernel, self.spatial, self.window, self.groups)

    @property
    def _grouped(self) -> NDArray[Any]:
        return self.kernel.reshape(self.groups, -1, *self.kernel.shape[1:])

    @property
    def _axes(self) -> list[Axis]:
        w = self.window
        sizes = zip(self.outputs, self.spatial, w.strides, w.before, w.dilations, w.kernel, strict=True)
        return [Axis(o, n, stride, -before, d, taps) for o, n, stride, before, d, taps in sizes]

    @cached_property
    def _forwards(self) -> Sliding:
        """From the input to the outputs: gathered, but where few channels are made of many and strides are 1."""
        kernel, axes = self._grouped, self._axes
        made, given, taps, *_ = kernel.shape[1:]
        if any(axis.stride > 1 for axis in axes) or made * taps >= given:
            return Gathered(kernel, axes)
        turned = np.flip(kernel, axis=tuple(range(3, kernel.ndim)))
        back = [Axis(a.long, a.short, 1, -a.first - (a.taps - 1) * a.step, a.step, a.taps) for a in axes]
        return Spread(turned, back)

    @cached_property
    def _backwards(self) -> list[tuple[tuple[slice, ...], Sliding | None]]:
        """From the outputs to places of the input that have the same taps; None where these are none.

        Where few channels are made of many, products are spread over all places at once.
        """
        kernel, axes = self._grouped.swapaxes(1, 2), self._axes
        made, given, taps, *_ = kernel.shape[1:]
        if made * taps < given * min(axes[0].stride, taps):
            return [((slice(None),) * len(axes), Spread(kernel, axes))]
        found: list[tuple[tuple[slice, ...], Sliding | None]] = []
        for phases in itertools.product(*map(self._phases, range(len(axes)))):
            own = kernel
            for i, (_, some, _) in enumerate(phases):
                own = own.take(some, axis=3 + i)
            sliding = Gathered(own, [axis for _, _, axis in phases]) if own.size else None
            found.append((tuple(place for place, _, _ in phases), sliding))
        return found

    def _phases(self, axis: int) -> Iterator[tuple[slice, Index, Axis]]:
        """Places along an axis that have the same taps, these taps, the last one first, and the outputs they read."""
        w, size = self.window, self.spatial[axis]
        stride, dilation, before = w.strides[axis], w.dilations[axis], w.before[axis]
        for phase in range(min(stride, size)):
            first = phase + before - np.arange(w.kernel[axis]) * dilation
            taps = np.flatnonzero(first % stride == 0)[::-1]
            start = int(first[taps[0]]) // stride if len(taps) else 0
            step = dilation // math.gcd(dilation, stride)
            count = -(-(size - phase) // stride)
            yield slice(phase, None, stride), taps, Axis(count, self.outputs[axis], 1, start, step, len(taps))

    def _of_one_type(self, rows: NDArray[Any]) -> tuple[Convolution, NDArray[Any]]:
        dtype = np.result_type(rows, self.kernel)
        map_ = self if self.dtype == dtype else self._with(self.kernel.astype(dtype))
        return map_, rows.astype(dtype, copy=False)

    def _views(
        self, rows: NDArray[Any], given: Sequence[int], made: Sequence[int]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]:
        """Rows by groups and sizes, what is to be returned and its view, and the place of the batch among the sizes.

        A batch that is laid out by columns comes last and is returned so; else it comes second.
        """
        (count, _), size = rows.shape, math.prod(made)
        if count > 1 and abs(rows.strides[0]) < abs(rows.strides[1]):
            place, result = len(self.spatial), np.empty((size, count), dtype=rows.dtype).T
        else:
            place, result = 1, np.empty((count, size), dtype=rows.dtype)
        order = list(range(1, 3 + len(self.spatial)))
        order.insert(2 + place, 0)
        x, out = (
            a.reshape(count, self.groups, shape[0] // self.groups, *shape[1:]).transpose(order)
            for a, shape in ((rows, given), (result, made))
        )
        return x, result, out, place

    @cached_property
    def _taps_first(self) -> NDArray[Any]:
        flat = self.kernel.reshape(*self.kernel.shape[:2], -1)
        return np.ascontiguousarray(flat.transpose(0, 2, 1))

    @property
    def _padded_sizes(self) -> tuple[int, ...]:
        """The sizes of the input with its padding."""
        return tuple(b + n + a for b, n, a in zip(self.window.before, self.spatial, self.window.after, strict=True))


@dataclass(frozen=True, eq=False)
class TransposedConvolution(Transposed):
    """The transpose of a convolution, kept as its kernel."""

    map: Convolution

    @property
    def kernel(self) -> NDArray[Any]:
        """The kernel of the convolution."""
        return self.map.kernel

    @property
    def T(self) -> Convolution:
        return self.map

    @property
    def geometry(self) -> NDArray[np.int64]:
        """The geometry of the convolution, and a one behind it."""
        return np.append(self.map.geometry, 1)

    def entrywise(self, function: Function) -> TransposedConvolution:
        return self.map.entrywise(function).T

    def rows_scaled(self, scale: Array) -> TransposedConvolution | None:
        """scale * weight, row by row, where that is one: one factor for each channel."""
        found = self.map.columns_scaled(scale)
        return None if found is None else found.T

    def columns_scaled(self, scale: Array) -> TransposedConvolution | None:
        """weight * scale, column by column, where that is one: one factor for each channel."""
        found = self.map.rows_scaled(scale)
        return None if found is None else found.T

    def block(self, rows: Index) -> sparse.csr_array:
        return super().block(rows) if len(rows) <= _FEW else self.tocsr()[rows]

    def pieces(self) -> Iterator[sparse.csr_array]:
        yield self.tocsr()


Kernel = Convolution | TransposedConvolution  # maps that a network keeps as kernels


def folded(second: Matrix, first: Matrix) -> Kernel | None:
    """The product second first where it is kept as a kernel: one of them is, and the other scales its channels."""
    if isinstance(second, Kernel) and (scale := _diagonal(first)) is not None:
        return second.columns_scaled(scale)
    if isinstance(first, Kernel) and (scale := _diagonal(second)) is not None:
        return first.rows_scaled(scale)
    return None


def _diagonal(weight: Matrix) -> Array | None:
    """The diagonal of a sparse matrix that has nothing else, and all of it."""
    if not sparse.issparse(weight) or weight.shape[0] != weight.shape[1] or weight.nnz != weight.shape[0]:
        return None
    w = sparse.csr_array(weight)
    plain = np.array_equal(w.indices, np.arange(w.nnz)) and np.array_equal(w.indptr, np.arange(w.nnz + 1))
    return np.asarray(w.data, dtype=np.float64) if plain else None


def _by_channel(scale: Array, channels: int) -> Array | None:
    """The factor of each channel, if each has one."""
    factors = scale.reshape(channels, -1)
    return factors[:, 0] if np.all(factors == factors[:, :1]) else None


def _at(*index: Any) -> Any:
    """An index of several axes."""
    return index
