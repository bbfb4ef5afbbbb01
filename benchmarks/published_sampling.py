"""The published global LBS of every cell against ours, with the paper's own points.

python -m benchmarks.published_sampling

Needs the tables in ../shared/reference (or LIPCERT_REFERENCE).
"""

from __future__ import annotations

import csv
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from lipcert.paper.networks import paper_network, paper_samples
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.witness import sample_points

FOLDER = Path(os.environ.get("LIPCERT_REFERENCE", Path(__file__).parents[2] / "shared" / "reference"))
TABLES = {"one_hidden_layer.csv": 1, "two_hidden_layers.csv": 2}


def main() -> None:
    print(f"{'layers':>6} {'size':>5} {'sparsity':>8} {'cells':>5} {'largest difference':>18} {'seconds':>8}")
    worst, cells = 0.0, 0
    for name, layers in TABLES.items():
        if not (FOLDER / name).exists():
            print(f"{FOLDER / name} is not there: set LIPCERT_REFERENCE to its folder")
            continue
        for (size, sparsity), published in _groups(FOLDER / name).items():
            start = time.monotonic()
            gaps = [abs(_sampled(size, sparsity, seed, layers) - value) for seed, value in published]
            worst, cells = max(worst, *gaps), cells + len(gaps)
            seconds = time.monotonic() - start
            print(f"{layers:>6} {size:>5} {sparsity:>8} {len(gaps):>5} {max(gaps):>18.1e} {seconds:>8.1f}", flush=True)
    print(f"{cells} cells, largest difference {worst:.1e} (the published values have six decimals)")


def _groups(path: Path) -> dict[tuple[int, int], list[tuple[int, float]]]:
    groups: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    with path.open() as file:
        for r in csv.DictReader(file):
            if (r["method"], r["region"]) == ("LBS", "global"):
                groups[int(r["size"]), int(r["sparsity"])].append((int(r["seed"]), float(r["bound"])))
    return groups


def _sampled(size: int, sparsity: int, seed: int, layers: int) -> float:
    net = paper_network(size, sparsity, seed, layers)
    return sample_points(Problem.of(net, Everywhere(), np.ones(1)), paper_samples(size, seed, layers)).value


if __name__ == "__main__":
    main()
