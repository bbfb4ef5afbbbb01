"""Run cases one after another, each in a process of its own with one BLAS thread, and keep their rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import lipcert
from benchmarks._measure import ROOT
from benchmarks._rows import (
    FAILED,
    SKIPPED,
    Measured,
    Row,
    append_rows,
    commit_of_the_code,
    done,
    read_rows,
    setting,
)
from benchmarks.results._case import Case

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def run_cases(
    cases: Sequence[Case],
    out: Path,
    *,
    resume: bool,
    say: Callable[[str], None] = print,
    measure: Callable[[Case, str | None], list[Row]] | None = None,
    jobs: int = 1,
) -> int:
    """Run the cases without rows, append their rows to `out`; returns how many cases failed.

    `measure` takes a case and the commit of the code; it is `rows_of` unless something else is given. So many `jobs`
    run at once.
    """
    measure = measure or rows_of
    if not resume:
        out.unlink(missing_ok=True)
    commit, start, failed = commit_of_the_code(), time.perf_counter(), 0
    known = done(read_rows(out), commit, lipcert.__version__) if resume else set()
    left = [(number, case) for number, case in enumerate(cases, 1) if case.name not in known]
    pool = ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(measure, case, commit): number for number, case in left}
        for ended in as_completed(running):
            rows = ended.result()
            append_rows(out, rows)
            failed += any(row.measured.status == FAILED for row in rows)
            for row in rows:
                say(f"{running[ended]}/{len(cases)} {time.perf_counter() - start:7.1f} s  {summary(row)}")
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def rows_of(case: Case, commit: str | None, module: str = "benchmarks.results", *options: str) -> list[Row]:
    """The rows of one case, measured in a fresh process by a module's verb `one`; one that says why where it cannot."""
    if reason := case.missing():
        return as_rows(case, [Measured(case.name, "", status=SKIPPED, remark=reason)], commit, os.getloadavg()[0])
    command = [sys.executable, "-m", module, "one", case.name, "--commit", commit or "", *options]
    environment = os.environ | dict.fromkeys(THREADS, "1")
    load = os.getloadavg()[0]
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if child.returncode:
        reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        return as_rows(case, [Measured(case.name, "", status=FAILED, remark=reason)], commit, load)
    return [Row.of_line(line) for line in child.stdout.splitlines() if line.startswith("{")]


def as_rows(case: Case, measured: Iterable[Measured], commit: str | None, load: float) -> list[Row]:
    """The measurements of a case, with their setting and time."""
    found = list(measured)
    when, place = datetime.now(UTC).isoformat(timespec="microseconds"), setting(commit)
    after = os.getloadavg()[0]
    return [
        Row(case.name, case.section, part, len(found), when, round(load, 2), round(after, 2), place, one)
        for part, one in enumerate(found, 1)
    ]


def run_here(case: Case, commit: str | None) -> list[Row]:
    """The rows of one case, measured in this process."""
    load = os.getloadavg()[0]
    return as_rows(case, case.run(), commit, load)


def summary(row: Row) -> str:
    """One line for a person who waits."""
    m = row.measured
    if not row.counts:
        return f"{row.case}: {m.status}: {m.remark}"
    lower, upper = ("-" if v is None else f"{v:.7g}" for v in (m.lower, m.upper))
    peer = f"; {m.peer} {'-' if m.peer_value is None else format(m.peer_value, '.7g')}" if m.peer else ""
    cost = f"{m.wall:.2f} s ({m.cpu or 0:.2f} s CPU)" if m.wall is not None else ""
    return f"{row.case} {m.method} [{lower}, {upper}] {m.status} {cost}{peer}"
