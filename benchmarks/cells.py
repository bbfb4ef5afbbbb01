"""Constants on cells against samples and enumeration on random networks: python -m benchmarks.cells

    python -m benchmarks.cells [--cells 10000] [--every 10] [--network FILE]

Random networks as in `benchmarks.mixed_integer` (depths 1 to 3, ReLU and leaky ReLU), and as many with smooth
activations; grids and adaptive cells in all three norms, one output and the whole map. Every cell is compared with
40 points of it, one cell in `--every` of a piecewise linear network with the exact constant by enumeration. Every
certificate is verified.
With `--network` the examples of docs/cells.md are timed, in seconds of the processor and of the clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.enumeration import exact_constant, operator

from benchmarks.mixed_integer import random_case
from lipcert import Box, Network, Partition, load, partition
from lipcert.problem.activations import Activation
from lipcert.problem.norms import Norm
from lipcert.proof.file import load_certificate
from lipcert.proof.partition import PartitionCertificate
from lipcert.rounding import Array

SMOOTH = ("tanh", "sigmoid", "gelu", "softplus", "elu", "mish")
NORMS = (Norm("inf"), Norm("2"), Norm("1"), Norm("2", "2"), Norm("inf", "1"), Norm("1", "inf"))
ROOM = 1.0 + 1e-9  # for the rounding of plain floating point


@dataclass
class Tally:
    """Cells compared, cells enumerated, violations, certificates that were not proved."""

    cells: int = 0
    enumerated: int = 0
    wrong: int = 0
    unproved: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--network", help="a file with 3 inputs, such as vdp.onnx")
    given = parser.parse_args()
    if given.network is not None:
        timed(load(given.network))
        return
    tally, seed, start = Tally(), 0, time.process_time()
    while tally.cells < given.cells:
        compare(tally, seed, given.every)
        seed += 1
    print(f"{tally.cells:,} cells of {seed} boxes, {tally.enumerated:,} enumerated, {tally.wrong} violations,")
    print(f"{tally.unproved} certificates not proved, {time.process_time() - start:.0f} s of the processor")


def compare(tally: Tally, seed: int, every: int) -> None:
    """One network in one norm, as a grid or adaptively."""
    net, box, c = random_case(seed)
    smooth = seed % 2 == 1
    if smooth:
        net = Network(net.affines, tuple(Activation(SMOOTH[seed // 2 % len(SMOOTH)]) for _ in net.activations))
    norm = NORMS[seed % len(NORMS)]
    output: dict[str, Any] = {"output": "all", "output_norm": norm.out} if norm.out else {"output": c}
    how: dict[str, Any] = {"cells": 3 if net.inputs < 4 else 2} if seed % 3 else {"gap": 0.1}
    found = partition(net, box, norm=norm.p, **output, **how, max_cells=4096 if seed % 3 else 80)
    weights = np.eye(net.outputs) if norm.out else c
    tally.cells += len(found)
    tally.wrong += int(np.sum(sampled(net, found, norm, weights, seed) > found.upper * ROOM))
    tally.unproved += not found.certificate.verify(net).proved
    if smooth:
        return
    for k in range(0, len(found), every):
        exact = exact_constant(net, Box.from_bounds(found.lo[k], found.hi[k]), weights, norm)
        tally.enumerated += 1
        tally.wrong += not (found.lower[k] <= exact * ROOM + 1e-12 and exact <= found.upper[k] * ROOM)


def sampled(net: Network, found: Partition, norm: Norm, c: Array, seed: int) -> Array:
    """The largest norm at 40 points of every cell."""
    rng, best = np.random.default_rng(seed), np.zeros(len(found))
    for _ in range(40):
        points = rng.uniform(found.lo, found.hi)
        if norm.out is None:
            values = norm.dual.of(np.broadcast_to(net.gradient(points, c), points.shape))
        else:
            rows = np.stack([np.broadcast_to(net.gradient(points, e), points.shape) for e in c], axis=1)
            values = np.array([operator(J, norm) for J in rows])
        best = np.maximum(best, values)
    return best


def timed(net: Network) -> None:
    """The rows of docs/cells.md."""
    box = Box(np.zeros(net.inputs), 1.0)
    questions: tuple[dict[str, Any], ...] = (
        {"cells": 40},
        {"cells": 40, "largest": 0.05},
        {"largest": 0.01},
        {"gap": 0.01},
    )
    for question in questions:
        before, clock = time.process_time(), time.monotonic()
        found = partition(net, box, output=0, time_limit=120.0, **question)
        spent, wall = time.process_time() - before, time.monotonic() - clock
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "cells.npz"
            found.certificate.save(place)
            size, before = place.stat().st_size / 1e6, time.process_time()
            answer = load_certificate(place, PartitionCertificate).verify(net)
        cost = f"{spent:.1f} s CPU, {wall:.1f} s, {size:.2f} MB, verified in {time.process_time() - before:.1f} s CPU"
        print(f"{question}: {len(found):,} cells, {int(found.good.sum()):,} good, largest {found.largest}, {cost}, "
              f"{answer.reason}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
