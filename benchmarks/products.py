"""All products of inputs' and neurons' signs on SDP-NN (784,500), through the command line, and pairs that start warm.

python -m benchmarks.products [--seconds 300] [--pairs N]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._measure import data_folder, lipcert
from lipcert import Box, load
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.one_layer import AllProducts
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem


def paper(seconds: float) -> None:
    """The network of the paper, radius 0.1 and 10."""
    file = str(data_folder() / "sdp_nn" / "sdp_nn_paper.mat")
    with tempfile.TemporaryDirectory() as folder:
        proof = str(Path(folder) / "proof.npz")
        for radius in ("0.1", "10"):
            arguments = ["--radius", radius, "--method", "tight", "--no-lower", "--time-limit", str(seconds)]
            run = lipcert("bound", file, "--center", file, *arguments, "--certificate", proof, "--json")
            verified = lipcert("verify", proof, "--network", file, "--json")
            answer, checked = json.loads(run.output), json.loads(verified.output)
            size = Path(proof).stat().st_size / 1e6
            print(
                f"SDP-NN radius {radius:>4s}: {answer['upper']:.6f} in {run.seconds:.1f} s, {run.gigabytes:.2f} GB; "
                f"verified {checked['proved']} in {verified.seconds:.1f} s, file {size:.1f} MB"
            )


def pairs(count: int, seconds: float) -> None:
    """Differences of two scores on [-0.1, 1.1]^784, each from the multipliers of the one before."""
    net = load(data_folder() / "sdp_nn" / "sdp_nn_rsl18a.npz")
    box, products = Box(np.full(net.inputs, 0.5), 0.6), AllProducts()
    for j in range(1, 1 + count):
        c = np.zeros(net.outputs)
        c[0], c[j] = 1.0, -1.0
        _pair(Task.of(Problem.of(net, box, c), "tight"), j, seconds, products)


def _pair(task: Task, j: int, seconds: float, products: AllProducts) -> None:
    bracket, cold = Bracket(), products.start is None
    wall, cpu = time.perf_counter(), time.process_time()
    status = products.advance(task, bracket, Budget.of_seconds(seconds))
    print(
        f"pair (0, {j}): {bracket.upper:.4f} in {time.perf_counter() - wall:.1f} s "
        f"({time.process_time() - cpu:.1f} s CPU), {'cold' if cold else 'warm'}, {status.name}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--pairs", type=int, default=0)
    options = parser.parse_args()
    paper(options.seconds)
    pairs(options.pairs, 80.0)


if __name__ == "__main__":
    main()
