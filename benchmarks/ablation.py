"""Which lift, with or without values, with which cuts: certified bounds as a Markdown table.

python -m benchmarks.ablation [--rounds R] [NETWORK ...]

"bare" is the relaxation without the rows of proved bounds (McCormick, reach, chords), "none" as built; "pairs" and
"all" (pairs, triples, factors) after R rounds of cuts. A cell whose next solve is expected to take longer than a
minute keeps its last value and is marked with *.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import lipcert
from benchmarks._measure import data_folder
from benchmarks._networks import digit
from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.activations import Activation
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.multipliers import prove
from lipcert.relaxation.cuts import NO_CUTS, separate, with_cuts
from lipcert.relaxation.model import Relaxation, assemble
from lipcert.relaxation.specification import LIFTS, build, plan_specification
from lipcert.rounding import Array
from lipcert.solver.costs import solve_operations
from lipcert.solver.rank_two import Options, solve_rank_two

CUTS: dict[str, tuple[str, ...]] = {"pairs": ("pairs",), "all": ("pairs", "triples", "factors")}
PATIENCE = 60.0  # seconds, for one solve
NEAR = 0.15
BOUNDS = re.compile(r"\b[lh] u|\b[lh] \(1-u\)|hi - z|z - lo|ql|qu - q|wide chord")
NEEDED = (" x - l u >= 0", "h (1-u) - z + x >= 0")

Case = tuple[Network, Box, Array]


def paper(size: int, sparsity: int, seed: int, region: str, activation: Activation | None = None) -> Case:
    net = paper_network(size, sparsity, seed, hidden_layers=2)
    if activation is not None:
        net = Network(net.affines, (activation,) * net.depth)
    return net, paper_region(size, seed, region), np.ones(1)


def random_deep(radius: float, activation: str = "relu") -> Case:
    rng = np.random.default_rng(7)
    sizes = (8, 10, 10, 10, 10, 1)
    weights = [rng.normal(size=(m, n)) * np.sqrt(2 / n) for n, m in zip(sizes, sizes[1:], strict=False)]  # noqa: RUF007
    net = Network.from_weights(weights, [rng.normal(size=len(w)) / 3 for w in weights], activation)
    return net, Box(np.zeros(8), radius), np.ones(1)


def acas(radius: float) -> Case:
    net = lipcert.load(data_folder() / "nets" / "ACASXU_experimental_v2a_1_1.nnet")
    return net, Box(np.zeros(5), radius), np.eye(net.outputs)[0]


def eran() -> Case:
    net = lipcert.load(data_folder() / "nets" / "eran_mnist_relu_3_50.onnx")
    image = digit()
    return net, Box(image, 0.02, (0, 1)), np.eye(net.outputs)[7] - np.eye(net.outputs)[3]


NETWORKS: dict[str, Callable[[], Case]] = {
    "(10,10,10) global": lambda: paper(10, 20, 0, "global"),
    "(10,10,10) local": lambda: paper(10, 20, 0, "local"),
    "(10,10,10) leaky 0.1, global": lambda: paper(10, 20, 0, "global", Activation("leaky_relu", 0.1)),
    "(10,10,10) tanh, local": lambda: paper(10, 20, 0, "local", Activation("tanh")),
    "depth 4, radius 0.3": lambda: random_deep(0.3),
    "(40,40,10) s=20, global": lambda: paper(40, 20, 0, "global"),
    "(40,40,10) s=80, global": lambda: paper(40, 80, 0, "global"),
    "ACAS Xu 1_1, 0.02": lambda: acas(0.02),
    "ERAN 3_50, 0.02": eran,
}


def bounds(relaxation: Relaxation, kinds: tuple[str, ...], rounds: int) -> tuple[list[float], bool]:
    """The certified bound of every round, the first without cuts; whether patience ended it."""
    cuts, found = NO_CUTS, list[float]()
    for _ in range(rounds + 1):
        current = with_cuts(relaxation, cuts)
        problem = current.problem
        if found and Budget.unlimited().expected(solve_operations(problem)) > PATIENCE:
            return found, True
        result = solve_rank_two(problem, Options(tolerance=1e-6))
        found.append(min([prove(current, result.y).upper, *found]))
        if result.X is None:
            break
        own = slice(problem.rows - len(cuts), None)
        slack = (problem.rhs - problem.apply(result.X))[own]
        kept = cuts.kept((result.y[own] > 1e-6 * found[-1]) | (slack < NEAR))
        more = separate(relaxation, result.X, kept, max(200, 2 * problem.size), kinds=kinds)
        if not len(more):
            break
        cuts = kept.joined(more)
    return found, False


def bare(relaxation: Relaxation) -> Relaxation:
    """Without the rows that use proved bounds; x >= 0 and x >= z stay, which need none."""
    kept = [f for f in relaxation.families if not BOUNDS.search(f.name) or f.name.endswith(NEEDED)]
    r = relaxation
    return assemble(r.space, r.problem.objective, kept, r.offset, r.blocks)


def line(title: str, case: Case, rounds: int) -> None:
    problem = Problem.of(*case)
    for name in LIFTS:
        start = time.process_time()
        relaxation = build(problem, replace(plan_specification(problem, name), exclusions=True))
        cells = []
        for kinds in CUTS.values():
            found, cut_short = bounds(relaxation, kinds, rounds)
            cells.append((found, f"{found[-1]:.5g}{'*' if cut_short else ''}"))
        none = f"{cells[0][0][0]:.5g}"
        least = f"{bounds(bare(relaxation), CUTS['pairs'], 0)[0][0]:.5g}"
        texts = [title, name, str(relaxation.space.size), least, none, *(text for _, text in cells)]
        print(f"| {' | '.join(texts)} | {time.process_time() - start:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    arguments = parser.parse_args()
    print("| network | lift | order | bare | none | pairs | all | CPU s |\n|---|---|---|---|---|---|---|---|")
    for title in arguments.networks:
        line(title, NETWORKS[title](), arguments.rounds)


if __name__ == "__main__":
    main()
