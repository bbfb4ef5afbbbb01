"""Damaged ONNX files: each is read, or refused by one line, soon and in little memory.

The files are the hand-written graphs, each as one file and with its tensors in a second one, and the exports of torch
that are in the folder. What goes wrong is kept in FOLDER/kept.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.reading._mutants import DATA, Source, mutant, outside, store
from benchmarks.reading.patterns import patterns

SECONDS = 10.0
GOOD = ("read", "read the same", "refused")
KEPT = 100
LARGEST = 50_000  # bytes of a file that is worth damaging


def sources(folder: Path, only: str = "") -> list[Source]:
    """The files to damage."""
    found = []
    for pattern in patterns(only):
        content = pattern.model().SerializeToString()
        found.append(Source(pattern.name, content))
        if pattern.constants and not pattern.edit:
            found.append(outside(pattern.name, content))
    for path in sorted(folder.glob("default/*.onnx")):
        data = path.with_name(path.name + ".data")
        if data.exists() and data.stat().st_size < LARGEST and only in path.stem:
            found.append(Source(f"torch {path.stem}", _renamed(path), data.read_bytes()))
    return found


def _renamed(path: Path) -> bytes:
    """The protobuf of an export, with the file beside it under the name that damaged files have."""
    import onnx

    proto = onnx.load_model(str(path), load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = DATA
    return bytes(proto.SerializeToString())


def fuzz(folder: Path, count: int, seed: int, only: str, *, compare: bool = False) -> int:
    """Read `count` damaged files; prints the counts and what went wrong. 1 where anything did."""
    folder.mkdir(parents=True, exist_ok=True)
    files = sources(folder, only)
    print(f"{count:,} damaged copies of {len(files)} files")
    listed = folder / "sources.json"
    if not any(s.name.startswith("gemm") for s in files):  # the one that is read first
        files += [Source(p.name, p.model().SerializeToString()) for p in patterns("gemm") if p.name == "gemm"]
    store(files, listed)
    outcomes: Counter[str] = Counter()
    slowest: dict[str, Any] = {"seconds": 0.0}
    largest: dict[str, Any] = {"megabytes": 0}
    number = kept = 0
    while number < count:
        before = number
        for row in _worker(listed, folder / "work", seed, number, count, compare):
            number = row["number"] + 1
            outcomes[row["outcome"]] += 1
            slowest = max(slowest, row, key=lambda r: r["seconds"])
            largest = max(largest, row, key=lambda r: r["megabytes"])
            if row["outcome"] not in GOOD:
                kept += 1
                if kept <= KEPT:
                    place = folder / "kept" / f"{row['number']}-{row['outcome'].replace(' ', '-')}"
                    row["source"], row["damage"] = mutant(files, seed, row["number"], place)
                    print(f"! {_which(row)}: {row['message']}", flush=True)
            if number % 1000 == 0:
                print(f"{number:,}: {dict(outcomes)}", flush=True)
        if number == before:
            raise SystemExit(
                "the process that reads the files does not start: python -m benchmarks.reading._fuzz_worker"
            )
    print(", ".join(f"{outcome} {n:,}" for outcome, n in outcomes.most_common()))
    print(f"slowest {slowest['seconds']:.2f} s: {_which(slowest)}")
    print(f"largest {largest['megabytes']:,} MB above the start: {_which(largest)}")
    return 0 if all(outcome in GOOD for outcome in outcomes) else 1


def _which(row: dict[str, Any]) -> str:
    """Which file it was, to be made again with the same seed."""
    return f"number {row.get('number')}, {row.get('damage')} of {row.get('source')}, {row.get('outcome')}"


def _worker(listed: Path, work: Path, seed: int, first: int, last: int, compare: bool) -> Iterator[dict[str, Any]]:
    """The rows of one process until it ends, dies or takes too long over a file."""
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.reading._fuzz_worker", listed, work, seed, first, last, int(compare)]
    process = subprocess.Popen(
        [str(c) for c in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
    number, ended = -1, False
    try:
        while not ended:
            try:  # one file may take ten seconds; starting the process may take longer
                line = lines.get(timeout=SECONDS if number >= 0 else 120.0)
            except queue.Empty:
                line = ""
            if line.startswith("begin "):
                number = int(line.split()[1])
            elif line:
                yield json.loads(line)
                number = -1
            else:
                ended = True
        if number >= 0:
            outcome = "died" if process.poll() is not None else "time"
            row = {"number": number, "outcome": outcome, "message": "", "megabytes": 0}
            yield row | {"seconds": SECONDS if outcome == "time" else 0.0}
    finally:
        process.kill()
        process.wait()


def _forward(stream: Any, lines: queue.SimpleQueue[str]) -> None:
    """Every line of the stream, then an empty one."""
    for line in stream:
        lines.put(line)
    lines.put("")
