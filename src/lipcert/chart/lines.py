"""Line charts, several on a sheet below one legend: a median with its quartile band for each series.

Series are told apart by mark and dash, not only by colour, so that a grey printer is enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.chart.numbers import near, plain
from lipcert.chart.shapes import (
    AxesFrame,
    Axis,
    Drawing,
    Paint,
    Polyline,
    Shape,
    Text,
    around,
    from_zero,
    logarithmic,
    mark,
    of_names,
)

_WIDTH, _HEIGHT = 400.0, 280.0  # size of one panel
_TITLE_ROOM = 23.0  # for the title of the vertical axis, beside the panel on its left
_LEGEND_STEP, _LEGEND_ROW = 150.0, 22.0


@dataclass(frozen=True)
class Quartiles:
    """The middle half of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Quartiles | None:
        if not numbers:
            return None
        low, median, high = np.quantile(np.asarray(numbers, dtype=np.float64), [0.25, 0.5, 0.75]).tolist()
        return cls(low, median, high)

    @classmethod
    def one(cls, number: float) -> Quartiles:
        """The quartiles of a single number."""
        return cls(number, number, number)


@dataclass(frozen=True)
class Look:
    """How one series is drawn: without a `mark` it is a line alone."""

    colour: str
    dash: str
    mark: str
    hollow: bool = False
    width: float = 2.0

    @property
    def line(self) -> Paint:
        return Paint(stroke=self.colour, width=self.width, dash=self.dash)

    def mark_at(self, x: float, y: float, hint: str = "") -> list[Shape]:
        paint = Paint(fill="paper" if self.hollow else self.colour, stroke=self.colour, width=1.8)
        return [mark(self.mark, x, y, paint, hint)] if self.mark else []


@dataclass(frozen=True)
class Series:
    """One line: x, and the median and quartiles there."""

    name: str
    points: tuple[tuple[float, Quartiles], ...]


@dataclass(frozen=True)
class Panel:
    """One chart. `names` are words in place of numbers on the x axis: name k stands at x = k; no lines join them."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log: bool = False
    log_x: bool = False
    names: tuple[str, ...] = ()


def line_chart(title: str, panels: Sequence[Panel], looks: Mapping[str, Look], columns: int = 2) -> Drawing:
    """The panels row by row below one legend, which has the series whose look has a mark; empty panels are left out."""
    shown = [p for p in panels if any(s.points for s in p.series)]
    names = dict.fromkeys(s.name for p in shown for s in p.series if s.points and looks[s.name].mark)
    joined = {s.name for p in shown for s in p.series if _joined(p, s)}
    columns = max(1, min(columns, len(shown)))
    per_row = int(columns * _WIDTH // _LEGEND_STEP)
    shapes: list[Shape] = []
    for k, name in enumerate(names):
        shapes += _legend(
            name, looks[name], name in joined, k % per_row * _LEGEND_STEP + 16, 10 + k // per_row * _LEGEND_ROW
        )
    top = _LEGEND_ROW * math.ceil(len(names) / per_row)
    for k, panel in enumerate(shown):
        shapes += _panel(panel, looks, _WIDTH * (k % columns), top + _HEIGHT * (k // columns))
    height = top + _HEIGHT * math.ceil(len(shown) / columns)
    if not shown:
        shapes, height = [Text(_WIDTH / 2, 20, "nothing to draw yet")], 40.0
    return Drawing("lines", title, "; ".join(p.title for p in shown), columns * _WIDTH, height, shapes)


def _joined(panel: Panel, series: Series) -> bool:
    """Whether a line is drawn through the points."""
    return len(series.points) > 1 and not panel.names


def _legend(name: str, look: Look, joined: bool, x: float, y: float) -> list[Shape]:
    line = [Polyline([(x, y), (x + 36, y)], look.line)] if joined else []
    return [*line, *look.mark_at(x + 18, y), Text(x + 44, y + 4.5, name, "start")]


def _panel(panel: Panel, looks: Mapping[str, Look], x: float, y: float) -> list[Shape]:
    y_axis = _y_axis(panel)
    left = x + y_axis.title_distance + _TITLE_ROOM
    frame = AxesFrame(_x_axis(panel), y_axis, left, x + _WIDTH - 12, y + 30, y + _HEIGHT - 46)
    shapes = [Text((frame.left + frame.right) / 2, y + 18, panel.title, bold=True), *frame.shapes()]
    for s in panel.series:
        shapes += _band(s, looks[s.name], frame) if _joined(panel, s) else []
    for s in panel.series:
        look = looks[s.name]
        if _joined(panel, s):
            shapes.append(Polyline([frame.at(v, q.median) for v, q in s.points], look.line))
        for v, q in s.points:
            place = "" if panel.names else f", {plain(v)}"
            shapes += look.mark_at(*frame.at(v, q.median), f"{s.name}{place}: {near(q.median, 5)}")
    return shapes


def _band(series: Series, look: Look, frame: AxesFrame) -> list[Shape]:
    if all(q.low == q.high for _, q in series.points):
        return []
    above = [frame.at(x, q.high) for x, q in series.points]
    below = [frame.at(x, q.low) for x, q in reversed(series.points)]
    return [Polyline([*above, *below], Paint(fill=look.colour, opacity=0.13), closed=True)]


def _x_axis(panel: Panel) -> Axis:
    if panel.names:
        return of_names(panel.names, panel.x_title)
    values = [x for s in panel.series for x, _ in s.points]
    return logarithmic(min(values), max(values), panel.x_title) if panel.log_x else around(values, panel.x_title)


def _y_axis(panel: Panel) -> Axis:
    spreads = [q for s in panel.series for _, q in s.points]
    low, high = min(q.low for q in spreads), max(q.high for q in spreads)
    return logarithmic(low, high, panel.y_title) if panel.log else from_zero(1.08 * high or 1.0, panel.y_title)
