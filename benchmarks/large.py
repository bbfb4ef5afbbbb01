"""Networks too large for one moment matrix: interval, mixed norms, and what `auto` proves in the time, with memory.

python -m benchmarks.large [--seconds 300] [--memory 75%] [name ...]        each network in a process of its own
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

import lipcert
from benchmarks._measure import ROOT
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof import prove_interval
from lipcert.proof.arithmetic import prove_mixed

NETWORKS: dict[str, tuple[tuple[int, ...], float]] = {
    "784-3000-10": ((784, 3000, 10), 0.1),
    "784-2000-10": ((784, 2000, 10), 0.1),
    "784-1000-1000-10": ((784, 1000, 1000, 10), 0.1),
    "784-1000-1000-10-local": ((784, 1000, 1000, 10), 0.002),
    "50-8x125-10": ((50, *(125,) * 8, 10), 0.1),
    "784-8x1000-10": ((784, *(1000,) * 8, 10), 0.01),
    "conv-3x32x32": ((3, 32, 8, 16), 0.01),
    "conv-3x32x32-local": ((3, 32, 8, 16), 0.002),
}


def he_normal(sizes: tuple[int, ...], seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) * np.sqrt(2 / n) for n, m in zip(sizes, sizes[1:], strict=False)]  # noqa: RUF007
    return Network.from_weights(weights, [0.1 * rng.normal(size=len(w)) for w in weights])


def convolution(rng: np.random.Generator, channels: int, side: int, out: int) -> Matrix:
    """A 4 x 4 convolution of stride 2 and padding 1 as a sparse matrix, for pictures of `channels` x side x side."""
    kernel = rng.normal(size=(out, channels, 4, 4)) * np.sqrt(2 / (channels * 16))
    half = side // 2
    o, y, x, c, i, j = np.meshgrid(*map(np.arange, (out, half, half, channels, 4, 4)), indexing="ij")
    row, column = 2 * y + i - 1, 2 * x + j - 1
    inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
    places = (((o * half + y) * half + x)[inside], ((c * side + row) * side + column)[inside])
    shape = (out * half * half, channels * side * side)
    return sparse.csr_array(sparse.coo_array((kernel[o, c, i, j][inside], places), shape))


def conv_network(channels: int, side: int, first: int, second: int) -> Network:
    rng = np.random.default_rng(0)
    width = second * (side // 4) ** 2
    weights: list[Matrix] = [convolution(rng, channels, side, first), convolution(rng, first, side // 2, second)]
    weights += [rng.normal(size=(100, width)) * np.sqrt(2 / width), rng.normal(size=(10, 100)) * np.sqrt(2 / 100)]
    return Network.from_weights(weights, [0.1 * rng.normal(size=w.shape[0]) for w in weights])


def made(name: str) -> tuple[Network, Box]:
    """The network of that name with its box."""
    sizes, radius = NETWORKS[name]
    net = conv_network(*sizes) if name.startswith("conv") else he_normal(sizes)
    return net, Box(np.random.default_rng(1).uniform(size=net.inputs), radius)


def one(name: str, seconds: float, limit: str) -> None:
    radius = NETWORKS[name][1]
    net, box = made(name)
    c = np.eye(10)[0] - np.eye(10)[1]
    problem = Problem.of(net, box, c)
    interval, mixed = prove_interval(problem).upper, prove_mixed(problem).upper
    start = time.perf_counter()
    result = lipcert.bound(net, box, output=(0, 1), time_limit=seconds, memory=limit)
    spent = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:24s} radius {radius:g}: interval {interval:.5g}, mixed {mixed:.5g}, ", end="")
    print(f"{result.method} {result.upper:.6g}, lower {result.lower:.6g}, ", end="")
    print(f"{spent:.0f} s of {seconds:.0f}, {memory:.2f} GB  {'; '.join(result.notes)}", flush=True)


def main(arguments: list[str]) -> None:
    given = {"--seconds": "300", "--memory": "75%"}
    for option in given:
        if option in arguments:
            at = arguments.index(option)
            given[option] = arguments[at + 1]
            del arguments[at : at + 2]
    names = arguments or list(NETWORKS)
    if len(names) == 1:
        one(names[0], float(given["--seconds"]), given["--memory"])
        return
    for name in names:
        options = [part for pair in given.items() for part in pair]
        command = [sys.executable, "-m", "benchmarks.large", *options, name]
        subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
