"""An attack on soundness: random small networks, every norm, branches, leaky, smooth and falling activations, sums.

python -m benchmarks.attack [--count 100000] [--first 0] [--enumerate 50] [--deep 20]

Every bound is compared with the largest gradient at many points, every N-th (`--enumerate`) with the enumeration of all
patterns, and every certificate is checked again. Cheap methods run on all, methods with a search on every N-th
(`--deep`). Prints what it counted; exit code 1 when a bound was too small or a certificate not proved.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np
from tests.enumeration import exact_constant, operator

import lipcert
from lipcert import Activation, Ball, Box, Everywhere, Network
from lipcert.problem.network import Block
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.arithmetic import prove_interval, prove_linear, prove_mixed, prove_product
from lipcert.rounding import Array

KINKED = ("relu", "relu", "relu", "leaky_relu", "identity")
BUMPED = ("gelu", "gelu_tanh", "silu", "mish", "hardswish")
ALL = (*KINKED, *BUMPED, "relu", "elu", "softplus", "sigmoid", "tanh", "softsign", "erf")
LIFTS = ("forward", "both", "forward-free", "both-free")  # besides what `tight` solves, in turns
POINTS = 120


def network(rng: np.random.Generator) -> Network:
    """One to four blocks of up to five neurons that read one or several of those before them."""
    kinds = ALL if rng.uniform() < 0.6 else KINKED
    count, branches = int(rng.integers(1, 5)), rng.uniform() < 0.4
    widths = [int(rng.integers(1, 5))]
    scale = 10.0 ** rng.uniform(-1.5, 1.0)
    blocks = []
    for i in range(1, count + 2):
        last = i == count + 1
        width = int(rng.integers(1, 4 if last else 6))
        sources = {i - 1} | ({int(j) for j in range(i) if rng.uniform() < 0.4} if branches else set())
        terms = tuple((j, _weight(rng, width, widths[j], scale)) for j in sorted(sources))
        kind = Activation("identity") if last else Activation(str(rng.choice(kinds)), float(rng.choice((0.01, 0.3))))
        blocks.append(Block(terms, rng.normal(size=width) * rng.choice((0.0, 0.5)), kind))
        widths.append(width)
    return Network.from_blocks(blocks)


def _weight(rng: np.random.Generator, m: int, n: int, scale: float) -> Array:
    weight = rng.normal(size=(m, n)) * scale
    if rng.uniform() < 0.3:
        weight *= rng.uniform(size=(m, n)) < 0.6
    if m > 1 and rng.uniform() < 0.15:
        weight[-1] = weight[0]
    if rng.uniform() < 0.1:
        weight = np.round(weight)  # ties and exact zeros
    return weight


def region_of(rng: np.random.Generator, inputs: int) -> Region:
    center, radius = rng.normal(size=inputs), 10.0 ** rng.uniform(-2, 1)
    match rng.integers(6):
        case 0:
            return Everywhere()
        case 1:
            return Ball(center, radius)
        case 2:
            return Box(center, radius * (rng.uniform(size=inputs) < 0.7))  # flat in some coordinates
        case _:
            return Box(center, radius)


def points_of(rng: np.random.Generator, region: Region, inputs: int) -> Array:
    draws = rng.uniform(-1, 1, size=(POINTS, inputs))
    draws[: POINTS // 4] = np.sign(draws[: POINTS // 4])
    if isinstance(region, Box):
        return region.lo + (draws + 1) / 2 * (region.hi - region.lo)
    if isinstance(region, Ball):
        lengths = np.maximum(np.linalg.norm(draws, axis=1, keepdims=True), 1.0)
        return np.asarray(region.center + region.radius * (1 - 1e-12) * draws / lengths)
    return np.asarray(draws * 10.0 ** rng.uniform(-1, 3, size=(POINTS, 1)))


def largest_seen(problem: Problem, points: Array) -> float:
    net = problem.network
    if not problem.whole_map:
        return float(problem.norm.dual.of(net.gradient(points, problem.c)).max())
    rows = np.stack([net.gradient(points, row) for row in np.eye(net.outputs)], axis=1)
    return max(operator(J, problem.norm) for J in rows[:40])


class Attack:
    """The counts so far, and the failures."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def one(self, seed: int, enumerate_: bool, deep: bool) -> None:
        rng = np.random.default_rng(seed)
        net = network(rng)
        region = region_of(rng, net.inputs)
        p, q = str(rng.choice(("inf", "2", "1"))), str(rng.choice(("inf", "2", "1")))
        whole = rng.uniform() < 0.2
        problem = Problem.of(net, region, "all" if whole else rng.normal(size=net.outputs), p, q if whole else None)
        floor = largest_seen(problem, points_of(rng, region, net.inputs))
        kinked = all(f.piecewise_linear for f in net.activations)
        if enumerate_ and kinked and isinstance(region, Box) and net.neurons <= 9:
            floor = max(floor, exact_constant(net, region, problem.c, problem.norm))
            self.counts["enumerated"] += 1
        uppers = {
            "product": prove_product(problem).upper,
            "interval": prove_interval(problem).upper,
            "linear": prove_linear(problem).upper,
            "mixed": prove_mixed(problem).upper,
        }
        for method in ("exact", "tight", "auto", LIFTS[int(rng.integers(len(LIFTS)))]) if deep else ():
            try:
                result = lipcert.bound(
                    net,
                    region,
                    output=problem.output,
                    norm=p,
                    output_norm=q if whole else None,
                    method=method,
                    work=0.05,
                    seed=seed,
                )
            except lipcert.LipcertError:
                self.counts[f"{method} refused"] += 1
                continue
            uppers[method] = result.upper
            if result.lower is not None:
                floor = max(floor, result.lower)
            if not lipcert.verify(result.certificate, net).proved:
                self.failures.append(f"seed {seed}: the certificate of {method} is not proved")
        for method, upper in uppers.items():
            self.counts[method] += 1
            if not upper >= floor * (1 - 1e-9):
                self.failures.append(f"seed {seed}: {method} says {upper!r}, but {floor!r} is attained")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--enumerate", type=int, default=50)
    parser.add_argument("--deep", type=int, default=20)
    given = parser.parse_args()
    attack, start = Attack(), time.perf_counter()
    with np.errstate(all="ignore"):
        for k in range(given.first, given.first + given.count):
            attack.one(k, k % given.enumerate == 0, k % given.deep == 0)
            if (k - given.first + 1) % 5000 == 0:
                print(f"{k + 1:,}: {len(attack.failures)} failures, {time.perf_counter() - start:.0f} s", flush=True)
    print(dict(attack.counts))
    for failure in attack.failures[:50]:
        print(failure)
    sys.exit(bool(attack.failures))


if __name__ == "__main__":
    main()
