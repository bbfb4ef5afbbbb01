"""Line charts as SVG of our own: a median with its quartile band for each method, told apart by mark and dash, not only
by colour, so that they read on a grey printer. No package is needed to draw them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lipcert.paper.statistics import Quartiles
from lipcert.report.figures import near, plain, ticks
from lipcert.report.markup import Markup, tag, together
from lipcert.report.svg import text

_WIDTH, _HEIGHT = 400.0, 280.0  # of one panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 12.0, 30.0, 46.0
_LEGEND_STEP, _LEGEND_ROW = 150.0, 22.0
_FONT = "font-family:system-ui,'DejaVu Sans',Verdana,sans-serif;font-size:13px;fill:#111"


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    dash: str
    mark: str


LOOKS = {
    "LBS": Look("#000000", "1 4", "plus"),
    "SHOR": Look("#8c8c8c", "8 4", "square"),
    "HR-1": Look("#9a6b00", "3 3", "triangle-down"),
    "HR-2": Look("#0b5394", "12 4 2 4", "triangle"),
    "LipOpt-3": Look("#b45f06", "6 3 1 3", "diamond"),
    "LipOpt-4": Look("#6a329f", "2 2 8 2", "cross"),
    "ours": Look("#a61c00", "", "circle"),
    "computed": Look("#a61c00", "", "circle"),
    "published": Look("#444444", "2 5", "square"),
}
_OTHER = Look("#444444", "5 5", "square")


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
    names: tuple[str, ...] = field(default=())

    @property
    def empty(self) -> bool:
        return not any(s.points for s in self.series)


def drawing(title: str, panels: Sequence[Panel], columns: int = 2) -> str:
    """A whole SVG file: the panels row by row below one legend; what has no points is left out."""
    shown = [p for p in panels if not p.empty]
    names = list(dict.fromkeys(s.name for p in shown for s in p.series if s.points))
    columns = max(1, min(columns, len(shown)))
    width = columns * _WIDTH
    per_row = max(1, int(width // _LEGEND_STEP))
    top = 34.0 + _LEGEND_ROW * math.ceil(len(names) / per_row)
    height = top + _HEIGHT * math.ceil(len(shown) / columns)
    legend = [
        _legend(name, (k % per_row) * _LEGEND_STEP + 16, 44 + _LEGEND_ROW * (k // per_row))
        for k, name in enumerate(names)
    ]
    charts = [
        tag("g", _panel(p), transform=f"translate({_WIDTH * (k % columns):g} {top + _HEIGHT * (k // columns):g})")
        for k, p in enumerate(shown)
    ]
    empty = [text(width / 2, top + 20, "nothing to draw yet")] if not shown else []
    root = tag(
        "svg",
        tag("title", title),
        tag("rect", width=width, height=height + 20 * len(empty), fill="#ffffff"),
        text(width / 2, 22, title, style="font-size:15px;font-weight:bold"),
        *legend,
        *charts,
        *empty,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height + 20 * len(empty):g}",
        width=width,
        height=height + 20 * len(empty),
        role="img",
        style=_FONT,
    )
    return f"{root}\n"


def _legend(name: str, x: float, y: float) -> Markup:
    look = LOOKS.get(name, _OTHER)
    line = tag("path", d=f"M{x:g},{y:g} h36", stroke=look.colour, stroke_width=2.0, stroke_dasharray=look.dash or None)
    return tag("g", line, _mark(look, x + 18, y), text(x + 44, y + 4.5, name, "start"))


@dataclass(frozen=True)
class _Scale:
    """Where values lie in a panel."""

    x0: float
    x1: float
    y0: float
    y1: float
    log: bool

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - self.x0) / (self.x1 - self.x0)

    def y(self, value: float) -> float:
        v, low, high = (math.log10(max(n, 1e-12)) if self.log else n for n in (value, self.y0, self.y1))
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (v - low) / (high - low)


def _panel(panel: Panel) -> Markup:
    scale, marks = _scale(panel), _y_ticks
    xs = sorted({x for s in panel.series for x, _ in s.points})
    x_marks = [(float(k), name) for k, name in enumerate(panel.names)] or [(x, plain(x)) for x in _thinned(xs)]
    parts = [text((_LEFT + _WIDTH - _RIGHT) / 2, 18, panel.title, style="font-weight:bold")]
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value, label in marks(scale):
        parts.append(tag("path", d=f"M{left:g},{scale.y(value):.1f} H{right:g}", stroke="#dddddd"))
        parts.append(text(left - 6, scale.y(value) + 4.5, label, "end"))
    for value, label in x_marks:
        parts.append(tag("path", d=f"M{scale.x(value):.1f},{bottom:g} v5", stroke="#333333"))
        parts.append(text(scale.x(value), bottom + 19, label))
    frame = f"M{left:g},{_TOP:g} V{bottom:g} H{right:g}"
    parts.append(tag("path", d=frame, stroke="#333333", fill="none"))
    parts.append(text((left + right) / 2, _HEIGHT - 8, panel.x_title))
    middle = (_TOP + bottom) / 2
    parts.append(text(14, middle, panel.y_title, transform=f"rotate(-90 14 {middle:g})"))
    parts += [_band(s, scale) for s in panel.series if len(s.points) > 1 and not panel.names]
    parts += [_line(s, scale, joined=not panel.names) for s in panel.series if s.points]
    return together(parts)


def _scale(panel: Panel) -> _Scale:
    points = [p for s in panel.series for p in s.points]
    xs = [x for x, _ in points]
    low, high = min(q.low for _, q in points), max(q.high for _, q in points)
    if panel.names:
        x0, x1 = -0.5, len(panel.names) - 0.5
    else:
        space = 0.06 * (max(xs) - min(xs)) or 1.0
        x0, x1 = min(xs) - space, max(xs) + space
    if panel.log:
        return _Scale(x0, x1, max(low, 1e-6) / 1.5, max(high, 1e-6) * 1.5, True)
    return _Scale(x0, x1, 0.0, 1.08 * high or 1.0, False)


def _y_ticks(scale: _Scale) -> list[tuple[float, str]]:
    if not scale.log:
        return [(v, plain(float(f"{v:.6g}"))) for v in ticks(scale.y1)]
    first, last = math.floor(math.log10(scale.y0)), math.ceil(math.log10(scale.y1))
    steps = (1,) if last - first > 3 else (1, 2, 5)
    return [
        (m * 10.0**k, near(m * 10.0**k, 1))
        for k in range(first, last + 1)
        for m in steps
        if scale.y0 <= m * 10.0**k <= scale.y1
    ]


def _thinned(xs: Sequence[float], most: int = 9) -> list[float]:
    return [*xs][:: max(1, -(-len(xs) // most))]


def _band(series: Series, scale: _Scale) -> Markup:
    up = [f"{scale.x(x):.1f},{scale.y(q.high):.1f}" for x, q in series.points]
    down = [f"{scale.x(x):.1f},{scale.y(q.low):.1f}" for x, q in reversed(series.points)]
    look = LOOKS.get(series.name, _OTHER)
    return tag("polygon", points=" ".join([*up, *down]), fill=look.colour, fill_opacity="0.13")


def _line(series: Series, scale: _Scale, *, joined: bool) -> Markup:
    look = LOOKS.get(series.name, _OTHER)
    at = [(scale.x(x), scale.y(q.median)) for x, q in series.points]
    parts = []
    if joined and len(at) > 1:
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        dash = look.dash or None
        parts.append(
            tag("polyline", points=way, fill="none", stroke=look.colour, stroke_width=2.0, stroke_dasharray=dash)
        )
    for (x, y), (value, q) in zip(at, series.points, strict=True):
        words = (
            f"{series.name}, {plain(value)}: {near(q.median, 5)}" if joined else f"{series.name}: {near(q.median, 5)}"
        )
        parts.append(tag("g", tag("title", words), _mark(look, x, y)))
    return together(parts)


def _mark(look: Look, x: float, y: float) -> Markup:
    shapes = {
        "circle": f"M{x - 4.5:.1f},{y:.1f} a4.5,4.5 0 1,0 9,0 a4.5,4.5 0 1,0 -9,0 z",
        "square": f"M{x - 4:.1f},{y - 4:.1f} h8 v8 h-8 z",
        "triangle": f"M{x:.1f},{y - 5:.1f} l5,9 h-10 z",
        "triangle-down": f"M{x:.1f},{y + 5:.1f} l5,-9 h-10 z",
        "diamond": f"M{x:.1f},{y - 5.5:.1f} l5.5,5.5 l-5.5,5.5 l-5.5,-5.5 z",
        "plus": f"M{x - 5:.1f},{y:.1f} h10 M{x:.1f},{y - 5:.1f} v10",
        "cross": f"M{x - 4.5:.1f},{y - 4.5:.1f} l9,9 m0,-9 l-9,9",
    }
    fill = look.colour if look.mark in ("circle", "triangle") else "#ffffff"
    return tag("path", d=shapes[look.mark], fill=fill, stroke=look.colour, stroke_width=1.8)
