"""docs/limits.md says what the code says, and leaves no limit of a reader or a checker out."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import lipcert
from tests.documents import pages

ROW = re.compile(r"\| .+ \| ([\d,]+) \| `([\w.]+)\.(M[A-Z_]+)` \|")
ROOMS = ("files", "readers", "proof", "robustness.data", "robustness.pairs", "robustness.question")
MODULES = ("polynomial.files", "polynomial.text", "polynomial.expansion")
NOT_LIMITS = {"lipcert.readers.graph.terms.MAX_DENSE"}  # from where on a matrix stays sparse


def _stated() -> dict[str, int]:
    return {
        f"{m[2]}.{m[3]}": int(m[1].replace(",", ""))
        for m in map(ROW.fullmatch, pages.read("limits.md").split("\n"))
        if m
    }


def test_every_row_is_the_constant() -> None:
    stated = _stated()
    assert len(stated) > 40
    for name, value in stated.items():
        module, _, constant = name.rpartition(".")
        assert getattr(importlib.import_module(module), constant) == value, name


def test_every_limit_has_a_row() -> None:
    stated, seen = _stated(), 0
    root = Path(lipcert.__file__).parent
    for info in pkgutil.walk_packages([str(root)], "lipcert."):
        short = info.name.removeprefix("lipcert.")
        if not any(short == room or short.startswith(f"{room}.") for room in (*ROOMS, *MODULES)):
            continue
        source = root / Path(*short.split("."))
        text = (source / "__init__.py" if info.ispkg else source.with_suffix(".py")).read_text(encoding="utf-8")
        for constant in re.findall(r"^((?:MAX|MOST)_[A-Z_]+) = ", text, flags=re.MULTILINE):
            name, seen = f"{info.name}.{constant}", seen + 1
            assert name in stated or name in NOT_LIMITS, f"{name} is not in docs/limits.md"
    assert seen > 30
