"""The frame that all charts share: a picture with a title and a description, two axes, a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipcert.report.markup import Markup, tag

WIDTH = 440.0  # of the drawing's own units; a phone shows them at about four fifths of their size


def picture(name: str, title: str, description: str, height: float, *parts: Markup) -> Markup:
    """One SVG drawing that says in words what it shows; `name` is unique in the page."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *parts,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        class_="chart",
    )


def hatching(name: str, colour: str) -> Markup:
    """Slanted lines, so that an area is told apart without its colour."""
    line = tag("path", d="M0,6 L6,0 M-1,1 L1,-1 M5,7 L7,5", class_=colour, stroke_width=1.2)
    pattern = tag("pattern", line, id=name, width=6, height=6, patternUnits="userSpaceOnUse")
    return tag("defs", pattern)


def text(x: float, y: float, content: str, anchor: str = "middle", **attributes: str | float | None) -> Markup:
    return tag("text", content, x=x, y=y, text_anchor=anchor, **attributes)


@dataclass(frozen=True)
class Frame:
    """The rectangle between two axes, and where a pair of values lies in it."""

    x_top: float
    y_top: float
    left: float = 56.0
    right: float = WIDTH - 14
    top: float = 12.0
    bottom: float = 250.0

    @property
    def height(self) -> float:
        return self.bottom + 46

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * value / self.x_top

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / self.y_top

    def axes(
        self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]], x_title: str, y_title: str
    ) -> Markup:
        """Grid lines, numbers and names of both axes."""
        middle = (self.top + self.bottom) / 2
        parts = [
            tag("line", x1=self.left, x2=self.right, y1=self.y(v), y2=self.y(v), class_="axis" if v == 0 else "grid")
            for v, _ in y_ticks
        ]
        parts += [
            tag("line", x1=self.x(v), x2=self.x(v), y1=self.bottom, y2=self.bottom + 5, class_="axis")
            for v, _ in x_ticks
        ]
        parts += [text(self.left - 6, self.y(v) + 4.5, label, "end") for v, label in y_ticks]
        parts += [text(self.x(v), self.bottom + 19, label) for v, label in x_ticks]
        parts.append(text((self.left + self.right) / 2, self.bottom + 39, x_title, class_="name"))
        parts.append(text(13, middle, y_title, transform=f"rotate(-90 13 {middle:g})", class_="name"))
        return tag("g", *parts)
