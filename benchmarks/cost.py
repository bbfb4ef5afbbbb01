"""Time of a relaxation against the number of hidden neurons, 20 to 1,000, at depths 1, 2, 4 and 8: a CSV and a plot.

python -m benchmarks.cost [--seconds 120] [--method backward] [--csv FILE] [--plot FILE] [--only-plot]

He-normal networks with 30 inputs, a box of radius 0.1, no lower bound. Two times are taken from `bound`: to the first
certified bound of the relaxation, and to the end.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from pathlib import Path

import numpy as np

import lipcert
from benchmarks._measure import ROOT
from benchmarks.large import he_normal
from lipcert.chart.lines import Look, Panel, Quartiles, Series, line_chart
from lipcert.chart.svg import document
from lipcert.problem.norms import INF
from lipcert.problem.region import Box
from lipcert.proof import prove_interval

INPUTS, RADIUS = 30, 0.1
NEURONS = (20, 50, 100, 200, 500, 1000)
DEPTHS = (1, 2, 4, 8)
COLUMNS = ("depth", "neurons", "first_seconds", "seconds", "interval", "lower", "upper", "method", "status")
LOOKS = {
    1: Look("#000000", "", "circle"),
    2: Look("#404040", "8 4", "square"),
    4: Look("#737373", "8 3 2 3", "triangle"),
    8: Look("#999999", "2 4", "diamond"),
}


def measure(depth: int, neurons: int, seconds: float, method: str) -> dict[str, object]:
    width = max(1, neurons // depth)
    net = he_normal((INPUTS, *(width,) * depth, 1), seed=depth)
    box = Box(np.random.default_rng(1).uniform(size=INPUTS), RADIUS)
    first: list[float] = []

    def watch(progress: lipcert.Progress) -> None:
        if progress.stage == method and progress.upper < cheap and not first:
            first.append(progress.seconds)

    cheap = lipcert.bound(net, box, method="mixed", time_limit=seconds, lower=False).upper
    start = time.perf_counter()
    result = lipcert.bound(net, box, method=method, time_limit=seconds, lower=False, on_progress=watch)
    spent = time.perf_counter() - start
    row = (depth, depth * width, first[0] if first else float("nan"), spent)
    bounds = (prove_interval(net, box, INF, np.ones(1)).upper, result.lower, result.upper)
    return dict(zip(COLUMNS, (*row, *bounds, result.method, result.status.name.lower()), strict=True))


def draw(rows: list[dict[str, str]], path: Path, method: str) -> None:
    """Time to the end and to the first certified bound, side by side."""
    looks = {f"{depth} hidden layer{'s' if depth > 1 else ''}": look for depth, look in LOOKS.items()}
    panels = []
    for title, column in (("to the end", "seconds"), ("to its first certified bound", "first_seconds")):
        series = []
        for depth, name in zip(LOOKS, looks, strict=True):
            own = [(float(r["neurons"]), float(r[column])) for r in rows if int(r["depth"]) == depth]
            series.append(Series(name, tuple((n, Quartiles.one(s)) for n, s in own if math.isfinite(s))))
        panels.append(Panel(title, "hidden neurons", "time (s)", tuple(series), log=True, log_x=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(line_chart(f"Time of `{method}`", panels, looks)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for each network")
    parser.add_argument("--method", default="backward")
    parser.add_argument("--csv", type=Path, default=ROOT / "docs" / "cost.csv")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "images" / "cost.svg")
    parser.add_argument("--only-plot", action="store_true", help="draw the CSV that is there")
    options = parser.parse_args()
    if not options.only_plot:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            for neurons in NEURONS:
                for depth in DEPTHS:
                    row = measure(depth, neurons, options.seconds, options.method)
                    writer.writerow(row)
                    file.flush()
                    print(*row.values(), flush=True)
    with options.csv.open(newline="", encoding="utf-8") as file:
        draw(list(csv.DictReader(file)), options.plot, options.method)


if __name__ == "__main__":
    main()
