"""Rows as a table or as JSON lines, and the sentences that sum them up."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from importlib import metadata

from benchmarks.reading._judge import Row

PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch", "scikit-learn", "skl2onnx", "keras")
GOOD = ("read", "agree", "run once")


def versions() -> str:
    """What everything was made with, in one line."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def heading() -> str:
    return f"{'part':24} {'name':30} {'outcome':12} {'values':>8} {'slopes':>8}  message"


def line(row: Row) -> str:
    """One row; what was not expected starts with an exclamation mark."""
    errors = "".join(f" {'' if e is None else f'{e:.1e}':>8}" for e in (row.values, row.gradients))
    mark = " " if row.expected else "!"
    return f"{row.part:24} {row.name:30.30} {mark}{row.outcome:12}{errors}  {' '.join(row.message.split())[:150]}"


def as_json(row: Row) -> str:
    return json.dumps(dataclasses.asdict(row))


def summaries(rows: Sequence[Row]) -> Iterable[str]:
    """For each part: how many were read of those that should be, by kinds where there are, and how many refused."""
    for part in dict.fromkeys(row.part for row in rows):
        mine = [row for row in rows if row.part == part]
        wanted = [row for row in mine if row.counted]
        good = sum(row.expected and row.outcome in GOOD for row in wanted)
        text = f"{part}: {good} of {len(wanted)} read"
        kinds = dict.fromkeys(row.kind for row in wanted)
        if len(kinds) < len(wanted) and "torch" in part:
            whole = [k for k in kinds if all(row.expected for row in wanted if row.kind == k)]
            text += f", {len(whole)} of {len(kinds)} kinds in full"
        refused = [row for row in mine if not row.counted and row.outcome != "not exported"]
        if refused:
            text += f"; {sum(row.expected for row in refused)} of {len(refused)} refused as they should be"
        unexported = sum(row.outcome == "not exported" for row in mine)
        if unexported:
            text += f"; {unexported} not exported"
        bad = [row.outcome for row in mine if not row.expected]
        if bad:
            text += "; not as expected: " + ", ".join(f"{bad.count(o)} {o}" for o in sorted(set(bad)))
        yield text
