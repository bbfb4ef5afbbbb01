"""Helpers of all benchmarks: the folders of data, the time and the memory of a child process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """Other people's networks, not part of the project."""
    folder = Path(os.environ.get("LIPCERT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not here; set LIPCERT_DATA to the folder with the networks")
    return folder


@dataclass(frozen=True)
class Run:
    """One child process: wall seconds, peak memory in GB, what it printed."""

    seconds: float
    gigabytes: float
    output: str


def run(arguments: Sequence[str]) -> Run:
    """Run a program to its end; memory is the peak of all children so far, so run the largest last."""
    start = time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return Run(seconds, peak, done.stdout)


def lipcert(*arguments: str) -> Run:
    """The command line in a fresh process."""
    return run([sys.executable, "-m", "lipcert", *arguments])


def reference_folder() -> Path:
    """The published values, not part of the project."""
    folder = Path(os.environ.get("LIPCERT_REFERENCE", ROOT.parent / "shared" / "reference"))
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not here; set LIPCERT_REFERENCE to the folder with the published values")
    return folder


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that do nothing but keep a core busy."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()
