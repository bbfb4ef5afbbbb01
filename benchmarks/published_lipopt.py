"""LipOpt-3 and LipOpt-4 on the paper's random networks, against the published values.

    python -m benchmarks.published_lipopt [--sizes 10,20] [--layers 1,2] [--degrees 3,4] [--seeds 10] [--limit 120]
                                          [--jobs 2] [--solver auto]

For every cell the proved bound and the published value. A cell is skipped, and listed, when its linear program has
more than --products products; one that runs into --limit seconds keeps its (looser) proved bound and is listed.
LipOpt-4 at sparsity 4 was published with monomials missing: listed apart, never compared. Where a cell of one hidden
layer differs, the largest gradient over all slopes of the unstable neurons is printed too, found by alternation: no
LipOpt program of these neurons can prove less.
"""

from __future__ import annotations

import argparse
import csv
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from benchmarks._measure import reference_folder
from lipcert.bounds.propagation import Interval, preactivation_bounds
from lipcert.budget import Budget
from lipcert.paper.networks import paper_network, paper_region
from lipcert.polynomial.lcep.chain import gradient_polynomial
from lipcert.polynomial.lcep.lipopt import lipopt_program
from lipcert.problem.problem import Problem
from lipcert.proof.krivine import prove_krivine
from lipcert.solver.conic.conic import solve_conic

FILES = {1: "one_hidden_layer.csv", 2: "two_hidden_layers.csv"}


@dataclass(frozen=True)
class Cell:
    layers: int
    region: str
    degree: int
    size: int
    sparsity: int
    seed: int
    published: float
    limit: float
    products: int
    solver: str


@dataclass(frozen=True)
class Answer:
    cell: Cell
    upper: float
    products: int
    seconds: float
    status: str

    @property
    def difference(self) -> float:
        return self.upper - self.cell.published


def cells(options: argparse.Namespace) -> list[Cell]:
    sizes, degrees = _numbers(options.sizes), _numbers(options.degrees)
    found = []
    for layers in sorted(_numbers(options.layers)):
        with open(reference_folder() / FILES[layers], newline="") as file:
            rows = [r for r in csv.DictReader(file) if r["method"].startswith("LipOpt")]
        for r in rows:
            degree, size, seed = int(r["method"][-1]), int(r["size"]), int(r["seed"])
            if degree in degrees and size in sizes and seed < options.seeds:
                key = (layers, r["region"], degree, size, int(r["sparsity"]), seed)
                found.append(Cell(*key, float(r["bound"]), options.limit, options.products, options.solver))
    return sorted(found, key=lambda c: (c.degree, c.layers, c.size, c.sparsity, c.seed))


def solve(cell: Cell) -> Answer:
    net = paper_network(cell.size, cell.sparsity, cell.seed, cell.layers)
    region = paper_region(cell.size, cell.seed, cell.region)
    start = time.perf_counter()
    pre = None
    if cell.region == "global":  # published with every slope in [0, 1], also where signs of weights fix a neuron
        pre = tuple(Interval(np.full(a.outputs, -np.inf), np.full(a.outputs, np.inf)) for a in net.affines[:-1])
    program = lipopt_program(gradient_polynomial(Problem.of(net, region), pre), cell.degree)
    if program.shape[0] > cell.products:
        return Answer(cell, np.nan, program.shape[0], time.perf_counter() - start, "skipped")
    solution = solve_conic(program.conic(), cell.solver, budget=Budget.of_seconds(cell.limit))
    upper = prove_krivine(program, program.multipliers(solution))
    return Answer(cell, upper, program.shape[0], time.perf_counter() - start, solution.status.name)


def largest_pattern(cell: Cell, starts: int = 2000) -> float:
    """max |A' (u * c)|_1 over the slopes that the bounds leave open: t = sign(M u), u = [M't > 0] until it rests."""
    net, region = paper_network(cell.size, cell.sparsity, cell.seed), paper_region(cell.size, cell.seed, cell.region)
    z = preactivation_bounds(net, region)[0]
    free = (z.lo < 0) & (z.hi > 0) if cell.region == "local" else np.ones(len(z.lo), dtype=bool)
    M = sparse.csr_array(net.affines[0].weight).toarray().T * sparse.csr_array(net.affines[1].weight).toarray()[0]
    fixed, open_ = M[:, (z.lo >= 0) & ~free].sum(axis=1)[:, None], M[:, free]
    u = np.random.default_rng(0).random((open_.shape[1], starts)) < 0.5
    while True:
        t = np.where(fixed + open_ @ u >= 0, 1.0, -1.0)
        better = open_.T @ t > 0
        if np.array_equal(better, u):
            return float(np.abs(fixed + open_ @ u).sum(axis=0).max())
        u = better


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="10,20")
    parser.add_argument("--layers", default="1,2")
    parser.add_argument("--degrees", default="3,4")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--products", type=int, default=1_000_000)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    answers = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for answer in pool.map(solve, cells(options)):  # a line per cell: the whole table takes hours
            answers.append(answer)
            _line(answer)
    print("layers region size degree: cells solved/all, largest and median |ours - published|, within 1e-4, seconds")
    groups = sorted({(a.cell.layers, a.cell.region, a.cell.size, a.cell.degree) for a in answers})
    for group in groups:
        _summary(group, [a for a in answers if _group(a) == group])


def _line(answer: Answer) -> None:
    c = answer.cell
    print(
        f"LipOpt-{c.degree} layers {c.layers} {c.region} size {c.size} s={c.sparsity} seed {c.seed}: "
        f"{answer.upper:.6f}, published {c.published:.6f}, {answer.difference:+.1e}, {answer.products:,} products, "
        f"{answer.seconds:.1f} s, {answer.status}",
        flush=True,
    )


def _summary(group: tuple[int, str, int, int], answers: list[Answer]) -> None:
    missing = [a for a in answers if a.cell.degree == 4 and a.cell.sparsity == 4]
    solved = [a for a in answers if a.status == "OPTIMAL" and a not in missing]
    if solved:
        off = np.abs([a.difference for a in solved])
        seconds = [a.seconds for a in solved]
        print(
            f"{group[0]} {group[1]} {group[2]} LipOpt-{group[3]}: {len(solved)}/{len(answers) - len(missing)}, "
            f"{off.max():.1e} {np.median(off):.1e}, {(off <= 1e-4).mean():.1%}, "
            f"median {np.median(seconds):.2f} s, largest {max(seconds):.1f} s"
        )
    for a in answers:
        c = a.cell
        where = f"  s={c.sparsity} seed {c.seed}: ours {a.upper:.6f}, published {c.published:.6f}"
        if a in missing:
            print(f"{where} (monomials missing in the published value), {a.status}")
        elif a.status != "OPTIMAL" or abs(a.difference) > 1e-4:
            least = f", at least {largest_pattern(c):.6f}" if c.layers == 1 else ""
            print(f"{where}{least}, {a.products:,} products, {a.seconds:.0f} s, {a.status}")


def _group(answer: Answer) -> tuple[int, str, int, int]:
    c = answer.cell
    return c.layers, c.region, c.size, c.degree


def _numbers(text: str) -> set[int]:
    return {int(part) for part in text.split(",")}


if __name__ == "__main__":
    main()
