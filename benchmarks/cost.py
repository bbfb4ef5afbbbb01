"""Time of a relaxation against the number of hidden neurons, 20 to 1,000, at depths 1, 2, 4 and 8: a CSV and a plot.

python -m benchmarks.cost [--seconds 120] [--method backward] [--csv FILE] [--plot FILE] [--only-plot]

He-normal networks with 30 inputs, a box of radius 0.1, no lower bound. Two times are taken from `bound`: to the first
certified bound of the relaxation, and to the end. The plot needs matplotlib: pip install matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks._measure import ROOT
from benchmarks.large import he_normal
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof import prove_interval

INPUTS, RADIUS = 30, 0.1
NEURONS = (20, 50, 100, 200, 500, 1000)
DEPTHS = (1, 2, 4, 8)
COLUMNS = ("depth", "neurons", "first_seconds", "seconds", "interval", "lower", "upper", "method", "status")
MARKERS = {1: ("o", "-"), 2: ("s", "--"), 4: ("^", "-."), 8: ("D", ":")}


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
    bounds = (prove_interval(Problem.of(net, box)).upper, result.lower, result.upper)
    return dict(zip(COLUMNS, (*row, *bounds, result.method, result.status.name.lower()), strict=True))


def draw(rows: list[dict[str, str]], path: Path, method: str) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        raise SystemExit("the plot needs matplotlib, which is not installed: pip install matplotlib") from None
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lipcert"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.6), constrained_layout=True)
    shades = dict(zip(DEPTHS, ("0.0", "0.25", "0.45", "0.6"), strict=True))
    for depth in DEPTHS:
        own = [r for r in rows if int(r["depth"]) == depth]
        marker, dash = MARKERS[depth]
        neurons = [int(r["neurons"]) for r in own]
        label = f"{depth} hidden layer{'s' if depth > 1 else ''}"
        style: dict[str, Any] = {"color": shades[depth], "marker": marker, "linestyle": dash}
        axes.plot(neurons, [float(r["seconds"]) for r in own], label=label, **style)
        axes.plot(neurons, [float(r["first_seconds"]) for r in own], fillstyle="none", linewidth=0.6, **style)
    axes.set(xscale="log", yscale="log", xlabel="hidden neurons (number)", ylabel="time (seconds)")
    axes.set_title(f"Time of `{method}`: to the end (filled), to its first certified bound (open)", fontsize=10)
    axes.grid(True, which="both", linewidth=0.3, color="0.85")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


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
