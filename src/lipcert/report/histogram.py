"""How many inputs have which radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.report.figures import count, plain, ticks
from lipcert.report.markup import Markup, tag
from lipcert.report.svg import Frame, hatching, picture, text

_BINS = 20


@dataclass(frozen=True)
class Bins:
    """counts[k] radii lie in [edges[k], edges[k + 1]); the last bin is closed."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


def bins_of(radii: NDArray[np.float64], top: float) -> Bins:
    counts, edges = np.histogram(radii, bins=_BINS, range=(0.0, top))
    return Bins(edges, counts.astype(np.int64))


def histogram(name: str, title: str, bins: Bins, x_title: str, asked: float, *, hatched: bool = False) -> Markup:
    """Bars, and a line at the radius that was asked; hatched bars are for what attacks found, told apart by more than
    colour.
    """
    most = max(1, int(bins.counts.max()))
    frame = Frame(x_top=float(bins.edges[-1]), y_top=1.05 * most, top=26.0)
    bars = []
    for lo, hi, n in zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), bins.counts.tolist(), strict=True):
        x, y = frame.x(lo), frame.y(n)
        shape = {"x": x + 0.5, "y": y, "width": frame.x(hi) - x - 1, "height": frame.bottom - y}
        label = tag("title", f"{span(lo, hi)}: {count(n)} inputs")
        paint: dict[str, str] = {"fill": f"url(#{name}-hatch)", "class_": "outline"} if hatched else {"class_": "bar"}
        bars.append(tag("g", label, tag("rect", **shape, **paint)))
    y_ticks = [(v, count(round(v))) for v in ticks(frame.y_top) if v == round(v)]
    x_ticks = [(v, plain(v)) for v in ticks(frame.x_top)]
    total = f"{count(int(bins.counts.sum()))} inputs in {_BINS} bins; the numbers are in the table below the drawing."
    axes = frame.axes(x_ticks, y_ticks, x_title, "number of inputs")
    return picture(
        name, title, total, frame.height, hatching(f"{name}-hatch", "attack-hatch"), axes, *bars, *_mark(frame, asked)
    )


def _mark(frame: Frame, asked: float) -> list[Markup]:
    if not 0 < asked <= frame.x_top:
        return []
    x = frame.x(asked)
    anchor = "end" if asked > 0.75 * frame.x_top else "start"
    line = tag("line", x1=x, x2=x, y1=frame.top - 10, y2=frame.bottom, class_="asked-line")
    return [line, text(x, frame.top - 14, f"largest ε asked: {plain(asked)}", anchor)]


def span(lo: float, hi: float) -> str:
    """A bin in words."""
    return f"{plain(float(f'{lo:.4g}'))} to {plain(float(f'{hi:.4g}'))}"
