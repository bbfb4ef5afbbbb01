"""The parts of a drawing: lines, rectangles and texts, in units of about one pixel, y downwards; and axes.

Axes have round numbers on them, linear or logarithmic; a frame lies between two of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipcert.chart.numbers import plain

Point = tuple[float, float]

TEXT_SIZE = 13.0

# Colours by name: a page may give them other values (dark screens), a file takes these.
PALETTE = {
    "paper": "#ffffff",
    "ink": "#1b2430",
    "soft": "#55606e",
    "line": "#d5dae1",
    "panel": "#f4f6f9",
    "proof": "#1f5fa8",
    "proof-area": "#bcd6f2",
    "attack": "#a8430f",
    "hatch": "#8a94a1",
}


@dataclass(frozen=True)
class Paint:
    """How a shape is drawn. Colours are names of PALETTE or #rrggbb; an empty one draws nothing.

    `dash` holds lengths of strokes and gaps, "6 4" say; `hatch` is the colour of slanted lines inside the shape.
    """

    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    dash: str = ""
    hatch: str = ""
    opacity: float = 1.0  # opacity of the fill


@dataclass(frozen=True)
class Polyline:
    """A line through points; with a fill, or closed, also the area inside."""

    points: Sequence[Point]
    paint: Paint
    closed: bool = False
    hint: str = ""  # shown when the pointer rests on the shape


@dataclass(frozen=True)
class Rectangle:
    """A rectangle; `kind` is its class in a page."""

    x: float
    y: float
    width: float
    height: float
    paint: Paint
    hint: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Text:
    """Words beside a point of their base line; `turned` ones run upwards."""

    x: float
    y: float
    words: str
    anchor: str = "middle"
    colour: str = "ink"
    size: float = TEXT_SIZE
    bold: bool = False
    turned: bool = False


Shape = Polyline | Rectangle | Text


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet; `name` is unique in a page, title and description say in words what is seen."""

    name: str
    title: str
    description: str
    width: float
    height: float
    shapes: Sequence[Shape]


def _polygon(corners: int, radius: float, inner: float | None = None) -> tuple[Point, ...]:
    """A regular polygon with a corner at the top; with an inner radius a star."""
    radii = [radius] * corners if inner is None else [radius, inner] * corners
    angles = [2 * math.pi * k / len(radii) for k in range(len(radii))]
    return tuple((r * math.sin(a), -r * math.cos(a)) for r, a in zip(radii, angles, strict=True))


_OUTLINES: dict[str, tuple[Point, ...]] = {
    "circle": _polygon(24, 4.6),
    "ring": _polygon(32, 8.5),
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "triangle": ((0, -5), (5, 4), (-5, 4)),
    "triangle-down": ((0, 5), (5, -4), (-5, -4)),
    "triangle-left": ((-5, 0), (4, -5), (4, 5)),
    "triangle-right": ((5, 0), (-4, -5), (-4, 5)),
    "diamond": ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    "hexagon": _polygon(6, 5.0),
    "star": _polygon(5, 7.5, 3.2),
    "plus": ((-5, 0), (5, 0), (0, 0), (0, -5), (0, 5), (0, 0)),
    "cross": ((-4.5, -4.5), (4.5, 4.5), (0, 0), (4.5, -4.5), (-4.5, 4.5), (0, 0)),
}


def mark(outline: str, x: float, y: float, paint: Paint, hint: str = "") -> Polyline:
    """A small symbol around a point: circle, square, triangle, diamond, hexagon, star, plus, cross, or a ring."""
    corners = _OUTLINES[outline]
    return Polyline([(x + a, y + b) for a, b in (*corners, corners[0])], paint, hint=hint)


_AXIS, _GRID = Paint(stroke="soft"), Paint(stroke="line")
_LEAST = 1e-12  # a logarithmic axis draws zero here
MOST_DECADES = 8  # powers of ten that a logarithmic axis has room to write
_RAISED = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")

Ticks = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Axis:
    """The values from `low` to `high`, what they are, and those of them that are written out."""

    low: float
    high: float
    title: str
    ticks: Ticks
    log: bool = False

    @property
    def title_distance(self) -> float:
        """How far from a vertical axis its title stands: beyond the longest number."""
        return max(43.0, 14 + 7.8 * max((len(label) for _, label in self.ticks), default=0))

    def share(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high end."""
        v, low, high = (math.log10(max(n, _LEAST)) if self.log else n for n in (value, self.low, self.high))
        return (v - low) / (high - low)


def from_zero(top: float, title: str, label: Callable[[float], str] = plain) -> Axis:
    """From 0 to `top` > 0, with about five round numbers; those whose label is empty are left out."""
    marks = ((v, label(float(f"{v:.6g}"))) for v in round_numbers(top))
    return Axis(0.0, top, title, tuple((v, words) for v, words in marks if words))


def logarithmic(low: float, high: float, title: str) -> Axis:
    """Half as much room again on both sides; powers of ten, and 2 and 5 times those when they are few."""
    bottom, top = max(low, 1e-6) / 1.5, max(high, 1e-6) * 1.5
    first, last = math.floor(math.log10(bottom)), math.ceil(math.log10(top))
    steps = (1,) if last - first > 3 else (1, 2, 5)
    stride = -(-(last - first) // MOST_DECADES)
    powers = [k for k in range(first, last + 1) if k % stride == 0]
    values = [v for k in powers for m in steps if bottom <= (v := m * 10.0**k) <= top]
    far = steps == (1,) and any(not 1e-3 < v < 1e5 for v in values)
    label = _power_of_ten if far else plain
    return Axis(bottom, top, title, tuple((v, label(v)) for v in values), log=True)


def _power_of_ten(value: float) -> str:
    """A power of ten with its exponent raised: 10⁶."""
    return "10" + str(round(math.log10(value))).translate(_RAISED)


def around(values: Sequence[float], title: str, most: int = 9) -> Axis:
    """A little wider than the values, of which at most `most` are written out."""
    low, high = min(values), max(values)
    space = 0.06 * (high - low) or 1.0
    shown = sorted({*values})
    return Axis(low - space, high + space, title, tuple((v, plain(v)) for v in shown[:: -(-len(shown) // most)]))


def of_names(names: Sequence[str], title: str) -> Axis:
    """Words in place of numbers: name k stands at the value k."""
    return Axis(-0.5, len(names) - 0.5, title, tuple((float(k), name) for k, name in enumerate(names)))


def round_numbers(top: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to at most `top` (> 0), about `wanted` steps."""
    power = 10.0 ** math.floor(math.log10(top / wanted))
    step = next(power * m for m in (1, 2, 2.5, 5, 10, 20) if top / (power * m) <= wanted)
    return [k * step for k in range(int(top / step * (1 + 1e-9)) + 1)]


@dataclass(frozen=True)
class AxesFrame:
    """The rectangle between two axes on a sheet."""

    x: Axis
    y: Axis
    left: float
    right: float
    top: float
    bottom: float

    def at(self, x: float, y: float) -> Point:
        """The place of a pair of values on the sheet."""
        across, up = self.x.share(x), self.y.share(y)
        return self.left + (self.right - self.left) * across, self.bottom - (self.bottom - self.top) * up

    def shapes(self) -> list[Shape]:
        """Grid lines, numbers and titles of both axes."""
        left, right, bottom = self.left, self.right, self.bottom
        shapes: list[Shape] = []
        for value, label in self.y.ticks:
            y = self.at(self.x.low, value)[1]
            shapes += [Polyline([(left, y), (right, y)], _GRID), Text(left - 6, y + 4.5, label, "end")]
        for value, label in self.x.ticks:
            x = self.at(value, self.y.low)[0]
            shapes += [Polyline([(x, bottom), (x, bottom + 5)], _AXIS), Text(x, bottom + 19, label)]
        middle = (self.top + bottom) / 2
        return [
            *shapes,
            Polyline([(left, self.top), (left, bottom), (right, bottom)], _AXIS),
            Text((left + right) / 2, bottom + 38, self.x.title, colour="soft"),
            Text(left - self.y.title_distance, middle, self.y.title, colour="soft", turned=True),
        ]
