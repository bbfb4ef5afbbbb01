"""Write docs/operators.md, the list of all operators that readers know, from the tables of the readers.

python -m scripts.operators_table
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lipcert.readers.graph import Entry
from lipcert.readers.onnx.constants import FOLDED
from lipcert.readers.onnx.operators import DOMAINS, OPERATORS
from lipcert.readers.torch.functions import FUNCTIONS
from lipcert.readers.torch.layers import LAYERS

FILE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEAD = """# Operators

How the readers treat every operator of ONNX and every layer and function of torch. This page is generated from their
tables (`make tables`); a test says when it is out of date.

| | |
|---|---|
| read | as it is, up to the rounding of floating point numbers |
| rewritten | exactly, with other operators: a maximum is a sum and a ReLU |
| left out | with a note in `Network.notes` |
| computed | while reading, where it does not depend on the network's input |
| refused | with one line that says why; an attribute that is not known is refused too |
"""


@dataclass(frozen=True)
class Section:
    """A table of operators with a heading: of each its name, how it is treated, and a few words."""

    title: str
    words: str
    rows: Sequence[tuple[str, str, str]]


def sections() -> list[Section]:
    """All tables, in the order of the file."""
    return [
        Section(
            "ONNX",
            "Any opset: a setting may be an attribute or an input. Functions of the model itself are written out. "
            "Nodes that depend on constants alone are computed while reading.",
            _rows(OPERATORS, sorted({*OPERATORS, *FOLDED}), folded=FOLDED),
        ),
        Section(
            "ONNX, operators of `ai.onnx.ml`",
            "Those that scikit-learn's exporters write.",
            _rows(DOMAINS["ai.onnx.ml"], sorted(DOMAINS["ai.onnx.ml"])),
        ),
        Section(
            "Layers of torch.nn",
            "A module with a forward of its own is followed through it; these are not looked into.",
            _rows(LAYERS, LAYERS),
        ),
        Section(
            "Functions and methods of torch",
            "By name, whether they are called as `torch.relu(x)`, `F.relu(x)` or `x.relu()`.",
            _rows(FUNCTIONS, [name for name in FUNCTIONS if not name.startswith("_")]),
        ),
    ]


def _rows(table: Mapping[str, Entry], names: Iterable[str], folded: Collection[str] = ()) -> list[tuple[str, str, str]]:
    """The rows of these names; `folded` are those that are computed where they depend on constants only."""
    rows = []
    for name in names:
        entry = table.get(name)
        if entry is None:
            rows.append((name, "computed", ""))
        else:
            constant = "; computed where it does not depend on the input" if name in folded else ""
            rows.append((name, entry.how, entry.words + (constant if entry.how == "refused" else "")))
    return rows


def table() -> str:
    """The whole file."""
    parts = [HEAD]
    for section in sections():
        counts = {
            how: sum(row[1] == how for row in section.rows) for how in dict.fromkeys(row[1] for row in section.rows)
        }
        told = ", ".join(f"{count} {how}" for how, count in sorted(counts.items(), key=lambda item: -item[1]))
        parts.append(f"## {section.title}\n\n{section.words} {len(section.rows)} operators: {told}.\n")
        lines = [f"| `{name}` | {how} | {_cell(words)} |" for name, how, words in section.rows]
        parts.append("\n".join(["| operator | | |", "|---|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
