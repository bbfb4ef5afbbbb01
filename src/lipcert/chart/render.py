"""Drawings as files: as SVG, inside a page or on their own, and as PNG through matplotlib (extra `plot`).

Inside a page the style sheet gives the colours their values.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from lipcert.chart.markup import Markup, tag
from lipcert.chart.shapes import PALETTE, TEXT_SIZE, Drawing, Paint, Polyline, Rectangle, Shape, Text
from lipcert.errors import InputError, how_to_install

if TYPE_CHECKING:  # a checker has no budget
    from matplotlib.axes import Axes

HEAD = 34.0  # height of the title above a drawing that is a file
_FONT = "font-family:system-ui,'DejaVu Sans',Verdana,sans-serif"


def inline(drawing: Drawing) -> Markup:
    """The drawing for a page, which has a heading above it and a style sheet for its fonts and colours."""
    name = drawing.name
    return tag(
        "svg",
        tag("title", drawing.title, id=f"{name}-title"),
        tag("desc", drawing.description, id=f"{name}-desc"),
        *_content(drawing, in_page=True),
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {drawing.width:g} {drawing.height:g}",
        class_="chart",
    )


def document(drawing: Drawing) -> str:
    """The drawing as an SVG file, its title on top."""
    width, height = drawing.width, drawing.height + HEAD
    root = tag(
        "svg",
        tag("title", drawing.title),
        tag("desc", drawing.description),
        tag("rect", y=-HEAD, width=width, height=height, fill=PALETTE["paper"]),
        _Writer(drawing.name, in_page=False).shape(headline(drawing)),
        *_content(drawing, in_page=False),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 {-HEAD:g} {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        style=f"{_FONT};font-size:{TEXT_SIZE:g}px;fill:{PALETTE['ink']}",
    )
    return f"{root}\n"


def headline(drawing: Drawing) -> Text:
    """The title of a drawing that is a file."""
    return Text(drawing.width / 2, 22 - HEAD, drawing.title, size=15, bold=True)


def _content(drawing: Drawing, *, in_page: bool) -> list[Markup]:
    writer = _Writer(drawing.name, in_page)
    hatches = dict.fromkeys(s.paint.hatch for s in drawing.shapes if not isinstance(s, Text) and s.paint.hatch)
    patterns = [writer.pattern(colour) for colour in hatches]
    return [*([tag("defs", *patterns)] if patterns else []), *map(writer.shape, drawing.shapes)]


class _Writer:
    """Shapes as elements of one drawing."""

    def __init__(self, name: str, in_page: bool) -> None:
        self.name, self.in_page = name, in_page

    def shape(self, shape: Shape) -> Markup:
        if isinstance(shape, Text):
            return self._text(shape)
        hint = [tag("title", shape.hint)] if shape.hint else []
        look = {"style": self._style(shape.paint), "stroke_dasharray": shape.paint.dash or None}
        match shape:
            case Polyline(points, _, closed):
                corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
                return tag("polygon" if closed else "polyline", *hint, points=corners, **look)
            case Rectangle(x, y, width, height, kind=kind):
                return tag("rect", *hint, x=x, y=y, width=width, height=height, class_=kind or None, **look)

    def pattern(self, colour: str) -> Markup:
        """Slanted lines, so that an area is told apart without its colour."""
        style = f"stroke:{self._colour(colour)};stroke-width:1.2;fill:none"
        line = tag("path", d="M0,6 L6,0 M-1,1 L1,-1 M5,7 L7,5", style=style)
        return tag("pattern", line, id=self._hatch(colour), width=6, height=6, patternUnits="userSpaceOnUse")

    def _text(self, text: Text) -> Markup:
        style = []
        if text.colour != "ink":
            style.append(f"fill:{self._colour(text.colour)}")
        if text.size != TEXT_SIZE:
            style.append(f"font-size:{text.size:.1f}px")
        if text.bold:
            style.append("font-weight:bold")
        turn = f"rotate(-90 {text.x:g} {text.y:g})" if text.turned else None
        place = {"x": text.x, "y": text.y}
        return tag("text", text.words, **place, text_anchor=text.anchor, transform=turn, style=";".join(style) or None)

    def _style(self, paint: Paint) -> str:
        fill = f"url(#{self._hatch(paint.hatch)})" if paint.hatch else self._colour(paint.fill)
        parts = [f"fill:{fill}"]
        if paint.opacity < 1:
            parts.append(f"fill-opacity:{paint.opacity:g}")
        if paint.stroke:
            parts.append(f"stroke:{self._colour(paint.stroke)};stroke-width:{paint.width:g}")
        return ";".join(parts)

    def _colour(self, colour: str) -> str:
        if colour not in PALETTE:
            return colour or "none"
        return f"var(--{colour})" if self.in_page else PALETTE[colour]

    def _hatch(self, colour: str) -> str:
        return f"{self.name}-{colour}-lines"


_UNITS = 96.0  # in an inch, as in a browser
_POINT = 72 / _UNITS
_ANCHORS: dict[str, Any] = {"start": "left", "middle": "center", "end": "right"}


def check_matplotlib() -> None:
    """Say what to install before any work is done."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise InputError(f"a PNG needs matplotlib; {how_to_install('plot')}") from None


def png(drawing: Drawing) -> bytes:
    """The contents of a PNG file. No window system is touched."""
    check_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    width, height = drawing.width, drawing.height + HEAD
    settings: dict[Any, Any] = {"text.parse_math": False, "hatch.linewidth": 0.6}
    with rc_context(settings):
        figure = Figure(figsize=(width / _UNITS, height / _UNITS), facecolor=PALETTE["paper"])
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(drawing.height, -HEAD))
        axes.set_axis_off()
        for shape in (headline(drawing), *drawing.shapes):
            _add(axes, shape)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=2 * _UNITS, metadata={"Software": "lipcert"})
        return buffer.getvalue()


def _add(axes: Axes, shape: Shape) -> None:
    from matplotlib import patches
    from matplotlib.path import Path

    match shape:
        case Text(x, y, words, anchor):
            axes.text(
                *(x, y, words),
                color=_colour(shape.colour),
                fontsize=shape.size * _POINT,
                fontweight="bold" if shape.bold else "normal",
                horizontalalignment=_ANCHORS[anchor],
                rotation=90 if shape.turned else 0,
                rotation_mode="anchor",
            )
        case Polyline(points, paint, closed):
            axes.add_patch(patches.PathPatch(Path([*points, *(points[:1] if closed else ())]), **_look(paint)))
        case Rectangle(x, y, width, height, paint):
            axes.add_patch(patches.Rectangle((x, y), width, height, **_look(paint)))


def _look(paint: Paint) -> dict[str, Any]:
    """Matplotlib's keywords. It draws a hatch in the edge's colour, so a hatched shape has an edge of no width."""
    if paint.hatch:
        return {"facecolor": "none", "edgecolor": _colour(paint.hatch), "hatch": "/////", "linewidth": 0}
    dash = [float(n) / max(paint.width, 0.1) for n in paint.dash.split()]
    return {
        "facecolor": _colour(paint.fill),
        "alpha": paint.opacity if paint.opacity < 1 else None,
        "edgecolor": _colour(paint.stroke),
        "linewidth": paint.width * _POINT if paint.stroke else 0,
        "linestyle": (0, dash) if dash else "solid",
    }


def _colour(colour: str) -> str:
    return PALETTE.get(colour, colour) or "none"
