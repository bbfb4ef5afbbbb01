"""The literal road at size: building HR-2 of (80,80), building and solving LipOpt-3, HR-1 of (20,20,10).

    python -m benchmarks.literal_build [--parts build,lipopt,hr1] [--sizes 20,40,60,80] [--solvers highs,highs-pdlp]
                                       [--limit 300]

Each line runs in its own process: seconds and peak memory are its own. Networks are the paper's, seed 0, dense.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from benchmarks._measure import run
from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.polynomial.lcep.chain import gradient_polynomial
from lipcert.polynomial.lcep.lipopt import conic, multipliers
from lipcert.polynomial.lcep.literal import hr
from lipcert.polynomial.lcep.methods import literal_bound
from lipcert.polynomial.lcep.products import product_family
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof.polynomials import prove_krivine
from lipcert.solver.conic.conic import solve_conic


def build(size: int) -> str:
    """Model and conic program of literal HR-2, not solved."""
    problem = Problem.of(paper_network(size, 2 * size, 0), paper_region(size, 0, "global"))
    start = time.perf_counter()
    conic = hr(problem, 2)[0].conic().problem
    seconds = time.perf_counter() - start
    return f"HR-2 ({size},{size}) built in {seconds:.2f} s: {conic.rows:,} rows, {conic.columns:,} moments"


def lipopt(size: int, solver: str, limit: float) -> str:
    """LipOpt-3 on the whole space, every product of the dense network."""
    start = time.perf_counter()
    f = gradient_polynomial(Problem.of(paper_network(size, 2 * size, 0), Everywhere()))
    program = product_family(f, 3).program(f)
    built = time.perf_counter() - start
    solution = solve_conic(conic(program), solver, budget=Budget.of_seconds(limit))
    upper = prove_krivine(program, multipliers(program, solution))
    value = program.constant - solution.primal * program.unit
    return (
        f"LipOpt-3 ({size},{size}) {solver}: {program.shape[0]:,} products built in {built:.2f} s, solved in "
        f"{solution.seconds:.1f} s ({solution.status.name}), proved {upper:.6f}, solver's value {value:.6f}"
    )


def hr1(size: int, solver: str, limit: float) -> str:
    """Literal HR-1 of (size, size, 10) on the global box, large sub-moments."""
    problem = Problem.of(paper_network(size, 2 * size, 0, 2), paper_region(size, 0, "global"))
    upper, info = literal_bound(problem, "hr1", solver=solver, budget=Budget.of_seconds(limit))
    return f"HR-1 ({size},{size},10) {info.solver}: proved {upper:.6f} in {info.seconds:.1f} s; {info.status}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="build,lipopt,hr1")
    parser.add_argument("--sizes", default="20,40,60,80")
    parser.add_argument("--solvers", default="highs,highs-pdlp")
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--one", nargs=3, metavar=("PART", "SIZE", "SOLVER"), help="one line, in this process")
    options = parser.parse_args()
    if options.one:
        part, size, solver = options.one[0], int(options.one[1]), options.one[2]
        line = {"build": lambda: build(size), "lipopt": lambda: lipopt(size, solver, options.limit)}.get(
            part, lambda: hr1(size, solver, options.limit)
        )()
        print(f"{line}; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")
        return
    sizes, solvers = options.sizes.split(","), options.solvers.split(",")
    lines = {
        "build": [("build", "80", "-")],
        "lipopt": [("lipopt", size, solver) for size in sizes for solver in solvers],
        "hr1": [("hr1", "10", "clarabel"), ("hr1", "20", "scs"), ("hr1", "20", "clarabel")],
    }
    for part in options.parts.split(","):
        for words in lines[part]:
            command = [sys.executable, "-m", "benchmarks.literal_build", "--limit", str(options.limit), "--one", *words]
            print(run(command).output.strip(), flush=True)


if __name__ == "__main__":
    main()
