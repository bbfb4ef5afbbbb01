"""Branch and bound to exact answers: small nets of the paper, (40,40), ACAS Xu: python -m benchmarks.branching [PART]

PART is small, forty or acas (all by default). Every row is verified again from its certificate. Seconds are wall clock;
CPU seconds of this process stand beside them, because on a busy machine the first say little.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from benchmarks._measure import data_folder
from lipcert import Box, Network, bound, load, verify
from lipcert.paper.entries import paper_network, paper_region

SMALL = [  # size, sparsity, hidden layers, region
    (10, 20, 1, "global"),
    (10, 20, 1, "local"),
    (20, 40, 1, "global"),
    (20, 40, 1, "local"),
    (10, 20, 2, "local"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", nargs="?", choices=("small", "forty", "acas"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of ACAS Xu; of (40,40) half of it")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    print(f"{'network':30} {'lower':>12} {'upper':>12} {'gap':>8} {'seconds':>8} {'CPU':>7} {'check':>6}  parts")
    if given.part in (None, "small"):
        _small(given.seeds)
    if given.part in (None, "forty"):
        for seed in range(min(given.seeds, 3)):
            net, box = paper_network(40, 80, seed), paper_region(40, seed, "local")
            _row(f"(40,40) local, seed {seed}, 2 %", net, box, None, given.seconds / 2, 0.02, given.workers)
    if given.part in (None, "acas"):
        net = load(data_folder() / "nets" / "ACASXU_experimental_v2a_1_1.nnet")
        _row("ACAS Xu 1_1, half-width 0.05", net, Box(np.zeros(5), 0.05), 0, given.seconds, 0.5, given.workers)


def _small(seeds: int) -> None:
    for size, sparsity, layers, where in SMALL:
        name = f"({size},{size}{',10' if layers == 2 else ''}) {where}"
        times = []
        for seed in range(seeds):
            net, box = paper_network(size, sparsity, seed, layers), paper_region(size, seed, where)
            times.append(_row(f"{name}, seed {seed}", net, box, None, 60.0, 0.0, 1))
        print(f"{name}: median {statistics.median(times):.2f} s, largest {max(times):.2f} s", flush=True)


def _row(name: str, net: Network, box: Box, output: int | None, limit: float, gap: float, workers: int) -> float:
    cpu = time.process_time()
    result = bound(net, box, output=output, method="exact", time_limit=limit, gap=gap, workers=workers)
    cpu, start = time.process_time() - cpu, time.monotonic()
    assert verify(result.certificate, net).proved
    check = time.monotonic() - start
    lower, gap_reached = result.lower or 0.0, result.gap if result.gap is not None else float("inf")
    bracket = f"{lower:12.7f} {result.upper:12.7f} {gap_reached:8.1e}"
    print(f"{name:30} {bracket} {result.seconds:8.2f} {cpu:7.2f} {check:6.2f}  {'; '.join(result.notes)}", flush=True)
    return result.seconds


if __name__ == "__main__":
    main()
