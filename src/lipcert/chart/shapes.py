"""What a drawing is made of: lines, boxes and texts, in units of about one pixel, y downwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    opacity: float = 1.0  # of the fill


@dataclass(frozen=True)
class Line:
    """A line through points; with a fill, or closed, also the area inside."""

    points: Sequence[Point]
    paint: Paint
    closed: bool = False
    hint: str = ""  # shown when the pointer rests on the shape


@dataclass(frozen=True)
class Box:
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


Shape = Line | Box | Text


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


def mark(outline: str, x: float, y: float, paint: Paint, hint: str = "") -> Line:
    """A small symbol around a point: circle, square, triangle, diamond, hexagon, star, plus, cross, or a ring."""
    corners = _OUTLINES[outline]
    return Line([(x + a, y + b) for a, b in (*corners, corners[0])], paint, hint=hint)
