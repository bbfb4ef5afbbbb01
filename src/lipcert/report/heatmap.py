"""Numbers as shades, light to dark, so that grey is enough: constants of pairs, cells of a partition, Jacobian entries.

A partition is shown over two inputs. The other inputs are fixed, or the largest constant over them is shown: a place
has the darkest of the cells above it. In the picture of a Jacobian scores go down and inputs across; the sign stands in
each square.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lipcert.chart.numbers import down, plain, up
from lipcert.chart.shapes import AxesFrame, Axis, Drawing, Paint, Rectangle, Shape, Text
from lipcert.errors import InputError
from lipcert.robustness.pairs import PairConstant
from lipcert.robustness.result import Certification
from lipcert.rounding import Array
from lipcert.search.cells.result import Partition
from lipcert.search.jacobian.goal import Verdict
from lipcert.search.jacobian.result import Jacobian

_LIGHT, _DARK = np.array([241.0, 246.0, 252.0]), np.array([8.0, 48.0, 107.0])
BALANCE = 0.179  # the luminance on which black and white stand out equally
_NUMBERS = 12  # classes up to which a square has room for its number
_LEFT, _TOP, _WIDTH = 34.0, 40.0, 402.0  # place and width of the matrix


def heat_map(result: Certification) -> Drawing | None:
    """The drawing; None before any constant is proved."""
    proved = [p.upper for p in result.pairs if p.upper is not None]
    if not proved:
        return None
    n, lo, hi = result.classes, min(proved), max(proved)
    side = _WIDTH / n
    known = {(p.i, p.j): p for p in result.pairs}
    shapes: list[Shape] = []
    for row in range(n):
        for column in range(n):
            square = (_LEFT + column * side, _TOP + row * side, side, side)
            if row == column:
                shapes.append(Rectangle(*square, Paint(fill="panel")))
            else:
                i, j = min(row, column), max(row, column)
                hint = f"scores {i} and {j}: "
                shapes += _square(known.get((i, j)), square, (lo, hi), hint, n <= _NUMBERS)
    middle = f"middle: {plain(float(f'{(lo + hi) / 2:.4g}'))}"
    return Drawing(
        "constants",
        "Proved Lipschitz constants of all pairs of scores",
        f"A symmetric matrix of {n} by {n} squares; darker is larger, from {up(lo)} to {up(hi)}. "
        "All numbers are in the table of brackets.",
        _LEFT + _WIDTH + 4,
        _TOP + _WIDTH + 58,
        [*shapes, *_names(n, side), *_scale(_LEFT, _TOP + _WIDTH + 12, _WIDTH, (up(lo), up(hi)), middle)],
    )


def _square(
    pair: PairConstant | None,
    square: tuple[float, float, float, float],
    span: tuple[float, float],
    hint: str,
    numbers: bool,
) -> list[Shape]:
    """The square of one pair, with its number where there is room."""
    x, y, side, _ = square
    if pair is None or pair.upper is None:
        missing = Text(x + side / 2, y + side / 2 + 4, "?", bold=True)
        return [Rectangle(*square, Paint(hatch="hatch"), f"{hint}no constant proved"), missing]
    level = (pair.upper - span[0]) / ((span[1] - span[0]) or 1.0)
    hint += f"at most {up(pair.upper)}" + ("" if pair.lower is None else f", at least {down(pair.lower)}")
    paint = Paint(fill=shade(level), stroke="paper", width=1 if numbers else 0.3)
    box = Rectangle(*square, paint, hint, kind="cell" if numbers else "cell dense")
    if not numbers:
        return [box]
    label = up(pair.upper, 3)
    ink = "#ffffff" if luminance(level) < BALANCE else "#000000"
    size = min(12.9, 1.65 * side / max(len(label), 3), 0.5 * side)
    return [box, Text(x + side / 2, y + side / 2 + 0.36 * size, label, colour=ink, size=size)]


def luminance(level: float) -> float:
    """Relative luminance of a square, as the web's guidelines for contrast define it."""
    part = (_LIGHT + (_DARK - _LIGHT) * level) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def shade(level: float) -> str:
    """The colour of a level from 0, light, to 1, dark."""
    red, green, blue = np.rint(_LIGHT + (_DARK - _LIGHT) * level).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _names(classes: int, side: float) -> list[Shape]:
    shown = range(0, classes, max(1, -(-classes // 20)))
    above = [Text(_LEFT + (k + 0.5) * side, _TOP - 6, str(k)) for k in shown]
    beside = [Text(_LEFT - 6, _TOP + (k + 0.5) * side + 4.5, str(k), "end") for k in shown]
    return [*above, *beside, Text(_LEFT + _WIDTH / 2, 14, "score i against score j", colour="soft")]


_CELLS_LEFT, _CELLS_TOP, _SIDE = 76.0, 12.0, 420.0
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
    frame = AxesFrame(sides[0], sides[1], _CELLS_LEFT, _CELLS_LEFT + _SIDE, _CELLS_TOP, _CELLS_TOP + _SIDE)
    finite = values[np.isfinite(values)]
    lo, hi = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    rest = [i for i in range(region.size) if i not in axes and i not in fixed]
    words = [f"x{i} = {plain(v)}" for i, v in sorted(fixed.items())] + (
        ["largest over the other inputs"] if rest else []
    )
    below = _CELLS_TOP + _SIDE
    return Drawing(
        "cells",
        f"Proved Lipschitz constants of {len(found):,} cells",
        f"Inputs {axes[0]} and {axes[1]}; darker is larger, from {up(lo)} to {up(hi)}. {', '.join(words)}",
        _CELLS_LEFT + _SIDE + 16,
        below + 122,
        [
            *_squares(frame, rectangles, values, (lo, hi)),
            *frame.shapes(),
            Text(_CELLS_LEFT + _SIDE / 2, below + 58, ", ".join(words), colour="soft"),
            *_scale(_CELLS_LEFT, below + 74, _SIDE, (up(lo), up(hi))),
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


def _squares(frame: AxesFrame, rectangles: Array, values: Array, span: tuple[float, float]) -> list[Shape]:
    """The larger later: it covers what is below it."""
    shapes: list[Shape] = []
    for k in np.argsort(values, kind="stable"):
        x0, y0, x1, y1 = rectangles[k].tolist()
        (left, bottom), (right, top) = frame.at(x0, y0), frame.at(x1, y1)
        place = (left, top, right - left + 0.2, bottom - top + 0.2)
        if np.isfinite(values[k]):
            level = (float(values[k]) - span[0]) / ((span[1] - span[0]) or 1.0)
            shapes.append(Rectangle(*place, Paint(fill=shade(level)), f"at most {up(float(values[k]))}"))
        else:
            shapes.append(Rectangle(*place, Paint(hatch="hatch"), "no constant proved"))
    return shapes


def _axis(lo: float, hi: float, title: str) -> Axis:
    marks = np.linspace(lo, hi, 5)
    return Axis(lo, hi, title, tuple((float(v), plain(float(f"{v:.4g}"))) for v in marks))


_ENTRIES_LEFT, _ENTRIES_TOP, _ENTRIES_WIDTH = 56.0, 40.0, 520.0  # place and width of the matrix
_ENTRIES_SIDE = 92.0  # the largest side of a square,
_HIGH = 8.0  # and the least height of a row
_ENTRIES_NUMBERS, _SIGNS = 60.0, 12.0  # sides from which a square has room for numbers, and for a sign
_NAMED = 20  # rows and columns that have their number beside them, at most
MARKS = {
    Verdict.INCREASING.value: "+",
    Verdict.DECREASING.value: "\N{MINUS SIGN}",
    Verdict.ZERO.value: "0",
    Verdict.BOTH.value: "\N{PLUS-MINUS SIGN}",
    Verdict.OPEN.value: "?",
}


def entry_map(found: Jacobian) -> Drawing:
    """The drawing; a square is as dark as the largest |value| that its entry may have."""
    rows, columns = found.lower.shape
    across = min(_ENTRIES_WIDTH / columns, _ENTRIES_SIDE)
    high = max(min(across, _ENTRIES_SIDE), _HIGH)
    size = np.maximum(np.abs(found.lower), np.abs(found.upper))
    finite = size[np.isfinite(size)]
    most = float(finite.max(initial=0.0))
    shapes: list[Shape] = []
    for i in range(rows):
        for j in range(columns):
            place = (_ENTRIES_LEFT + j * across, _ENTRIES_TOP + i * high, across, high)
            shapes += _entry_square(found, i, j, place, float(size[i, j]) / (most or 1.0))
    counts = ", ".join(f"{count:,} {word}" for word, count in found.counts.items() if count)
    below, width = _ENTRIES_TOP + rows * high, max(columns * across, 420.0)
    legend = "   ".join(f"{mark} {word}" for word, mark in MARKS.items())
    return Drawing(
        "jacobian",
        f"Proved bounds of the Jacobian, {rows} x {columns} entries",
        f"Scores down, inputs across; darker is larger, up to {up(most)}. {counts}",
        _ENTRIES_LEFT + width + 16,
        below + 88,
        [
            *shapes,
            *_entry_names(found, across, high),
            Text(_ENTRIES_LEFT, below + 24, legend, "start", colour="soft"),
            *_scale(_ENTRIES_LEFT, below + 38, width, ("0", f"|entry| up to {up(most)}")),
        ],
    )


def _entry_square(
    found: Jacobian, i: int, j: int, place: tuple[float, float, float, float], level: float
) -> list[Shape]:
    x, y, width, height = place
    lower, upper, word = float(found.lower[i, j]), float(found.upper[i, j]), str(found.verdicts[i, j])
    hint = f"d score {found.scores[i]} / d input {found.inputs[j]}: "
    if not np.isfinite(level):
        return [Rectangle(*place, Paint(hatch="hatch"), f"{hint}no bound proved")]
    hint += f"from {down(lower)} to {up(upper)}, {word}"
    shapes: list[Shape] = [Rectangle(*place, Paint(fill=shade(level), stroke="paper", width=0.5), hint)]
    ink, middle = "#ffffff" if luminance(level) < BALANCE else "#000000", x + width / 2
    if min(width, height) >= _SIGNS:
        numbers = min(width, height) >= _ENTRIES_NUMBERS
        raised = y + height / 2 + (-6.0 if numbers else 4.5)
        shapes.append(Text(middle, raised, MARKS[word], colour=ink, bold=True))
        if numbers:
            label = (down(lower, 3), up(upper, 3))
            small = min(11.0, 1.6 * width / max(map(len, label)))
            shapes += [Text(middle, y + height / 2 + 10 + 13 * k, label[k], colour=ink, size=small) for k in (0, 1)]
    return shapes


def _entry_names(found: Jacobian, across: float, high: float) -> list[Shape]:
    rows, columns = found.lower.shape
    named = [range(0, count, max(1, -(-count // _NAMED))) for count in (rows, columns)]
    beside = [
        Text(_ENTRIES_LEFT - 6, _ENTRIES_TOP + (i + 0.5) * high + 4.5, str(found.scores[i]), "end") for i in named[0]
    ]
    above = [Text(_ENTRIES_LEFT + (j + 0.5) * across, _ENTRIES_TOP - 6, str(found.inputs[j])) for j in named[1]]
    titles = [
        Text(_ENTRIES_LEFT + columns * across / 2, 14, "input", colour="soft"),
        Text(14, _ENTRIES_TOP + rows * high / 2, "score", colour="soft", turned=True),
    ]
    return [*beside, *above, *titles]


def _scale(x: float, y: float, width: float, ends: tuple[str, str], middle: str = "") -> list[Shape]:
    """The meaning of light and dark: a bar from light to dark above the words at its ends."""
    pieces = 24
    step = width / pieces
    colours = [Paint(fill=shade(k / (pieces - 1))) for k in range(pieces)]
    return [
        *(Rectangle(x + k * step, y, step + 0.5, 12, colour) for k, colour in enumerate(colours)),
        Rectangle(x, y, width, 12, Paint(stroke="soft")),
        Text(x, y + 28, ends[0], "start"),
        *([Text(x + width / 2, y + 28, middle)] if middle else []),
        Text(x + width, y + 28, ends[1], "end"),
    ]
