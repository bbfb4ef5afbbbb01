"""How much of what people have is read: python -m benchmarks.reading [torch|from_torch|onnx|sklearn|keras]

    python -m benchmarks.reading torch --only residual

Without a part, all. The exit code is 1 where an expectation fails. `--oracle` compares torch, onnxruntime and onnx's
evaluator with each other, without lipcert. `--files FOLDER` keeps the exported files and uses them again; empty it when
a module or an exporter has changed. Damaged files are read by `python -m benchmarks.fuzz files`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.reading._judge import Row
from benchmarks.reading._table import as_json, heading, line, summaries, versions

NEEDS = {
    "torch": ("torch", "onnx", "onnxscript", "onnxruntime"),
    "from_torch": ("torch",),
    "onnx": ("onnx", "onnxruntime"),
    "sklearn": ("sklearn", "skl2onnx", "onnxruntime"),
    "keras": ("keras", "torch", "onnx", "onnxscript", "onnxruntime"),
}
Part = Callable[[Path, str], Iterator[Row]]


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


if __name__ == "__main__":
    sys.exit(main())
