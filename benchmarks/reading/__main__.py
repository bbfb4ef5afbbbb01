"""How much of what people have is read: python -m benchmarks.reading [torch|from_torch|onnx|sklearn|keras]

    python -m benchmarks.reading torch --only residual

Without a part, all. The exit code is 1 where an expectation fails. `--oracle` compares torch, onnxruntime and onnx's
evaluator with each other, without lipcert. `--files FOLDER` keeps the exported files and uses them again; empty it when
a module or an exporter has changed. Damaged files are read by `python -m benchmarks.fuzz files`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from benchmarks.reading._judge import Row

NEEDS = {
    "torch": ("torch", "onnx", "onnxscript", "onnxruntime"),
    "from_torch": ("torch",),
    "onnx": ("onnx", "onnxruntime"),
    "sklearn": ("sklearn", "skl2onnx", "onnxruntime"),
    "keras": ("keras", "torch", "onnx", "onnxscript", "onnxruntime"),
}
Part = Callable[[Path, str], Iterator[Row]]
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch", "scikit-learn", "skl2onnx", "keras")
GOOD = ("read", "agree", "run once")


def part(name: str, oracle: bool) -> Part:
    """The function that makes the rows of a part."""
    missing = [module for module in NEEDS[name] if find_spec(module) is None]
    if missing:
        names = " ".join("scikit-learn" if m == "sklearn" else m for m in missing)
        raise SystemExit(f"{name}: needs {', '.join(missing)}; pip install {names}")
    if name in ("torch", "from_torch"):
        from benchmarks.reading import torch_modules

        reader = torch_modules.read_exports if name == "torch" else torch_modules.read_modules
        return torch_modules.check_exports if oracle else reader
    if name == "onnx":
        from benchmarks.reading import patterns

        return patterns.check_patterns if oracle else patterns.read_patterns
    from benchmarks.reading import estimators

    return estimators.read_sklearn if name == "sklearn" else estimators.read_keras


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(NEEDS))
    parser.add_argument("--only", default="", help="names or kinds that hold this")
    parser.add_argument("--json", action="store_true", help="rows as JSON, one a line")
    parser.add_argument("--oracle", action="store_true", help="compare the other programs with each other")
    parser.add_argument("--files", type=Path, help="folder for the exported files, which are used again")
    given = parser.parse_args()
    for name in given.parts:
        if name not in NEEDS:
            parser.error(f"unknown part {name!r}; there are {', '.join(NEEDS)}")
    if not given.json:
        print(versions())
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.files or Path(scratch)
        return _read(given.parts or [*NEEDS], folder, given)


def _read(parts: list[str], folder: Path, given: argparse.Namespace) -> int:
    rows: list[Row] = []
    if not given.json:
        print(heading())
    for name in parts:
        for row in part(name, given.oracle)(folder, given.only):
            rows.append(row)
            print(as_json(row) if given.json else line(row), flush=True)
    if not given.json:
        print(*summaries(rows), sep="\n")
    return 0 if all(row.expected for row in rows) else 1


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


if __name__ == "__main__":
    sys.exit(main())
