"""Drawings as PNG, through matplotlib (extra `plot`): the shapes of `lipcert.chart`, and nothing of its own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from lipcert.chart.shapes import PALETTE, Box, Drawing, Line, Paint, Shape, Text
from lipcert.chart.svg import HEAD, headline
from lipcert.errors import InputError, how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        case Line(points, paint, closed):
            axes.add_patch(patches.PathPatch(Path([*points, *(points[:1] if closed else ())]), **_look(paint)))
        case Box(x, y, width, height, paint):
            axes.add_patch(patches.Rectangle((x, y), width, height, **_look(paint)))


def _look(paint: Paint) -> dict[str, Any]:
    """Where a shape is hatched, matplotlib takes the colour of its edge for the lines, and the edge has no width."""
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
