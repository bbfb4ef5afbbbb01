"""The files that a run of `lipcert reproduce` left, as records."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lipcert.paper import report
from lipcert.paper.estimators import NOT_RUN, NOT_TRIED
from lipcert.paper.targets import TARGETS

Record = dict[str, str]
__all__ = ["NOT_RUN", "NOT_TRIED", "Record", "Reproduced", "number"]


@dataclass(frozen=True)
class Reproduced:
    """A folder of a run, or docs/paper."""

    folder: Path

    def read(self, name: str) -> list[Record]:
        """The lines of a CSV file; none where the run has no such file."""
        path = self.folder / f"{name}.csv"
        if not path.is_file():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def tables(self, target: str) -> dict[str, list[report.Record]]:
        """The CSV files of a target, with their numbers."""
        return {p.stem: report.read_csv(p) for p in sorted(self.folder.glob(f"{target}*.csv"))}

    def facts(self, target: str) -> report.Record:
        """The facts about a target on a trained network that are not in its tables."""
        found: report.Record = json.loads((self.folder / f"{target}.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def question(self) -> dict[str, Any]:
        """The limits and the version of the run."""
        told: dict[str, Any] = json.loads((self.folder / "job.json").read_text(encoding="utf-8"))["question"]
        return told

    @cached_property
    def targets(self) -> list[str]:
        return sorted(target for target in TARGETS if (self.folder / f"{target}.csv").is_file())

    @cached_property
    def networks(self) -> list[Record]:
        """Every entry on a random network once, whichever targets show it."""
        found = {}
        for target in self.targets:
            for r in self.read(f"{target}-networks"):
                found[r["network"], r["sparsity"], r["seed"], r["region"], r["method"]] = r
        return [*found.values()]

    @cached_property
    def rows(self) -> list[Record]:
        """Every group of networks with its method, from the figures."""
        return [r for target in self.targets if target.startswith("figure") for r in self.read(target)]


def number(text: str) -> float | None:
    """The number in a place of a CSV file; None for an empty place."""
    return float(text) if text else None
