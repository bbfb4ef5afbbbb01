"""A mixed-integer solver against enumeration, and on the paper's networks: python -m benchmarks.mixed_integer

    python -m benchmarks.mixed_integer [--part random|paper] [--nets 300] [--norms inf 1] [--seeds 10] [--limit 60]
                                       [--compare tight exact]

Random networks: depths 1 to 3, ReLU and leaky ReLU, boxes of radius 0.1, 1 and 10, norms inf and 1; the optimum that
HiGHS claims beside the enumerated constant. Paper: processor seconds of HiGHS, and its claim beside the upper bounds of
the methods to compare, where there are such methods.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from tests.enumeration import exact_constant

from benchmarks._highs import MixedIntegerSolution, solve_mixed_integer
from benchmarks._mixed_integer_program import formulate
from lipcert import METHODS, Activation, Box, Network, bound
from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.rounding import Array

AGREED = 1e-5
CELLS = (  # hidden layers, size, sparsity, region
    (1, 10, 20, "global"),
    (1, 10, 20, "local"),
    (1, 20, 40, "global"),
    (1, 20, 40, "local"),
    (2, 10, 20, "local"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", type=int, default=300)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--part", choices=("random", "paper", "all"), default="all")
    parser.add_argument("--norms", nargs="+", choices=("inf", "1"), default=["inf", "1"])
    parser.add_argument("--compare", nargs="*", default=["tight", "exact"])
    chosen = parser.parse_args()
    for norm in chosen.norms if chosen.part != "paper" else ():
        _random(Norm(norm), chosen.nets, chosen.limit)
    if chosen.part != "random":
        for cell in CELLS:
            _paper(*cell, chosen.seeds, chosen.limit, [m for m in chosen.compare if m in METHODS])


def _random(norm: Norm, nets: int, limit: float) -> None:
    worst, seconds, missed = 0.0, [], 0
    for seed in range(nets):
        net, box, c = random_case(seed)
        exact = exact_constant(net, box, c, norm)
        start = time.process_time()
        found = solve(net, box, c, norm, limit)
        seconds.append(time.process_time() - start)
        away = max(abs(found.value - exact), abs(found.bound - exact)) / max(exact, 1e-9)
        worst, missed = max(worst, away), missed + (away > AGREED)
    ended = f"norm {norm}: {nets - missed} of {nets} agree to {AGREED:g}, largest difference {worst:.1e}"
    print(f"{ended}; HiGHS median {np.median(seconds):.3f} CPU s, largest {max(seconds):.2f} s", flush=True)


def random_case(seed: int) -> tuple[Network, Box, Array]:
    rng = np.random.default_rng(10_000 + seed)
    depth = 1 + seed % 3
    sizes = [int(rng.integers(1, 6)), *(int(w) for w in rng.integers(2, (12, 7, 5)[depth - 1], size=depth)), 2]
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(sizes)]
    activation = Activation("leaky_relu", 0.2) if seed % 4 == 3 else Activation("relu")
    net = Network.from_weights(weights, [rng.normal(size=m) / 2 for m in sizes[1:]], activation)
    return net, Box(rng.normal(size=sizes[0]), (0.1, 1.0, 10.0)[seed // 3 % 3]), rng.normal(size=2)


def _paper(layers: int, size: int, sparsity: int, region: str, seeds: int, limit: float, proofs: list[str]) -> None:
    seconds, ended, shortfall = [], 0, dict.fromkeys(proofs, 0.0)
    for seed in range(seeds):
        net, box = paper_network(size, sparsity, seed, layers), paper_region(size, seed, region)
        start = time.process_time()
        found = solve(net, box, np.ones(1), INF, limit)
        seconds.append(time.process_time() - start)
        ended += found.bound <= found.value * (1 + AGREED)
        for method in proofs:
            upper = bound(net, box, method=method, time_limit=limit, lower=method == "exact").upper
            if upper < found.value * (1 - AGREED):
                print(f"CONTRADICTION: seed {seed}, {method} proves {upper!r}, HiGHS claims {found.value!r}")
            shortfall[method] = max(shortfall[method], upper / found.value - 1)
    name = f"({size},{size}{',10' if layers == 2 else ''}) s={sparsity} {region}"
    compared = "".join(f", {m} above it by at most {v:.1e}" for m, v in shortfall.items())
    taken = f"median {np.median(seconds):.2f} CPU s, largest {max(seconds):.2f} s"
    print(f"{name:24s} optimal {ended}/{seeds}, HiGHS {taken}{compared}", flush=True)


def solve(net: Network, box: Box, c: Array, norm: Norm, limit: float) -> MixedIntegerSolution:
    return solve_mixed_integer(formulate(Problem.of(net, box, c, norm)).problem, Budget.of_seconds(limit))


if __name__ == "__main__":
    main()
