"""How many inputs have which radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.chart.axes import Frame, from_zero
from lipcert.chart.numbers import count, plain
from lipcert.chart.shapes import Box, Drawing, Line, Paint, Shape, Text
from lipcert.robustness.result import Certification
from lipcert.rounding import Array

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
        frame = Frame(x, y, 66, 426, 26, 250)
        shapes = frame.shapes()
        for k, (words, n) in enumerate(self.rows):
            (left, top), (right, bottom) = frame.at(self.edges[k], n), frame.at(self.edges[k + 1], 0)
            hint = f"{words}: {count(n)} inputs"
            shapes.append(Box(left + 0.5, top, right - left - 1, bottom - top, self.paint, hint))
        return Drawing(
            self.name,
            self.title,
            f"{count(sum(self.counts))} inputs in {_BINS} bins; the numbers are in the table below the drawing.",
            440,
            296,
            [*shapes, *self._asked_line(frame)],
        )

    def _asked_line(self, frame: Frame) -> list[Shape]:
        if not 0 < self.asked <= self.edges[-1]:
            return []
        x, bottom = frame.at(self.asked, 0)
        anchor = "end" if self.asked > 0.75 * self.edges[-1] else "start"
        line = Line([(x, frame.top - 10), (x, bottom)], Paint(stroke="ink", width=1.2, dash="2 3"))
        return [line, Text(x, frame.top - 14, f"largest ε asked: {plain(self.asked)}", anchor)]


def certified_radii(result: Certification) -> Histogram | None:
    """Of the correctly classified inputs; None when there are none."""
    radii = result.certified_radius[~result.wrong]
    if not radii.size:
        return None
    words = ("radii", "Certified radii", f"certified radius, {result.norm}-norm")
    return _histogram(words, result, radii, _end(result), Paint(fill="proof"))


def counterexample_radii(result: Certification) -> Histogram | None:
    """Of the correctly classified inputs that have a counterexample; hatched, so that no colour is needed."""
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
