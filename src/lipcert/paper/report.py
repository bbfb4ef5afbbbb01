"""The files of a target: CSV files for machines, a page of Markdown for people, a plot.

The page is made from the records of the CSV files and from a few facts about the run in TARGET.json, so that it can be
made again from these files.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lipcert.chart.lines import Look, Panel, Quartiles, line_chart
from lipcert.chart.render import document
from lipcert.files import text_of, write_bytes
from lipcert.paper.comparison import NOTHING_COMPARED, Comparison, ComparisonRow
from lipcert.paper.estimators import Estimate

Value = str | int | float | None
Record = Mapping[str, Value]  # a line of a CSV file: column -> value
Tables = Mapping[str, Sequence[Record]]  # file stem -> lines

LOOKS = {
    "LBS": Look("#000000", "1 4", "plus", hollow=True),
    "SHOR": Look("#8c8c8c", "8 4", "square", hollow=True),
    "HR-1": Look("#9a6b00", "3 3", "triangle-down", hollow=True),
    "HR-2": Look("#0b5394", "12 4 2 4", "triangle"),
    "LipOpt-3": Look("#b45f06", "6 3 1 3", "diamond", hollow=True),
    "LipOpt-4": Look("#6a329f", "2 2 8 2", "cross", hollow=True),
    "ours": Look("#a61c00", "", "circle"),
    "computed": Look("#a61c00", "", "circle"),
    "published": Look("#444444", "2 5", "square", hollow=True),
    "as published": Look("#444444", "", "ring", hollow=True, width=0.0),  # around our own, not joined
}


@dataclass(frozen=True)
class Report:
    """The contents of the files of one target, and the lines to print about it."""

    target: str
    title: str
    paragraphs: Sequence[str]  # and tables, in Markdown
    tables: Tables
    plot: str
    lines: Sequence[str]
    rows: Sequence[ComparisonRow] = ()  # rows that the agreement counts
    facts: Record = field(default_factory=dict)  # statements of the page besides its tables

    @property
    def markdown(self) -> str:
        return page(self.target, self.title, self.paragraphs)

    def write(self, folder: Path) -> list[Path]:
        """TARGET.md, TARGET.csv (and more tables), TARGET.svg, and TARGET.json where there are facts."""
        contents = {f"{self.target}.md": self.markdown, f"{self.target}.svg": self.plot}
        contents |= {f"{self.target}.json": json.dumps(self.facts, indent=1) + "\n"} if self.facts else {}
        contents |= {f"{stem}.csv": as_csv(records) for stem, records in self.tables.items()}
        for name, content in sorted(contents.items()):
            write_bytes(folder / name, content.encode("utf-8"))
        return [folder / name for name in sorted(contents)]


def page(target: str, title: str, paragraphs: Sequence[str]) -> str:
    """The Markdown of a target, below its plot."""
    return "\n\n".join([f"# {title}", f"![{title}]({target}.svg)", *paragraphs]) + "\n"


def drawing(title: str, panels: Sequence[Panel]) -> str:
    """An SVG file of line charts, each method with its own look."""
    return document(line_chart(title, panels, LOOKS))


def as_csv(records: Sequence[Record]) -> str:
    """The names of the columns, then a line for each record; None is left empty."""
    stream = io.StringIO()
    if records:
        writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return stream.getvalue()


def read_csv(path: Path) -> list[Record]:
    """The records of such a file; an empty place is None, and what looks like a number is one."""
    records = csv.DictReader(io.StringIO(text_of(path)))
    return [{key: _value(text) for key, text in record.items()} for record in records]


def _value(text: str) -> Value:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def estimate_record(estimate: Estimate) -> Record:
    """The columns that the CSV files of all tables have."""
    bounds = {"value": estimate.value, "upper": estimate.upper, "lower": estimate.lower, "floor": estimate.floor}
    return {**bounds, "word": estimate.ended, "seconds": estimate.seconds}


def printed_agreement(records: Sequence[Record]) -> str:
    """How printed numbers compare, from the verdicts of a table's lines."""
    count = Counter(str(r["verdict"]) for r in records if r["verdict"])
    said = ", ".join(v.of(count[v.value]) for v in Comparison if count[v.value])
    return f"of {count.total()} printed numbers {said}" if count else NOTHING_COMPARED


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """A Markdown table of rows (head -> text); a bar inside a text would end its column."""
    texts = [[*rows[0]], *([text.replace("|", "/") for text in row.values()] for row in rows)] if rows else []
    lines = ["| " + " | ".join(each) + " |" for each in texts]
    lines[1:1] = ["|" + "---|" * len(texts[0])] if rows else []
    return "\n".join(lines)


def number(value: Value, digits: int = 4) -> str:
    """A measured number, a word, or nothing."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}f}"


def seconds(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"


def spread(values: Quartiles | None, words: str) -> str:
    """The median with its quartiles, and what did not finish."""
    if values is None:
        return words or "-"
    middle = f"{values.median:.4f} [{values.low:.4f}, {values.high:.4f}]"
    return f"{middle} ({words})" if words else middle
