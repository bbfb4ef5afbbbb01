"""Lower bounds on real and regenerated networks: values, seconds, memory: python -m benchmarks.lower_bounds

The SDP-NN rows need ../shared/data (or LIPCERT_DATA) and are left out, saying so, where it is not there.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from lipcert.budget import Budget
from lipcert.paper.networks import paper_network, paper_region
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Everywhere, Region
from lipcert.rounding import Array
from lipcert.witness import Witness, sampling, search

DATA = Path(os.environ.get("LIPCERT_DATA", Path(__file__).parents[2] / "shared" / "data"))

Case = tuple[str, str, Callable[[], Witness]]


def main() -> None:
    print(f"{'instance':34} {'target':>12} {'value':>11} {'seconds':>8} {'peak MB':>8}  method")
    for name, target, run in [*_sdp_nn(), *_trained(), *_small()]:
        start = time.monotonic()
        witness = run()
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name:34} {target:>12} {witness.value:11.6f} {seconds:8.2f} {peak:8.0f}  {witness.method}", flush=True)


def _search(net: Network, region: Region, c: Array, seconds: float) -> Callable[[], Witness]:
    return lambda: search(Problem.of(net, region, c), Budget.of_seconds(seconds))


def _sdp_nn() -> Iterator[Case]:
    path = DATA / "sdp_nn" / "sdp_nn_paper.mat"
    if not path.exists():
        print(f"{path} is not there: set LIPCERT_DATA to its folder")
        return
    m = loadmat(path)
    net = Network.from_weights([m["A"], m["c"].T], [m["b"].ravel(), np.zeros(1)])
    center, c = m["x00"].ravel(), np.ones(1)
    yield "SDP-NN paper, radius 0.1", "9.45 in 15 s", _search(net, Box(center, 0.1), c, 15.0)
    yield "SDP-NN paper, radius 10", "15.1 in 30 s", _search(net, Box(center, 10.0), c, 30.0)


def _trained() -> Iterator[Case]:
    path = DATA / "sdp_nn" / "sdp_nn_rsl18a.npz"
    if not path.exists():
        print(f"{path} is not there: set LIPCERT_DATA to its folder")
        return
    with np.load(path) as z:
        net = Network.from_weights([z["W1"], z["W2"]], [z["b1"], z["b2"]])
    c = np.zeros(10)
    c[3], c[7] = 1.0, -1.0
    box = Box(np.full(784, 0.5), 0.5)
    yield (
        "SDP-NN rsl18a 3-7, 50,000 samples",
        "5 s, 1.5 GB",
        lambda: sampling(Problem.of(net, box, c), Budget.unlimited()),
    )
    yield "SDP-NN rsl18a 3-7, search", "-", _search(net, box, c, 15.0)


def _small() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    shape = (64, 32, 10)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in pairwise(shape)]
    easy = Network.from_weights(weights, [rng.normal(size=m) for m in shape[1:]])
    c = np.eye(10)[0]
    yield "64-32-10, radius 0.5", "1 s", _search(easy, Box(np.zeros(64), 0.5), c, 30.0)
    yield "64-32-10, everywhere", "1 s", _search(easy, Everywhere(), c, 30.0)
    for layers in (1, 2):
        for size in (10, 20, 40, 80):
            for region in ("local", "global"):
                net = paper_network(size, min(2 * size, 80), 0, layers)
                name = f"paper ({size},{size}{',10' if layers == 2 else ''}) {region}"
                yield name, "-", _search(net, paper_region(size, 0, region), np.ones(1), 30.0)


if __name__ == "__main__":
    main()
