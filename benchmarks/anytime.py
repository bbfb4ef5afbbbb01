"""The bracket after 1, 3, 10, 30 and 60 s: `auto`, every single method, and what the peer gave.

python -m benchmarks.anytime [--seconds 60] [--methods auto,linear,tight,exact] [--busy 0] [--out FOLDER] [name ...]

One BLAS thread, every run in a process of its own, so the peak of memory is its own too. `--busy N` runs N loops
beside it. Writes anytime.csv and anytime.svg; every certificate is verified.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._measure import ROOT
from benchmarks._networks import CASES, Case

MARKS = (1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0)
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
COLOURS = {"auto": "#c0392b", "linear": "#7f8c8d", "tight": "#2471a3", "exact": "#1e8449", "mixed": "#9a7d0a"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--methods", default="auto,linear,tight,exact")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], given.one[1], given.seconds)))
        return
    cases = [c for c in CASES if not given.names or any(name in c.name for name in given.names)]
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    rows: list[dict[str, Any]] = []
    try:
        for case in cases:
            for method in given.methods.split(","):
                rows.append(in_a_process(case.name, method, given.seconds))
                print(_line(case, rows[-1]), flush=True)
                _write(given.out, rows)
    finally:
        for loop in loops:
            loop.kill()


def in_a_process(name: str, method: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.anytime", "--seconds", str(seconds), "--one", name, method]
    environment = os.environ | dict.fromkeys(THREADS, "1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"network": name, "method": method, "status": reason, "curve": []}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(name: str, method: str, seconds: float) -> dict[str, Any]:
    """One run: the curve of the bracket, the end, and the check of the certificate."""
    import lipcert

    net, region, output, norm = next(c for c in CASES if c.name == name).make()
    curve: list[tuple[float, float | None, float]] = []
    start = time.perf_counter()
    result = lipcert.bound(
        net,
        region,
        output=output,
        norm=norm,
        method=method,
        time_limit=seconds,
        on_progress=lambda p: curve.append((time.perf_counter() - start, p.lower, p.upper)),
    )
    taken = time.perf_counter() - start
    before = time.perf_counter()
    proved = lipcert.verify(result.certificate, net).proved
    return {
        "network": name,
        "method": method,
        "by": result.method,
        "lower": result.lower,
        "upper": result.upper,
        "seconds": taken,
        "work": result.work,
        "status": result.status.name,
        "proved": proved,
        "verify": time.perf_counter() - before,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "curve": [*_thinned(curve), (taken, result.lower, result.upper)],
    }


def _thinned(curve: list[tuple[float, float | None, float]]) -> list[tuple[float, float | None, float]]:
    """The points where something changed."""
    kept: list[tuple[float, float | None, float]] = []
    for point in curve:
        if point[2] < float("inf") and (not kept or point[1:] != kept[-1][1:]):
            kept.append(point)
    return kept


def at(row: dict[str, Any], seconds: float) -> tuple[float | None, float | None]:
    """The bracket after so many seconds."""
    seen = [point for point in row["curve"] if point[0] <= seconds]
    lowers = [point[1] for point in seen if point[1] is not None]
    return (max(lowers) if lowers else None, min((point[2] for point in seen), default=None))


def _line(case: Case, row: dict[str, Any]) -> str:
    if not row["curve"]:
        return f"{case.name:18s} {row['method']:7s} {row['status']}"
    uppers = " ".join(f"{'-' if u is None else format(u, '.6g'):>9s}" for u in (at(row, s)[1] for s in MARKS[:5]))
    known = f"known lower {case.lower}, peer {case.peer}"
    return (
        f"{case.name:18s} {row['method']:7s} {uppers}  [{row['lower']:.7g}, {row['upper']:.7g}] {row['seconds']:.1f} s "
        f"{row['by']} {row['status']} {'proved' if row['proved'] else 'NOT PROVED'} {row['verify']:.1f} s "
        f"{row['gigabytes']:.2f} GB; {known}"
    )


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "anytime.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["network", "method", "seconds", "lower", "upper"])
        for row in rows:
            for seconds in MARKS:
                if row["curve"] and seconds <= max(row["curve"][-1][0], MARKS[0]) * 1.05:
                    writer.writerow([row["network"], row["method"], seconds, *at(row, seconds)])
            if row["curve"]:
                writer.writerow([row["network"], row["method"], round(row["seconds"], 2), row["lower"], row["upper"]])
    (folder / "anytime.svg").write_text(_picture(rows), encoding="utf-8")


def _picture(rows: list[dict[str, Any]]) -> str:
    from lipcert.chart.lines import Look, Panel, Quartiles, Series, line_chart
    from lipcert.chart.render import document

    looks = {m: Look(COLOURS.get(m, "#566573"), "", "circle") for m in {row["method"] for row in rows}}
    looks["auto_LiRPA"] = Look("#566573", "5 4", "square", hollow=True)
    panels = []
    for name in dict.fromkeys(row["network"] for row in rows):
        case = next(c for c in CASES if c.name == name)
        series = []
        for row in (r for r in rows if r["network"] == name and r["curve"]):
            points = {max(p[0], 0.05): Quartiles.one(p[2]) for p in row["curve"]}
            series.append(Series(row["method"], tuple(points.items())))
        if case.peer is not None:
            ends = (0.1, max((r["curve"][-1][0] for r in rows if r["curve"]), default=60.0))
            series.append(Series("auto_LiRPA", tuple((t, Quartiles.one(case.peer)) for t in ends)))
        panels.append(Panel(name, "seconds", "upper bound", tuple(series), log=True, log_x=True))
    return document(line_chart("Upper bounds against time", panels, looks, columns=4))


if __name__ == "__main__":
    main()
