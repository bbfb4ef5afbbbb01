"""The constants of a partition over two inputs: light to dark, so that grey is enough.

The other inputs are fixed, or the largest constant over them is shown: a place has the darkest of the cells above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lipcert.chart.axes import Axis, Frame
from lipcert.chart.numbers import plain, up
from lipcert.chart.shapes import Box, Drawing, Paint, Shape, Text
from lipcert.errors import InputError
from lipcert.report.heatmap import shade
from lipcert.rounding import Array
from lipcert.search.cells.result import Partition

_LEFT, _TOP, _SIDE = 76.0, 12.0, 420.0
_MOST = 6000  # rectangles: more of them are painted on a raster
_RASTER = 80  # its squares along each side


def check_view(inputs: int, axes: Sequence[int], at: Mapping[int, float]) -> None:
    """Refuse a view that the region does not have."""
    if len(axes) != 2 or axes[0] == axes[1]:
        raise InputError("a picture has two different inputs for its axes, such as 0,1")
    for i in (*axes, *at):
        if not 0 <= i < inputs:
            raise InputError(f"there is no input {i}: the network has {inputs}, 0 to {inputs - 1}")
    both = [i for i in axes if i in at]
    if both:
        raise InputError(f"input {both[0]} is an axis of the picture and cannot be fixed too")


def cell_map(found: Partition, axes: Sequence[int] = (0, 1), at: Mapping[int, float] | None = None) -> Drawing:
    """The drawing. `at` fixes inputs at values; the largest constant over all others is shown."""
    fixed, region = dict(at or {}), found.region
    check_view(region.size, axes, fixed)
    flat = [i for i in axes if region.lo[i] == region.hi[i]]
    if flat:
        raise InputError(f"input {flat[0]} has no width in the region; choose another axis")
    for i, value in fixed.items():
        if not region.lo[i] <= value <= region.hi[i]:
            raise InputError(f"x{i}={value:g} is outside the region, [{region.lo[i]:g}, {region.hi[i]:g}]")
    rectangles, values = _seen(found, axes, fixed)
    sides = [_axis(float(region.lo[i]), float(region.hi[i]), f"input {i}") for i in axes]
    frame = Frame(sides[0], sides[1], _LEFT, _LEFT + _SIDE, _TOP, _TOP + _SIDE)
    finite = values[np.isfinite(values)]
    lo, hi = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    rest = [i for i in range(region.size) if i not in axes and i not in fixed]
    words = [f"x{i} = {plain(v)}" for i, v in sorted(fixed.items())] + (
        ["largest over the other inputs"] if rest else []
    )
    below = _TOP + _SIDE
    return Drawing(
        "cells",
        f"Proved Lipschitz constants of {len(found):,} cells",
        f"Inputs {axes[0]} and {axes[1]}; darker is larger, from {up(lo)} to {up(hi)}. {', '.join(words)}",
        _LEFT + _SIDE + 16,
        below + 122,
        [
            *_squares(frame, rectangles, values, (lo, hi)),
            *frame.shapes(),
            Text(_LEFT + _SIDE / 2, below + 58, ", ".join(words), colour="soft"),
            *_scale(below + 74, lo, hi),
        ],
    )


def _seen(found: Partition, axes: Sequence[int], fixed: Mapping[int, float]) -> tuple[Array, Array]:
    """Rectangles (x, y, to x, to y), different ones, and the largest constant of the cells over each."""
    over = np.ones(len(found), dtype=bool)
    for i, value in fixed.items():
        over &= (found.lo[:, i] <= value) & (value <= found.hi[:, i])
    i, j = axes
    every = np.column_stack([found.lo[over, i], found.lo[over, j], found.hi[over, i], found.hi[over, j]])
    rectangles, place = np.unique(every, axis=0, return_inverse=True)
    values = np.zeros(len(rectangles))
    np.maximum.at(values, place.reshape(-1), found.upper[over])
    if len(rectangles) <= _MOST:
        return rectangles, values
    return _raster(rectangles, values, found.region.lo[list(axes)], found.region.hi[list(axes)])


def _raster(rectangles: Array, values: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Squares of a raster, each with the largest constant of all rectangles that it meets."""
    edges = [np.linspace(a, b, _RASTER + 1) for a, b in zip(lo, hi, strict=True)]
    first = [
        np.clip(np.searchsorted(e, rectangles[:, k], side="right") - 1, 0, _RASTER - 1) for k, e in enumerate(edges)
    ]
    last = [np.clip(np.searchsorted(e, rectangles[:, k + 2], side="left"), 1, _RASTER) for k, e in enumerate(edges)]
    picture = np.zeros((_RASTER, _RASTER))
    for k in range(len(rectangles)):
        part = picture[first[0][k] : last[0][k], first[1][k] : last[1][k]]
        np.maximum(part, values[k], out=part)
    x, y = np.divmod(np.arange(_RASTER * _RASTER), _RASTER)
    squares = np.column_stack([edges[0][x], edges[1][y], edges[0][x + 1], edges[1][y + 1]])
    return squares, picture.reshape(-1)


def _squares(frame: Frame, rectangles: Array, values: Array, span: tuple[float, float]) -> list[Shape]:
    """The larger later: it covers what is below it."""
    shapes: list[Shape] = []
    for k in np.argsort(values, kind="stable"):
        x0, y0, x1, y1 = rectangles[k].tolist()
        (left, bottom), (right, top) = frame.at(x0, y0), frame.at(x1, y1)
        place = (left, top, right - left + 0.2, bottom - top + 0.2)
        if np.isfinite(values[k]):
            level = (float(values[k]) - span[0]) / ((span[1] - span[0]) or 1.0)
            shapes.append(Box(*place, Paint(fill=shade(level)), f"at most {up(float(values[k]))}"))
        else:
            shapes.append(Box(*place, Paint(hatch="hatch"), "no constant proved"))
    return shapes


def _axis(lo: float, hi: float, title: str) -> Axis:
    marks = np.linspace(lo, hi, 5)
    return Axis(lo, hi, title, tuple((float(v), plain(float(f"{v:.4g}"))) for v in marks))


def _scale(y: float, lo: float, hi: float) -> list[Shape]:
    """What light and dark mean, in numbers."""
    pieces, width = 24, _SIDE / 24
    colours = [Paint(fill=shade(k / (pieces - 1))) for k in range(pieces)]
    return [
        *(Box(_LEFT + k * width, y, width + 0.5, 12, colour) for k, colour in enumerate(colours)),
        Box(_LEFT, y, _SIDE, 12, Paint(stroke="soft")),
        Text(_LEFT, y + 28, up(lo), "start"),
        Text(_LEFT + _SIDE, y + 28, up(hi), "end"),
    ]
