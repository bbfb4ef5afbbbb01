"""A short table of names and values, which all results and verifications show: as text, in a notebook, as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lipcert.files import write_json


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
        from lipcert.chart.markup import tag  # here, so that a checker loads little

        left = "text-align:left"
        rows = [tag("tr", tag("th", name, style=left), tag("td", value, style=left)) for name, value in self.rows]
        return str(tag("div", tag("b", self.title), tag("table", *rows)))


class Shown:
    """Printed, shown in a notebook and saved by `facts` and `to_dict`, which a class of its own defines."""

    kind: ClassVar[str] = "a result"  # for messages

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.facts().text()

    def _repr_html_(self) -> str:
        return self.facts().html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .json."""
        write_json(path, self.to_dict(), self.kind)
