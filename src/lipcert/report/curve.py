"""The certified share of the inputs against the radius, below the share that attacks leave possible."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lipcert.report.figures import percent, plain, ticks
from lipcert.report.job import Job
from lipcert.report.markup import Markup, tag, together
from lipcert.report.shares import Shares, shares
from lipcert.report.svg import Frame, hatching, picture

LEGEND = (
    ("certified", "proved robust (line and filled area; circles at the radii that were asked)"),
    ("undecided", "undecided: neither proved nor refuted (hatched)"),
    ("possible", "the most that attacks leave possible (dashed line, triangles)"),
)


def certified_curve(job: Job) -> Markup | None:
    """The drawing, or None when there is nothing to draw yet."""
    found = shares(job)
    if found is None or job.count == 0:
        return None
    frame = Frame(x_top=float(found.radii[-1]), y_top=1.0)
    low = list(_steps(frame, found, found.certified / job.count))
    high = list(_steps(frame, found, found.possible / job.count))
    drop = f"{frame.x(frame.x_top):.2f},{frame.y(found.possible_at_end / job.count):.2f}"
    y_ticks = [(v / 100, f"{v} %") for v in range(0, 101, 20)]
    x_ticks = [(v, plain(v)) for v in ticks(frame.x_top)]
    floor = f"{frame.x(frame.x_top):.2f},{frame.bottom:.2f} {frame.left:.2f},{frame.bottom:.2f}"
    return picture(
        "curve",
        "Share of inputs proved robust, against the radius",
        _description(job),
        frame.height,
        hatching("curve-hatch", "hatch"),
        frame.axes(x_ticks, y_ticks, f"radius ε of the change, {job.norm}-norm", "share of all inputs"),
        tag("polygon", points=" ".join([*low, *reversed(high)]), fill="url(#curve-hatch)"),
        tag("polygon", points=" ".join([*low, floor]), class_="certified-area"),
        tag("polyline", points=" ".join([*high, drop]), class_="possible-line"),
        tag("polyline", points=" ".join(low), class_="certified-line"),
        _marks(job, frame),
    )


def swatch(kind: str) -> Markup:
    """The small sample of a line or an area in the legend."""
    y = 7.0
    line = f"M1,{y:g} L31,{y:g}"
    parts = {
        "certified": (
            tag("rect", x=1, y=y, width=30, height=6, class_="certified-area"),
            tag("path", d=line, class_="certified-line"),
            _circle(16, y),
        ),
        "undecided": (tag("rect", x=1, y=1, width=30, height=12, fill="url(#curve-hatch)", class_="outline"),),
        "possible": (tag("path", d=line, class_="possible-line"), _triangle(16, y)),
    }[kind]
    return tag("svg", *parts, viewBox="0 0 32 14", class_="swatch", aria_hidden="true")


def _steps(frame: Frame, found: Shares, heights: NDArray[np.float64]) -> Iterable[str]:
    """A staircase; corners between equal heights are left out."""
    starts = np.flatnonzero(np.append(True, np.diff(heights) != 0))
    ends = np.append(starts[1:], heights.size)
    for a, b in zip(starts, ends, strict=True):
        y = frame.y(float(heights[a]))
        yield f"{frame.x(float(found.radii[a])):.2f},{y:.2f}"
        yield f"{frame.x(float(found.radii[b])):.2f},{y:.2f}"


def _marks(job: Job, frame: Frame) -> Markup:
    parts: list[Markup] = []
    for t in job.tallies:
        if t.radius > frame.x_top:
            continue
        x, possible = frame.x(t.radius), job.correct - t.attacked
        where = f"radius {plain(t.radius)}: "
        most = f"{where}at most {percent(possible, job.count, ceiling=True)} can be robust"
        least = f"{where}{percent(t.certified, job.count)} proved robust"
        parts.append(tag("g", tag("title", most), _triangle(x, frame.y(possible / job.count))))
        parts.append(tag("g", tag("title", least), _circle(x, frame.y(t.certified / job.count))))
    return together(parts)


def _circle(x: float, y: float) -> Markup:
    return tag("circle", cx=x, cy=y, r=4, class_="certified-mark")


def _triangle(x: float, y: float) -> Markup:
    return tag("path", d=f"M{x:.2f},{y - 5:.2f} l5,9 h-10 z", class_="possible-mark")


def _description(job: Job) -> str:
    rows = [
        f"at {plain(t.radius)}: {percent(t.certified, job.count)} proved robust, "
        f"at most {percent(job.correct - t.attacked, job.count, ceiling=True)} possible"
        for t in job.tallies
    ]
    return "The same numbers are in the table beside. " + "; ".join(rows)
