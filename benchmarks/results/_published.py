"""The published HR-1 and HR-2 of two hidden layers: which program they belong to, and what the constants are.

The other published values are compared by `lipcert reproduce` and `python -m benchmarks.paper`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks._rows import Measured
from benchmarks._two_layer_program import two_layer_value
from benchmarks.results._case import Case, Question, bracket
from lipcert.paper.entries import paper_network, paper_region, paper_samples
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.witness import sample_points

WORK = 8.0
POINTS = 200_000

# From the authors' repository (github.com/TongCHEN779/CertDNN), file "R code for plots/2_hidden_layer_networks.csv",
# commit 5aa03e7: bounds, shor1 (the paper's HR-1), glob, by size and sparsity, seeds 0, 1, ...
HR1_GLOBAL: dict[tuple[int, int], tuple[float, ...]] = {
    (5, 4): (0.149147, 0.110803, 0.125101, 0.106280, 0.201539, 0.099105, 0.071307, 0.101709, 0.225488, 0.241791),
    (10, 20): (0.929683, 1.299091, 1.135186),
}
# The same file, bounds, shor1, loc, size 5, sparsities 12 and 20, seed 0.
HR1_LOCAL = {12: -3.29e-7, 20: -3.46e-7}
# The same file, bounds, HRs2 (a series that the paper does not name), glob: (size, sparsity, seed).
HRS2_GLOBAL = {(10, 16, 1): 0.800888, (10, 16, 6): 0.475777, (20, 20, 1): 0.514355, (20, 20, 7): 0.700469}


def directions(size: int, sparsity: int, seed: int, published: float) -> Iterable[Measured]:
    """The program of HR-1 with t in [0, 1] and in [-1, 1], and the constant."""
    net, box = paper_network(size, sparsity, seed, 2), paper_region(size, seed, "global")
    question = Question(f"({size},{size},10) s={sparsity} seed {seed}, global", lambda: (net, box, 0, "inf"))
    half, whole = (two_layer_value(net, box, positive=p) for p in (True, False))
    facts: dict[str, float | str] = {"published": published, "t in [0, 1]": half, "t in [-1, 1]": whole}
    yield replace(bracket(question, "auto", WORK), facts=facts)


def samples(size: int, sparsity: int, seed: int, series: str, published: float) -> Iterable[Measured]:
    """The largest gradient at the paper's own 50,000 points."""
    net = paper_network(size, sparsity, seed, 2)
    found = sample_points(Problem.of(net, Everywhere()), paper_samples(size, seed, 2))
    name = f"({size},{size},10) s={sparsity} seed {seed}, global"
    yield Measured(name, f"LBS beside {series}", lower=found.value, facts={"published": published})


def local_zero(sparsity: int, published: float) -> Iterable[Measured]:
    """The smallest gradient in a cube that holds every local box with a centre in the unit cube."""
    x = np.random.default_rng(0).uniform(-0.1, 1.1, (POINTS, 5))
    least = float(np.abs(paper_network(5, sparsity, 0, 2).gradient(x, np.ones(1))).sum(axis=1).min())
    facts: dict[str, float | str] = {"published": published, "smallest of 200,000": least}
    yield Measured(f"(5,5,10) s={sparsity} seed 0, local", "smallest gradient beside HR-1", facts=facts)


def cases() -> list[Case]:
    found = [
        Case(f"directions/({n},{n},10) s={s} seed {k}", "directions", partial(directions, n, s, k, value))
        for (n, s), values in HR1_GLOBAL.items()
        for k, value in enumerate(values)
    ]
    sampled = {(5, 4, 7): ("HR-1", HR1_GLOBAL[5, 4][7])} | {key: ("HRs2", v) for key, v in HRS2_GLOBAL.items()}
    found += [
        Case(f"samples/({n},{n},10) s={s} seed {k}", "directions", partial(samples, n, s, k, *told))
        for (n, s, k), told in sampled.items()
    ]
    found += [
        Case(f"smallest/(5,5,10) s={s} seed 0", "directions", partial(local_zero, s, value))
        for s, value in HR1_LOCAL.items()
    ]
    return found
