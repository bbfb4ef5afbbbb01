"""A short table of names and values, which all results and verifications show: as text, in a notebook, as a file."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.files import write_bytes, write_json, write_npz


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


class ShownTable(Shown):
    """A result with many numbers, which are saved as arrays or as a table; `to_dict` is its summary."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The numbers by name."""
        raise NotImplementedError

    def csv(self) -> str:
        """The table, one line for each row and the names of the columns above them."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The table as a pandas.DataFrame."""
        try:
            pandas = importlib.import_module("pandas")  # no dependency
        except ImportError:
            raise InputError("to_frame needs pandas, which is not here: pip install pandas, or use save") from None
        return pandas.read_csv(io.StringIO(self.csv()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers as .npz (`arrays`) or .csv (a table), or the summary as .json (`to_dict`)."""
        match Path(path).suffix.lower():
            case ".npz":
                write_npz(path, self.arrays())
            case ".csv":
                write_bytes(path, self.csv().encode())
            case ".json":
                super().save(path)
            case _:
                raise InputError(f"{path}: {self.kind} is saved as .npz, .csv or .json; give the file one of these")
