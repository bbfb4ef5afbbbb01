"""Any depth and cuts: bounds against exact, HR-2, and the strongest published figures; real networks.

python -m benchmarks.depth_and_cuts [small|cells|large|two|literal|real ...]
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
from pathlib import Path

import numpy as np

import lipcert
from benchmarks._measure import data_folder, reference_folder
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.network import Network
from lipcert.problem.output import OutputChoice
from lipcert.problem.region import Box


def line(
    name: str, net: Network, box: Box, output: OutputChoice, seconds: float, known: str, method: str = "tight"
) -> None:
    start = time.perf_counter()
    result = lipcert.bound(net, box, output=output, method=method, time_limit=seconds)
    gap = "-" if result.gap is None else f"{100 * result.gap:.2f} %"
    spent = time.perf_counter() - start
    print(f"{name:34s} [{result.lower:.6g}, {result.upper:.6g}] gap {gap}, {result.method}, {spent:.1f} s   {known}")


def small() -> None:
    """Ten (10,10) networks, s = 20: HR-2 and tight over the best lower bound, which is exact on these."""
    for region in ("local", "global"):
        ratios: dict[str, list[float]] = {"hr2": [], "tight": []}
        for seed in range(10):
            net, box = paper_network(10, 20, seed), paper_region(10, seed, region)
            lower = lipcert.bound(net, box, method="interval", time_limit=5).lower or np.nan
            for method, values in ratios.items():
                values.append(lipcert.bound(net, box, method=method, time_limit=30, lower=False).upper / lower)
        means = ", ".join(f"{m} {np.mean(v):.6f} (largest {np.max(v):.6f})" for m, v in ratios.items())
        print(f"(10,10) s=20 {region}: mean upper/lower {means}")


def cells() -> None:
    """Every network of size 10 and 20 that the paper has: tight against the smaller of published HR-2 and LipOpt-3."""
    with open(reference_folder() / "one_hidden_layer.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["size"] in ("10", "20") and r["method"] in ("HR-2", "LipOpt-3")]
    published: dict[tuple[str, int, int, int], float] = {}
    for r in rows:
        key = (r["region"], int(r["size"]), int(r["sparsity"]), int(r["seed"]))
        published[key] = min(published.get(key, np.inf), float(r["bound"]))
    over, seconds = [], []
    for (region, size, sparsity, seed), least in sorted(published.items()):
        start = time.perf_counter()
        net, box = paper_network(size, sparsity, seed), paper_region(size, seed, region)
        upper = lipcert.bound(net, box, method="tight", time_limit=60, lower=False).upper
        seconds.append(time.perf_counter() - start)
        over.append(upper - least)
        if over[-1] > 1e-4:
            print(
                f"  {region} ({size},{size}) s={sparsity} seed {seed}: {upper:.6f}, published {least:.6f}", flush=True
            )
    low = sum(d <= 1e-4 for d in over)
    print(
        f"{low} of {len(over)} cells at most min(HR-2, LipOpt-3) + 1e-4; largest difference {max(over):+.1e}, "
        f"median {np.median(over):+.1e}; {np.median(seconds):.2f} s median, {max(seconds):.1f} s largest"
    )


def large() -> None:
    """(80,80), s = 80, seeds 0 to 4: how far below HR-2."""
    for region in ("local", "global"):
        for seed in range(5):
            net, box = paper_network(80, 80, seed), paper_region(80, seed, region)
            hr2 = lipcert.bound(net, box, method="hr2", time_limit=30, lower=False).upper
            start = time.perf_counter()
            tight = lipcert.bound(net, box, method="tight", time_limit=120)
            print(
                f"(80,80) s=80 seed {seed} {region}: hr2 {hr2:.5f}, tight {tight.upper:.5f} "
                f"({100 * (1 - tight.upper / hr2):.1f} % below), lower {tight.lower:.5f}, "
                f"{time.perf_counter() - start:.0f} s"
            )


def two() -> None:
    """The paper's (40,40,10), seed 0."""
    published = {20: "0.317, LipOpt-3 0.562", 40: "0.713, 1.679", 60: "0.989, 3.006", 80: "1.052, 3.571"}
    for s, known in published.items():
        net = paper_network(40, s, 0, hidden_layers=2)
        for region in ("global", "local"):
            box = paper_region(40, 0, region)
            line(f"(40,40,10) s={s} {region}", net, box, None, 120, f"GeoLIP {known}" if region == "global" else "")


def literal() -> None:
    """The paper's own estimators on the local (40,40,10) networks of `two`."""
    for s in (20, 40, 60, 80):
        net, box = paper_network(40, s, 0, hidden_layers=2), paper_region(40, 0, "local")
        for method in ("lipopt3", "hr1", "hr2"):
            start = time.perf_counter()
            result = lipcert.bound(net, box, method=method, literal=True, time_limit=200, lower=False)
            spent = time.perf_counter() - start
            print(f"(40,40,10) s={s} local: {result.method} {result.upper:.6g}, {spent:.0f} s, {result.notes[0][:60]}")


def real() -> None:
    """Networks of other hands."""
    data = data_folder()
    image = first_image(data / "mnist" / "t10k-images-idx3-ubyte.gz")
    eran = lipcert.load(data / "nets" / "eran_mnist_relu_3_50.onnx")
    line("ERAN 3_50, radius 0.02", eran, Box(image, 0.02, (0, 1)), (7, 3), 120, "auto_LiRPA 632, known 218")
    acas = lipcert.load(data / "nets" / "ACASXU_experimental_v2a_1_1.nnet")
    for radius, known in ((0.01, ""), (0.02, ""), (0.05, "auto_LiRPA 996, known 0.371")):
        line(f"ACAS Xu 1_1, half-width {radius}", acas, Box(np.zeros(5), radius), 0, 120, known)
    conv = lipcert.load(data / "nets" / "mnist_conv.onnx")
    line("mnist_conv, radius 0.01", conv, Box(image, 0.01, (0, 1)), (7, 3), 300, "auto_LiRPA 12.711, known 12.671")
    net = paper_network(80, 80, 0)
    line("(80,80), radius 0.1", net, paper_region(80, 0, "local"), None, 120, "auto_LiRPA 6.40, known 1.816")
    line("(80,80), radius 10", net, paper_region(80, 0, "global"), None, 120, "auto_LiRPA 8.59, known 2.460")


def first_image(path: Path) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(16 + 784), np.uint8, offset=16) / 255.0


def main() -> None:
    parts = {"small": small, "cells": cells, "large": large, "two": two, "literal": literal, "real": real}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
