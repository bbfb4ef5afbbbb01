"""Axes with round numbers on them, linear or logarithmic, and the frame between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipcert.chart.numbers import plain
from lipcert.chart.shapes import Line, Paint, Point, Shape, Text

_AXIS, _GRID = Paint(stroke="soft"), Paint(stroke="line")
_LEAST = 1e-12  # what a logarithmic axis takes for zero

Ticks = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Axis:
    """The values from `low` to `high`, what they are, and those of them that are written out."""

    low: float
    high: float
    title: str
    ticks: Ticks
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high end."""
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
    values = (m * 10.0**k for k in range(first, last + 1) for m in steps)
    return Axis(bottom, top, title, tuple((v, plain(v)) for v in values if bottom <= v <= top), log=True)


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
class Frame:
    """The rectangle between two axes on a sheet."""

    x: Axis
    y: Axis
    left: float
    right: float
    top: float
    bottom: float

    def at(self, x: float, y: float) -> Point:
        """Where a pair of values lies on the sheet."""
        across, up = self.x.share(x), self.y.share(y)
        return self.left + (self.right - self.left) * across, self.bottom - (self.bottom - self.top) * up

    def shapes(self) -> list[Shape]:
        """Grid lines, numbers and titles of both axes."""
        left, right, bottom = self.left, self.right, self.bottom
        shapes: list[Shape] = []
        for value, label in self.y.ticks:
            y = self.at(self.x.low, value)[1]
            shapes += [Line([(left, y), (right, y)], _GRID), Text(left - 6, y + 4.5, label, "end")]
        for value, label in self.x.ticks:
            x = self.at(value, self.y.low)[0]
            shapes += [Line([(x, bottom), (x, bottom + 5)], _AXIS), Text(x, bottom + 19, label)]
        middle = (self.top + bottom) / 2
        longest = max((len(label) for _, label in self.y.ticks), default=0)
        return [
            *shapes,
            Line([(left, self.top), (left, bottom), (right, bottom)], _AXIS),
            Text((left + right) / 2, bottom + 38, self.x.title, colour="soft"),
            Text(left - max(43.0, 14 + 7.8 * longest), middle, self.y.title, colour="soft", turned=True),
        ]
