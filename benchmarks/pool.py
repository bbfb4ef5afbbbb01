"""Throughput of a job in two processes against one: hr2 of (80,80) networks of the paper, kept in a folder.

    python -m benchmarks.pool [--pieces 24] [--repeats 3]

Processes are started and warm before the clock starts; runs of one and of two alternate. Processor seconds per piece
tell contention (they grow) from waiting (they do not); on a machine that is not quiet both figures are worth little.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from statistics import median
from typing import Any

from lipcert.jobs import JobFolder, Piece, processes, run_pieces
from lipcert.method.bound import bound
from lipcert.paper.entries import paper_network, paper_region


def work(seed: int, region: str) -> dict[str, Any]:
    """One bound; the seconds of processor time it took."""
    start = time.process_time()
    net = paper_network(80, 80, seed % 5)
    result = bound(net, paper_region(80, seed % 5, region), method="hr2", lower=False)
    return {"upper": result.upper, "cpu": time.process_time() - start}


def job(count: int) -> list[Piece]:
    return [Piece(f"net-{i}", work, (i, ("global", "local")[i % 2])) for i in range(count)]


def measure(executor: Executor, pieces: list[Piece]) -> tuple[float, float]:
    """Pieces per second, and processor seconds per piece."""
    with tempfile.TemporaryDirectory() as home, JobFolder.open(Path(home), "benchmark", {}) as folder:
        start = time.perf_counter()
        run = run_pieces(pieces, folder, executor)
        seconds = time.perf_counter() - start
    if run.failures or not run.complete:
        raise SystemExit(f"{run.end.value}; {run.failures}")
    cpu = sum(o.value["cpu"] for o in run.outcomes.values() if o.value is not None)
    return len(pieces) / seconds, cpu / len(pieces)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pieces", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    ratios = []
    with processes(1) as one, processes(2) as two:
        for executor in (one, two):
            run_pieces(job(4), None, executor)
        for _ in range(options.repeats):
            (rate, cpu), (rate_two, cpu_two) = (measure(executor, job(options.pieces)) for executor in (one, two))
            ratios.append(rate_two / rate)
            print(f"one {rate:.2f} pieces/s, {cpu:.2f} s CPU each; two {rate_two:.2f}, {cpu_two:.2f}: {ratios[-1]:.2f}")
    print(f"two against one, median of {len(ratios)} pairs: {median(ratios):.2f}")
    print(f"load {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
