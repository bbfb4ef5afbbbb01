"""HR-2 and SHOR of the paper's one-hidden-layer networks, cell by cell, beside the published values.

    python -m benchmarks.published_relaxations [--sizes 10,20,40,80] [--seeds 10] [--jobs 2] [--no-chords | --literal]

For every cell: the certified bound, the primal value of the same semidefinite program (so that the optimum is
bracketed), and the published value. Differences above 1e-3 are listed with both values: a published value below the
primal value lies below the optimum. --literal takes the paper's own formulation and a general conic solver instead,
which has no primal value here.
"""

from __future__ import annotations

import argparse
import csv
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from benchmarks._measure import reference_folder
from lipcert.budget.threads import threads_for
from lipcert.paper.entries import paper_network, paper_region
from lipcert.polynomial.lcep.methods import literal_bound
from lipcert.problem.problem import Problem
from lipcert.proof.multipliers import prove
from lipcert.relaxation.specification import build, plan_specification
from lipcert.solver.rank_two import Options, solve_rank_two


@dataclass(frozen=True)
class Cell:
    region: str
    method: str
    size: int
    sparsity: int
    seed: int
    published: float
    chords: bool | None
    literal: bool = False


@dataclass(frozen=True)
class Answer:
    cell: Cell
    upper: float
    primal: float
    seconds: float


def cells(sizes: set[int], chords: bool | None, literal: bool) -> list[Cell]:
    with open(reference_folder() / "one_hidden_layer.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["method"] in ("HR-2", "SHOR") and int(r["size"]) in sizes]
    rows.sort(key=lambda r: (int(r["size"]), int(r["sparsity"]), int(r["seed"])))
    return [
        Cell(
            r["region"],
            r["method"],
            int(r["size"]),
            int(r["sparsity"]),
            int(r["seed"]),
            float(r["bound"]),
            chords,
            literal,
        )
        for r in rows
    ]


def solve(cell: Cell) -> Answer:
    net = paper_network(cell.size, cell.sparsity, cell.seed)
    problem = Problem.of(net, paper_region(cell.size, cell.seed, cell.region))
    start, method = time.perf_counter(), cell.method.replace("-", "").lower()
    if cell.literal:
        with threads_for(0):
            upper, _ = literal_bound(problem, method)
        return Answer(cell, upper, np.nan, time.perf_counter() - start)
    plan = plan_specification(problem, method)
    relaxation = build(problem, plan if cell.chords is None else replace(plan, wide=cell.chords))
    with threads_for(0):
        result = solve_rank_two(relaxation.problem, Options())
        upper = prove(relaxation, result.y).upper
    return Answer(cell, upper, result.primal, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="10,20,40,80")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-chords", action="store_true", help="HR-2 without the chord rows")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--literal", action="store_true", help="as the paper states them, by a conic solver")
    options = parser.parse_args()
    work = cells({int(s) for s in options.sizes.split(",")}, False if options.no_chords else None, options.literal)
    work = [cell for cell in work if cell.seed < options.seeds]
    answers = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for a in pool.map(solve, work, chunksize=1 if options.literal else 4):
            answers.append(a)
            c = a.cell
            if options.literal:  # slow: a line per cell
                print(
                    f"{c.method} {c.region} ({c.size},{c.size}) s={c.sparsity} seed {c.seed}: {a.upper:.6f}, "
                    f"published {c.published:.6f}, {a.upper - c.published:+.1e}, {a.seconds:.1f} s",
                    flush=True,
                )
    for region in ("global", "local"):
        for method in ("HR-2", "SHOR"):
            _summary(region, method, [a for a in answers if (a.cell.region, a.cell.method) == (region, method)])


def _summary(region: str, method: str, answers: list[Answer]) -> None:
    if not answers:
        return
    differences = np.array([a.cell.published - a.upper for a in answers])
    gaps = np.array([(a.upper - a.primal) / a.upper for a in answers])
    seconds = np.array([a.seconds for a in answers])
    print(
        f"\n{region} {method}: {len(answers)} cells; |published - ours| <= {np.abs(differences).max():.1e}, "
        f"median {np.median(np.abs(differences)):.1e}; within 1e-3: {(np.abs(differences) <= 1e-3).mean():.1%}, "
        f"within 2e-3: {(np.abs(differences) <= 2e-3).mean():.1%}; relative duality gap <= {gaps.max():.1e}; "
        f"seconds median {np.median(seconds):.2f}, largest {seconds.max():.2f}"
    )
    for a in answers:
        if abs(a.cell.published - a.upper) > 1e-3:
            word = "published is below the optimum" if a.cell.published < a.primal else "published is above ours"
            word = "literal, differs" if a.cell.literal else word
            c = a.cell
            print(
                f"  ({c.size},{c.size}) s={c.sparsity} seed {c.seed}: published {c.published:.6f}, "
                f"optimum in [{a.primal:.6f}, {a.upper:.6f}]: {word}"
            )


if __name__ == "__main__":
    main()
