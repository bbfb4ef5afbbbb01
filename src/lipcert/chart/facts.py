"""A short table of names and values, for people: as text, and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipcert.chart.markup import tag


@dataclass(frozen=True)
class Facts:
    """A title, and rows of a name and what there is to say."""

    title: str
    rows: Sequence[tuple[str, str]]

    def text(self) -> str:
        """Aligned, the title first."""
        width = max((len(name) for name, _ in self.rows), default=0)
        return "\n".join([self.title, *(f"  {name.ljust(width)}  {value}" for name, value in self.rows)])

    def html(self) -> str:
        """A table with the title above it; everything escaped."""
        left = "text-align:left"
        rows = [tag("tr", tag("th", name, style=left), tag("td", value, style=left)) for name, value in self.rows]
        return str(tag("div", tag("b", self.title), tag("table", *rows)))
