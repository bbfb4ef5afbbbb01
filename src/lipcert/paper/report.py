"""What a target leaves behind: a CSV for machines, a Markdown table for people, a plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lipcert.files import write_atomically
from lipcert.paper.statistics import Agreement, Quartiles, Row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Text = str | int | float | None


@dataclass(frozen=True)
class Report:
    """The contents of the files of one target, and the lines to print about it."""

    target: str
    markdown: str
    tables: tuple[tuple[str, tuple[tuple[Text, ...], ...]], ...]  # file stem -> rows, the first one the heads
    plot: str
    lines: tuple[str, ...] = field(default=())
    rows: tuple[Row, ...] = field(default=())  # those that the agreement counts

    def write(self, folder: Path) -> list[Path]:
        """TARGET.md, TARGET.csv (and more tables), TARGET.svg."""
        contents = {f"{self.target}.md": self.markdown, f"{self.target}.svg": self.plot}
        contents |= {f"{stem}.csv": as_csv(rows) for stem, rows in self.tables}
        for name, content in sorted(contents.items()):
            write_atomically(folder / name, partial(_put, content.encode("utf-8")))
        return [folder / name for name in sorted(contents)]


def _put(data: bytes, file: IO[bytes]) -> None:
    file.write(data)


def as_csv(rows: Sequence[Sequence[Text]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([["" if v is None else v for v in row] for row in rows])
    return stream.getvalue()


def records(rows: Sequence[DataclassInstance]) -> tuple[tuple[Text, ...], ...]:
    """Dataclasses as a table: the names of their fields, then their values."""
    if not rows:
        return ()
    return (tuple(f.name for f in fields(rows[0])), *(astuple(row) for row in rows))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell would end it."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value: float | str | None, digits: int = 4) -> str:
    """A measured number, a word, or nothing."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}f}"


def seconds(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"


def spread(values: Quartiles | None, words: str) -> str:
    """The median with its quartiles, and what did not finish."""
    if values is None:
        return words or "-"
    middle = f"{values.median:.4f} [{values.low:.4f}, {values.high:.4f}]"
    return f"{middle} ({words})" if words else middle


def summary(agreement: Agreement) -> str:
    return f"Medians with a published counterpart: {agreement}."
