"""Write docs/operators.md, the list of all operators that readers know, from the tables of the readers.

python -m scripts.operators_table
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lipcert.readers.onnx.constants import FOLDED
from lipcert.readers.onnx.operation import Entry
from lipcert.readers.onnx.operators import DOMAINS
from lipcert.readers.torch import sections as torch_sections

_TORCH = {
    "Layers of torch.nn": "A module with a forward of its own is followed through it; these are not looked into.",
    "Functions and methods of torch": "By name, whether they are called as `torch.relu(x)`, `F.relu(x)` or `x.relu()`.",
}
FILE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEAD = """# Operators

What becomes of an operator or a layer that a reader meets. This file is generated from the tables of the readers:
`python -m scripts.operators_table` writes it, a test says when it is out of date.

| | |
|---|---|
| read | as it is, up to the rounding of floating point numbers |
| rewritten | exactly, with other operators: a maximum is a sum and a ReLU |
| left out | with a note in `Network.notes` |
| computed | while reading, where nothing depends on the network's input |
| refused | with one line that says why; an attribute that is not known is refused too |
"""


@dataclass(frozen=True)
class Row:
    """One operator: its name, how it is treated, and a few words."""

    name: str
    how: str
    words: str


@dataclass(frozen=True)
class Section:
    """A table of operators with a heading."""

    title: str
    words: str
    rows: Sequence[Row]


def sections() -> list[Section]:
    """All tables, in the order of the file."""
    standard, learnt = DOMAINS.values()
    return [
        Section(
            "ONNX",
            "Any opset: what is an attribute in one and an input in another is understood as either. Functions of the "
            "model itself are written out. What depends on constants only is computed while reading.",
            list(_rows(*standard, folded=FOLDED)),
        ),
        Section("ONNX, operators of `ai.onnx.ml`", "Those that scikit-learn's exporters write.", list(_rows(*learnt))),
        *(Section(title, _TORCH[title], [Row(*row) for row in rows]) for title, rows in torch_sections()),
    ]


def _rows(read: Mapping[str, Entry], refused: Mapping[str, str], folded: Collection[str] = ()) -> Iterator[Row]:
    only = set(folded) - set(read) - set(refused)
    for name in sorted({*read, *refused, *only}):
        if name in read:
            yield Row(name, read[name].how, read[name].words)
        elif name in only:
            yield Row(name, "computed", "")
        else:
            constant = "; computed where it does not depend on the input" if name in folded else ""
            yield Row(name, "refused", refused[name] + constant)


def table() -> str:
    """The whole file."""
    parts = [HEAD]
    for section in sections():
        counts = {
            how: sum(row.how == how for row in section.rows) for how in dict.fromkeys(r.how for r in section.rows)
        }
        told = ", ".join(f"{count} {how}" for how, count in sorted(counts.items(), key=lambda item: -item[1]))
        parts.append(f"## {section.title}\n\n{section.words} {len(section.rows)} operators: {told}.\n")
        lines = [f"| `{row.name}` | {row.how} | {_cell(row.words)} |" for row in section.rows]
        parts.append("\n".join(["| operator | | |", "|---|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
