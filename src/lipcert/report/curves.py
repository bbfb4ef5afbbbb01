"""Charts of a job over the radius: the certified share of the inputs, and how many inputs have which radius.

The certified share is drawn below the share that attacks leave possible. Both are drawn outward: never more proved than
is, nor more refuted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import count, percent, plain
from lipcert.chart.shapes import (
    AxesFrame,
    Axis,
    Drawing,
    Paint,
    Point,
    Polyline,
    Rectangle,
    Shape,
    Text,
    from_zero,
    mark,
)
from lipcert.robustness.result import Certification
from lipcert.robustness.stored import StoredJob
from lipcert.rounding import Array

_STEPS = 400  # finer than a drawing's pixels
_AREA, _HATCH = Paint(fill="proof-area"), Paint(hatch="hatch")
_PROVED, _POSSIBLE = Paint(stroke="proof", width=2.5), Paint(stroke="attack", width=2, dash="6 4")
_CIRCLE, _TRIANGLE = Paint(fill="proof", stroke="paper"), Paint(fill="paper", stroke="attack", width=1.8)


@dataclass(frozen=True)
class Shares:
    """Between radii[k] and radii[k + 1] at least certified[k] inputs are robust, at most possible[k] can be."""

    radii: NDArray[np.float64]
    certified: NDArray[np.int64]
    possible: NDArray[np.int64]
    possible_at_end: int  # at the last radius itself, where counterexamples of exactly that size count


def shares(job: StoredJob) -> Shares | None:
    """The shares at every radius when the results of single inputs are here, else at the radii of the question."""
    if job.has_inputs:
        return _by_input(job.result)
    tallies = [t for t in job.tallies if t.radius > 0]
    if not tallies:
        return None
    possible = [job.correct, *(job.correct - t.attacked for t in tallies)]
    return Shares(
        np.array([0.0, *(t.radius for t in tallies)]),
        np.array([t.certified for t in tallies], dtype=np.int64),
        np.array(possible[:-1], dtype=np.int64),
        possible[-1],
    )


def _by_input(result: Certification) -> Shares:
    grid = np.unique(np.append(np.linspace(0, result.radii[-1], _STEPS), result.radii))
    proved = np.sort(result.certified_radius[~result.wrong])
    refuted = np.sort(result.attack_radius[~result.wrong])
    certified = proved.size - np.searchsorted(proved, grid, side="left")  # radius >= epsilon
    possible = refuted.size - np.searchsorted(refuted, grid, side="right")  # counterexample beyond epsilon only
    return Shares(grid, certified[1:].astype(np.int64), possible[:-1].astype(np.int64), int(possible[-1]))


def certified_curve(job: StoredJob) -> Drawing | None:
    """The drawing, or None when there is nothing to draw yet."""
    found = shares(job)
    if found is None or job.count == 0:
        return None
    end = float(found.radii[-1])
    y = Axis(0.0, 1.0, "share of all inputs", tuple((v / 100, f"{v} %") for v in range(0, 101, 20)))
    frame = AxesFrame(from_zero(end, f"radius ε of the change, {job.result.norm}-norm"), y, 66, 426, 12, 250)
    low = [*_steps(frame, found, found.certified / job.count)]
    high = [*_steps(frame, found, found.possible / job.count)]
    shapes = [
        *frame.shapes(),
        Polyline([*low, *reversed(high)], _HATCH, closed=True),
        Polyline([*low, frame.at(end, 0), frame.at(0, 0)], _AREA, closed=True),
        Polyline([*high, frame.at(end, found.possible_at_end / job.count)], _POSSIBLE),
        Polyline(low, _PROVED),
        *_marks(job, frame),
        *_legend(56, frame.bottom + 62),
    ]
    title = "Share of inputs proved robust, against the radius"
    return Drawing("curve", title, _description(job), 440, 370, shapes)


def _steps(frame: AxesFrame, found: Shares, heights: NDArray[np.float64]) -> Iterator[Point]:
    """A staircase; corners between equal heights are left out."""
    starts = np.flatnonzero(np.append(True, np.diff(heights) != 0))
    ends = np.append(starts[1:], heights.size)
    for a, b in zip(starts, ends, strict=True):
        yield frame.at(float(found.radii[a]), float(heights[a]))
        yield frame.at(float(found.radii[b]), float(heights[a]))


def _marks(job: StoredJob, frame: AxesFrame) -> list[Shape]:
    shapes: list[Shape] = []
    for t in job.tallies:
        if t.radius > frame.x.high:
            continue
        possible, where = job.correct - t.attacked, f"radius {plain(t.radius)}: "
        most = f"{where}at most {percent(possible, job.count, ceiling=True)} can be robust"
        least = f"{where}{percent(t.certified, job.count)} proved robust"
        shapes.append(mark("triangle", *frame.at(t.radius, possible / job.count), _TRIANGLE, most))
        shapes.append(mark("circle", *frame.at(t.radius, t.certified / job.count), _CIRCLE, least))
    return shapes


def _legend(x: float, y: float) -> list[Shape]:
    def words(row: int, text: str) -> Text:
        return Text(x + 40, y + 22 * row + 4.5, text, "start")

    def line(row: int, paint: Paint) -> Polyline:
        return Polyline([(x, y + 22 * row), (x + 30, y + 22 * row)], paint)

    return [
        *(line(0, _POSSIBLE), mark("triangle", x + 15, y, _TRIANGLE)),
        words(0, "the most that attacks leave possible"),
        *(Rectangle(x, y + 16, 30, 12, _HATCH), words(1, "undecided: neither proved nor refuted")),
        *(Rectangle(x, y + 44, 30, 6, _AREA), line(2, _PROVED), mark("circle", x + 15, y + 44, _CIRCLE)),
        words(2, "proved robust; marks at the radii that were asked"),
    ]


def _description(job: StoredJob) -> str:
    rows = [
        f"at {plain(t.radius)}: {percent(t.certified, job.count)} proved robust, "
        f"at most {percent(job.correct - t.attacked, job.count, ceiling=True)} possible"
        for t in job.tallies
    ]
    return "The same numbers are in the table beside. " + "; ".join(rows)


_BINS = 20


@dataclass(frozen=True)
class Histogram:
    """counts[k] of the radii lie in [edges[k], edges[k + 1]); the last bin is closed. `asked` is the largest radius
    that was asked, at which a line stands.
    """

    name: str
    title: str
    x_title: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    asked: float
    paint: Paint

    @property
    def rows(self) -> list[tuple[str, int]]:
        """Each bin in words, and its count."""
        edges = [plain(float(f"{edge:.4g}")) for edge in self.edges]
        return [(f"{edges[k]} to {edges[k + 1]}", n) for k, n in enumerate(self.counts)]

    def drawing(self) -> Drawing:
        """Bars, and a line at the radius that was asked."""
        x = from_zero(self.edges[-1], self.x_title)
        y = from_zero(1.05 * max(1, *self.counts), "number of inputs", _whole)
        frame = AxesFrame(x, y, 66, 426, 26, 250)
        shapes = frame.shapes()
        for k, (words, n) in enumerate(self.rows):
            (left, top), (right, bottom) = frame.at(self.edges[k], n), frame.at(self.edges[k + 1], 0)
            hint = f"{words}: {count(n)} inputs"
            shapes.append(Rectangle(left + 0.5, top, right - left - 1, bottom - top, self.paint, hint))
        return Drawing(
            self.name,
            self.title,
            f"{count(sum(self.counts))} inputs in {_BINS} bins; the numbers are in the table below the drawing.",
            440,
            296,
            [*shapes, *self._asked_line(frame)],
        )

    def _asked_line(self, frame: AxesFrame) -> list[Shape]:
        if not 0 < self.asked <= self.edges[-1]:
            return []
        x, bottom = frame.at(self.asked, 0)
        anchor = "end" if self.asked > 0.75 * self.edges[-1] else "start"
        line = Polyline([(x, frame.top - 10), (x, bottom)], Paint(stroke="ink", width=1.2, dash="2 3"))
        return [line, Text(x, frame.top - 14, f"largest ε asked: {plain(self.asked)}", anchor)]


def certified_radii(result: Certification) -> Histogram | None:
    """The radii of the correctly classified inputs; None when there are none."""
    radii = result.certified_radius[~result.wrong]
    if not radii.size:
        return None
    words = ("radii", "Certified radii", f"certified radius, {result.norm}-norm")
    return _histogram(words, result, radii, _end(result), Paint(fill="proof"))


def counterexample_radii(result: Certification) -> Histogram | None:
    """The counterexamples of correctly classified inputs; hatched, so that no colour is needed."""
    radii = result.attack_radius[~result.wrong & np.isfinite(result.attack_radius)]
    if not radii.size:
        return None
    words = ("attacks", "Smallest known counterexamples", f"radius of the counterexample, {result.norm}-norm")
    top = max(_end(result), float(radii.max()))
    return _histogram(words, result, radii, top, Paint(hatch="attack", stroke="soft"))


def _end(result: Certification) -> float:
    """The largest radius that was asked or certified."""
    finite = result.certified_radius[~result.wrong & np.isfinite(result.certified_radius)]
    return max(result.radii[-1], float(finite.max(initial=0.0)))


def _histogram(words: tuple[str, str, str], result: Certification, radii: Array, top: float, paint: Paint) -> Histogram:
    counts, edges = np.histogram(np.minimum(radii, top), bins=_BINS, range=(0.0, top))
    return Histogram(*words, tuple(edges.tolist()), tuple(counts.tolist()), result.radii[-1], paint)


def _whole(value: float) -> str:
    return count(round(value)) if value == round(value) else ""
