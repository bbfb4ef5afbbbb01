"""What is wrong in the published numbers, each recomputed: see docs/reproduction.md.

    python -m benchmarks.published_faults [directions] [monomials] [statistics] [optimum] [slopes] [witness] [--slow]

    directions  two hidden layers: HR-1 was computed with t in [0, 1]
    monomials   LipOpt-4 at sparsity 4 lies below the constant
    statistics  Table 1 (left) mixes means over ten networks with values of one network
    optimum     HR-2 values below the optimum of their own program
    slopes      local LipOpt-4 of size 20 that is not the optimum (--slow solves the linear programs too)
    witness     the global value of the trained network (784, 500) lies below a gradient norm in its box

`monomials`, `optimum` and `slopes` need the published values (../shared/reference or LIPCERT_REFERENCE), `witness` the
paper's network (../shared/data or LIPCERT_DATA). The values of two hidden layers and of Tables 1 and 2 are below.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from benchmarks._measure import data_folder, reference_folder
from benchmarks._two_layer_program import two_layer_value
from benchmarks.published_lipopt import Cell, largest_pattern, solve
from lipcert import Box, bound, load
from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.method.result import Result
from lipcert.paper.networks import paper_network, paper_region, paper_samples
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof.multipliers import prove
from lipcert.readers.mat import read_center
from lipcert.relaxation.build import build
from lipcert.relaxation.specification import plan_specification
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.witness import evaluate, sample_points, search

ONE = np.ones(1)
SECONDS = 8.0
WORK = 30.0  # of the search for a witness, in nominal seconds
DIGITS = 1e-5  # more than the published six decimals can be off

# Of the authors' repository (github.com/TongCHEN779/CertDNN), file "R code for plots/2_hidden_layer_networks.csv",
# commit 5aa03e7: bounds, shor1 (the paper's HR-1), glob, by size and sparsity, seeds 0, 1, ...
HR1_GLOBAL: dict[tuple[int, int], tuple[float, ...]] = {
    (5, 4): (0.149147, 0.110803, 0.125101, 0.106280, 0.201539, 0.099105, 0.071307, 0.101709, 0.225488, 0.241791),
    (10, 20): (0.929683, 1.299091, 1.135186),
}
# The same file, bounds, shor1, loc, size 5, sparsities 12 and 20, seed 0.
HR1_LOCAL = {12: -3.29e-7, 20: -3.46e-7}
# The same file, bounds, HRs2 (a series that the paper does not name), glob: (size, sparsity, seed).
HRS2_GLOBAL = {(10, 16, 1): 0.800888, (10, 16, 6): 0.475777, (20, 20, 1): 0.514355, (20, 20, 7): 0.700469}
# Table 1 of the paper, (80, 80), global.
SPARSITIES = (20, 40, 60, 80)
TABLE_1 = {"HR-2": (1.45, 2.05, 2.41, 2.68), "LBS": (1.05, 1.56, 1.65, 1.86)}
# Table 2 of the paper, global.
TABLE_2 = 14.56


def directions() -> None:
    print("two hidden layers, global: the program of HR-1 with t in [0, 1] and in [-1, 1], and the constant")
    refuted = 0
    for (size, sparsity), values in HR1_GLOBAL.items():
        for seed, published in enumerate(values):
            net, box = paper_network(size, sparsity, seed, 2), paper_region(size, seed, "global")
            half, whole = (two_layer_value(net, box, positive=p) for p in (True, False))
            found = bound(net, box, method="tight", time_limit=SECONDS)
            below = _below(published, found)
            refuted += bool(below)
            print(
                f"  ({size},{size},10) s={sparsity} seed {seed}: published {published:.6f}, t in [0,1] {half:.6f}, "
                f"t in [-1,1] {whole:.6f}, constant in [{found.lower:.6f}, {found.upper:.6f}]{below}",
                flush=True,
            )
    print(f"  {refuted} published values lie below a gradient norm in the box; at the paper's own 50,000 points:")
    for (size, sparsity, seed), published in {(5, 4, 7): HR1_GLOBAL[5, 4][7], **HRS2_GLOBAL}.items():
        sampled = _sampled(paper_network(size, sparsity, seed, 2), paper_samples(size, seed, 2))
        print(f"  ({size},{size},10) s={sparsity} seed {seed}: published {published:.6f}, sampled {sampled:.6f}")
    for sparsity, published in HR1_LOCAL.items():
        x = np.random.default_rng(0).uniform(-0.1, 1.1, (200_000, 5))
        least = np.abs(paper_network(5, sparsity, 0, 2).gradient(x, ONE)).sum(axis=1).min()
        print(
            f"  (5,5,10) s={sparsity} seed 0, local: published {published:.1e}; the smallest gradient norm of 200,000 "
            f"points of [-0.1, 1.1]^5 is {least:.4f}"
        )


def monomials() -> None:
    print("LipOpt-4, s = 4, one hidden layer, size 10: published against the constant")
    below, worst = 0, 0.0
    rows = list(_published("LipOpt-4", 10, {4}))
    for region, sparsity, seed, published in rows:
        found = bound(paper_network(10, sparsity, seed), paper_region(10, seed, region), time_limit=SECONDS)
        mark = _below(published, found)
        below += bool(mark)
        worst = max(worst, 1 - published / (found.lower or np.inf))
        print(f"  {region} seed {seed}: published {published:.6f}, constant in {_bracket(found)}{mark}", flush=True)
    print(f"  {below} of {len(rows)} published values lie below a gradient norm, by up to {worst:.1%}")


def statistics() -> None:
    print("Table 1, (80,80), global: network 0 and the mean of ten, recomputed")
    for sparsity, printed_hr2, printed_lbs in zip(SPARSITIES, TABLE_1["HR-2"], TABLE_1["LBS"], strict=True):
        nets = [paper_network(80, sparsity, seed) for seed in range(10)]
        boxes = [paper_region(80, seed, "global") for seed in range(10)]
        uppers = [bound(net, box, method="hr2", lower=False).upper for net, box in zip(nets, boxes, strict=True)]
        lowers = [_sampled(net, paper_samples(80, seed)) for seed, net in enumerate(nets)]
        print(
            f"  s={sparsity}: HR-2 printed {printed_hr2}, network 0 {uppers[0]:.4f}, mean {np.mean(uppers):.4f}; "
            f"LBS printed {printed_lbs}, network 0 {lowers[0]:.4f}, mean {np.mean(lowers):.4f}",
            flush=True,
        )


def optimum() -> None:
    print("HR-2, (80,80), s = 50, 60, 80: published values outside [primal value, certified bound] by more than 1e-3")
    for region, sparsity, seed, published in _published("HR-2", 80, {50, 60, 80}):
        net = paper_network(80, sparsity, seed)
        problem = Problem.of(net, paper_region(80, seed, region))
        relaxation = build(problem, plan_specification(problem, "hr2"))
        with threads_for(0):
            result = solve_rank_two(relaxation.problem, Options())
            upper = prove(relaxation, result.y).upper
        side = "below the optimum" if published < result.primal else "above a certified bound"
        if published < result.primal - 1e-3 or published > upper + 1e-3:
            print(f"  {region} s={sparsity} seed {seed}: {published:.6f}, [{result.primal:.6f}, {upper:.6f}]: {side}")


def slopes(slow: bool) -> None:
    print("LipOpt-4, local, size 20: published against the largest gradient over the slopes that the program allows")
    below = above = 0
    for region, sparsity, seed, published in _published("LipOpt-4", 20, {8, 16, 24, 32, 40}):
        if region == "global":
            continue
        cell = Cell(1, region, 4, 20, sparsity, seed, published, 600.0, 2_000_000, "auto")
        attained = largest_pattern(cell)
        below, above = below + (published < attained - 1e-4), above + (published > attained + 1e-4)
        if abs(published - attained) > 1e-4:
            own = f", its program proves {solve(cell).upper:.6f}" if slow else ""
            print(f"  s={sparsity} seed {seed}: published {published:.6f}, attained {attained:.6f}{own}", flush=True)
    print(f"  {below} below what slopes of the program attain, {above} above it")


def witness() -> None:
    print(f"trained network (784, 500), box of radius 10 around x00: published upper bound {TABLE_2}")
    file = data_folder() / "sdp_nn" / "sdp_nn_paper.mat"
    net, center = load(file), read_center(file)
    if center is None:
        raise SystemExit(f"{file}: no centre x00 in it")
    for radius in (2.0, 10.0):
        problem = Problem.of(net, Box(center, radius))
        found = search(problem, Budget.of_work(WORK), seed=0)
        point = found.point  # 784 float64 numbers; `evaluate` proves the norm from them alone
        distance = np.abs(point - center).max()
        print(
            f"  searched within {radius:g}, seed 0: gradient of norm {evaluate(problem, point):.6f} "
            f"at distance {distance:.4f} ({found.method})",
            flush=True,
        )


def _sampled(net: Network, points: Iterable[Array]) -> float:
    """The largest gradient norm at the points."""
    return sample_points(Problem.of(net, Everywhere()), points).value


def _below(published: float, found: Result) -> str:
    below = found.lower is not None and found.lower > published + DIGITS
    return "  <- published is below a gradient norm" if below else ""


def _bracket(found: Result) -> str:
    return f"[{found.lower:.6f}, {found.upper:.6f}]"


def _published(method: str, size: int, sparsities: set[int]) -> Iterator[tuple[str, int, int, float]]:
    with open(reference_folder() / "one_hidden_layer.csv", newline="") as file:
        for r in csv.DictReader(file):
            if r["method"] == method and int(r["size"]) == size and int(r["sparsity"]) in sparsities:
                yield r["region"], int(r["sparsity"]), int(r["seed"]), float(r["bound"])


def main() -> None:
    parser = argparse.ArgumentParser()
    names = ["directions", "monomials", "statistics", "optimum", "slopes", "witness"]
    parser.add_argument("parts", nargs="*", default=names, metavar="part", help=", ".join(names))
    parser.add_argument("--slow", action="store_true", help="solve the linear programs of `slopes`")
    options = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "directions": directions,
        "monomials": monomials,
        "statistics": statistics,
        "optimum": optimum,
        "slopes": lambda: slopes(options.slow),
        "witness": witness,
    }
    for name in options.parts:
        if name not in parts:
            parser.error(f"unknown part {name!r}; expected some of {', '.join(names)}")
        parts[name]()


if __name__ == "__main__":
    main()
