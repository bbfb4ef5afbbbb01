"""reproduce(): train what must be trained, compute every entry in a process of its own, decide, write.

One job folder holds everything: the same folder goes on where it was left, and serves other targets with the entries it
has. The constants of Table 4 and the matrix are a `certify` job inside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lipcert._version import __version__
from lipcert.errors import InputError, SoundnessError
from lipcert.jobs import End, JobFolder, JobProgress, Piece, Run, cluster, isolated, run_pieces, stored_outcomes
from lipcert.paper import trained, training
from lipcert.paper.comparison import Agreement, agreement
from lipcert.paper.entries import TargetEntry
from lipcert.paper.estimators import OURS_SECONDS, Findings, solve_entry
from lipcert.paper.published import EPSILONS, TABLE2_NETWORK
from lipcert.paper.random_reports import figure_report, table1_report
from lipcert.paper.report import Report
from lipcert.paper.targets import FIGURES, NEEDS_IMAGES, KnownOutcomes, in_order, target_entries
from lipcert.paper.trained_reports import matrix_report, table2_report, table3_report, table4_report
from lipcert.problem.network import Network
from lipcert.readers import load
from lipcert.robustness.certify import certify
from lipcert.robustness.result import Certification

QUICK_SECONDS, FULL_SECONDS = 10.0, 300.0
MEMORY = 4.0  # GiB of an entry
_LEAST_MEMORY = 0.5
_PAIR_SECONDS = 60.0

OnProgress = Callable[[str, JobProgress | None], None]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class RunOptions:
    """How to run: limits for each entry (GiB, seconds), processes or a cluster."""

    quick: bool = False
    seconds: float = FULL_SECONDS
    memory: float = MEMORY
    workers: int = 1
    scheduler: str | None = None

    def check(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise InputError(f"the time limit must be a positive number of seconds, not {self.seconds:g}")
        if not _LEAST_MEMORY <= self.memory < float("inf"):
            raise InputError(f"the memory limit must be at least {_LEAST_MEMORY:g} GiB, not {self.memory:g}")

    def question(self) -> dict[str, Any]:
        """Everything that all entries of the folder depend on; the rest is in the entries' names."""
        limits = {"time_limit": self.seconds, "memory_limit": self.memory, "ours_seconds": list(OURS_SECONDS)}
        return {**limits, "version": __version__}

    def executor(self, *, timed: bool) -> Executor:
        """For entries with their limit, or for what they need. Solvers keep the limit by themselves; the last step and
        the proof come on top.
        """
        if self.scheduler is not None:
            return cluster(self.scheduler)
        seconds = 1.25 * self.seconds + 20 if timed else None
        return isolated(self.workers, memory=int(self.memory * 2**30), seconds=seconds, fresh=False)


@dataclass(frozen=True)
class Reproduction:
    """The files written, the targets that could not run, and how the entries of one hidden layer compare."""

    folder: Path
    files: tuple[Path, ...]
    lines: tuple[tuple[str, str], ...]  # target -> a line about it
    skipped: tuple[tuple[str, str], ...]  # target -> why
    failed: tuple[tuple[str, str], ...]
    one_layer: Agreement
    complete: bool
    resumed: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "files": [path.name for path in self.files],
            "lines": [{"target": t, "line": line} for t, line in self.lines],
            "skipped": [{"target": t, "why": why} for t, why in self.skipped],
            "failed": [{"cell": name, "error": error} for name, error in self.failed],
            "one_hidden_layer": self.one_layer.to_dict(),
            "complete": self.complete,
            "resumed": self.resumed,
            "notes": list(self.notes),
        }


def reproduce(
    targets: Sequence[str],
    out: str | Path,
    files: trained.Files,
    options: RunOptions,
    on_progress: OnProgress | None = None,
) -> Reproduction:
    """Compute the targets into the folder `out`; what it has already is not computed again."""
    options.check()
    missing = [t for t in targets if t in NEEDS_IMAGES and not files.covers(t) and not training.available()]
    wanted = [t for t in targets if t not in missing]
    with JobFolder.open(out, "reproduce", options.question(), resume=True) as folder:
        job = _Reproduction(folder, options, files, on_progress)
        reports = job.run(wanted)
    written = [path for report in reports for path in report.write(folder.path)]
    rows = [row for report in reports for row in report.rows if row.layers == 1]
    return Reproduction(
        folder.path,
        tuple(written),
        tuple((report.target, line) for report in reports for line in report.lines),
        (*((t, training.MISSING) for t in missing), *job.skipped.items()),
        tuple(job.failed.items()),
        agreement(rows),
        job.complete and not job.skipped,
        job.resumed,
        tuple(dict.fromkeys(job.notes)),
    )


class _Reproduction:
    """The mutable side of one call."""

    def __init__(
        self, folder: JobFolder, options: RunOptions, files: trained.Files, on_progress: OnProgress | None
    ) -> None:
        self.folder, self.options, self.files, self.on_progress = folder, options, files, on_progress
        self.complete, self.interrupted = True, False
        self.resumed = 0
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.notes: list[str] = []
        self.networks: dict[str, tuple[Network, float]] = {}

    def run(self, targets: Sequence[str]) -> list[Report]:
        self._train(targets)
        quick = self.options.quick
        entries = {t: target_entries(t, quick) for t in targets}
        if "table2" in targets:
            entries["table2"] = trained.table2_entries(self.files, self._network(trained.DIGITS))
        if "table3" in targets:
            entries["table3"] = trained.table3_entries(self._network(trained.SPHERES))
        every = [entry for own in entries.values() for entry in own]
        unique = {entry.name: entry for entry in (trained.quick_ones(every) if quick else every)}
        pieces = [Piece(entry.name, solve_entry, (entry, self.options.seconds)) for entry in in_order(unique.values())]
        run = self._pieces("entries", pieces, timed=True, settle=KnownOutcomes(unique.values()))
        findings = Findings(unique.values(), run.outcomes)
        reports = []
        for target in targets:
            report = self._report(target, entries[target], findings)
            if report is not None:
                reports.append(report)
            else:
                self.skipped[target] = "not complete" if self.interrupted else "what it needs failed, see pieces/*.log"
        return reports

    def _train(self, targets: Sequence[str]) -> None:
        pieces = trained.training_pieces(targets, self.files)
        run = self._pieces("networks", pieces) if pieces else None
        for name, outcome in run.outcomes.items() if run else ():
            path = outcome.files.get("npz")
            if outcome.value is not None and isinstance(path, Path):
                self.networks[name] = (load(path), float(outcome.value["accuracy"]))

    def _network(self, name: str) -> Network | None:
        return self.networks[name][0] if name in self.networks else None

    def _pieces(
        self, stage: str, pieces: list[Piece], *, timed: bool = False, settle: KnownOutcomes | None = None
    ) -> Run:
        """Outcomes in the folder count also after Ctrl-C. Only entries that ran out of their limits are not retried."""
        if not self.interrupted:
            see = None if self.on_progress is None else partial(self.on_progress, stage)
            with self.options.executor(timed=timed) as executor:
                kept = stored_outcomes(self.folder, pieces, failures=timed)
                run = run_pieces(pieces, self.folder, executor, see, stored=kept, settle=settle)
        else:
            run = Run(stored_outcomes(self.folder, pieces), End.INTERRUPTED, 0)
        for name, error in run.failures.items():
            if error.startswith(SoundnessError.__name__):  # a contradiction is never just a failure
                raise SoundnessError(f"{name}: {error}")
        self.interrupted |= run.end is End.INTERRUPTED
        self.complete &= run.complete
        self.resumed += run.resumed
        self.failed |= run.failures
        self.notes += run.notes
        return run

    def _report(self, target: str, entries: list[TargetEntry], findings: Findings) -> Report | None:
        """The report of a target; None when an outcome that it needs is missing."""
        if target in FIGURES:
            return figure_report(target, entries, findings)
        if target == "table1":
            return table1_report(entries, findings)
        if target == "table2":
            about = self._about(self.files.single or self.files.classifier)
            return table2_report(entries, findings, about) if entries else None
        if target == "table3":
            return self._table3(entries, findings)
        result = self._certify()
        if result is None:
            return None
        given = self.files.classifier is not None
        return (table4_report if target == "table4" else matrix_report)(
            result, self._about(self.files.classifier), given
        )

    def _table3(self, entries: list[TargetEntry], findings: Findings) -> Report | None:
        found = {e.method: findings[e].value for e in entries}
        constants = {method: value for method, value in found.items() if value is not None}
        if trained.SPHERES not in self.networks or not constants:
            return None
        net, accuracy = self.networks[trained.SPHERES]
        points = trained.QUICK_POINTS if self.options.quick else trained.POINTS
        stamp = hashlib.sha256(json.dumps([net.sha256, constants, points], sort_keys=True).encode()).hexdigest()[:12]
        run = self._pieces("table3", [Piece(f"table3-{stamp}", trained.decide_spheres, (net, constants, points))])
        shares = [outcome.value for outcome in run.outcomes.values() if outcome.value is not None]
        return table3_report(entries, findings, shares[0], accuracy) if shares else None

    def _certify(self) -> Certification | None:
        """The 45 constants and the decision, as a job of `certify` inside this one; the second call finds it done."""
        chosen = trained.certifier(self.files, self._network(trained.DIGITS))
        if chosen is None or self.interrupted:
            return None
        net, data = chosen
        kind = "quick" if self.options.quick else "full"
        result = certify(
            net,
            data,
            radius=EPSILONS,
            domain=(0.0, 1.0),
            method="shor" if self.options.quick else "auto",
            time_limit=min(self.options.seconds, _PAIR_SECONDS),
            attacks=False,
            out=str(self.folder.path / f"certify-{kind}-{net.sha256[:8]}-{data.sha256[:8]}"),
            resume=True,
            workers=self.options.workers,
            scheduler=self.options.scheduler,
            on_progress=self.on_progress,
        )
        self.complete &= result.complete
        self.failed |= dict(result.failed)
        return result

    def _about(self, given: Network | None) -> str:
        """Which trained network it is: the one that was given, or the one that was trained."""
        if given is not None:
            paper = given.sha256 == TABLE2_NETWORK
            return "The network of the paper (SDP-NN)." if paper else "The network that was given."
        accuracy = 100 * self.networks[trained.DIGITS][1]
        right = f"{accuracy:.1f} % of 1,000 others right"
        return f"A 784-500-10 network trained here on 4,000 images of MNIST ({right})."
