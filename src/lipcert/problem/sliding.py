"""Products with a kernel that slides over a tensor: a few matrix products, and few copies.

Along one axis, a short end o and a long end p are related by p = o stride + first + k step for every tap k; what lies
outside of the long end is zero. There are two ways to a product:

- gathered, from the long end to the short one. The taps of all axes but the first are copied into the columns of a
  matrix. Along the first axis the columns of one tap are a slice of those of another and are not copied again.
- spread, from the short end to the long one. Products with every tap are added where they belong, axis after axis.

Every number is a sum of no more terms than there are channels times taps; the zeros around a tensor are exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from lipcert import steps as working

Numbers = NDArray[Any]

_TILE = 1 << 18  # numbers that are copied at a time
_COLUMNS = 256  # a product with fewer columns than this spends its time on its other factor
_RUN = 16  # numbers that lie together in a copy, where a batch is laid out by columns
_DEEP = 24  # terms of a product below which all taps of all axes are terms of one product


class Axis(NamedTuple):
    """One axis: `short` places at one end, `long` at the other."""

    short: int
    long: int
    stride: int = 1
    first: int = 0
    step: int = 1
    taps: int = 1

    @property
    def reach(self) -> int:
        """From the first place of the long end that is met to the last."""
        return (self.short - 1) * self.stride + (self.taps - 1) * self.step + 1

    def part(self, start: int, short: int) -> tuple[slice, Axis]:
        """The places of the long end that some of the short end meet, and the axis between both."""
        first = self.first + start * self.stride
        own = self._replace(short=short, first=first)
        low, high = max(0, min(first, self.long)), max(0, min(first + own.reach, self.long))
        return slice(low, high), own._replace(long=high - low, first=first - low)


class Sliding(ABC):
    """A kernel that slides along these axes; numbers that are copied for one place of the first axis."""

    def __init__(self, axes: Sequence[Axis], copied: int) -> None:
        self.axes, self.copied = tuple(axes), copied

    @abstractmethod
    def tiles(self, x: Numbers, out: Numbers, axes: Sequence[Axis], length: int) -> None:
        """Write the products of x into out, `length` places of the first axis at a time; the batch is one of `axes`."""

    def into(self, x: Numbers, out: Numbers, place: int) -> None:
        """Write the products of x (groups, in, *sizes) into out (groups, out, *sizes).

        The batch is one more axis at this place of the sizes.
        """
        batch = x.shape[2 + place]
        first, copied = self.axes[0].short, max(1, self.copied)
        line = math.prod(axis.short for axis in self.axes[1:])
        tile = max(_COLUMNS * copied, _TILE)
        least = min(batch, _RUN) if place > 1 else 1
        length = max(1, min(first, tile // (copied * line * least)))
        together = max(least, min(batch, tile // (copied * line * length)))
        here = (slice(None),) * (2 + place)
        for start in range(0, batch, together):
            size = min(together, batch - start)
            some = (*here, slice(start, start + size))
            self.tiles(x[some], out[some], (*self.axes[:place], Axis(size, size), *self.axes[place:]), length)


class Gathered(Sliding):
    """Windows are copied, then multiplied with a kernel (groups, out, in, *taps)."""

    def __init__(self, kernel: Numbers, axes: Sequence[Axis]) -> None:
        first, (groups, made, given, taps, *others) = axes[0], kernel.shape
        deep = given * math.prod(others)
        places = [divmod(first.first + k * first.step, first.stride) for k in range(taps)]
        phases = {phase: [k for k, place in enumerate(places) if place[1] == phase] for _, phase in places}
        self.passes: list[tuple[Axis, list[tuple[int, Numbers]]]] = []
        if len(phases) == taps or deep < _DEEP:
            super().__init__(axes, groups * deep * taps)
            self.passes = [(first, [(0, np.ascontiguousarray(kernel).reshape(groups, made, -1))])]
            return
        super().__init__(axes, groups * deep * len(phases))
        for own in phases.values():
            shifts = [places[k][0] - places[own[0]][0] for k in own]
            factors = [np.ascontiguousarray(kernel[:, :, :, k]).reshape(groups, made, -1) for k in own]
            begin = first.first + own[0] * first.step
            longer = first._replace(short=first.short + shifts[-1], first=begin, taps=1)
            self.passes.append((longer, list(zip(shifts, factors, strict=True))))

    def tiles(self, x: Numbers, out: Numbers, axes: Sequence[Axis], length: int) -> None:
        for start in range(0, axes[0].short, length):
            working.step()
            self._tile(x, out[:, :, start : start + length], axes[1:], start)

    def _tile(self, x: Numbers, out: Numbers, others: Sequence[Axis], start: int) -> None:
        count, width = out.shape[2], math.prod(out.shape[3:])
        shape, direct = (*out.shape[:2], count * width), out.flags.c_contiguous
        total = out.reshape(shape) if direct else np.empty(shape, dtype=out.dtype)
        begun = False
        for first, products in self.passes:
            read, axis = first.part(start, count + first.short - self.axes[0].short)
            columns = _windows(x[:, :, read], (axis, *others)).reshape(len(x), -1, axis.short * width)
            for shift, factor in products:
                some = columns[:, :, shift * width : (shift + count) * width]
                if begun:
                    total += factor @ some
                else:
                    np.matmul(factor, some, out=total)
                begun = True
        if not direct:
            out[...] = total.reshape(out.shape)


class Spread(Sliding):
    """Products with a kernel (groups, out, in, *taps) are made for every tap, then added up."""

    def __init__(self, kernel: Numbers, axes: Sequence[Axis]) -> None:
        groups, made, given, *taps = kernel.shape
        super().__init__(axes, groups * made * math.prod(taps))
        self.factor = np.ascontiguousarray(np.moveaxis(kernel, 2, -1)).reshape(groups, -1, given)
        self.made = made

    def tiles(self, x: Numbers, out: Numbers, axes: Sequence[Axis], length: int) -> None:
        whole = length >= axes[0].short
        total = np.empty(0) if whole else np.zeros((*out.shape[:2], *(axis.reach for axis in axes)), dtype=out.dtype)
        for start in range(0, axes[0].short, length):
            working.step()
            some = x[:, :, start : start + length]
            own = (axes[0]._replace(short=some.shape[2]), *axes[1:])
            product = self.factor @ some.reshape(*some.shape[:2], -1)
            added = _added(product.reshape(len(x), self.made, *(axis.taps for axis in own), *some.shape[2:]), own)
            if whole:
                total = added
            else:
                low = start * own[0].stride
                total[:, :, low : low + own[0].reach] += added
        cuts = [(max(0, axis.first), min(axis.long, axis.first + axis.reach), axis.first) for axis in axes]
        if any(low > 0 or high < axis.long for (low, high, _), axis in zip(cuts, axes, strict=True)):
            out[...] = 0
        inside = tuple(slice(low, max(low, high)) for low, high, _ in cuts)
        source = tuple(slice(low - first, max(low, high) - first) for low, high, first in cuts)
        out[_at(..., *inside)] = total[_at(..., *source)]


def _windows(x: Numbers, axes: Sequence[Axis]) -> Numbers:
    """(groups, channels, *taps, *short ends) as a view of x, or of x with zeros around it."""
    ends = [(max(0, -axis.first), max(axis.long, axis.first + axis.reach)) for axis in axes]
    if any(before or end > axis.long for (before, end), axis in zip(ends, axes, strict=True)):
        padded = np.zeros((*x.shape[:2], *(before + end for before, end in ends)), dtype=x.dtype)
        padded[_at(..., *(slice(b, b + axis.long) for (b, _), axis in zip(ends, axes, strict=True)))] = x
        x = padded
    view = x[_at(..., *(slice(axis.first + b, None) for (b, _), axis in zip(ends, axes, strict=True)))]
    taps = [size * axis.step for size, axis in zip(view.strides[2:], axes, strict=True)]
    places = [size * axis.stride for size, axis in zip(view.strides[2:], axes, strict=True)]
    shape = (*view.shape[:2], *(axis.taps for axis in axes), *(axis.short for axis in axes))
    return as_strided(view, shape, (*view.strides[:2], *taps, *places), writeable=False)


def _added(columns: Numbers, axes: Sequence[Axis]) -> Numbers:
    """(groups, channels, *taps, *short ends) added up where they meet, from the first place that is met to the last."""
    for i in range(len(axes) - 1, -1, -1):
        axis, taps = axes[i], (slice(None),) * (2 + i)
        if axis.taps == axis.stride == 1:
            columns = columns[_at(*taps, 0)]
            continue
        shape = [*columns.shape[: 2 + i], *columns.shape[3 + i :]]
        at, shape[2 + 2 * i] = (slice(None),) * (2 + 2 * i), axis.reach
        total, run = np.zeros(shape, dtype=columns.dtype), (axis.short - 1) * axis.stride + 1
        for k in range(axis.taps):
            total[_at(*at, slice(k * axis.step, k * axis.step + run, axis.stride))] += columns[_at(*taps, k)]
        columns = total
    return columns


def _at(*index: Any) -> Any:
    """An index of several axes."""
    return index
